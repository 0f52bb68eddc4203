"""metric-learn's interface: the same names and, where metric-learn reaches its minimum, the same numbers.

Its own tests are run by ``make metric-learn``. Matrices that are written out are those of metric-learn 0.7.0 with
scikit-learn 1.5.2.
"""

import numpy as np
import pytest
from benchmarks.same_interface import lsml as lsml_objective
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

import boostmetric.metric_learn as metric_learn
from boostmetric.metric_learn.exceptions import NonPSDError, PreprocessorError
from boostmetric.metric_learn.tuples import compared

X, Y = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
ROWS = np.array([RNG.permutation(150)[:2] for _ in range(100)])
KINDS = np.where(Y[ROWS[:, 0]] == Y[ROWS[:, 1]], 1, -1)

SUPERVISED = [
    metric_learn.Covariance(),
    metric_learn.LFDA(),
    metric_learn.LMNN(),
    metric_learn.NCA(),
    metric_learn.RCA_Supervised(n_chunks=30, random_state=0),
    metric_learn.ITML_Supervised(random_state=0),
    metric_learn.LSML_Supervised(random_state=0),
    metric_learn.MMC_Supervised(random_state=0),
    metric_learn.SCML_Supervised(n_basis=60, random_state=0),
    metric_learn.SDML_Supervised(balance_param=1e-5, random_state=0),
]


@pytest.mark.filterwarnings("ignore:The number of bases with nonzero weight")
@pytest.mark.parametrize("learner", SUPERVISED, ids=lambda learner: type(learner).__name__)
def test_points_or_indicators(learner):
    by_point = clone(learner).fit(X, Y)
    by_number = clone(learner).set_params(preprocessor=X).fit(np.arange(150), Y)
    np.testing.assert_array_equal(by_point.components_, by_number.components_)
    np.testing.assert_array_equal(by_point.transform(X[:5]), by_number.transform(np.arange(5)))
    assert by_number.pair_score([[0, 1]]) == pytest.approx(-by_point.get_metric()(X[0], X[1]))


def test_itml_is_theirs():
    theirs = [
        [1.13104218, -0.53275539, -0.52507553, -0.39217976],
        [-0.53275539, 0.9203692, -0.16373197, -0.38621984],
        [-0.52507553, -0.16373197, 0.66545584, 0.50591401],
        [-0.39217976, -0.38621984, 0.50591401, 3.10201472],
    ]
    itml = metric_learn.ITML(tol=1e-7).fit(X[ROWS], KINDS)
    np.testing.assert_allclose(itml.get_mahalanobis_matrix(), theirs, atol=3e-4)
    np.testing.assert_allclose(itml.bounds_, [0.38729833, 5.46351535])


def test_covariance_is_theirs():
    matrix = metric_learn.Covariance().fit(X).get_mahalanobis_matrix()
    np.testing.assert_allclose(matrix, np.linalg.inv(np.cov(X, rowvar=False)), rtol=1e-8)


def test_lsml_goes_further():
    near, far = ROWS[KINDS == 1][:20], ROWS[KINDS == -1][:20]
    theirs = np.array(
        [
            [0.93475206, 0.06047517, -0.23721954, -0.10593694],
            [0.06047517, 1.05875647, 0.10687584, 0.04543833],
            [-0.23721954, 0.10687584, 0.32177879, -0.31378826],
            [-0.10593694, 0.04543833, -0.31378826, 0.86662071],
        ]
    )
    quadruplets = X[np.concatenate([far, near], axis=1)]
    ours = metric_learn.LSML(tol=1e-6).fit(quadruplets)
    data = {"quadruplets": quadruplets}
    assert lsml_objective(ours.components_, data) < lsml_objective(np.linalg.cholesky(theirs).T, data)


def test_thresholds_are_distances():
    mmc = metric_learn.MMC().fit(X[ROWS], KINDS)
    mmc.set_threshold(0.2)
    np.testing.assert_array_equal(mmc.predict(X[ROWS]), np.where(mmc.pair_distance(X[ROWS]) <= 0.2, 1, -1))
    np.testing.assert_array_equal(mmc.decision_function(X[ROWS]), -mmc.pair_distance(X[ROWS]))


def test_unknown_labels_are_left_out():
    partial = np.where(np.arange(150) % 2, -1, Y)
    constraints = metric_learn.Constraints(partial)
    a, b, c, d = constraints.positive_negative_pairs(50, random_state=0)
    assert (partial[np.concatenate([a, b, c, d])] >= 0).all()
    assert (Y[a] == Y[b]).all()
    assert (Y[c] != Y[d]).all()
    i, j, k = constraints.generate_knntriplets(X, 2, 3).T
    assert (partial[np.concatenate([i, j, k])] >= 0).all()
    assert len(i) == 75 * 6
    assert (Y[i] == Y[j]).all()
    assert (Y[i] != Y[k]).all()
    chunks = constraints.chunks(10, 3, random_state=0)
    assert (np.bincount(chunks + 1)[1:] == 3).all()
    assert (partial[chunks >= 0] >= 0).all()


def test_errors_have_their_types():
    with pytest.raises(PreprocessorError, match="An error occurred when trying to use the preprocessor"):
        metric_learn.ITML(preprocessor=X[:10]).fit(ROWS, KINDS)
    with pytest.raises(NonPSDError):
        metric_learn.ITML(prior=np.diag([1.0, 1, 1, -1])).fit(X[ROWS], KINDS)
    with pytest.raises(ValueError, match="Tuples of 2 element"):
        metric_learn.ITML().fit(X[ROWS[:, [0, 1, 1]]], KINDS)
    for learner in (metric_learn.ITML(), metric_learn.MMC(), metric_learn.SDML()):
        with pytest.raises(ValueError, match="No pair is dissimilar: all of y is 1"):
            learner.fit(X[ROWS], np.ones(100))
        with pytest.raises(ValueError, match="Pairs need y: 1 for similar"):
            learner.fit(X[ROWS], None)
    with (
        pytest.raises(RuntimeError, match=r"raise sparsity\. Here balance_param is 0\.5, times the number of pairs"),
        pytest.warns(ConvergenceWarning, match="not positive semi-definite"),
    ):
        metric_learn.SDML().fit(X[ROWS], KINDS)
    with pytest.raises(ValueError, match="Invalid n_components"):
        metric_learn.NCA(n_components=7).fit(X, Y)
    with pytest.warns(UserWarning, match="no value for `n_basis`"):
        metric_learn.SCML_Supervised(random_state=0).fit(X, Y)


def test_equal_points_of_tuples_are_one_point_but_not_within_a_tuple():
    points = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 6.0], [0.0, -1.0]])
    rows = np.array([[0, 1, 2], [0, 1, 3], [3, 0, 3], [1, 1, 2], [0, 1, 2]])
    distinct, comparisons = compared(points[rows])
    assert len(distinct) == 4 + 2
    found = distinct[np.array(list(comparisons.quadruplets()))]
    expected = points[rows[:, [0, 1, 0, 2]]]
    for pair in (slice(0, 2), slice(2, 4)):
        assert np.sort(found[:, pair], axis=1) == pytest.approx(np.sort(expected[:, pair], axis=1))


def test_tuples_by_their_names():
    triplets = np.array([[0, 1, 60], [51, 52, 110], [2, 100, 3]])
    seen = metric_learn.Constraints(Y).generate_knntriplets(X, 2, 2)
    scml = metric_learn.SCML(preprocessor=X, n_basis=20, random_state=0).fit(seen)
    assert scml.predict(triplets=triplets).tolist() == [1, 1, -1]
    assert (np.sign(scml.decision_function(triplets=triplets)) == [1, 1, -1]).all()
    assert scml.score(triplets=triplets) == 2 / 3
    quadruplets = triplets[:, [0, 1, 0, 2]]
    lsml = metric_learn.LSML(preprocessor=X).fit(seen[:, [0, 1, 0, 2]])
    assert lsml.predict(quadruplets=quadruplets).tolist() == [1, 1, -1]
    assert (np.sign(lsml.decision_function(quadruplets=quadruplets)) == [1, 1, -1]).all()
    assert lsml.score(quadruplets=quadruplets) == 2 / 3


def test_defaults_that_fail_there_too_have_a_remedy():
    with pytest.raises(ValueError, match="maximum number of chunks is 75"):
        metric_learn.RCA_Supervised(random_state=0).fit(X, Y)
    assert metric_learn.RCA_Supervised(n_chunks=75, random_state=0).fit(X, Y).components_.shape == (4, 4)
    with (
        pytest.warns(ConvergenceWarning),
        pytest.raises(RuntimeError, match=r"Lower balance, .* balance_param is 0\.5"),
    ):
        metric_learn.SDML_Supervised(random_state=0).fit(X, Y)
    assert metric_learn.SDML_Supervised(balance_param=1e-4, random_state=0).fit(X, Y).components_.shape == (4, 4)


def test_regression():
    points, target = load_diabetes(return_X_y=True)
    mlkr = metric_learn.MLKR(n_components=2, max_iter=50).fit(points, target)
    assert mlkr.components_.shape == (2, 10)


@pytest.mark.parametrize("learner", [metric_learn.Covariance(), metric_learn.ITML_Supervised()])
@pytest.mark.filterwarnings("ignore:Only generated")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_contract(learner):
    check_estimator(learner)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.full((5, 4), np.nan), "contains NaN"),
        (np.full((5, 4), np.inf), "contains infinity"),
        (np.zeros((1, 4)), "a minimum of 2 is required"),
        (np.zeros((5, 0)), "0 feature"),
    ],
)
def test_plain_arrays_are_checked_as_lists_are(points, message):
    y = np.arange(len(points)) % 2
    for learner in (metric_learn.Covariance(), metric_learn.LFDA()):
        for given in ((points, y), (points.tolist(), y.tolist())):
            with pytest.raises(ValueError, match=message):
                learner.fit(*given)


def test_plain_arrays_give_what_lists_give():
    for name in ("Covariance", "LFDA", "RCA"):
        y = np.arange(len(X)) // 3 if name == "RCA" else Y
        by_array, by_list = (getattr(metric_learn, name)().fit(*data) for data in ((X, y), (X.tolist(), y.tolist())))
        assert (by_array.components_ == by_list.components_).all()
    for pairs in (X[ROWS].astype(np.float32), X[ROWS].tolist()):
        assert metric_learn.MMC().fit(pairs, KINDS).components_.shape == (4, 4)
