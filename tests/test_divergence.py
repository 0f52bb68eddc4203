"""ITML, LSML and SDML: the minimum of their convex problems, as cvxpy finds it, with a bound that proves it."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from boostmetric import Comparisons, MahalanobisMetric
from boostmetric.baselines import ITML, LSML, SDML
from boostmetric.baselines.itml import Penalty
from boostmetric.baselines.lsml import Residuals
from boostmetric.solver.result import StopReason

IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)


def problem(seed, n=14, n_features=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features)) @ rng.standard_normal((n_features, n_features))
    pairs = rng.permutation(np.stack(np.triu_indices(n, 1), axis=1))
    prior = rng.standard_normal((n_features, n_features)) + 2 * np.eye(n_features)
    return X, pairs[:15], pairs[15:30], prior


def squares(M, X, pairs):
    differences = X[pairs[:, 0]] - X[pairs[:, 1]]
    return cp.hstack([cp.trace(np.outer(v, v) @ M) for v in differences])


def divergence(M, prior):
    """LogDet divergence of M from the metric of a linear map."""
    inverse = np.linalg.inv(prior.T @ prior)
    return cp.trace(inverse @ M) - cp.log_det(M) + np.linalg.slogdet(prior.T @ prior)[1] - len(prior)


def solved(objective, constraints=()):
    return cp.Problem(cp.Minimize(objective), list(constraints)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize(("seed", "gamma"), [(0, 1.0), (1, 0.1), (2, 10.0)])
def test_itml_is_the_minimum(seed, gamma):
    X, near, far, prior = problem(seed)
    bounds = np.array([0.5, 4.0])
    metric = ITML(prior=prior, gamma=gamma, bounds=bounds, tol=1e-7).fit(X, similar=near, dissimilar=far)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    M = cp.Variable((3, 3), PSD=True)
    # Slack variables as in the paper: bounds that may move, at the price of their divergence.
    slack = cp.Variable(len(near) + len(far), pos=True)
    given = np.repeat(bounds**2, [len(near), len(far)])
    price = gamma * cp.sum(cp.multiply(slack, 1 / given) - cp.log(slack) + np.log(given) - 1)
    limits = [squares(M, X, near) <= slack[: len(near)], squares(M, X, far) >= slack[len(near) :]]
    expected = solved(divergence(M, prior) + price, limits)
    assert metric.objective_ == pytest.approx(expected, rel=1e-5)
    assert metric.objective_ - metric.duality_gap_ <= expected * (1 + 1e-6)
    assert metric.get_mahalanobis_matrix() == pytest.approx(M.value, rel=1e-2, abs=1e-2 * np.abs(M.value).max())


@pytest.mark.parametrize("seed", range(3))
def test_lsml_is_the_minimum(seed):
    X, near, far, prior = problem(seed)
    weights = np.arange(1.0, 16)
    rows = np.concatenate([near, far], axis=1)
    X = 3 * X
    metric = LSML(prior=prior, tol=1e-7).fit(X, comparisons=rows, weights=weights)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    M = cp.Variable((3, 3), PSD=True)
    # x + y - 2 sqrt(xy) falls in x up to y: raising x to y at most makes it 0 where the comparison is satisfied.
    raised = cp.Variable(15)
    x, y = squares(M, X, near), squares(M, X, far)
    means = cp.hstack([cp.geo_mean(cp.hstack([raised[i], y[i]])) for i in range(15)])
    cost = (weights / weights.sum()) @ (raised + y - 2 * means)
    expected = solved(divergence(M, prior) + cost, [raised >= x])
    assert metric.objective_ == pytest.approx(expected, rel=1e-5)
    assert metric.objective_ - metric.duality_gap_ <= expected * (1 + 1e-5)
    assert metric.get_mahalanobis_matrix() == pytest.approx(M.value, rel=1e-2, abs=1e-2 * np.abs(M.value).max())


@pytest.mark.parametrize("sparsity", [0.01, 0.3])
def test_sdml_is_the_minimum(sparsity):
    X, near, far, prior = problem(3, n_features=4)
    near = near[:10]
    metric = SDML(prior=prior, balance=0.05, sparsity=sparsity, tol=1e-7).fit(X, similar=near, dissimilar=far)
    M = cp.Variable((4, 4), PSD=True)
    off = sparsity * cp.sum(cp.abs(cp.multiply(M, 1 - np.eye(4))))
    pairs = 0.05 * (cp.sum(squares(M, X, near)) - cp.sum(squares(M, X, far))) / 25
    inverse = np.linalg.inv(prior.T @ prior)
    expected = solved(cp.trace(inverse @ M) - cp.log_det(M) + pairs + off)
    assert metric.objective_ == pytest.approx(expected, rel=1e-5)
    assert 0 <= metric.duality_gap_ < 1e-6
    assert metric.precision_ == pytest.approx(M.value, abs=1e-3 * np.abs(M.value).max())
    assert metric.get_mahalanobis_matrix() == pytest.approx(metric.precision_)


@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_slopes_of_the_penalty(gamma):
    rng = np.random.default_rng(0)
    penalty = Penalty(np.array([0.5, 2.0]), 5, gamma)
    distances = rng.uniform(0.1, 4, 10)
    check_slopes(penalty, distances)


def test_slopes_of_the_residuals():
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.stack(np.triu_indices(8, 1), axis=1)).reshape(-1, 4)
    residuals = Residuals(Comparisons.from_quadruplets(rows, rng.uniform(1, 2, len(rows))), 3.0)
    check_slopes(residuals, rng.uniform(0.1, 4, 28))


def check_slopes(loss, distances):
    _, slopes = loss(distances)
    for i, slope in enumerate(slopes):
        step = 1e-6 * np.eye(len(distances))[i]
        assert slope == pytest.approx((loss(distances + step)[0] - loss(distances - step)[0]) / 2e-6, abs=1e-5)


@pytest.mark.parametrize("learner", [ITML(random_state=0), LSML(random_state=0), SDML(random_state=0)])
@pytest.mark.parametrize("data", [IRIS, WINE])
def test_units_do_not_matter_and_the_gap_is_small(learner, data):
    X, y = data
    units = 10.0 ** np.linspace(-3, 3, X.shape[1])
    matrix = learner.fit(X, y).get_mahalanobis_matrix()
    assert learner.duality_gap_ <= 1e-3 * max(learner.objective_, 1)
    scaled = learner.fit(X * units, y).get_mahalanobis_matrix() * np.outer(units, units)
    assert scaled == pytest.approx(matrix, rel=0.02, abs=0.02 * np.abs(matrix).max())


@pytest.mark.parametrize("learner", [ITML, LSML])
def test_fewer_points_than_features(learner):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 30)), np.arange(12) % 2
    metric = learner(prior="identity", random_state=0).fit(X, y)
    assert metric.duality_gap_ <= 1e-4 * metric.objective_
    # Where the samples do not vary, the metric is the prior.
    across = np.linalg.svd(X - X.mean(axis=0))[2][-5:]
    assert metric.get_mahalanobis_matrix() @ across.T == pytest.approx(across.T, abs=1e-6)


def test_nothing_to_do_leaves_the_prior():
    X, y = IRIS
    prior = MahalanobisMetric(np.diag([1.0, 2, 3, 4]))
    metric = ITML(prior=prior, bounds=(1e3, 1e-9), random_state=0).fit(X, y)
    assert metric.get_mahalanobis_matrix() == pytest.approx(prior.matrix)
    assert metric.objective_ == metric.duality_gap_ == 0


@pytest.mark.parametrize("learner", [ITML, LSML, SDML])
def test_refusals(learner):
    X, y = IRIS
    with pytest.raises(ValueError, match="The prior has rank 2, but must have that of all 4 features"):
        learner(prior=np.eye(4)[:2]).fit(X, y)
    with pytest.raises(ValueError, match="init must be one of 'identity', 'standardized'"):
        learner(prior="zero").fit(X, y)


def test_refusals_of_one():
    X, y = IRIS
    with pytest.raises(ValueError, match="bounds must be two positive distances"):
        ITML(bounds=(0, 1)).fit(X, y)
    with pytest.raises(ValueError, match="weights are those of comparisons"):
        LSML().fit(X, y, weights=[1.0])
    with pytest.raises(ValueError, match="balance=100 lets the distances of dissimilar pairs grow"):
        SDML(balance=100.0, random_state=0).fit(X, y)
