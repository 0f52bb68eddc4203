"""SCML: the minimum of its linear program; MLKR: its gradient, and what it is for."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.neighbors import KNeighborsRegressor

from boostmetric import Comparisons
from boostmetric.baselines import MLKR, SCML
from boostmetric.baselines.scml.margins import DirectionMargins
from boostmetric.baselines.scml.sparse_hinge import SparseHinge
from boostmetric.baselines.soft_neighbors import Errors
from boostmetric.evaluation import knn_error
from boostmetric.solver.result import StopReason

IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)


class Dense:
    """A matrix, as products with it."""

    def __init__(self, H):
        self.H, self.shape = H, H.shape

    def times(self, w):
        return self.H @ w

    def transposed_times(self, alpha):
        return self.H.T @ alpha

    def block(self, rows, columns):
        return self.H[np.ix_(rows, columns)]


def minimum(H, share, beta):
    w = cp.Variable(H.shape[1], nonneg=True)
    return cp.Problem(cp.Minimize(share @ cp.pos(1 + H @ w) + beta * cp.sum(w))).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("beta", [1e-5, 1e-3, 0.1, 10.0])
@pytest.mark.parametrize("shift", [-1.0, 0.0, -0.2])
def test_the_search_ends_at_the_minimum(beta, shift):
    rng = np.random.default_rng(0)
    H = rng.standard_normal((300, 20)) + shift
    share = rng.uniform(0.5, 1.5, 300)
    share /= share.sum()
    steps = list(SparseHinge(Dense(H), share, beta).search())
    expected = minimum(H, share, beta)
    assert min(step.objective for step in steps) == pytest.approx(expected, rel=1e-7, abs=1e-8)
    assert max(step.bound for step in steps) == pytest.approx(expected, rel=1e-7, abs=1e-8)
    assert all(step.bound <= step.objective for step in steps)
    assert len(steps) < 150


def test_products_with_the_margins_are_those_of_the_matrix():
    rng = np.random.default_rng(0)
    points, basis = rng.standard_normal((40, 3)), rng.standard_normal((5, 3))
    comparisons = Comparisons.from_triplets([rng.permutation(40)[:3] for _ in range(100)], grouped=False)
    rows = np.array(list(comparisons.quadruplets()))
    near, far = (np.square((points[pair[:, 0]] - points[pair[:, 1]]) @ basis.T) for pair in (rows[:, :2], rows[:, 2:]))
    H, w, alpha = near - far, rng.uniform(size=5), rng.uniform(size=100)
    margins = DirectionMargins(points - points.mean(axis=0), comparisons, basis)
    assert margins.times(w) == pytest.approx(H @ w)
    assert margins.times(w * (w > w.mean())) == pytest.approx(H @ (w * (w > w.mean())))
    assert not margins.times(0 * w).any()
    assert margins.transposed_times(alpha) == pytest.approx(H.T @ alpha)
    for rows in (np.arange(0, 100, 10), np.arange(100)):
        assert margins.block(rows, np.array([3, 1])) == pytest.approx(H[np.ix_(rows, [3, 1])])


def test_scml_is_the_minimum_over_given_directions():
    X, y = IRIS
    basis = np.random.default_rng(0).standard_normal((12, 4))
    metric = SCML(basis=basis, beta=1e-3, tol=1e-6).fit(X, y)
    rows = np.array(list(Comparisons.from_labels(X, y, n_neighbors=3, n_impostors=10).quadruplets()))
    mapped = X @ basis.T
    near, far = (np.square(mapped[pair[:, 0]] - mapped[pair[:, 1]]) for pair in (rows[:, :2], rows[:, 2:]))
    share = np.full(len(rows), 1 / len(rows))
    assert metric.objective_ == pytest.approx(minimum(near - far, share, 1e-3), rel=1e-5)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.get_mahalanobis_matrix() == pytest.approx(basis.T @ (metric.weights_[:, None] * basis))


def test_scml_learns_from_labels_and_from_comparisons():
    X, y = WINE
    for learned in (
        SCML(n_basis=100, random_state=0).fit(X[::2], y[::2]),
        SCML(n_basis=100, random_state=0).fit(X[::2], comparisons=Comparisons.from_labels(X[::2], y[::2])),
    ):
        mapped = learned.transform(X)
        assert knn_error(mapped[::2], y[::2], mapped[1::2], y[1::2]) < 0.1
        assert learned.duality_gap_ <= 1e-3 * learned.objective_


def test_scml_units_do_not_matter():
    X, y = IRIS
    units = 2.0 ** np.array([-10, 0, 3, 10])
    comparisons = Comparisons.from_labels(X, y)
    plain = SCML(n_basis=60, random_state=0).fit(X, comparisons=comparisons)
    scaled = SCML(n_basis=60, random_state=0).fit(X * units, comparisons=comparisons)
    assert scaled.objective_ == pytest.approx(plain.objective_, rel=2e-3)


def test_scml_refuses():
    X, y = IRIS
    with pytest.raises(ValueError, match=r"basis must be finite numbers of shape \(n_basis, 4\)"):
        SCML(basis=np.eye(3)).fit(X, y)
    with pytest.raises(ValueError, match="weights are those of comparisons"):
        SCML().fit(X, y, weights=[1.0])
    assert not SCML(beta=1e6, n_basis=10).fit(X, y).components_.any()


def squared_errors(rows, X, y):
    """Leave-one-out kernel regression, sample by sample."""
    total = 0.0
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        kernel = np.exp(-np.square((X[others] - X[i]) @ rows.T).sum(axis=1))
        total += (kernel @ y[others] / kernel.sum() - y[i]) ** 2
    return total


def test_mlkr_objective_and_gradient():
    rng = np.random.default_rng(0)
    X, y, rows = rng.standard_normal((20, 3)), rng.standard_normal(20), rng.standard_normal((2, 3))
    value, gradient = Errors(X, y)(rows)
    assert value == pytest.approx(squared_errors(rows, X, y))
    for i, j in np.ndindex(2, 3):
        step = np.zeros((2, 3))
        step[i, j] = 1e-6
        slope = (squared_errors(rows + step, X, y) - squared_errors(rows - step, X, y)) / 2e-6
        assert gradient[i, j] == pytest.approx(slope, rel=1e-4, abs=1e-6)
    metric = MLKR(max_iter=500).fit(X, y)
    assert metric.objective_ == pytest.approx(squared_errors(metric.components_, X, y))


def test_mlkr_finds_what_matters():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5)) * [1, 10, 1, 10, 1]
    y = np.sin(2 * X[:, 0]) + X[:, 4]
    metric = MLKR(max_iter=500).fit(X[:200], y[:200])
    before = KNeighborsRegressor(5).fit(X[:200], y[:200]).score(X[200:], y[200:])
    after = KNeighborsRegressor(5).fit(metric.transform(X[:200]), y[:200]).score(metric.transform(X[200:]), y[200:])
    assert before < 0.3
    assert after > 0.8
    losses = [record.loss for record in metric.history_]
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("init", ["standardized", "identity", "pca", "random", np.eye(10)])
def test_mlkr_starts(init):
    X, y = load_diabetes(return_X_y=True)
    metric = MLKR(2, init=init, random_state=0, max_iter=500).fit(X, y)
    assert metric.components_.shape == (2, 10)
    assert metric.objective_ < np.square(y - y.mean()).sum()
    with pytest.raises(ValueError, match="init must be one of"):
        MLKR(init="auto").fit(X, y)
