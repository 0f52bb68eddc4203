"""What metric-learn's README and first pages do, done here; and what docs/migration.md says of its classes and names.

Matrices and triplets that are written out are those of metric-learn 0.7.0 (with scikit-learn 1.5.2).
"""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, Points
from boostmetric.baselines import LMNN, MMC, NCA, RCA

PAGE = (Path(__file__).parents[1] / "docs" / "migration.md").read_text(encoding="utf-8")

# All that `metric_learn` exports; and the public methods of its learners and of `Constraints`.
NAMES = re.findall(
    r"\w+",
    """
    Constraints Covariance ITML ITML_Supervised LMNN LSML LSML_Supervised SDML SDML_Supervised NCA LFDA RCA
    RCA_Supervised MLKR MMC MMC_Supervised SCML SCML_Supervised
    fit transform fit_transform get_mahalanobis_matrix get_metric pair_distance pair_score score_pairs predict
    decision_function score set_threshold calibrate_threshold positive_negative_pairs generate_knntriplets chunks
    """,
)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def pairs(iris):
    """Pairs of row numbers, and 1 for those of one class, else -1."""
    rng = np.random.default_rng(0)
    rows = np.array([rng.permutation(150)[:2] for _ in range(400)])
    same = iris[1][rows[:, 0]] == iris[1][rows[:, 1]]
    return rows, np.where(same, 1, -1)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_on_the_page(name):
    assert re.search(rf"`[^`]*\b{name}\b[^`]*`", PAGE)


def test_quick_start(iris):
    """A classifier of nearest neighbours behind each supervised learner, cross-validated."""
    for learner in (NCA(max_iter=200), LMNN(), RCA(), MMC(), BoostMetric.paper()):
        scores = cross_val_score(make_pipeline(learner, KNeighborsClassifier()), *iris)
        assert len(scores) == 5
        assert scores.mean() > 0.9


def test_a_fitted_learner_maps_and_measures(iris):
    X, y = iris
    metric = LMNN().fit(X, y)
    mapped = metric.transform(X)
    distance = np.linalg.norm(mapped[0] - mapped[100])
    matrix = metric.get_mahalanobis_matrix()
    np.testing.assert_allclose(metric.components_.T @ metric.components_, matrix)
    np.testing.assert_allclose(metric.pair_distance([[X[0], X[100]]]), [distance])
    np.testing.assert_allclose(metric.get_metric()(X[0], X[100]), distance)
    np.testing.assert_allclose((X[0] - X[100]) @ matrix @ (X[0] - X[100]), distance**2)
    by_function = KNeighborsClassifier(3, metric=metric.get_metric()).fit(X, y)
    by_map = KNeighborsClassifier(3).fit(mapped, y)
    np.testing.assert_allclose(by_function.kneighbors(X)[0], by_map.kneighbors(mapped)[0], atol=1e-6)


def test_pairs_of_points_or_of_row_numbers(iris, pairs):
    X, _ = iris
    rows, y = pairs
    by_point = ComparisonBoostMetric(max_iter=20).fit(X[rows], y)
    by_number = ComparisonBoostMetric(max_iter=20).fit(rows, y, points=X)
    np.testing.assert_allclose(
        by_point.get_mahalanobis_matrix(), by_number.get_mahalanobis_matrix(), rtol=1e-6, atol=1e-9
    )
    assert by_point.predict(X[rows]).tolist() == by_number.predict(rows).tolist()


def test_pairs_predicted_scored_and_cross_validated(iris, pairs):
    X, _ = iris
    rows, y = pairs
    train, test, y_train, y_test = train_test_split(rows, y, random_state=0)
    metric = ComparisonBoostMetric().fit(train, y_train, points=X)
    distance = metric.pair_distance(X[test])
    assert metric.score(test, y_test) == pytest.approx(roc_auc_score(y_test, -distance))
    assert roc_auc_score(y_test, metric.decision_function(test)) == pytest.approx(roc_auc_score(y_test, -distance))
    assert metric.predict(test).tolist() == np.where(distance < np.sqrt(metric.threshold_), 1, -1).tolist()
    assert accuracy_score(y_test, metric.predict(test)) > 0.85
    metric.threshold_ = 0.4**2  # set_threshold(0.4)
    assert metric.predict(test).tolist() == np.where(distance < 0.4, 1, -1).tolist()
    assert cross_val_score(ComparisonBoostMetric(), X[rows], y).mean() > 0.9
    assert cross_val_score(ComparisonBoostMetric(), rows, y, params={"points": Points(X)}).mean() > 0.9


@pytest.mark.parametrize("size", [3, 4])
def test_triplets_and_quadruplets(size):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3))
    tuples = np.array([rng.permutation(100)[:size] for _ in range(600)])
    far = tuples[:, [0, 2]] if size == 3 else tuples[:, 2:]
    apart = [abs(X[some[:, 0], 0] - X[some[:, 1], 0]) for some in (tuples[:, :2], far)]
    tuples = tuples[apart[0] < apart[1]]
    metric = ComparisonBoostMetric().fit(X[tuples[:200]])
    new = X[tuples[200:]]
    assert metric.score(new) > 0.95
    assert metric.score(new) == np.mean(metric.predict(new) == 1)
    second = new[:, [0, 2]] if size == 3 else new[:, 2:]
    margin = metric.pair_distance(second) - metric.pair_distance(new[:, :2])
    np.testing.assert_array_equal(np.sign(metric.decision_function(new)), np.sign(margin))


def test_a_tie_is_not_satisfied():
    metric = ComparisonBoostMetric().fit([[[0.0], [1.0], [3.0]]])
    assert metric.predict([[[0.0], [1.0], [-1.0]]]).tolist() == [-1]


def test_rca_of_chunks_is_theirs(iris):
    X, y = iris
    chunks = np.where(np.arange(150) % 5 == 4, -1, y)
    theirs = [
        [11.68111979, -5.24300888, -10.19085821, 3.49300231],
        [-5.24300888, 13.09546943, 2.92819105, -8.17347206],
        [-10.19085821, 2.92819105, 16.06313388, -10.53275026],
        [3.49300231, -8.17347206, -10.53275026, 43.24482175],
    ]
    np.testing.assert_allclose(RCA().fit(X, chunklets=chunks).get_mahalanobis_matrix(), theirs, atol=1e-7)


def test_covariance_is_pca_whitened(iris):
    X, _ = iris
    theirs = np.array(
        [
            [10.31469875, -6.71318923, -7.31448253, 5.739951],
            [-6.71318923, 11.05841725, 6.48058913, -6.17093237],
            [-7.31448253, 6.48058913, 10.03167858, -14.5137665],
            [5.739951, -6.17093237, -14.5137665, 27.69363502],
        ]
    )
    pca = PCA(whiten=True).fit(X)
    rows = pca.components_ / np.sqrt(pca.explained_variance_)[:, None]
    np.testing.assert_allclose(rows.T @ rows, theirs, atol=1e-6)
    one_chunk = RCA().fit(X, chunklets=np.zeros(150, dtype=int)).get_mahalanobis_matrix()
    np.testing.assert_allclose(one_chunk * 149 / 150, theirs, atol=1e-6)


def test_triplets_of_labels_are_theirs(iris):
    X, y = iris[0][::10], iris[1][::10]
    nearest = [[4, 6, 8], [2, 6, 8], [1, 6, 8], [0, 6, 8], [0, 6, 8], [7, 11, 12], [8, 3, 2], [9, 11, 14], [9, 11, 2]]
    nearest += [[8, 11, 14], [14, 7, 5], [14, 7, 5], [14, 5, 7], [12, 5, 7], [12, 7, 5]]  # genuine, impostors
    theirs = {(i, genuine, k) for i, (genuine, *impostors) in enumerate(nearest) for k in impostors}
    ours = Comparisons.from_labels(X, y, n_neighbors=1, n_impostors=2)
    assert ours.n_comparisons == len(theirs) == 30
    assert set(ours.quadruplets()) == {(*sorted((i, j)), *sorted((i, k))) for i, j, k in theirs}


def test_a_label_of_minus_one_is_a_class(iris):
    X, y = iris
    partial = np.where(np.arange(150) % 2, -1, y)
    known = partial >= 0
    assert not np.allclose(
        RCA().fit(X, partial).get_mahalanobis_matrix(), RCA().fit(X[known], y[known]).get_mahalanobis_matrix()
    )
    np.testing.assert_allclose(
        RCA().fit(X, chunklets=partial).get_mahalanobis_matrix(),
        RCA().fit(X[known], y[known]).get_mahalanobis_matrix(),
        rtol=1e-6,
    )


def test_lmnn_takes_fewer_targets_where_a_class_is_small(iris):
    X, y = np.vstack([iris[0], iris[0][:2] + 0.1]), np.append(iris[1], [7, 7])
    with pytest.warns(UserWarning, match="class 7 has 2"):
        LMNN().fit(X, y)
