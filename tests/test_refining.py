"""The result of a choice in large data goes on from the mean of what the chosen trials have learned."""

import numpy as np
import pytest

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.callbacks import Checkpoint
from boostmetric.estimators.candidates import Candidate, Recipe
from boostmetric.estimators.refining import mean_map, passes_of_result, refined
from boostmetric.solver.sources import Labelled

SETTING = {"n_passes": 4, "max_iter": 3, "normalize": False, "random_state": 0}
LOSSES = np.zeros(3)


def data(n=1600):
    """A checkerboard of three labels in the plane of two of six features: no start finds it, boosting does."""
    X = np.random.default_rng(0).uniform(size=(n, 6))
    column, row, *_ = np.floor(4 * X.T)
    return X, (column + 2 * row).astype(int) % 3


def test_the_mean_of_metrics_in_units_of_their_mean_squared_distance():
    rng = np.random.default_rng(0)
    X, maps = rng.standard_normal((50, 5)), [rng.standard_normal((n, 5)) for n in (2, 5, 4)]
    scatter = np.cov(X, rowvar=False)
    found = mean_map([*maps, None], scatter)
    matrices = [rows.T @ rows / np.vdot(rows.T @ rows, scatter) for rows in maps]
    assert found.shape == (5, 5)
    np.testing.assert_allclose(found.T @ found, sum(matrices), rtol=1e-12)
    assert mean_map([None, np.zeros((5, 5))], scatter) is None


def test_passes_are_few_and_compare_two_thirds_of_the_samples():
    X, y = data(18_000)
    source, recipe = Labelled(X, y, None, 3, 3), Recipe("identity", "stagewise", 4, 7, 1)
    best = Candidate(recipe, 9, LOSSES, LOSSES)
    decision = refined(source, best, 10, 5, np.eye(6))
    assert (decision.max_iter, decision.passes_before, decision.beside) == ((5, 5, 5), 9, ())
    assert (decision.source.n_neighbors, decision.source.n_impostors) == (4, 7)
    compared = [decision.source.problem(None, n).comparisons for n in (0, 1)]
    assert [len(each) for each in compared] == [12_000, 12_000]
    assert not np.array_equal(compared[0].anchors, compared[1].anchors)


def test_most_passes_are_those_of_trial_and_result_together():
    assert [passes_of_result(n, 15_000) for n in (1, 2, 3, 4, 6, 10)] == [0, 1, 1, 2, 3, 3]
    assert [passes_of_result(10, n) for n in (2000, 9000, 12_000, 10**6)] == [5, 4, 3, 3]
    X, y = data()
    metric = BoostMetric.recommended(**SETTING).fit(X, y)
    assert max(candidate.n_passes for candidate in metric.candidates_) <= 2
    assert metric.n_passes_ <= 4
    one = BoostMetric.recommended(**SETTING | {"n_passes": 1}).fit(X, y)
    assert one.n_passes_ <= 1


def test_a_fit_goes_on_from_its_trials():
    X, y = data()
    metric = BoostMetric.recommended(**SETTING).fit(X, y)
    best = metric.chosen_[0]
    assert best.n_passes
    assert metric.n_passes_ > best.n_passes
    assert metric.init_ == best.recipe.init
    again = BoostMetric.recommended(**SETTING).fit(X, y)
    assert again.components_.tobytes() == metric.components_.tobytes()


def test_a_warm_start_continues_and_a_refit_begins_anew():
    X, y = data()
    metric = BoostMetric.recommended(**SETTING, warm_start=True).fit(X, y)
    passes, components = metric.n_passes_, metric.components_
    metric.fit(X, y)
    assert metric.n_passes_ == passes
    np.testing.assert_allclose(metric.components_, components, rtol=1e-10)
    assert metric.refit(X, y).n_passes_ <= metric.chosen_[0].n_passes


class Stop:
    def on_iteration(self, record):
        if record.number == 4:
            raise KeyboardInterrupt


def test_a_fit_goes_on_from_its_checkpoint(tmp_path):
    X, y = data()
    whole = BoostMetric.recommended(**SETTING).fit(X, y)
    path = tmp_path / "fit.npz"
    with pytest.raises(KeyboardInterrupt):
        BoostMetric.recommended(**SETTING, callbacks=[Checkpoint(path, every=1), Stop()]).fit(X, y)
    again = BoostMetric.recommended(**SETTING).fit(X, y, resume_from=path)
    assert again.components_.tobytes() == whole.components_.tobytes()
    assert again.n_passes_ == whole.n_passes_


def test_samples_of_an_eval_set_are_learned_from_the_start():
    X, y = data(2000)
    metric = BoostMetric.recommended(**SETTING).fit(X[:1600], y[:1600], eval_set=(X[1600:], y[1600:]))
    assert metric.n_passes_ <= metric.chosen_[0].n_passes
    assert isinstance(metric.get_metric(), MahalanobisMetric)
