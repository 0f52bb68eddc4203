"""Comparisons from quadruplets, pairs, groups, rankings and clicks; weights, splits and subsets of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostmetric import Comparisons
from boostmetric.comparisons.components import share_of_seen
from boostmetric.solver.learn import learn
from conftest import random_triplets


def weighted(comparisons):
    """Weight of each comparison (near pair, far pair), added up over the groups."""
    c, total = comparisons, {}
    sizes = np.diff(c.bounds)
    weights = np.repeat(c.weights, sizes[::2] * sizes[1::2])
    for (i, j, k, l), weight in zip(c.quadruplets(), weights, strict=True):  # noqa: E741
        key = ((i, j), (k, l))
        total[key] = total.get(key, 0.0) + weight
    return total


def of_query(query, pairs):
    """The same from (nearer result, farther result, weight)."""
    total = {}
    for near, far, weight in pairs:
        key = tuple(tuple(sorted((query, result))) for result in (near, far))
        total[key] = total.get(key, 0.0) + weight
    return total


def matrix(comparisons, points, **options):
    boosted = learn(points, comparisons, max_iter=10, **options)
    return (boosted.directions.T * boosted.step_sizes) @ boosted.directions


# --- quadruplets, pairs, groups ---------------------------------------------------------------------------------------


def test_quadruplets_are_kept_and_know_their_anchor():
    c = Comparisons.from_quadruplets([[0, 1, 2, 3], [5, 4, 4, 6], [3, 2, 1, 0]])
    assert sorted(c.quadruplets()) == [(0, 1, 2, 3), (2, 3, 0, 1), (4, 5, 4, 6)]
    assert sorted(c.anchors.tolist())[-1] == 4
    assert sum(c.anchors < 0) == 2
    assert len(set(c.anchors.tolist())) == 3


def test_triplets_are_quadruplets():
    problem = random_triplets(0, n_triplets=200)
    triplets = np.array(
        [(i, j, k) for i, j, k in np.random.default_rng(0).permuted(np.tile(range(9), (50, 1)), axis=1)[:, :3]]
    )
    a, b = Comparisons.from_triplets(triplets), Comparisons.from_quadruplets(triplets[:, [1, 0, 2, 0]])
    for name in ("pairs", "members", "bounds", "weights", "anchors"):
        assert np.array_equal(getattr(a, name), getattr(b, name))
    assert np.array_equal(matrix(a, problem.points), matrix(b, problem.points))


def test_pairs_are_one_group():
    c = Comparisons.from_pairs([[1, 0], [2, 3]], [[0, 2], [3, 1], [1, 2]])
    assert (c.n_groups, c.n_comparisons) == (1, 6)
    assert set(c.quadruplets()) == {(*a, *b) for a in [(0, 1), (2, 3)] for b in [(0, 2), (1, 3), (1, 2)]}


def test_pairs_that_contradict_each_other_are_weighed():
    similar, dissimilar = [[0, 1], [4, 5], [1, 0], [2, 3]], [[2, 6], [5, 4], [0, 1]]
    found = Comparisons.from_pairs(similar, dissimilar)
    assert weighted(found) == weighted(Comparisons.from_pairs([[0, 1], [2, 3]], [[2, 6]]))
    with pytest.raises(ValueError, match="Every dissimilar pair is similar as often"):
        Comparisons.from_pairs(similar, dissimilar[1:])


def test_answers_turn_triplets_round_and_ties_are_left_out():
    found = Comparisons.from_triplets([[0, 1, 2], [3, 4, 5], [6, 7, 8]], weights=[1, 2, 3], answers=[1, -1, 0])
    assert weighted(found) == weighted(Comparisons.from_triplets([[0, 1, 2], [3, 5, 4]], weights=[1, 2]))
    found = Comparisons.from_quadruplets([[0, 1, 2, 3], [4, 5, 6, 7]], answers=[0, -1])
    assert list(found.quadruplets()) == [(6, 7, 4, 5)]
    both = Comparisons.from_triplets([[0, 1, 2], [0, 1, 2], [0, 1, 2]], answers=[1, 1, -1])
    assert weighted(both) == {((0, 1), (0, 2)): 2.0, ((0, 2), (0, 1)): 1.0}


def test_grades_of_several_judges_are_averaged():
    found = Comparisons.from_rankings([0], [[3, 4, 3, 5]], [[2, 1, 0, 0]], weights=[[3, 1, 1, 1]])
    assert weighted(found) == of_query(0, [(3, 4, 4), (3, 5, 4), (3, 5, 4), (4, 5, 1)])
    with pytest.raises(ValueError, match="grade 3 twice, and differ"):
        Comparisons.from_rankings([0], [[3, 4, 3, 5]], [[2, 1, 0, 0]], contradictions="refuse")


def test_groups_from_arrays_with_and_without_anchors():
    a = Comparisons.from_groups(near=[[1, 2], [6]], far=[[3, 4], [7, 8]], anchors=[0, 5], weights=[1, 3])
    b = Comparisons.from_groups(
        near=[[[0, 1], [2, 0]], [[5, 6]]], far=[[[0, 3], [0, 4]], [[5, 7], [8, 5]]], weights=[1, 3]
    )
    assert weighted(a) == weighted(b)
    assert a.anchors.tolist() == [0, 5]
    assert np.all(b.anchors < 0)
    stacked = Comparisons.from_groups(np.array([[1, 2], [3, 4]]), np.array([[5], [6]]), anchors=[0, 0])
    assert stacked.n_comparisons == 4


def test_concatenation_keeps_every_group():
    parts = [
        Comparisons.from_triplets([[0, 1, 2], [0, 1, 3]]),
        Comparisons.from_quadruplets([[0, 1, 4, 5], [0, 1, 2, 3]], weights=[2, 1]),
        Comparisons.from_pairs([[0, 1]], [[6, 7]]),
    ]
    whole = Comparisons.concatenate(parts)
    assert whole.n_groups == sum(part.n_groups for part in parts)
    expected = {}
    for part in parts:
        for key, weight in weighted(part).items():
            expected[key] = expected.get(key, 0.0) + weight
    assert weighted(whole) == expected
    assert len(set(whole.anchors.tolist())) == 4  # point 0, two quadruplets, the pairs


# --- rankings, grades, clicks -----------------------------------------------------------------------------------------


def pairs_by_grades(results, grades, weights):
    """All results above against all below, for every cut between two grades."""
    for cut in sorted(set(grades))[1:]:
        for near, grade, weight in zip(results, grades, weights, strict=True):
            for far, lower in zip(results, grades, strict=True):
                if grade >= cut > lower:
                    yield near, far, weight


def pairs_by_clicks(results, clicks, weights):
    for place, (near, clicked, weight) in enumerate(zip(results, clicks, weights, strict=True)):
        for far, also_clicked in zip(results[:place], clicks[:place], strict=True):
            if clicked and not also_clicked:
                yield near, far, weight


@settings(max_examples=150)
@given(st.data())
@pytest.mark.filterwarnings("ignore:.*rankings give no comparison")
def test_rankings_agree_with_their_definition(data):
    kind = data.draw(st.sampled_from(["order", "grades", "clicks"]))
    lists, values, weights, expected = [], [], [], {}
    queries = data.draw(st.lists(st.integers(100, 103), min_size=1, max_size=5))
    for query in queries:
        results = data.draw(st.lists(st.integers(0, 20), unique=True, max_size=7))
        n = len(results)
        top = {"order": 0, "grades": 3, "clicks": 1}[kind]
        value = (
            list(range(n, 0, -1))
            if kind == "order"
            else data.draw(st.lists(st.integers(0, top), min_size=n, max_size=n))
        )
        weight = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=n, max_size=n))
        lists.append(results)
        values.append(value)
        weights.append(weight)
        pairs = pairs_by_clicks if kind == "clicks" else pairs_by_grades
        for key, w in of_query(query, pairs(results, value, weight)).items():
            expected[key] = expected.get(key, 0.0) + w
    expected = {key: weight for key, weight in expected.items() if weight}
    given_values = {} if kind == "order" else {kind: values}
    try:
        c = Comparisons.from_rankings(queries, lists, **given_values, weights=weights)
    except ValueError:
        assert not expected
    else:
        assert weighted(c) == pytest.approx(expected)
        assert set(c.anchors.tolist()) <= set(queries)


def test_a_table_of_rows_is_the_same_as_lists():
    lists = Comparisons.from_rankings([10, 11], [[1, 2, 3], [4, 5]], grades=[[2, 0, 1], [0, 1]])
    table = Comparisons.from_rankings([10, 11, 10, 10, 11], [1, 4, 2, 3, 5], grades=[2, 0, 0, 1, 1])
    assert weighted(lists) == weighted(table)


def test_pandas_columns_are_a_table():
    import pandas as pd

    frame = pd.DataFrame({"q": [9, 9, 9], "d": [1, 2, 3], "clicked": [False, True, False]}, index=[7, 8, 9])
    c = Comparisons.from_rankings(frame["q"], frame["d"], clicks=frame["clicked"])
    assert set(c.quadruplets()) == {(2, 9, 1, 9)}


def test_the_cap_keeps_what_is_closest_to_the_cut():
    c = Comparisons.from_rankings([0], [[1, 2, 3, 4, 5]], clicks=[[0, 0, 0, 0, 1]], max_per_query=2)
    assert set(c.quadruplets()) == {(0, 5, 0, 4), (0, 5, 0, 3)}
    c = Comparisons.from_rankings([0], [[1, 2, 3, 4]], grades=[[1, 1, 0, 0]], max_per_query=2)
    assert set(c.quadruplets()) == {(0, 2, 0, 3), (0, 2, 0, 4)}
    c = Comparisons.from_rankings([0], [range(1, 201)], grades=[[1] * 100 + [0] * 100], max_per_query=100)
    assert set(c.quadruplets()) == {(0, i, 0, j) for i in range(91, 101) for j in range(101, 111)}
    weights = [[1, 2, 3, 1, 1, 1]]  # what is near to the cut stays, whatever its weight
    c = Comparisons.from_rankings([0], [range(1, 7)], grades=[[1, 1, 1, 0, 0, 0]], weights=weights, max_per_query=2)
    assert set(c.quadruplets()) == {(0, 3, 0, 4), (0, 3, 0, 5)}
    assert c.weights.tolist() == [3.0]


def test_the_cap_is_shared_and_used_up():
    c = Comparisons.from_rankings([0], [range(1, 8)], max_per_query=10)  # six cuts
    assert c.n_comparisons == 10
    c = Comparisons.from_rankings([0] * 10, [[i, i + 20] for i in range(1, 11)], max_per_query=5)
    assert sorted(near for _, near, _, _ in c.quadruplets()) == [2, 4, 6, 8, 10]  # from all lists, not the first


def test_a_long_list_with_a_cap_is_cheap():
    c = Comparisons.from_rankings([0], [range(1, 100_001)], max_per_query=50)
    assert c.n_comparisons == 50


@settings(max_examples=60)
@given(st.lists(st.integers(2, 12), min_size=1, max_size=6), st.integers(1, 30), st.booleans())
def test_no_query_has_more_than_the_cap(sizes, cap, same_query):
    queries = [100] * len(sizes) if same_query else list(range(100, 100 + len(sizes)))
    c = Comparisons.from_rankings(queries, [range(size) for size in sizes], max_per_query=cap)
    n_by_group = np.diff(c.bounds)[::2] * np.diff(c.bounds)[1::2]
    per_query = {query: n_by_group[c.anchors == query].sum() for query in queries}
    assert all(1 <= n <= cap for n in per_query.values())


# --- weights ----------------------------------------------------------------------------------------------------------


def test_weight_two_is_the_comparison_given_twice_to_the_bit():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((30, 4))
    triplets = np.array([rng.choice(30, 3, replace=False) for _ in range(300)])
    weights = rng.integers(0, 4, 300)
    by_weight = Comparisons.from_triplets(triplets, weights=weights)
    by_repetition = Comparisons.from_triplets(np.repeat(triplets, weights, axis=0))
    assert matrix(by_weight, points).tobytes() == matrix(by_repetition, points).tobytes()
    q = triplets[:, [0, 1, 2, 0]]
    by_weight, by_repetition = (
        Comparisons.from_quadruplets(q, weights=weights),
        Comparisons.from_quadruplets(np.repeat(q, weights, axis=0)),
    )
    assert matrix(by_weight, points).tobytes() == matrix(by_repetition, points).tobytes()


def test_weights_of_a_full_product_leave_it_one_group():
    t = [[0, 1, 3], [0, 2, 4], [0, 1, 4], [0, 2, 3]]
    assert Comparisons.from_triplets(t, weights=[2, 2, 2, 2]).n_groups == 1
    assert Comparisons.from_triplets(t, weights=[2, 2, 2, 1]).n_groups == 4
    assert Comparisons.from_triplets(t, weights=[1, 0, 1, 0]).n_comparisons == 2


def test_weights_of_groups_and_samples():
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    plain = Comparisons.from_labels(X, y)
    by_sample = Comparisons.from_labels(X, y, sample_weight=weights)
    twice = plain.subset(np.repeat(np.arange(len(X)), weights))
    reweighted = plain.reweighted(weights)
    assert by_sample.n_groups == np.count_nonzero(weights)
    assert matrix(by_sample, X).tobytes() == matrix(reweighted, X).tobytes()
    expected = matrix(twice, X)
    assert np.abs(matrix(by_sample, X) - expected).max() < 1e-10 * np.abs(expected).max()


def test_violated_fraction_is_weighted():
    points = np.array([0.0, 1.0, 3.0, 1.5])[:, None]
    c = Comparisons.from_triplets([[0, 1, 2], [0, 2, 1], [0, 3, 2]], weights=[5, 1, 2])
    assert learn(points, c, max_iter=1).history[-1].violated == pytest.approx(1 / 8)
    grouped = Comparisons.from_groups([[1, 2], [1]], [[3], [2]], weights=[1, 2], anchors=[0, 0])
    # Of 4 comparisons' weight, only "2 closer than 3" is violated.
    assert learn(points, grouped, max_iter=1).history[-1].violated == pytest.approx(1 / 4)


# --- split and subset -------------------------------------------------------------------------------------------------


def pair_set(comparisons):
    return set(map(tuple, comparisons.pairs.tolist()))


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.floats(0.05, 0.6))
def test_split_shares_no_anchor_and_no_pair(seed, test_size):
    problem = random_triplets(seed % 7, n_triplets=300)
    train, test = problem.comparisons.split(test_size, random_state=seed)
    assert not set(train.anchors.tolist()) & set(test.anchors.tolist())
    assert not pair_set(train) & pair_set(test)
    everything = weighted(problem.comparisons)
    for part in (train, test):
        assert weighted(part).items() <= everything.items()
    held_out = {key for key in everything if set(key[0]) & set(key[1]) <= set(test.anchors.tolist())}
    assert set(weighted(test)) == held_out  # what is held out is whole


def test_split_of_labels_and_of_pairs():
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    train, test = Comparisons.from_labels(X, y).split(0.2, random_state=0, by="anchors")
    assert len(set(test.anchors.tolist())) == 30
    assert not pair_set(train) & pair_set(test)

    rng = np.random.default_rng(0)
    similar, dissimilar = rng.choice(100, (30, 2), replace=False), 100 + rng.choice(100, (40, 2), replace=False)
    train, test = Comparisons.from_pairs(similar, dissimilar).split(0.25, random_state=0)
    assert (train.n_comparisons, test.n_comparisons) == (22 * 30, 8 * 10)
    assert not pair_set(train) & pair_set(test)


def near_sides(comparisons):
    """For each anchor, the points that it should be near to."""
    near = {}
    for *pair, third, fourth in comparisons.quadruplets():
        (anchor,) = {*pair} & {third, fourth}
        near.setdefault(anchor, set()).update({*pair} - {anchor})
    return near


@pytest.mark.parametrize("kind", ["grades", "clicks", "positives", "triplets"])
def test_queries_that_share_relevant_documents_are_on_one_side(kind):
    rng = np.random.default_rng(0)
    n_topics, documents = 20, 100 + np.arange(60).reshape(20, 3)  # queries 5t to 5t + 4 are about topic t
    rows = []
    for query in range(5 * n_topics):
        right = rng.choice(documents[query // 5], 2, replace=False)
        wrong = rng.choice(np.delete(documents, query // 5, axis=0).ravel(), 3, replace=False)
        rows.append([query, wrong[0], right[0], wrong[1], right[1], wrong[2]])
    query, shown = [row[0] for row in rows], [row[1:] for row in rows]
    c = {
        "grades": lambda: Comparisons.from_rankings(query, shown, grades=[[0, 2, 0, 1, 0]] * len(rows)),
        "clicks": lambda: Comparisons.from_rankings(query, shown, clicks=[[0, 1, 0, 1, 0]] * len(rows)),
        "positives": lambda: Comparisons.from_groups(
            anchors=query, near=[row[1::2] for row in shown], far=[row[::2] for row in shown]
        ),
        "triplets": lambda: Comparisons.from_triplets([[row[0], row[j], row[1]] for row in rows for j in (2, 4)]),
    }[kind]()
    for seed in range(5):
        train, test = c.split(0.2, random_state=seed)
        assert share_of_seen(train, test) == 0
        known = set().union(*near_sides(train).values())
        assert not any(known & near for near in near_sides(test).values())
        assert len(near_sides(test)) == pytest.approx(20, abs=4)
    assert share_of_seen(*c.split(0.2, random_state=0, by="anchors")) > 0.5


def test_if_nearly_all_queries_are_connected_they_are_split_one_by_one():
    chain = [[query, 50 + query + i, 200] for query in range(40) for i in (0, 1)]
    apart = [[40, 120, 200], [41, 121, 200]]  # too few to hold out
    c = Comparisons.from_triplets(chain + apart)
    train, test = c.split(0.25, random_state=0)
    by_anchors = c.split(0.25, random_state=0, by="anchors")[1]
    assert len(set(test.anchors.tolist())) == len(set(by_anchors.anchors.tolist())) == 10
    assert share_of_seen(train, test) > 0.5


def test_split_is_repeatable_and_random():
    c = random_triplets(0).comparisons
    a, b, other = (c.split(0.2, random_state=seed)[1].anchors.tolist() for seed in (0, 0, 1))
    assert a == b != other


@pytest.mark.parametrize("test_size", [0, 1, -0.5, 2, "0.5", None])
def test_bad_split_sizes_are_refused(test_size):
    with pytest.raises(ValueError, match="test_size must be a finite number above 0 and below 1"):
        random_triplets(0).comparisons.split(test_size)


def test_too_little_to_split_is_said():
    with pytest.raises(ValueError, match="1 comparison about 1 point: too few"):
        Comparisons.from_triplets([[0, 1, 2]]).split(0.5)


def test_comparisons_are_a_sequence_of_groups():
    c = random_triplets(0, n_triplets=20).comparisons
    assert c.shape == (len(c),) == (c.n_groups,)
    assert weighted(c[[3, 1]]) == weighted(c.subset([3, 1])) == weighted(c[np.array([3, 1]), ...])
    assert weighted(c[:2]) == weighted(c.subset(np.arange(len(c)) < 2))
    assert c[-1].n_groups == 1
    assert c[:0].n_groups == c.subset([]).n_groups == 0
    near, far = c.pair_numbers()
    assert [(*c.pairs[a].tolist(), *c.pairs[b].tolist()) for a, b in zip(near, far, strict=True)] == list(
        c.quadruplets()
    )


# --- what is wrong with the input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Comparisons.from_quadruplets([[0, 1, 2]]),
            r"quadruplets must be rows of 4 point numbers, .*Got shape \(1, 3\)",
        ),
        (
            lambda: Comparisons.from_quadruplets([[0, 1, 1, 0]]),
            r"quadruplets\[0\] is \(0, 1, 1, 0\): a pair is compared with itself",
        ),
        (lambda: Comparisons.from_quadruplets([[0, 0, 1, 2]]), "a point is paired with itself"),
        (
            lambda: Comparisons.from_pairs([[0, 1], [4, 5]], [[2, 3], [5, 4]], contradictions="refuse"),
            r"pair \(4, 5\) is both similar and dissimilar. Remove it",
        ),
        (lambda: Comparisons.from_triplets([[0, 1, 2]], answers=[2]), r"answers must be 1 .* Got 2"),
        (lambda: Comparisons.from_triplets([[0, 1, 2]], answers=[True]), "booleans, and False would be 0, a tie"),
        (lambda: Comparisons.from_triplets([[0, 1, 2]], answers=[1, 0]), "answers must hold one number for each of"),
        (lambda: Comparisons.from_triplets([[0, 1, 2]], answers=[0]), "All answers are ties"),
        (lambda: Comparisons.from_pairs(np.empty((0, 2), int), [[0, 1]]), "There are no similar"),
        (
            lambda: Comparisons.from_pairs([[0, 1]], [[3, 3]]),
            r"dissimilar\[0\] is \(3, 3\): a point is paired with itself",
        ),
        (lambda: Comparisons.from_groups([[1]], [[2], [3]], anchors=[0]), "far has 2 groups, but there are 1 anchors"),
        (lambda: Comparisons.from_groups([[1]], [[]], anchors=[0]), r"far\[0\] is empty. Leave the group out"),
        (lambda: Comparisons.from_groups([], [], anchors=[]), "at least one group is needed"),
        (lambda: Comparisons.from_groups([[1]], [[0]], anchors=[0]), r"far\[0\] contains its anchor, point 0"),
        (
            lambda: Comparisons.from_groups([[1, 2]], [[2]], anchors=[0]),
            r"pair \(0, 2\) is both near and far in group 0",
        ),
        (lambda: Comparisons.from_groups([[[0, 1]]], [[[0, 2]], [[0, 3]]]), "near has 1 groups, but far has 2"),
        (
            lambda: Comparisons.from_triplets([[0, 1, 2]], weights=[-1]),
            r"weights\[0\] is -1.0: weights must be finite and at least 0",
        ),
        (lambda: Comparisons.from_triplets([[0, 1, 2]], weights=[np.nan]), "is nan"),
        (lambda: Comparisons.from_triplets([[0, 1, 2]], weights=[0]), "weights are all zero.*Give a positive weight"),
        (
            lambda: Comparisons.from_triplets([[0, 1, 2]], weights=[1, 2]),
            r"one number for each triplet, 1 in all. Got \(2,\)",
        ),
        (
            lambda: Comparisons.from_triplets([[0, 1, 2]], weights=[1e200]),
            "weights must be finite and at least 0, and at most",
        ),
        (
            lambda: Comparisons.from_rankings([3], [[1]]),
            "query 3 has 1 result, but a comparison needs two. Give at least two results",
        ),
        (lambda: Comparisons.from_rankings([3], [[]]), "query 3 has 0 results"),
        (
            lambda: Comparisons.from_rankings([3], [[1, 2]], grades=[[1, 1]]),
            "query 3 has 2 results of the same grade.*random points as negatives",
        ),
        (
            lambda: Comparisons.from_rankings([3], [[1, 2]], clicks=[[1, 0]]),
            "query 3 has 2 results, but none was skipped above a clicked one",
        ),
        (
            lambda: Comparisons.from_rankings([3], [[1, 2]], clicks=[[1, 5]]),
            "clicks must be True or False, or 1 or 0. Got 5",
        ),
        (lambda: Comparisons.from_rankings([3], [[1, 2]], grades=[[1, np.nan]]), "grades must be finite numbers"),
        (
            lambda: Comparisons.from_rankings([3], [[1, 2]], grades=[[1]]),
            r"grades\[0\] must hold one number for each of 2 results",
        ),
        (
            lambda: Comparisons.from_rankings([3], [[1, 2]], grades=[[1, 0], [1, 0]]),
            "grades must have one list for each of the 1 lists",
        ),
        (
            lambda: Comparisons.from_rankings([3, 3], [1, 2], grades=[1]),
            "grades must hold one number for each of the 2 rows",
        ),
        (lambda: Comparisons.from_rankings([3], [[1, 2]], grades=[[1, 0]], clicks=[[1, 0]]), "Both grades and clicks"),
        (lambda: Comparisons.from_rankings([3], [[1, 3]]), "results of query 3 contain the query itself"),
        (lambda: Comparisons.from_rankings([3], [[1, 2, 1]]), "results of query 3 contain 1 twice"),
        (lambda: Comparisons.from_rankings([3, 4], [[1, 2]]), r"Got shape \(2,\) for 1"),
        (lambda: Comparisons.from_rankings([], []), "There are no rankings"),
        (lambda: Comparisons.from_rankings([3], [[1, 2]], max_per_query=0), "max_per_query must be a whole number"),
        (lambda: Comparisons.from_rankings([3], [[1, 2]], weights=[[0, 1]]), "0 for every result that should be near"),
        (lambda: Comparisons.concatenate([]), "nothing to concatenate"),
        (lambda: Comparisons.from_triplets([[0, 1, 2], [0, 1]]), "triplets must be an array; its rows have different"),
        (lambda: Comparisons.from_triplets([[0, 1, 2]], weights=["much"]), "weights must be numbers"),
        (lambda: Comparisons.from_rankings([3], [[1, 2]], weights=2.0), "weights must be numbers in the same form as"),
        (lambda: Comparisons.from_rankings([3], [[1, 2]], grades=[["a", "b"]]), "grades must be numbers in the same"),
        (lambda: Comparisons.from_rankings([3, 4], [[1, 2], [1, -2]]), r"results\[1\]\[1\] is -2"),
        (
            lambda: Comparisons.from_groups([[1], [1, 2]], [[3], [2]], weights=[0, 1], anchors=[0, 0]),
            r"\(0, 2\) is both near and far in group 1",
        ),
        (
            lambda: Comparisons.from_groups([[1, 2]], [[3, 4]]),
            r"near\[0\] must be rows of 2 point numbers, a pair",
        ),
        (
            lambda: Comparisons.from_labels([[0.0], [1], [2]], list("aab"), 1, 1, sample_weight=[0, 0, 1]),
            "sample_weight is zero for every sample that has another of its class",
        ),
        (
            lambda: Comparisons.from_triplets([[0, 1, 2]], weights=[1e90]).reweighted([1e90]),
            "multiplied.* at most 1e\\+100",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*classes have fewer than n_neighbors")
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_point_numbers_must_be_whole():
    with pytest.raises(TypeError, match=r"results\[0\] must hold integer point numbers, but their type is float64"):
        Comparisons.from_rankings([3], [[1.5, 2.0]])


def test_rankings_without_comparisons_are_left_out_with_a_warning():
    with pytest.warns(UserWarning, match=r"1 of 2 rankings .* The first is for query 3, which has 1 result") as record:
        c = Comparisons.from_rankings([3, 4], [[1], [1, 2]])
    assert c.anchors.tolist() == [4]
    assert record[0].filename == __file__
