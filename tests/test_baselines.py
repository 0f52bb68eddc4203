"""The contract that all baselines share with BoostMetric."""

import inspect
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from boostmetric import BoostMetric, ComparisonBoostMetric
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
from boostmetric.callbacks import Checkpoint
from boostmetric.solver.result import Iteration, StopReason
from test_callbacks import Recorder, needs_sklearn_callbacks

X, Y = load_wine(return_X_y=True)
ITERATIVE = [
    LMNN(),
    MMC(),
    MMC(diagonal=True),
    NCA(max_iter=10),
    PSDBoost(),
    ITML(tol=1e-6, random_state=0),
    LSML(tol=1e-8, random_state=0),
    MLKR(max_iter=10),
    SCML(n_basis=40, tol=1e-6, random_state=0),
    SDML(tol=1e-12, random_state=0),
]

ALL = [Euclidean(), Covariance(), RCA(), LFDA(), GMML(), DMLMJ(), *ITERATIVE]
FROM_CLASSES = [learner for learner in ALL if not isinstance(learner, (Euclidean, Covariance, MLKR))]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.filterwarnings("ignore:.*classes have fewer than n_neighbors")
@parametrize_with_checks(
    [
        *ALL,
        RCA(n_components=1),
        Covariance(n_components=1),
        LFDA(n_components=1),
        GMML(n_components=1),
        DMLMJ(n_components=1),
        SDML(n_components=1, prior="identity"),
        ITML(n_components=1, prior="identity"),
        LSML(n_components=1, prior="identity"),
        MLKR(n_components=1, init="random", max_iter=20),
        SCML(n_components=1, n_basis=20),
        NCA(n_components=1, init="random", random_state=0),
        MMC(n_components=1),
        PSDBoost(n_components=1),
        LMNN(n_components=1, n_passes=2, init="standardized-rca", max_iter=50),
    ],
    expected_failed_checks=lambda estimator: dict.fromkeys(
        ["check_sample_weight_equivalence_on_dense_data"] if isinstance(estimator, (LMNN, PSDBoost)) else [],
        "a sample given twice becomes its own nearest target: weights are those of the comparisons about a sample",
    ),
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module", params=ALL, ids=lambda learner: type(learner).__name__)
def fitted(request):
    return clone(request.param).fit(X, Y)


def test_transform_measures_the_learned_distance(fitted):
    mapped = fitted.transform(X)
    difference = X[:5] - X[5:10]
    expected = np.sqrt(np.einsum("ni,ij,nj->n", difference, fitted.get_mahalanobis_matrix(), difference))
    assert np.linalg.norm(mapped[:5] - mapped[5:10], axis=1) == pytest.approx(expected)
    assert fitted.pair_distance(np.stack([X[:5], X[5:10]], axis=1)) == pytest.approx(expected)
    assert fitted.get_metric()(X[0], X[5]) == pytest.approx(expected[0])
    assert str(fitted.stop_reason_)


def described(learner, section):
    """Names in a section of the docstring."""
    documentation = inspect.getdoc(type(learner))
    entries = re.search(rf"^{section}\n-+\n((?:.+\n)+)", documentation, re.M)
    headers = re.findall(r"^(\S.*?) : ", entries[1] if entries else "", re.M)
    return [name for header in headers for name in header.split(", ")]


@pytest.mark.parametrize(
    "learner", [*ALL, BoostMetric(), ComparisonBoostMetric()], ids=lambda learner: type(learner).__name__
)
def test_docstring_describes_the_parameters(learner):
    signature = inspect.signature(type(learner)).parameters
    assert sorted(described(learner, "Parameters")) == sorted(signature)
    stated = dict(re.findall(r"^(\w+) : .*default=(\S+)$", inspect.getdoc(type(learner)), re.M))
    for name, value in stated.items():
        assert eval(value, {}) == signature[name].default, name


def test_docstring_describes_attributes_that_are_there(fitted):
    attributes = described(fitted, "Attributes")
    assert len(set(attributes)) == len(attributes) >= 4
    for name in set(attributes) - {"threshold_", "feature_names_in_"}:  # after a fit to pairs, or to named features
        assert hasattr(fitted, name), name


def test_clone_and_pickle(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.transform(X).tobytes() == fitted.transform(X).tobytes()
    with pytest.raises(NotFittedError):
        clone(fitted).transform(X)


@pytest.mark.parametrize("learner", ALL, ids=lambda learner: type(learner).__name__)
def test_pipeline_and_pandas(learner):
    frame, labels = load_iris(return_X_y=True, as_frame=True)
    out = clone(learner).set_output(transform="pandas").fit(frame, labels).transform(frame)
    assert out.columns[0] == f"{type(learner).__name__.lower()}0"
    assert len(out) == 150


def test_grid_search():
    search = GridSearchCV(make_pipeline(LMNN(), KNeighborsClassifier(3)), {"lmnn__push": [0.3, 0.7]}, cv=3).fit(X, Y)
    assert search.best_score_ > 0.9


@pytest.mark.parametrize("learner", ITERATIVE, ids=lambda learner: type(learner).__name__)
def test_callbacks(learner, tmp_path):
    seen = []

    class Stop:
        def on_iteration(self, record):
            seen.append(record)
            return record.number == 2

    path = tmp_path / "checkpoint.npz"
    metric = clone(learner).set_params(callbacks=[Stop(), Checkpoint(path)]).fit(X, Y)
    assert metric.stop_reason_ is StopReason.CALLBACK
    assert [record.number for record in seen] == [1, 2]
    assert all(isinstance(record, Iteration) and np.isfinite(record.loss) for record in seen)
    assert metric.history_ == seen
    assert metric.n_iter_ == 2
    saved = Checkpoint.load(path).metric()
    assert saved.matrix == pytest.approx(seen[-1].so_far().metric().matrix)
    assert seen[-1].trace == pytest.approx(np.trace(saved.matrix))
    with pytest.raises(TypeError, match="callbacks must be a list"):
        clone(learner).set_params(callbacks=3).fit(X, Y)


@needs_sklearn_callbacks
@pytest.mark.parametrize("learner", ITERATIVE, ids=lambda learner: type(learner).__name__)
def test_scikit_learn_callbacks(learner):
    recorder = Recorder(stop_at=2)
    metric = clone(learner).set_callbacks(recorder).fit(X, Y)
    assert metric.n_iter_ == len(recorder.scores) == 2
    assert recorder.events[-2:] == ["end fit", "teardown"]


@pytest.mark.parametrize("learner", ITERATIVE, ids=lambda learner: type(learner).__name__)
def test_progress_goes_to_standard_error(learner, capsys):
    clone(learner).set_params(verbose=1).fit(X, Y)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "loss" in captured.err


@pytest.mark.parametrize("learner", ALL, ids=lambda learner: type(learner).__name__)
def test_silent_unless_asked(learner, capsys):
    clone(learner).fit(X, Y)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("learner", FROM_CLASSES, ids=lambda learner: type(learner).__name__)
def test_labels_that_allow_nothing_are_refused(learner):
    with pytest.raises(ValueError, match="at least 2 classes"):
        clone(learner).fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="requires y to be passed"):
        clone(learner).fit(X, None)
