"""Input that breaks things: a clear error or a finite positive semidefinite metric."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from boostmetric import BoostMetric, Comparisons
from boostmetric.arrays.errors import ParameterWarning
from boostmetric.comparisons.labels import check_labels
from boostmetric.solver.learn import learn


def blobs(scale=1.0, seed=0, n=40, n_features=3):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, n_features))
    X[:, 0] += 1.5 * y
    return scale * X, y


def assert_finite_psd(metric):
    for array in (metric.components_, metric.directions_, metric.step_sizes_):
        assert np.isfinite(array).all()
    assert np.all(metric.step_sizes_ > 0)
    matrix = metric.get_mahalanobis_matrix()
    sum_of_squares = (metric.directions_.T * metric.step_sizes_) @ metric.directions_
    assert np.abs(matrix - sum_of_squares).max() <= 1e-9 * np.abs(sum_of_squares).max()


def test_huge_data():
    plain, huge = (BoostMetric.paper(max_iter=20).fit(*blobs(scale)) for scale in (1.0, 1e150))
    assert_finite_psd(huge)
    assert huge.transform(blobs(1e150)[0]) == pytest.approx(plain.transform(blobs()[0]), rel=1e-4)


def test_tiny_data_say_what_is_wrong():
    with pytest.warns(
        UserWarning,
        match=r"Nothing was learned.*eigenvalue.*scale them.*which is 1e-07",
    ):
        metric = BoostMetric.paper().fit(*blobs(1e-150))
    assert_finite_psd(metric)
    assert not metric.get_mahalanobis_matrix().any()
    assert list(metric.staged_transform(blobs()[0])) == []


def test_tiny_data_without_regularization_are_learned():
    plain, tiny = (BoostMetric.paper(max_iter=20, regularization=0.0).fit(*blobs(scale)) for scale in (1.0, 1e-150))
    assert tiny.transform(blobs(1e-150)[0]) == pytest.approx(plain.transform(blobs()[0]), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e200])
def test_data_out_of_range_are_refused(scale):
    with pytest.raises(ValueError, match=r"spread over about 1e-?\d+.*Rescale the features"):
        BoostMetric.paper().fit(*blobs(scale))


@pytest.mark.parametrize(("value", "n", "n_features"), [(1.0, 10, 3), (0.1, 700, 600), (1e200, 10, 3), (1e-300, 9, 2)])
def test_all_points_equal(value, n, n_features):
    with pytest.warns(UserWarning, match="Nothing was learned"):
        metric = BoostMetric.paper().fit(np.full((n, n_features), value), np.arange(n) % 2)
    assert_finite_psd(metric)


@pytest.mark.parametrize("regularization", [0.0, 1e-300, 1e-30, 1e-7])
@pytest.mark.parametrize("line_search", ["exact", "bisection"])
def test_comparison_that_the_direction_does_not_touch(regularization, line_search):
    points = np.array([[0, 0], [1, 0], [2, 0], [0, 1.0], [0, -1.0]])
    comparisons = Comparisons.from_triplets([[0, 1, 2], [0, 3, 4]])
    boosted = learn(points, comparisons, regularization=regularization, line_search=line_search)
    assert np.isfinite(boosted.step_sizes).all()
    assert 0 < boosted.step_sizes[0] < 100


def test_smallest_data_that_are_accepted():
    X, y = blobs(2.0**-511)
    assert_finite_psd(BoostMetric.paper(max_iter=30, regularization=0.0).fit(X, y))


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_float32_far_from_one(scale):
    X, y = blobs(scale)
    metric = BoostMetric.paper(max_iter=10, regularization=0.0).fit(X.astype(np.float32), y)
    assert_finite_psd(metric)
    assert metric.get_mahalanobis_matrix().any()


def test_more_than_512_dimensions():
    rng = np.random.default_rng(0)
    y = np.arange(600) % 2
    X = rng.standard_normal((600, 520))
    X[:, 7] += 3 * y
    metric = BoostMetric.paper(max_iter=4, random_state=0).fit(X, y)
    assert_finite_psd(metric)
    assert np.argmax(np.abs(metric.directions_[0])) == 7
    assert metric.history_[-1].loss < metric.history_[0].loss


def test_constant_features_get_no_weight():
    X, y = blobs()
    X[:, 1] = 7.0
    metric = BoostMetric.paper(max_iter=20).fit(X, y)
    assert_finite_psd(metric)
    assert metric.get_mahalanobis_matrix()[1] == pytest.approx(np.zeros(3), abs=1e-12)


def test_far_from_the_origin():
    X, y = blobs()
    near, far = (BoostMetric.paper(max_iter=20).fit(X + offset, y) for offset in (0.0, 1e6))
    assert far.get_mahalanobis_matrix() == pytest.approx(near.get_mahalanobis_matrix(), rel=1e-5, abs=1e-5)


def test_labels_of_any_kind():
    X, y = blobs()
    for labels in (y.astype(str), y.astype(bool), y.astype(float), np.array(["no", "yes"], dtype=object)[y], y - 5):
        assert BoostMetric.paper(max_iter=3).fit(X, labels).n_iter_ == 3


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.full((4, 2), np.nan), [0, 0, 1, 1], "NaN"),
        (np.full((4, 2), np.inf), [0, 0, 1, 1], "infinity"),
        (np.ones((1, 2)), [0], "1 sample"),
        (np.ones((0, 2)), [], "0 sample"),
        (np.ones((4, 0)), [0, 0, 1, 1], "0 feature"),
        (np.ones(4), [0, 0, 1, 1], "2D array"),
        (np.ones((4, 2, 2)), [0, 0, 1, 1], "dim 3"),
        (np.ones((4, 2)), None, "requires y"),
        (np.ones((4, 2)), [0, 0, 1], "inconsistent"),
        (np.ones((4, 2)), [0, 0, np.nan, 1], "1 of 4 samples have no label"),
        ([["a", "b"]] * 4, [0, 0, 1, 1], "could not convert string to float"),
        (np.ones((4, 2)), [0, 0, 0, 0], "comparisons need at least 2 classes"),
    ],
)
def test_bad_data_are_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        BoostMetric.paper().fit(X, y)


def test_triplets_beyond_the_points_are_refused():
    with pytest.raises(ValueError, match=r"name point 9, but there are only 5 points \(0 to 4\)"):
        learn(np.eye(5), Comparisons.from_triplets([[0, 1, 9]]))


def test_contradictory_comparisons_are_finite():
    rng = np.random.default_rng(0)
    t = np.array([rng.choice(8, 3, replace=False) for _ in range(50)])
    boosted = learn(rng.standard_normal((8, 2)), Comparisons.from_triplets(np.concatenate([t, t[:, [0, 2, 1]]])))
    assert np.isfinite(boosted.step_sizes).all()
    assert boosted.duality_gap >= 0


@settings(max_examples=60)
@given(st.data())
def test_any_array_gives_a_metric_or_a_value_error(data):
    n = data.draw(st.integers(1, 12))
    elements = st.one_of(
        st.floats(allow_nan=True, allow_infinity=True),
        st.floats(-10, 10),
        st.sampled_from([0.0, 1e-310, 1e150, -1e150]),
    )
    X = data.draw(hnp.arrays(np.float64, (n, data.draw(st.integers(1, 4))), elements=elements))
    y = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            metric = BoostMetric.paper(max_iter=10, n_neighbors=data.draw(st.integers(1, 4))).fit(X, y)
        except ValueError:
            return
    assert_finite_psd(metric)


def test_labels_that_are_nearly_all_different_are_doubted():
    with pytest.warns(ParameterWarning, match="more than half as many labels, such as 0, as samples"):
        check_labels(np.concatenate([np.arange(40), np.arange(20)]))
    check_labels(np.repeat(np.arange(30), 2))
