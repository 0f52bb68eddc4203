"""The index: what brute force finds, under the ids that were given, also after a trip to the disk."""

import sys
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris, make_blobs

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.neighbors import nearest, rounding_of_distances
from boostmetric.retrieval import MetricIndex, backends
from boostmetric.retrieval import index as index_module
from boostmetric.retrieval.ids import packed
from boostmetric.storage.tensor_file import read_tensors, write_tensors
from conftest import corruptions

X, Y = load_iris(return_X_y=True)
METRIC = MahalanobisMetric([[1.0, 2.0, 0.0, -1.0], [0.0, 0.5, 3.0, 0.0]], feature_names=list("abcd"))
BACKENDS = ["exact", "faiss-flat", "faiss-hnsw", "faiss-ivf"]


def need(backend):
    if backend != "exact":
        pytest.importorskip("faiss")


def brute_force(points, queries, k):
    """Numbers and distances; of equal ones the first comes first."""
    distance = cdist(queries, points)
    numbers = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return numbers, np.take_along_axis(distance, numbers, axis=1)


# --- the same as brute force ------------------------------------------------------------------------------------------

GRID = st.tuples(*[st.integers(-3, 3)] * 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(GRID, max_size=12)),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 100), max_size=6)),
        st.tuples(st.just("search"), st.lists(GRID, min_size=1, max_size=20)),
    ),
    min_size=3,
    max_size=15,
)


@pytest.mark.parametrize("backend", BACKENDS[:2])
@given(steps=STEPS, k=st.integers(1, 6), named=st.booleans())
@settings(max_examples=60)
def test_any_history_of_additions_and_removals(backend, steps, k, named):
    need(backend)
    index, points, ids, n_added = MetricIndex(backend=backend), [], [], 0
    for step, values in steps:
        if step == "add":
            new = [(f"p{n_added + i}", i) if named else n_added + i for i in range(len(values))]
            index.add(np.array(values, dtype=float).reshape(-1, 2), new if named else None)
            points, ids, n_added = [*points, *values], [*ids, *new], n_added + len(values)
        elif step == "remove":
            gone = {number % len(ids) for number in values} if ids else set()
            index.remove([ids[i] for i in gone])
            points, ids = ([one for i, one in enumerate(some) if i not in gone] for some in (points, ids))
        elif len(points) >= k:
            found, distances = index.search(values, k)
            numbers, expected = brute_force(np.array(points), np.array(values), k)
            assert np.allclose(distances, expected, rtol=1e-14, atol=0)
            rows = [[ids.index(one) for one in row] for row in found.tolist()]
            if backend == "exact":
                assert rows == numbers.tolist()
            else:  # of many equals faiss may propose any
                assert all(len(set(row)) == k for row in rows)
                away = np.array(points)[rows] - np.array(values)[:, None]
                assert np.allclose(np.linalg.norm(away, axis=2), distances, rtol=1e-14, atol=0)
        assert index.ids == ids
        assert len(index) == len(ids)


@pytest.mark.parametrize("n_queries", [1, 16, 17, 300])
def test_exact_search_finds_the_neighbours_of_the_rest_of_the_library(n_queries):
    rng = np.random.default_rng(n_queries)
    points, queries = np.round(rng.standard_normal((500, 3)), 1), np.round(rng.standard_normal((n_queries, 3)), 1)
    ids, distances = MetricIndex().add(points).search(queries, 7)
    assert np.array_equal(ids, nearest(points, queries, 7, rounding_of_distances(points)))
    assert np.allclose(distances, brute_force(points, queries, 7)[1], rtol=1e-12)
    assert (np.diff(distances, axis=1) >= 0).all()


@pytest.mark.parametrize("scale", [1e-160, 1e-120, 1e120, 1e140])
@pytest.mark.parametrize("n_queries", [3, 50])
def test_very_small_and_very_large_points(scale, n_queries):
    rng = np.random.default_rng(0)
    points, queries = rng.standard_normal((200, 4)), rng.standard_normal((n_queries, 4))
    ids, distances = MetricIndex().add(scale * points).search(scale * queries, 5)
    expected, right = brute_force(points, queries, 5)
    assert np.array_equal(ids, expected)
    assert np.allclose(distances / scale, right, rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_distances_are_those_of_the_metric(backend):
    need(backend)
    learner = BoostMetric.paper(max_iter=5).fit(X, Y)
    for metric in (learner, METRIC, None):
        ids, distances = MetricIndex(metric, backend=backend).add(X).search(X[::10], 3)
        plain = metric or MahalanobisMetric(np.eye(4))
        plain = plain.get_metric() if metric is learner else plain
        assert np.allclose(distances, plain.distance(X[::10, None], X[ids]), rtol=1e-10, atol=1e-12)
        assert (distances[:, 0] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_ties_come_in_the_order_of_insertion(backend):
    need(backend)
    points = np.zeros((6, 2))
    points[[1, 4]] = 1.0
    ids, distances = MetricIndex(backend=backend).add(points, ids=iter("zyxwvu")).search([[0.0, 0.0]], 6)
    assert "".join(ids[0]) == "zxwuyv"
    assert distances[0].tolist() == [0, 0, 0, 0, np.sqrt(2), np.sqrt(2)]


def test_queries_are_searched_for_in_batches(monkeypatch):
    rng = np.random.default_rng(1)
    points, queries = rng.standard_normal((300, 5)), rng.standard_normal((1000, 5))
    whole = MetricIndex().add(points).search(queries, 4)
    monkeypatch.setattr(index_module, "_CHUNK", 1)
    monkeypatch.setattr(index_module, "_FEWEST", 7)
    monkeypatch.setattr(backends, "_CHUNK", 50)
    asked = []
    search = backends.Exact.search
    monkeypatch.setattr(
        backends.Exact, "search", lambda self, p, q, k, e: asked.append(len(q)) or search(self, p, q, k, e)
    )
    index = MetricIndex().add(points)
    parts = index.search(queries, 4)
    assert max(asked) == 7
    assert sum(asked) == 1000
    assert np.array_equal(whole[0], parts[0])
    assert np.allclose(whole[1], parts[1], rtol=1e-14)


@pytest.mark.parametrize("metric", [None, METRIC])
def test_sparse_points_and_queries(metric):
    dense = np.where(np.random.default_rng(0).random((40, 4)) < 0.5, 0.0, X[:40])
    expected = MetricIndex(metric).add(dense).search(dense[:5], 3)
    for form in (sparse.csr_array, sparse.coo_matrix, sparse.csc_matrix):
        found = MetricIndex(metric).add(form(dense)).search(form(dense[:5]), 3)
        assert np.array_equal(found[0], expected[0])
        assert np.allclose(found[1], expected[1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("metric", [None, METRIC])
def test_many_points_are_searched_block_by_block_with_the_same_result(monkeypatch, metric):
    points = np.random.default_rng(0).integers(3, size=(500, 4)).astype(np.float32)  # with many ties
    index = MetricIndex(metric).add(points)
    expected = index.search(points[:40], 7)
    monkeypatch.setattr("boostmetric.retrieval.backends._LARGE", 0)
    monkeypatch.setattr("boostmetric.retrieval.backends._CHUNK", 64)
    monkeypatch.setattr("boostmetric.retrieval.backends.nearest", None)  # is not asked
    for found, right in zip(index.search(points[:40], 7), expected, strict=True):
        np.testing.assert_array_equal(found, right)


# --- faiss ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_queries", [5, 200])
def test_faiss_flat_finds_what_exact_finds_far_from_the_origin(n_queries):
    pytest.importorskip("faiss")
    rng = np.random.default_rng(3)
    points, queries = 1e6 + rng.standard_normal((2000, 16)), 1e6 + rng.standard_normal((n_queries, 16))
    exact, flat = (MetricIndex(backend=backend).add(points).search(queries, 10) for backend in BACKENDS[:2])
    assert np.array_equal(exact[0], flat[0])
    assert np.array_equal(exact[1], flat[1])


@pytest.mark.parametrize("backend", BACKENDS[2:])
def test_recall_on_clusters_before_and_after_removals(backend):
    pytest.importorskip("faiss")
    points, _ = make_blobs(4000, 16, centers=40, random_state=0)
    queries, _ = make_blobs(300, 16, centers=40, random_state=0)
    metric = MahalanobisMetric(np.random.default_rng(0).standard_normal((12, 16)))
    index, exact = (MetricIndex(metric, backend=one).add(points[:2500]) for one in (backend, "exact"))

    def recall():
        found, wanted = index.search(queries, 10)[0], exact.search(queries, 10)[0]
        return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, wanted, strict=True)])

    assert recall() > 0.95
    for change in [
        lambda i: i.remove(range(0, 2500, 10)),  # passed over
        lambda i: i.add(points[2500:]),
        lambda i: i.remove([n for n in range(2500) if n % 10 and n % 2]),  # so many that it is built anew
        lambda i: i.add(points[:500], ids=[("again", n) for n in range(500)]),
    ]:
        change(index)
        change(exact)
        assert index.ids == exact.ids
        assert recall() > 0.95
        assert set(index.search(queries, 10)[0].ravel().tolist()) <= set(index.ids)


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_all_points_can_be_asked_for_and_removed(backend):
    pytest.importorskip("faiss")
    index = MetricIndex(backend=backend).add(X)
    for _ in range(2):
        ids, distances = index.search(X[:2], len(index))
        assert all(sorted(row) == sorted(index.ids) for row in ids.tolist())
        expected = np.sort(cdist(X[:2], X[np.array(index.ids)]), axis=1)
        assert np.allclose(distances, expected, atol=1e-12)
        index.remove(index.ids[::5])
    index.remove(index.ids).add(X[:3])
    assert index.search(X[:1], 1)[0].tolist() == [[150]]


def test_options_of_faiss_are_used():
    pytest.importorskip("faiss")
    points, _ = make_blobs(3000, 8, centers=300, random_state=1)
    wanted = MetricIndex().add(points).search(points, 10)[0]

    def recall(backend, **options):
        found = MetricIndex(backend=backend, backend_options=options).add(points).search(points, 10)[0]
        return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, wanted, strict=True)])

    assert recall("faiss-ivf", cells=50, probes=1) < recall("faiss-ivf", cells=50, probes=50) == 1.0
    weak = recall("faiss-hnsw", links=2, ef_construction=2, ef_search=1)
    assert weak < recall("faiss-hnsw", links=2, ef_construction=2, ef_search=500)
    assert weak < recall("faiss-hnsw", links=32, ef_construction=2, ef_search=1)
    with pytest.raises(ValueError, match="50 cells need at least as many points; the index has 10"):
        MetricIndex(backend="faiss-ivf", backend_options={"cells": 50}).add(points[:10]).search(points, 1)


def test_without_faiss_there_is_a_hint(monkeypatch, tmp_path):
    MetricIndex().add(X).save(tmp_path / "index")
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"backend='faiss-hnsw' needs the package faiss.*boostmetric\[faiss\]"):
        MetricIndex(backend="faiss-hnsw")
    with pytest.raises(ImportError, match=r"boostmetric\[faiss\]"):
        MetricIndex.load(tmp_path / "index", backend="faiss-flat")


# --- ids and arguments ------------------------------------------------------------------------------------------------


def test_running_numbers_are_never_used_twice():
    index = MetricIndex().add(X[:3]).remove([1, 2])
    assert index.add(X[:2]).ids == [0, 3, 4]
    assert index.add(X[:2], ids=["a", 10]).add(X[:1]).ids == [0, 3, 4, "a", 10, 11]
    assert index.add(X[:1], ids=[15.5]).add(X[:1]).ids[-1] == 16
    assert index.add(X[:2], ids=[10**400, np.inf]).add(X[:1]).ids[-1] == 10**400 + 1


def test_ids_keep_their_types_in_answers():
    ids = [1, "one", (1, "a"), None, date(2020, 1, 1), 2.5, frozenset([1])]
    index = MetricIndex().add(X[:7], ids=ids)
    found, _ = index.search(X[:7], 1)
    assert found.dtype == object
    assert found[:, 0].tolist() == ids
    assert all(one in index for one in ids)
    assert "two" not in index
    assert [1] not in index
    assert index.remove([(1, "a")]).ids == [one for one in ids if one != (1, "a")]


def test_ids_of_numpy_and_pandas_are_those_of_python():
    index = MetricIndex().add(X[:2], ids=np.array([5, 6])).add(X[2:4], ids=np.array(["a", "b"]))
    index.add(X[4:6], ids=pd.Series([7, 8], index=["x", "y"]))
    assert index.ids == [5, 6, "a", "b", 7, 8]
    assert {type(one) for one in index.ids} == {int, str}
    assert np.int64(5) in index
    assert MetricIndex().add(X).search(X[:2], 2)[0].dtype == np.int64


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([3, "a"], r"Already in the index: 3, 'a'\. Remove them first"),
        (["b", "b"], r"Given more than once: 'b'"),
        (["b"], "There are 2 points and 1 ids"),
        ("bc", "ids must be a list, even for one id. Got 'bc'"),
        (7, "ids must be a list"),
        ([["b"], "c"], r"hashable and equal to itself.* Got \['b'\]"),
        ([float("nan"), "c"], "equal to itself.* Got nan"),
        ([pd.NA, "c"], "equal to itself.* Got <NA>"),
        (range(100), "There are 2 points and 100 ids"),
    ],
)
def test_ids_that_are_refused_change_nothing(ids, message):
    index = MetricIndex().add(X[:2], ids=[3, "a"])
    with pytest.raises(ValueError, match=message):
        index.add(X[2:4], ids=ids)
    assert index.ids == [3, "a"]
    assert index.add(X[:1]).ids == [3, "a", 4]


def test_removals_that_are_refused_change_nothing():
    index = MetricIndex().add(X)
    with pytest.raises(
        ValueError, match=r"Not in the index, which has 150 points: 'x', 200, 201, 202, 203 and 96 more"
    ):
        index.remove([0, "x", *range(200, 300)])
    with pytest.raises(ValueError, match="Given more than once: 4"):
        index.remove([4, 5, 4])
    with pytest.raises(ValueError, match="ids must be a list, even for one id"):
        index.remove("x")
    assert len(index) == 150


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i: i.search(X[0], 1), r"Q must have shape .* even for one point. Got \(4,\)"),
        (lambda i: i.search(X[:, :3], 1), "Q has 3 features; the index needs 4"),
        (lambda i: i.search(X, 6), "k=6 is more than the 5 points in the index. Lower k"),
        (lambda i: i.search(X, 0), "k must be a whole number of at least 1"),
        (lambda i: i.search(X, 2.0), "k must be a whole number"),
        (lambda i: i.remove(i.ids).search(X, 1), "The index is empty: add points"),
        (
            lambda i: i.search(np.where(np.arange(150)[:, None] == 7, np.nan, X), 1),
            "Row 7 of Q has numbers that are NaN",
        ),
        (lambda i: i.add([[1.0, np.inf, 0.0, 0.0]]), "Row 0 of X has numbers that are NaN, infinite"),
        (lambda i: i.add([[1e200, 0.0, 0.0, 0.0]]), r"above 1e\+150"),
        (lambda i: i.add(X[:, :2]), "X has 2 features; the index needs 4"),
        (lambda i: i.add(pd.DataFrame(X, columns=list("abdc"))), "found 'd' instead of 'c'"),
    ],
)
def test_wrong_arguments(call, message):
    index = MetricIndex(METRIC).add(X[:5])
    with pytest.raises(ValueError, match=message):
        call(index)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"backend": "annoy"}, "backend must be one of 'exact', 'faiss-flat'.* Got 'annoy'"),
        ({"backend_options": {"cells": 3}}, "backend='exact' has no options. Got 'cells'"),
        ({"backend_options": 3}, "backend_options must be a dictionary"),
        ({"backend": "faiss-ivf", "backend_options": {"links": 3}}, "has the options 'cells', 'probes'. Got 'links'"),
        (
            {"backend": "faiss-ivf", "backend_options": {"cells": 0}},
            r"backend_options\['cells'\] must be a whole number",
        ),
        ({"metric": "euclidean"}, "a MahalanobisMetric or None. Got 'euclidean'"),
        ({"metric": BoostMetric}, "must be a fitted learner"),
    ],
)
def test_wrong_constructions(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        MetricIndex(**given)


def test_no_points_no_queries_and_what_it_says():
    index = MetricIndex()
    assert repr(index) == "MetricIndex(0 points, any number of features, backend='exact')"
    assert len(index.add(np.empty((0, 4)))) == 0
    assert repr(index.add(X)) == "MetricIndex(150 points, 4 features, backend='exact')"
    ids, distances = index.search(np.empty((0, 4)), 3)
    assert ids.shape == distances.shape == (0, 3)
    assert (ids.dtype, distances.dtype) == (np.int64, np.float64)


def test_tables_for_pandas_and_arrow():
    index = MetricIndex(METRIC).add(pd.DataFrame(X, columns=list("abcd")), ids=[f"iris-{n}" for n in range(150)])
    ids, distances = index.search(X[:3], 2)
    table = pd.DataFrame(index.search(X[:3], 2, as_table=True))
    assert table["query"].tolist() == [0, 0, 1, 1, 2, 2]
    assert table["rank"].tolist() == [1, 2] * 3
    assert table["id"].tolist() == ids.ravel().tolist()
    assert table["distance"].tolist() == distances.ravel().tolist()
    arrow = pytest.importorskip("pyarrow")
    assert arrow.table(index.search(X[:3], 2, as_table=True)).to_pydict() == table.to_dict("list")


# --- files ------------------------------------------------------------------------------------------------------------

IDS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)


@given(ids=st.lists(IDS, max_size=8, unique=True))
@settings(max_examples=40)
def test_ids_survive_with_their_types(ids, tmp_path_factory):
    path = tmp_path_factory.mktemp("ids") / "index.safetensors"
    index = MetricIndex().add(X[: len(ids)], ids)
    index.save(path)
    loaded = MetricIndex.load(path)
    assert list(map(repr, loaded.ids)) == list(map(repr, index.ids))
    assert all(one in loaded for one in index.ids)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("metric", [None, METRIC, "learned"])
def test_an_index_comes_back_whole(tmp_path, backend, metric):
    need(backend)
    metric = BoostMetric.paper(max_iter=3).fit(X, Y) if metric == "learned" else metric
    options = {"probes": 3} if backend == "faiss-ivf" else None
    index = MetricIndex(metric, backend=backend, backend_options=options).add(X, [f"{n}" for n in range(150)])
    index.remove(["3", "149"]).add(X[:1], ids=[1000])
    path = tmp_path / "new" / "index.safetensors"
    index.save(path)
    loaded = MetricIndex.load(path)
    assert repr(loaded) == repr(index)
    assert loaded.backend_options == index.backend_options
    assert loaded.ids == index.ids
    for one, other in zip(index.search(X, 5), loaded.search(X, 5), strict=True):
        assert np.array_equal(one, other)
    if metric is not None:
        assert loaded.metric.components.tobytes() == index.metric.components.tobytes()
        assert (loaded.metric.feature_names, loaded.metric.about) == (index.metric.feature_names, index.metric.about)
        assert (loaded.metric.directions is None) == (metric is METRIC)
    assert index.add(X[:1]).ids == loaded.add(X[:1]).ids  # 1001, after removals too
    loaded.save(path)
    assert MetricIndex.load(path, backend="exact").ids == index.ids
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_an_empty_index_comes_back(tmp_path):
    for index in (MetricIndex(), MetricIndex(METRIC), MetricIndex().add(X).remove(range(150))):
        index.save(tmp_path / "index")
        loaded = MetricIndex.load(tmp_path / "index")
        assert repr(loaded) == repr(index)
        assert loaded.add(X[:2]).ids == index.add(X[:2]).ids


def test_a_file_of_the_first_version_loads_for_ever():
    index = MetricIndex.load(Path(__file__).parent / "data" / "index-v1.safetensors")
    assert index.ids == [7, "seven", ("s", 7, None), 7.5]
    assert index.metric.components.tolist() == [[2.0, 0.0, 0.0], [0.0, 1.0, 0.5]]
    assert index.metric.feature_names == ["a", "b", "c"]
    ids, distances = index.search([[1.0, 0.0, 0.0]], 4)
    assert ids[0].tolist() == [7, 7.5, "seven", ("s", 7, None)]
    assert distances[0].tolist() == [2.0, 2.0, np.sqrt(5.0), np.sqrt(13.0)]
    assert index.add([[0.0, 0.0, 0.0]]).ids[-1] == 8


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_index_of_unit_length_ranks_by_cosine(backend, tmp_path):
    need(backend)
    rng = np.random.default_rng(0)
    metric = MahalanobisMetric(rng.standard_normal((3, 4)), normalize=True)
    points, queries = rng.standard_normal((300, 4)) * rng.uniform(0.1, 9, (300, 1)), rng.standard_normal((40, 4))
    index = MetricIndex(metric, backend=backend).add(points)
    cosine = cdist(queries @ metric.components.T, points @ metric.components.T, "cosine")
    found, distances = index.search(queries, 5)
    exact = np.argsort(cosine, axis=1)[:, :5]
    assert np.mean([len(set(a) & set(b)) for a, b in zip(found, exact, strict=True)]) > 4.7
    assert distances == pytest.approx(np.sqrt(2 * np.take_along_axis(cosine, found, axis=1)), abs=1e-7)
    if backend in ("exact", "faiss-flat"):
        assert np.array_equal(found, exact)
    index.save(tmp_path / "index")
    loaded = MetricIndex.load(tmp_path / "index")
    assert loaded.metric.normalize
    assert np.array_equal(loaded.search(queries, 5)[0], found)
    with pytest.raises(ValueError, match=r"version 2, but boostmetric .* reads version 1"):
        read_tensors(tmp_path / "index", "index", 1)
    MetricIndex(METRIC).add(X).save(tmp_path / "plain")
    assert read_tensors(tmp_path / "plain", "index", 1).version == 1


def test_ids_that_files_cannot_hold(tmp_path):
    index = MetricIndex().add(X[:2], ids=["a", ("b", date(2020, 1, 1))])
    with pytest.raises(
        ValueError, match=r"id \('b', datetime.date\(2020, 1, 1\)\) cannot be written to .*date is none of"
    ):
        index.save(tmp_path / "index")
    assert not list(tmp_path.iterdir())


def test_models_and_indexes_are_not_taken_for_each_other(tmp_path):
    METRIC.save(tmp_path / "model")
    MetricIndex(METRIC).add(X).save(tmp_path / "index")
    with pytest.raises(ValueError, match=r"it is of kind 'model', which boostmetric\.MahalanobisMetric\.load reads"):
        MetricIndex.load(tmp_path / "model")
    with pytest.raises(
        ValueError, match=r"it is of kind 'index', which boostmetric\.retrieval\.MetricIndex\.load reads"
    ):
        MahalanobisMetric.load(tmp_path / "index")
    with pytest.raises(FileNotFoundError, match="no index file"):
        MetricIndex.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": np.ones((2, 3))}, r"'points' has shape \(2, 3\), not \(any, 2\)"),
        ({"points": np.ones((2, 2), dtype=np.float32)}, "'points' has dtype float32, not float64"),
        ({"points": np.full((2, 2), np.inf)}, "'points' has NaN or infinite values"),
        ({"points": None}, "no tensor 'points'"),
        ({"ids": np.arange(3)}, r"'ids' has shape \(3,\), not \(2,\)"),
        ({"ids": np.zeros(2, dtype=int)}, "ids are repeated"),
        ({"ids": None}, "no tensor 'ids_json'"),
        ({"ids": None, **packed(["a"], "")}, "2 points and 1 ids"),
        ({"ids": None, "ids_json": np.frombuffer(b"[1, {}]", dtype=np.uint8)}, "its ids cannot be read"),
        ({"ids": None, "ids_json": np.frombuffer(b"3", dtype=np.uint8)}, "its ids cannot be read"),
        ({"ids": None, "ids_json": np.frombuffer(b"[1, 2", dtype=np.uint8)}, "its ids cannot be read"),
        ({"ids": None, "ids_json": np.frombuffer(b"\xff\xff", dtype=np.uint8)}, "its ids cannot be read"),
        ({"n_features": None}, r"not \(0, 0\)"),
        ({"n_features": True}, "number of features is True"),
        ({"next_number": -1}, "next number is -1"),
        ({"next_number": "1"}, "next number is '1'"),
        ({"backend": "magic"}, r"cannot be used with this backend: backend must be one of"),
        ({"backend_options": {"x": 1}}, "cannot be used with this backend"),
        ({"backend_options": [1]}, "cannot be used with this backend"),
        ({"metric": {"feature_names": None, "about": {}}}, "no tensor 'components'"),
        ({"metric": 3, "components": np.eye(2)}, "does not describe a metric"),
        ({"metric": {"feature_names": None, "about": {}}, "components": np.eye(3)}, "2 features, but its metric has 3"),
    ],
)
def test_whole_files_that_are_not_indexes(tmp_path, change, message):
    tensors = {"points": np.ones((2, 2)), "ids": np.arange(2)}
    about = {"backend": "exact", "backend_options": {}, "n_features": 2, "next_number": 2, "metric": None}
    for name, value in change.items():
        (tensors if name in ("points", "ids", "ids_json", "components") else about)[name] = value
    path = tmp_path / "index.safetensors"
    write_tensors(path, "index", 1, {name: array for name, array in tensors.items() if array is not None}, about)
    with pytest.raises(ValueError, match=rf"index\.safetensors' .*{message}"):
        MetricIndex.load(path)


def test_a_file_without_an_entry(tmp_path):
    write_tensors(tmp_path / "index", "index", 1, {"points": np.ones((2, 2)), "ids": np.arange(2)}, {})
    with pytest.raises(ValueError, match="its metadata have no entry 'metric'"):
        MetricIndex.load(tmp_path / "index")


def test_random_damage_is_refused_or_does_no_harm(tmp_path):
    path = tmp_path / "index.safetensors"
    whole = MetricIndex(METRIC).add(X[:30], ids=[f"{n}" for n in range(30)])
    whole.save(path)
    expected = whole.search(X, 5)
    refused = 0
    for damaged in corruptions(path.read_bytes(), 200, seed=1):
        path.write_bytes(damaged)
        try:
            loaded = MetricIndex.load(path)
        except ValueError:
            refused += 1
        else:
            assert loaded.ids == whole.ids
            assert all(np.array_equal(a, b) for a, b in zip(loaded.search(X, 5), expected, strict=True))
    assert refused > 180
