"""Metrics to begin with, and passes that find the comparisons anew."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.covariance import LedoitWolf
from sklearn.datasets import load_iris, load_wine

import reference
from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons
from boostmetric.callbacks import Checkpoint
from boostmetric.metric.starts import STARTS, starting_components
from boostmetric.oracles.losses import LOSSES
from boostmetric.solver.learn import learn
from boostmetric.solver.passes import Passes, learn_in_passes
from boostmetric.solver.plan import Plan, Settings, Split
from boostmetric.solver.problem import satisfied
from boostmetric.solver.result import Progress, StopReason
from boostmetric.solver.sources import Labelled
from conftest import labelled, make_problem

X, Y = load_wine(return_X_y=True)
SCALED = (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.parametrize("name", ["wine", "triplets", "balance-all"])
def test_the_weight_of_the_first_weak_learner_is_the_best(name):
    problem = make_problem(name)
    points = problem.points / np.abs(problem.points).max()
    rows = np.random.default_rng(0).standard_normal((2, points.shape[1]))
    start = learn(points, problem.comparisons, start=Progress.of_metric(rows), reweigh=True, max_iter=0)
    weight = start.step_sizes.sum() / np.square(rows).sum()
    expected = minimize_scalar(
        lambda w: reference.loss(points, problem.quadruplets, 1e-7, w * rows.T @ rows),
        bounds=(0, 1e4),
        method="bounded",
    )
    assert weight == pytest.approx(expected.x, rel=1e-3, abs=1e-3)
    assert start.metric().matrix == pytest.approx(weight * rows.T @ rows)


def test_boosting_goes_on_from_the_first_weak_learner():
    metric = BoostMetric.paper(init="identity", max_iter=5).fit(SCALED, Y)
    n = SCALED.shape[1]
    assert len(metric.directions_) == n + 5
    assert metric.directions_[:n] == pytest.approx(np.eye(n))
    assert np.ptp(metric.step_sizes_[:n]) == 0.0
    assert len(metric.components_) == n  # of full rank from the start
    losses = [record.loss for record in metric.history_]
    start = BoostMetric.paper(init="identity", max_iter=1).fit(SCALED, Y).history_[0].loss
    assert losses[0] == start
    assert np.all(np.diff(losses) < 0)


def test_a_metric_to_begin_with_may_be_an_earlier_model():
    first = BoostMetric.paper(max_iter=10).fit(SCALED, Y)
    for init in (first.get_metric(), first.components_, first.components_.tolist()):
        metric = BoostMetric.paper(init=init, max_iter=1).fit(SCALED, Y)
        given, weights = metric.directions_[:-1], metric.step_sizes_[:-1]
        factor = weights.sum() / first.step_sizes_.sum()
        assert (given.T * weights) @ given == pytest.approx(factor * first.get_mahalanobis_matrix())


def test_targets_and_impostors_are_nearest_in_the_metric_to_begin_with():
    L = np.diag(1 / X.std(axis=0))
    direct = BoostMetric.paper(init=L, max_iter=3).fit(X, Y)
    mapped = learn(
        X,
        Comparisons.from_labels(X @ L.T, Y),
        start=Progress.of_metric(L),
        reweigh=True,
        max_iter=3,
    )
    assert direct.step_sizes_.tolist() == mapped.step_sizes.tolist()


def test_a_base_metric_that_only_hurts_has_next_to_no_weight():
    # Near pairs are longer than far pairs in every direction.
    points = np.array([[0.0, 0.0], [3.0, 4.0], [-4.0, 3.0], [0.1, 0.2]])
    metric = ComparisonBoostMetric(init="identity", max_iter=3).fit([[0, 1, 3], [0, 2, 3]], points=points)
    assert metric.stop_reason_ is StopReason.DUAL_FEASIBLE
    matrix = metric.get_mahalanobis_matrix()
    assert matrix == pytest.approx(matrix[0, 0] * np.eye(2))
    assert 0 < matrix[0, 0] < 1e-6


def test_rca_is_the_inverse_of_the_covariance_within_classes():
    residuals = np.concatenate([X[c == Y] - X[c == Y].mean(axis=0) for c in range(3)])
    expected = np.linalg.inv(LedoitWolf(assume_centered=True).fit(residuals).covariance_)
    L = starting_components("rca", X, Y)
    assert pytest.approx(expected, rel=1e-6, abs=1e-9 * np.abs(expected).max()) == L.T @ L
    unit = X.std(axis=0)
    in_units = np.linalg.inv(LedoitWolf(assume_centered=True).fit(residuals / unit).covariance_)
    L = starting_components("standardized-rca", X, Y)
    assert pytest.approx(in_units / np.outer(unit, unit), rel=1e-6) == L.T @ L


@pytest.mark.parametrize("n_features", [29, 30, 31, 200])
def test_rca_of_more_features_than_samples(n_features):
    """The same matrix, though its covariance is made nowhere."""
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    wide = rng.standard_normal((30, n_features)) * np.linspace(0.1, 2, n_features)
    residuals = np.concatenate([wide[c == y] - wide[c == y].mean(axis=0) for c in range(3)])
    expected = np.linalg.inv(LedoitWolf(assume_centered=True).fit(residuals).covariance_)
    L = starting_components("rca", wide, y)
    assert pytest.approx(expected, rel=1e-8, abs=1e-10 * np.abs(expected).max()) == L.T @ L
    assert pytest.approx(L.T, rel=1e-12, abs=1e-12) == L


@pytest.mark.parametrize("many", [5, 50])
def test_a_linear_map_of_the_distances(many, monkeypatch):
    """Whether or not it costs a decomposition."""
    monkeypatch.setattr("boostmetric.solver.result._MANY_FEATURES", many)
    rng = np.random.default_rng(0)
    for n_directions in (0, 3, 10, 21, 60):
        directions = rng.standard_normal((n_directions, 10))
        progress = Progress(directions, rng.random(n_directions), [])
        found = progress.linear_map()
        assert pytest.approx(progress.metric().matrix) == found.T @ found
        assert 1 <= len(found) <= (20 if many == 5 else 10)
    assert progress.linear_map(2).tobytes() == progress.metric(2).components.tobytes()


@pytest.mark.parametrize("init", STARTS)
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_starts_of_any_scale(init, scale):
    metric = BoostMetric.paper(init=init, max_iter=3, regularization=0.0).fit(scale * X, Y)
    assert np.isfinite(metric.transform(scale * X)).all()


@pytest.mark.filterwarnings("ignore:Nothing was learned")
@pytest.mark.parametrize("init", STARTS)
def test_starts_with_degenerate_data(init):
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    flat = np.column_stack([y, np.ones(20), rng.standard_normal(20)])  # classes are points, a constant, noise
    wide = rng.standard_normal((20, 60))
    for points in (flat, wide, np.repeat(wide[:10], 2, axis=0)):
        metric = BoostMetric.paper(init=init, max_iter=3).fit(points, y)
        assert np.isfinite(metric.components_).all()


def test_starts_of_sparse_data():
    dense = np.abs(SCALED) * (np.abs(SCALED) > 1)
    for init in STARTS:
        a = BoostMetric.paper(init=init, max_iter=3).fit(dense, Y).get_mahalanobis_matrix()
        b = BoostMetric.paper(init=init, max_iter=3).fit(sparse.csr_array(dense), Y).get_mahalanobis_matrix()
        assert a == pytest.approx(b, rel=1e-6, abs=1e-9 * np.abs(a).max())


def test_wrong_starts_are_named():
    with pytest.raises(ValueError, match=r"init must be one of 'zero', .*'geometric-mean', 'auto'. Got 'one'"):
        BoostMetric.paper(init="one").fit(X, Y)
    with pytest.raises(ValueError, match=r"init must be one of 'zero', 'identity', 'standardized', 'auto'. Got 'rca'"):
        ComparisonBoostMetric(init="rca").fit([[0, 1, 2]], points=X)
    with pytest.raises(ValueError, match="init has 2 features, but the data have 13"):
        BoostMetric.paper(init=np.eye(2)).fit(X, Y)
    wide = sparse.csr_array(sparse.random(20, 20_000, density=0.01, random_state=0))
    with pytest.raises(ValueError, match=r"init='identity' needs a matrix of 20,000 x 20,000 numbers.*init=\"zero\""):
        BoostMetric.paper(init="identity").fit(wide, np.arange(20) % 2)
    with pytest.raises(ValueError, match="n_passes must be"):
        BoostMetric.paper(n_passes=0).fit(X, Y)


def test_each_pass_finds_its_comparisons_under_the_metric_so_far():
    data = Labelled(X, Y, None, 3, 3)
    asked = []

    class Watched(Labelled):
        def problem(self, under=None, n_passes=0):
            assert n_passes == len(asked)
            asked.append(under)
            return super().problem(under)

    source = Watched(X, Y, None, 3, 3)
    learned = list(Passes(Plan(source, Progress.nothing(13), (7, 5, 6), Settings())))
    assert [len(boosted.history) for boosted in learned] == [7, 12, 18]
    assert learned[-1].pass_ends == (7, 12)
    assert asked[0] is None
    for i in (0, 1):
        components = learned[i].metric().components
        assert asked[i + 1].T @ asked[i + 1] == pytest.approx(components.T @ components)
        comparisons = Comparisons.from_labels(X @ components.T, Y)
        assert data.problem(asked[i + 1]).comparisons.pairs.tolist() == comparisons.pairs.tolist()
        # The directions so far stay, weighed by one factor; the loss is that of the comparisons found now.
        n = len(learned[i].step_sizes)
        assert learned[i + 1].directions[:n].tolist() == learned[i].directions.tolist()
        factors = learned[i + 1].step_sizes[:n] / learned[i].step_sizes
        assert factors == pytest.approx(factors[0])
        assert learned[i + 1].stop_reason is StopReason.ITERATION_LIMIT
        X_matrix = learned[i + 1].metric().matrix
        quadruplets = comparisons.quadruplets()
        assert learned[i + 1].history[-1].loss == pytest.approx(
            reference.loss(X, quadruplets, 1e-7, X_matrix), rel=1e-6
        )


def test_passes_end_when_held_out_comparisons_no_longer_improve():
    held_out = np.arange(len(Y)) % 4 == 0
    train, test = (Labelled(SCALED[rows], Y[rows], None, 3, 3) for rows in (~held_out, held_out))

    def plan(n, **options):
        settings = Settings(loss=LOSSES["logistic"])
        return Plan(train, Progress.nothing(13), (10,) * n, settings, held_out=test, patience=100, **options)

    passes = Passes(plan(8))
    everything = list(passes)
    scores = [passes.judge(boosted) for boosted in everything]
    worse = next(i for i in range(1, 8) if scores[i] <= scores[i - 1])
    judged = Split(0.5, 0)  # of which nothing is used, since others are held out
    best = learn_in_passes(plan(8, split=judged))
    assert best.step_sizes.tolist() == everything[worse - 1].step_sizes.tolist()
    assert best.stop_reason is StopReason.PASSES
    if worse > 1:
        assert learn_in_passes(plan(worse, split=judged)).stop_reason is not StopReason.PASSES


def test_the_estimator_runs_passes():
    X, y = load_iris(return_X_y=True)
    metric = BoostMetric.paper(n_passes=20, max_iter=5, loss="logistic", random_state=0).fit(X, y)
    assert metric.stop_reason_ is StopReason.PASSES
    assert 1 <= metric.n_passes_ < 20
    assert metric.n_iter_ == len(metric.history_) == len(metric.directions_)
    assert [record.number for record in metric.history_] == list(range(1, metric.n_iter_ + 1))


def test_no_headroom():
    rng = np.random.default_rng(0)
    points, y = rng.standard_normal((60, 5)), rng.integers(0, 2, 60)  # labels that say nothing
    kept = 0
    for seed in range(5):
        for settings in ({"early_stopping": True}, {"n_passes": 3}):
            metric = BoostMetric.paper(
                init="identity", loss="logistic", max_iter=20, validation_fraction=0.3, random_state=seed, **settings
            ).fit(points, y)
            if metric.stop_reason_ is StopReason.KEPT_START:
                kept += 1
                matrix = metric.get_mahalanobis_matrix()
                assert matrix == pytest.approx(matrix[0, 0] * np.eye(5), abs=1e-12 * matrix[0, 0])
                assert metric.n_iter_ == 0
    assert kept >= 3


def test_a_fit_killed_in_a_later_pass_goes_on_with_the_same_bits(tmp_path):
    path = tmp_path / "passes.npz"
    settings = {"n_passes": 3, "max_iter": 12, "init": "standardized", "loss": "logistic", "random_state": 0}

    class Killed:
        def on_iteration(self, record):
            if record.number == 17:
                raise KeyboardInterrupt

    whole = BoostMetric.paper(**settings).fit(X, Y)
    assert whole.n_iter_ > 17
    with pytest.raises(KeyboardInterrupt):
        BoostMetric.paper(callbacks=[Checkpoint(path), Killed()], **settings).fit(X, Y)
    resumed = BoostMetric.paper(**settings).fit(X, Y, resume_from=path)
    assert resumed.n_iter_ == whole.n_iter_
    assert resumed.step_sizes_.tobytes() == whole.step_sizes_.tobytes()
    assert resumed.directions_.tobytes() == whole.directions_.tobytes()
    assert resumed.stop_reason_ is whole.stop_reason_


def test_warm_start_goes_on_in_the_last_pass():
    metric = BoostMetric.paper(n_passes=2, max_iter=5, warm_start=True, random_state=0, n_iter_no_change=100).fit(X, Y)
    n_passes, n_before = metric.n_passes_, metric.n_iter_
    metric.set_params(max_iter=30).fit(X, Y)
    assert metric.n_passes_ >= n_passes
    assert metric.n_iter_ >= n_before
    with pytest.raises(ValueError, match=r"max_iter=1 is less than the \d+ iterations"):
        metric.set_params(max_iter=1).fit(X, Y)


def test_passes_with_an_eval_set():
    train, test = (SCALED[::2], Y[::2]), (SCALED[1::2], Y[1::2])
    metric = BoostMetric.paper(n_passes=3, max_iter=10, loss="logistic").fit(*train, eval_set=test)
    assert metric.n_iter_ > 0
    assert metric.history_[-1].held_out is not None
    other = BoostMetric.paper(n_passes=3, max_iter=10, loss="logistic").fit(
        *train, eval_set=(test[0], np.roll(test[1], 7))
    )
    assert other.n_iter_ != metric.n_iter_ or other.history_ != metric.history_


def test_passes_with_the_corrective_solver():
    X, y = labelled("balance")
    setting = {"max_iter": 5, "solver": "corrective", "loss": "logistic", "init": "identity", "random_state": 1}
    metric, one = (BoostMetric.paper(n_passes=n_passes, **setting).fit(X, y) for n_passes in (3, 1))
    assert metric.n_passes_ > 1
    data = Labelled(X, y, None, 3, 3)
    own = [satisfied(data.problem(fit.components_), fit.components_) for fit in (one, metric)]
    assert own[1] > own[0]


def test_small_classes_are_warned_of_once():
    y = Y.copy()
    y[:2] = 7
    with pytest.warns(UserWarning, match="fewer than n_neighbors") as caught:
        BoostMetric.paper(n_passes=3, max_iter=3, random_state=0).fit(X, y)
    assert len(caught) == 1


@pytest.mark.parametrize("solver", ["stagewise", "corrective"])
def test_a_fit_killed_in_a_pass_that_is_rejected_goes_back_to_the_same_one(solver, tmp_path):
    path = tmp_path / "rejected.npz"
    settings = {"n_passes": 6, "max_iter": 3, "init": "identity", "loss": "logistic", "solver": solver}
    found = 0
    for seed in range(6):
        whole = BoostMetric.paper(random_state=seed, **settings).fit(SCALED, Y)
        if whole.stop_reason_ is not StopReason.PASSES:
            continue

        class Killed:
            def on_iteration(self, record, n_passes=whole.n_passes_):
                if len(record.so_far().pass_ends) == n_passes:  # in the one after
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            BoostMetric.paper(random_state=seed, callbacks=[Checkpoint(path), Killed()], **settings).fit(SCALED, Y)
        resumed = BoostMetric.paper(random_state=seed, **settings).fit(SCALED, Y, resume_from=path)
        assert resumed.step_sizes_.tobytes() == whole.step_sizes_.tobytes()
        assert resumed.directions_.tobytes() == whole.directions_.tobytes()
        assert resumed.stop_reason_ is StopReason.PASSES
        assert resumed.n_passes_ == whole.n_passes_
        assert resumed.duality_gap_ == pytest.approx(whole.duality_gap_, rel=1e-6)
        found += 1
    assert found > 0


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e3, 1e100])
def test_no_headroom_weighs_the_metric_to_begin_with(scale):
    X, y = load_iris(return_X_y=True)
    settings = {"init": "identity", "loss": "logistic", "random_state": 0, "regularization": 0.0}
    metric = BoostMetric.paper(n_passes=2, max_iter=4, **settings).fit(scale * X, y)
    assert metric.stop_reason_ is StopReason.KEPT_START
    # The weight is that with which a fit to the same comparisons begins.
    comparisons, _ = Comparisons.from_labels(X, y).split(0.1, metric._split_seed)
    begun = learn(
        X, comparisons, loss="logistic", regularization=0.0, start=Progress.of_metric(np.eye(4)), reweigh=True
    )
    assert metric.step_sizes_ * scale**2 == pytest.approx(begun.step_sizes[:4], rel=1e-6)


def test_a_start_that_lanczos_must_leave():
    """In more than 512 dimensions, with a last feature that does not vary."""
    rng = np.random.default_rng(0)
    y = np.arange(700) % 2
    points = rng.standard_normal((700, 600))
    points[:, 0] += 3 * y
    points[:, -1] = 1.0
    metric = BoostMetric.paper(init="identity", max_iter=3).fit(points, y)
    assert metric.n_iter_ == 3


def test_a_checkpoint_of_version_1_is_resumed():
    """Of a fit that ended in its last pass; `tests/data` keeps what version 0.1.0 wrote."""
    settings = {"max_iter": 8, "n_passes": 3, "loss": "logistic", "init": "standardized", "random_state": 0}
    path = Path(__file__).parent / "data" / "checkpoint-v1.npz"
    assert Checkpoint.load(path).pass_ends
    resumed, whole = BoostMetric.paper(**settings).fit(X, Y, resume_from=path), BoostMetric.paper(**settings).fit(X, Y)
    assert resumed.get_mahalanobis_matrix() == pytest.approx(whole.get_mahalanobis_matrix(), rel=1e-6)
