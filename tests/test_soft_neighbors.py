"""The losses of NCA and MLKR, against sums over samples and finite differences."""

import numpy as np
import pytest

from boostmetric.baselines import soft_neighbors
from boostmetric.baselines.soft_neighbors import Errors, Misses


def transcribed(rows, points, values):
    """What each sample takes from the others on average, sample by sample."""
    means = np.zeros(len(points))
    for i in range(len(points)):
        others = np.arange(len(points)) != i
        distances = np.square((points[others] - points[i]) @ rows.T).sum(axis=1)
        weights = np.exp(distances.min() - distances)
        taken = (values == values[i]) if values.dtype.kind == "i" else values
        means[i] = weights @ taken[others] / weights.sum()
    return means


def loss_of(rows, points, values):
    means = transcribed(rows, points, values)
    return -means.sum() if values.dtype.kind == "i" else np.square(means - values).sum()


@pytest.mark.parametrize("kind", [Errors, Misses])
@pytest.mark.parametrize(("n", "n_features", "n_rows"), [(2, 1, 1), (31, 3, 3), (33, 9, 2), (70, 5, 4)])
def test_loss_and_gradient(kind, n, n_features, n_rows, monkeypatch):
    monkeypatch.setattr(soft_neighbors, "_NUMBERS", 0)  # so that rows are computed in several blocks
    rng = np.random.default_rng(n)
    points, rows = rng.standard_normal((n, n_features)), rng.standard_normal((n_rows, n_features))
    values = rng.integers(3, size=n) if kind is Misses else rng.standard_normal(n)
    loss = kind(points, values)
    value, gradient = loss(rows)
    assert value == pytest.approx(loss_of(rows, points, values), rel=1e-12)
    for at in np.ndindex(*rows.shape):
        step = np.zeros_like(rows)
        step[at] = 1e-6
        slope = (loss_of(rows + step, points, values) - loss_of(rows - step, points, values)) / 2e-6
        assert gradient[at] == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_far_and_equal_points():
    points = np.array([[0.0], [0.0], [1e8], [1e8], [-1e150]])
    labels = np.array([0, 0, 1, 0, 1])
    value, gradient = Misses(points, labels)(np.ones((1, 1)))
    assert value == pytest.approx(-2.25)  # the first two have each other; the last, all others alike
    assert np.isfinite(gradient).all()
    assert Errors(points, labels.astype(float))(np.ones((1, 1)))[0] == pytest.approx(2 + 0.75**2)
