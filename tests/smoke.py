"""What users do first, with the package as it was installed: run by ``make release-check`` outside of the clone.

Needs the package and what it depends on, nothing else: no pytest. Without the extras ``cli`` and ``plot``, the command
must say so; with them it is tried.
"""

import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier

import boostmetric
from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, MahalanobisMetric
from boostmetric.baselines import LMNN, MMC, NCA, RCA, Euclidean, PSDBoost
from boostmetric.evaluation import evaluate
from boostmetric.export import to_numpy
from boostmetric.retrieval import MetricIndex

X, y = load_wine(return_X_y=True)
known, new = slice(0, None, 2), slice(1, None, 2)


def error(learner):
    mapped = learner.fit(X[known], y[known]).transform
    return 1 - KNeighborsClassifier(3).fit(mapped(X[known]), y[known]).score(mapped(X[new]), y[new])


def check(what, holds):
    print(f"{'ok    ' if holds else 'WRONG '}{what}")
    if not holds:
        sys.exit(1)


def learns():
    plain = error(Euclidean())
    check(f"Euclidean: {plain:.3f} of Wine is wrong", 0.2 < plain < 0.5)
    for learner in (BoostMetric.paper(), LMNN(), MMC(), RCA(), PSDBoost()):
        reached = error(learner)
        check(f"{type(learner).__name__}: {reached:.3f}", reached < plain)
    reached = error(NCA(random_state=0))
    check(f"NCA: {reached:.3f}", reached < plain + 0.05)  # it does not help on Wine as it is
    comparisons = Comparisons.from_labels(X, y)
    score = ComparisonBoostMetric(max_iter=50).fit(comparisons, points=X).score(comparisons)
    check(f"ComparisonBoostMetric satisfies {score:.3f}", score > 0.9)


def keeps(folder):
    metric = BoostMetric.paper(max_iter=50).fit(X[known], y[known])
    metric.save(folder / "model.safetensors")
    loaded = MahalanobisMetric.load(folder / "model.safetensors")
    check("a saved model is the same", np.array_equal(loaded.components, metric.components_))
    index = MetricIndex(loaded).add(X[known])
    index.save(folder / "index.safetensors")
    numbers, _ = MetricIndex.load(folder / "index.safetensors").search(X[new], k=1)
    check("an index finds the class", (y[known][numbers[:, 0]] == y[new]).mean() > 0.85)
    exported = np.load(to_numpy(loaded, folder / "metric.npy", dtype="float64"))
    check("an exported matrix maps alike", np.allclose(X @ exported, metric.transform(X)))
    verdict = evaluate(loaded, X[new], y[new], reference=(X[known], y[known])).verdict
    check(f"evaluation: {verdict}", verdict == "better")


def runs(folder):
    names = [f"f{i}" for i in range(X.shape[1])]
    for name, rows in (("known", known), ("new", new)):
        table = np.column_stack([np.arange(len(y))[rows], y[rows], X[rows]])
        header = ",".join(["id", "kind", *names])
        np.savetxt(folder / f"{name}.csv", table, delimiter=",", header=header, comments="", fmt="%.17g")
    columns = ("--id", "id", "--label", "kind")
    commands = (
        ("--version",),
        ("fit", "known.csv", *columns, "-o", "cli.safetensors", "--quiet"),
        ("evaluate", "cli.safetensors", "new.csv", *columns, "--reference", "known.csv"),
        ("transform", "cli.safetensors", "new.csv", *columns, "-o", "mapped.csv"),
        ("export", "cli.safetensors", "--to", "numpy", "-o", "cli.npy"),
        ("report", "cli.safetensors", "new.csv", *columns, "-o", "report.html"),
        ("demo", "--output", "demo"),
    )
    command = Path(sys.executable).with_name("boostmetric")
    for arguments in commands:
        done = subprocess.run([command, *arguments], cwd=folder, capture_output=True, text=True)
        check(f"boostmetric {arguments[0]}\n{done.stderr if done.returncode else ''}".strip(), done.returncode == 0)
    missing = [
        name for name in ("mapped.csv", "cli.npy", "report.html", "demo/report.html") if not (folder / name).exists()
    ]
    check(f"commands wrote what they were asked for {missing or ''}".strip(), not missing)


def names_the_extra():
    done = subprocess.run([Path(sys.executable).with_name("boostmetric")], capture_output=True, text=True)
    check("the command names the extra that it needs", "pip install 'boostmetric[cli]'" in done.stderr)


if __name__ == "__main__":
    where = Path(boostmetric.__file__).parent
    check(f"boostmetric {boostmetric.__version__} is installed", "site-packages" in where.parts)
    check("its metadata name the same version", version("boostmetric") == boostmetric.__version__)
    check("types are shipped", (where / "py.typed").exists())
    learns()
    with tempfile.TemporaryDirectory() as temporary:
        keeps(Path(temporary))
        runs(Path(temporary)) if find_spec("typer") else names_the_extra()
