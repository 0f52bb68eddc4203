"""Options of commands in a TOML file."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from boostmetric import MahalanobisMetric
from boostmetric.cli import app


@pytest.fixture(autouse=True)
def wine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = load_wine(return_X_y=True)
    np.savez("wine.npz", X=X, kind=y, part=np.arange(len(y)) % 3)


def run(*arguments, code=0):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return done


def written(tmp_path, text):
    (tmp_path / "nightly.toml").write_text(text)
    return "nightly.toml"


FIT = """
[fit]
points = ["wine.npz"]
label = "kind"
where = "part!=2"
ignore = ["part"]
output = "model.st"
max-iter = 4
setting = "paper"
normalize = true
quiet = true

[evaluate]
json = true
"""


def test_options_come_from_the_file(tmp_path):
    config = written(tmp_path, FIT)
    run("--config", config, "fit")
    metric = MahalanobisMetric.load("model.st")
    assert metric.about["estimator"]["parameters"]["max_iter"] == 4
    assert metric.about["data"]["n_points"] + metric.about["data"].get("n_held_out", 0) <= 119
    more = ["--label", "kind", "--ignore", "part", "--where", "part=2"]
    assert json.loads(run("--config", config, "evaluate", "model.st", "wine.npz", *more).stdout)["n_asked"] == 59


def test_what_is_typed_goes_first_and_all_is_recorded(tmp_path):
    run("--config", written(tmp_path, FIT), "fit", "--max-iter", "2", "-o", "other.st")
    metric = MahalanobisMetric.load("other.st")
    assert metric.about["estimator"]["parameters"]["max_iter"] == 2
    command = metric.about["origin"]["command"]
    for option in (
        "boostmetric fit ",
        " wine.npz",
        "--label kind",
        "--where 'part!=2'",
        "--setting paper",
        "--normalize",
        "--max-iter 2",
    ):
        assert option in command


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[fit]\nlable = 'kind'\n", "[fit]: there is no option 'lable'. Is 'label' meant?"),
        ("[fitt]\n", "has 'fitt' at its top, where only tables of options belong, named like a command: [demo], [fit]"),
        ("label = 'kind'\n", "has 'label' at its top"),
        ("[fit\n", "nightly.toml is not TOML: "),
        ("[fit]\nmax_iter = 'many'\n", "Invalid value for '--max-iter'"),
    ],
)
def test_messages(tmp_path, text, said):
    result = run("--config", written(tmp_path, text), "fit", "wine.npz", "-o", "m.st", code=2)
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_a_missing_file_is_named():
    result = run("--config", "nothing.toml", "fit", code=2)
    assert "nothing.toml: No such file or directory." in " ".join(result.stderr.replace("│", " ").split())
