"""Comparisons from positives alone: which documents are far, and what is learned from them."""

import numpy as np
import pytest
from scipy import sparse

from boostmetric import ComparisonBoostMetric, Comparisons
from test_builders import of_query, weighted

POINTS = np.array([[0.0], [10.0], [2.0], [1.0], [3.0], [9.0], [12.0], [30.0]])
EVERY = {"points": POINTS, "corpus": np.arange(2, 8), "n_nearest": 6, "n_random": 0}


def far_of(comparisons):
    found = {}
    for g, anchor in enumerate(comparisons.anchors.tolist()):
        far = comparisons.pairs[comparisons.members[slice(*comparisons.bounds[2 * g + 1 : 2 * g + 3])]]
        found.setdefault(anchor, set()).update(far[far != anchor].tolist())
    return found


def test_the_nearest_others_and_random_ones_are_far():
    assert far_of(Comparisons.from_positives([0], [2], **{**EVERY, "n_nearest": 2})) == {0: {3, 4}}
    assert far_of(Comparisons.from_positives([0], [2], **EVERY)) == {0: {3, 4, 5, 6, 7}}
    assert far_of(Comparisons.from_positives([0], [2], **{**EVERY, "n_nearest": 0, "n_random": 9})) == {
        0: {3, 4, 5, 6, 7}
    }
    found = Comparisons.from_positives([0, 1], [2, 5], points=POINTS)  # the documents are those of the file
    assert far_of(found) == {0: {5}, 1: {2}}


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_copies_of_a_positive_are_left_out(form):
    points = np.array([[0.0], [2.0], [2.1], [2.3], [5.0]])
    found = Comparisons.from_positives([0], [1], points=form(points), corpus=range(5))
    assert far_of(found) == {0: {3, 4}}  # 2 is within a tenth of the distance between 0 and 1
    found = Comparisons.from_positives([0], [1], points=form(points), corpus=range(5), near_duplicate=0)
    assert far_of(found) == {0: {2, 3, 4}}


def test_squares_that_leave_single_precision_make_no_copies():
    found = far_of(Comparisons.from_positives([0], [2], **EVERY))
    large = (1e25 * POINTS).astype(np.float32)
    assert far_of(Comparisons.from_positives([0], [2], **{**EVERY, "points": large})) == found


def test_documents_of_a_component_are_left_out_where_there_are_many():
    # Queries 0 and 1 are connected by document 10; 2 to 9 have a document each.
    queries, documents = [0, 0, 1, 1, *range(2, 10)], [10, 11, 10, 12, *range(13, 21)]
    points = np.random.default_rng(0).standard_normal((22, 3))
    found = far_of(Comparisons.from_positives(queries, documents, points=points, corpus=range(10, 22), n_random=0))
    assert found[0] == found[1] == {*range(13, 22)}
    assert found[2] == {10, 11, 12, *range(14, 22)}


def test_only_documents_that_share_a_query_are_left_out_of_one_large_component():
    # A chain: query q has the documents 10 + q and 11 + q.
    queries = np.repeat(np.arange(6), 2)
    documents = 10 + queries + np.tile([0, 1], 6)
    points = np.random.default_rng(0).standard_normal((17, 3))
    found = far_of(Comparisons.from_positives(queries, documents, points=points, n_random=0))
    assert found[0] == {13, 14, 15, 16}
    assert found[3] == {10, 11, 16}


def test_weights_of_equal_rows_are_added_up():
    found = Comparisons.from_positives([0, 0, 0], [2, 4, 2], weights=[1, 3, 2], **EVERY)
    pairs = [(near, far, 3) for near in (2, 4) for far in (3, 5, 6, 7)]
    assert weighted(found) == of_query(0, pairs)
    two = Comparisons.from_positives([0, 0, 0], [2, 4, 3], weights=[1, 3, 0], **EVERY)
    assert sorted(two.weights.tolist()) == [1, 3]
    assert weighted(two) == of_query(0, [(near, far, w) for near, w in ((2, 1), (4, 3)) for far in (5, 6, 7)])


def test_five_answers_of_each_query_teach_as_much_as_labels():
    rng = np.random.default_rng(0)
    y = np.arange(900) % 15
    X = np.hstack(
        [rng.standard_normal((15, 4))[y] + 0.5 * rng.standard_normal((900, 4)), rng.standard_normal((900, 8))]
    )
    queries, corpus, test = np.arange(300), np.arange(300, 600), np.arange(600, 900)
    rows = [(q, d) for q in queries for d in rng.permutation(corpus[y[corpus] == y[q]])[:5]]
    positives = Comparisons.from_positives(*zip(*rows, strict=True), points=X, corpus=corpus)

    def precision(metric):
        mapped = X if metric is None else metric.transform(X)
        distance = np.square(mapped[test][:, None] - mapped[corpus]).sum(axis=2)
        return np.mean(y[corpus][np.argsort(distance, axis=1)[:, :10]] == y[test][:, None])

    learn = ComparisonBoostMetric(loss="logistic", init="identity", max_iter=20)
    labels = Comparisons.from_labels(X[:600], y[:600], n_neighbors=10, n_impostors=50)
    base, by_labels = precision(None), precision(learn.fit(labels, points=X))
    assert by_labels > base + 0.1
    assert precision(learn.fit(positives, points=X)) - base > 0.8 * (by_labels - base)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"documents": [0]}, "documents of query 0 contain the query itself"),
        ({"documents": [2, 3]}, r"one point number for each pair .* Got shapes \(1,\) and \(2,\)"),
        ({"documents": [99]}, "name point 99, but there are only 8 points"),
        ({"n_nearest": 0}, "n_nearest and n_random are both 0"),
        ({"n_nearest": 1.5}, "n_nearest must be a whole number of at least 1, or 0"),
        ({"near_duplicate": -1}, "near_duplicate must be a finite number of at least 0"),
        ({"corpus": [2]}, "No document is left"),
        ({"corpus": []}, "corpus is empty. Give the documents"),
        ({"weights": [-1]}, r"weights\[0\] is -1"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(ValueError, match=message):
        Comparisons.from_positives(**{"queries": [0], "documents": [2], **EVERY, **changes})
