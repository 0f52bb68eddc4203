"""Every public function with input that nobody would give on purpose: a refusal that was meant, or a usable result."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, MahalanobisMetric, Points
from boostmetric.baselines import (
    DMLMJ,
    GMML,
    ITML,
    LFDA,
    LMNN,
    LSML,
    MLKR,
    MMC,
    NCA,
    RCA,
    SCML,
    SDML,
    Covariance,
    Euclidean,
    PSDBoost,
)
from boostmetric.callbacks import Checkpoint, EarlyStopping
from boostmetric.evaluation import (
    ComparisonTask,
    LabelTask,
    RankingTask,
    evaluate,
    evaluate_comparisons,
    evaluate_rankings,
    knn_error,
    knn_predict,
    scores_by_rank,
    split_classes,
    split_queries,
)
from boostmetric.evaluation.ranking_scores import (
    average_precision_at_k,
    hit_at_k,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
    reciprocal_rank_at_k,
)
from boostmetric.export import largest_change, query_side, to_numpy, to_query_side
from boostmetric.mining import mine_from_labels, mine_triplets
from boostmetric.report import write_model_report
from boostmetric.retrieval import MetricIndex
from boostmetric.solver.direction import LARGEST_DENSE
from hostile import (
    ODD_VALUES,
    WORDS,
    assert_metric,
    attempt,
    cases,
    labels,
    matrices,
    rows,
    seldom,
    size_of,
    values,
    weights,
)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Kernels are compiled before time is measured: on a machine that has not seen them it takes a minute."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), np.arange(30) % 3
    triplets = np.arange(30).reshape(10, 3)
    wide = rng.standard_normal((30, LARGEST_DENSE + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for options in ({}, {"loss": "logistic"}, {"solver": "corrective"}):
            for n_impostors in (3, "all"):
                BoostMetric.paper(n_neighbors=2, n_impostors=n_impostors, max_iter=2, **options).fit(X, y)
            ComparisonBoostMetric(max_iter=2, **options).fit(triplets, points=X)
        for learner in (BoostMetric.paper(max_iter=2), ComparisonBoostMetric(max_iter=2)):
            data = (X, y) if isinstance(learner, BoostMetric) else (X[triplets],)
            learner.partial_fit(*data).partial_fit(*data)
        ComparisonBoostMetric(max_iter=2).partial_fit(wide[triplets])
        for baseline in (LMNN(max_iter=2), MMC(), PSDBoost(max_iter=2), NCA(max_iter=2), RCA()):
            baseline.fit(X, y)
        knn_error(X, y, X, y)


def given_parameters(draw, **choices):
    """Some of the parameters, each mostly one of its choices."""
    names = draw(st.lists(st.sampled_from(sorted(choices)), max_size=3, unique=True))
    return {name: draw(values(*choices[name])) for name in names}


def assert_learner(learner, X):
    """Fitted, with a metric that can be used; or not fitted, and says so."""
    assert_metric(learner.components_)
    assert isinstance(learner.get_metric(), MahalanobisMetric)
    mapped = attempt(learner.transform, X)
    if mapped is not None:
        assert np.isfinite(mapped).all()


@st.composite
def tuples_of(draw, points):
    """Tuples of points, where these are an array of some; or the points."""
    if not isinstance(points, np.ndarray) or points.ndim != 2 or not len(points):
        return points
    shape = (draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 3, 3, 4, 4, 5])))
    return points[np.random.default_rng(draw(st.integers(0, 9))).integers(len(points), size=shape)]


def assert_not_fitted(learner):
    with pytest.raises(NotFittedError):
        learner.transform([[0.0]])


STARTS = (
    "zero",
    "identity",
    "standardized",
    "rca",
    "standardized-rca",
    np.eye(2),
    [[1.0, 0.0]],
    MahalanobisMetric([[1.0]]),
)
BOOSTING = {
    "n_components": (None, 1, 2),
    "loss": ("exponential", "logistic"),
    "solver": ("stagewise", "corrective"),
    "regularization": (0.0, 1e-7, 0.1, 1e300, 1e-300),
    "tol": (0.0, 0.1),
    "line_search": ("exact", "bisection"),
    "init": STARTS,
    "early_stopping": (True, False),
    "validation_fraction": (0.1, 0.5, 1e-300),
    "n_iter_no_change": (1, 5),
    "warm_start": (True, False),
    "n_jobs": (None, 1, 2, -1),
    "callbacks": (None, [], [EarlyStopping(2)]),
    "random_state": (None, 0, np.random.RandomState(0)),
    "verbose": (0,),
    "device": ("cpu", "auto", "cuda:99", "tpu"),
    "engine": (None,),
}


@cases(60)
@given(st.data())
def test_boost_metric(data):
    X = data.draw(matrices())
    y = data.draw(labels(size_of(X)))
    parameters = given_parameters(
        data.draw, n_neighbors=(1, 3), n_impostors=(1, 3, "all"), n_passes=(1, 2), max_iter=(1, 5), **BOOSTING
    )
    metric = BoostMetric.paper(**{"max_iter": 5, **parameters})
    if attempt(metric.fit, X, y, data.draw(weights(size_of(X)))) is None:
        assert_not_fitted(metric)
    else:
        assert_learner(metric, X)


@cases(6)
@given(st.data())
def test_recommended_boost_metric(data):
    X = data.draw(matrices(rows=st.integers(6, 20)))
    y = data.draw(labels(size_of(X)))
    metric = BoostMetric.recommended(max_iter=3, n_passes=2, random_state=0)
    eval_set = None
    if data.draw(st.booleans()):
        X_test = data.draw(matrices())
        eval_set = (X_test, data.draw(labels(size_of(X_test))))
    if attempt(metric.fit, X, y, eval_set=eval_set) is not None:
        assert_learner(metric, X)


@cases(30)
@given(st.data())
def test_streams(data):
    """A batch that is refused leaves the metric as it was."""
    metric = BoostMetric.paper(max_iter=3)
    before = None
    for _ in range(data.draw(st.integers(1, 3))):
        X = data.draw(matrices(columns=st.sampled_from([2, 2, 2, 3])))
        answer = attempt(metric.partial_fit, X, data.draw(labels(size_of(X))))
        if answer is None:
            after = getattr(metric, "components_", None)
            assert before is after or before.tobytes() == after.tobytes()
        else:
            assert_learner(metric, X)
            before = metric.components_.copy()


@cases(60)
@given(st.data())
def test_comparison_boost_metric(data):
    points = data.draw(matrices(rows=st.integers(3, 10)))
    width = data.draw(st.sampled_from([2, 3, 3, 4]))
    comparisons = data.draw(rows(width, min(size_of(points), 50)))
    y = None
    if width == 2 or seldom(data.draw, 10):
        n = size_of(comparisons)
        y = data.draw(st.one_of(st.just(np.where(np.arange(n) % 2, 1, -1)), labels(n)))
    if seldom(data.draw, 10):
        points = Points(points)
    parameters = given_parameters(data.draw, max_iter=(1, 5), **BOOSTING)
    metric = ComparisonBoostMetric(**{"max_iter": 5, **parameters})
    weight = data.draw(weights(size_of(comparisons)))
    if attempt(metric.fit, comparisons, y, points=points, sample_weight=weight) is None:
        assert_not_fitted(metric)
        return
    assert_metric(metric.components_)
    asked = data.draw(rows(width, min(size_of(points), 50)))
    score = attempt(metric.score, asked, y if width == 2 else None)
    assert score is None or 0 <= score <= 1
    found = attempt(metric.decision_function, asked)
    assert found is None or np.isfinite(found).all()
    answer = attempt(metric.pair_distance, data.draw(matrices()))
    assert answer is None or np.isfinite(answer).all()
    attempt(metric.partial_fit, data.draw(rows(width, 6)), y, points=data.draw(matrices()))
    assert_metric(metric.components_)


@cases(30)
@given(st.data())
def test_use_of_a_fitted_learner(data):
    rng = np.random.default_rng(0)
    metric = BoostMetric.paper(max_iter=3, n_components=2).fit(rng.standard_normal((20, 3)), np.arange(20) % 2)
    X = data.draw(matrices(columns=st.sampled_from([3, 3, 3, 2])))
    for use in (metric.transform, metric.pair_distance, lambda X: list(metric.staged_transform(X))[-1]):
        answer = attempt(use, X)
        assert answer is None or np.isfinite(answer).all()
    metric.set_threshold(1.0)
    found = attempt(metric.decision_function, data.draw(tuples_of(X)))
    assert found is None or not np.isnan(found).any()


BASELINES = {
    Euclidean: {},
    Covariance: {"n_components": (None, 1, 2)},
    RCA: {"n_components": (None, 1, 2)},
    LFDA: {"n_components": (None, 1, 2), "n_neighbors": (1, 7), "lengths": ("weighted", "plain", "orthonormal")},
    GMML: {"n_components": (None, 1, 2), "share": (0.0, 0.5, 1.0), "regularization": (0.0, 1e-3)},
    DMLMJ: {"n_components": (None, 1, 2), "n_neighbors": (1, 3)},
    NCA: {"n_components": (None, 1, 2), "init": ("auto", "pca", "identity", np.eye(2)), "tol": (1e-5, 0.1)},
    LMNN: {
        "n_components": (None, 1, 2),
        "n_neighbors": (1, 3),
        "push": (0.5, 1e-300, 0.99),
        "init": STARTS,
        "n_passes": (1, 2),
        "tol": (1e-3, 0.1),
    },
    MMC: {
        "n_components": (None, 1, 2),
        "diagonal": (True, False),
        "max_pairs": (None, 5, 100),
        "tol": (1e-5, 0.1),
        "random_state": (None, 0),
    },
    ITML: {
        "n_components": (None, 1, 2),
        "prior": ("standardized", "identity", np.eye(2)),
        "gamma": (1.0, 1e-3, 1e3),
        "bounds": (None, (0.5, 1.0)),
        "n_pairs": (None, 5),
        "tol": (1e-4, 0.1),
    },
    LSML: {"n_components": (None, 1, 2), "prior": ("standardized", "identity"), "tol": (1e-4, 0.1)},
    SDML: {"prior": ("standardized", "identity"), "balance": (None, 1e-3), "sparsity": (0.0, 0.1), "tol": (1e-4,)},
    MLKR: {"n_components": (None, 1, 2), "init": ("standardized", "identity", "pca", "random"), "tol": (1e-5, 0.1)},
    SCML: {"n_components": (None, 1), "beta": (1e-5, 1.0), "n_basis": (1, 20), "n_impostors": (1, 5), "tol": (0.1,)},
    PSDBoost: {"n_components": (None, 1, 2), "n_neighbors": (1, 2), "nu": (1.0, 0.5, 1e-3), "tol": (1e-5, 0.1)},
}


@pytest.mark.parametrize("baseline", BASELINES)
@cases(30)
@given(st.data())
def test_baselines(baseline, data):
    X = data.draw(matrices())
    y = data.draw(labels(size_of(X)))
    parameters = given_parameters(data.draw, **BASELINES[baseline]) if BASELINES[baseline] else {}
    if "tol" in BASELINES[baseline]:
        parameters.setdefault("max_iter", data.draw(values(3, 20)))
    given, weight = {}, None
    if baseline in (LMNN, PSDBoost):
        weight = data.draw(weights(size_of(X)))
    if seldom(data.draw, 3):
        n = min(size_of(X), 50)
        if baseline in (MMC, GMML, ITML, SDML):
            given = {"similar": data.draw(rows(2, n)), "dissimilar": data.draw(rows(2, n))}
        elif baseline is RCA:
            given = {"chunklets": data.draw(labels(size_of(X)))}
        elif baseline in (LMNN, PSDBoost, LSML, SCML):
            given = {"comparisons": data.draw(rows(data.draw(st.sampled_from([3, 4])), n))}
            weight = data.draw(weights(size_of(given["comparisons"])))
        y = None if given else y
    if weight is not None:
        given["weights" if baseline in (LSML, SCML) else "sample_weight"] = weight
    learner = baseline(**parameters)
    if attempt(learner.fit, X, y, **given) is None:
        assert_not_fitted(learner)
    else:
        assert_learner(learner, X)


# Comparisons.


def assert_comparisons(comparisons, n_points=None):
    assert isinstance(comparisons, Comparisons)
    assert comparisons.n_groups > 0
    assert comparisons.n_comparisons > 0
    assert np.isfinite(comparisons.weights).all()
    assert (comparisons.weights > 0).all()
    assert comparisons.members.min() >= 0
    assert comparisons.members.max() < len(comparisons.pairs)
    assert comparisons.bounds[-1] == len(comparisons.members)
    assert n_points is None or comparisons.n_points <= n_points


@cases(40)
@given(st.data())
def test_comparisons_from_labels(data):
    X = data.draw(matrices())
    y = data.draw(labels(size_of(X)))
    parameters = given_parameters(data.draw, n_neighbors=(1, 2, 100), n_impostors=(1, 2, 100, "all"))
    answer = attempt(Comparisons.from_labels, X, y, sample_weight=data.draw(weights(size_of(X))), **parameters)
    if answer is not None:
        assert_comparisons(answer.listed())


@cases(60)
@given(st.data())
def test_comparisons_from_rows(data):
    width, builder = data.draw(st.sampled_from([(3, Comparisons.from_triplets), (4, Comparisons.from_quadruplets)]))
    given = data.draw(rows(width, data.draw(st.sampled_from([5, 40]))))
    answer = attempt(builder, given, data.draw(weights(size_of(given))))
    if answer is not None:
        assert_comparisons(answer)
        parts = attempt(answer.split, data.draw(values(0.1, 0.5)), data.draw(values(0, None)))
        for part in parts or ():
            assert_comparisons(part)


@cases(30)
@given(st.data())
def test_comparisons_from_pairs(data):
    n = data.draw(st.sampled_from([5, 40]))
    answer = attempt(Comparisons.from_pairs, data.draw(rows(2, n)), data.draw(rows(2, n)))
    if answer is not None:
        assert_comparisons(answer)


ODD_NUMBERS = [-1, 2**31, 2**62, 10**30, 0.5, np.nan, "a", None, True, [], 3]
GRADES = [0, 1, 2, 3, 0.5, True]
ODD_GRADES = [-1, np.nan, np.inf, 1e300, "good", None, 2**70, [1], 1j]


def lists(draw, made, odd):
    """Lists, of which one entry may be another, or what is in their place."""
    if seldom(draw, 6) and any(made):
        row = draw(st.sampled_from([row for row in made if row]))
        row[draw(st.integers(0, len(row) - 1))] = draw(st.sampled_from(odd))
    form = draw(st.integers(0, 20))
    if form == 10:
        return draw(st.sampled_from(ODD_VALUES))
    if form == 11:
        return np.array([*made, None], dtype=object)[:-1]
    if form == 12:
        return iter(made)
    if form == 13:
        return [np.array(one, dtype=object) for one in made]
    if form == 14:
        return made[:-1]
    return made


@cases(40)
@given(st.data())
def test_comparisons_from_groups(data):
    n = data.draw(st.integers(0, 4))
    drawn = [data.draw(st.permutations(range(12))) for _ in range(n)]
    cuts = [(data.draw(st.integers(1, 4)), data.draw(st.integers(5, 8))) for _ in range(n)]
    near, far = (
        [p[1:low] for p, (low, _) in zip(drawn, cuts, strict=True)],
        [p[low:high] for p, (low, high) in zip(drawn, cuts, strict=True)],
    )
    given = {}
    if data.draw(st.booleans()):
        given["anchors"] = [p[0] for p in drawn]
        if seldom(data.draw, 6):
            given["anchors"] = data.draw(st.sampled_from([*ODD_VALUES, ODD_NUMBERS[:n], given["anchors"][1:]]))
    else:
        near, far = ([[[p[0], i] for i in one] for p, one in zip(drawn, side, strict=True)] for side in (near, far))
    near, far = lists(data.draw, near, ODD_NUMBERS), lists(data.draw, far, ODD_NUMBERS)
    answer = attempt(Comparisons.from_groups, near, far, data.draw(weights(n)), **given)
    if answer is not None:
        assert_comparisons(answer)


@cases(60)
@given(st.data())
def test_comparisons_from_rankings(data):
    n = data.draw(st.integers(0, 4))
    results = [data.draw(st.permutations(range(4, 12)))[: data.draw(st.integers(1, 5))] for _ in range(n)]
    queries = list(range(n))
    given = {}
    for name in ("grades", "clicks", "weights"):
        if seldom(data.draw, 3):
            kinds = [0, 1] if name == "clicks" else GRADES
            made = [[data.draw(st.sampled_from(kinds)) for _ in row] for row in results]
            given[name] = lists(data.draw, made, ODD_GRADES)
    if seldom(data.draw, 4):
        given["max_per_query"] = data.draw(values(1, 5))
    if seldom(data.draw, 6):
        queries = data.draw(st.sampled_from([*ODD_VALUES, [0] * n, ODD_NUMBERS[:n], [[0]] * n]))
    if seldom(data.draw, 4) and n:  # a table, of rows
        queries = [query for query, row in enumerate(results) for _ in row]
        shown = [point for row in results for point in row]
        given = {"grades": [data.draw(st.sampled_from([*GRADES, np.nan])) for _ in shown]}
    else:
        shown = lists(data.draw, results, ODD_NUMBERS)
    answer = attempt(Comparisons.from_rankings, queries, shown, **given)
    if answer is not None:
        assert_comparisons(answer)


@cases(40)
@given(st.data())
def test_comparisons_from_clicks(data):
    n = data.draw(st.integers(0, 8))
    columns = {
        "queries": [data.draw(st.integers(0, 2)) for _ in range(n)],
        "documents": [data.draw(st.integers(3, 11)) for _ in range(n)],
        "positions": [data.draw(st.sampled_from([1, 2, 3, 0.5, -1])) for _ in range(n)],
        "clicked": [data.draw(st.sampled_from([0, 1, True])) for _ in range(n)],
        "sessions": list(range(n)),
    }
    if data.draw(st.booleans()):
        columns["propensities"] = [data.draw(st.sampled_from([1, 0.5, 0.05])) for _ in range(n)]
    else:
        columns["model"] = data.draw(values("position", "cascade", "dependent"))
    if data.draw(st.booleans()):  # one list for each query, where no place and no document is twice
        columns["sessions"], columns["positions"] = None, list(range(n))
    if seldom(data.draw, 3):
        name = data.draw(st.sampled_from(sorted(columns)))
        columns[name] = lists(data.draw, [list(columns[name] or [])], ODD_GRADES)
    if seldom(data.draw, 4):
        columns["corpus"] = data.draw(st.sampled_from([*ODD_VALUES, range(12), ODD_NUMBERS]))
    answer = attempt(Comparisons.from_clicks, **columns)
    if answer is not None:
        assert_comparisons(answer)


@cases(40)
@given(st.data())
def test_comparisons_from_positives(data):
    n = data.draw(st.integers(0, 8))
    queries = [data.draw(st.integers(0, 2)) for _ in range(n)]
    documents = [data.draw(st.integers(3, 11)) for _ in range(n)]
    points = data.draw(st.one_of(st.just(np.arange(24.0).reshape(12, 2)), st.sampled_from(ODD_VALUES)))
    given = {"near_duplicate": data.draw(values(0, 0.1, 5)), "n_nearest": data.draw(values(0, 2, 50))}
    if seldom(data.draw, 4):
        documents = lists(data.draw, [documents], ODD_NUMBERS)
    if seldom(data.draw, 4):
        given["corpus"] = data.draw(st.sampled_from([*ODD_VALUES, range(12), ODD_NUMBERS]))
    answer = attempt(Comparisons.from_positives, queries, documents, points=points, **given)
    if answer is not None:
        assert_comparisons(answer)


@cases(30)
@given(st.data())
def test_methods_of_comparisons(data):
    comparisons = Comparisons.from_triplets([[0, 1, 2], [0, 1, 3], [4, 5, 6], [5, 6, 7]])
    numbers = data.draw(st.one_of(labels(comparisons.n_groups), rows(2, 3), st.sampled_from(ODD_VALUES)))
    for method in (comparisons.subset, comparisons.reweighted):
        answer = attempt(method, numbers)
        assert answer is None or np.isfinite(answer.weights).all()
    answer = attempt(comparisons.reweighted, data.draw(weights(comparisons.n_groups)))
    if answer is not None:
        assert_comparisons(answer)
    attempt(comparisons.split, *data.draw(st.tuples(values(0.1, 0.5), values(0, None))))
    attempt(Comparisons.concatenate, data.draw(st.sampled_from([[], [comparisons] * 2, [comparisons, None], None, 3])))


# The metric.


@cases(40)
@given(st.data())
def test_mahalanobis_metric(data):
    more = {}
    if seldom(data.draw, 4):
        more["feature_names"] = data.draw(
            st.one_of(st.lists(st.sampled_from(WORDS), max_size=4), st.sampled_from(ODD_VALUES))
        )
    if seldom(data.draw, 4):
        more["directions"], more["step_sizes"] = data.draw(matrices()), data.draw(weights(5))
    if seldom(data.draw, 6):
        more["about"] = data.draw(
            st.sampled_from([*ODD_VALUES, {"a": np.nan}, {1: 2}, {"a": object()}, {"é": [1, None]}])
        )
    if seldom(data.draw, 3):
        more["normalize"] = data.draw(st.sampled_from([True, True, True, *ODD_VALUES]))
    metric = attempt(MahalanobisMetric, data.draw(matrices()), **more)
    if metric is None:
        return
    assert_metric(metric.components)
    d = metric.components.shape[1]
    a, b = (data.draw(matrices(columns=st.sampled_from([d, d, 1]))) for _ in range(2))
    for call in (lambda: metric.transform(a), lambda: metric.distance(a, b), lambda: metric(a, b)):
        attempt(call)
    tuples = data.draw(tuples_of(a))
    found = attempt(metric.decision_function, tuples)
    assert found is None or not np.isnan(found).any()
    assert attempt(metric.predict, tuples) is None or attempt(metric.score, tuples) == np.mean(found > 0)
    shorter = attempt(metric.truncate, data.draw(values(1, 2, None)))
    if shorter is not None:
        assert_metric(shorter.components, d)


@cases(20)
@given(st.data())
def test_model_files(tmp_path_factory, data):
    """What can be saved can be loaded, and is the same."""
    path = tmp_path_factory.mktemp("model") / data.draw(st.sampled_from(["m.safetensors", "日本.x", "a b"]))
    about = data.draw(
        st.dictionaries(
            st.sampled_from([*WORDS, 1, None]),
            st.recursive(
                st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS)),
                st.lists,
                max_leaves=5,
            ),
            max_size=3,
        )
    )
    names = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(WORDS), min_size=2, max_size=2)))
    metric = MahalanobisMetric(np.array([[1.5, -0.0], [5e-324, 1e150]]), feature_names=names, about=about)

    def save():
        metric.save(path)
        return True

    if attempt(save):
        loaded = MahalanobisMetric.load(path)
        assert loaded.components.tobytes() == metric.components.tobytes()
        assert loaded.feature_names == names
    else:
        assert not path.exists()


# Scores.


@cases(40)
@given(st.data())
def test_nearest_neighbor_errors(data):
    X, X_test = data.draw(matrices()), data.draw(matrices())
    y, y_test = data.draw(labels(size_of(X))), data.draw(labels(size_of(X_test)))
    k = data.draw(values(1, 3))
    attempt(knn_predict, X, y, X_test, k)
    error = attempt(knn_error, X, y, X_test, y_test, k)
    assert error is None or 0 <= error <= 1


@cases(60)
@given(st.data())
def test_ranking_scores(data):
    entries = [st.sampled_from([0, 1]), st.sampled_from(GRADES), st.sampled_from([*GRADES * 3, *ODD_GRADES])]
    table_of = st.sampled_from(entries).flatmap(lambda one: st.lists(st.lists(one, min_size=3, max_size=3), max_size=5))
    tables = st.one_of(table_of, table_of, matrices())
    table = data.draw(tables)
    n = size_of(table)
    k = data.draw(values(1, 2))
    counts = data.draw(st.one_of(st.just(np.full(n, 3)), labels(n), weights(n)))
    for score in (
        lambda: hit_at_k(table, k),
        lambda: precision_at_k(table, k),
        lambda: recall_at_k(table, counts, k),
        lambda: reciprocal_rank_at_k(table, k),
        lambda: average_precision_at_k(table, counts, k),
        lambda: ndcg_at_k(table, table, k),
        lambda: ndcg_at_k(table, data.draw(tables), k, data.draw(values("linear", "exponential"))),
    ):
        answer = attempt(score)
        assert answer is None or (np.isfinite(answer).all() and (answer >= 0).all())


METRICS = st.sampled_from(
    [None] * 2
    + [
        MahalanobisMetric([[1.0, 0.0]]),
        MahalanobisMetric(1e-300 * np.eye(2)),
        MahalanobisMetric(1e150 * np.eye(2)),
        MahalanobisMetric([[1e150, -1e150], [0.0, 1.0]]),
        MahalanobisMetric([[0.0, 0.0]]),
        MahalanobisMetric([[1e-200, 0.0], [1.0, 1e100]], normalize=True),
        BoostMetric,
        BoostMetric.paper(),
        3,
        "metric",
        np.eye(2),
    ]
)
TWO = st.sampled_from([2, 2, 2, 2, 3])


def assert_evaluation(result):
    assert all(0 <= row.base <= 1 for row in result.rows)
    assert all(row.learned is None or 0 <= row.learned <= 1 for row in result.rows)
    assert result.sentence


@cases(40)
@given(st.data())
def test_evaluation_by_labels(data):
    X = data.draw(matrices(columns=TWO))
    y = data.draw(labels(size_of(X)))
    given = given_parameters(
        data.draw,
        k=(1, 2, (1, 3), []),
        n_neighbors=(1, 3, [1, 2]),
        by=("query", "class"),
        n_bootstrap=(5,),
        headline=("MRR@2", "x"),
        random_state=(0, None),
    )
    if data.draw(st.booleans()):
        R = data.draw(matrices(columns=TWO))
        given["reference"] = (R, data.draw(labels(size_of(R))))
    result = attempt(evaluate, data.draw(METRICS), X, y, **{"n_bootstrap": 5, "k": 1, "n_neighbors": 1, **given})
    if result is not None:
        assert_evaluation(result)


@cases(40)
@given(st.data())
def test_evaluation_by_rankings(data):
    queries = data.draw(matrices(columns=TWO))
    documents = data.draw(st.one_of(st.none(), matrices(columns=TWO)))
    n = max(1, min(size_of(queries), size_of(documents)))
    grades = st.one_of(*[st.sampled_from(GRADES)] * 20, st.sampled_from(ODD_GRADES))
    n = n if documents is None else min(n, 50)
    judgements = st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), grades), min_size=1, max_size=8)
    relevance = data.draw(st.one_of(judgements, judgements, rows(3, n), matrices()))
    given = given_parameters(
        data.draw,
        k=(1, 2, [1, 2]),
        gain=("linear", "exponential"),
        relevant_above=(0.0, 1.0),
        headline=("MRR@1", "x"),
        random_state=(0,),
    )
    result = attempt(
        evaluate_rankings, data.draw(METRICS), queries, documents, relevance, **{"n_bootstrap": 5, "k": 1, **given}
    )
    if result is not None:
        assert_evaluation(result)


@cases(40)
@given(st.data())
def test_evaluation_by_comparisons(data):
    points = data.draw(matrices(rows=st.integers(3, 10), columns=TWO))
    width = data.draw(st.sampled_from([2, 3, 4]))
    comparisons = data.draw(rows(width, min(size_of(points), 50)))
    n = size_of(comparisons)
    y = np.where(np.arange(n) % 2, 1, -1) if width == 2 else None
    if seldom(data.draw, 10):
        y = data.draw(labels(n))
    result = attempt(evaluate_comparisons, data.draw(METRICS), comparisons, points, y=y, n_bootstrap=5)
    if result is not None:
        assert_evaluation(result)


@cases(20)
@given(st.data())
def test_scores_by_rank_and_reports(tmp_path_factory, data):
    X = data.draw(matrices(columns=TWO))
    kind = data.draw(st.sampled_from([LabelTask, RankingTask, ComparisonTask]))
    if kind is LabelTask:
        task = attempt(LabelTask.of, X, data.draw(labels(size_of(X))), k=1, n_neighbors=1)
    elif kind is RankingTask:
        task = attempt(RankingTask.of, X, None, data.draw(rows(3, max(3, min(50, size_of(X))))), k=1)
    else:
        task = attempt(ComparisonTask.of, data.draw(rows(3, max(3, min(50, size_of(X))))), X)
    metric = data.draw(METRICS)
    if task is not None:
        scores = attempt(
            scores_by_rank, metric, task, ranks=data.draw(st.sampled_from([None, [1], [2, 1], [0], [9], "1", 3]))
        )
        assert scores is None or all(0 <= score <= 1 for _, score in scores)
    path = tmp_path_factory.mktemp("report") / "é.html"
    more = {"task": task} if task is not None and data.draw(st.booleans()) else {"points": X}
    for name in ("ids", "labels"):
        if data.draw(st.booleans()):
            more[name] = data.draw(labels(size_of(X)))
    if seldom(data.draw, 6):
        more["title"] = data.draw(st.sampled_from([*WORDS, "<script>", 3, None]))

    def write():
        write_model_report(path, metric, n_bootstrap=5, sample_queries=2, **more)
        return True

    if attempt(write):
        assert "</html>" in path.read_text(encoding="utf-8")
    else:
        assert not path.exists()


@cases(30)
@given(st.data())
def test_splits(data):
    split = data.draw(st.sampled_from([split_queries, split_classes]))
    y = data.draw(labels(data.draw(st.integers(0, 9))))
    parts = attempt(split, y, data.draw(values(0.2, 0.5)), data.draw(values(0, None)))
    if parts is not None:
        train, test = parts
        assert len(train)
        assert len(test)
        assert not np.intersect1d(train, test).size


# Search, mining, export.

IDS = st.one_of(
    st.integers(),
    st.sampled_from(WORDS),
    st.floats(),
    st.booleans(),
    st.none(),
    st.tuples(st.integers(), st.text(max_size=2)),
    st.just([1]),
    st.just(b"x"),
    st.just(object()),
)


@cases(50)
@given(st.data())
def test_index(tmp_path_factory, data):
    index = attempt(
        MetricIndex,
        data.draw(METRICS),
        **given_parameters(
            data.draw, backend=("exact", "exact", "faiss-flat", "nope"), backend_options=(None, {}, {"links": 4})
        ),
    )
    if index is None:
        return
    for _ in range(data.draw(st.integers(1, 3))):
        X = data.draw(matrices(columns=TWO))
        n = size_of(X)
        ids = data.draw(
            st.one_of(
                st.none(),
                st.none(),
                st.lists(IDS, min_size=min(n, 14), max_size=min(n, 14)),
                st.sampled_from(ODD_VALUES),
            )
        )
        before = index.ids
        if attempt(index.add, X, ids) is None:
            assert index.ids == before
    found = attempt(
        index.search,
        data.draw(matrices(columns=TWO)),
        data.draw(values(1, 2, len(index) or 1)),
        as_table=data.draw(st.booleans()),
    )
    if isinstance(found, tuple):
        assert np.isfinite(found[1]).all()
        assert (np.diff(found[1], axis=1) >= 0).all() or index.backend == "exact"
    attempt(
        index.remove,
        data.draw(st.one_of(st.lists(IDS, max_size=2), st.just(index.ids[:1]), st.sampled_from(ODD_VALUES))),
    )
    path = tmp_path_factory.mktemp("index") / "index.safetensors"

    def save():
        index.save(path)
        return True

    if attempt(save):
        assert MetricIndex.load(path).ids == index.ids


@cases(50)
@given(st.data())
def test_hard_negatives(data):
    X = data.draw(matrices(columns=TWO))
    margins = (None, 0.0, 0.1, -0.5, (0.0, 1.0), (None, 0.5), (1.0, 0.0), 1e300, -1e300)
    given = given_parameters(
        data.draw,
        ranks=((1, 100), (2, 2), (5, 1)),
        n_negatives=(None, 1),
        per_query=(None, 2),
        choice=("nearest", "random"),
        relative_margin=margins,
        margin=margins,
        near_duplicate=(None, 0.0, 0.1, 1e300),
        random_state=(0, None),
    )
    given["metric"] = data.draw(METRICS)
    if data.draw(st.booleans()):
        mined = attempt(
            mine_from_labels, X, data.draw(labels(size_of(X))), **{"n_positives": data.draw(values(1, 2)), **given}
        )
    else:
        documents = data.draw(st.one_of(st.none(), matrices(columns=TWO)))
        n = min(size_of(X), size_of(documents), 50)
        for name in ("groups", "excluded"):
            if seldom(data.draw, 4):
                given[name] = data.draw(labels(size_of(documents)) if name == "groups" else rows(2, n))
        mined = attempt(mine_triplets, X, documents, data.draw(rows(2, n)), **given)
    if mined is not None:
        assert mined.triplets.shape[1] == 3
        assert (mined.triplets >= 0).all()
        assert mined.describe()
        if len(mined.triplets):
            assert_comparisons(Comparisons.from_triplets(mined.triplets))


@cases(30)
@given(st.data())
def test_export(tmp_path_factory, data):
    metric = data.draw(METRICS)
    folder = tmp_path_factory.mktemp("export")
    dtype = data.draw(values("float16", "float32", "float64"))
    path = attempt(to_numpy, metric, folder / "m.npy", dtype)
    if path is not None:
        assert np.isfinite(np.load(path)).all()
    attempt(to_query_side, metric, folder / "q.npz", dtype, data.draw(values(1.0, 1e-300, 1e300)))
    change = attempt(largest_change, metric, dtype)
    assert change is None or change >= 0
    side = attempt(query_side, metric, data.draw(values(1.0, 5.0)))
    if side is not None:
        X = data.draw(matrices(columns=TWO))
        for use in (side.transform_queries, side.document_numbers, side.extended_queries, side.extended_documents):
            attempt(use, X)


@cases(20)
@given(st.data())
def test_callbacks(tmp_path_factory, data):
    attempt(EarlyStopping, data.draw(values(1, 5)))
    attempt(
        Checkpoint,
        data.draw(st.sampled_from([tmp_path_factory.mktemp("c") / "x.npz", *ODD_VALUES])),
        data.draw(values(1, 5)),
    )
    attempt(Checkpoint.load, data.draw(st.sampled_from(["nowhere", *ODD_VALUES])))
    attempt(MahalanobisMetric.load, data.draw(st.sampled_from(["nowhere", *ODD_VALUES])))
    attempt(MetricIndex.load, data.draw(st.sampled_from(["nowhere", *ODD_VALUES])))
