"""Neighbours that do not depend on the search method or on rounding; votes."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

from boostmetric.evaluation import knn_error, knn_predict
from boostmetric.neighbors import alike, nearest, nearest_alike, nearest_others, rounding_of_distances
from boostmetric.neighbors import searches as neighbor_searches


def test_ties_go_to_the_lowest_number():
    points = np.array([[3.0], [1.0], [-1.0], [1.0], [2.0]])
    assert nearest(points, np.zeros((1, 1)), 3).tolist() == [[1, 2, 3]]


def test_rounded_coordinates_make_ties():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 60, (300, 4)) / 10  # a grid that floating point cannot hold
    single = X.astype(np.float32)
    expected = nearest(X, None, 5, rounding_of_distances(X))
    assert np.array_equal(nearest(single.astype(np.float64), None, 5, rounding_of_distances(single)), expected)


def test_many_copies_do_not_hide_nearer_numbers():
    points = np.concatenate([np.zeros((50, 2)), np.ones((5, 2))])
    answer = nearest(points, None, 3)
    assert answer[0].tolist() == [1, 2, 3]
    assert answer[40].tolist() == [0, 1, 2]
    assert answer[52].tolist() == [50, 51, 53]


def true_neighbors(points, k):
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    return np.sort(distance, axis=1)[:, :k]


def distances_to(points, numbers):
    return np.linalg.norm(points[numbers] - points[:, None], axis=2)


def test_tight_clusters_far_apart():
    """Closer together than the expanded square of a distance can tell."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((5, 30))[np.arange(300) % 5] + 1e-9 * rng.standard_normal((300, 30))
    assert distances_to(points, nearest(points, None, 3)) == pytest.approx(true_neighbors(points, 3), rel=1e-6)


def test_one_outlier_does_not_blur_the_rest():
    points = np.random.default_rng(0).standard_normal((300, 20))
    points[0] = 1e12
    answer = distances_to(points, nearest(points, None, 3))
    assert answer[1:] == pytest.approx(true_neighbors(points, 3)[1:], rel=1e-6)


@pytest.mark.parametrize("value", [1e6, 1.6e9])
def test_a_constant_column_changes_nothing(value):
    points = np.random.default_rng(0).standard_normal((200, 4))
    padded = np.hstack([points, np.full((200, 1), value)]).astype(np.float32)
    rounding = rounding_of_distances(padded)
    answer = nearest(padded.astype(np.float64), None, 3, rounding)
    assert distances_to(points, answer) == pytest.approx(true_neighbors(points, 3), rel=1e-4)


@pytest.mark.parametrize("n_features", [2, 30])
@pytest.mark.parametrize("least", [0, 10**6])  # a tree is searched, or all
def test_agrees_with_brute_force(n_features, least, monkeypatch):
    monkeypatch.setattr("boostmetric.neighbors.nearest_points._LEAST_POINTS_OF_A_TREE", least)
    rng = np.random.default_rng(1)
    points, queries = rng.standard_normal((200, n_features)), rng.standard_normal((50, n_features))
    distance = np.linalg.norm(points[None] - queries[:, None], axis=2)
    assert np.array_equal(nearest(points, queries, 7), np.argsort(distance, axis=1)[:, :7])


@pytest.mark.parametrize("kind", ["random", "grid", "tight", "outlier", "copies", "constant"])
@pytest.mark.parametrize("seed", range(3))
def test_products_in_single_precision_change_nothing(kind, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    points, label = rng.standard_normal((300, 40)), rng.integers(0, 5, 300)
    if kind == "grid":
        points = np.rint(points)
    if kind == "tight":  # closer together than single precision can tell
        points = points[rng.integers(0, 20, 300)] + 1e-7 * points
    if kind == "outlier":
        points[0] = 1e9
    if kind == "constant":  # beside which the others are tiny
        points[:, 0] = 2.0**76
    if kind == "copies":
        points = points[rng.integers(0, 100, 300)]
    rounding = rounding_of_distances(points)
    rounding = 0.0 if kind == "constant" else rounding
    careful = nearest(points, None, 5, rounding), nearest_others(points, label, 5, rounding).values
    settled = []
    monkeypatch.setattr("boostmetric.neighbors.searches._FEWEST_TO_ROUND", 0)
    propose = neighbor_searches.Quick.propose
    monkeypatch.setattr(neighbor_searches.Quick, "propose", lambda *given: settled.append(1) or propose(*given))
    assert np.array_equal(nearest(points, None, 5, rounding), careful[0])
    assert np.array_equal(nearest_others(points, label, 5, rounding).values, careful[1])
    assert len(settled) == 1 + 1


@pytest.mark.parametrize("least", [0, 10**6])  # trees are searched, or all
@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_others_are_the_nearest_of_all_but_the_own_class(seed, grid, least, monkeypatch):
    monkeypatch.setattr("boostmetric.neighbors.nearest_points._LEAST_POINTS_OF_A_TREE", least)
    rng = np.random.default_rng(seed)
    n_points, n_features = rng.integers(20, 300), rng.integers(1, 9)
    points = rng.standard_normal((n_points, n_features))
    if grid:  # full of ties
        points = np.rint(points)
    label = np.append(rng.integers(0, rng.integers(2, 8), n_points - 2), [0, 1])
    found = nearest_others(points, label, 9, rounding_of_distances(points))
    for i in range(n_points):
        outside = np.flatnonzero(label != label[i])
        k = min(9, len(outside))
        expected = outside[nearest(points[outside], points[i : i + 1], k, rounding_of_distances(points))[0]]
        assert found.values[found.bounds[i] : found.bounds[i + 1]].tolist() == expected.tolist()


def test_majority_then_nearest():
    train, labels = [[0.0], [1.0], [2.0], [3.0]], ["d", "c", "b", "b"]
    assert knn_predict(train, labels, [[0.2]], 3).tolist() == ["d"]  # all differ: the nearest
    assert knn_predict(train, labels, [[1.6]], 3).tolist() == ["b"]
    assert knn_error(train, labels, [[0.2], [1.6]], ["d", "c"]) == 0.5


def test_errors():
    with pytest.raises(ValueError, match="n_neighbors=5 is more than the 2 training points"):
        knn_predict([[0.0], [1.0]], [0, 1], [[0.0]], 5)
    with pytest.raises(ValueError, match="inconsistent"):
        knn_error([[0.0], [1.0]], [0, 1], [[0.0]], [0, 1], 1)


@pytest.mark.parametrize("offset", [1e3, 1e4])
def test_float32_far_from_zero(offset):
    rng = np.random.default_rng(0)
    X, Q = ((offset + rng.standard_normal((n, 30))).astype(np.float32) for n in (500, 100))
    expected = np.argsort(cdist(Q.astype(np.float64), X.astype(np.float64)), axis=1, kind="stable")[:, :3]
    assert np.array_equal(nearest(X, Q, 3), expected)


@pytest.mark.parametrize("scale", [1e-200, 1e160, 1e300])
def test_squares_that_cannot_be_held(scale):
    rng = np.random.default_rng(0)
    X, Q = rng.standard_normal((300, 20)), rng.standard_normal((40, 20))
    assert np.array_equal(nearest(scale * X, scale * Q, 4), nearest(X, Q, 4))


def test_no_queries():
    assert nearest(np.eye(20), np.empty((0, 20)), 3).shape == (0, 3)


@pytest.mark.parametrize("most_in_a_small_class", [0, 30, 256])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_nearest_of_the_same_class(monkeypatch, kind, dtype, most_in_a_small_class):
    monkeypatch.setattr(alike, "_MOST_IN_A_SMALL_CLASS", most_in_a_small_class)
    monkeypatch.setattr(alike, "_DISTANCES", 500)  # several pieces
    rng = np.random.default_rng(0)
    label = rng.choice([0, 1, 2, 2, 2, 3, 3, 5], 200)
    label[label == 0] = 1
    label[7], label[100], label[150] = 0, 6, 6  # alone, and a pair
    points = (rng.integers(0, 9, (200, 13)) / 10).astype(dtype)  # with ties
    rounding, is_asked = rounding_of_distances(points), rng.random(200) < 0.7
    anchors, found = nearest_alike(kind(points), label, 4, rounding, is_asked=is_asked)
    assert anchors.tolist() == [i for i in np.flatnonzero(is_asked) if np.sum(label == label[i]) > 1]
    for anchor, low, high in zip(anchors, found.bounds, found.bounds[1:], strict=False):
        inside = np.flatnonzero(label == label[anchor])
        expected = inside[nearest(kind(points[inside]), None, min(4, len(inside) - 1), rounding)]
        assert found.values[low:high].tolist() == expected[np.searchsorted(inside, anchor)].tolist()
    everybody, _ = nearest_alike(points, label, 4, rounding)
    assert len(everybody) == 199


def test_nobody_has_a_point_of_the_same_class():
    anchors, found = nearest_alike(np.eye(3), np.arange(3), 2)
    assert not len(anchors)
    assert not len(found)
