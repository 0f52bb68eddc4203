"""Sparse points: the same metric as dense ones, without making them dense."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, MahalanobisMetric
from boostmetric.neighbors import nearest
from boostmetric.oracles.point_rows import DensePoints, SparsePoints
from conftest import shards_of


def documents(n=120, n_words=60, n_topics=3, seed=0):
    """Counts of words; a few words depend on the topic."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_topics
    words = rng.integers(0, n_words, (n, 8))
    words[:, 0] = 2 * y + rng.integers(0, 2, n)
    counts = np.zeros((n, n_words))
    np.add.at(counts, (np.arange(n)[:, None], words), 1.0 + rng.random((n, 8)))
    return counts, y


FORMS = [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array]


@pytest.mark.parametrize("n_words", [60, 700])  # A_hat is formed; Lanczos
@pytest.mark.parametrize("form", FORMS)
def test_sparse_equals_dense(n_words, form):
    X, y = documents(n=800 if n_words == 700 else 120, n_words=n_words)
    dense, thin = (BoostMetric.paper(max_iter=6, random_state=0).fit(points, y) for points in (X, form(X)))
    assert np.allclose(thin.step_sizes_, dense.step_sizes_, rtol=1e-6)
    assert np.allclose(thin.directions_, dense.directions_, atol=1e-6)
    assert np.allclose(thin.transform(form(X)), dense.transform(X), atol=1e-6)
    assert isinstance(thin.transform(form(X)), np.ndarray)


def test_comparisons_of_sparse_points():
    X, y = documents()
    c = Comparisons.from_labels(X, y)
    dense, thin = (ComparisonBoostMetric(max_iter=6).fit(c, points=p) for p in (X, sparse.csr_array(X)))
    assert np.allclose(thin.components_, dense.components_, atol=1e-8)
    assert thin.score(c) == dense.score(c)
    assert np.allclose(thin.decision_function(c), dense.decision_function(c), atol=1e-6)


def test_early_stopping_and_streams_of_sparse_points():
    X, y = documents(n=300)
    thin = sparse.csr_array(X)
    metric = BoostMetric.paper(max_iter=10, random_state=0).fit(thin[:200], y[:200], eval_set=(thin[200:], y[200:]))
    dense = BoostMetric.paper(max_iter=10, random_state=0).fit(X[:200], y[:200], eval_set=(X[200:], y[200:]))
    assert metric.n_iter_ == dense.n_iter_
    by_batch = [BoostMetric.paper().partial_fit(p[:100], y[:100]).partial_fit(p[100:], y[100:]) for p in (X, thin)]
    assert np.allclose(by_batch[0].get_mahalanobis_matrix(), by_batch[1].get_mahalanobis_matrix(), atol=1e-8)


def test_streams_in_high_dimension():
    X, y = documents(n=600, n_words=700)
    metric = BoostMetric.paper(n_components=5, random_state=0)
    for start in range(0, 600, 100):
        metric.partial_fit(sparse.csr_array(X[start : start + 100]), y[start : start + 100])
    assert metric.components_.shape == (5, 700)
    held, held_y = documents(n=150, n_words=700, seed=1)
    c = Comparisons.from_labels(held, held_y)
    near, far = c.pair_numbers()

    def satisfied(L):
        distance = MahalanobisMetric(L).distance(held[c.pairs[:, 0]], held[c.pairs[:, 1]])
        return np.mean(distance[near] < distance[far])

    assert satisfied(metric.components_) > satisfied(np.eye(700)) + 0.05


def test_rank_is_limited_by_the_best_truncation():
    X, y = documents()
    whole = BoostMetric.paper(max_iter=8).fit(sparse.csr_array(X), y)
    small = BoostMetric.paper(max_iter=8, n_components=2).fit(sparse.csr_array(X), y)
    values, vectors = np.linalg.eigh(whole.get_mahalanobis_matrix())
    best = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    assert small.get_mahalanobis_matrix() == pytest.approx(best, abs=1e-9 * values[-1])
    assert small.transform(sparse.csr_array(X)).shape == (len(X), 2)


def test_sparse_products_are_the_dense_ones():
    X, y = documents()
    c = Comparisons.from_labels(X, y)
    (dense,), (thin,) = shards_of(X, c), shards_of(sparse.csr_array(X), c)
    assert isinstance(dense._points, DensePoints)
    assert isinstance(thin._points, SparsePoints)
    rng = np.random.default_rng(0)
    xi, steps = rng.standard_normal((3, X.shape[1])) / 8, np.array([0.1, 1.0, 0.5])
    scale = 4.0 ** (np.frexp(np.abs(X).max())[1] - np.frexp(np.abs(X - X.mean(axis=0)).max())[1])
    for shard, factor in ((dense, 1.0), (thin, scale)):
        shard.rebuild(xi, factor * steps)
    assert thin.gram() * scale == pytest.approx(dense.gram(), abs=1e-12)
    x = rng.standard_normal(X.shape[1])
    assert thin.matvec(x) == pytest.approx(thin.gram() @ x, abs=1e-12)


@pytest.mark.parametrize("to_itself", [True, False])
def test_neighbours_of_sparse_points(to_itself):
    X, _ = documents(n=200)
    X[150:] = X[:50]  # with ties
    queries = None if to_itself else X[::3] + 0
    expected = nearest(X, queries, 5, 1e-12)
    thin = nearest(sparse.csr_array(X), None if to_itself else sparse.csr_array(queries), 5, 1e-12)
    assert np.array_equal(thin, expected)


def test_metric_takes_sparse_points():
    X, _ = documents()
    metric = MahalanobisMetric(np.random.default_rng(0).standard_normal((3, X.shape[1])))
    thin = sparse.csr_array(X)
    assert metric.transform(thin) == pytest.approx(metric.transform(X))
    assert metric.distance(thin[:5], thin[5:10]) == pytest.approx(metric.distance(X[:5], X[5:10]))
    with pytest.raises(ValueError, match=r"60 features, but the points have shape \(120, 30\)"):
        metric.transform(thin[:, :30])


@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_points_without_entries():
    X, y = documents()
    X[::2] = 0.0
    assert BoostMetric.paper(max_iter=3).fit(sparse.csr_array(X), y).n_iter_ == 3
    empty = BoostMetric.paper().fit(sparse.csr_array(X.shape), y)
    assert not empty.components_.any()
    assert ComparisonBoostMetric().fit([[0, 2, 4]], points=sparse.csr_array(X)).n_iter_ == 0


LARGE = """
from pathlib import Path
import numpy as np
from scipy import sparse
from boostmetric import ComparisonBoostMetric, Comparisons

rng = np.random.default_rng(0)
n, D, k = 10_000, 50_000, 100
rows, columns = np.repeat(np.arange(n), k), rng.integers(0, D, n * k)
X = sparse.csr_array((rng.random(n * k), (rows, columns)), shape=(n, D))
i, j = rng.integers(0, n, (2, 15_000))
far = (i + 1 + rng.integers(0, n - 1, 15_000)) % n
kept = (i != j) & (far != j) & (far != i)
triplets = np.stack([i, j, far], axis=1)[kept]
metric = ComparisonBoostMetric(n_components=3, max_iter=5, random_state=0).fit(triplets, points=X)
assert metric.transform(X).shape == (n, 3)
assert metric.history_[-1].loss < metric.history_[0].loss
assert metric.score(triplets) > 0.5
# Of this program: getrusage knows what the process had before it became one.
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory as Linux reports it")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc, to know the memory used")
def test_a_large_sparse_matrix_stays_sparse():
    """10,000 x 50,000 with 100 entries a row: 4 GB as an array, a small part of that as it is."""
    run = subprocess.run([sys.executable, "-c", LARGE], check=True, capture_output=True, text=True)
    assert float(run.stdout) < 1.0  # GB; the goal is 2
