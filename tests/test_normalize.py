"""Unit length after the learned map (`normalize`): distances, estimators, scores, and what learning makes of it."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, MahalanobisMetric
from boostmetric.arrays.tensors import unit_vectors
from boostmetric.baselines import RCA
from boostmetric.evaluation import ComparisonTask, LabelTask, compare, keep_better, scores_by_rank
from boostmetric.mining import mine_from_labels

X, Y = load_wine(return_X_y=True)
RNG = np.random.default_rng(0)
METRIC = MahalanobisMetric(RNG.standard_normal((3, 13)) / X.std(axis=0), normalize=True)
PLAIN = MahalanobisMetric(METRIC.components)
QUICK = {"max_iter": 10, "random_state": 0}
TRIPLETS = np.array([[i, (i + 1) % 59, 60 + i] for i in range(59)])


def to_unit_length(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


# the metric


def test_transform_has_unit_length_and_distances_are_those_of_cosine():
    Z = METRIC.transform(X)
    assert np.linalg.norm(Z, axis=1) == pytest.approx(np.ones(len(X)))
    assert pytest.approx(to_unit_length(PLAIN.transform(X))) == Z
    expected = np.sqrt(2 * cdist(PLAIN.transform(X[:20]), PLAIN.transform(X), "cosine").clip(0))
    distance = METRIC.distance(X[:20, None], X[None])
    assert distance == pytest.approx(expected, abs=1e-7)
    assert distance == pytest.approx(cdist(Z[:20], Z), abs=1e-12)
    assert METRIC(X[0], X[1]) == METRIC.distance(X[0], X[1])
    assert METRIC.distance(X, X).tolist() == [0.0] * len(X)


def test_other_inputs_are_mapped_alike():
    Z = METRIC.transform(X)
    assert METRIC.transform(sparse.csr_array(X)) == pytest.approx(Z)
    assert METRIC.distance(sparse.csr_array(X[:5]), X[5:10]) == pytest.approx(METRIC.distance(X[:5], X[5:10]))
    assert METRIC.transform(X[0]) == pytest.approx(Z[0])
    assert METRIC.transform(X.reshape(2, 89, 13)) == pytest.approx(Z.reshape(2, 89, 3))
    with pytest.raises(ValueError, match=r"shapes \(3, 13\) and \(2, 13\) cannot be paired"):
        METRIC.distance(X[:3], X[:2])


def test_zeros_stay_zeros():
    metric = MahalanobisMetric([[1.0, 0.0]], normalize=True)
    assert metric.transform([[0.0, 3.0], [0.0, 0.0], [-2.0, 1.0]]).tolist() == [[0.0], [0.0], [-1.0]]
    assert metric.distance([0.0, 1.0], [[0.0, 5.0], [4.0, 0.0]]).tolist() == [0.0, 1.0]


@given(st.integers(-320, 307), st.integers(0, 2**32 - 1))
def test_neither_large_nor_small_vectors_lose_their_direction(exponent, seed):
    row = np.random.default_rng(seed).integers(1, 9, size=4).astype(float)
    scaled = row * 10.0**exponent
    if exponent > -300:
        assert unit_vectors(scaled) == pytest.approx(to_unit_length(row))
    assert np.linalg.norm(unit_vectors(scaled)) == pytest.approx(1)


def test_points_that_are_not_finite_are_refused():
    for wrong in (np.nan, np.inf, 1e308):
        with pytest.raises(ValueError, match="Row 1 of the points is NaN or infinite, or overflows"):
            MahalanobisMetric(1e10 * np.eye(2), normalize=True).transform([[1.0, 1.0], [wrong, 1.0]])


def test_the_matrix_is_that_of_the_linear_map_and_truncation_keeps_the_unit_length():
    assert np.array_equal(METRIC.matrix, PLAIN.matrix)
    assert np.array_equal(METRIC.eigenvalues, PLAIN.eigenvalues)
    short = METRIC.truncate(2)
    assert short.normalize
    assert short.transform(X) == pytest.approx(to_unit_length(PLAIN.truncate(2).transform(X)))
    assert repr(short) == "MahalanobisMetric(n_components=2, n_features=13, normalize=True)"


def test_metrics_pickled_before_the_option_load():
    state = {name: value for name, value in vars(PLAIN).items() if name != "normalize"}
    old = MahalanobisMetric.__new__(MahalanobisMetric)
    old.__dict__.update(state)
    assert not old.normalize
    assert np.array_equal(old.transform(X), PLAIN.transform(X))
    assert pickle.loads(pickle.dumps(METRIC)).normalize


@pytest.mark.parametrize("wrong", ["yes", 1, None])
def test_the_flag_is_checked(wrong):
    with pytest.raises(ValueError, match=rf"normalize must be True or False\. Got {wrong!r}"):
        MahalanobisMetric([[1.0]], normalize=wrong)
    for learner in (BoostMetric.paper(normalize=wrong), ComparisonBoostMetric(normalize=wrong)):
        with pytest.raises(ValueError, match=rf'normalize must be True or False or "auto"\. Got {wrong!r}'):
            learner.check_parameters()


def test_a_metric_is_of_unit_length_or_not():
    with pytest.raises(ValueError, match=r"normalize must be True or False\. Got 'auto'"):
        MahalanobisMetric([[1.0]], normalize="auto")


# estimators


def test_an_estimator_learns_the_same_and_transforms_to_unit_length():
    plain, unit = (BoostMetric.paper(normalize=flag, **QUICK).fit(X, Y) for flag in (False, np.True_))
    assert (plain.normalize_, unit.normalize_) == (False, True)
    assert np.array_equal(plain.components_, unit.components_)
    expected = to_unit_length(plain.transform(X))
    assert unit.transform(X) == pytest.approx(expected)
    assert unit.fit_transform(X, Y) == pytest.approx(expected)
    assert unit.transform(X.astype(np.float32)).dtype == np.float32
    assert unit.get_metric().normalize
    assert unit.get_metric().transform(X) == pytest.approx(expected)
    pairs = np.stack([X[:5], X[5:10]], axis=1)
    assert unit.pair_distance(pairs) == pytest.approx(np.linalg.norm(expected[:5] - expected[5:10], axis=1))
    assert np.array_equal(unit.get_mahalanobis_matrix(), plain.get_mahalanobis_matrix())
    for one, other in zip(unit.staged_transform(X), plain.staged_transform(X), strict=True):
        assert one == pytest.approx(to_unit_length(other))


def test_neighbours_are_those_of_cosine():
    unit = BoostMetric.paper(normalize=True, **QUICK).fit(X[::2], Y[::2])
    mapped = X @ unit.components_.T
    by_cosine = KNeighborsClassifier(3, metric="cosine").fit(mapped[::2], Y[::2]).predict(mapped[1::2])
    by_map = KNeighborsClassifier(3).fit(unit.transform(X[::2]), Y[::2]).predict(unit.transform(X[1::2]))
    assert np.array_equal(by_cosine, by_map)


def test_the_fit_decides_and_not_a_parameter_set_later():
    unit = BoostMetric.paper(normalize=True, **QUICK).fit(X, Y)
    before = unit.transform(X)
    assert np.array_equal(unit.set_params(normalize=False).transform(X), before)
    assert not unit.fit(X, Y).normalize_
    assert clone(BoostMetric.paper(normalize=True)).normalize
    assert pickle.loads(pickle.dumps(BoostMetric.paper(normalize=True, **QUICK).fit(X, Y))).normalize_


def test_streams_and_other_learners():
    assert BoostMetric.paper(normalize=True).partial_fit(X, Y).normalize_
    assert not RCA().fit(X, Y).get_metric().normalize


def test_a_metric_of_unit_length_may_be_the_start():
    by_metric, by_array = (BoostMetric.paper(init=init, **QUICK).fit(X, Y) for init in (METRIC, METRIC.components))
    assert np.array_equal(by_metric.components_, by_array.components_)


@pytest.mark.parametrize("normalize", [False, True])
def test_comparisons_are_scored_by_what_transform_returns(normalize):
    learner = ComparisonBoostMetric(normalize=normalize, **QUICK).fit(TRIPLETS, points=X)
    Z = learner.transform(X)
    near, far = (np.square(Z[TRIPLETS[:, 0]] - Z[TRIPLETS[:, column]]).sum(axis=1) for column in (1, 2))
    assert learner.decision_function(TRIPLETS) == pytest.approx(far - near, abs=1e-12)
    assert learner.score(TRIPLETS) == (near < far).mean()
    weights = RNG.uniform(1, 2, len(TRIPLETS))
    weighted = Comparisons.from_triplets(TRIPLETS, weights, grouped=False)
    assert learner.score(weighted) == pytest.approx(weights[near < far].sum() / weights.sum())
    task = ComparisonTask.of(TRIPLETS, X)
    assert compare(learner, task).rows[0].learned == pytest.approx((near < far).mean())


def test_pairs_have_a_threshold_between_unit_vectors():
    pairs, y = TRIPLETS[:, :2], np.where(np.arange(59) % 2, 1, -1)
    learner = ComparisonBoostMetric(normalize=True, **QUICK).fit(pairs, y, points=X)
    Z = learner.transform(X)
    squared = np.square(Z[pairs[:, 0]] - Z[pairs[:, 1]]).sum(axis=1)
    assert learner.decision_function(pairs) == pytest.approx(learner.threshold_ - squared)
    right = [(np.where(squared < cut, 1, -1) == y).mean() for cut in (learner.threshold_, *squared, 5.0)]
    assert right[0] == max(right)


# evaluation and mining


def test_scores_by_rank_are_those_of_truncated_metrics():
    task = LabelTask.of(X[1::2], Y[1::2], reference=(X[::2], Y[::2]))
    for rank, score in scores_by_rank(METRIC, task):
        result = compare(METRIC.truncate(rank), task)
        assert score == result[result.headline].learned


def test_the_base_that_is_kept_is_the_euclidean_distance():
    task = LabelTask.of(X[1::2], Y[1::2], reference=(X[::2], Y[::2]))
    kept = keep_better(MahalanobisMetric(np.zeros((1, 13)), normalize=True), task)
    assert kept.is_base
    assert not kept.metric.normalize


def test_hard_negatives_are_near_at_unit_length():
    mined = mine_from_labels(X, Y, metric=METRIC, n_negatives=1, random_state=0)
    expected = mine_from_labels(METRIC.transform(X), Y, n_negatives=1, random_state=0)
    assert np.array_equal(mined.triplets, expected.triplets)
