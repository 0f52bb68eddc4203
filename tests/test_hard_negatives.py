"""Hard negatives: what a literal loop over queries, positives and documents finds."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris, make_blobs

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, MahalanobisMetric
from boostmetric.mining import Mined, mine_from_labels, mine_triplets, window

CLOSE = 1e-9  # distances of points on a grid are equal, or differ by more
REASONS = ("same group", "near-duplicate", "too near", "too far", "over the cap")


def limits(margin):
    least, most = margin if isinstance(margin, tuple) else (margin, None)
    return -math.inf if least is None else least, math.inf if most is None else most


def by_loops(
    queries,
    documents,
    positives,
    relevant,
    *,
    ranks=(1, 100),
    n_negatives=5,
    per_query=None,
    relative_margin=0.05,
    margin=None,
    near_duplicate=0.1,
    groups=None,
):
    """Rows (query, positive, negative, rank) and the counts; documents are numbered from 0."""

    def apart(a, b):
        return math.dist(a, b)

    rows, removed, n_candidates = [], dict.fromkeys(REASONS, 0), 0
    for q in sorted({q for q, _ in positives}):
        others = [d for d in range(len(documents)) if (q, d) not in relevant]
        others.sort(key=lambda d: (round(apart(queries[q], documents[d]), 9), d))
        own = [p for asked, p in dict.fromkeys(positives) if asked == q]
        taken = []
        for p in own:
            reach = apart(queries[q], documents[p])
            place = 0
            for rank, d in enumerate(others, start=1):
                if not ranks[0] <= rank <= ranks[1]:
                    continue
                n_candidates += 1
                off = apart(queries[q], documents[d])
                low, high = limits(margin)
                relative_low, relative_high = limits(relative_margin)
                if groups is not None and any(groups[d] == groups[one] for one in own):
                    removed["same group"] += 1
                elif near_duplicate is not None and any(
                    apart(documents[d], documents[one]) <= near_duplicate * apart(queries[q], documents[one]) + CLOSE
                    for one in own
                ):
                    removed["near-duplicate"] += 1
                elif off < reach + low - CLOSE or (relative_low > -9 and off < reach * (1 + relative_low) - CLOSE):
                    removed["too near"] += 1
                elif off > reach + high + CLOSE or (relative_high < 9 and off > reach * (1 + relative_high) + CLOSE):
                    removed["too far"] += 1
                elif n_negatives is not None and place == n_negatives:
                    removed["over the cap"] += 1
                else:
                    taken.append((place, own.index(p), (q, p, d, rank)))
                    place += 1
        if per_query is not None:
            removed["over the cap"] += max(0, len(taken) - per_query)
            taken = sorted(taken)[:per_query]
        rows += [row for _, _, row in sorted(taken, key=lambda one: (one[1], one[2][3]))]
    return rows, removed, n_candidates


def agree(mined, expected, queries, documents):
    rows, removed, n_candidates = expected
    first = len(queries) if mined.n_documents is not None else 0
    found = [
        (q, p - first, d - first, rank) for (q, p, d), rank in zip(mined.triplets.tolist(), mined.ranks, strict=True)
    ]
    assert found == rows
    assert mined.removed == removed
    assert mined.n_candidates == n_candidates == len(rows) + sum(removed.values())
    for (q, p, d, _), (near, far) in zip(rows, mined.distances, strict=True):
        assert near == pytest.approx(math.dist(queries[q], documents[p]), abs=1e-12)
        assert far == pytest.approx(math.dist(queries[q], documents[d]), abs=1e-12)


GRID = st.tuples(st.integers(-4, 4), st.integers(-4, 4))
MARGIN = st.one_of(
    st.none(),
    st.sampled_from([-0.5, -0.25, 0, 0.05, 0.5, 1.0]),
    st.sampled_from([(0, 0.5), (None, 0.25), (-0.5, None), (-0.25, 1.0), (0, 0)]),
)
OPTIONS = st.fixed_dictionaries(
    {
        "ranks": st.sampled_from([(1, 100), (1, 3), (2, 5), (3, 3)]),
        "n_negatives": st.sampled_from([None, 1, 2, 5]),
        "per_query": st.sampled_from([None, 1, 3]),
        "relative_margin": MARGIN,
        "margin": MARGIN,
        "near_duplicate": st.sampled_from([None, 0, 0.1, 0.5, 1.0]),
    }
)


@pytest.mark.filterwarnings("ignore:None of the")
@given(st.data(), OPTIONS, st.sampled_from([2**22, 1, 12]))
@settings(max_examples=150)
def test_queries_and_documents_as_by_loops(data, options, chunk):
    queries = data.draw(st.lists(GRID, min_size=1, max_size=6))
    documents = data.draw(st.lists(GRID, min_size=7, max_size=14))
    pair = st.tuples(st.integers(0, len(queries) - 1), st.integers(0, len(documents) - 1))
    positives = data.draw(st.lists(pair, min_size=1, max_size=10))
    excluded = data.draw(st.lists(pair, max_size=5))
    if data.draw(st.booleans()):
        n = len(documents)
        options = {**options, "groups": data.draw(st.lists(st.sampled_from("abcdef"), min_size=n, max_size=n))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "_CHUNK", chunk)
        mined = mine_triplets(queries, documents, positives, excluded=excluded, **options)
    agree(mined, by_loops(queries, documents, positives, {*positives, *excluded}, **options), queries, documents)
    assert set(mined.without_positive) == set(range(len(queries))) - {q for q, _ in positives}
    assert set(mined.without_negative) == {q for q, _ in positives} - {q for q, _, _ in mined.triplets}


@pytest.mark.filterwarnings("ignore:None of the")
@given(st.data(), OPTIONS, st.sampled_from([2**22, 1]))
@settings(max_examples=100)
def test_one_set_as_by_loops(data, options, chunk):
    points = data.draw(st.lists(GRID, min_size=7, max_size=14))
    number = st.integers(0, len(points) - 1)
    positives = data.draw(st.lists(st.tuples(number, number).filter(lambda p: p[0] != p[1]), min_size=1, max_size=8))
    relevant = {*positives, *((b, a) for a, b in positives), *((n, n) for n in range(len(points)))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "_CHUNK", chunk)
        mined = mine_triplets(points, None, positives, **options)
    agree(mined, by_loops(points, points, positives, relevant, **options), points, points)


@pytest.mark.filterwarnings("ignore:None of the")
@given(st.data(), OPTIONS, st.sampled_from([0.0, 1.0, 4.0]), st.integers(1, 3))
@settings(max_examples=100)
def test_labels_as_by_loops(data, options, large, n_positives):
    points = data.draw(st.lists(GRID, min_size=8, max_size=16))
    rest = st.lists(st.sampled_from("abc"), min_size=len(points) - 6, max_size=len(points) - 6)
    y = [*"aaabbb", *data.draw(rest)]
    relevant = {(i, j) for i in range(len(points)) for j in range(len(points)) if y[i] == y[j]}
    positives = []
    for i in range(len(points)):
        others = [j for j in range(len(points)) if j != i and y[j] == y[i]]
        others.sort(key=lambda j: (round(math.dist(points[i], points[j]), 9), j))
        positives += [(i, j) for j in others[:n_positives]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "_LARGE_CLASS", large)  # at 0 all classes are searched for one by one, at 4 none
        mined = mine_from_labels(points, y, n_positives=n_positives, **options)
    agree(mined, by_loops(points, points, positives, relevant, **options), points, points)


# --- defaults, metrics and kinds of input -----------------------------------------------------------------------------


def test_defaults_keep_what_is_clearly_farther_and_no_copy():
    documents = [[0, 10.0], [10.4, 0], [0.5, 10.0], [-10.6, 0], [0, -12.0]]
    mined = mine_triplets([[0.0, 0.0]], documents, [[0, 0]])
    assert mined.triplets.tolist() == [[0, 1, 4], [0, 1, 5]]  # 104 % is too near; document 2 nearly is the positive
    assert mined.removed == {"same group": 0, "near-duplicate": 1, "too near": 1, "too far": 0, "over the cap": 0}
    assert mined.ranks.tolist() == [3, 4]


def test_labels_keep_negatives_that_are_nearer():
    mined = mine_from_labels([[0.0], [1.0], [5.0], [6.0]], [0, 1, 0, 1], n_negatives=1)
    assert mined.triplets[0].tolist() == [0, 2, 1]
    assert mined.share_violated == 1.0


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_matrix, pd.DataFrame, lambda X: np.asarray(X, np.float32)])
@pytest.mark.parametrize("learned", [False, True])
def test_metric_and_kinds_of_input(as_given, learned):
    X, y = load_iris(return_X_y=True)
    queries, documents = X[:40], X[40:]
    positives = [(i, int(np.flatnonzero(y[40:] == y[i])[i % 10])) for i in range(40)]
    L = np.array([[1.0, 2.0, 0.0, -1.0], [0.0, 0.5, 3.0, 0.0]])
    metric = MahalanobisMetric(L) if learned else None
    mined = mine_triplets(as_given(queries), as_given(documents), positives, metric=metric, ranks=(3, 30))
    mapped = (queries @ L.T, documents @ L.T) if learned else (queries, documents)
    judged = by_loops(*mapped, positives, set(positives), ranks=(3, 30))
    found = mined.triplets - [0, 40, 40]
    # Iris has one decimal, so that float32 and float64 know the same ties.
    assert [(*row, rank) for row, rank in zip(found.tolist(), mined.ranks, strict=True)] == judged[0]
    assert mined.removed == judged[1]


def test_fitted_learner_is_a_metric():
    X, y = load_iris(return_X_y=True)
    model = BoostMetric.paper(max_iter=5).fit(X, y)
    by_model, by_metric = (mine_from_labels(X, y, metric=one) for one in (model, model.get_metric()))
    assert np.array_equal(by_model.triplets, by_metric.triplets)
    assert np.array_equal(by_model.triplets, mine_from_labels(model.transform(X), y).triplets)


def test_triplets_train_and_mend_what_the_base_gets_wrong():
    rng = np.random.default_rng(0)
    queries, noise = rng.standard_normal((60, 2)), rng.standard_normal((120, 6)) * 2
    points = np.hstack([np.vstack([queries, queries + 0.05]), noise])
    positives = np.stack([np.arange(60), np.arange(60)], axis=1)
    mined = mine_triplets(
        points[:60], points[60:], positives, relative_margin=None, near_duplicate=None, n_negatives=10
    )
    assert mined.share_violated > 0.5
    model = ComparisonBoostMetric(max_iter=30).fit(Comparisons.from_triplets(mined.triplets), points=points)
    assert model.score(mined.triplets, points=points) > 0.95


@pytest.mark.parametrize("scale", [2.0**-600, 2.0**600])
def test_scale_changes_nothing(scale):
    X, y = load_iris(return_X_y=True)
    options = {"margin": (0.1, 1.0), "n_positives": 2}
    plain = mine_from_labels(X, y, **options)
    scaled = mine_from_labels(X * scale, y, **{**options, "margin": (0.1 * scale, scale)})
    assert np.array_equal(plain.triplets, scaled.triplets)
    assert np.array_equal(plain.distances * scale, scaled.distances)


# --- at random --------------------------------------------------------------------------------------------------------


def test_random_choice_is_of_the_window_and_repeats():
    X, y = make_blobs(120, 4, centers=6, cluster_std=4, random_state=0)
    options = {"n_positives": 2, "ranks": (5, 40), "relative_margin": (-0.5, None)}
    everything = mine_from_labels(X, y, n_negatives=None, **options)
    drawn = mine_from_labels(X, y, n_negatives=3, choice="random", random_state=7, **options)
    assert {*map(tuple, drawn.triplets)} < {*map(tuple, everything.triplets)}
    for pair in {tuple(row[:2]) for row in everything.triplets}:
        available = int((everything.triplets[:, :2] == pair).all(axis=1).sum())
        assert int((drawn.triplets[:, :2] == pair).all(axis=1).sum()) == min(3, available)
    again = mine_from_labels(X, y, n_negatives=3, choice="random", random_state=7, **options)
    other = mine_from_labels(X, y, n_negatives=3, choice="random", random_state=8, **options)
    assert np.array_equal(drawn.triplets, again.triplets)
    assert not np.array_equal(drawn.triplets, other.triplets)
    assert drawn.n_candidates == everything.n_candidates


def test_random_choice_does_not_depend_on_the_parts(monkeypatch):
    rng = np.random.default_rng(0)
    queries, documents = rng.random((30, 3)), rng.random((50, 3))
    positives = np.stack([rng.integers(0, 30, 60), rng.integers(0, 50, 60)], axis=1)
    options = {"choice": "random", "random_state": 0, "per_query": 4}
    whole = mine_triplets(queries, documents, positives, **options)
    monkeypatch.setattr(window, "_CHUNK", 100)
    assert np.array_equal(whole.triplets, mine_triplets(queries, documents, positives, **options).triplets)
    assert np.unique(whole.triplets[:, 0], return_counts=True)[1].max() == 4


def test_random_choice_prefers_nobody():
    documents = [[1.0], *([2.0 + n] for n in range(10))]
    state = np.random.RandomState(0)
    mined = [
        mine_triplets([[0.0]], documents, [[0, 0]], n_negatives=3, choice="random", random_state=state)
        for _ in range(400)
    ]
    times = np.bincount(np.concatenate([one.ranks for one in mined]), minlength=11)[1:]
    assert times.sum() == 1200
    assert np.abs(times - 120).max() < 4 * math.sqrt(120 * 0.7)
    # The turns of the positives are drawn as well.
    positives = [[0, n] for n in range(5)]
    far = [[1.0 + n / 100] for n in range(5)] + [[5.0 + n] for n in range(5)]
    first = [
        mine_triplets([[0.0]], far, positives, per_query=1, choice="random", random_state=state).triplets[0, 1]
        for _ in range(100)
    ]
    assert len(set(first)) == 5


# --- the result -------------------------------------------------------------------------------------------------------


def test_columns_by_id():
    queries, documents = [[0.0], [10.0]], [[1.0], [9.0], [3.0]]
    mined = mine_triplets(queries, documents, [[1, 1], [0, 0]], n_negatives=1)
    table = pd.DataFrame(mined.columns(["q0", "q1"], [7, 8, 9]))
    assert table.to_dict("list") == {
        "anchor": ["q0", "q1"],
        "positive": [7, 8],
        "negative": [9, 9],
        "rank": [1, 1],
        "positive_distance": [1.0, 1.0],
        "negative_distance": [3.0, 7.0],
    }
    assert mined.columns()["negative"].tolist() == [2, 2]
    with pytest.raises(ValueError, match="There are 3 documents and 2 document_ids"):
        mined.columns(document_ids=[1, 2])
    with pytest.raises(ValueError, match="There are 2 queries and 1 ids"):
        mined.columns(["a"])


def test_columns_of_one_set():
    mined = mine_from_labels([[0.0], [1.0], [3.0], [4.0]], list("aabb"), n_negatives=1)
    assert mined.columns(list("wxyz"))["negative"].tolist() == ["y", "y", "x", "x"]
    with pytest.raises(ValueError, match="no document_ids"):
        mined.columns(document_ids=list("wxyz"))


def test_description_names_what_was_left_out():
    y = ["a", "a", "b", "b", "alone"]
    mined = mine_from_labels(
        [[0.0], [1.0], [3.0], [3.0], [3.5]], y, n_negatives=1, relative_margin=0, margin=(None, 1.5)
    )
    assert isinstance(mined, Mined)
    assert mined.without_positive.tolist() == [4]
    assert mined.without_negative.tolist() == [0]  # its nearest is 3 away, its positive 1
    text = mined.describe()
    assert text.startswith("3 triplets for 3 of 5 queries, from 4 positives with 12 candidates.\nNot taken: ")
    assert "Without a positive: 1 query; the first is 4." in text
    assert "Without a negative: 1 query; the first is 0." in text
    assert "0.0 % of the negatives" in text
    counts = json.loads(json.dumps(mined.as_dict()))
    assert counts["n_triplets"] == len(mined) == 3
    assert counts["removed"] == mined.removed
    assert repr(mined) == "Mined(3 triplets, 5 queries)"


def test_nothing_left_is_a_warning():
    with pytest.warns(UserWarning, match=r"None of the 1 candidates is left as a negative \(1 too near\)"):
        mined = mine_triplets([[0.0]], [[2.0], [1.0]], [[0, 0]])
    assert mined.triplets.shape == (0, 3)
    assert mined.distances.shape == (0, 2)
    assert mined.columns()["anchor"].shape == (0,)
    assert "0 triplets for 0 of 1 query" in mined.describe()


def test_a_query_to_which_all_is_relevant():
    mined = mine_triplets([[0.0], [5.0]], [[1.0], [6.0]], [[0, 0], [0, 1], [1, 1]])
    assert mined.triplets.tolist() == [[1, 3, 2]]
    assert mined.without_negative.tolist() == [0]


# --- errors -----------------------------------------------------------------------------------------------------------

Q, D, P = [[0.0], [1.0]], [[1.0], [2.0], [4.0]], [[0, 0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positives": [[0, 3]]}, r"positives\[0\] is \(0, 3\): there is no document 3; they are numbered from 0 to 2"),
        ({"positives": [[0, 0], [2, 0]]}, r"positives\[1\] is \(2, 0\): there is no query 2"),
        ({"positives": []}, "positives must be rows of 2 point numbers"),
        ({"excluded": [[0, 9]]}, r"excluded\[0\] is \(0, 9\)"),
        ({"documents": Q}, "Pass documents=None"),
        ({"documents": [[1.0, 2.0]]}, "1 features and the documents 2"),
        ({"documents": None, "positives": [[1, 1]]}, "a query is paired with itself"),
        ({"ranks": (0, 3)}, "ranks must be a whole number of at least 1"),
        ({"ranks": 3}, r"ranks must be a pair \(first, last\)"),
        ({"ranks": (3, 2)}, "the first rank must not be above the last"),
        ({"ranks": (4, 9)}, r"ranks=\(4, 9\) begins at 4, but there are only 3 documents"),
        ({"n_negatives": 0}, "n_negatives must be a whole number of at least 1, or None"),
        ({"per_query": 1.5}, "per_query must be a whole number"),
        ({"choice": "hardest"}, "choice must be one of 'nearest', 'random'"),
        ({"relative_margin": -1.5}, "relative_margin must be a finite number of at least -1"),
        ({"relative_margin": (0.2, 0.1)}, r"relative_margin=\(0.2, 0.1\) keeps nothing"),
        ({"margin": math.nan}, "margin must be a finite number, a pair"),
        ({"margin": (1, 2, 3)}, "margin must be a finite number, a pair"),
        ({"margin": "wide"}, "margin must be a finite number, a pair"),
        ({"near_duplicate": -0.1}, "near_duplicate must be a finite number of at least 0"),
        ({"groups": ["a"]}, "one group for each of 3 documents. Got 1"),
        ({"queries": [[math.nan], [1.0]]}, "NaN"),
        ({"metric": MahalanobisMetric([[1e150]]), "queries": [[1e300], [0.0]]}, "maps row 0 of the queries"),
    ],
)
def test_errors_say_what_to_do(options, message):
    given = {"queries": Q, "documents": D, "positives": P, **options}
    with pytest.raises(ValueError, match=message):
        mine_triplets(given.pop("queries"), given.pop("documents"), given.pop("positives"), **given)


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (["a", "a", "a"], {}, "comparisons need at least 2 classes"),
        (["a", "b", "c"], {}, "Each of the 3 labels occurs once"),
        (["a", "a"], {}, "inconsistent numbers of samples"),
        (["a", "a", "b"], {"n_positives": 0}, "n_positives must be"),
        (["a", "a", "b"], {"ranks": (3, 5)}, "only 2 points of other classes"),
    ],
)
def test_errors_of_labels(y, options, message):
    with pytest.raises(ValueError, match=message):
        mine_from_labels([[0.0], [1.0], [2.0]], y, **options)


def test_wrong_types():
    with pytest.raises(TypeError, match="positives must hold integer point numbers"):
        mine_triplets(Q, D, [[0.0, 1.0]])
    with pytest.raises(TypeError, match="metric must be"):
        mine_triplets(Q, D, P, metric="cosine")


def test_a_margin_beyond_all_numbers_is_none():
    X, y = np.arange(12.0).reshape(6, 2) * 1e-9, np.arange(6) % 2
    wide, without = (mine_from_labels(X, y, n_negatives=1, margin=(None, limit)) for limit in (1e300, None))
    assert np.array_equal(wide.triplets, without.triplets)
