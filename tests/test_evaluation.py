"""A learned metric beside the base: scores, intervals, verdicts; splits; scores by rank."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import NotFittedError
from sklearn.metrics import ndcg_score

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, MahalanobisMetric, Points
from boostmetric.evaluation import (
    ComparisonTask,
    Evaluation,
    LabelTask,
    RankingTask,
    Row,
    bootstrap,
    class_gains,
    compare,
    evaluate,
    evaluate_comparisons,
    evaluate_rankings,
    fraction_to_hold_out,
    keep_better,
    knn_error,
    scores_by_rank,
    split_classes,
    split_queries,
    split_rows,
)
from boostmetric.evaluation.bootstrap import interval_of_difference
from boostmetric.evaluation.splitting import FEW_ROWS
from boostmetric.evaluation.task import ScoreSample

FIRST = MahalanobisMetric([[1.0, 0.0, 0.0]])


def labelled(seed=0, n=120, n_classes=4):
    """Points whose first feature tells the class, among louder ones that do not."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, 3)) * [0.2, 3.0, 3.0]
    X[:, 0] += y
    return X, np.array(["red", "green", "blue", "grey"])[y]


def graded(seed=0, n_queries=25, n_documents=40):
    """Queries, documents, and grades by the first feature, with some documents not judged."""
    rng = np.random.default_rng(seed)
    queries, documents = rng.standard_normal((n_queries, 3)), rng.standard_normal((n_documents, 3))
    near = np.abs(queries[:, [0]] - documents[:, 0])
    grades = np.where(rng.random(near.shape) < 0.8, (near < 0.3).astype(float) + (near < 0.1), 0.0)
    grades[:, 0] = 1.0  # no query without a relevant document
    return queries, documents, grades


def in_order(queries, points, leave_out_self=False):
    distance = cdist(queries, points)
    if leave_out_self:
        np.fill_diagonal(distance, np.inf)
    return np.argsort(distance, axis=1)


@pytest.mark.parametrize("with_reference", [True, False])
def test_scores_of_labels_are_what_their_names_say(with_reference):
    X, y = labelled()
    R, r = labelled(seed=1, n=90) if with_reference else (X, y)
    result = evaluate(FIRST, X, y, reference=(R, r) if with_reference else None, k=(3, 1), n_neighbors=(3, 1))
    for learned, points, reference in ((False, X, R), (True, X[:, :1], R[:, :1])):
        order = in_order(points, reference, leave_out_self=not with_reference)
        right = r[order[:, :3]] == y[:, None]
        count = (r == y[:, None]).sum(axis=1) - (not with_reference)
        majority = right.sum(axis=1) >= 2
        # Of three neighbours of three classes, the nearest decides.
        all_differ = np.array([len(set(labels)) == 3 for labels in r[order[:, :3]]])
        ranks = np.where(right.any(axis=1), 1 / (right.argmax(axis=1) + 1), 0)
        expected = {
            "3-NN accuracy": np.mean(np.where(all_differ, right[:, 0], majority)),
            "1-NN accuracy": right[:, 0].mean(),
            "recall@1 (any)": right[:, 0].mean(),
            "recall@3 (any)": right.any(axis=1).mean(),
            "precision@1": right[:, 0].mean(),
            "precision@3": right.mean(),
            "MRR@3": ranks.mean(),
        }
        found = {row.name: row.learned if learned else row.base for row in result.rows}
        assert {name: found[name] for name in expected} == pytest.approx(expected)
        discount = 1 / np.log2([2, 3, 4])
        ideal = np.array([discount[: min(n, 3)].sum() for n in count])
        assert found["nDCG@3"] == pytest.approx(np.mean(right @ discount / ideal))
    both = found["3-NN accuracy"] + found["MAP@3"]
    assert result[result.headline].learned == found["mean of 3-NN and MAP@3"] == pytest.approx(both / 2)
    if with_reference:
        assert result["3-NN accuracy"].base == pytest.approx(1 - knn_error(R, r, X, y, 3))


def test_sparse_points_score_as_dense_ones():
    X, y = labelled()
    dense = evaluate(FIRST, X, y, reference=labelled(1))
    R, r = labelled(1)
    assert evaluate(FIRST, sparse.csr_matrix(X), y, reference=(sparse.csr_array(R), r)) == dense


def test_labels_of_a_data_frame():
    X, y = labelled()
    R, r = labelled(1)
    expected = evaluate(FIRST, X, y, reference=(R, r))
    assert evaluate(FIRST, X, y.astype(object), reference=(R, r)) == expected
    assert evaluate(FIRST, X, y, reference=(R, r.astype(object))) == expected


def test_one_comparison_is_too_few():
    result = evaluate_comparisons(FIRST, [[0, 1, 2]], [[0.0, 0, 0], [0, 2, 0], [1, 0, 0]])
    assert result.verdict == "too few"
    assert result.size == "1 comparison"


def test_a_learner_counts_as_its_metric():
    X, y = labelled()
    model = BoostMetric.paper(max_iter=5).fit(X, y)
    other = labelled(1)
    assert evaluate(model, *other) == evaluate(model.get_metric(), *other)
    with pytest.raises(NotFittedError):
        evaluate(BoostMetric.paper(), X, y)
    with pytest.raises(TypeError, match=r"metric must be a fitted learner, a MahalanobisMetric or None. Got 'cosine'"):
        evaluate("cosine", X, y)


def test_without_a_metric_the_base_is_measured_alone():
    X, y = labelled()
    alone, beside = evaluate(None, X, y), evaluate(FIRST, X, y)
    assert [row.base for row in alone.rows] == [row.base for row in beside.rows]
    assert alone.verdict == "base only"
    assert alone.rows[0].learned is None
    assert alone.learned_values is None
    assert alone.sentence.startswith("Base only: mean of 3-NN and MAP@10 0.")
    assert "120 queries" in str(alone)
    json.dumps(alone.as_dict(), allow_nan=False)


def test_values_of_queries_have_the_scores_as_means():
    X, y = labelled()
    X, y = np.vstack([X, [[9.0, 0, 0]]]), np.append(y, "alone")
    with pytest.warns(
        UserWarning, match=r"1 of 121 points are alone in their class \(the first has the label 'alone'\)"
    ):
        result = evaluate(FIRST, X, y)
    assert result.n_left_out == 1
    assert result.asked.tolist() == list(range(120))
    assert result.base_values.mean(axis=0) == pytest.approx([row.base for row in result.rows])
    assert result.learned_values.mean(axis=0) == pytest.approx([row.learned for row in result.rows])


def test_ceilings_are_what_a_perfect_metric_scores():
    y = np.repeat(["a", "b", "c"], [2, 3, 9])
    X = np.repeat([[0.0], [10.0], [20.0]], [2, 3, 9], axis=0) + np.arange(14)[:, None] / 100
    for row in evaluate(None, X, y, n_neighbors=1).rows:
        assert row.base == pytest.approx(row.ceiling), row.name


@pytest.mark.parametrize("gain", ["linear", "exponential"])
def test_scores_of_rankings_are_what_their_names_say(gain):
    queries, documents, grades = graded()
    result = evaluate_rankings(FIRST, queries, documents, sparse.csr_array(grades), k=(2, 5), gain=gain)
    for learned, q, d in ((False, queries, documents), (True, queries[:, :1], documents[:, :1])):
        worth = grades if gain == "linear" else 2**grades - 1
        distance = cdist(q, d)
        found = np.take_along_axis(grades, np.argsort(distance, axis=1)[:, :5], axis=1) > 0
        count = (grades > 0).sum(axis=1)
        expected = {
            "nDCG@2": ndcg_score(worth, -distance, k=2),
            "nDCG@5": ndcg_score(worth, -distance, k=5),
            "recall@5 (any)": found.any(axis=1).mean(),
            "recall@5 (share)": (found.sum(axis=1) / count).mean(),
            "precision@2": found[:, :2].mean(),
        }
        values = {row.name: row.learned if learned else row.base for row in result.rows}
        assert {name: values[name] for name in expected} == pytest.approx(expected)
    assert result.headline == "nDCG@5"
    assert result.verdict == "better"


def test_relevance_may_be_rows_in_any_order():
    queries, documents, grades = graded()
    table = sparse.coo_array(grades)
    rows = np.stack([table.row, table.col, table.data], axis=1)
    shuffled = np.random.default_rng(0).permutation(rows)
    expected = evaluate_rankings(FIRST, queries, documents, table)
    assert evaluate_rankings(FIRST, queries, documents, shuffled) == expected
    assert evaluate_rankings(FIRST, queries, documents, rows.tolist()) == expected


def test_only_grades_above_a_limit_are_relevant():
    queries, documents, grades = graded()
    grades[:, 1] = 2.0
    strict = evaluate_rankings(None, queries, documents, sparse.csr_array(grades), relevant_above=1)
    only = evaluate_rankings(None, queries, documents, sparse.csr_array(np.where(grades > 1, grades, 0)))
    for name in ("recall@10 (share)", "precision@5", "MRR@10", "MAP@10"):
        assert strict[name] == only[name]
    assert strict["nDCG@10"] != only["nDCG@10"]


def test_queries_may_be_searched_among_themselves():
    queries, _, _ = graded()
    order = in_order(queries, queries, leave_out_self=True)
    second = np.stack([np.arange(25), order[:, 1], np.ones(25)], axis=1)
    result = evaluate_rankings(None, queries, None, second, k=3)
    assert result["MRR@3"].base == 0.5
    with pytest.raises(ValueError, match="relevance grades query 3 for itself"):
        evaluate_rankings(None, queries, None, [[3, 3, 1]], k=3)
    with pytest.raises(ValueError, match="Pass documents=None"):
        evaluate_rankings(None, queries, queries.copy(), second, k=3)


def test_queries_without_a_relevant_document_are_left_out():
    queries, documents, grades = graded()
    grades[[4, 7]] = 0.0
    with pytest.warns(UserWarning, match="2 of 25 queries have no relevant document.*the first is query 4"):
        result = evaluate_rankings(FIRST, queries, documents, sparse.csr_array(grades))
    kept = np.setdiff1d(np.arange(25), [4, 7])
    assert result.asked.tolist() == kept.tolist()
    assert result.n_left_out == 2
    expected = evaluate_rankings(FIRST, queries[kept], documents, sparse.csr_array(grades[kept]))
    assert result.rows == expected.rows


def triplets_by_first(points, n, seed=0):
    rng = np.random.default_rng(seed)
    t = np.array([rng.permutation(len(points))[:3] for _ in range(n)])
    near, far = (np.abs(points[t[:, 0], 0] - points[t[:, c], 0]) for c in (1, 2))
    return np.where((near > far)[:, None], t[:, [0, 2, 1]], t)


def test_comparisons_of_every_form():
    X, y = labelled()
    triplets = triplets_by_first(X, 300)
    result = evaluate_comparisons(FIRST, triplets, X)
    assert result["comparison accuracy"].learned == 1.0
    n_anchors = len(np.unique(triplets[:, 0]))
    assert result.size == f"300 comparisons of {n_anchors} anchors"
    assert result.sentence.startswith("Better: comparison accuracy 0.")
    assert evaluate_comparisons(FIRST, Comparisons.from_triplets(triplets), Points(X)) == result
    quadruplets = triplets[:, [0, 1, 0, 2]]
    assert evaluate_comparisons(FIRST, quadruplets, X) == result
    every = Comparisons.from_labels(X, y, 3, "all")
    assert evaluate_comparisons(FIRST, every, X) == evaluate_comparisons(FIRST, every.listed(), X)


def test_comparison_accuracy_is_the_score_of_the_learner():
    X, _ = labelled()
    train, test = Comparisons.from_triplets(triplets_by_first(X, 300)).split(0.3, random_state=0)
    model = ComparisonBoostMetric(max_iter=10).fit(train, points=X)
    result = evaluate_comparisons(model, test, X)
    assert result["comparison accuracy"].learned == pytest.approx(model.score(test, points=X))


def test_pairs_are_resampled_where_there_is_no_anchor():
    X, y = labelled(n=60)
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort([rng.permutation(60)[:2] for _ in range(300)]), axis=0)
    sign = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    result = evaluate_comparisons(FIRST, pairs, X, y=sign, n_bootstrap=3000)
    assert result.clusters == "pairs"
    assert result.n_clusters == len(result.asked) == len(result.base_values) == (sign == 1).sum()
    # Draws of near and of far pairs, and all comparisons of what was drawn.
    shorter = [
        (np.subtract.outer(d[sign == 1], d[sign == -1]) < 0).astype(float)
        for d in (np.linalg.norm(P[pairs[:, 0]] - P[pairs[:, 1]], axis=1) for P in (X, X[:, :1]))
    ]
    difference = shorter[1] - shorter[0]
    n, m = difference.shape
    drawn = [difference[rng.integers(n, size=n)][:, rng.integers(m, size=m)].mean() for _ in range(3000)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    row = result["comparison accuracy"]
    assert row.difference == pytest.approx(difference.mean())
    assert (row.low, row.high) == pytest.approx((low, high), abs=0.1 * (high - low))


def test_intervals_are_those_of_plain_resampling(monkeypatch):
    rng = np.random.default_rng(0)
    n, n_clusters = 60, 12
    cluster, weight = np.arange(n) % n_clusters, rng.random(n) + 0.5
    base, learned = (ScoreSample(weight[:, None] * rng.random((n, 2)), weight, cluster) for _ in range(2))
    given = np.random.RandomState(5)
    drawn = []
    for _ in range(200):
        rows = np.concatenate([np.flatnonzero(cluster == c) for c in given.randint(n_clusters, size=n_clusters)])
        drawn.append((learned.sums - base.sums)[rows].sum(axis=0) / weight[rows].sum())
    expected = np.quantile(drawn, [0.025, 0.975], axis=0)
    assert np.array(interval_of_difference([base], [learned], 200, np.random.RandomState(5))) == pytest.approx(expected)
    monkeypatch.setattr(bootstrap, "_CHUNK", 50)
    assert np.array(interval_of_difference([base], [learned], 200, np.random.RandomState(5))) == pytest.approx(expected)


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(0)
    n, held = 80, 0
    for _ in range(300):
        right = rng.random((n, 2)) < [0.7, 0.8]
        base, learned = (ScoreSample(1.0 * right[:, [c]], np.ones(n), np.arange(n)) for c in (0, 1))
        low, high = interval_of_difference([base], [learned], 300, np.random.RandomState(0))
        held += low[0] <= 0.1 <= high[0]
    assert 0.91 <= held / 300 <= 0.98


def test_rows_drawn_together_widen_the_interval():
    """Ten rows that always agree are worth one."""
    difference = np.repeat(np.random.default_rng(0).standard_normal(50), 10)[:, None]
    base, alone = (ScoreSample(sums, np.ones(500), np.arange(500)) for sums in (0 * difference, difference))
    together = np.repeat(np.arange(50), 10)
    low, high = interval_of_difference([base], [alone], 2000, np.random.RandomState(0))
    samples = [[sample._replace(cluster=together)] for sample in (base, alone)]
    wide_low, wide_high = interval_of_difference(*samples, 2000, np.random.RandomState(0))
    assert (wide_high - wide_low)[0] == pytest.approx(np.sqrt(10) * (high - low)[0], rel=0.1)


def test_classes_may_be_resampled():
    X, colour = labelled(n=400)
    y = np.char.add(colour, (np.arange(400) // 4 % 5).astype(str))
    result = evaluate(FIRST, X, y, by="class", random_state=3)
    assert result.n_clusters == 20
    assert result.sentence.endswith("400 queries, classes resampled).")
    _, number = np.unique(y, return_inverse=True)
    base, learned = (
        ScoreSample(values, np.ones(400), number) for values in (result.base_values, result.learned_values)
    )
    low, high = interval_of_difference([base], [learned], 1000, np.random.RandomState(3))
    assert [row.low for row in result.rows] == low.tolist()
    assert [row.high for row in result.rows] == high.tolist()


def test_gains_of_classes_are_means_of_their_queries():
    X, labels = labelled()
    metric, task = MahalanobisMetric(np.diag([1.0, 0.3, 0.3])), LabelTask.of(X, labels, k=5)
    for headline in (None, "recall@5 (any)"):
        result = compare(metric, task, headline=headline, n_bootstrap=20)
        column = task.names.index(result.headline)
        gains = class_gains(result, task)
        assert [gain.difference for gain in gains] == sorted((gain.difference for gain in gains), reverse=True)
        for gain in gains:
            of_class = labels == gain.label
            assert gain.n_queries == of_class.sum()
            assert gain.base == pytest.approx(result.base_values[of_class, column].mean())
            assert gain.learned == pytest.approx(result.learned_values[of_class, column].mean())
            assert -1.0 <= gain.low <= gain.difference <= gain.high <= 1.0
        assert np.average(
            [gain.learned for gain in gains], weights=[gain.n_queries for gain in gains]
        ) == pytest.approx(result[result.headline].learned)


def gains_of(y, differences):
    """Gains where the queries of classes `y` gain so much."""
    X, labels = labelled()
    task = LabelTask.of(X, labels, k=1, n_neighbors=1)
    result = compare(FIRST, task, n_bootstrap=1)
    values = np.zeros((len(y), len(task.names)))
    result = replace(result, base_values=values, learned_values=values + np.asarray(differences)[:, None])
    return class_gains(result, replace(task, right=np.asarray(y), classes=np.arange(max(y) + 1)))


@pytest.mark.parametrize("size", [2, 10, 30])
def test_intervals_of_classes_hold_the_truth_as_often_as_they_say(size):
    steps, hits = np.array([-1.0, -0.5, 0.0, 0.5, 1.0]), []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        shares = rng.dirichlet([0.3, 0.5, 4.0, 0.5, 0.5], 60)
        drawn = np.concatenate([rng.choice(steps, size, p=share) for share in shares])
        truth = shares @ steps
        hits += [gain.low <= truth[gain.label] <= gain.high for gain in gains_of(np.repeat(np.arange(60), size), drawn)]
    assert 0.93 < np.mean(hits) < 0.99


def test_one_query_is_not_certain():
    """All queries of the classes 0 and 1 gain as much, which a bootstrap would call certain."""
    gains = {gain.label: gain for gain in gains_of([0, 1, 1, *[2] * 20], [1.0, 0.5, 0.5, *[0.5, -0.5] * 10])}
    assert gains[0].low < 0 < gains[0].difference
    assert gains[1].low < 0
    assert gains[2].high - gains[2].low < gains[1].high - gains[1].low
    alone = gains_of([0, 1, 2], [1.0, 0.0, -1.0])  # no class has a variance of its own
    assert all(gain.low < 0 < gain.high for gain in alone)


def test_results_do_not_depend_on_chance():
    X, y = labelled()
    assert evaluate(FIRST, X, y) == evaluate(FIRST, X, y)
    assert evaluate(FIRST, X, y, random_state=1).rows != evaluate(FIRST, X, y, random_state=0).rows


def test_the_base_against_itself_is_no_headroom():
    X, y = labelled()
    result = evaluate(MahalanobisMetric(np.eye(3)), X, y)
    assert {(row.difference, row.low, row.high) for row in result.rows} == {(0.0, 0.0, 0.0)}
    assert result.verdict == "no headroom"


def made(base, learned, low, high, n_clusters=4500, ceiling=1.0):
    row = Row("1-NN accuracy", base, learned, learned - base, low, high, ceiling)
    asked, nothing = np.arange(n_clusters), np.zeros((n_clusters, 1))
    return Evaluation(
        (row,), row.name, f"{n_clusters:,} queries", "queries", n_clusters, 0, 1000, asked, nothing, nothing
    )


@pytest.mark.parametrize(
    ("result", "verdict", "sentence"),
    [
        (
            made(0.880, 0.937, 0.049, 0.065),
            "better",
            "Better: 1-NN accuracy 0.880 -> 0.937, difference 0.057 (95 % interval 0.049 to 0.065, 4,500 queries).",
        ),
        (
            made(0.937, 0.880, -0.065, -0.049),
            "worse",
            "Worse, keep the base: 1-NN accuracy 0.937 -> 0.880, difference -0.057 (95 % interval -0.065 to -0.049, "
            "4,500 queries).",
        ),
        (
            made(0.90, 0.91, -0.01, 0.03),
            "no headroom",
            "No headroom found, the interval contains 0: 1-NN accuracy 0.900 -> 0.910, difference 0.010 (95 % interval "
            "-0.010 to 0.030, 4,500 queries).",
        ),
        (
            made(0.995, 0.995, -0.0001, 0.001),
            "no headroom",
            "No headroom, the base is already near the ceiling of 1.000: 1-NN accuracy 0.995 -> 0.995, difference "
            "0.000 (95 % interval 0.000 to 0.001, 4,500 queries).",
        ),
        (
            made(0.498, 0.498, 0.0, 0.0, ceiling=0.5),
            "no headroom",
            "No headroom, the base is already near the ceiling of 0.500: 1-NN accuracy 0.498 -> 0.498, difference "
            "0.000 (95 % interval 0.000 to 0.000, 4,500 queries).",
        ),
        (
            made(0.5, 0.7, 0.1, 0.3, n_clusters=10),
            "better",
            "Better: 1-NN accuracy 0.500 -> 0.700, difference 0.200 (95 % interval 0.100 to 0.300, 10 queries). Few "
            "queries (10): the interval is rough.",
        ),
        (
            made(0.0, 1.0, 1.0, 1.0, n_clusters=5),
            "too few",
            "Too few queries to tell (5): 1-NN accuracy 0.000 -> 1.000, difference 1.000 (95 % interval 1.000 to "
            "1.000, 5 queries).",
        ),
    ],
)
def test_verdicts_and_sentences(result, verdict, sentence):
    assert result.verdict == verdict
    assert result.sentence == sentence


def with_other(result, base, learned, low, high, chance=0.0):
    """The same with an important score beside the headline."""
    row = Row("MAP@10", base, learned, learned - base, low, high, chance=chance)
    return result.beside([row], important=["MAP@10"])


@pytest.mark.parametrize(
    ("result", "verdict", "says"),
    [
        (
            with_other(made(0.88, 0.93, 0.04, 0.06), 0.842, 0.073, -0.8, -0.7),
            "mixed",
            r"^Mixed: 1-NN accuracy 0.880 -> 0.930.* Clearly worse: MAP@10 0.842 -> 0.073.$",
        ),
        (with_other(made(0.88, 0.93, 0.04, 0.06), 0.84, 0.8395, -0.001, -0.0001), "better", "^Better: "),
        (with_other(made(0.88, 0.93, 0.04, 0.06), 0.84, 0.80, -0.1, 0.02), "better", "^Better: "),
        (with_other(made(0.90, 0.91, -0.01, 0.03), 0.84, 0.80, -0.06, -0.02), "mixed", "Clearly worse: MAP@10"),
        (with_other(made(0.93, 0.88, -0.06, -0.04), 0.84, 0.86, 0.01, 0.03), "mixed", "Clearly better: MAP@10"),
        (with_other(made(0.93, 0.88, -0.06, -0.04), 0.84, 0.80, -0.06, -0.02), "worse", "^Worse, keep the base: "),
        (
            with_other(made(0.88, 0.93, 0.04, 0.06), 0.3, 0.4, 0.05, 0.15, chance=0.5),
            "doubtful",
            r"The learned metric's MAP@10 of 0.400 is below chance \(0.500\). The base's MAP@10 of 0.300 is far below",
        ),
        (with_other(made(0.88, 0.93, 0.04, 0.06), 0.49, 0.52, 0.01, 0.05, chance=0.5), "better", "^Better: "),
    ],
)
def test_a_score_beside_the_headline_may_contradict_it(result, verdict, says):
    assert result.verdict == verdict
    assert re.search(says, result.sentence)


def test_an_earlier_metric_may_take_the_place_of_the_base():
    X, y = labelled()
    good, fair = FIRST, MahalanobisMetric(np.diag([1.0, 0.5, 0.5]))
    against_base = [evaluate(metric, X, y) for metric in (fair, good)]
    result = evaluate(good, X, y, against=fair)
    for earlier, new, row in zip(*(one.rows for one in against_base), result.rows, strict=True):
        assert (row.base, row.learned) == (earlier.learned, new.learned)
    assert result.verdict == "better"
    assert result.table()[0][1:3] == ["earlier", "new"]
    assert result.as_dict()["compared_with"] == "earlier"
    worse = evaluate(fair, X, y, against=good)
    assert worse.sentence.startswith("Worse, keep the earlier metric: ")
    same = evaluate(good, X, y, against=good)
    assert same.verdict == "no difference"
    assert same.sentence.startswith("No difference found, the interval contains 0: ")
    met = {one.verdict: (one.meets("better"), one.meets("not-worse")) for one in (result, same, worse)}
    assert met == {"better": (True, True), "no difference": (False, True), "worse": (False, False)}
    with pytest.raises(ValueError, match="metric is None"):
        evaluate(None, X, y, against=good)
    with pytest.raises(ValueError, match="requirement must be one of"):
        result.meets("best")


def test_an_earlier_metric_is_compared_in_all_scores_of_rankings():
    rng = np.random.default_rng(0)
    queries, documents = rng.standard_normal((30, 3)), rng.standard_normal((40, 3))
    near = abs(queries[:, None, 0] - documents[None, :, 0]) < 0.5
    relevance = np.argwhere(near & near.any(axis=1, keepdims=True))
    relevance = np.column_stack([relevance, np.ones(len(relevance))])
    fair = MahalanobisMetric(np.diag([1.0, 0.3, 0.3]))
    result = evaluate_rankings(FIRST, queries, documents, relevance, against=fair)
    earlier = evaluate_rankings(fair, queries, documents, relevance)
    assert any("query side" in row.name for row in result.rows)
    assert [row.base for row in result.rows] == [row.learned for row in earlier.rows]


@pytest.mark.parametrize("verdict", ["too few", "mixed", "doubtful", "base only"])
def test_a_requirement_is_not_met_where_too_little_is_known(verdict):
    result = {
        "too few": made(0.0, 1.0, 1.0, 1.0, n_clusters=5),
        "mixed": with_other(made(0.88, 0.93, 0.04, 0.06), 0.842, 0.073, -0.8, -0.7),
        "doubtful": with_other(made(0.88, 0.93, 0.04, 0.06), 0.3, 0.4, 0.05, 0.15, chance=0.5),
        "base only": replace(made(0.5, 0.5, 0.0, 0.0), rows=(Row("1-NN accuracy", 0.5, None, None, None, None),)),
    }[verdict]
    assert result.verdict == verdict
    assert not result.meets("better")
    assert not result.meets("not-worse")


def test_comparisons_that_contradict_the_base_are_an_alarm():
    # Users of a search box click what is of their class; what stood above was skipped.
    rng = np.random.default_rng(0)
    y = np.arange(300) % 10
    X = rng.standard_normal((10, 6))[y] + 0.6 * rng.standard_normal((300, 6))
    order = np.argsort(np.linalg.norm(X[:, None] - X[None], axis=2), axis=1)[:, 1:11]
    clicks = (y[order] == y[:, None]) & (rng.random((300, 10)) < np.arange(1, 11) ** -0.6)
    log = Comparisons.from_rankings(np.arange(300), order, clicks=clicks)
    metric = ComparisonBoostMetric(init="identity", max_iter=30).fit(log, points=X)
    result = evaluate_comparisons(metric, log, X)
    assert result["comparison accuracy"].base == 0
    assert result["comparison accuracy"].difference > 0
    assert result.verdict == "doubtful"
    assert "keep the base" in result.sentence
    assert "contradict the distance that ranked them" in result.sentence


def test_few_comparisons_below_chance_are_no_alarm():
    points = np.random.default_rng(0).standard_normal((20, 2))
    triplets = Comparisons.from_triplets([[i, i + 1, i + 2] for i in range(8)])
    base = evaluate_comparisons(None, triplets, points)["comparison accuracy"]
    assert base.chance == 0.5
    assert not replace(base, base=0.3).starts_below_chance(8)
    assert replace(base, base=0.3).starts_below_chance(100)


def test_another_score_may_decide():
    X, y = labelled()
    result = evaluate(FIRST, X, y, headline="MAP@10")
    assert result.sentence.startswith("Better: MAP@10 ")
    with pytest.raises(ValueError, match=r"headline must be one of '3-NN accuracy'.*Got 'F1'"):
        evaluate(FIRST, X, y, headline="F1")
    with pytest.raises(KeyError, match="There is no score 'F1'"):
        result["F1"]


def test_a_result_as_text_and_for_machines():
    X, y = labelled()
    result = evaluate(FIRST, X, y, k=2)
    header, *rows = result.table()
    assert len(header) == 5
    assert [row[0] for row in rows] == [row.name for row in result.rows]
    first = result.rows[0]
    assert rows[0][1:4] == [f"{first.base:.4f}", f"{first.learned:.4f}", f"{first.difference:+.4f}"]
    lines = str(result).splitlines()
    assert len(lines) == 1 + len(rows) + 2
    assert lines[-1] == result.sentence
    stored = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert stored["verdict"] == "better"
    assert stored["scores"][0]["low"] == first.low
    assert stored["n_asked"] == stored["n_clusters"] == 120


def test_only_judged_documents_are_ranked():
    queries, documents = np.array([[0.0], [10.0]]), np.array([[1.0], [2.0], [3.0], [8.0], [14.0]])
    relevance = [[0, 0, 0], [0, 2, 1], [1, 4, 2], [1, 3, 0]]  # nothing is known of document 1
    condensed, whole = (RankingTask.of(queries, documents, relevance, k=2, only_judged=only) for only in (True, False))
    sample = condensed.measure(condensed.points)[0]
    ndcg, mrr = (sample.values[:, condensed.names.index(name)] for name in ("nDCG@2", "MRR@2"))
    assert ndcg == pytest.approx([1 / np.log2(3), 1 / np.log2(3)])
    assert mrr.tolist() == [0.5, 0.5]
    (other,) = whole.measure(whole.points)
    assert other.values[:, whole.names.index("nDCG@2")] == pytest.approx([0.0, 1 / np.log2(3)])
    # One relevant document of two is first half of the time.
    chance = dict(zip(condensed.names, condensed.chances, strict=True))
    assert chance["MRR@2"] == pytest.approx(0.75, abs=0.1)
    assert chance["recall@2 (any)"] == 1.0
    assert not whole.chances.any()
    # Where all documents are judged, it makes no difference.
    queries, documents, grades = graded()
    every = [[q, d, grades[q, d]] for q in range(len(queries)) for d in range(len(documents))]
    both = [
        evaluate_rankings(FIRST, queries, documents, every, only_judged=only, n_bootstrap=20) for only in (True, False)
    ]
    for row, other in zip(both[0].rows[:-1], both[1].rows[:-1], strict=True):
        assert replace(row, chance=other.chance) == other


@pytest.mark.parametrize("kind", ["labels", "rankings", "comparisons"])
def test_scores_by_rank_are_those_of_truncated_metrics(kind):
    rng = np.random.default_rng(0)
    metric = MahalanobisMetric(rng.standard_normal((5, 3)))
    X, y = labelled()
    queries, documents, grades = graded()
    task = {
        "labels": LabelTask.of(X, y, reference=labelled(1)),
        "rankings": RankingTask.of(queries, documents, sparse.csr_array(grades)),
        "comparisons": ComparisonTask.of(triplets_by_first(X, 100), X),
    }[kind]
    pairs = scores_by_rank(metric, task)
    assert [rank for rank, _ in pairs] == [1, 2, 3]
    for rank, score in pairs:
        truncated = metric.truncate(rank)
        (sample,) = task.measure([truncated.transform(points) for points in task.points])
        assert score == pytest.approx(sample.mean[task.names.index(task.headline)])
    name = task.names[-1]
    assert scores_by_rank(metric, task, ranks=[3, 2, 2], score=name)[0][0] == 2


def test_ranks_that_cannot_be():
    X, y = labelled()
    task = LabelTask.of(X, y)
    with pytest.raises(ValueError, match="ranks contains 2, but the metric has rank 1"):
        scores_by_rank(FIRST, task, ranks=[1, 2])
    with pytest.raises(ValueError, match="ranks must be a whole number of at least 1"):
        scores_by_rank(FIRST, task, ranks=[0])
    with pytest.raises(ValueError, match="only a learned metric can be truncated"):
        scores_by_rank(None, task)
    with pytest.raises(ValueError, match="score must be one of"):
        scores_by_rank(FIRST, task, score="F1")


@given(st.lists(st.integers(0, 6), min_size=2, max_size=40).filter(lambda y: len(set(y)) > 1), st.floats(0.01, 0.99))
def test_splits_share_no_group(groups, fraction):
    for split, values in ((split_queries, [f"q{g}" for g in groups]), (split_classes, groups)):
        train, test = split(values, fraction, random_state=0)
        values = np.array(values)
        assert sorted([*train, *test]) == list(range(len(values)))
        assert len(train)
        assert len(test)
        assert not set(values[train]) & set(values[test])
        again = split(values, fraction, random_state=0)
        assert np.array_equal(again[0], train)


def test_splits_that_cannot_be():
    with pytest.raises(ValueError, match=r"A split needs at least 2 classes, one for each side. Got 1"):
        split_classes(["a", "a"])
    with pytest.raises(ValueError, match=r"test_fraction must be a finite number above 0 and below 1. Got 1.5"):
        split_queries([1, 2], 1.5)


SMALL = [[0.0], [1.0], [5.0], [6.0]]
AB = ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate(None, SMALL, AB), r"k=5 asks for more results than the 3 points that a query can find"),
        (lambda: evaluate(None, SMALL, AB, k=1, n_neighbors=4), "n_neighbors=4 asks for more results than the 3"),
        (lambda: evaluate(None, SMALL, AB, k=[]), "k is empty"),
        (lambda: class_gains(evaluate(None, SMALL, AB, k=1), None), "evaluation is of the base alone"),
        (lambda: evaluate(None, SMALL, AB, k=1.5), "k must be a whole number of at least 1. Got 1.5"),
        (lambda: evaluate(None, SMALL, AB[:3], k=1), "inconsistent numbers of samples"),
        (lambda: evaluate(None, SMALL, ["a"] * 4, k=1), "'a' is the only label of 4 searched points"),
        (lambda: evaluate(None, SMALL, list("abcd"), k=1), "Each of the 4 labels occurs once"),
        (lambda: evaluate(None, SMALL, AB, by="user", k=1), "by must be one of 'query', 'class'. Got 'user'"),
        (lambda: evaluate(None, SMALL, AB, reference=SMALL, k=1), r"reference must be a pair \(X, y\)"),
        (lambda: evaluate(None, SMALL, AB, reference=(SMALL, AB), k=1), "reference holds the queries themselves"),
        (
            lambda: evaluate(None, [[0.5], [1.5]], ["a", "z"], reference=(SMALL, AB), k=1),
            r"The label 'z' does not occur in the reference.*1 of 2 queries",
        ),
        (
            lambda: evaluate(None, [[0.5]], [1], reference=(SMALL, AB), k=1),
            "y holds numbers, but the labels of the reference are text",
        ),
        (
            lambda: evaluate(None, [[0.5, 1.0]], ["a"], reference=(SMALL, AB), k=1),
            "The queries have 2 features and the reference 1",
        ),
        (lambda: evaluate(FIRST, SMALL, AB, k=1, n_neighbors=1), "The metric has 3 features"),
        (lambda: evaluate(None, SMALL, AB, k=1, n_neighbors=1, n_bootstrap=0), "n_bootstrap must be a whole number"),
        (
            lambda: evaluate_rankings(None, SMALL, [[0.5], [2.0]], [[0, 2, 1]], k=1),
            r"relevance\[0\] refers to document 2",
        ),
        (lambda: evaluate_rankings(None, SMALL, [[0.5]], [[0.5, 0, 1]], k=1), r"relevance\[0\] refers to query 0.5"),
        (lambda: evaluate_rankings(None, SMALL, [[0.5]], [[0, 0]], k=1), r"or rows \(query, document, grade\)"),
        (lambda: evaluate_rankings(None, SMALL, [[0.5]], [["q", "d", 1]], k=1), r"or rows \(query, document, grade\)"),
        (lambda: evaluate_rankings(None, SMALL, [[0.5]], [[0, 0, 0]], k=1), "No query has a document with a grade"),
        (lambda: evaluate_rankings(None, SMALL, [[0.5]], [[0, 0, -1]], k=1), "grades must be at least 0"),
        (
            lambda: evaluate_rankings(None, SMALL, [[0.5]], [[0, 0, 1], [0, 0, 2]], k=1),
            "judges document 0 for query 0 twice",
        ),
        (
            lambda: evaluate_rankings(None, SMALL, [[0.5]], sparse.csr_array(np.ones((2, 2))), k=1),
            r"one row for each of the 4 queries and one column for each of the 1 documents. Got shape \(2, 2\)",
        ),
        (lambda: evaluate_comparisons(None, [[0, 1, 9]], SMALL), "name point 9, but there are only 4 points"),
        (lambda: evaluate_comparisons(None, [[0, 1]], SMALL), r"Rows \(i, j\) need y"),
        (lambda: evaluate_comparisons(None, np.zeros((2, 3, 1)), SMALL), "refer to points by number"),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_sentence_embeddings_score_as_published(data_dir):
    if not (data_dir / "clinc150_minilm.npz").exists():
        pytest.skip("needs clinc150_minilm.npz beside the paper's data sets")
    with np.load(data_dir / "clinc150_minilm.npz") as data:
        X, y, split, in_scope = data["X"], data["y"], data["split"], data["y"] < 150
    train, test = (in_scope & (split == part) for part in (0, 2))
    result = evaluate(None, X[test], y[test], reference=(X[train], y[train]), n_neighbors=(1, 5))
    expected = {
        "1-NN accuracy": 0.8802,
        "5-NN accuracy": 0.8958,
        "recall@1 (any)": 0.8802,
        "recall@5 (any)": 0.9609,
        "recall@10 (any)": 0.9756,
        "MRR@10": 0.9143,
        "precision@10": 0.8428,
    }
    assert {name: round(result[name].base, 4) for name in expected} == expected


def test_held_out_rows_are_of_every_class():
    y = np.repeat(np.arange(5), [1, 2, 10, 50, 100])
    _, held_out = split_rows(y, 0.2, random_state=1)
    counts = np.bincount(y[held_out], minlength=5)
    assert len(held_out) == pytest.approx(0.2 * len(y), abs=1)
    assert counts[0] == 0
    assert (counts[2:] / [10, 50, 100]) == pytest.approx([0.2, 0.2, 0.2], abs=0.11)
    for fraction in (0.5, 0.9):
        assert set(y[split_rows(y, fraction, random_state=0)[0]]) == set(range(5))


def test_rows_to_hold_out_by_default():
    assert fraction_to_hold_out(FEW_ROWS - 1) == 0.0
    assert fraction_to_hold_out(FEW_ROWS) == 0.2


def test_the_better_metric_is_kept():
    points = np.random.default_rng(0).standard_normal((40, 2)) * [1.0, 9.0]
    i, j, k = np.random.default_rng(1).integers(40, size=(3, 300))
    near = abs(points[i, 0] - points[j, 0]) < abs(points[i, 0] - points[k, 0])
    rows = np.stack([i, j, k], axis=1)[near & (i != j) & (i != k) & (j != k)]
    task = ComparisonTask.of(Comparisons.from_triplets(rows), points)
    good, bad = (MahalanobisMetric([row], about={"data": 1}) for row in ([1.0, 0.0], [0.0, 1.0]))
    kept = keep_better(good, task)
    assert kept.metric is good
    assert not kept.is_base
    assert kept.evaluation.verdict == "better"
    kept = keep_better(bad, task)
    assert kept.is_base
    assert kept.metric.components.tolist() == np.eye(2).tolist()
    assert kept.metric.about == {"data": 1}
    assert kept.rejected.verdict == "worse"
    assert keep_better(kept.metric, task).rejected is None
    assert kept.evaluation[kept.evaluation.headline].difference == 0
    twice = MahalanobisMetric(2 * np.eye(2))  # scores as the base does
    assert keep_better(twice, task).is_base
    assert keep_better(twice, task, ties="learned").metric is twice
    assert keep_better(bad, task, ties="learned").is_base
    with pytest.raises(TypeError, match="Got None"):
        keep_better(None, task)
