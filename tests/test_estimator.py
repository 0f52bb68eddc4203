"""BoostMetric as a scikit-learn estimator."""

import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info

import boostmetric
from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.solver.result import StopReason

X, Y = load_wine(return_X_y=True)


@pytest.mark.filterwarnings("ignore:.*classes have fewer than n_neighbors")
@pytest.mark.filterwarnings("ignore:Nothing was learned")
@parametrize_with_checks(
    [
        BoostMetric.paper(),
        BoostMetric.paper(n_components=1, n_impostors="all", line_search="bisection", tol=1e-3),
        BoostMetric.paper(early_stopping=True, validation_fraction=0.3, warm_start=True),
        BoostMetric.paper(solver="corrective"),
        BoostMetric.paper(loss="logistic", init="standardized-rca", n_passes=2, max_iter=10, random_state=0),
        BoostMetric.recommended(n_passes=2, max_iter=5, random_state=0),
    ],
    expected_failed_checks=lambda estimator: {
        **dict.fromkeys(
            ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
            "a sample given twice becomes its own nearest target: weights are those of the comparisons about a sample",
        ),
        **({} if estimator.init == "zero" else {"check_transformer_n_iter": "no headroom, so no iteration is kept"}),
    },
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted():
    return BoostMetric.paper(max_iter=40).fit(X, Y)


def test_transform_measures_the_learned_distance(fitted):
    Z = fitted.transform(X)
    assert Z.shape == (len(X), fitted.components_.shape[0])
    difference = X[:5] - X[5:10]
    expected = np.sqrt(np.einsum("ni,ij,nj->n", difference, fitted.get_mahalanobis_matrix(), difference))
    assert np.linalg.norm(Z[:5] - Z[5:10], axis=1) == pytest.approx(expected)
    assert fitted.pair_distance(np.stack([X[:5], X[5:10]], axis=1)) == pytest.approx(expected)
    assert fitted.get_metric()(X[0], X[5]) == pytest.approx(expected[0])


def test_directions_and_steps_rebuild_the_matrix(fitted):
    rebuilt = (fitted.directions_.T * fitted.step_sizes_) @ fitted.directions_
    assert fitted.get_mahalanobis_matrix() == pytest.approx(rebuilt, rel=1e-9, abs=1e-12 * np.abs(rebuilt).max())
    assert fitted.n_iter_ == len(fitted.directions_) == len(fitted.step_sizes_) == len(fitted.history_) == 40


def test_stages_are_the_fits_with_fewer_iterations(fitted):
    stages = list(fitted.staged_transform(X))
    assert len(stages) == 40
    for n_iter in (1, 7, 40):
        assert stages[n_iter - 1] == pytest.approx(
            BoostMetric.paper(max_iter=n_iter).fit(X, Y).transform(X), rel=1e-6, abs=1e-9
        )


def test_n_components_is_the_best_approximation(fitted):
    small = BoostMetric.paper(n_components=2, max_iter=40).fit(X, Y)
    assert small.transform(X).shape == (len(X), 2)
    values, vectors = np.linalg.eigh(fitted.get_mahalanobis_matrix())
    best = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    assert small.get_mahalanobis_matrix() == pytest.approx(best, abs=1e-9 * values[-1])
    assert small.get_feature_names_out().tolist() == ["boostmetric0", "boostmetric1"]


def test_learning_lowers_the_error():
    knn = KNeighborsClassifier(3)
    plain, learned = (cross_val_score(model, X, Y).mean() for model in (knn, make_pipeline(BoostMetric.paper(), knn)))
    assert learned > plain + 0.15


def test_pipeline_and_pandas():
    frame, labels = load_iris(return_X_y=True, as_frame=True)
    metric = BoostMetric.paper(max_iter=5).set_output(transform="pandas")
    out = metric.fit_transform(frame, labels)
    assert list(out.columns) == list(metric.get_feature_names_out())
    assert metric.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        metric.transform(frame.rename(columns=str.upper))


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_grid_search(backend):
    search = GridSearchCV(
        make_pipeline(BoostMetric.paper(max_iter=10), KNeighborsClassifier(3)),
        {"boostmetric__n_impostors": [1, 3, "all"]},
        cv=3,
    )
    with parallel_config(backend=backend, n_jobs=2):
        search.fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ > 0.8


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_overlapping_fits_agree_and_leave_blas_as_it_was():
    before = blas_threads()
    expected = BoostMetric.paper(max_iter=100).fit(X, Y).components_
    results = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(BoostMetric.paper(max_iter=50 + 25 * n).fit(X, Y)))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert blas_threads() == before
    (same,) = [metric for metric in results if metric.n_iter_ == 100]
    assert same.components_.tobytes() == expected.tobytes()


def test_clone_and_pickle(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.transform(X).tobytes() == fitted.transform(X).tobytes()
    assert copy.stop_reason_ is fitted.stop_reason_
    fresh = clone(BoostMetric.paper(n_components=3, tol=0.1))
    assert (fresh.n_components, fresh.tol) == (3, 0.1)
    with pytest.raises(NotFittedError):
        fresh.transform(X)
    with pytest.raises(NotFittedError):
        fresh.get_metric()


def test_n_jobs_does_not_change_a_bit(small_shards):
    metrics = [BoostMetric.paper(max_iter=30, n_jobs=n).fit(X, Y) for n in (None, 1, 2, 4, -1)]
    assert len({metric.components_.tobytes() for metric in metrics}) == 1
    assert len({metric.directions_.tobytes() for metric in metrics}) == 1


def test_random_state_makes_high_dimension_repeatable(monkeypatch):
    monkeypatch.setattr("boostmetric.solver.direction.LARGEST_DENSE", 4)
    runs = [BoostMetric.paper(max_iter=5, random_state=3).fit(X, Y).components_ for _ in range(2)]
    assert runs[0].tobytes() == runs[1].tobytes()


def test_callbacks_see_every_iteration_and_may_stop():
    class Stop:
        def __init__(self):
            self.seen = []

        def on_iteration(self, record):
            self.seen.append(record)
            return record.number == 4

    stop = Stop()
    metric = BoostMetric.paper(callbacks=[stop]).fit(X, Y)
    assert metric.stop_reason_ is StopReason.CALLBACK
    assert stop.seen == metric.history_
    assert metric.n_iter_ == 4


def test_an_error_in_a_callback_reaches_the_user():
    class Broken:
        def on_iteration(self, record):
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        BoostMetric.paper(callbacks=[Broken()]).fit(X, Y)


def test_progress_goes_to_standard_error_and_only_when_asked(capfd):
    BoostMetric.paper(max_iter=3).fit(X, Y)
    assert capfd.readouterr() == ("", "")
    BoostMetric.paper(max_iter=3, verbose=1).fit(X, Y)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("Learning: 3 of 3 loss")
    assert "loss" in err


def test_tolerance_stops_early_or_warns():
    metric = BoostMetric.paper(tol=0.1).fit(X, Y)
    assert metric.stop_reason_ is StopReason.DUAL_FEASIBLE
    assert metric.n_iter_ < 500
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 was reached before tol=1e-06") as record:
        BoostMetric.paper(max_iter=2, tol=1e-6).fit(X, Y)
    assert record[0].filename == __file__  # the user's line, not ours


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"regularization": -1.0}, "regularization must be a finite number of at least 0. Got -1.0"),
        ({"regularization": np.nan}, "regularization must be a finite number"),
        ({"regularization": "small"}, "Got 'small'"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1. Got 0"),
        ({"tol": 1.0}, "tol must be a finite number of at least 0 and below 1. Got 1.0"),
        ({"line_search": "golden"}, "line_search must be one of 'exact', 'bisection'. Got 'golden'"),
        ({"n_components": 0}, "n_components must be a whole number of at least 1, or None. Got 0"),
        ({"n_components": 14}, "n_components=14 is more than the 13 features of X"),
        ({"n_neighbors": "three"}, "n_neighbors must be a whole number"),
        ({"n_jobs": "2"}, "n_jobs must be a whole number of threads, -1 for all processors, or None. Got '2'"),
        ({"n_jobs": 0}, "n_jobs must be a whole number of threads"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        BoostMetric.paper(**parameters).fit(X, Y)


def test_a_failed_fit_is_not_a_fit():
    metric = BoostMetric.paper()
    with pytest.raises(ValueError, match="2 classes"):
        metric.fit(X, np.zeros(len(X)))
    with pytest.raises(NotFittedError):
        metric.transform(X)


def test_numpy_booleans_stop_a_fit():
    class Stop:
        def on_iteration(self, record):
            return np.bool_(record.number == 3)

    assert BoostMetric.paper(callbacks=[Stop()]).fit(X, Y).n_iter_ == 3


def test_converging_at_the_last_iteration_is_no_failure():
    n_iter = BoostMetric.paper(tol=0.1).fit(X, Y).n_iter_
    assert BoostMetric.paper(tol=0.1, max_iter=n_iter).fit(X, Y).stop_reason_ is StopReason.DUAL_FEASIBLE


def test_works_without_a_folder_for_compiled_kernels():
    """In a read-only installation whose user has no home, kernels are compiled anew."""
    code = (
        "from numba.core import caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "from boostmetric.kernels import pairs\n"
        "import numpy as np\n"
        "out = np.zeros(1)\n"
        "pairs.gather(np.array([2.0]), np.zeros(1, dtype=np.uint32), out)\n"
        "assert out[0] == 2.0 and not isinstance(pairs.gather._cache, caching.FunctionCache)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_bad_callbacks_are_named():
    with pytest.raises(TypeError, match=r"callbacks must be a list. Got <generator"):
        BoostMetric.paper(callbacks=(c for c in [])).fit(X, Y)
    with pytest.raises(TypeError, match=r"method on_iteration\(record\). Got 3"):
        BoostMetric.paper(callbacks=[3]).fit(X, Y)


IMPORTS = """
import sys
import boostmetric
assert "sklearn" not in sys.modules
from boostmetric import BoostMetric
import boostmetric.baselines
BoostMetric.paper()
assert "numba" not in sys.modules
assert "matplotlib" not in sys.modules
assert "BoostMetric" in dir(boostmetric)
BoostMetric.paper(n_neighbors=1, max_iter=1).fit_transform([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
assert "numba" in sys.modules
assert "torch" not in sys.modules
"""


def test_imports_are_light_and_torch_is_not_imported_for_arrays():
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        boostmetric.nothing  # noqa: B018


class TestMahalanobisMetric:
    def test_truncation_is_the_nearest_metric(self):
        metric = MahalanobisMetric(np.random.default_rng(0).standard_normal((6, 4)))
        values, vectors = np.linalg.eigh(metric.matrix)
        best = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
        assert metric.truncate(2).matrix == pytest.approx(best)
        assert metric.truncate().matrix == pytest.approx(metric.matrix)
        assert metric.truncate().components.shape == (4, 4)
        assert metric.eigenvalues == pytest.approx(values[::-1])

    def test_distances_broadcast(self):
        metric = MahalanobisMetric(np.eye(2, dtype=np.float32))
        assert metric.distance(np.zeros(2), [[3, 4], [0, 1]]).tolist() == [5, 1]
        assert metric.distance(np.float16([6e4, 0]), np.float16([-6e4, 0])) == 120000
        assert repr(metric) == "MahalanobisMetric(n_components=2, n_features=2)"

    def test_zero_metric(self):
        zero = MahalanobisMetric.from_directions(np.zeros((0, 3)), np.zeros(0))
        assert zero.matrix.tolist() == np.zeros((3, 3)).tolist()
        assert zero.truncate(2).components.shape == (1, 3)

    @pytest.mark.parametrize(
        ("action", "message"),
        [
            (lambda: MahalanobisMetric([1.0, 2.0]), "shape"),
            (lambda: MahalanobisMetric(np.zeros((0, 2))), "both positive"),
            (lambda: MahalanobisMetric([[np.nan]]), "NaN"),
            (
                lambda: MahalanobisMetric([[1.0, 2.0]]).transform([[1.0]]),
                r"2 features, but the points have shape \(1, 1\)",
            ),
            (
                lambda: MahalanobisMetric([[1.0]]).truncate(0),
                "rank must be a whole number of at least 1",
            ),
            (lambda: MahalanobisMetric([[1j]]), "complex"),
        ],
    )
    def test_errors(self, action, message):
        with pytest.raises(ValueError, match=message):
            action()

    def test_works_in_a_neighbour_search(self, fitted):
        by_metric = KNeighborsClassifier(3, metric=fitted.get_metric(), algorithm="brute").fit(X[:50], Y[:50])
        by_map = KNeighborsClassifier(3).fit(fitted.transform(X[:50]), Y[:50])
        assert np.array_equal(by_metric.predict(X[50:60]), by_map.predict(fitted.transform(X[50:60])))


def test_pair_distance_checks_its_shape(fitted):
    with pytest.raises(ValueError, match=r"\(n_pairs, 2, n_features\). Got shape \(178, 13\)"):
        fitted.pair_distance(X)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_neighbors": 0},
        {"n_impostors": "foo"},
        {"n_components": 0},
        {"n_components": 2.5},
        {"init": 3},
        {"init": [[np.nan, 0.0]]},
        {"random_state": "x"},
        {"solver": "newton"},
    ],
    ids=str,
)
def test_parameters_are_checked_without_data(wrong):
    """By the error that a fit raises."""
    X, y = load_iris(return_X_y=True)
    with pytest.raises((TypeError, ValueError)) as told:
        BoostMetric.paper(**wrong).check_parameters()
    with pytest.raises(type(told.value)) as raised:
        BoostMetric.paper(**wrong).fit(X, y)
    assert str(raised.value) == str(told.value)


@pytest.mark.parametrize(("n_features", "sizes"), [(127, (5, 10)), (128, (10, 50))])
def test_numbers_of_targets_and_impostors_follow_from_the_features(n_features, sizes):
    X = np.random.default_rng(0).standard_normal((140, n_features))
    metric = BoostMetric(n_passes=1, max_iter=1, random_state=0).fit(X, np.arange(140) % 2)
    assert (metric.n_neighbors_, metric.n_impostors_) == sizes
    metric.set_params(n_impostors=7).fit(X, np.arange(140) % 2)
    assert (metric.n_neighbors_, metric.n_impostors_) == (sizes[0], 7)
