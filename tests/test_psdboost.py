"""PSDBoost: it finds the optimum that a semidefinite solver finds, and its bound is one."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import reference
from boostmetric import Comparisons
from boostmetric.baselines import PSDBoost
from boostmetric.baselines.psdboost import margins, psdboost
from boostmetric.callbacks import Checkpoint
from boostmetric.solver.result import StopReason
from conftest import labelled, random_triplets

X, Y = labelled("iris")


def small_problem(seed):
    return random_triplets(seed, n_points=20, n_features=3, n_triplets=60)


def margins_of(points, comparisons, matrix):
    return np.array([np.sum(reference.form_A(points, q) * matrix) for q in comparisons.quadruplets()])


def objective(points, comparisons, nu, matrix):
    """The primal objective at its best rho, which is one of the margins."""
    near, far = comparisons.side_sizes
    omega = np.repeat(comparisons.weights, near * far)
    values = margins_of(points, comparisons, matrix)
    return max(rho - omega @ np.maximum(rho - values, 0) / (nu * omega.sum()) for rho in values)


def optimum_by_semidefinite_solver(points, comparisons, nu):
    near, far = comparisons.side_sizes
    omega = np.repeat(comparisons.weights, near * far)
    metric, rho = cp.Variable((points.shape[1],) * 2, PSD=True), cp.Variable()
    forms = np.array([reference.form_A(points, q).ravel() for q in comparisons.quadruplets()])
    lack = cp.pos(rho - forms @ cp.vec(metric, order="C"))
    goal = cp.Maximize(rho - omega @ lack / (nu * omega.sum()))
    return cp.Problem(goal, [cp.trace(metric) == 1]).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("seed", [3, 4])
def test_finds_the_optimum_that_a_semidefinite_solver_finds(seed, nu):
    problem = small_problem(seed)
    points, comparisons = problem.points, problem.comparisons
    metric = PSDBoost(nu=nu, tol=1e-8).fit(points, comparisons=comparisons)
    optimum = optimum_by_semidefinite_solver(points, comparisons, nu)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    found = objective(points, comparisons, nu, metric.get_mahalanobis_matrix())
    size = np.abs(margins_of(points, comparisons, metric.get_mahalanobis_matrix())).mean()
    assert found == pytest.approx(-metric.history_[-1].loss, rel=1e-9)
    assert found == pytest.approx(optimum, rel=1e-5, abs=1e-6 * size)
    assert metric.duality_gap_ <= 1e-8 * size + 1e-12


@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_the_bound_is_one_at_every_iteration(nu):
    problem = random_triplets(0, n_points=40, n_features=6, n_triplets=200)
    points, comparisons = 100 * problem.points, problem.comparisons  # other units than those of the computation
    optimum = optimum_by_semidefinite_solver(points, comparisons, nu)
    metric = PSDBoost(nu=nu, tol=1e-7).fit(points, comparisons=comparisons)
    values = -np.array([record.loss for record in metric.history_])
    bounds = np.array([record.eigenvalue for record in metric.history_])
    slack = 1e-5 * abs(optimum)
    assert len(values) > 5
    assert np.all(values <= optimum + slack)
    assert np.all(bounds >= optimum - slack)
    assert np.all(np.diff(values) >= 0)
    assert bounds[0] - values[0] > 100 * slack
    assert metric.duality_gap_ == pytest.approx(bounds.min() - values[-1], rel=1e-6)


def test_the_metric_is_the_sum_of_its_directions():
    metric = PSDBoost().fit(X, Y)
    v, w = metric.directions_, metric.step_sizes_
    assert np.all(w > 0)
    assert w.sum() == pytest.approx(1)
    assert np.linalg.norm(v, axis=1) == pytest.approx(1)
    assert (v.T * w) @ v == pytest.approx(metric.get_mahalanobis_matrix(), abs=1e-12)
    assert metric.history_[-1].trace == 1
    truncated = PSDBoost(n_components=1).fit(X, Y)
    assert truncated.components_ == pytest.approx(metric.components_[:1])


@pytest.mark.parametrize(("name", "nu"), [("iris", 0.1), ("iris", 0.5), ("wine", 0.1), ("wine", 0.4)])
def test_the_gap_closes_on_data(name, nu):
    points, labels = labelled(name)
    metric = PSDBoost(nu=nu, tol=1e-5).fit(points, labels)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    mined = Comparisons.from_labels(points, labels)
    values = margins_of(points, mined, metric.get_mahalanobis_matrix())
    assert 0 <= metric.duality_gap_ <= 1.001e-5 * np.abs(values).mean() + 1e-8 * metric.history_[0].eigenvalue
    assert metric.history_[-1].violated == pytest.approx(np.mean(values <= 0), abs=0.01)
    missing = np.mean(values < np.quantile(values, nu) - 1e-9)
    assert missing <= nu


def test_programs_of_few_comparisons_are_those_of_all(monkeypatch):
    """The comparisons that a program leaves out are on the right side of rho."""
    problem = random_triplets(1, n_triplets=400)
    data = margins.Margins(margins.Frame.of(problem.points), problem.comparisons, 0.2)
    directions = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    growths, sizes = data.along(directions), []
    linprog = margins.linprog

    def count(c, *arguments, **options):
        sizes.append(len(c) - 1)
        return linprog(c, *arguments, **options)

    monkeypatch.setattr(margins, "linprog", count)
    x, w = margins.solve(growths, data.share, 0.2, np.eye(5)[0], 1.0)
    assert max(sizes) < len(data.share)
    assert data.share @ x == pytest.approx(0.2, abs=1e-14)
    dual = (growths @ (data.share * x)).max() / 0.2
    assert data.metric(directions, growths, w).objective == pytest.approx(dual, rel=1e-7)


def test_weight_2_is_a_comparison_given_twice():
    rng = np.random.default_rng(1)
    points = rng.standard_normal((12, 3))
    rows = np.array([rng.choice(12, 4, replace=False) for _ in range(40)])
    weights = np.where(np.arange(40) < 10, 2.0, 1.0)
    options = {"nu": 0.3, "tol": 1e-8}
    weighted = PSDBoost(**options).fit(points, comparisons=rows, sample_weight=weights)
    twice = PSDBoost(**options).fit(points, comparisons=np.concatenate([rows, rows[:10]]))
    plain = PSDBoost(**options).fit(points, comparisons=rows)
    assert weighted.history_[-1].loss == pytest.approx(twice.history_[-1].loss, rel=1e-6)
    assert weighted.history_[-1].loss != pytest.approx(plain.history_[-1].loss, rel=1e-3)


def test_samples_of_weight_0_are_no_anchors():
    weights = (np.arange(len(Y)) % 2).astype(float)
    some = PSDBoost(tol=1e-7).fit(X, Y, sample_weight=weights)
    mined = Comparisons.from_labels(X, Y, sample_weight=weights)
    same = PSDBoost(tol=1e-7).fit(X, comparisons=mined)
    assert some.history_[-1].loss == same.history_[-1].loss
    assert some.history_[-1].loss != pytest.approx(PSDBoost(tol=1e-7).fit(X, Y).history_[-1].loss, rel=1e-3)


def test_given_comparisons_are_those_of_the_labels():
    mined = Comparisons.from_labels(X, Y, 2, 4)
    by_labels = PSDBoost(n_neighbors=2, n_impostors=4, tol=1e-7).fit(X, Y)
    rows = np.array(list(mined.quadruplets()))
    anchors = np.repeat(mined.anchors, 8)
    others = [np.where(pair[:, 0] == anchors, pair[:, 1], pair[:, 0]) for pair in (rows[:, :2], rows[:, 2:])]
    for given in (mined, rows, np.stack([anchors, *others], axis=1)):
        metric = PSDBoost(tol=1e-7).fit(X, comparisons=given)
        assert metric.history_[-1].loss == pytest.approx(by_labels.history_[-1].loss, rel=1e-6)


def test_units_do_not_matter():
    plain = PSDBoost(nu=0.3).fit(X, Y)
    for factor in (1e-8, 1e9):
        other = PSDBoost(nu=0.3).fit(factor * X + 3 * factor, Y)
        assert other.stop_reason_ is StopReason.OPTIMAL
        assert other.history_[-1].loss == pytest.approx(factor**2 * plain.history_[-1].loss, rel=1e-3)
        assert other.step_sizes_.sum() == pytest.approx(1)


# --- what may be odd about the data -----------------------------------------------------------------------------------


def test_one_comparison():
    points = np.array([[0.0, 0.0], [1.0, 1.0], [3.0, 0.0]])
    metric = PSDBoost().fit(points, comparisons=[[0, 1, 2]])
    A = reference.form_A(points, (0, 1, 0, 2))
    values, vectors = np.linalg.eigh(A)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert -metric.history_[-1].loss == pytest.approx(values[-1])
    assert metric.get_mahalanobis_matrix() == pytest.approx(np.outer(vectors[:, -1], vectors[:, -1]))


def test_a_comparison_that_no_metric_satisfies():
    """The opposite of another: the best metric sees neither pair, or both alike."""
    points = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    metric = PSDBoost(nu=0.5).fit(points, comparisons=[[0, 1, 2], [0, 2, 1]])
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.history_[-1].loss == pytest.approx(0, abs=1e-12)
    assert metric.step_sizes_.sum() == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_an_optimum_of_zero_is_recognised(seed):
    """Far pairs of length 0: the best metric does not see the near ones, and a margin of 0 leaves only rounding."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((6, 4)) @ rng.standard_normal((4, 5))  # four of five dimensions
    points = np.concatenate([points, points[:1]])
    rows = [[i, j, 0, 6] for i in range(1, 6) for j in range(i + 1, 6)]
    metric = PSDBoost(nu=1.0, max_iter=20).fit(points, comparisons=rows)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.history_[-1].loss == pytest.approx(0, abs=1e-12)
    assert metric.duality_gap_ == pytest.approx(0, abs=1e-12)


def test_separable_data():
    rng = np.random.default_rng(0)
    points, labels = rng.standard_normal((40, 3)), np.arange(40) % 2
    points[:, 0] += 20 * labels
    metric = PSDBoost().fit(points, labels)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.history_[-1].violated == 0
    assert metric.history_[-1].loss < 0


def test_more_features_than_samples():
    rng = np.random.default_rng(0)
    points, labels = rng.standard_normal((12, 200)), np.arange(12) % 2
    metric = PSDBoost().fit(points, labels)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.directions_.shape[1] == 200
    assert np.linalg.norm(metric.directions_, axis=1) == pytest.approx(1)
    mined = Comparisons.from_labels(points, labels)
    assert objective(points, mined, 0.1, metric.get_mahalanobis_matrix()) == pytest.approx(-metric.history_[-1].loss)


def test_points_that_are_all_equal():
    with pytest.warns(UserWarning, match="fewer than n_neighbors"):
        metric = PSDBoost().fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.duality_gap_ == 0
    assert metric.step_sizes_.sum() == pytest.approx(1)


def test_duplicated_points_and_constant_features():
    points = np.column_stack([np.repeat(X[::3], 2, axis=0), np.full(100, 7.0)])
    labels = np.repeat(Y[::3], 2)
    metric = PSDBoost().fit(points, labels)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert np.isfinite(metric.components_).all()


def test_classes_that_are_too_small_give_a_warning():
    kept = np.r_[0:50, 50:52, 100:150]
    with pytest.warns(UserWarning, match=r"1 of 3 classes have fewer than n_neighbors \+ 1 = 4 samples"):
        metric = PSDBoost().fit(X[kept], Y[kept])
    assert metric.stop_reason_ is StopReason.OPTIMAL


# --- how a fit ends, and what watches it ------------------------------------------------------------------------------


def test_too_few_iterations_give_a_warning():
    with pytest.warns(ConvergenceWarning, match="max_iter=2 was reached"):
        metric = PSDBoost(max_iter=2, tol=1e-6).fit(X, Y)
    assert metric.stop_reason_ is StopReason.ITERATION_LIMIT
    assert metric.n_iter_ == 2
    assert metric.duality_gap_ > PSDBoost(tol=1e-6).fit(X, Y).duality_gap_


def test_callbacks_watch_and_stop(tmp_path):
    class Watch:
        def on_iteration(self, record):
            return record.number == 3

    path = tmp_path / "fit.npz"
    metric = PSDBoost(tol=1e-9, callbacks=[Watch(), Checkpoint(path)]).fit(X, Y)
    assert metric.stop_reason_ is StopReason.CALLBACK
    assert metric.n_iter_ == 3
    written = Checkpoint.load(path).metric()
    assert written.matrix == pytest.approx(metric.get_mahalanobis_matrix())


def test_a_linear_program_that_cannot_be_solved(monkeypatch):
    linprog, calls = margins.linprog, []

    def fail(*arguments, **options):
        calls.append(options["method"])
        result = linprog(*arguments, **options)
        result.status = 4 if len(calls) > 4 else result.status
        return result

    monkeypatch.setattr(margins, "linprog", fail)
    with pytest.warns(ConvergenceWarning, match="could not be solved .* The duality gap is"):
        metric = PSDBoost(tol=1e-9).fit(X, Y)
    assert calls[-2:] == ["highs-ds", "highs-ipm"]
    assert metric.stop_reason_ is StopReason.SOLVER_FAILED
    assert metric.duality_gap_ > 0
    assert metric.step_sizes_.sum() == pytest.approx(1)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0, 1.5, -0.1, float("nan"), "0.1", True])
def test_nu_must_be_a_share(nu):
    with pytest.raises(ValueError, match=r"above 0 and at most 1\. Got "):
        PSDBoost(nu=nu).fit(X, Y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[0, 1, 150]], "name point 150, but there are only 150 points"),
        ([[0, 1]], r"\(i, j, k\) or \(i, j, k, l\), or be Comparisons. Got shape \(1, 2\)"),
        ([[X[0], X[1], X[2]]], r"by number.*Got shape \(1, 3, 4\)"),
        ([[0, 1, 1]], "three points must differ"),
        ([], "Got shape"),
    ],
)
def test_comparisons_must_name_samples(given, message):
    with pytest.raises(ValueError, match=message):
        PSDBoost().fit(X, comparisons=given)


def test_errors_name_the_remedy():
    with pytest.raises(ValueError, match="Both y and comparisons are given"):
        PSDBoost().fit(X, Y, comparisons=[[0, 1, 2]])
    with pytest.raises(ValueError, match="max_iter must be a whole number"):
        PSDBoost(max_iter=0).fit(X, Y)
    with pytest.raises(ValueError, match="tol must be a finite number of at least 0"):
        PSDBoost(tol=-1).fit(X, Y)
    with pytest.raises(ValueError, match="weights must hold one number for each triplet"):
        PSDBoost().fit(X, comparisons=[[0, 1, 2]], sample_weight=[1, 2])


def test_too_many_comparisons_are_refused(monkeypatch):
    monkeypatch.setattr(psdboost, "_MOST_COMPARISONS", 1350)
    PSDBoost(max_iter=500).fit(X, Y)
    with pytest.raises(ValueError, match=r"45,000 comparisons.*at most 1,350. Lower n_impostors"):
        PSDBoost(n_impostors="all").fit(X, Y)
