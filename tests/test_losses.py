"""Losses other than the paper's: the same verbs, judged by their definitions and by finite differences."""

import numpy as np
import pytest

from boostmetric import BoostMetric, Comparisons
from boostmetric.oracles.losses import LOSSES
from boostmetric.solver.learn import learn
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import StopReason
from conftest import PROBLEMS, labelled, make_problem


def softplus(l):  # noqa: E741
    slope = 0.5 * (1 + np.tanh(0.5 * l))
    return np.logaddexp(0.0, l), slope, slope * (1 - slope)


def smooth_hinge(l):  # noqa: E741
    value = np.where(l <= -1, 0.0, np.where(l < 0, 0.5 * (1 + l) ** 2, l + 0.5))
    return value, np.clip(1 + l, 0, 1), 1.0 * ((l > -1) & (l < 0))


# phi with its first two derivatives; the loss is the mean of phi(l) over the groups.
PHI = {"logistic": softplus, "smooth-hinge": smooth_hinge}


def log_products(problem, X):
    """l = log(N F) of each group, by its definition."""
    points, comparisons = problem.points, problem.comparisons.listed()
    difference = points[comparisons.pairs[:, 0]] - points[comparisons.pairs[:, 1]]
    d = np.einsum("pi,ij,pj->p", difference, X, difference)
    found = []
    for g in range(comparisons.n_groups):
        low, middle, high = comparisons.bounds[2 * g : 2 * g + 3]
        near, far = d[comparisons.members[low:middle]], d[comparisons.members[middle:high]]
        found.append(np.logaddexp.reduce(near) + np.logaddexp.reduce(-far))
    return np.array(found)


def mean(problem, values):
    return np.average(values, weights=problem.comparisons.weights)


def loss_of(name, problem, X):
    return mean(problem, PHI[name](log_products(problem, X))[0])


@pytest.fixture(params=PHI)
def name(request):
    return request.param


@pytest.fixture(params=PROBLEMS)
def opened(request, name, small_shards, backend):
    problem = make_problem(request.param)
    restricted = Problem(problem.points, problem.comparisons).restricted()
    with restricted.opened(backend, loss=LOSSES[name]) as (frame, oracle):
        yield Problem(frame.points, problem.comparisons), oracle


def test_verbs_against_finite_differences(name, opened):
    problem, oracle = opened
    rng = np.random.default_rng(0)
    n = oracle.n_features
    xi, w = np.linalg.qr(rng.standard_normal((n, n)))[0][:3], np.array([0.5, 1.0, 2.0])
    X = (xi.T * w) @ xi
    state = oracle.rebuild(xi, w)
    assert state.loss == pytest.approx(loss_of(name, problem, X), rel=1e-12)

    gradient = -oracle.gram()
    assert -np.sum(gradient * X) == pytest.approx(state.margin, rel=1e-12)
    change, h = rng.standard_normal((n, n)), 1e-5
    change += change.T
    slope = (loss_of(name, problem, X + h * change) - loss_of(name, problem, X - h * change)) / (2 * h)
    assert np.sum(gradient * change) == pytest.approx(slope, rel=1e-6, abs=1e-9)
    x = rng.standard_normal(n)
    assert oracle.matvec(x) == pytest.approx(-gradient @ x, rel=1e-9, abs=1e-12)

    direction, h = xi[0] * 0.6 + xi[1] * 0.8, 1e-4
    oracle.project(direction)
    steps = np.array([0.0, 0.3, 1.0])
    moments = oracle.moments(steps)
    for i, step in enumerate(steps):
        # phi may have corners, which l has not.
        before, here, after = (
            log_products(problem, X + (step + change) * np.outer(direction, direction)) for change in (-h, 0.0, h)
        )
        first, second = (after - before) / (2 * h), (after - 2 * here + before) / h**2
        value, slope, curvature = PHI[name](here)
        assert moments.loss[i] == pytest.approx(mean(problem, value), rel=1e-12)
        assert moments.first[i] == pytest.approx(mean(problem, slope * first), rel=1e-6, abs=1e-9)
        expected = mean(problem, curvature * first**2 + slope * second)
        assert moments.second[i] == pytest.approx(expected, rel=1e-4, abs=1e-5)
    moved = oracle.commit(0.3)
    assert moved.loss == pytest.approx(moments.loss[1], rel=1e-12)


@pytest.mark.parametrize("solver", ["stagewise", "corrective"])
@pytest.mark.parametrize("kind", ["triplets", "balance", "balance-all"])
def test_learning_lowers_the_loss_to_where_no_direction_is_left(name, kind, solver, backend):
    problem = make_problem(kind)
    options = {"loss": name, "regularization": 1e-3, "solver": solver, "tol": 1e-3, "backend": backend}
    boosted = learn(problem.points, problem.comparisons, **options)
    X = boosted.metric().matrix
    assert boosted.history[-1].loss == pytest.approx(loss_of(name, problem, X) + 1e-3 * np.trace(X), rel=1e-9)
    assert np.all(np.diff([record.loss for record in boosted.history]) < 0)
    assert boosted.stop_reason in (StopReason.DUAL_FEASIBLE, StopReason.OPTIMAL)


def test_single_comparisons_have_the_ordinary_logistic_loss(backend):
    problem = make_problem("triplets")
    boosted = learn(problem.points, problem.comparisons, loss="logistic", max_iter=10, backend=backend)
    X = (boosted.directions.T * boosted.step_sizes) @ boosted.directions
    i, j, k, l = np.array(problem.quadruplets).T  # noqa: E741
    near, far = problem.points[i] - problem.points[j], problem.points[k] - problem.points[l]
    margin = np.sum((far @ X) * far, axis=1) - np.sum((near @ X) * near, axis=1)
    objective = np.mean(np.log1p(np.exp(-margin))) + 1e-7 * np.trace(X)
    assert boosted.history[-1].loss == pytest.approx(objective, rel=1e-12)
    assert np.all(np.diff([record.loss for record in boosted.history]) < 0)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0, 1e3])
def test_loss_of_any_size(name, scale, backend):
    """Comparisons that are satisfied, or violated, by far."""
    problem = make_problem("triplets")
    with Problem(problem.points, problem.comparisons).opened(backend, loss=LOSSES[name]) as (frame, oracle):
        metric = np.full(oracle.n_features, scale)
        state = oracle.rebuild(np.eye(oracle.n_features), metric)
        inside = Problem(frame.points, problem.comparisons)
        assert state.loss == pytest.approx(loss_of(name, inside, np.diag(metric)), rel=1e-12)
        assert np.isfinite(oracle.gram()).all()


def test_comparisons_that_are_all_satisfied(name, backend):
    points = np.array([[0.0], [1.0], [30.0]])
    problem = Problem(points, Comparisons.from_triplets([[0, 1, 2]]))
    with problem.opened(backend, loss=LOSSES[name]) as (_, oracle):
        state = oracle.rebuild(np.ones((1, 1)), np.array([1e6]))
        assert state.loss == pytest.approx(0.0, abs=1e-200)
        assert np.isfinite(oracle.gram()).all()
    boosted = learn(points, problem.comparisons, loss=name, regularization=0.0, backend=backend)
    assert boosted.stop_reason in (StopReason.DUAL_FEASIBLE, StopReason.NOTHING_TO_IMPROVE)
    assert np.isfinite(boosted.step_sizes).all()


def test_outliers_weigh_less(name):
    """Labels shuffled in a fifth of the points: the metric follows the others."""
    X, y = labelled("wine")
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(len(y)) < 0.2, rng.permutation(y), y)
    shares = {}
    for loss in ("exponential", name):
        boosted = BoostMetric.paper(loss=loss, max_iter=30).fit(X, noisy)
        mapped = boosted.transform(X)
        squared = ((mapped[:, None] - mapped) ** 2).sum(axis=2)
        same = y[:, None] == y
        shares[loss] = squared[same].mean() / squared[~same].mean()  # by the true labels
    assert shares[name] < shares["exponential"]


def test_loss_must_be_known():
    with pytest.raises(ValueError, match=r"loss must be one of 'exponential', 'logistic', 'smooth-hinge'. Got 'hinge'"):
        BoostMetric.paper(loss="hinge").fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
