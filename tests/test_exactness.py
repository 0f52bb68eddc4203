"""Our metric against the literal transcription of the paper, and its certificate against a convex solver."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from boostmetric import BoostMetric
from boostmetric.engines.threads import ThreadBackend
from boostmetric.solver.learn import learn
from boostmetric.solver.result import StopReason
from conftest import labelled, make_problem, random_triplets, shards_of

V = 1e-7


def matrix(boosted):
    return (boosted.directions.T * boosted.step_sizes) @ boosted.directions


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


@pytest.mark.parametrize("line_search", ["exact", "bisection"])
def test_metric_equals_reference_after_20_iterations(problem, line_search, backend):
    expected, _, _ = reference.boost(problem.points, problem.quadruplets, V, 20)
    boosted = learn(problem.points, problem.comparisons, max_iter=20, line_search=line_search, backend=backend)
    assert relative(matrix(boosted), expected) < 1e-6


def test_steps_and_directions_equal_reference(problem, backend):
    _, directions, weights = reference.boost(problem.points, problem.quadruplets, V, 5)
    boosted = learn(problem.points, problem.comparisons, max_iter=5, backend=backend)
    assert boosted.step_sizes == pytest.approx(weights, rel=1e-8)
    assert np.abs(np.sum(boosted.directions * directions, axis=1)) == pytest.approx(1, abs=1e-9)


def test_directions_are_leading_eigenvectors(problem, backend):
    A = np.array([reference.form_A(problem.points, q) for q in problem.quadruplets])
    boosted = learn(problem.points, problem.comparisons, max_iter=20, backend=backend)
    X = np.zeros((problem.points.shape[1],) * 2)
    for record, xi, w in zip(boosted.history, boosted.directions, boosted.step_sizes, strict=True):
        rho = np.tensordot(A, X, axes=2)
        u = np.exp(-(rho - rho.min()))
        A_hat = np.tensordot(u / u.sum(), A, axes=1)
        assert np.linalg.norm(A_hat @ xi - record.eigenvalue * xi) < 1e-8 * np.linalg.norm(A_hat, 2)
        assert record.eigenvalue == pytest.approx(np.linalg.eigvalsh(A_hat)[-1], rel=1e-6, abs=1e-12)
        X += w * np.outer(xi, xi)


def test_recorded_losses_decrease_and_are_the_paper_objective(problem, backend):
    boosted = learn(problem.points, problem.comparisons, max_iter=20, backend=backend)
    losses = [np.log(problem.comparisons.total_weight)] + [record.loss for record in boosted.history]
    assert np.all(np.diff(losses) < 0)
    assert losses[-1] == pytest.approx(
        reference.loss(problem.points, problem.quadruplets, V, matrix(boosted)), abs=1e-11
    )


def test_violated_fraction_is_counted(problem, backend):
    boosted = learn(problem.points, problem.comparisons, max_iter=7, backend=backend)
    X = matrix(boosted)
    rho = np.array([np.sum(reference.form_A(problem.points, q) * X) for q in problem.quadruplets])
    clear = np.abs(rho) > 1e-9  # margins that rounding cannot flip
    assert boosted.history[-1].violated == pytest.approx(np.mean(rho <= 0), abs=np.mean(~clear) + 1e-12)


def test_grouped_equals_flat(backend):
    for name in ("iris", "wine", "balance"):
        grouped, single = make_problem(name), make_problem(f"{name}-flat")
        assert single.comparisons.n_groups == grouped.comparisons.n_comparisons
        a, b = (learn(p.points, p.comparisons, max_iter=20, backend=backend) for p in (grouped, single))
        assert relative(matrix(a), matrix(b)) < 1e-6


@pytest.mark.parametrize("name", ["wine", "triplets", "mixed", "balance-all"])
def test_same_bits_for_any_number_of_threads(name, small_shards):
    problem = make_problem(name)
    assert len(shards_of(problem.points, problem.comparisons)) > 1
    runs = [learn(problem.points, problem.comparisons, max_iter=30, backend=ThreadBackend(n)) for n in (1, 2, 4)]
    for other in runs[1:]:
        assert other.step_sizes.tobytes() == runs[0].step_sizes.tobytes()
        assert other.directions.tobytes() == runs[0].directions.tobytes()
        assert other.history == runs[0].history


def test_sharding_does_not_change_the_answer(problem, small_shards):
    expected, _, _ = reference.boost(problem.points, problem.quadruplets, V, 20)
    assert relative(matrix(learn(problem.points, problem.comparisons, max_iter=20)), expected) < 1e-6


@pytest.mark.parametrize("name", ["iris", "wine", "balance"])
def test_float32_agrees(name):
    X, y = labelled(name)
    double = BoostMetric.paper(max_iter=20).fit(X, y)
    single = BoostMetric.paper(max_iter=20).fit(X.astype(np.float32), y)
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert relative(single.get_mahalanobis_matrix(), double.get_mahalanobis_matrix()) < 1e-3


def minimum_by_convex_solver(problem, v):
    """The minimum of (P0), by Clarabel."""
    A = np.array([reference.form_A(problem.points, q) for q in problem.quadruplets])
    D = A.shape[1]
    X = cp.Variable((D, D), PSD=True)
    rho = A.reshape(len(A), -1) @ cp.vec(X, order="C")
    return cp.Problem(cp.Minimize(cp.log_sum_exp(-rho) + v * cp.trace(X))).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("v", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_duality_gap_bounds_the_distance_to_the_optimum(v, seed, backend):
    problem = random_triplets(seed, n_points=20, n_features=3, n_triplets=60)
    boosted = learn(problem.points, problem.comparisons, regularization=v, tol=1e-7, max_iter=5000, backend=backend)
    assert boosted.stop_reason is StopReason.DUAL_FEASIBLE
    assert boosted.eigenvalue < v * (1 + 1e-5)
    X = matrix(boosted)
    rho = np.array([np.sum(reference.form_A(problem.points, q) * X) for q in problem.quadruplets])
    u = np.exp(-rho) / np.exp(-rho).sum()
    assert boosted.duality_gap == pytest.approx(v * np.trace(X) - u @ rho, abs=1e-5)
    optimum = minimum_by_convex_solver(problem, v)
    primal, dual = reference.loss(problem.points, problem.quadruplets, v, X), -u @ np.log(u)
    assert dual - 1e-5 <= optimum <= primal + 1e-6
    assert primal - dual == pytest.approx(boosted.duality_gap, abs=1e-5)


def test_gap_closes_where_boosting_reaches_the_optimum(backend):
    # With one feature there is one direction, and one exact step is the whole problem.
    problem = random_triplets(4, n_points=15, n_features=1, n_triplets=80)
    boosted = learn(problem.points, problem.comparisons, regularization=0.05, backend=backend)
    assert abs(boosted.duality_gap) < 1e-9
    assert boosted.history[-1].loss == pytest.approx(minimum_by_convex_solver(problem, 0.05), abs=1e-6)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 200), st.sampled_from([0.0, 1e-7, 0.1]))
def test_invariants_on_random_triplets(backend, seed, n_features, n_triplets, v):
    problem = random_triplets(seed, n_points=12, n_features=n_features, n_triplets=n_triplets)
    boosted = learn(problem.points, problem.comparisons, regularization=v, max_iter=15, backend=backend)
    assert np.isfinite(boosted.directions).all()
    assert np.all(boosted.step_sizes > 0)
    assert np.isfinite(boosted.step_sizes).all()
    assert np.allclose(np.linalg.norm(boosted.directions, axis=1), 1)
    assert np.all(np.diff([record.loss for record in boosted.history]) < 0)
    assert np.isfinite(boosted.duality_gap)
    assert boosted.duality_gap > -1e-9 * (1 + abs(boosted.eigenvalue) * boosted.step_sizes.sum())


@settings(max_examples=15)
@given(st.integers(-20, 20), st.floats(-1e3, 1e3))
def test_scaling_and_moving_the_points_scales_the_metric(backend, exponent, offset):
    problem = random_triplets(5, n_triplets=100)
    scale = 2.0**exponent

    def learned(points, v):
        return learn(points, problem.comparisons, regularization=v, max_iter=10, backend=backend)

    plain, moved = learned(problem.points, 1e-3), learned(scale * (problem.points + offset), 1e-3 * scale**2)
    assert relative(scale**2 * matrix(moved), matrix(plain)) < 1e-6
    assert moved.history[-1].loss == pytest.approx(plain.history[-1].loss, rel=1e-9)
