"""Drift of points, and ``boostmetric watch``."""

import json
import re

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import ks_2samp
from typer.testing import CliRunner

from boostmetric import MahalanobisMetric
from boostmetric.cli import app
from boostmetric.evaluation import Drift, drift
from boostmetric.evaluation.drift import _between

KINDS = ("lengths", "spectrum", "neighbors")


def points(n, seed, n_features=6):
    return np.random.default_rng(seed).standard_normal((n, n_features)) * np.linspace(2, 0.5, n_features)


def drifted(new, reference, metric=None, **options):
    found = drift(metric or MahalanobisMetric(np.eye(new.shape[1])), new, reference, **options)
    assert tuple(one.name for one in found) == KINDS
    return [one.name for one in found if one.has_drifted]


@pytest.mark.parametrize("seed", range(3))
def test_points_of_the_same_kind_have_not_drifted(seed):
    assert drifted(points(300, seed), points(900, 100 + seed)) == []


def test_what_changes_is_what_drifts():
    new, reference = points(300, 0), points(900, 1)
    assert "lengths" in drifted(1.5 * new, reference)
    turned = new[:, ::-1]  # of the same lengths, along other axes
    assert drifted(turned, reference) == ["spectrum", "neighbors"]
    assert drifted(new + np.eye(6)[0] * 3, reference) == list(KINDS)
    # A feature that the metric ignores does not matter to it.
    ignored = MahalanobisMetric(np.eye(6)[1:])
    assert drifted(new + np.eye(6)[0] * 3, reference, ignored) == ["lengths"]


def test_new_points_between_the_old_ones_have_other_neighbors():
    rng = np.random.default_rng(0)
    corners = rng.standard_normal((40, 8))
    reference, new = (corners[rng.integers(40, size=n)] + 0.01 * rng.standard_normal((n, 8)) for n in (900, 300))
    assert drifted(new, reference) == []
    half = (corners[rng.integers(40, size=300)] + corners[rng.integers(40, size=300)]) / np.sqrt(2)
    assert "neighbors" in drifted(half, reference)


def test_small_differences_are_tolerated_however_certain():
    new, reference = 1.05 * points(2000, 0), points(4000, 1)
    found = drift(MahalanobisMetric(np.eye(6)), new, reference, tolerance=0.5)
    assert not any(one.has_drifted for one in found)
    assert Drift("lengths", 0.2, 0.1, 0.1).has_drifted
    assert not Drift("lengths", 0.2, 0.1, 0.3).has_drifted
    assert not Drift("lengths", 0.2, 0.25, 0.1).has_drifted


def test_the_order_of_rows_and_the_format_do_not_matter_much():
    new, reference = points(300, 0), points(900, 1)
    metric = MahalanobisMetric(np.eye(6))
    dense = drift(metric, new, reference)
    assert drift(metric, new, reference) == dense
    thin = drift(metric, sparse.csr_array(new), sparse.csr_array(reference))
    assert [one.value for one in thin] == pytest.approx([one.value for one in dense])


def test_the_statistic_is_that_of_kolmogorov_and_smirnov():
    first, second = np.random.default_rng(0).integers(20, size=(2, 50)).astype(float)
    assert _between(first, second) == pytest.approx(ks_2samp(first, second).statistic)


def test_constant_points_have_a_spectrum_too():
    assert drifted(np.ones((50, 2)), np.ones((90, 2))) == []


def test_messages():
    metric = MahalanobisMetric(np.eye(6))
    with pytest.raises(ValueError, match="9 new points and 90 of the reference are too few"):
        drift(metric, points(9, 0), points(90, 1))
    with pytest.raises(ValueError, match="X have 6 features and reference 2"):
        drift(metric, points(50, 0), points(90, 1, 2))
    with pytest.raises(TypeError, match="Got None"):
        drift(None, points(50, 0), points(90, 1))
    with pytest.raises(ValueError, match="tolerance"):
        drift(metric, points(50, 0), points(90, 1), tolerance=-1)


# the command


@pytest.fixture
def learned(tmp_path):
    """A model of points with labels, and a command that watches it."""
    rng = np.random.default_rng(0)

    def write(name, X, y):
        np.savez(tmp_path / name, X=X, kind=y)

    y = np.arange(600) % 3
    X = rng.standard_normal((600, 5))
    X[:, 0] = 0.3 * X[:, 0] + y
    X[:, 1] *= 5
    write("train.npz", X[:400], y[:400])
    write("new.npz", X[400:], y[400:])
    write("far.npz", X[400:] + 9, y[400:])
    write("wrong.npz", X[400:] @ np.diag([0, 1, 1, 1, 1]), np.digitize(X[400:, 1], [-2, 2]))
    run("fit", "train.npz", "--label", "kind", "-o", "m.st", "--setting", "paper", "--max-iter", "5", "--quiet")
    return tmp_path


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_new_points_are_compared_with_those_that_the_model_names(learned):
    found = json.loads(run("watch", "m.st", "new.npz", "--label", "kind", "--json").stdout)
    assert found["ok"]
    assert found["reference"] == ["train.npz"]
    assert [one["name"] for one in found["drift"]] == list(KINDS)
    assert found["evaluation"]["verdict"] == "better"
    text = run("watch", "m.st", "new.npz", "--ignore", "kind").stdout
    assert "200 new points, compared with 400 of train.npz:" in text
    assert text.count("as before") == 3


def test_the_exit_code_tells_of_drift_and_of_harm(learned):
    result = run("watch", "m.st", "far.npz", "--ignore", "kind", code=3)
    assert "Drifted: lengths of the vectors, variances under the metric" in result.stderr
    assert "Consider learning again." in result.stderr
    result = run("watch", "m.st", "wrong.npz", "--label", "kind", "--tolerance", "9", code=3)
    assert re.match("The verdict on new feedback is '(worse|mixed)'", result.stderr)
    assert not json.loads(run("watch", "m.st", "far.npz", "--label", "kind", "--json", code=3).stdout)["ok"]


def test_points_that_are_gone_or_changed_are_asked_for(learned):
    (learned / "train.npz").rename(learned / "moved.npz")
    assert "which is not there any more. Give them by --reference" in said(run("watch", "m.st", "new.npz", code=2))
    run("watch", "m.st", "new.npz", "--ignore", "kind", "--reference", "moved.npz")
    np.savez(learned / "train.npz", X=np.eye(5))
    assert "train.npz has changed since m.st was learned" in said(run("watch", "m.st", "new.npz", code=2))
    MahalanobisMetric(np.eye(5)).save("bare.st")
    assert "does not say which points it was learned from" in said(run("watch", "bare.st", "new.npz", code=2))


def said(result):
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize("chosen", [["--where", "part=train"], ["--validation-where", "part=test"]])
def test_rows_that_were_not_learned_from_are_no_reference(chosen):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    X = rng.standard_normal((600, 5)) + np.eye(3, 5)[y]
    np.savez("all.npz", X=X, kind=y, part=np.where(np.arange(600) < 400, "train", "test"))
    run("fit", "all.npz", "--label", "kind", *chosen, "-o", "m.st", "--setting", "paper", "--max-iter", "5", "--quiet")
    # Each would be its own nearest point, and so have drifted, if they were among those learned from.
    said = run("watch", "m.st", "all.npz", "--where", "part=test").stdout
    assert re.match(r"200 new points, compared with 400 of all.npz \((not part=test|part=train)\):", said)
