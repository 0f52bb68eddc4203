"""Scores of rankings and comparisons, against literal definitions and scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import average_precision_score, ndcg_score

from boostmetric import ComparisonBoostMetric, Comparisons
from boostmetric.evaluation import comparison_scores, ranking_scores
from boostmetric.evaluation.comparison_scores import accuracy_by_pair, comparison_accuracy
from boostmetric.evaluation.knn import vote
from boostmetric.evaluation.ranking_scores import (
    average_precision_at_k,
    hit_at_k,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
    reciprocal_rank_at_k,
    votes_right,
)


@st.composite
def graded_lists(draw):
    """Grades of all documents of some queries in the order of a ranking, and a cut; each has something to find."""
    n_documents = draw(st.integers(1, 8))
    row = st.lists(st.integers(0, 3), min_size=n_documents, max_size=n_documents).filter(any)
    grades = np.array(draw(st.lists(row, min_size=1, max_size=4)))
    return grades, draw(st.integers(1, n_documents))


def literal(grades, k, gain):
    """All scores of one query from its grades, as the definitions read."""
    relevant = [grade > 0 for grade in grades]
    found = sum(relevant[:k])
    precisions = [sum(relevant[: place + 1]) / (place + 1) for place in range(k) if relevant[place]]
    first = next((place + 1 for place in range(k) if relevant[place]), None)

    def discounted(ordered):
        return sum(gain(grade) / math.log2(place + 2) for place, grade in enumerate(ordered[:k]))

    return {
        "hit": float(found > 0),
        "precision": found / k,
        "recall": found / sum(relevant),
        "reciprocal rank": 0.0 if first is None else 1 / first,
        "average precision": sum(precisions) / min(sum(relevant), k),
        "ndcg": discounted(grades) / discounted(sorted(grades, reverse=True)),
    }


@given(graded_lists(), st.sampled_from(["linear", "exponential"]))
def test_scores_are_what_their_definitions_say(lists, gain):
    grades, k = lists
    relevant, count, best = grades > 0, (grades > 0).sum(axis=1), -np.sort(-grades, axis=1)
    scores = {
        "hit": hit_at_k(relevant, k),
        "precision": precision_at_k(relevant, k),
        "recall": recall_at_k(relevant, count, k),
        "reciprocal rank": reciprocal_rank_at_k(relevant, k),
        "average precision": average_precision_at_k(relevant, count, k),
        "ndcg": ndcg_at_k(grades, best, k, gain),
    }
    worth = {"linear": float, "exponential": lambda grade: 2.0**grade - 1}[gain]
    for query, row in enumerate(grades.tolist()):
        expected = literal(row, k, worth)
        assert {name: values[query] for name, values in scores.items()} == pytest.approx(expected)


@given(graded_lists())
def test_scores_are_those_of_scikit_learn(lists):
    grades, k = lists
    n_documents = grades.shape[1]
    relevant, best = grades > 0, -np.sort(-grades, axis=1)
    decreasing = np.arange(n_documents, 0.0, -1)
    ours = average_precision_at_k(relevant, relevant.sum(axis=1), n_documents)
    assert ours == pytest.approx([average_precision_score(row, decreasing) for row in relevant])
    if n_documents > 1:  # scikit-learn ranks no single document
        theirs = ndcg_score(grades, np.tile(decreasing, (len(grades), 1)), k=k)
        assert ndcg_at_k(grades, best, k).mean() == pytest.approx(theirs)


@given(graded_lists())
def test_the_best_ranking_scores_one_and_none_scores_more(lists):
    grades, k = lists
    best = -np.sort(-grades, axis=1)
    count = (grades > 0).sum(axis=1)
    assert ndcg_at_k(best, best, k) == pytest.approx(1.0)
    assert average_precision_at_k(best > 0, count, k) == pytest.approx(1.0)
    assert (ndcg_at_k(grades, best, k) <= 1 + 1e-12).all()
    assert (average_precision_at_k(grades > 0, count, k) <= 1 + 1e-12).all()


def test_best_grades_may_be_fewer_than_the_cut():
    assert ndcg_at_k([[0, 2, 0, 0]], [[2]], 4) == pytest.approx(1 / math.log2(3))


def test_votes_in_chunks_are_votes(monkeypatch):
    rng = np.random.default_rng(0)
    labels, right = rng.integers(3, size=(50, 5)), rng.integers(3, size=50)
    monkeypatch.setattr(ranking_scores, "_ROWS", 7)
    assert np.array_equal(votes_right(labels, right, 4), vote(labels[:, :4]) == right)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hit_at_k([[True, False]], 3), "k=3 is more than the 2 results of a query"),
        (lambda: hit_at_k([[True, False]], 0), "k must be a whole number of at least 1"),
        (lambda: precision_at_k([[2, 0]], 1), "For grades, apply a threshold"),
        (lambda: precision_at_k([True, False], 1), r"Got shape \(2,\)"),
        (lambda: recall_at_k([[True], [False]], [1, 0], 1), "Query 1 has no relevant document"),
        (lambda: recall_at_k([[True, True]], [1], 1), r"n_relevant\[0\] is 1, but 2 relevant results were found"),
        (lambda: average_precision_at_k([[True]], [1, 2], 1), "n_relevant must hold one number per query \\(1\\)"),
        (lambda: ndcg_at_k([[1.0]], [[0.0]], 1), "Query 0 has no relevant document"),
        (lambda: ndcg_at_k([[1.0]], [[1.0, 2.0]], 1), r"best_grades\[0\] is not in descending order"),
        (lambda: ndcg_at_k([[-1.0]], [[2.0]], 1), "grades must be at least 0.*one of them is -1"),
        (lambda: ndcg_at_k([[np.nan]], [[2.0]], 1), "grades must be finite"),
        (
            lambda: ndcg_at_k([[100.0]], [[100.0]], 1, "exponential"),
            r"one of grades is 100; the largest grade it supports is 50",
        ),
        (lambda: ndcg_at_k([[1.0]], [[2.0], [1.0]], 1), "grades have 1 rows, best_grades 2"),
        (lambda: ndcg_at_k([[1.0]], [[2.0]], 1, "log"), "gain must be one of 'linear', 'exponential'. Got 'log'"),
        (lambda: votes_right(np.zeros((2, 3)), np.zeros(2), 4), "n_neighbors=4 is more than the 3 results"),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def satisfied_one_by_one(comparisons, points):
    """Weights of satisfied and of all comparisons, one comparison after the other."""
    near, far = comparisons.side_sizes
    group = np.repeat(np.arange(comparisons.n_groups), near * far)
    satisfied, weight = {}, {}
    for g, (i, j, k, m) in zip(group, comparisons.quadruplets(), strict=True):
        anchor = int(comparisons.anchors[g])
        right = np.sum((points[k] - points[m]) ** 2) > np.sum((points[i] - points[j]) ** 2)
        satisfied[anchor] = satisfied.get(anchor, 0.0) + right * comparisons.weights[g]
        weight[anchor] = weight.get(anchor, 0.0) + comparisons.weights[g]
    order = sorted(weight)
    return order, [satisfied[a] for a in order], [weight[a] for a in order]


def kinds_of_comparisons(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 4, (30, 2)).astype(float), rng.integers(3, size=30)  # a grid: many distances are equal
    triplets = np.array([rng.permutation(30)[:3] for _ in range(80)])
    quadruplets = np.array([rng.permutation(30)[:4] for _ in range(40)])
    grades = rng.integers(3, size=(5, 10))
    shown = [rng.permutation(np.arange(5, 30))[:10] for _ in range(5)]
    every = Comparisons.from_labels(X, y, 2, "all")
    return X, {
        "labels": Comparisons.from_labels(X, y, 2, 4),
        "all": every,
        "all and triplets": Comparisons.concatenate([every, Comparisons.from_triplets(triplets)]),
        "triplets": Comparisons.from_triplets(triplets, rng.random(80)),
        "quadruplets": Comparisons.from_quadruplets(quadruplets),
        "rankings": Comparisons.from_rankings(np.arange(5), shown, grades),
    }


@pytest.mark.parametrize("kind", ["labels", "all", "all and triplets", "triplets", "quadruplets", "rankings"])
@pytest.mark.parametrize("seed", range(3))
def test_comparisons_are_counted_as_one_by_one(kind, seed, monkeypatch):
    X, kinds = kinds_of_comparisons(seed)
    expected = satisfied_one_by_one(kinds[kind], X)
    monkeypatch.setattr(comparison_scores, "_CHUNK", 64)
    for points in (X, X.astype(np.float32), sparse.csr_array(X)):
        counted = comparison_accuracy(kinds[kind], points)
        assert counted.of.tolist() == expected[0]
        assert counted.satisfied == pytest.approx(np.array(expected[1]))
        assert counted.weight == pytest.approx(np.array(expected[2]))


def test_accuracy_is_the_score_of_the_learner():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    triplets = np.array([rng.permutation(60)[:3] for _ in range(200)])
    model = ComparisonBoostMetric(max_iter=10).fit(triplets, points=X)
    comparisons = Comparisons.from_triplets(triplets, rng.random(200))
    mapped = model.transform(X)
    assert comparison_accuracy(comparisons, mapped).accuracy == pytest.approx(model.score(comparisons))
    assert comparison_accuracy(Comparisons.from_triplets(triplets), mapped).accuracy == model.score(triplets)


def test_equal_distances_satisfy_nothing():
    points = np.array([[0.0], [1.0], [-1.0]])
    assert comparison_accuracy(Comparisons.from_triplets([[0, 1, 2]]), points).accuracy == 0.0


def test_near_and_far_pairs_see_the_same_comparisons():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    pairs = np.array([rng.permutation(40)[:2] for _ in range(60)])
    pairs = np.unique(np.sort(pairs), axis=0)
    comparisons = Comparisons.from_pairs(pairs[::2], pairs[1::2])
    near, far = accuracy_by_pair(comparisons, X)
    assert near.accuracy == pytest.approx(far.accuracy)
    assert near.accuracy == pytest.approx(comparison_accuracy(comparisons, X).accuracy)
    lengths = np.sum((X[comparisons.pairs[:, 0]] - X[comparisons.pairs[:, 1]]) ** 2, axis=1)
    for pair, satisfied in zip(near.of, near.satisfied, strict=True):
        assert satisfied == (lengths[far.of] > lengths[pair]).sum()
    for pair, satisfied in zip(far.of, far.satisfied, strict=True):
        assert satisfied == (lengths[near.of] < lengths[pair]).sum()


def test_points_that_are_missing_are_named():
    with pytest.raises(ValueError, match="There are no comparisons"):
        comparison_accuracy(Comparisons.from_triplets([[0, 1, 2]])[:0], np.zeros((3, 1)))
    with pytest.raises(ValueError, match="name point 9, but there are only 3 points"):
        comparison_accuracy(Comparisons.from_triplets([[0, 1, 9]]), np.zeros((3, 1)))
