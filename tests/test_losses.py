"""The logistic loss: the same verbs, judged by its definition and by finite differences."""

import numpy as np
import pytest

from boostmetric import BoostMetric
from boostmetric.oracles.losses import LOSSES
from boostmetric.solver.learn import learn
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import StopReason
from conftest import PROBLEMS, labelled, make_problem


def logistic_loss(problem, X):
    """Its definition, group by group."""
    points, comparisons = problem.points, problem.comparisons.listed()
    difference = points[comparisons.pairs[:, 0]] - points[comparisons.pairs[:, 1]]
    d = np.einsum("pi,ij,pj->p", difference, X, difference)
    losses = []
    for g in range(comparisons.n_groups):
        low, middle, high = comparisons.bounds[2 * g : 2 * g + 3]
        near, far = d[comparisons.members[low:middle]], d[comparisons.members[middle:high]]
        losses.append(np.logaddexp(0.0, np.logaddexp.reduce(near) + np.logaddexp.reduce(-far)))
    return np.average(losses, weights=comparisons.weights)


@pytest.fixture(params=PROBLEMS)
def opened(request, small_shards, backend):
    problem = make_problem(request.param)
    with (
        Problem(problem.points, problem.comparisons).restricted().opened(backend, loss=LOSSES["logistic"]) as (
            frame,
            oracle,
        )
    ):
        yield Problem(frame.points, problem.comparisons), oracle


def test_verbs_against_finite_differences(opened):
    problem, oracle = opened
    rng = np.random.default_rng(0)
    n = oracle.n_features
    xi, w = np.linalg.qr(rng.standard_normal((n, n)))[0][:3], np.array([0.5, 1.0, 2.0])
    X = (xi.T * w) @ xi
    state = oracle.rebuild(xi, w)
    assert state.loss == pytest.approx(logistic_loss(problem, X), rel=1e-13)

    gradient = -oracle.gram()
    assert -np.sum(gradient * X) == pytest.approx(state.margin, rel=1e-12)
    change, h = rng.standard_normal((n, n)), 1e-5
    change += change.T
    slope = (logistic_loss(problem, X + h * change) - logistic_loss(problem, X - h * change)) / (2 * h)
    assert np.sum(gradient * change) == pytest.approx(slope, rel=1e-6, abs=1e-9)
    x = rng.standard_normal(n)
    assert oracle.matvec(x) == pytest.approx(-gradient @ x, rel=1e-9, abs=1e-12)

    direction, h = xi[0] * 0.6 + xi[1] * 0.8, 1e-4
    oracle.project(direction)
    steps = np.array([0.0, 0.3, 1.0])
    moments = oracle.moments(steps)
    for i, step in enumerate(steps):
        before, here, after = (
            logistic_loss(problem, X + (step + change) * np.outer(direction, direction)) for change in (-h, 0.0, h)
        )
        assert moments.loss[i] == pytest.approx(here, rel=1e-13)
        assert moments.first[i] == pytest.approx((after - before) / (2 * h), rel=1e-6, abs=1e-9)
        assert moments.second[i] == pytest.approx((after - 2 * here + before) / h**2, rel=1e-4, abs=1e-6)
    moved = oracle.commit(0.3)
    assert moved.loss == pytest.approx(moments.loss[1], rel=1e-13)


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
def test_loss_of_any_size(scale, backend):
    """Comparisons that are satisfied, or violated, by far."""
    problem = make_problem("triplets")
    with Problem(problem.points, problem.comparisons).opened(backend, loss=LOSSES["logistic"]) as (frame, oracle):
        metric = np.full(oracle.n_features, scale)
        state = oracle.rebuild(np.eye(oracle.n_features), metric)
        inside = Problem(frame.points, problem.comparisons)
        assert state.loss == pytest.approx(logistic_loss(inside, np.diag(metric)), rel=1e-12)
        assert np.isfinite(oracle.gram()).all()


def test_comparisons_that_are_all_satisfied(backend):
    points = np.array([[0.0], [1.0], [30.0]])
    problem = Problem(points, make_triplet())
    with problem.opened(backend, loss=LOSSES["logistic"]) as (_, oracle):
        state = oracle.rebuild(np.ones((1, 1)), np.array([1e6]))
        assert state.loss == pytest.approx(0.0, abs=1e-200)
        assert np.isfinite(oracle.gram()).all()
    boosted = learn(points, problem.comparisons, loss="logistic", regularization=0.0, backend=backend)
    assert boosted.stop_reason in (StopReason.DUAL_FEASIBLE, StopReason.NOTHING_TO_IMPROVE)
    assert np.isfinite(boosted.step_sizes).all()


def make_triplet():
    from boostmetric import Comparisons

    return Comparisons.from_triplets([[0, 1, 2]])


def test_outliers_weigh_less():
    """Labels shuffled in a fifth of the points: the logistic metric follows the others."""
    X, y = labelled("wine")
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(len(y)) < 0.2, rng.permutation(y), y)
    shares = {}
    for loss in ("exponential", "logistic"):
        boosted = BoostMetric(loss=loss, max_iter=30).fit(X, noisy)
        mapped = boosted.transform(X)
        squared = ((mapped[:, None] - mapped) ** 2).sum(axis=2)
        same = y[:, None] == y
        shares[loss] = squared[same].mean() / squared[~same].mean()  # by the true labels
    assert shares["logistic"] < shares["exponential"]


def test_loss_must_be_known():
    with pytest.raises(ValueError, match=r"loss must be one of 'exponential', 'logistic', 'smooth-hinge'. Got 'hinge'"):
        BoostMetric(loss="hinge").fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
