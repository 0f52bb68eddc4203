"""The recommended setting for comparisons: what it chooses from, how it judges, and what it learns then."""

import numpy as np
import pytest

from boostmetric import ComparisonBoostMetric, Comparisons, MahalanobisMetric
from boostmetric.callbacks import Checkpoint
from boostmetric.solver.problem import Problem, satisfied
from boostmetric.solver.result import StopReason

RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((150, 5))
SEEN = POINTS * [4, 2, 1, 0, 0]  # what the judge looks at


def triplets(n, seed, noise=0.0):
    rng = np.random.default_rng(seed)
    rows = np.array([rng.choice(len(POINTS), 3, replace=False) for _ in range(n)])
    near, far = (np.linalg.norm(SEEN[rows[:, 0]] - SEEN[rows[:, c]], axis=1) for c in (1, 2))
    swap = (near > far) ^ (rng.random(n) < noise)
    rows[swap] = rows[swap][:, [0, 2, 1]]
    return rows


TRAIN, TEST = triplets(600, 1, noise=0.1), triplets(300, 2)
QUICK = {"max_iter": 30, "random_state": 0}


def test_candidates_are_the_start_and_the_best_iteration_of_each_recipe():
    metric = ComparisonBoostMetric.recommended(**QUICK).fit(TRAIN, points=POINTS)
    *compared, unit = metric.candidates_
    assert unit.normalize
    assert [(candidate.init, candidate.learning_rate) for candidate in compared[::2]] == [
        (init, rate) for init in ("identity", "standardized") for rate in (1.0, 0.3)
    ]
    assert {candidate.n_iter for candidate in compared[::2]} == {0}
    (chosen,) = metric.chosen_
    assert chosen.loss == min(candidate.loss for candidate in metric.candidates_)
    assert (metric.init_, metric.learning_rate_, metric.n_iter_) == (chosen.init, chosen.learning_rate, chosen.n_iter)
    assert metric.normalize_ == chosen.normalize
    assert metric.stop_reason_ is StopReason.VALIDATED
    assert metric.score(TEST) > compared[0].satisfied + 0.05


def test_what_is_chosen_is_learned_from_everything():
    metric = ComparisonBoostMetric.recommended(**QUICK).fit(TRAIN, points=POINTS)
    setting = {"init": metric.init_, "learning_rate": metric.learning_rate_, "normalize": metric.normalize_}
    same = ComparisonBoostMetric(loss="logistic", max_iter=metric.n_iter_, **setting).fit(TRAIN, points=POINTS)
    assert metric.components_.tobytes() == same.components_.tobytes()
    other = triplets(200, 3)
    again, plain = metric.refit(other, points=POINTS), same.fit(other, points=POINTS)
    assert again.components_.tobytes() == plain.components_.tobytes()
    assert again.stop_reason_ is StopReason.VALIDATED


@pytest.mark.parametrize(
    ("fit", "reason"),
    [({}, StopReason.ITERATION_LIMIT), ({"eval_set": TEST}, StopReason.VALIDATED)],
    ids=["limit", "held out"],
)
def test_validation_is_the_reason_only_where_it_was_used(fit, reason):
    metric = ComparisonBoostMetric(max_iter=300 if fit else 5, n_iter_no_change=3).fit(TRAIN, points=POINTS, **fit)
    assert metric.stop_reason_ is (StopReason.HELD_OUT if fit else StopReason.ITERATION_LIMIT)
    assert metric.refit(triplets(200, 3), points=POINTS).stop_reason_ is reason
    assert metric.refit(triplets(200, 4), points=POINTS).stop_reason_ is reason


def test_an_eval_set_is_what_candidates_are_judged_on():
    metric = ComparisonBoostMetric.recommended(**QUICK).fit(TRAIN, points=POINTS, eval_set=TEST)
    held_out = Problem(POINTS, Comparisons.from_triplets(TEST))
    first = metric.candidates_[0]
    assert (first.init, first.n_iter) == ("identity", 0)
    assert first.satisfied == pytest.approx(satisfied(held_out, np.eye(5)))
    (chosen,) = metric.chosen_
    if not chosen.normalize:
        assert chosen.satisfied == pytest.approx(satisfied(held_out, metric.components_))


def test_of_learning_rates_that_gain_the_same_the_smallest_is_chosen():
    overruled, decided = 0, 0
    for seed in range(8):
        answers = triplets(600, seed, noise=0.2 * (seed % 2))
        metric = ComparisonBoostMetric.recommended(init="identity", normalize=False, **{**QUICK, "max_iter": 12})
        metric.fit(answers, points=POINTS)
        start, one, _, short = metric.candidates_
        assert (one.learning_rate, short.learning_rate) == (1.0, 0.3)
        gained = start.loss - one.loss
        (chosen,) = metric.chosen_
        if one.loss < short.loss <= one.loss + 0.1 * gained:
            assert chosen == short
            overruled += 1
        elif chosen == one:
            assert one.loss + 0.1 * gained < short.loss
            decided += 1
    assert overruled
    assert decided


def test_unit_length_is_chosen_where_directions_are_what_counts():
    lengths = np.exp(2 * RNG.standard_normal(len(POINTS)))
    unit = MahalanobisMetric(np.eye(5), normalize=True)
    rows = np.array([RNG.choice(len(POINTS), 3, replace=False) for _ in range(600)])
    mapped = unit.transform(POINTS)
    near, far = (np.linalg.norm(mapped[rows[:, 0]] - mapped[rows[:, c]], axis=1) for c in (1, 2))
    rows = np.where((near > far)[:, None], rows[:, [0, 2, 1]], rows)
    metric = ComparisonBoostMetric.recommended(**QUICK).fit(rows, points=POINTS * lengths[:, None])
    assert metric.normalize_
    assert metric.score(rows) > 0.95
    assert not ComparisonBoostMetric.recommended(**QUICK, normalize=False).fit(rows, points=POINTS).normalize_


def test_only_what_is_auto_is_chosen():
    metric = ComparisonBoostMetric.recommended(**QUICK, init="standardized", normalize=False)
    metric.fit(TRAIN, points=POINTS)
    assert {(candidate.init, candidate.learning_rate) for candidate in metric.candidates_} == {
        ("standardized", 1.0),
        ("standardized", 0.3),
    }
    assert len(metric.candidates_) == 4
    assert not ComparisonBoostMetric(init="identity", max_iter=5).chooses


def test_a_fit_continues_from_its_checkpoint_to_the_same_metric(tmp_path):
    class Fail:
        def on_iteration(self, record):
            if record.number == 2:
                raise KeyboardInterrupt

    whole = ComparisonBoostMetric.recommended(**QUICK).fit(TRAIN, points=POINTS)
    assert whole.n_iter_ > 2
    path = tmp_path / "fit.npz"
    with pytest.raises(KeyboardInterrupt):
        ComparisonBoostMetric.recommended(**QUICK, callbacks=[Checkpoint(path, every=1), Fail()]).fit(
            TRAIN, points=POINTS
        )
    again = ComparisonBoostMetric.recommended(**QUICK).fit(TRAIN, points=POINTS, resume_from=path)
    assert again.components_.tobytes() == whole.components_.tobytes()


def test_a_warm_start_continues_with_what_was_chosen():
    metric = ComparisonBoostMetric.recommended(**QUICK, warm_start=True).fit(TRAIN, points=POINTS)
    n_iter, chosen = metric.n_iter_, metric.chosen_
    metric.set_params(max_iter=n_iter + 5).fit(TRAIN, points=POINTS)
    assert metric.n_iter_ == n_iter + 5
    assert metric.learning_rate_ == chosen[0].learning_rate


def test_too_few_comparisons_keep_the_start():
    with pytest.warns(UserWarning, match="1 comparison: too few, or with too many pairs in common, to validate on"):
        metric = ComparisonBoostMetric.recommended().fit(TRAIN[:1], points=POINTS)
    assert metric.candidates_ == []
    assert metric.n_iter_ == 0
    assert metric.stop_reason_ is StopReason.KEPT_START
    matrix = metric.get_mahalanobis_matrix()
    assert matrix == pytest.approx(matrix[0, 0] * np.eye(5))


def test_a_plain_fit_forgets_what_was_chosen():
    metric = ComparisonBoostMetric.recommended(**QUICK).fit(TRAIN, points=POINTS)
    metric.set_params(init="identity", learning_rate=1.0, normalize=False).fit(TRAIN, points=POINTS)
    assert not hasattr(metric, "chosen_")
    assert not hasattr(metric, "candidates_")


@pytest.mark.parametrize("n", [50, 100])
def test_few_noisy_judgements_are_never_worse_than_the_base_by_more_than_chance(n):
    """The judge looks at all features alike, so there is nothing to learn but noise: one answer in four is wrong."""
    kept = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        points = rng.standard_normal((200, 6))
        rows = np.array([rng.choice(len(points), 3, replace=False) for _ in range(n + 500)])
        near, far = (np.linalg.norm(points[rows[:, 0]] - points[rows[:, c]], axis=1) for c in (1, 2))
        swap = (near > far) ^ (rng.random(len(rows)) < 0.25 * (np.arange(len(rows)) < n))
        rows[swap] = rows[swap][:, [0, 2, 1]]
        metric = ComparisonBoostMetric.recommended(max_iter=20, random_state=seed).fit(rows[:n], points=points)
        kept.append(metric.score(rows[n:]))  # the base is always right here
    assert np.mean(kept) > 0.98
    assert np.median(kept) == 1


def test_a_handful_of_comparisons_keeps_the_base():
    metric = ComparisonBoostMetric.recommended(**QUICK).fit(triplets(12, 5), points=POINTS)
    assert metric.stop_reason_ is StopReason.KEPT_START
    matrix = metric.get_mahalanobis_matrix()
    assert matrix == pytest.approx(matrix[0, 0] * np.eye(5))
