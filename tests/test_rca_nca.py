"""RCA against its formula; NCA against scikit-learn's."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from boostmetric.baselines import NCA, RCA
from boostmetric.baselines.scale import distance_of_neighbors
from boostmetric.evaluation import knn_error
from boostmetric.solver.result import StopReason

X, Y = load_wine(return_X_y=True)
RNG = np.random.default_rng(0)


def covariance_within(X, chunklets):
    """(1 / p) sum over chunklets j and their samples i of (x_ji - m_j)(x_ji - m_j)'."""
    p, total = 0, np.zeros((X.shape[1],) * 2)
    for number in set(chunklets) - {-1}:
        chunklet = X[chunklets == number]
        p += len(chunklet)
        for x in chunklet:
            total += np.outer(x - chunklet.mean(axis=0), x - chunklet.mean(axis=0))
    return total / p


def test_rca_is_its_formula():
    metric = RCA().fit(X, Y)
    inverse = np.linalg.inv(covariance_within(X, Y))
    assert metric.get_mahalanobis_matrix() == pytest.approx(inverse, rel=1e-6, abs=1e-9 * np.abs(inverse).max())
    assert covariance_within(metric.transform(X), Y) == pytest.approx(np.eye(13), abs=1e-9)
    assert metric.rank_ == 13
    assert metric.stop_reason_ is StopReason.CLOSED_FORM


def test_chunklets():
    chunklets = np.full(len(X), -1)
    chunklets[:60] = np.arange(60) // 2
    metric = RCA().fit(X, chunklets=chunklets)
    inverse = np.linalg.inv(covariance_within(X[:60], chunklets[:60]))
    assert metric.get_mahalanobis_matrix() == pytest.approx(inverse, rel=1e-6, abs=1e-9 * np.abs(inverse).max())
    labels = RCA().fit(X, chunklets=Y)
    assert labels.components_.tobytes() == RCA().fit(X, Y).components_.tobytes()


def test_fewer_components_are_the_discriminants():
    ours = RCA(n_components=2).fit(X, Y).components_
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(X, Y).scalings_.T[:2]
    # The same plane, in units of the standard deviations: wine's units differ by factors of thousands.
    scaled = [np.linalg.qr((rows * X.std(axis=0)).T)[0] for rows in (ours, theirs)]
    assert np.linalg.svd(scaled[0].T @ scaled[1], compute_uv=False) == pytest.approx([1, 1], abs=1e-6)
    assert covariance_within(X @ ours.T, Y) == pytest.approx(np.eye(2), abs=1e-9)


@pytest.mark.parametrize(
    ("points", "labels", "rank"),
    [
        pytest.param(RNG.standard_normal((12, 30)), np.arange(12) % 3, 9, id="more features than samples"),
        pytest.param(np.c_[X[:, :3], X[:, :2] @ [1.0, 2.0]], Y, 3, id="a feature that is a sum of others"),
        pytest.param(np.c_[X[:, :3], np.ones(len(X))], Y, 3, id="a constant feature"),
        pytest.param(np.c_[X[:, :3], 5.0 * Y], Y, 3, id="no spread within classes along a feature"),
        pytest.param(np.repeat(RNG.standard_normal((8, 2)), 3, axis=0), np.repeat([0, 1], 12), 2, id="duplicates"),
        pytest.param(RNG.standard_normal((9, 2)), [0, 1, 1, 2, 2, 2, 2, 2, 2], 2, id="a class of one sample"),
    ],
)
def test_rca_of_deficient_rank(points, labels, rank):
    labels = np.array(labels)
    metric = RCA().fit(points, labels)
    assert metric.rank_ == rank
    assert len(metric.components_) <= rank
    several = np.isin(labels, np.flatnonzero(np.bincount(labels) > 1))
    within = covariance_within(metric.transform(points)[several], labels[several])
    assert within == pytest.approx(np.eye(len(metric.components_)), abs=1e-6)


def test_rca_refuses_what_says_nothing():
    with pytest.raises(ValueError, match="samples of each class are equal"):
        RCA().fit(np.repeat(np.eye(3), 2, axis=0), [0, 0, 1, 1, 2, 2])
    with pytest.raises(ValueError, match="No chunklet has two samples"):
        RCA().fit(X, chunklets=np.arange(len(X)))
    with pytest.raises(ValueError, match="one whole number for each of the 178 samples"):
        RCA().fit(X, chunklets=np.arange(3))
    with pytest.raises(ValueError, match="Both y and chunklets are given"):
        RCA().fit(X, Y, chunklets=Y)


def test_nca_is_that_of_scikit_learn_in_units_of_the_neighbors():
    points, labels = load_iris(return_X_y=True)
    unit = distance_of_neighbors(points)
    theirs = NeighborhoodComponentsAnalysis(2, init="identity", max_iter=20, tol=1e-9).fit(points / unit, labels)
    with pytest.warns(match="max_iter=20 was reached"):
        ours = NCA(2, init="identity", max_iter=20, tol=1e-9).fit(points, labels)
    expected = theirs.components_.T @ theirs.components_ / unit**2
    assert ours.get_mahalanobis_matrix() == pytest.approx(expected, rel=1e-6)
    losses = [record.loss for record in ours.history_]
    assert len(losses) == ours.n_iter_ == 20
    assert losses == sorted(losses, reverse=True)
    assert -len(points) <= losses[-1] < losses[0] <= 0


def test_nca_moves_whatever_the_units():
    """scikit-learn's stays where it began in large units, because all its probabilities are 0 or 1."""
    points, labels = load_iris(return_X_y=True)
    stuck = NeighborhoodComponentsAnalysis(init="identity").fit(1e4 * points, labels)
    assert stuck.components_ == pytest.approx(np.eye(4))
    small, large = (NCA(init="identity", max_iter=200).fit(factor * points, labels) for factor in (1.0, 2.0**14))
    assert 2.0**14 * large.components_ == pytest.approx(small.components_, rel=1e-6)
    assert small.history_[-1].loss < small.history_[0].loss
    errors = [knn_error(f(points[::2]), labels[::2], f(points[1::2]), labels[1::2]) for f in (small.transform,)]
    assert errors[0] < 0.06


def test_nca_begins_where_it_is_told():
    points, labels = load_iris(return_X_y=True)
    first = NCA(max_iter=200).fit(points, labels)
    again = NCA(init=first.get_metric()).fit(points, labels)
    assert again.n_iter_ < first.n_iter_
    assert again.history_[-1].loss <= first.history_[-1].loss + 1e-3
    with pytest.raises(ValueError, match="init must be one of"):
        NCA(init="elsewhere").fit(points, labels)
    with pytest.raises(ValueError, match="init has 2 features, but the data have 4"):
        NCA(init=np.eye(2)).fit(points, labels)
    with pytest.raises(ValueError, match="init is the zero metric"):
        NCA(init=np.zeros((1, 4))).fit(points, labels)
    with pytest.raises(ValueError, match=r"init has components of 1e\+150"):
        NCA(init=1e150 * np.eye(4)).fit(points, labels)


def test_nca_minds_neither_an_offset_nor_an_outlier():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((60, 3))
    labels = (points[:, 0] + 0.7 * rng.standard_normal(60) > 0).astype(int)
    plain = NCA(init="identity", max_iter=200).fit(points, labels)
    moved = NCA(init="identity", max_iter=200).fit(points + 1e7, labels)
    assert moved.history_[-1].loss == pytest.approx(plain.history_[-1].loss, rel=0.02)
    points[0] = 1e5
    assert NCA(init="identity", max_iter=200).fit(points, labels).history_[-1].loss < -50


def test_rca_does_not_depend_on_units():
    points = RNG.standard_normal((60, 3))
    labels = np.arange(60) % 2
    plain, stretched = (RCA().fit(points * unit, labels) for unit in (np.ones(3), np.array([1e-7, 1.0, 1e7])))
    unit = np.array([1e-7, 1.0, 1e7])
    pairs = np.stack([points[:5], points[5:10]], axis=1)
    assert stretched.pair_distance(pairs * unit) == pytest.approx(plain.pair_distance(pairs), rel=1e-6)
