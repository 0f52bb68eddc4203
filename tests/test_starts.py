"""The starts that come from the scatter of classes, by their definitions."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.datasets import make_classification

from boostmetric import BoostMetric
from boostmetric.metric.starts import STARTS, scatter, start_in_words, starting_components
from boostmetric.neighbors import nearest_others
from conftest import labelled

X, Y = labelled("wine")
UNIT = {"": 1.0, "standardized-": X.std(axis=0)}


def scatters(X, y):
    """Shrunk covariance within the classes, and scatter of their means."""
    means = np.array([X[y == label].mean(axis=0) for label in y])
    residuals = X - means
    within, shrinkage = residuals.T @ residuals / len(X), ledoit_wolf_shrinkage(residuals, assume_centered=True)
    within = (1 - shrinkage) * within + shrinkage * np.trace(within) / X.shape[1] * np.eye(X.shape[1])
    apart = means - X.mean(axis=0)
    return within, apart.T @ apart / len(X)


@pytest.mark.parametrize("kind", UNIT)
def test_lda_is_the_distance_between_means_in_units_within_the_classes(kind):
    components = starting_components(f"{kind}lda", X, Y) * UNIT[kind]
    assert components.shape == (2, 13)
    within, _ = scatters(X / UNIT[kind], Y)
    means = np.array([X[label == Y].mean(axis=0) for label in np.unique(Y)]) / UNIT[kind]
    inverse = np.linalg.inv(within)
    expected = [np.sqrt((a - b) @ inverse @ (a - b)) for i, a in enumerate(means) for b in means[i + 1 :]]
    assert pdist(means @ components.T) == pytest.approx(expected)


def test_the_geometric_mean_solves_its_equation():
    components = starting_components("geometric-mean", X, Y)
    metric = components.T @ components
    within, between = scatters(X, Y)
    between += 1e-3 * np.trace(between) / 13 * np.eye(13)
    product = metric @ within @ metric
    assert product / np.linalg.norm(product) == pytest.approx(between / np.linalg.norm(between), abs=1e-9)


@pytest.mark.parametrize("init", [name for name in STARTS if name.startswith("standardized")])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_units_of_features_do_not_count(init, dtype):
    points, y = make_classification(200, 40, n_informative=6, n_classes=3, random_state=0)
    points = points.astype(dtype)
    units = np.exp2(np.arange(40) % 7).astype(dtype)
    plain, other = (starting_components(init, some, y) for some in (points, points * units))
    assert pdist(points * units @ other.T) == pytest.approx(pdist(points @ plain.T), rel=1e-4)


@pytest.mark.parametrize("init", [name for name in STARTS if name.startswith("standardized")])
def test_a_feature_that_varies_by_rounding_only_is_not_blown_up(init):
    points, y = make_classification(200, 40, n_informative=6, n_classes=3, random_state=0)
    points[:, 0] *= 1e-9
    components = starting_components(init, points.astype(np.float32), y)
    assert np.linalg.norm(points[:, :1] @ components[:, :1].T) < 1e-6 * np.linalg.norm(points @ components.T)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_scatter_is_the_covariance_up_to_a_factor(dtype):
    points = make_classification(3000, 40, random_state=0)[0].astype(dtype)
    found, expected = scatter(points), np.cov(points, rowvar=False)
    assert found / np.trace(found) == pytest.approx(expected / np.trace(expected), abs=1e-7)


@pytest.mark.parametrize("init", ["lda", "geometric-mean"])
@pytest.mark.parametrize("size", [1e-150, 1.0, 1e150])
def test_data_of_any_size_are_learned_from(init, size):
    plain = BoostMetric(init=init, n_passes=1, max_iter=3, regularization=0.0).fit(X, Y).transform(X)
    scaled = BoostMetric(init=init, n_passes=1, max_iter=3, regularization=0.0).fit(size * X, Y).transform(size * X)
    assert pdist(scaled) / pdist(scaled).mean() == pytest.approx(pdist(plain) / pdist(plain).mean(), rel=1e-4)


def test_classes_with_one_mean_have_no_directions_of_their_own():
    rng = np.random.default_rng(0)
    half = rng.standard_normal((20, 3))
    points, y = np.concatenate([half, -half, 2 * half, -2 * half]), np.repeat([0, 1], 40)
    for init in ("lda", "geometric-mean"):
        components = starting_components(init, points, y)
        assert np.isfinite(components).all()
        assert np.abs(components).sum() > 0


def test_every_start_has_a_name_for_sentences():
    assert all(start_in_words(name) for name in STARTS)
    assert start_in_words("lda") == "LDA"


@pytest.mark.parametrize("n_features", [2, 40])
def test_impostors_of_some_points_are_those_among_all(n_features):
    rng = np.random.default_rng(0)
    points, label = rng.standard_normal((80, n_features)), rng.integers(0, 3, 80)
    asked = np.flatnonzero(rng.random(80) < 0.3)
    every, some = nearest_others(points, label, 5), nearest_others(points, label, 5, asked=asked)
    expected = every.take(asked)
    assert np.array_equal(some.values, expected.values)
    assert np.array_equal(some.bounds, expected.bounds)
    assert len(nearest_others(points, label, 5, asked=asked[:0])) == 0
