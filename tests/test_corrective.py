"""The totally corrective solver: it finds the minimum, and knows that it did."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons
from boostmetric.callbacks import Checkpoint
from boostmetric.engines.threads import ONE_THREAD, ThreadBackend
from boostmetric.paper import datasets, protocol
from boostmetric.solver import corrective, direction
from boostmetric.solver.learn import learn
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import Progress, StopReason
from conftest import Problem as Both
from conftest import labelled, make_problem, random_triplets
from test_exactness import matrix, minimum_by_convex_solver, relative

X, Y = labelled("iris")


def correct(problem, **options):
    return learn(problem.points, problem.comparisons, solver="corrective", **options)


def small_problem(kind, seed):
    """Answers of a hidden metric, some of them wrong: single triplets, or groups of two near and two far points."""
    if kind == "triplets":
        return random_triplets(seed, n_points=20, n_features=3, n_triplets=60)
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((20, 3))
    triplets = []
    for _ in range(20):
        i, *others = rng.choice(20, 5, replace=False)
        length = np.linalg.norm((points[others] - points[i]) * [2, 1, 0], axis=1) + 0.5 * rng.standard_normal(4)
        a, b, c, d = np.array(others)[np.argsort(length)]
        triplets += [(i, near, far) for near in (a, b) for far in (c, d)]
    problem = Both(points, Comparisons.from_triplets(triplets))
    assert problem.comparisons.n_groups < len(triplets)
    return problem


@pytest.mark.parametrize("v", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("kind", ["triplets", "groups"])
@pytest.mark.parametrize("seed", [3, 4])
def test_finds_the_minimum_that_a_convex_solver_finds(kind, seed, v):
    problem = small_problem(kind, seed)
    boosted = correct(problem, regularization=v, tol=1e-7)
    assert boosted.stop_reason is StopReason.OPTIMAL
    assert len(boosted.directions) > 0
    optimum = minimum_by_convex_solver(problem, v)
    ours = reference.loss(problem.points, problem.quadruplets, v, matrix(boosted))
    assert ours == pytest.approx(boosted.history[-1].loss, rel=1e-12)
    assert ours == pytest.approx(optimum, rel=1e-6)
    assert boosted.duality_gap < 1e-6 * abs(ours)


@pytest.mark.parametrize("v", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("kind", ["triplets", "groups"])
def test_finds_the_minimum_of_the_logistic_loss(kind, v):
    problem = small_problem(kind, 3)
    metric = cp.Variable((3, 3), PSD=True)
    losses = []
    for g in range(problem.comparisons.n_groups):
        quadruplets = problem.comparisons.subset(np.array([g])).quadruplets()
        margins = [cp.trace(reference.form_A(problem.points, q) @ metric) for q in quadruplets]
        losses.append(cp.log_sum_exp(cp.hstack([0.0, *(-margin for margin in margins)])))
    weights = problem.comparisons.weights / problem.comparisons.weights.sum()
    mean = weights @ cp.hstack(losses)
    optimum = cp.Problem(cp.Minimize(mean + v * cp.trace(metric))).solve(solver=cp.CLARABEL)
    boosted = correct(problem, loss="logistic", regularization=v, tol=1e-7)
    assert boosted.stop_reason is StopReason.OPTIMAL
    assert boosted.history[-1].loss == pytest.approx(optimum, rel=1e-6)
    assert boosted.duality_gap < 1e-6


@pytest.mark.parametrize("v", [0.01, 0.1, 0.5])
def test_the_gap_bounds_the_distance_to_the_minimum(v):
    """At every iteration, for the best metric whose trace is no larger than that of the minimum."""
    problem = small_problem("triplets", 5)
    best = correct(problem, regularization=v)
    limits = range(1, len(best.history) + 1)
    gaps, distances = [], []
    for max_iter in limits:
        part = correct(problem, regularization=v, max_iter=max_iter)
        missing = max(best.step_sizes.sum() - part.step_sizes.sum(), 0.0)
        gaps.append(part.duality_gap + max(part.eigenvalue - v, 0.0) * missing)
        distances.append(part.history[-1].loss - best.history[-1].loss)
    assert np.all(np.array(distances) <= np.array(gaps) + 1e-12)
    assert gaps[0] > 1e-3 > 1e-7 > gaps[-1]


@pytest.mark.parametrize("name", ["Vehicle", "Diabetes"])
def test_closes_the_gap_on_data_where_the_stagewise_solver_stalls(name, data_dir):
    benchmark = next(benchmark for benchmark in datasets.BENCHMARKS if benchmark.name == name)
    split = next(protocol.splits(benchmark, datasets.load(benchmark.source, data_dir)))
    stagewise = BoostMetric.paper().fit(split.X_train, split.y_train)
    metric = BoostMetric.paper(solver="corrective", tol=1e-6).fit(split.X_train, split.y_train)
    loss = metric.history_[-1].loss
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.n_iter_ <= 50 < 500
    assert metric.duality_gap_ <= 1e-6 * max(1, abs(loss))
    assert stagewise.duality_gap_ > 1e3 * metric.duality_gap_
    assert stagewise.history_[-1].loss > loss + 1e-3


def test_the_minimum_does_not_depend_on_where_the_fit_begins():
    problem = small_problem("groups", 3)
    d = problem.points.shape[1]
    options = {"regularization": 0.01, "tol": 1e-9}
    zero = correct(problem, **options)
    for components in (np.eye(d), 100 * np.eye(d), 1000 * np.ones((1, d)), 1e-6 * zero.directions[:1]):
        other = correct(problem, start=Progress.of_metric(components), **options)
        assert len(other.history) < 20
        assert relative(matrix(other), matrix(zero)) < 1e-3
        assert other.history[-1].loss == pytest.approx(zero.history[-1].loss, rel=1e-10)


def test_features_may_have_very_different_units():
    problem = make_problem("iris")
    plain = correct(problem, regularization=0.0, tol=1e-6)
    units = np.array([1e-4, 1.0, 1e4, 30.0])
    scaled = correct(replace(problem, points=problem.points * units), regularization=0.0, tol=1e-6)
    assert scaled.history[-1].loss == pytest.approx(plain.history[-1].loss, rel=1e-7)
    assert relative(matrix(scaled) * np.outer(units, units), matrix(plain)) < 1e-3


def test_there_are_no_more_directions_than_the_rank():
    problem = random_triplets(0, n_points=80, n_features=12, n_triplets=600)
    boosted = correct(problem, regularization=0.05, tol=1e-7)
    n = len(boosted.directions)
    assert 1 < n < 12, "the minimum should not have full rank"
    assert np.all(boosted.step_sizes > 0)
    assert np.linalg.matrix_rank(matrix(boosted)) == n
    assert np.all(np.diff([record.loss for record in boosted.history]) < 0)
    assert boosted.history[-1].trace == pytest.approx(boosted.step_sizes.sum())
    full = correct(problem, regularization=0.05, tol=1e-7, start=Progress.of_metric(np.eye(12)))
    assert len(full.directions) < 12, "nothing was dropped"
    assert np.sum(full.step_sizes > 1e-6) == n


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 200), st.sampled_from([0.0, 1e-7, 0.1]))
def test_invariants_on_random_triplets(seed, n_features, n_triplets, v):
    """Separable ones are among them: they end, with a reason and finite numbers."""
    problem = random_triplets(seed, n_points=12, n_features=n_features, n_triplets=n_triplets)
    boosted = correct(problem, regularization=v, max_iter=60)
    assert boosted.stop_reason in {
        StopReason.OPTIMAL,
        StopReason.NOTHING_TO_IMPROVE,
        StopReason.SEPARABLE,
        StopReason.ITERATION_LIMIT,
    }
    assert np.isfinite(boosted.directions).all()
    assert np.isfinite(boosted.step_sizes).all()
    assert np.all(boosted.step_sizes > 0)
    assert np.isfinite(boosted.duality_gap)
    assert len(boosted.directions) <= n_features
    assert np.all(np.diff([record.loss for record in boosted.history]) < 0)


def test_a_loss_without_a_minimum_ends_as_separable(tmp_path):
    X, y = labelled("wine")
    path = tmp_path / "fit.npz"
    metric = BoostMetric.paper(solver="corrective", callbacks=[Checkpoint(path)]).fit(X, y)
    assert metric.stop_reason_ is StopReason.SEPARABLE
    assert metric.n_iter_ > 1, "no single direction separates these"
    assert metric.history_[-1].violated == 0
    assert metric.history_[-1].capped
    assert -1e5 < metric.history_[-1].loss < 0
    assert np.isfinite(metric.components_).all()
    again = BoostMetric.paper(solver="corrective").fit(X, y, resume_from=path)
    assert again.stop_reason_ is StopReason.SEPARABLE
    assert again.n_iter_ == metric.n_iter_


@pytest.mark.parametrize("n_parts", [2, 3, 4])
def test_a_loss_without_a_minimum_is_not_followed_without_end(n_parts):
    X, y = labelled("wine")
    for part in range(n_parts):
        metric = BoostMetric.paper(solver="corrective").fit(X[part::n_parts], y[part::n_parts])
        assert metric.stop_reason_ is StopReason.SEPARABLE
        assert metric.history_[-1].violated == 0
        assert metric.history_[-1].loss > -1e4


def test_a_capped_step_is_not_corrected():
    line = np.arange(5.0)[:, None] ** 2
    boosted = correct(Both(line, Comparisons.from_triplets([[0, 1, 2], [1, 0, 3]])))
    assert boosted.stop_reason is StopReason.SEPARABLE
    assert len(boosted.history) == 1


def test_stop_reasons():
    problem = random_triplets(10, n_triplets=200)
    assert correct(problem, regularization=1e6).stop_reason is StopReason.OPTIMAL  # X = 0
    assert len(correct(problem, regularization=1e6).directions) == 0
    assert correct(problem, max_iter=2).stop_reason is StopReason.ITERATION_LIMIT
    exhausted = correct(problem, regularization=0.01)
    assert exhausted.stop_reason is StopReason.NOTHING_TO_IMPROVE
    assert exhausted.duality_gap < 1e-6
    rough = correct(problem, regularization=0.01, tol=1e-2)
    assert rough.stop_reason is StopReason.OPTIMAL
    assert rough.duality_gap < 1e-2 * abs(rough.history[-1].loss)
    assert len(rough.history) <= len(exhausted.history)


def test_a_metric_that_is_only_too_short_is_not_optimal():
    """It is the best of its trace, so that its gap is 0."""
    problem = small_problem("triplets", 3)
    first = learn(problem.points, problem.comparisons, max_iter=1).directions
    boosted = correct(problem, regularization=0.01, tol=1e-3, start=Progress(first, np.array([1e-9]), []))
    assert boosted.history
    assert boosted.step_sizes.sum() > 1e-3


@pytest.mark.parametrize("name", ["wine", "triplets", "mixed"])
def test_threads_do_not_change_a_bit(name, small_shards):
    problem = make_problem(name)
    one, two = (correct(problem, max_iter=6, backend=ThreadBackend(n)) for n in (1, 2))
    assert one.directions.tobytes() == two.directions.tobytes()
    assert one.step_sizes.tobytes() == two.step_sizes.tobytes()
    assert one.history == two.history


def test_products_give_the_same_as_a_formed_matrix(monkeypatch):
    problem = make_problem("triplets")
    dense = correct(problem, regularization=0.01, tol=1e-8)
    monkeypatch.setattr(direction, "LARGEST_DENSE", 4)
    lanczos = correct(problem, regularization=0.01, tol=1e-8)
    assert relative(matrix(lanczos), matrix(dense)) < 1e-4
    assert lanczos.history[-1].loss == pytest.approx(dense.history[-1].loss, rel=1e-10)


def test_the_slope_is_that_of_the_loss():
    problem = Problem(*vars(make_problem("mixed")).values()).restricted()
    rng = np.random.default_rng(0)
    with problem.opened(ONE_THREAD) as (_, oracle):
        rows, change = rng.standard_normal((2, 3, oracle.n_features))

        def loss(t):
            at = rows + t * change
            return oracle.rebuild(at, np.ones(len(at)), at_once=True).loss + 0.1 * np.sum(at**2)

        numerical = (loss(1e-5) - loss(-1e-5)) / 2e-5
        loss(0.0)
        slope = 2 * (0.1 * rows - corrective._times_a_hat(oracle, rows))
    assert np.sum(slope * change) == pytest.approx(numerical, rel=1e-6)


# --- going on, and going back -----------------------------------------------------------------------------------------


def noisy_problem():
    problem = random_triplets(0, n_points=80, n_features=12, n_triplets=600)
    train, test = problem.comparisons.split(0.3, random_state=0)
    return problem.points, train, test


def score(components, points, comparisons):
    z = points @ components.T
    d = np.square(z[comparisons.pairs[:, 0]] - z[comparisons.pairs[:, 1]]).sum(axis=1)
    near, far = comparisons.pair_numbers()
    return np.mean(d[far] > d[near])


def test_early_stopping_goes_back_to_the_best_metric():
    points, train, test = noisy_problem()
    seen = []

    class Watch:
        def on_iteration(self, record):
            seen.append((record.held_out, record.so_far().metric().components))

    metric = ComparisonBoostMetric(solver="corrective", n_iter_no_change=5, callbacks=[Watch()])
    metric.fit(train, points=points, eval_set=test)
    scores = [held_out for held_out, _ in seen]
    assert metric.n_iter_ == np.argmax(scores) + 1 < len(seen), "there was nothing to go back from"
    for held_out, components in seen:
        assert held_out == pytest.approx(score(components, points, test))
    assert metric.components_ == pytest.approx(seen[metric.n_iter_ - 1][1], rel=1e-9)
    # The certificate is that of the metric, too.
    same = ComparisonBoostMetric(solver="corrective", max_iter=metric.n_iter_).fit(train, points=points)
    assert metric.duality_gap_ == pytest.approx(same.duality_gap_, rel=1e-6)


def test_a_resumed_fit_finds_the_same_minimum(tmp_path):
    path = tmp_path / "fit.npz"
    options = {"solver": "corrective", "regularization": 1e-4}
    whole = BoostMetric.paper(**options).fit(X, Y)
    BoostMetric.paper(**options, max_iter=2, callbacks=[Checkpoint(path)]).fit(X, Y)
    resumed = BoostMetric.paper(**options).fit(X, Y, resume_from=path)
    assert resumed.n_iter_ <= whole.n_iter_ + 2
    assert resumed.history_[:2] == whole.history_[:2]
    assert resumed.history_[-1].loss == pytest.approx(whole.history_[-1].loss, rel=1e-12)
    assert relative(resumed.get_mahalanobis_matrix(), whole.get_mahalanobis_matrix()) < 1e-5


@pytest.mark.parametrize(("first", "second"), [("stagewise", "corrective"), ("corrective", "stagewise")])
def test_a_checkpoint_of_one_solver_serves_the_other(tmp_path, first, second):
    path = tmp_path / "fit.npz"
    part = BoostMetric.paper(solver=first, max_iter=3, callbacks=[Checkpoint(path)]).fit(X, Y)
    resumed = BoostMetric.paper(solver=second, max_iter=30).fit(X, Y, resume_from=path)
    assert resumed.history_[:3] == part.history_
    assert resumed.history_[-1].loss < part.history_[-1].loss
    assert Checkpoint.load(path).staged != (first == "corrective")


@pytest.mark.parametrize("second", ["stagewise", "corrective"])
def test_a_warm_start_does_not_go_back_to_metrics_that_are_gone(second):
    points, train, test = noisy_problem()
    metric = ComparisonBoostMetric(solver="corrective", max_iter=4, warm_start=True)
    metric.fit(train, points=points, eval_set=test)
    n_first = metric.n_iter_
    metric.set_params(solver=second, max_iter=n_first + 3).fit(train, points=points, eval_set=test)
    assert metric.n_iter_ > n_first
    assert [record.held_out is None for record in metric.history_] == [i < n_first for i in range(metric.n_iter_)]
    assert metric.history_[-1].held_out == pytest.approx(score(metric.components_, points, test))


def test_a_fit_that_is_optimal_already_stays_as_it_was():
    metric = BoostMetric.paper(solver="corrective", tol=1e-6, warm_start=True).fit(X, Y)
    directions, n_iter = metric.directions_, metric.n_iter_
    metric.fit(X, Y)
    assert metric.n_iter_ == n_iter
    assert metric.directions_.tobytes() == directions.tobytes()
    assert metric.stop_reason_ is StopReason.OPTIMAL


def test_more_features_than_points():
    rng = np.random.default_rng(0)
    points, y = rng.standard_normal((30, 40)), np.arange(30) % 3
    comparisons = Comparisons.from_labels(points, y)
    narrow = correct(Both(points, comparisons), regularization=2.0, tol=1e-8)
    # Everything twice: the same minimum, but more points than features, which are not rotated then.
    quadruplets = np.array(list(comparisons.quadruplets()))
    twice = Comparisons.from_quadruplets(np.concatenate([quadruplets, quadruplets + 30]))
    wide = correct(Both(np.tile(points, (2, 1)), twice), regularization=2.0, tol=1e-8)
    assert narrow.directions.shape[1] == 40
    assert np.linalg.norm(narrow.directions, axis=1) == pytest.approx(1)
    assert relative(matrix(narrow), matrix(wide)) < 1e-3
    # An identity reaches beyond the points; the minimum does not.
    from_identity = correct(
        Both(points, comparisons), regularization=2.0, tol=1e-8, start=Progress.of_metric(np.eye(40))
    )
    assert relative(matrix(from_identity), matrix(narrow)) < 1e-3


def test_solvers_are_checked_by_name():
    with pytest.raises(ValueError, match="solver must be"):
        BoostMetric.paper(solver="greedy").fit(X, Y)
    with pytest.raises(ValueError, match="solver must be"):
        ComparisonBoostMetric(solver=None).fit([[0, 1, 2]], points=X)
