"""Loss of comparisons by soft choice, against its definition."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from boostmetric import Comparisons
from boostmetric.evaluation.soft_choices import SoftChoices, some_groups


def literal(comparisons, distance, s):
    """Loss of each near pair, with its group and weight."""
    for g in range(comparisons.n_groups):
        low, middle, high = comparisons.bounds[2 * g : 2 * g + 3]
        far = distance[comparisons.members[middle:high]]
        for near in distance[comparisons.members[low:middle]]:
            picked = np.exp(-s * near)
            probability = 0.05 + 0.95 * picked / (picked + np.exp(-s * far).sum())
            yield g, comparisons.weights[g] / (middle - low), -np.log(probability)


def groups(seed, n_anchors):
    rng = np.random.default_rng(seed)
    near = [rng.choice(np.arange(20, 40), rng.integers(1, 4), replace=False) for _ in range(30)]
    far = [rng.choice(np.arange(40, 70), rng.integers(1, 6), replace=False) for _ in range(30)]
    anchors = rng.integers(n_anchors, size=30)
    return Comparisons.from_groups(near, far, rng.uniform(0.5, 2.0, 30), anchors=anchors)


@pytest.mark.parametrize("n_anchors", [1, 12])
def test_losses_are_those_at_the_best_sharpness(n_anchors):
    comparisons = groups(0, n_anchors)
    distance = np.random.default_rng(1).exponential(5.0, comparisons.n_pairs)
    distance[comparisons.pairs[:, 1] >= 40] += 3.0

    def total(s):
        return sum(weight * loss for _, weight, loss in literal(comparisons, distance, s))

    best = minimize_scalar(total, bounds=(0.0, 10.0), method="bounded", options={"xatol": 1e-9}).x
    sample = SoftChoices(comparisons).losses(distance)
    assert sample.sums.sum() == pytest.approx(total(best), rel=1e-3)
    assert sample.weight.sum() == pytest.approx(comparisons.weights.sum())
    if n_anchors > 1:
        anchors, row = np.unique(comparisons.anchors, return_inverse=True)
        expected = np.zeros(len(anchors))
        for g, weight, loss in literal(comparisons, distance, best):
            expected[row[g]] += weight * loss
        assert sample.sums[:, 0] == pytest.approx(expected, rel=1e-2)
    else:  # near pairs take the place of anchors
        is_near = np.unique(comparisons.members[comparisons._sides.row % 2 == 0])
        assert sample.sums.shape == (len(is_near), 1)


def test_the_scale_of_the_distances_does_not_count():
    comparisons = groups(2, 10)
    choices = SoftChoices(comparisons)
    distance = np.random.default_rng(3).exponential(1.0, comparisons.n_pairs)
    assert choices.losses(1e6 * distance).mean == pytest.approx(SoftChoices(comparisons).losses(distance).mean)


def test_distances_that_say_nothing_leave_every_pair_as_likely():
    comparisons = groups(4, 10)
    _, far = comparisons.side_sizes
    chance = np.average(-np.log(0.05 + 0.95 / (1 + far)), weights=comparisons.weights)
    for distance in (np.zeros(comparisons.n_pairs), np.ones(comparisons.n_pairs)):
        assert SoftChoices(comparisons).losses(distance).mean == pytest.approx(chance)


def test_losses_lie_between_those_of_right_answers_and_of_wrong_ones():
    comparisons = groups(4, 10)
    is_near = np.isin(np.arange(comparisons.n_pairs), comparisons.members[comparisons._sides.row % 2 == 0])
    assert SoftChoices(comparisons).losses(np.where(is_near, 1.0, 2.0)).mean < 1e-3
    # Near pairs that are longer than all far ones are best not listened to, and cost no more than wrong answers do.
    assert 1.0 < SoftChoices(comparisons).losses(np.where(is_near, 2.0, 1.0)).mean <= -np.log(0.05)


def test_some_groups_are_drawn_up_to_a_number_of_pairs():
    comparisons = groups(5, 10)
    n_pairs = len(comparisons.members)
    rng = np.random.RandomState(0)
    assert some_groups(comparisons, n_pairs, rng).n_groups == 30
    some = some_groups(comparisons, n_pairs // 2, rng)
    assert 0.3 * n_pairs < len(some.members) <= n_pairs // 2
    assert some_groups(comparisons, 1, rng).n_groups == 1
    labels = np.arange(20) % 2
    everything = Comparisons.from_labels(np.arange(20.0)[:, None], labels, 2, "all")
    assert some_groups(everything, 100, rng).classes is None
