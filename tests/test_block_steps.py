"""Several directions from one A_hat, a learning rate, and the two verbs that they need."""

import numpy as np
import pytest
from scipy.optimize import minimize

from boostmetric import BoostMetric, ComparisonBoostMetric
from boostmetric.callbacks import Checkpoint
from boostmetric.oracles.losses import LOSSES
from boostmetric.solver.block import block_weights
from boostmetric.solver.direction import LARGEST_DENSE, leading_direction, leading_directions
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import StopReason
from conftest import PROBLEMS, labelled, make_problem


@pytest.fixture(params=LOSSES)
def loss(request):
    return LOSSES[request.param]


@pytest.fixture(params=PROBLEMS)
def oracle(request, loss, small_shards, backend):
    problem = make_problem(request.param)
    with Problem(problem.points, problem.comparisons).restricted().opened(backend, loss=loss) as (_, oracle):
        yield oracle


def drawn(oracle, n, seed=0):
    """Unit vectors, and weights that are neither large nor small."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((n, oracle.n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions, rng.uniform(0.05, 0.3, n)


def test_a_probe_is_the_loss_after_the_steps_and_its_slopes(oracle):
    first, before = drawn(oracle, 2)
    directions, weights = drawn(oracle, 3, seed=1)
    oracle.rebuild(first, before)
    probed = oracle.probe(directions, weights)
    after = oracle.rebuild(np.concatenate([first, directions]), np.concatenate([before, weights]))
    assert probed.loss == pytest.approx(after.loss, rel=1e-12, abs=1e-12)
    gains = [xi @ oracle.matvec(xi) for xi in directions]
    assert probed.first == pytest.approx(-np.array(gains), rel=1e-9, abs=1e-12)
    oracle.rebuild(first, before)
    step = 1e-5
    moved = [oracle.probe(directions, weights + step * sign * np.eye(3)[0]).loss for sign in (1, -1)]
    assert probed.first[0] == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=1e-4, abs=1e-7)


def test_extending_gives_the_bits_of_rebuilding_and_a_probe_changes_nothing(oracle):
    first, before = drawn(oracle, 3)
    directions, weights = drawn(oracle, 4, seed=1)
    oracle.rebuild(first, before)
    oracle.probe(directions, 2 * weights)
    extended, gram = oracle.extend(directions, weights), oracle.gram()
    rebuilt = oracle.rebuild(np.concatenate([first, directions]), np.concatenate([before, weights]))
    assert extended == rebuilt
    assert gram.tobytes() == oracle.gram().tobytes()
    oracle.rebuild(first, before)
    for xi, step in zip(directions, weights, strict=True):
        oracle.project(xi)
        committed = oracle.commit(step)
    assert committed == rebuilt


def test_weights_of_a_block_are_the_best_of_all(oracle):
    v = 1e-3
    oracle.rebuild(*drawn(oracle, 1))
    _, directions = leading_directions(oracle, np.ones(oracle.n_features), 3)
    weights = block_weights(oracle, v, directions, 0.1)

    def objective(weights):
        at = oracle.probe(directions, weights)
        return at.loss + v * weights.sum(), at.first + v

    best = minimize(objective, weights, jac=True, method="L-BFGS-B", bounds=[(0, 40)] * 3, options={"ftol": 1e-13})
    nothing, _ = objective(np.zeros(3))
    found, _ = objective(weights)
    assert (weights >= 0).all()
    assert found - best.fun <= 0.1 * (nothing - best.fun) + 1e-9  # near enough: the next block goes on


@pytest.mark.parametrize("n_features", [5, LARGEST_DENSE + 20])
def test_leading_directions_are_eigenvectors(n_features):
    rng = np.random.default_rng(0)
    root = rng.standard_normal((n_features, 9))
    a_hat = root @ np.diag(np.linspace(-1, 2, 9)) @ root.T

    class Constant:
        def gram(self):
            return a_hat

        def matvec(self, x):
            return a_hat @ x

    Constant.n_features = n_features
    values, directions = leading_directions(Constant(), np.ones(n_features), 3)
    expected = np.linalg.eigvalsh(a_hat)[::-1][:3]
    assert values == pytest.approx(expected)
    assert directions @ a_hat == pytest.approx(values[:, None] * directions, abs=1e-6 * expected[0])
    assert np.linalg.norm(directions, axis=1) == pytest.approx(np.ones(3))
    one, xi = leading_direction(Constant(), np.ones(n_features))
    assert one == pytest.approx(values[0])
    assert abs(xi @ directions[0]) == pytest.approx(1.0)


X, Y = labelled("wine")
BLOCKS = {"loss": "logistic", "block_size": 4, "max_iter": 6}


def test_blocks_need_fewer_iterations():
    single = BoostMetric.paper(loss="logistic", max_iter=6).fit(X, Y)
    blocks = BoostMetric.paper(**BLOCKS).fit(X, Y)
    assert blocks.history_[-1].loss < single.history_[-1].loss
    losses = [record.loss for record in blocks.history_]
    assert losses == sorted(losses, reverse=True)
    counts = [record.n_directions for record in blocks.history_]
    assert max(counts) <= 4
    assert sum(counts) == len(blocks.step_sizes_) > len(counts)
    X_learned = (blocks.directions_.T * blocks.step_sizes_) @ blocks.directions_
    assert blocks.get_mahalanobis_matrix() == pytest.approx(X_learned)
    assert (blocks.step_sizes_ > 0).all()


@pytest.mark.parametrize("options", [{}, {"n_passes": 3, "init": "identity", "max_iter": 2}, {"early_stopping": True}])
def test_a_fit_with_blocks_is_resumed_to_the_same_bits(options, tmp_path):
    setting = {**BLOCKS, "random_state": 0, **options}
    whole = BoostMetric.paper(**setting).fit(X, Y)

    class Stop:
        def on_iteration(self, record):
            if record.number == 3:
                raise KeyboardInterrupt

    path = tmp_path / "fit.npz"
    with pytest.raises(KeyboardInterrupt):
        BoostMetric.paper(**setting, callbacks=[Checkpoint(path, every=1), Stop()]).fit(X, Y)
    assert Checkpoint.load(path).history[-1].n_directions > 1
    resumed = BoostMetric.paper(**setting).fit(X, Y, resume_from=path)
    assert resumed.components_.tobytes() == whole.components_.tobytes()
    assert resumed.history_ == whole.history_


def test_early_stopping_rolls_back_whole_blocks():
    setting = {"loss": "logistic", "block_size": 3, "max_iter": 60, "early_stopping": True, "n_iter_no_change": 3}
    metric = BoostMetric.paper(**setting, random_state=1).fit(X, Y)
    best = max(record.held_out for record in metric.history_)
    assert metric.history_[-1].held_out == best
    assert metric.stop_reason_ is StopReason.HELD_OUT  # it went on after the best iteration
    assert len(metric.step_sizes_) == sum(record.n_directions for record in metric.history_)


def test_a_learning_rate_makes_shorter_steps():
    whole = BoostMetric.paper(max_iter=1).fit(X, Y)
    short = BoostMetric.paper(max_iter=1, learning_rate=0.25).fit(X, Y)
    assert short.step_sizes_ == pytest.approx(0.25 * whole.step_sizes_)
    assert short.directions_.tobytes() == whole.directions_.tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0.0}, 'learning_rate must be a finite number above 0 and at most 1( or "auto")?. Got 0.0'),
        ({"learning_rate": 1.5}, 'learning_rate must be a finite number above 0 and at most 1( or "auto")?. Got 1.5'),
        ({"block_size": 0}, 'block_size must be a whole number of at least 1 or "auto". Got 0'),
        ({"block_size": "many"}, "block_size must be a whole number of at least 1 or \"auto\". Got 'many'"),
    ],
)
@pytest.mark.parametrize("learner", [BoostMetric, ComparisonBoostMetric])
def test_what_is_wrong_is_said(learner, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        learner(**options).check_parameters()


def test_blocks_come_with_many_features():
    rng = np.random.default_rng(0)
    few, many = (rng.standard_normal((60, n)) + 2.0 * (np.arange(60) % 2)[:, None] for n in (127, 128))
    for points, expected in ((few, 1), (many, 32)):
        metric = BoostMetric(n_passes=1, max_iter=20).fit(points, np.arange(60) % 2)
        assert metric.block_size_ == expected
        assert metric.n_iter_ <= (20 if expected == 1 else 2)
