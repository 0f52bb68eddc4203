"""What fuzzing found, each once: input that ended in an accident, a warning of NumPy, or a wrong answer."""

import re

import numpy as np
import pytest
from scipy import sparse

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, MahalanobisMetric
from boostmetric.baselines import LMNN, NCA
from boostmetric.evaluation import LabelTask, evaluate, evaluate_rankings, scores_by_rank, split_classes
from boostmetric.evaluation.comparison_scores import comparison_accuracy
from boostmetric.evaluation.knn import knn_predict
from boostmetric.evaluation.ranking_scores import hit_at_k, ndcg_at_k, recall_at_k
from boostmetric.export import query_side
from boostmetric.mining import mine_from_labels, mine_triplets
from boostmetric.neighbors import nearest
from boostmetric.report import write_model_report
from boostmetric.retrieval import MetricIndex

Y = np.arange(12) % 2
X = np.random.default_rng(0).standard_normal((12, 2)) + [1.0, 0.0] * Y[:, None]
METRIC = MahalanobisMetric([[1.0, 0.0], [0.0, 2.0]])
TRIPLETS = Comparisons.from_triplets([[0, 1, 2], [0, 1, 3], [4, 5, 6]])
MASKED = np.ma.masked_array(X, mask=X > 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MahalanobisMetric([["a"]]), r"components must be numbers: could not convert .* Got \[\['a'\]\]"),
        (lambda: MahalanobisMetric([[1j]]), "components must be numbers: their type is complex128"),
        (lambda: MahalanobisMetric([[1e200]]), "components go up to 1e\\+200, and their squares"),
        (lambda: MahalanobisMetric([[1.0]], feature_names=2.0), "feature_names must be a list of strings. Got 2.0"),
        (lambda: MahalanobisMetric([[1.0]], directions=[["a"]], step_sizes=[1]), "directions must be numbers"),
        (lambda: METRIC.transform([["a", "b"]]), "The points must be numbers"),
        (lambda: METRIC.transform(sparse.csr_array(X * 1j)), "The points must be numbers: their type is complex128"),
        (
            lambda: METRIC.transform([[1.0, 2.0], [1e308, 1e308]]),
            "Row 1 of the points is NaN or infinite, or overflows",
        ),
        (lambda: METRIC.distance(X, X[:5]), r"shapes \(12, 2\) and \(5, 2\) cannot be paired row by row"),
        (lambda: METRIC(X, X), r"takes two points, but got \(12,\) pairs"),
        (lambda: METRIC.truncate(10**30), "rank must be a whole number"),
        (lambda: BoostMetric.paper().fit(MASKED, Y), "masked entries"),
        (
            lambda: BoostMetric.paper(regularization=0.0).fit(X * 1e-100, Y).transform(X * 1e250),
            "Row 0 of the points is NaN or infinite, or",
        ),
        (lambda: BoostMetric.paper().fit(X, Y).pair_distance([["a"]]), "pairs must be numbers"),
        (lambda: BoostMetric.paper(early_stopping=np.array([1, 2])).fit(X, Y), "early_stopping must be True or False"),
        (lambda: LMNN(n_neighbors=10**30).fit(X, Y), "n_neighbors must be a whole number"),
        (lambda: NCA().fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1]), "All samples are equal"),
        (lambda: NCA(max_iter=3).fit(X * 1e-154, Y), "components go up to .*overflow"),
        (
            lambda: ComparisonBoostMetric().fit([[0, 1, 2]], points=X).partial_fit([[0, 1, 2]], points=np.ndarray),
            "Expected 2D array|must be",
        ),
        (lambda: Comparisons.concatenate(3), "parts must be a list. Got 3"),
        (lambda: Comparisons.concatenate([TRIPLETS, None]), "parts must be Comparisons. Got None"),
        (lambda: Comparisons.from_groups(0, 0), "near must be a list. Got 0"),
        (lambda: Comparisons.from_rankings([0], 3), "results must be a list. Got 3"),
        (
            lambda: Comparisons.from_rankings([0], [[[], 5]]),
            r"results\[0\] must be an array; its rows have different lengths",
        ),
        (lambda: Comparisons.from_rankings(-1, [[1, 2]]), "queries is -1: point numbers count from 0"),
        (lambda: Comparisons.from_triplets([[0, 1, 2]], [1j]), "weights must be numbers: their type is complex128"),
        (lambda: TRIPLETS.subset(2.5), "groups must be numbers from 0 to 1, or 2 booleans"),
        (lambda: TRIPLETS.subset([7]), "groups must be numbers from 0 to 1, or 2 booleans"),
        (lambda: TRIPLETS.subset([[0], [1]]), r"groups must be a list of numbers. Got shape \(2, 1\)"),
        (lambda: knn_predict(X, Y, X[:, :1]), "X_train has 2 features and X_test 1"),
        (lambda: hit_at_k([[1, [1]]], 1), "relevant must be an array"),
        (lambda: ndcg_at_k([["good"]], [[1]], 1), "grades must be numbers"),
        (lambda: recall_at_k([[1, 0]], ["a"], 1), "n_relevant must be numbers"),
        (lambda: recall_at_k([[1, 0]], [np.nan], 1), r"n_relevant\[0\] is nan"),
        (lambda: scores_by_rank(METRIC, LabelTask.of(X, Y), ranks=3), "ranks must be a list. Got 3"),
        (lambda: evaluate_rankings(None, X, None, [[0, 1, 1j]], k=1), "relevance.* must be numbers"),
        (lambda: split_classes(np.array(["a", None, "b"], dtype=object)), "classes must be all strings or all numbers"),
        (lambda: mine_triplets(X, None, [[0, 1]], groups=[None, "a"] * 6), "groups must be all strings or all numbers"),
        (lambda: mine_triplets(X, None, [[0, 1]], excluded=[[0], [1, 2]]), "excluded must be an array"),
        (lambda: write_model_report("never.html", METRIC, title=3), "title must be a string. Got 3"),
        (lambda: MetricIndex(METRIC).add([["a", "b"]]), "X must be numbers"),
        (lambda: MetricIndex().add(sparse.csr_array(X * 1j)), "must be numbers: their type is complex128"),
        (lambda: query_side(METRIC, 1e308), "which is too large"),
        (
            lambda: query_side(METRIC).document_numbers([[1e200, 0.0]]),
            "Row 0 of the points is NaN or infinite, or overflows",
        ),
        (lambda: query_side(MahalanobisMetric([[1e150]])).transform_queries([[1e10]]), "Row 0 of the points is NaN"),
        (
            lambda: ComparisonBoostMetric().fit([[0, 1, 2]], points=X).partial_fit([[0, 1, 2]], points=[[1], [1, 2]]),
            "points must be an array; its rows have different lengths",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_distances_whose_squares_cannot_be_held():
    metric = MahalanobisMetric([[1e100, 0.0], [0.0, 1e-100]])
    assert metric.distance([[0.0, 0.0]] * 2, [[1e100, 0.0], [0.0, 1e-100]]) == pytest.approx([1e200, 1e-200])


def test_distances_of_one_point_from_sparse_ones():
    expected = METRIC.distance(X, X[:1])
    for a, b in (
        (sparse.csr_array(X), X[:1]),
        (X, sparse.csr_array(X[:1])),
        *[[sparse.csr_array(p) for p in (X, X[:1])]],
    ):
        assert METRIC.distance(a, b) == pytest.approx(expected)


def test_float32_samples_under_a_metric_beyond_float32():
    """Samples near the smallest float32: the components are near the largest, or above it."""
    small = (X * 1e-42).astype(np.float32)
    metric = BoostMetric.paper(max_iter=3, regularization=0.0).fit(small, Y)
    assert np.abs(metric.components_).max() > np.finfo(np.float32).max
    assert metric.transform(small) == pytest.approx(metric.get_metric().transform(small), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_scores_of_points_whose_squares_cannot_be_held(form, scale):
    plain, far = (comparison_accuracy(TRIPLETS, form(X * one)) for one in (1.0, scale))
    assert plain.satisfied.tolist() == far.satisfied.tolist()
    assert np.array_equal(nearest(form(X * scale), None, 3), nearest(form(X), None, 3))
    assert evaluate(None, form(X * scale), Y, k=1).rows == evaluate(None, form(X), Y, k=1).rows


@pytest.mark.filterwarnings("ignore:.*queries have no relevant document")
def test_sparse_queries_among_dense_documents():
    documents = X[::-1] + 0.1
    mined = [mine_triplets(queries, documents, [[0, 1], [3, 2]]).triplets for queries in (X, sparse.csr_array(X))]
    assert np.array_equal(*mined)
    relevance = [[0, 1, 1], [3, 2, 1]]
    scores = [evaluate_rankings(None, queries, documents, relevance, k=2).rows for queries in (X, sparse.csr_array(X))]
    assert scores[0] == scores[1]
    scores = [evaluate(None, queries, Y, reference=(documents, Y), k=1).rows for queries in (X, sparse.csr_array(X))]
    assert scores[0] == scores[1]


def test_labels_that_are_huge_numbers():
    """scikit-learn looks whether they are whole by a cast that overflows."""
    for call in (lambda y: BoostMetric.paper().fit(X, y), lambda y: evaluate(None, X, y, k=1)):
        with pytest.raises(ValueError, match="Unknown label type: continuous"):
            call(Y * 1e300)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nca_where_the_means_of_the_classes_are_equal():
    """scikit-learn's start by discriminants has none then."""
    points, labels = np.array([[0.1, 0.2], [0.6, 0.7]] * 4), np.array([1, 1, 0, 1, 1, 0, 0, 0])
    assert np.isfinite(NCA(1, max_iter=3, init="auto").fit(points, labels).components_).all()
    with pytest.raises(ValueError, match=r'class means differ, but the means are equal\. Use init="pca"'):
        NCA(1, max_iter=3, init="lda").fit(points, labels)


def test_hard_negatives_as_far_as_can_be_held():
    far = np.array([[0.0], [1.7e308], [0.0], [1.7e308]])
    assert "Mean distance: positive" in mine_from_labels(far, [0, 0, 1, 1]).describe()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scale", [1e-110, 1e110])
def test_streams_of_any_size(scale):
    metric = BoostMetric.paper(regularization=0.1).partial_fit(X * scale, Y)
    assert np.isfinite(metric.components_).all()


def test_report_of_points_whose_squares_cannot_be_held(tmp_path):
    shares = []
    for scale in (1.0, 1e200):
        metric = MahalanobisMetric([[1.0, 0.0]], feature_names=["width", "height"])
        write_model_report(tmp_path / "r.html", metric, points=X * scale)
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        shares.append(re.findall(r"[0-9.]+ %", text[text.index("share before") :])[:4:2])
    assert shares[0] == shares[1]
    assert len(shares[0]) == 2


@pytest.mark.parametrize(
    "labels",
    [
        *(np.array(y, dtype=object) for y in ([0, None, 1] * 4, ["a", None, "b"] * 4, ["a", np.nan, "b"] * 4)),
        np.array([0, np.nan, 1] * 4),
        ["a", np.nan, "b"] * 4,  # not a class "nan"
    ],
)
def test_missing_labels(labels):
    for fit in (
        lambda: BoostMetric(max_iter=1).fit(X, labels),
        lambda: Comparisons.from_labels(X, labels),
        lambda: NCA().fit(X, labels),
        lambda: mine_from_labels(X, labels),
        lambda: evaluate(None, X, labels),
    ):
        with pytest.raises(
            ValueError, match=r"4 of 12 samples have no label; the first is sample 1 \((None|nan)\). Leave"
        ):
            fit()
