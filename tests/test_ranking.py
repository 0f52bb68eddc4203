"""The ranks of all learners: critical differences, groups of the diagram, and rows that are kept."""

import json

import pytest
from benchmarks import pydml, ranking


def test_critical_difference_of_demsar():
    """4 classifiers on 14 sets: 1.25 (Demsar, 2006)."""
    assert ranking.critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_groups_are_the_longest_runs():
    assert ranking.groups([1.0, 1.5, 2.2, 4.0], 1.0) == [(1.0, 1.5), (1.5, 2.2)]
    assert ranking.groups([1.0, 3.0], 1.0) == []


def test_ranks_and_diagram(tmp_path):
    accuracies = {"A": {"one": 0.9, "two": 0.8}, "B": {"one": 0.7, "two": 0.8}, "C": {"one": 0.6, "two": 0.1}}
    rows = ranking.ranked(accuracies, {"A": 1.0, "B": 2.0, "C": 3.0})
    assert [(row["learner"], row["average rank"], row["best on"]) for row in rows] == [
        ("A", 1.25, 2),
        ("B", 1.75, 1),
        ("C", 3.0, 0),
    ]
    ranking.draw({str(row["learner"]): row["average rank"] for row in rows}, 2, tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").stat().st_size > 5000


def test_accuracies_of_earlier_runs_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(ranking, "RESULTS", tmp_path)
    ours = [
        {"learner": "plain", "seconds a fit": 2.0},
        {"learner": "Euclidean", "seconds a fit": 0.0},
        {"set": "one", "plain": 0.9, "Euclidean": 0.5, "printed Euclidean": 0.4},
    ]
    theirs = [{"learner": "GMML", "seconds a fit": 1.0}, {"set": "one", "GMML": 0.8}]
    for name, rows in (("pydml", ours), ("ranking", theirs)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"rows": rows}))
    accuracies, seconds = ranking.earlier(["one"])
    assert accuracies == {"BoostMetric": {"one": 0.9}, "Euclidean": {"one": 0.5}, "GMML": {"one": 0.8}}
    assert seconds == {"BoostMetric": 2.0, "Euclidean": 0.0, "GMML": 1.0}
    assert set(ranking.OURS) <= set(pydml.LEARNERS)
