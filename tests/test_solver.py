"""Direction, step, histogram and stop reasons."""

from contextlib import contextmanager

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackNoConvergence

import reference
from boostmetric import Comparisons
from boostmetric.arrays.frame import Frame, centre_and_scale
from boostmetric.engines.threads import ONE_THREAD
from boostmetric.kernels import bins, lanes, singles
from boostmetric.oracles.histogram import Histogram
from boostmetric.oracles.losses import EXPONENTIAL, LOSSES
from boostmetric.oracles.masses import MassMoments
from boostmetric.oracles.point_rows import as_points
from boostmetric.oracles.protocol import State
from boostmetric.solver import direction
from boostmetric.solver import problem as solver_problem
from boostmetric.solver.direction import leading_direction
from boostmetric.solver.learn import learn
from boostmetric.solver.loop import Stagewise, boost
from boostmetric.solver.result import Progress, StopReason
from boostmetric.solver.step import bisection_step, exact_step
from conftest import Problem, labelled, make_problem, random_triplets, shards_of


class FewMoments:
    """An oracle with given growths m and weights u of single comparisons; nothing but the step."""

    rounding = 0.0
    steps_at_once = 1
    has_corners = False

    def __init__(self, m, u=None):
        self.m = np.asarray(m, dtype=float)
        self.log_u = np.log(np.full(len(self.m), 1 / len(self.m)) if u is None else np.asarray(u))
        self.n_evaluations = self.n_rounds = 0

    def histogram(self):
        return None

    def moments(self, steps):
        self.n_evaluations += len(steps)
        self.n_rounds += 1
        rows = []
        for w in steps:
            x = self.log_u + w * self.m
            e = np.exp(x - x.max())
            rows.append((x.max() + np.log(e.sum()), e @ self.m / e.sum(), e @ self.m**2 / e.sum()))
        return EXPONENTIAL.moments(MassMoments(*np.array(rows).T), 1.0)


class Binned(FewMoments):
    """The same with a histogram, made of some shards."""

    def __init__(self, m, u=None, n_shards=1):
        super().__init__(m, u)
        self.n_shards = n_shards

    def histogram(self):
        parts = zip(*(np.array_split(values, self.n_shards) for values in (self.m, np.exp(self.log_u))), strict=True)
        return Histogram.merge([histogram_of(m, u) for m, u in parts])


def noted():
    return np.empty(singles.BLOCK, dtype=np.uint32), np.empty(singles.BLOCK)


def histogram_of(m, u):
    exponent = bins.exponent_for(m.max(), m.min())
    width = np.ldexp(1.0, exponent)
    table = np.empty((bins.n_bins_for(m.min() / width), bins.N_MOMENTS))
    singles.single_histogram(m, u, width, *noted(), table)
    return Histogram(np.log(u.sum()), exponent, table / u.sum())


GROWTHS = {
    "balanced": [-1.0, -2.0, 0.5],
    "one against many": [-1.0] * 999 + [1.0],
    "tiny rest": [-1.0, -1.0, 1e-6],
    "wide": [-1e-6, -1e3, 1e-3, 5.0, -7.0],
    "fast": [-1e14, -2e14, 0.5e14],
}


@pytest.mark.parametrize("m", GROWTHS.values(), ids=GROWTHS)
@pytest.mark.parametrize("find_step", [exact_step, bisection_step])
def test_step_solves_equation_8(m, find_step):
    oracle = FewMoments(m)
    expected = reference.bisection(np.exp(oracle.log_u), -oracle.m, 1e-9, 1e-15)
    step = find_step(oracle, 1e-9)
    assert not step.capped
    assert step.size == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("m", GROWTHS.values(), ids=GROWTHS)
@pytest.mark.parametrize("at_once", [2, 4, 5])
@pytest.mark.parametrize("off", [None, 1e-4, 0.3, 1.0, 50.0, 1e7])
def test_several_steps_at_once_lead_to_the_same(m, at_once, off):
    """However wrong the guess is."""
    oracle = FewMoments(m)
    expected = exact_step(oracle, 1e-9).size
    oracle.steps_at_once = at_once
    assert exact_step(oracle, 1e-9, off and off * expected).size == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("guess", [None, 1.0, 1e3])
def test_several_steps_at_once_without_root_are_capped(guess):
    oracle = FewMoments([-1.0, -2.0, -1e-3])
    expected = exact_step(oracle, 1e-7)
    oracle.steps_at_once, oracle.n_rounds = 5, 0
    step = exact_step(oracle, 1e-7, guess)
    assert step.capped
    assert step.size == pytest.approx(expected.size, rel=1e-12)
    assert oracle.n_rounds == 2
    assert exact_step(FewMoments([1.0, -0.5]), 1e-7, guess).size == 0.0


class Counting:
    """A thread that is asked for five steps at once, and how often it is asked."""

    rounding = 0.0
    steps_at_once = 5

    def __init__(self):
        self.n_evaluations = 0

    @contextmanager
    def pool(self, points, comparisons, loss):
        with ONE_THREAD.pool(points, comparisons, loss) as self.threads:
            yield self

    def each(self, verb, *arguments):
        self.n_evaluations += verb in ("moments", "histogram")
        return self.threads.each(verb, *arguments)


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("name", ["wine", "balance", "balance-all", "mixed"])
def test_two_evaluations_of_several_steps_are_enough(name, loss):
    """In the first iteration, before which nothing is known, as in later ones; the steps are those of one at a time."""
    problem, backend, counts = make_problem(name), Counting(), []

    def find_step(oracle, v, guess=None):
        before = backend.n_evaluations
        step = exact_step(oracle, v, guess)
        counts.append(backend.n_evaluations - before)
        oracle.steps_at_once = 1
        assert step.size == pytest.approx(exact_step(oracle, v).size, rel=1e-12)
        oracle.steps_at_once = 5
        return step

    boost_with(find_step, backend, problem.points, problem.comparisons, loss=loss)
    assert set(counts) == {2}


def boost_with(find_step, backend, points, comparisons, loss="exponential"):
    with solver_problem.Problem(points, comparisons).opened(backend, loss=LOSSES[loss]) as (_, oracle):
        boost(
            oracle,
            1e-7,
            start=Progress.nothing(oracle.n_features),
            max_iter=30,
            tol=1e-6,
            solver=Stagewise(find_step),
            on_iteration=lambda record, so_far: None,
            rng=np.random.RandomState(0),
        )


def test_single_comparisons_take_one_evaluation():
    """Also where few are violated, so that steps are long."""
    X, y = labelled("iris")
    listed = list(Comparisons.from_labels(X, y, 3, 5).quadruplets())
    backend, counts = Counting(), []

    def find_step(oracle, v, guess=None):
        before = backend.n_evaluations
        step = exact_step(oracle, v, guess)
        counts.append(backend.n_evaluations - before)
        assert step.size == pytest.approx(bisection_step(oracle, v).size, rel=1e-9)
        return step

    boost_with(find_step, backend, X, Comparisons.from_quadruplets(listed, grouped=False))
    assert set(counts) == {1}


@pytest.mark.parametrize("small", [1e-6, 1e-9, 1e-12, 1e-15])
def test_steps_that_small_losses_allow(small):
    """Long beside the gains: slopes there are rounding, and count as none."""
    rng = np.random.default_rng(0)
    m = np.concatenate([-rng.lognormal(0, 1, 500), small * rng.random(500)])
    oracle = Binned(m)
    step, expected = exact_step(oracle, 0.0), exact_step(FewMoments(m), 0.0)
    assert not step.capped
    after, best = (oracle.moments(np.array([w])).loss[0] for w in (step.size, expected.size))
    assert after <= best + 1e-11
    if small >= 1e-9:
        assert step.size == pytest.approx(expected.size, rel=1e-9)


def drawn_growths(seed):
    """Many that gain, the most of them a million times as much as any loses, with weights of many sizes."""
    rng = np.random.default_rng(seed)
    m = np.where(rng.random(2000) < 0.1, rng.random(2000), -rng.lognormal(0, rng.uniform(0, 4), 2000))
    return m * 10.0 ** rng.integers(-12, 13), rng.dirichlet(np.full(2000, rng.uniform(0.1, 2)))


@pytest.mark.parametrize("n_shards", [1, 7])
@pytest.mark.parametrize("seed", range(20))
def test_histogram_is_exact_as_far_as_it_says(seed, n_shards):
    oracle = Binned(*drawn_growths(seed), n_shards)
    histogram = oracle.histogram()
    steps = histogram.reach(1e-11) * np.array([0.0, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0])
    ours, exact = histogram.moments(steps), oracle.moments(steps)
    second = exact.second + exact.first**2  # about zero, as sums have it
    assert ours.loss == pytest.approx(exact.loss, rel=1e-12, abs=1e-11)
    assert np.abs(ours.first - exact.first).max() < 1e-10 * np.sqrt(second).max()
    assert np.abs(ours.second - exact.second).max() < 1e-9 * second.max()
    step = exact_step(oracle, 0.0)
    assert oracle.n_rounds == 1  # that of this test: none was asked for beside the histogram
    assert step.size == pytest.approx(exact_step(FewMoments(oracle.m, np.exp(oracle.log_u)), 0.0).size, rel=1e-9)


@pytest.mark.parametrize("m", GROWTHS.values(), ids=GROWTHS)
def test_histogram_leads_to_the_same_step(m):
    assert exact_step(Binned(m), 1e-9).size == pytest.approx(exact_step(FewMoments(m), 1e-9).size, rel=1e-10)


def test_beyond_the_histogram_one_more_evaluation_is_enough():
    """Hardly any weight of those that lose, so that hardly any mass is left: errors beside it are large."""
    oracle = Binned([-1.0, -3.0, -2000.0, 0.01], [0.5, 0.3, 0.2, 1e-7])
    oracle.steps_at_once = 5
    step = exact_step(oracle, 0.0)
    assert step.size > oracle.histogram().reach(1e-11)
    assert oracle.n_rounds == 1
    assert step.size == pytest.approx(bisection_step(oracle, 0.0).size, rel=1e-9)


@pytest.mark.parametrize("growth", [np.inf, -np.inf, np.nan])
def test_growths_that_are_not_finite_have_no_bin(growth):
    """The kernel would write outside of its table."""
    with pytest.raises(FloatingPointError, match="not finite"):
        histogram_of(np.array([-1.0, growth, 0.5]), np.ones(3))


def test_every_growth_is_in_its_bin():
    rng = np.random.default_rng(0)
    edges = np.concatenate([[0.0, 1.0, 63.0, 64.0, 66.0, 127.0, 128.0], 2.0 ** np.arange(8, 26)])
    for m in np.concatenate([rng.uniform(0, 255, 200), -rng.lognormal(4, 3, 200), edges[edges < 256], -edges]):
        table = np.empty((bins.n_bins_for(-(2.0**26)), bins.N_MOMENTS))
        singles.single_histogram(np.array([m]), np.ones(1), 1.0, *noted(), table)
        (place,) = np.flatnonzero(table[:, 0])
        assert abs(table[place, 1]) <= 1
        centre, half = (values[place] for values in bins.centres_and_halves(len(table)))
        assert centre + half * table[place, 1] == pytest.approx(m, rel=1e-15)
        assert place < bins.n_bins_for(m)


@pytest.mark.parametrize("m", GROWTHS.values(), ids=GROWTHS)
@pytest.mark.parametrize("off", [None, 0.02, 0.3, 1.0, 3.0, 30.0])
def test_wrong_guesses_cost_no_evaluation(m, off):
    """Two are enough without a guess, or with one that is far off."""
    oracle = FewMoments(m)
    expected = exact_step(oracle, 1e-9).size
    oracle.steps_at_once, oracle.n_rounds = 5, 0
    assert exact_step(oracle, 1e-9, off and off * expected).size == pytest.approx(expected, rel=1e-12)
    assert oracle.n_rounds == 2


def test_newton_needs_few_evaluations():
    oracle = FewMoments(GROWTHS["balanced"])
    exact_step(oracle, 1e-7)
    assert oracle.n_evaluations < 10


@pytest.mark.parametrize("find_step", [exact_step, bisection_step])
def test_step_without_root_is_capped(find_step):
    oracle = FewMoments([-1.0, -2.0, -1e-3])
    step = find_step(oracle, 1e-7)
    assert step.capped
    steps = step.size * np.array([0.0, 0.5, 1.0])
    start, half, end = oracle.moments(steps).loss + 1e-7 * steps
    assert start - end >= 50 > start - half


@pytest.mark.parametrize("find_step", [exact_step, bisection_step])
def test_no_step_where_the_loss_would_rise(find_step):
    assert find_step(FewMoments([1.0, -0.5]), 1e-7).size == 0.0


def shard(problem):
    (only,) = shards_of(problem.points, problem.comparisons)
    only.rebuild(np.eye(only.n_features), np.ones(only.n_features))
    only.project(np.linalg.eigh(only.gram())[1][:, -1])
    return only


def test_histogram_knows_every_step():
    oracle = shard(random_triplets(7))
    histogram = oracle.histogram()
    steps = np.array([0.0, 0.1, 1.0, 5.0])
    ours, exact = histogram.moments(steps), EXPONENTIAL.moments(oracle.moments(steps), 1.0)
    assert histogram.reach(1e-11) > steps[-1]
    assert ours.loss == pytest.approx(exact.loss, abs=1e-11)
    assert ours.first == pytest.approx(exact.first, abs=1e-10)
    assert ours.second == pytest.approx(exact.second, abs=1e-9)


@pytest.mark.parametrize("doublings", [2, 30, 1000])
def test_shards_whose_growths_are_of_other_sizes(doublings):
    """Down to none at all."""
    m, u = drawn_growths(0)
    small, smaller = m[:1000], np.ldexp(m[1000:], -doublings)
    steps = np.array([0.0, 0.1, 1.0]) / np.abs(small).max()
    for shards in ([small, smaller], [small, 0 * smaller]):
        merged = Histogram.merge([histogram_of(part, u[:1000]) for part in shards])
        exact = FewMoments(np.concatenate(shards), np.concatenate([u[:1000], u[:1000]])).moments(steps)
        assert merged.moments(steps).loss == pytest.approx(exact.loss, abs=1e-11)
        assert merged.moments(steps).first == pytest.approx(exact.first, rel=1e-10)
        assert merged.width == histogram_of(small, u[:1000]).width


def test_coarse_histogram_is_refined_by_newton(monkeypatch):
    problem = random_triplets(8)
    fine = learn(problem.points, problem.comparisons, max_iter=10)
    monkeypatch.setattr("boostmetric.solver.step._HISTOGRAM_ERROR", 1e-40)  # no step is exact enough
    newton = learn(problem.points, problem.comparisons, max_iter=10)
    assert newton.step_sizes[:8] == pytest.approx(fine.step_sizes[:8], rel=1e-8)


def test_exponential_is_accurate():
    from numba import njit

    @njit
    def exponentials(x):
        out = np.empty_like(x)
        for i in range(0, x.size, 8):
            lanes.store(out, i, lanes.exp(lanes.load(x, i)))
        return out

    x = np.concatenate([np.linspace(-300, 0, 20000), np.linspace(-1, 1, 20000), np.linspace(600, 700, 8)])
    assert np.max(np.abs(exponentials(x) / np.exp(x) - 1)) < 1e-15
    beyond = np.array([-300.1, -1e4, -np.inf, np.nan, 701.0, 1e4, np.inf, 0.0])
    assert exponentials(beyond) == pytest.approx([0, 0, 0, 0, np.exp(700), np.exp(700), np.exp(700), 1])


@pytest.mark.parametrize("name", ["wine", "triplets", "mixed", "balance-all"])
def test_matvec_is_gram_times_vector(name, backend):
    problem = make_problem(name)
    for part in shards_of(problem.points, problem.comparisons, backend):
        part.rebuild(np.eye(part.n_features), np.ones(part.n_features))
        x = np.random.default_rng(0).standard_normal(part.n_features)
        assert part.matvec(x) == pytest.approx(part.gram() @ x, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("name", ["wine", "triplets", "mixed"])
def test_rebuild_leaves_the_bits_that_commits_leave(name, small_shards, backend):
    problem = make_problem(name)
    for stepped, rebuilt in zip(
        *(shards_of(problem.points, problem.comparisons, backend) for _ in range(2)), strict=True
    ):
        state = stepped.rebuild(np.zeros((0, stepped.n_features)), np.zeros(0))
        directions, steps = [], [0.5, 1.5, 0.1]
        for w in steps:
            directions.append(np.linalg.eigh(stepped.gram())[1][:, -1])
            stepped.project(directions[-1])
            state = stepped.commit(w)
        assert rebuilt.rebuild(np.array(directions), np.array(steps)) == state
        assert rebuilt.gram().tobytes() == stepped.gram().tobytes()


@pytest.mark.parametrize("n_directions", [3, 70])
@pytest.mark.parametrize("name", ["wine", "triplets", "mixed"])
def test_a_metric_of_any_number_of_directions_is_rebuilt_at_once(name, n_directions, small_shards, backend):
    problem = make_problem(name)
    for part in shards_of(problem.points, problem.comparisons, backend):
        rng = np.random.default_rng(0)
        xi = rng.standard_normal((n_directions, part.n_features))
        steps = rng.uniform(0.0, 0.1, n_directions) / np.square(xi).sum(axis=1)
        one_by_one, at_once = (part.rebuild(xi, steps, at_once) for at_once in (False, True))
        assert at_once.log_mass == pytest.approx(one_by_one.log_mass, rel=1e-12)
        assert at_once.margin == pytest.approx(one_by_one.margin, rel=1e-9)


@pytest.mark.parametrize("name", ["wine", "triplets", "mixed"])
def test_several_directions_are_projected_on_at_once(name, backend):
    problem = make_problem(name)
    for part in shards_of(problem.points, problem.comparisons, backend):
        part.rebuild(np.zeros((0, part.n_features)), np.zeros(0))
        xi, factors = (
            np.linalg.qr(np.random.default_rng(0).standard_normal((part.n_features, 3)))[0].T,
            [0.3, -1.0, 2.0],
        )
        part.project(xi, np.array(factors))
        state = part.commit(0.1)
        together = part.rebuild(xi, 0.1 * np.array(factors))
        assert part.rebuild(xi, 0.1 * np.array(factors), at_once=True).margin == pytest.approx(state.margin, rel=1e-9)
        assert state.log_mass == pytest.approx(together.log_mass, rel=1e-12)
        assert state.margin == pytest.approx(together.margin, rel=1e-9)


def test_lanczos_finds_the_same_directions(monkeypatch, backend):
    problem = make_problem("wine")
    dense = learn(problem.points, problem.comparisons, max_iter=10, backend=backend)
    monkeypatch.setattr(direction, "LARGEST_DENSE", 4)
    lanczos = learn(problem.points, problem.comparisons, max_iter=10, backend=backend)
    assert lanczos.step_sizes == pytest.approx(dense.step_sizes, rel=1e-6)
    assert lanczos.directions == pytest.approx(dense.directions, abs=1e-6)


def test_more_features_than_points(backend):
    """Rotated into the span of the data, and the same as computed with all features."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((20, 40))
    triplets = np.array([rng.choice(20, 3, replace=False) for _ in range(400)])
    comparisons = Comparisons.from_triplets(triplets)
    frame = Frame.of(points)
    assert frame.points.shape == (20, 20)
    assert np.ldexp(frame.lift(frame.points), frame.exponent) == pytest.approx(points - points.mean(axis=0), abs=1e-12)
    expected, _, _ = reference.boost(points, Problem(points, comparisons).quadruplets, 1e-7, 10)
    boosted = learn(points, comparisons, max_iter=10, backend=backend)
    X = (boosted.directions.T * boosted.step_sizes) @ boosted.directions
    assert np.linalg.norm(X - expected) < 1e-6 * np.linalg.norm(expected)


def test_points_that_no_comparison_names_do_not_matter(backend):
    problem = random_triplets(9, n_triplets=50)
    extra = np.concatenate([problem.points, np.full((3, 5), 1e6)])
    a, b = (learn(points, problem.comparisons, max_iter=5, backend=backend) for points in (problem.points, extra))
    assert b.step_sizes == pytest.approx(a.step_sizes, rel=1e-9)


def test_eigenvector_sign_is_fixed():
    class Constant:
        n_features = 2

        def gram(self):
            return np.diag([-3.0, 2.0])

    eigenvalue, xi = leading_direction(Constant(), np.ones(2))
    assert (eigenvalue, xi.tolist()) == (2.0, [0.0, 1.0])


def test_scaling_is_exact():
    points = np.array([[3e150, -1e150], [1e150, 2e150]])
    scaled, exponent = centre_and_scale(points)
    assert np.abs(scaled).max() < 1
    assert np.ldexp(scaled, exponent) == pytest.approx(points - points.mean(axis=0))


def test_stop_reasons(backend):
    problem = random_triplets(10, n_triplets=200)

    def stop(points=problem.points, comparisons=problem.comparisons, **options):
        return learn(points, comparisons, **options, backend=backend).stop_reason

    assert stop(max_iter=2) is StopReason.ITERATION_LIMIT
    assert stop(regularization=1e6) is StopReason.DUAL_FEASIBLE
    assert stop(tol=1e-3) is StopReason.DUAL_FEASIBLE
    assert stop(on_iteration=[lambda record: record.number == 3]) is StopReason.CALLBACK
    assert stop(on_iteration=[lambda record: None], max_iter=1) is StopReason.ITERATION_LIMIT
    line = np.arange(5.0)[:, None] ** 2
    assert stop(line, Comparisons.from_triplets([[0, 1, 2], [1, 0, 3]])) is StopReason.SEPARABLE
    # A comparison and its opposite: no direction helps both.
    contradiction = Comparisons.from_triplets([[0, 1, 2], [0, 2, 1]])
    assert stop(line, contradiction, regularization=0.0) is StopReason.DUAL_FEASIBLE
    for reason in StopReason:
        assert str(reason).endswith((".", ")."))


def test_a_step_that_lowers_nothing_is_not_recorded():
    class Stuck(FewMoments):
        """Promises a fall that its sums are too coarse to show."""

        n_features = 1

        def rebuild(self, directions, step_sizes, *, at_once=False):
            return State(loss=1.0, margin=0.0, violated=1, weight=2)

        def commit(self, step):
            return State(loss=1.0, margin=0.0, violated=1, weight=2)

        def gram(self):
            return np.array([[0.5]])

        def project(self, xi):
            pass

    boosted = boost(
        Stuck([-1.0, 0.5]),
        1e-7,
        start=Progress.nothing(1),
        max_iter=10,
        tol=0.0,
        solver=Stagewise(exact_step),
        on_iteration=lambda record, so_far: None,
        rng=np.random.RandomState(0),
    )
    assert boosted.stop_reason is StopReason.NOTHING_TO_IMPROVE
    assert boosted.history == []
    assert boosted.directions.shape == (0, 1)


def test_separable_comparisons_give_a_finite_metric(backend):
    points = np.arange(5.0)[:, None] ** 2
    boosted = learn(points, Comparisons.from_triplets([[0, 1, 2], [1, 0, 3]]), backend=backend)
    assert boosted.stop_reason is StopReason.SEPARABLE
    assert np.isfinite(boosted.step_sizes).all()
    assert boosted.history[-1].violated == 0


@pytest.mark.parametrize("n_near", [1, 3, 40])
@pytest.mark.parametrize("n_far", [1, 5, 3000])
def test_groups_of_any_shape(n_near, n_far, backend):
    """Short groups run side by side, long ones by themselves, and large products are counted by sorting."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((n_near + n_far + 5, 3))
    triplets = [
        (anchor, 5 + j, 5 + n_near + k)
        for anchor in (0, 1, 2)
        for j in range(n_near)
        for k in range(0, n_far, 1 + n_far // 50)
    ]
    problem_comparisons = Comparisons.from_triplets(triplets)
    assert problem_comparisons.n_groups == 3
    X = np.diag([1.0, 0.5, 0.0])
    rho = np.array([np.sum(reference.form_A(points, q) * X) for q in problem_comparisons.quadruplets()])
    u = np.exp(-rho) / np.exp(-rho).sum()
    A = np.array([reference.form_A(points, q) for q in problem_comparisons.quadruplets()])
    frame = Frame.of(points)
    (only,) = shards_of(points, problem_comparisons, backend)
    scale = 2.0**frame.exponent
    state = only.rebuild(np.eye(3), np.diag(X) * scale**2)
    assert state.log_mass == pytest.approx(np.logaddexp.reduce(-rho), rel=1e-12)
    assert state.margin == pytest.approx(u @ rho, rel=1e-10)
    assert state.violated == (rho <= 0).sum()
    assert only.gram() * scale**2 == pytest.approx(np.tensordot(u, A, axes=1), rel=1e-9, abs=1e-12)
    xi = np.array([0.6, 0.0, 0.8])
    only.project(xi)
    H = np.einsum("i,rij,j->r", xi, A, xi)
    moments = only.moments(np.array([0.0, 0.3 * scale**2]))
    for index, w in enumerate((0.0, 0.3)):
        e = u * np.exp(-w * H)
        assert moments.first[index] * scale**2 == pytest.approx(-(e @ H) / e.sum(), rel=1e-9)
        assert moments.second[index] * scale**4 == pytest.approx(e @ H**2 / e.sum(), rel=1e-9)


def test_many_members_in_one_group(backend):
    """A group unlike all others: its members are spread over all lanes."""
    rng = np.random.default_rng(1)
    points = rng.standard_normal((3001, 2))
    comparisons = Comparisons.from_triplets([(0, 1 + j, 31 + k) for j in range(30) for k in range(2970)])
    assert comparisons.n_groups == 1
    d = np.sum((points[0] - points) ** 2, axis=1)
    near, far = d[1:31], d[31:]
    frame = Frame.of(points)
    (only,) = shards_of(points, comparisons, backend)
    state = only.rebuild(np.eye(2), np.full(2, 4.0**frame.exponent))
    assert state.log_mass == pytest.approx(np.logaddexp.reduce(near) + np.logaddexp.reduce(-far), rel=1e-12)
    assert state.violated == np.sum(near[:, None] >= far[None, :])


def spectra(n):
    rng = np.random.default_rng(0)
    yield "random", rng.standard_normal(n)
    yield "one", np.r_[1.0, np.zeros(n - 1)]
    yield "all equal", -np.ones(n)
    yield "few", np.r_[3.0, 3.0 - 1e-9, -5.0 * np.ones(n - 2)]
    yield "close", np.linspace(0.999, 1.0, n)
    yield "zero", np.zeros(n)


@pytest.mark.parametrize("scale", [1.0, 1e-250, 1e250])
@pytest.mark.parametrize(
    ("name", "values"), list(spectra(200)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_lanczos_agrees_with_lapack(name, values, scale):
    turn, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((200, 200)))
    matrix = scale * (turn * values) @ turn.T
    matrix = (matrix + matrix.T) / 2
    value, vector = direction._of_formed(matrix)
    assert value == pytest.approx(scale * values.max(), rel=1e-12, abs=1e-14 * scale)
    assert np.linalg.norm((matrix @ vector - value * vector) / scale) < 1e-12
    assert np.linalg.norm(vector) == pytest.approx(1)


class Formed:
    """An oracle with a given A_hat; nothing but the direction."""

    def __init__(self, matrix):
        self.n_features = len(matrix)
        self.gram = lambda: matrix
        self.matvec = lambda x: matrix @ x


@pytest.mark.parametrize(("k", "which"), [(1, "LA"), (4, "LA"), (4, "BE"), (5, "BE")])
def test_eigenvectors_where_arpack_gives_up(monkeypatch, k, which):
    """They are those that it would have found: at both ends, where both are asked for."""
    turn, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((60, 60)))
    oracle = Formed((turn * np.linspace(-7.0, 5.0, 60)) @ turn.T)
    found, _ = direction.lanczos(oracle, np.ones(60), k, which)

    def give_up(*args, **options):
        raise ArpackNoConvergence("too many iterations", [], [])

    monkeypatch.setattr(direction, "eigsh", give_up)
    values, vectors = direction.lanczos(oracle, np.ones(60), k, which)
    assert values == pytest.approx(np.sort(found), abs=1e-12)
    assert vectors @ oracle.gram() == pytest.approx(values[:, None] * vectors, abs=1e-12)


def test_equal_points_project_to_equal_coordinates():
    """To the bit, wherever they stand: their distances must be equal to be counted as such."""
    rng = np.random.default_rng(0)
    row, x = rng.standard_normal((2, 13))
    for n in range(1, 40):
        assert len(set(as_points(np.tile(row, (n, 1))).times(x).tolist())) == 1
