"""ComparisonBoostMetric: comparisons as samples, points beside them."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, Points
from boostmetric.solver.result import StopReason

RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((200, 4))
N = len(POINTS)


def by_first_feature(rows, columns):
    """Distance of two columns of the rows along the first feature, which is what the answers go by."""
    a, b = columns
    return np.abs(POINTS[rows[:, a], 0] - POINTS[rows[:, b], 0])


def make_triplets(n, seed=0):
    t = np.array([np.random.default_rng((seed, i)).choice(N, 3, replace=False) for i in range(n)])
    swap = by_first_feature(t, (0, 1)) > by_first_feature(t, (0, 2))
    t[swap] = t[swap][:, [0, 2, 1]]
    return t


TRIPLETS = make_triplets(N)  # as many as points
QUADRUPLETS = TRIPLETS[:, [0, 1, 2, 0]]
PAIRS = np.unique(np.sort(make_triplets(300, seed=1)[:, :2]), axis=0)
SIGNS = np.where(by_first_feature(PAIRS, (0, 1)) < 0.7, 1, -1)


@pytest.fixture(scope="module")
def fitted():
    return ComparisonBoostMetric(max_iter=20).fit(TRIPLETS, points=POINTS)


@pytest.mark.parametrize(
    ("comparisons", "y"),
    [
        (TRIPLETS, None),
        (TRIPLETS.tolist(), None),
        (QUADRUPLETS, None),
        (PAIRS, SIGNS),
        (Comparisons.from_triplets(TRIPLETS), None),
        (Comparisons.from_pairs(PAIRS[SIGNS == 1], PAIRS[SIGNS == -1]), None),
    ],
    ids=["triplets", "lists", "quadruplets", "pairs", "Comparisons", "Comparisons of pairs"],
)
def test_every_form_of_comparison(comparisons, y):
    metric = ComparisonBoostMetric(max_iter=20).fit(comparisons, y, points=POINTS)
    assert metric.score(comparisons, y) > 0.95
    assert metric.score(make_triplets(500, seed=2)) > 0.9
    assert np.argmax(np.diag(metric.get_mahalanobis_matrix())) == 0


@pytest.mark.parametrize(("rows", "y"), [(TRIPLETS, None), (QUADRUPLETS, None), (PAIRS, SIGNS)])
def test_tuples_of_points_are_the_same_as_numbers(rows, y):
    by_number = ComparisonBoostMetric(max_iter=10).fit(rows, y, points=POINTS)
    by_point = ComparisonBoostMetric(max_iter=10).fit(POINTS[rows], y)
    expected = by_number.get_mahalanobis_matrix()
    assert np.abs(by_point.get_mahalanobis_matrix() - expected).max() < 1e-9 * np.abs(expected).max()
    assert by_point.score(POINTS[rows], y) == by_number.score(rows, y)
    assert by_point.predict(POINTS[rows]).tolist() == by_number.predict(rows).tolist()


def test_decision_is_far_minus_near(fitted):
    M = fitted.get_mahalanobis_matrix()

    def d(a, b):
        return np.einsum("ni,ij,nj->n", POINTS[a] - POINTS[b], M, POINTS[a] - POINTS[b])

    i, j, k = TRIPLETS.T
    expected = d(i, k) - d(i, j)
    assert fitted.decision_function(TRIPLETS) == pytest.approx(expected, rel=1e-6)
    assert fitted.decision_function(QUADRUPLETS) == pytest.approx(expected, rel=1e-6)
    assert fitted.predict(TRIPLETS).tolist() == np.where(expected > 0, 1, -1).tolist()
    assert fitted.score(TRIPLETS) == np.mean(expected > 0)
    c = Comparisons.from_groups([[1, 2], [3]], [[4], [5, 6]], anchors=[0, 7])
    margins = fitted.decision_function(c)
    assert len(margins) == c.n_comparisons
    assert margins == pytest.approx(fitted.decision_function(np.array(list(c.quadruplets()))))
    assert fitted.score(c) == np.mean(margins > 0)


def test_pairs_are_told_apart_by_a_threshold():
    metric = ComparisonBoostMetric(max_iter=20).fit(PAIRS, SIGNS, points=POINTS)
    decision = metric.decision_function(PAIRS)
    assert np.mean(metric.predict(PAIRS) == SIGNS) > 0.95
    distance = metric.pair_distance(POINTS[PAIRS]) ** 2
    assert decision == pytest.approx(metric.threshold_ - distance)
    accuracies = [np.mean(np.where(distance < t, 1, -1) == SIGNS) for t in np.append(distance, np.inf)]
    assert np.mean(metric.predict(PAIRS) == SIGNS) >= max(accuracies)
    metric.fit(TRIPLETS, points=POINTS)
    with pytest.raises(ValueError, match="not fitted to pairs"):
        metric.predict(PAIRS)


def test_other_points_may_be_given_to_score(fitted):
    assert fitted.score(TRIPLETS[:, [0, 2, 1]]) == pytest.approx(1 - fitted.score(TRIPLETS))
    mirrored = POINTS * [-1, 1, 1, 1]
    assert fitted.score(TRIPLETS, points=mirrored) == pytest.approx(fitted.score(TRIPLETS), abs=0.05)
    assert fitted.score(TRIPLETS[:5], points=sparse.csr_array(POINTS)) == fitted.score(TRIPLETS[:5])


def manual_scores(estimator, triplets, n_folds=5):
    """Cross-validation by hand: folds of comparisons, all points."""
    folds = np.array_split(np.arange(len(triplets)), n_folds)
    for fold in folds:
        train = np.setdiff1d(np.arange(len(triplets)), fold)
        yield clone(estimator).fit(triplets[train], points=Points(POINTS)).score(triplets[fold])


@pytest.mark.parametrize("n", [N, 150, 300])
def test_cross_validation_never_cuts_the_points(n):
    triplets = make_triplets(n, seed=3)
    estimator = ComparisonBoostMetric(max_iter=10)
    expected = list(manual_scores(estimator, triplets))
    scores = cross_val_score(estimator, triplets, cv=5, params={"points": Points(POINTS)})
    assert scores.tolist() == expected
    if n != N:  # an array of another length is not cut either
        assert cross_val_score(estimator, triplets, cv=5, params={"points": POINTS}).tolist() == expected


def test_points_that_may_have_been_cut_are_refused():
    with pytest.raises(ValueError, match=r"160 points and as many comparisons.*Pass points=Points\(X\)"):
        cross_val_score(ComparisonBoostMetric(), TRIPLETS, params={"points": POINTS})
    with pytest.raises(ValueError, match=r"Pass points=Points\(X\)"):
        GridSearchCV(ComparisonBoostMetric(), {"max_iter": [1, 2]}).fit(TRIPLETS, points=POINTS)
    # Also where the numbers would all be in range.
    low = np.array([np.random.default_rng(i).choice(100, 3, replace=False) for i in range(N)])
    with pytest.raises(ValueError, match=r"Pass points=Points\(X\)"):
        cross_val_score(ComparisonBoostMetric(), low, params={"points": POINTS})
    assert ComparisonBoostMetric(max_iter=1).fit(TRIPLETS, points=POINTS).n_iter_ == 1  # a fit by hand is trusted


def test_grid_search_over_comparisons():
    search = GridSearchCV(ComparisonBoostMetric(), {"max_iter": [1, 20], "n_components": [1, None]}, n_jobs=2)
    search.fit(TRIPLETS, points=Points(POINTS))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ > 0.9
    assert search.score(make_triplets(200, seed=4)) > 0.9


def test_groups_can_be_cross_validated():
    X = POINTS
    y = np.where(X[:, 0] > 0, "a", "b")
    c = Comparisons.from_labels(X, y)
    cv = cross_validate(
        ComparisonBoostMetric(max_iter=5), c, groups=c.anchors, cv=GroupKFold(4), params={"points": Points(X)}
    )
    assert cv["test_score"].min() > 0.5


def test_cross_validation_of_pairs_is_stratified():
    few = np.concatenate([np.flatnonzero(SIGNS == -1)[:40], np.flatnonzero(SIGNS == 1)[:5]])
    scores = cross_val_score(
        ComparisonBoostMetric(max_iter=5),
        PAIRS[few],
        SIGNS[few],
        params={"points": Points(POINTS)},
        error_score="raise",
    )
    assert np.isfinite(scores).all()
    for scoring in ("roc_auc", "accuracy"):
        scores = cross_val_score(ComparisonBoostMetric(max_iter=5), POINTS[PAIRS], SIGNS, scoring=scoring)
        assert scores.min() > 0.7


def test_same_as_boost_metric_from_the_same_comparisons():
    y = np.where(POINTS[:, 0] > 0, 1, 0)
    by_labels = BoostMetric.paper(max_iter=10).fit(POINTS, y)
    by_comparisons = ComparisonBoostMetric(max_iter=10).fit(Comparisons.from_labels(POINTS, y), points=POINTS)
    assert by_labels.components_.tobytes() == by_comparisons.components_.tobytes()


def test_row_weights_enter():
    weights = np.random.default_rng(0).integers(0, 3, N)
    a = ComparisonBoostMetric(max_iter=10).fit(TRIPLETS, points=POINTS, sample_weight=weights)
    b = ComparisonBoostMetric(max_iter=10).fit(np.repeat(TRIPLETS, weights, axis=0), points=POINTS)
    assert a.components_.tobytes() == b.components_.tobytes()
    c = Comparisons.from_triplets(TRIPLETS)
    double = ComparisonBoostMetric(max_iter=10).fit(c, points=POINTS, sample_weight=np.full(len(c), 2.0))
    once = ComparisonBoostMetric(max_iter=10).fit(c, points=POINTS)
    assert np.allclose(double.components_, once.components_, rtol=1e-9)


def test_clone_pickle_and_parameters(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.transform(POINTS).tobytes() == fitted.transform(POINTS).tobytes()
    assert len(pickle.dumps(fitted)) < POINTS.nbytes + 12000  # the points are not in it
    assert copy.score(TRIPLETS, points=POINTS) == fitted.score(TRIPLETS)
    with pytest.raises(ValueError, match=r"points are missing.*A copy, a loaded model"):
        copy.score(TRIPLETS)
    assert clone(fitted).get_params() == fitted.get_params()
    assert set(BoostMetric.paper().get_params()) - set(fitted.get_params()) == {
        "n_neighbors",
        "n_impostors",
        "unlabelled",
    }
    with pytest.raises(NotFittedError):
        clone(fitted).score(TRIPLETS, points=POINTS)
    with pytest.raises(NotFittedError):
        clone(fitted).predict(TRIPLETS, points=POINTS)


def test_feature_names_come_from_the_points():
    import pandas as pd

    frame = pd.DataFrame(POINTS, columns=list("abcd"))
    metric = ComparisonBoostMetric(max_iter=2, n_components=1).fit(TRIPLETS, points=frame)
    assert metric.feature_names_in_.tolist() == list("abcd")
    assert metric.set_output(transform="pandas").transform(frame).shape == (N, 1)
    assert metric.score(TRIPLETS) == metric.score(TRIPLETS, points=frame)


def test_early_stopping_on_comparisons():
    noisy = make_triplets(400, seed=5)
    flip = np.random.default_rng(0).random(400) < 0.2
    noisy[flip] = noisy[flip][:, [0, 2, 1]]
    metric = ComparisonBoostMetric(early_stopping=True, n_iter_no_change=5, random_state=0).fit(noisy, points=POINTS)
    assert metric.stop_reason_ is StopReason.HELD_OUT
    given = ComparisonBoostMetric(n_iter_no_change=5).fit(noisy, points=POINTS, eval_set=make_triplets(300, seed=6))
    assert given.stop_reason_ is StopReason.HELD_OUT
    assert given.history_[-1].held_out == pytest.approx(given.score(make_triplets(300, seed=6)))
    pairs = ComparisonBoostMetric().fit(PAIRS, SIGNS, points=POINTS, eval_set=(PAIRS[::3], SIGNS[::3]))
    assert pairs.history_[-1].held_out > 0.9


@pytest.mark.parametrize(
    ("comparisons", "arguments", "message"),
    [
        (TRIPLETS, {}, "points are missing: pass points=X"),
        (TRIPLETS, {"points": POINTS[:50]}, r"name point \d+, but there are only 50 points \(0 to 49\)"),
        (TRIPLETS, {"points": POINTS, "y": SIGNS}, "y says which pairs are similar"),
        (PAIRS, {"points": POINTS}, r"Rows \(i, j\) need y"),
        (PAIRS, {"points": POINTS, "y": np.ones(len(PAIRS))}, "No pair is dissimilar: all of y is 1"),
        (PAIRS, {"points": POINTS, "y": np.zeros(len(PAIRS))}, "1 for similar and -1 for dissimilar pairs. Got 0"),
        (PAIRS, {"points": POINTS, "y": [1, -1]}, "one sign for each of the"),
        (PAIRS, {"points": POINTS, "y": SIGNS, "sample_weight": SIGNS}, "Pairs cannot be weighted individually"),
        (np.zeros((5, 5), int), {"points": POINTS}, r"Got shape \(5, 5\)"),
        (np.zeros((0, 3), int), {"points": POINTS}, "comparisons are empty"),
        (POINTS[[[0, 1, 2, 3, 4]]], {}, r"Got shape \(1, 5, 4\)"),
        (TRIPLETS, {"points": POINTS[:, 0]}, "Expected 2D array"),
        (TRIPLETS, {"points": np.full_like(POINTS, np.nan)}, "NaN"),
        (POINTS[TRIPLETS][:, :, :0], {}, "comparisons are empty"),
        (TRIPLETS, {"points": POINTS, "sample_weight": np.zeros(N)}, "all zero"),
        (TRIPLETS, {"points": POINTS, "sample_weight": np.full(N, -1.0)}, "at least 0"),
    ],
)
def test_bad_input_is_named(comparisons, arguments, message):
    with pytest.raises(ValueError, match=message):
        ComparisonBoostMetric(max_iter=2).fit(comparisons, **arguments)


def test_points_with_other_features_than_at_fit(fitted):
    message = "points have 3 features, but the metric was learned with 4. Give the points in the same features"
    for call in (fitted.score, fitted.predict, fitted.decision_function):
        with pytest.raises(ValueError, match=message):
            call(TRIPLETS, points=POINTS[:, :3])
    with pytest.raises(ValueError, match=message):
        ComparisonBoostMetric(max_iter=2, warm_start=True).fit(TRIPLETS, points=POINTS).fit(
            TRIPLETS, points=POINTS[:, :3]
        )
    with pytest.raises(ValueError, match="X has 3 features, but ComparisonBoostMetric is expecting 4"):
        fitted.transform(POINTS[:, :3])


def test_fit_transform_maps_the_points():
    metric = ComparisonBoostMetric(max_iter=5)
    mapped = metric.fit_transform(TRIPLETS, points=Points(POINTS))
    assert mapped.tobytes() == metric.transform(POINTS).tobytes()
    with pytest.raises(ValueError, match="fit_transform maps `points`"):
        metric.fit_transform(POINTS[TRIPLETS])


def test_batches_forget_points_and_renew_the_threshold():
    metric = ComparisonBoostMetric(max_iter=20).fit(PAIRS, SIGNS, points=POINTS)
    before = metric.threshold_
    metric.partial_fit(PAIRS[::2], SIGNS[::2], points=POINTS)
    assert metric.threshold_ != before
    assert np.mean(metric.predict(PAIRS, points=POINTS) == SIGNS) > 0.95
    with pytest.raises(ValueError, match=r"points are missing.*learned from batches"):
        metric.score(TRIPLETS)
    metric.partial_fit(TRIPLETS, points=POINTS)
    assert not hasattr(metric, "threshold_")


def test_scoring_callbacks_of_scikit_learn():
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from version 1.9")
    for comparisons, arguments in ((PAIRS, {"points": POINTS}), (POINTS[PAIRS], {})):
        monitor = callback.ScoringMonitor(scoring="accuracy")
        metric = ComparisonBoostMetric(max_iter=3).set_callbacks(monitor)
        metric.fit(comparisons, SIGNS, **arguments)
        assert metric.n_iter_ == 3


@pytest.mark.parametrize(
    ("comparisons", "arguments", "message"),
    [
        (TRIPLETS, {"points": POINTS, "eval_set": ([0, 1, 2], [3, 4, 5], [6, 7, 8])}, None),
        (TRIPLETS, {"points": POINTS, "eval_set": ([0, 1, 2], [3, 4, 5])}, None),
        (POINTS[TRIPLETS], {"eval_set": TRIPLETS}, "eval_set names points by number"),
        (POINTS[TRIPLETS], {"points": POINTS}, "points are given beside tuples of points"),
        (POINTS[[[0, 1, 2], [3, 4, 4]]], {}, r"comparisons\[1\] compares equal points.*\(1 of 2 rows\). Remove"),
        (Comparisons.from_triplets(TRIPLETS)[:0], {"points": POINTS}, "There are no comparisons"),
        ([[0, 1, 2], [3, 4]], {"points": POINTS}, "comparisons must be an array; its rows have different lengths"),
        (([[0, 1, 2], [3, 4]], [5, 6]), {}, "comparisons must be an array; its rows have different lengths"),
        (
            TRIPLETS,
            {"points": POINTS, "eval_set": ([[0, 1, 2], [3, 4]], [1, 1])},
            "comparisons must be an array; its rows have different lengths",
        ),
    ],
)
def test_unusual_forms(comparisons, arguments, message):
    if message is None:
        assert ComparisonBoostMetric(max_iter=2).fit(comparisons, **arguments).history_[0].held_out is not None
        return
    with pytest.raises(ValueError, match=message):
        ComparisonBoostMetric(max_iter=2).fit(comparisons, **arguments)


def test_one_tuple_can_be_predicted():
    metric = ComparisonBoostMetric(max_iter=2).fit(POINTS[TRIPLETS])
    assert metric.predict(POINTS[TRIPLETS[:1]]).shape == (1,)
    assert metric.decision_function(POINTS[[[0, 1, 1]]]).tolist() == [0.0]


def test_pairs_are_scored_with_their_signs():
    metric = ComparisonBoostMetric(max_iter=5).fit(PAIRS, SIGNS, points=POINTS)
    with pytest.raises(ValueError, match=r"Rows \(i, j\) need y"):
        metric.score(PAIRS)


def test_numbers_beyond_the_points_at_prediction(fitted):
    with pytest.raises(ValueError, match=r"name point 200, but there are only 200 points"):
        fitted.predict([[0, 1, 200]])
    with pytest.raises(ValueError, match=r"name point 200, but there are only 200 points"):
        fitted.score([[0, 1, 200]])
    with pytest.raises(TypeError, match="integer point numbers"):
        fitted.predict([[0.5, 1.0, 2.0]])
