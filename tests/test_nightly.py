"""What a job that learns every night needs: where a model comes from, and what to ask of it."""

import hashlib
import json
import shlex

import numpy as np
import pytest
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from boostmetric import BoostMetric, MahalanobisMetric, __version__
from boostmetric.cli import app
from test_model_file import FIXTURE

runner = CliRunner()
QUICK = ["--init", "standardized", "--passes", "1", "--max-iter", "8", "--quiet"]


def run(*arguments, code=0):
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


@pytest.fixture
def points(tmp_path):
    X, y = load_wine(return_X_y=True)
    np.savez(tmp_path / "wine.npz", X=X, y=y, split=np.arange(len(y)) % 3)
    return tmp_path / "wine.npz"


def origin_of(path):
    return MahalanobisMetric.load(path).about["origin"]


def test_a_model_says_where_it_comes_from(points, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    model = tmp_path / "m.st"
    other = tmp_path / "other.npz"
    other.write_bytes(points.read_bytes())
    arguments = [
        "fit",
        points,
        "--label",
        "y",
        "--where",
        "split=0",
        "--validation",
        other,
        "--ignore",
        "split",
        *QUICK,
    ]
    found = json.loads(run(*arguments, "-o", model, "--tag", "Thursday's", "--json", "--jobs", "1").stdout)
    metric = MahalanobisMetric.load(model)
    origin = metric.about["origin"]
    assert origin["date"] == "1970-01-02T00:00:00Z"
    assert origin["tag"] == "Thursday's"
    assert origin["versions"]["numpy"] == np.__version__
    digest = hashlib.sha256(points.read_bytes()).hexdigest()
    size = points.stat().st_size
    assert origin["files"] == [
        {"name": str(points), "role": "points", "bytes": size, "sha256": digest, "where": ["split=0"]},
        {"name": str(other), "role": "validation", "bytes": size, "sha256": digest},
    ]
    assert metric.about["scores"]["evaluation"] == found["evaluation"]
    assert metric.about["data"] == found["data"]
    # The command, as it would be typed again, gives the same numbers.
    program, *typed = shlex.split(origin["command"])
    assert program == "boostmetric"
    assert not {"--jobs", "-o", "--output", "--json", "--quiet"} & set(typed)
    run(*typed, "-o", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == model.read_bytes()


def test_the_date_is_that_of_the_fit(points, tmp_path, monkeypatch):
    from datetime import UTC, datetime, timedelta

    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    run("fit", points, "--label", "y", "--ignore", "split", "-o", tmp_path / "m", *QUICK)
    date = datetime.strptime(origin_of(tmp_path / "m")["date"], "%Y-%m-%dT%H:%M:%S%z")
    assert timedelta(0) <= datetime.now(UTC) - date < timedelta(minutes=10)


def test_a_model_does_not_depend_on_the_number_of_threads(points, tmp_path):
    arguments = ["fit", points, "--label", "y", "--ignore", "split", *QUICK]
    for jobs in (1, 2):
        run(*arguments, "--jobs", jobs, "-o", tmp_path / f"{jobs}.st")
    assert (tmp_path / "1.st").read_bytes() == (tmp_path / "2.st").read_bytes()
    X, y = load_wine(return_X_y=True)
    for jobs in (1, 2):
        BoostMetric(n_jobs=jobs, verbose=jobs - 1, n_passes=1, max_iter=5).fit(X, y).save(tmp_path / f"{jobs}")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_info(points, tmp_path):
    model = tmp_path / "m.st"
    run("fit", points, "--label", "y", "--ignore", "split", "-o", model, "--tag", "v7", *QUICK)
    text = run("info", model, "--features").stdout
    for part in (
        f"{model}, {model.stat().st_size:,} bytes, SHA-256 {hashlib.sha256(model.read_bytes()).hexdigest()}",
        "13 features to 13 dimensions",
        "points 178",
        "Validation error",
        "v7",
        f"boostmetric fit {points} --label y",
        f"{points} (points, {points.stat().st_size:,} bytes, SHA-256 {origin_of(model)['files'][0]['sha256'][:16]}...)",
        f"boostmetric {__version__}, ",
        "without names",
    ):
        assert part in text
    found = json.loads(run("info", model, "--json").stdout)
    metric = MahalanobisMetric.load(model)
    assert found["about"] == metric.about
    assert (found["rank"], found["n_features"]) == metric.components.shape


def test_info_of_models_that_say_less(tmp_path):
    assert "3 features to 2 dimensions" in run("info", FIXTURE).stdout  # of the first version
    MahalanobisMetric([[1.0]], about={"origin": {"files": [{}, 3], "date": 7}, "scores": [], "data": "none"}).save(
        tmp_path / "m"
    )
    text = run("info", tmp_path / "m").stdout
    assert "None (file, size unknown)" in text
    assert "Date" in text
    assert "There is no model file" in run("info", tmp_path / "no", code=1).stderr
    result = run("info", tmp_path / "points.csv", code=2)
    assert "is not a model but a table" in " ".join(result.stderr.replace("│", " ").split())


@pytest.fixture
def tables(tmp_path):
    """A table with named columns, and the same with its columns in another order."""
    X, y = load_wine(return_X_y=True)
    names = [f"f{column}" for column in range(13)]
    for name, order in (("one", list(range(13))), ("other", list(range(13))[::-1])):
        rows = [
            ",".join([*map(str, row), f"class {label}"]) for row, label in zip(X[:, order].tolist(), y, strict=True)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join([",".join([*(names[i] for i in order), "kind"]), *rows]) + "\n")
    return tmp_path


def test_a_fit_starts_from_an_earlier_model(tables, monkeypatch):
    run("fit", tables / "one.csv", "--label", "kind", "-o", tables / "yesterday.st", *QUICK)
    yesterday = MahalanobisMetric.load(tables / "yesterday.st")
    more = ["--passes", "1", "--max-iter", "4", "--quiet", "--setting", "paper", "--init", tables / "yesterday.st"]
    for name in ("one", "other"):
        model = tables / f"{name}.st"
        found = json.loads(run("fit", tables / f"{name}.csv", "--label", "kind", "-o", model, *more, "--json").stdout)
        assert found["chosen"]["init"] == "given metric"
        metric = MahalanobisMetric.load(model)
        digest = hashlib.sha256((tables / "yesterday.st").read_bytes()).hexdigest()
        assert metric.about["origin"]["files"][1]["role"] == "init"
        assert metric.about["origin"]["files"][1]["sha256"] == digest
        # The first direction is the start itself, with a weight, for features in this order.
        start = yesterday.reorder(metric.feature_names)
        share = metric.directions[: len(start.components)] / np.linalg.norm(
            metric.directions[: len(start.components)], axis=1, keepdims=True
        )
        rows = start.components / np.linalg.norm(start.components, axis=1, keepdims=True)
        assert np.allclose(abs(share), abs(rows))
    one, other = (MahalanobisMetric.load(tables / f"{name}.st") for name in ("one", "other"))
    assert np.allclose(other.reorder(one.feature_names).matrix, one.matrix, rtol=1e-6)


def test_an_earlier_model_is_a_candidate(tables):
    run("fit", tables / "one.csv", "--label", "kind", "-o", tables / "yesterday.st", "--max-iter", "30", "--quiet")
    arguments = ["fit", tables / "one.csv", "--label", "kind", "--init", tables / "yesterday.st", "--max-iter", "3"]
    text = run(*arguments, "-o", tables / "today.st", "--quiet").stdout
    assert "given metric" in text


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ([f"f{column}" for column in range(12)], "was learned from 12 features, not from the 13 of the data"),
        ([*(f"f{column}" for column in range(12)), "weight"], "'weight', which are not among those of the data"),
    ],
)
def test_an_earlier_model_of_other_features_is_refused(tables, features, said):
    MahalanobisMetric(np.eye(len(features)), feature_names=features).save(tables / "yesterday.st")
    arguments = ["fit", tables / "one.csv", "--label", "kind", "--init", tables / "yesterday.st", "-o", tables / "new"]
    assert said in run(*arguments, code=1).stderr
    assert "There is no model file" in run(*arguments[:-3], "nothing.safetensors", "-o", tables / "new", code=1).stderr
