"""Pairs and groups, from triplets and from labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostmetric import Comparisons
from boostmetric.arrays.ragged import Ragged


def as_set(comparisons):
    """Comparisons as a sorted list of (near pair, far pair)."""
    return sorted(((i, j), (k, l)) for i, j, k, l in comparisons.quadruplets())  # noqa: E741


def expected_set(triplets):
    return sorted((tuple(sorted((i, j))), tuple(sorted((i, k)))) for i, j, k in triplets)


def test_full_product_becomes_one_group():
    c = Comparisons.from_triplets([[0, 1, 3], [0, 2, 4], [0, 1, 4], [0, 2, 3]])
    assert (c.n_comparisons, c.n_pairs, c.n_groups) == (4, 4, 1)


def test_incomplete_product_stays_single():
    c = Comparisons.from_triplets([[0, 1, 3], [0, 2, 4], [0, 1, 4]])
    assert (c.n_comparisons, c.n_pairs, c.n_groups) == (3, 4, 3)


def test_repeated_triplet_counts_twice():
    c = Comparisons.from_triplets([[0, 1, 2], [0, 1, 2]])
    assert (c.n_comparisons, c.n_pairs, c.n_groups) == (1, 2, 1)
    assert c.weights.tolist() == [2.0]


def test_pairs_are_numbered_once_whatever_their_order():
    c = Comparisons.from_triplets([[0, 1, 2], [1, 0, 2]])
    assert c.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert c.n_groups == 2


triplet_lists = st.lists(st.lists(st.integers(0, 7), min_size=3, max_size=3, unique=True), min_size=1, max_size=60)


@settings(max_examples=200)
@given(triplet_lists)
def test_triplets_are_kept_and_groups_are_products(triplets):
    c = Comparisons.from_triplets(triplets)
    assert sorted(set(expected_set(triplets))) == as_set(c)
    assert c.total_weight == len(triplets)
    assert len(np.unique(c.pairs, axis=0)) == c.n_pairs
    assert np.all(c.pairs[:, 0] < c.pairs[:, 1])
    assert np.all(np.diff(c.bounds) > 0)


@settings(max_examples=100)
@given(triplet_lists, st.randoms())
def test_subset_keeps_the_chosen_groups(triplets, random):
    c = Comparisons.from_triplets(triplets)
    chosen = [random.randrange(c.n_groups) for _ in range(random.randint(1, 5))]
    part = c.subset(chosen)
    assert part.n_groups == len(chosen)
    assert as_set(part) == sorted(q for g in chosen for q in as_set(c.subset([g])))
    assert set(part.members.tolist()) == set(range(part.n_pairs))


@pytest.mark.parametrize(
    ("triplets", "error", "message"),
    [
        ([], ValueError, "triplets must be rows of 3 point numbers"),
        (np.empty((0, 3), int), ValueError, "no triplets"),
        ([[0, 1]], ValueError, r"Got shape \(1, 2\)"),
        ([0, 1, 2], ValueError, r"Got shape \(3,\)"),
        ([[0.0, 1.0, 2.0]], TypeError, r"float64.*\.astype\(int\)"),
        ([["a", "b", "c"]], TypeError, "integer point numbers"),
        ([[0, 1, 2], [3, -1, 4]], ValueError, r"triplets\[1, 1\] is -1: .*negative"),
        ([[0, 1, 2], [5, 5, 5]], ValueError, r"triplets\[1\] is \(5, 5, 5\): its three points must differ \(1 of 2"),
        ([[0, 1, 1]], ValueError, "must differ"),
        ([[0, 1, 2**40]], ValueError, "are not supported"),
        ([[True, False, True]], TypeError, "bool"),
    ],
)
def test_bad_triplets_are_refused(triplets, error, message):
    with pytest.raises(error, match=message):
        Comparisons.from_triplets(triplets)


def test_labels_give_one_group_a_point():
    X = np.array([0.0, 1.0, 2.5, 10.0, 11.0, 12.5])[:, None]
    y = ["a", "a", "a", "b", "b", "b"]
    c = Comparisons.from_labels(X, y, n_neighbors=1, n_impostors=2)
    assert c.n_groups == 6
    assert c.n_comparisons == 12
    near = [tuple(c.pairs[c.members[c.bounds[2 * g]]].tolist()) for g in range(6)]
    assert near == [(0, 1), (0, 1), (1, 2), (3, 4), (3, 4), (4, 5)]
    far = c.pairs[c.members[c.bounds[1] : c.bounds[2]]].tolist()
    assert far == [[0, 3], [0, 4]]


@pytest.mark.parametrize("n_impostors", [2, 4, "all"])
def test_labels_agree_with_brute_force(n_impostors):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.integers(0, 3, 40)
    distance = np.linalg.norm(X[:, None] - X[None], axis=2)
    expected = []
    for i in range(40):
        order = np.argsort(distance[i])
        same = [j for j in order if y[j] == y[i] and j != i][:3]
        other = [j for j in order if y[j] != y[i]][: None if n_impostors == "all" else n_impostors]
        expected += [(i, j, k) for j in same for k in other]
    c = Comparisons.from_labels(X, y, n_neighbors=3, n_impostors=n_impostors)
    assert as_set(c) == expected_set(expected)


def test_small_classes_get_fewer_targets_and_a_warning():
    X = np.arange(6.0)[:, None]
    message = r"2 of 3 classes have fewer than n_neighbors \+ 1 = 3 samples \(class 'c' has 1\)"
    with pytest.warns(UserWarning, match=message):
        c = Comparisons.from_labels(X, list("aaabbc"), n_neighbors=2, n_impostors=1)
    assert c.n_groups == 5  # the lone c has no target
    sizes = np.diff(c.bounds)
    assert sizes[::2].tolist() == [2, 2, 2, 1, 1]


def test_duplicated_points_are_handled():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 6, axis=0)
    y = np.tile([0, 1], 6)
    c = Comparisons.from_labels(X, y)
    assert c.n_comparisons == 12 * 9
    assert np.all(c.pairs[:, 0] != c.pairs[:, 1])


@pytest.mark.parametrize(
    ("X", "y", "arguments", "message"),
    [
        (np.ones((4, 2)), [1, 1, 1, 1], {}, "All 4 samples have the label 1: comparisons need at least 2 classes"),
        (np.eye(3), ["a", "b", "c"], {}, "Each of the 3 labels occurs once"),
        (np.eye(4), [0, 0, 1], {}, "inconsistent numbers of samples"),
        (np.eye(4), [0.1, 0.2, 0.3, 0.7], {}, "Unknown label type: continuous"),
        ([[0.0], [np.nan], [1.0], [2.0]], [0, 0, 1, 1], {}, "NaN"),
        ([[0.0], [np.inf], [1.0], [2.0]], [0, 0, 1, 1], {}, "infinity"),
        ([[0.0]], [0], {}, "minimum of 2"),
        (np.eye(4), [0, 0, 1, 1], {"n_neighbors": 0}, "n_neighbors must be a whole number of at least 1. Got 0"),
        (np.eye(4), [0, 0, 1, 1], {"n_neighbors": 1.5}, "Got 1.5"),
        (np.eye(4), [0, 0, 1, 1], {"n_neighbors": True}, "Got True"),
        (np.eye(4), [0, 0, 1, 1], {"n_neighbors": 1, "n_impostors": -1}, 'at least 1 or "all". Got -1'),
        (np.eye(4), [0, 0, 1, 1], {"n_neighbors": 1, "n_impostors": "some"}, "Got 'some'"),
    ],
)
def test_bad_labels_are_refused(X, y, arguments, message):
    with pytest.raises(ValueError, match=message):
        Comparisons.from_labels(X, y, **arguments)


def test_ragged_rows():
    rows = Ragged.from_sizes(np.arange(6), np.array([1, 3, 2]))
    assert rows.sizes.tolist() == [1, 3, 2]
    taken = rows.take(np.array([2, 0, 2]))
    assert taken.values.tolist() == [4, 5, 0, 4, 5]
    assert taken.bounds.tolist() == [0, 2, 3, 5]
    assert Ragged.stack([rows, taken]).sizes.tolist() == [1, 3, 2, 2, 1, 2]


def test_too_many_members_are_refused_before_any_work(monkeypatch):
    monkeypatch.setattr("boostmetric.comparisons.labels._MOST_MEMBERS", 80)
    with pytest.raises(ValueError, match=r"n_impostors=5 gives 90 near and far pairs in total; at most 80"):
        Comparisons.from_labels(np.eye(10), [0] * 5 + [1] * 5, n_neighbors=4, n_impostors=5)
