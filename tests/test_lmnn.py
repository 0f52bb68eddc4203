"""LMNN finds the minimum of its objective, which is that of Weinberger and Saul, and knows how near it is."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from boostmetric import Comparisons
from boostmetric.baselines import LMNN
from boostmetric.baselines.lmnn import large_margin
from boostmetric.baselines.lmnn.large_margin import LargeMargin
from boostmetric.callbacks import Checkpoint
from boostmetric.evaluation import knn_error
from boostmetric.neighbors import others_within
from boostmetric.paper.datasets import load
from boostmetric.solver.result import StopReason
from conftest import random_triplets

IRIS, LABELS = load_iris(return_X_y=True)
X, Y = IRIS[::4], LABELS[::4]


def terms(X, y, k=3):
    """Pairs (i, j) of samples and targets, and triplets (i, j, l), written out."""
    distance = cdist(X, X)
    np.fill_diagonal(distance, np.inf)
    pairs = [
        (i, j)
        for i in range(len(X))
        for j in sorted(np.flatnonzero(y == y[i]), key=lambda j: distance[i, j])[:k]
        if i != j
    ]
    return pairs, [(i, j, k) for i, j in pairs for k in np.flatnonzero(y != y[i])]


def differences(X, pairs):
    i, j = np.array(pairs).T
    return X[i] - X[j]


def objective(X, pairs, triplets, M, push=0.5):
    def squares(pairs):
        d = differences(X, pairs)
        return np.einsum("ni,ij,nj->n", d, M, d)

    near, far = squares([t[:2] for t in triplets]), squares([(t[0], t[2]) for t in triplets])
    return (1 - push) * squares(pairs).sum() + push * np.maximum(0, 1 + near - far).sum()


def minimum_by_convex_solver(X, pairs, triplets, push=0.5):
    M = cp.Variable((X.shape[1],) * 2, PSD=True)

    def outer(pairs):
        d = differences(X, pairs)
        return np.einsum("ni,nj->nij", d, d).reshape(len(d), -1)

    near, far = outer([t[:2] for t in triplets]), outer([(t[0], t[2]) for t in triplets])
    hinges = cp.sum(cp.pos(1 + (near - far) @ cp.vec(M, order="C")))
    pull = outer(pairs).sum(axis=0) @ cp.vec(M, order="C")
    problem = cp.Problem(cp.Minimize((1 - push) * pull + push * hinges))
    return problem.solve(solver=cp.CLARABEL)


@pytest.fixture(scope="module", params=[0.5, 0.8])
def push(request):
    return request.param


@pytest.mark.filterwarnings("error")
def test_finds_the_minimum_that_a_convex_solver_finds(push):
    pairs, triplets = terms(X, Y)
    optimum = minimum_by_convex_solver(X, pairs, triplets, push)
    metric = LMNN(push=push, tol=1e-5).fit(X, Y)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.objective_ == pytest.approx(
        objective(X, pairs, triplets, metric.get_mahalanobis_matrix(), push), rel=1e-9
    )
    assert optimum * (1 - 1e-7) <= metric.objective_ <= optimum * (1 + 1e-5)
    assert metric.objective_ - metric.duality_gap_ <= optimum * (1 + 1e-7)


def test_given_triplets_are_learned_from_alone():
    problem = random_triplets(3, n_points=20, n_features=3, n_triplets=60)
    triplets = sorted(set(_triplets(problem)))
    metric = LMNN(tol=1e-5).fit(problem.points, comparisons=triplets)
    pairs = sorted({(i, j) for i, j, _ in triplets})
    optimum = minimum_by_convex_solver(problem.points, pairs, triplets)
    assert metric.objective_ == pytest.approx(optimum, rel=1e-5)
    assert metric.objective_ == pytest.approx(
        objective(problem.points, pairs, triplets, metric.get_mahalanobis_matrix()), rel=1e-9
    )


def _triplets(problem):
    for i, j, k, m in problem.quadruplets:
        (anchor,) = {i, j} & {k, m}
        yield anchor, i + j - anchor, k + m - anchor


def test_labels_are_comparisons_with_all_impostors():
    from_labels = LMNN(tol=1e-4).fit(X, Y)
    comparisons = Comparisons.from_labels(X, Y, n_impostors="all")
    given = LMNN(tol=1e-4).fit(X, comparisons=comparisons)
    assert given.objective_ == pytest.approx(from_labels.objective_, rel=2e-4)


def test_slope_is_the_derivative():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((20, 3))
    comparisons = Comparisons.from_labels(points, rng.integers(0, 2, 20), n_impostors=10)
    margin = LargeMargin(points, comparisons, np.array([1.0, 2.0, 3.0]), 0.3)

    def value(flat):
        return margin.at(flat.reshape(2, 3), 0.7).smooth

    def slope(flat):
        margin.at(flat.reshape(2, 3), 0.7)
        return margin.slope(flat.reshape(2, 3)).ravel()

    for rows in rng.standard_normal((5, 6)):
        assert check_grad(value, slope, rows) < 1e-5 * np.linalg.norm(slope(rows))


def test_rounded_corners_are_below_the_hinge_by_half_their_width_at_most():
    comparisons = Comparisons.from_labels(X, Y, n_impostors="all").listed()
    margin = LargeMargin(X, comparisons, np.ones(4), 0.5)
    sharp, round_ = margin.at(np.eye(4), 1e-9), margin.at(np.eye(4), 0.5)
    assert sharp.smooth == pytest.approx(sharp.exact, rel=1e-7)
    assert round_.exact == sharp.exact
    assert sharp.exact - 0.5 * 0.25 * comparisons.n_comparisons <= round_.smooth < sharp.exact


def test_units_do_not_matter():
    """The objective is that of distances only: in other units the same minimum, with the same targets, is found."""
    plain, stretched = (LMNN(tol=1e-4).fit(factor * X, Y) for factor in (1.0, 1e-3))
    assert stretched.objective_ == pytest.approx(plain.objective_, rel=2e-4)
    assert 1e-3 * stretched.components_ == pytest.approx(plain.components_, rel=0.05, abs=0.05)


def test_wine_in_its_own_units():
    wine, labels = load_wine(return_X_y=True)
    metric = LMNN().fit(wine, labels)
    assert metric.duality_gap_ < 1e-3 * metric.objective_
    train, test = np.arange(len(wine)) % 2 == 0, np.arange(len(wine)) % 2 == 1
    learned = LMNN().fit(wine[train], labels[train])
    errors = [
        knn_error(f(wine[train]), labels[train], f(wine[test]), labels[test]) for f in (np.asarray, learned.transform)
    ]
    assert errors[1] < 0.08 < errors[0]


@pytest.mark.parametrize("reach", [1.0, 3.0])
def test_candidates_change_the_way_not_the_minimum(monkeypatch, reach):
    expected = LMNN(tol=1e-4).fit(X, Y).objective_
    monkeypatch.setattr(large_margin, "_REACH", reach)
    monkeypatch.setattr(large_margin, "_FIRST_ROUND", 50)
    assert LMNN(tol=1e-4).fit(X, Y).objective_ == pytest.approx(expected, rel=2e-4)


def test_a_lost_rank_is_found_again():
    """From a metric along one axis only, L-BFGS alone stays there."""
    metric = LMNN(init=[[0.0, 0.0, 1.0, 0.0]], tol=1e-4).fit(X, comparisons=Comparisons.from_labels(X, Y, 3, "all"))
    assert metric.objective_ == pytest.approx(LMNN(tol=1e-4).fit(X, Y).objective_, rel=2e-4)


def test_fewer_components():
    metric = LMNN(2).fit(IRIS, LABELS)
    assert metric.transform(IRIS).shape == (150, 2)
    whole = LMNN().fit(IRIS, LABELS)
    assert whole.objective_ * (1 - 1e-3) <= metric.objective_ < 1.2 * whole.objective_
    assert metric.objective_ - metric.duality_gap_ <= whole.objective_
    # Not convex, but from elsewhere the same minimum is found, with the same targets.
    comparisons = Comparisons.from_labels(IRIS, LABELS, n_impostors="all")
    elsewhere = LMNN(2, init=whole.get_metric()).fit(IRIS, comparisons=comparisons)
    assert elsewhere.objective_ == pytest.approx(metric.objective_, rel=1e-3)


def test_passes_find_targets_again():
    points, labels = (array[::3] for array in load("balance"))
    once, twice = (LMNN(n_passes=n).fit(points, labels) for n in (1, 2))
    pairs, triplets = terms(once.transform(points), labels)
    assert twice.objective_ == pytest.approx(
        objective(points, pairs, triplets, twice.get_mahalanobis_matrix()), rel=1e-9
    )
    assert twice.n_iter_ > once.n_iter_
    assert LMNN(init=once.get_metric()).fit(points, labels).objective_ == pytest.approx(twice.objective_, rel=1e-9)


def test_weights_are_factors():
    plain = LMNN(tol=1e-4).fit(X, Y)
    double = LMNN(tol=1e-4).fit(X, Y, sample_weight=np.full(len(X), 2.0))
    assert double.objective_ == pytest.approx(2 * plain.objective_, rel=2e-4)
    weights = np.where(Y == 0, 0.0, 1.0)
    pairs, triplets = terms(X, Y)
    kept = [p for p in pairs if Y[p[0]] != 0], [t for t in triplets if Y[t[0]] != 0]
    some = LMNN(tol=1e-4).fit(X, Y, sample_weight=weights)
    assert some.objective_ == pytest.approx(objective(X, *kept, some.get_mahalanobis_matrix()), rel=1e-9)


RNG = np.random.default_rng(0)
EDGES = {
    "classes of k or fewer": (RNG.standard_normal((9, 2)), [0, 0, 1, 1, 1, 2, 2, 2, 2]),
    "a sample alone in its class": (RNG.standard_normal((9, 2)), [0, 1, 1, 1, 1, 2, 2, 2, 2]),
    "no impostors": (np.concatenate([RNG.random((8, 3)), 1e3 + RNG.random((8, 3))]), np.repeat([0, 1], 8)),
    "more features than samples": (RNG.standard_normal((12, 30)), np.arange(12) % 3),
    "duplicated samples": (np.repeat(RNG.standard_normal((6, 2)), 4, axis=0), np.repeat([0, 1, 0, 1, 0, 1], 4)),
    "the same samples in both classes": (np.tile(RNG.standard_normal((6, 2)), (2, 1)), np.repeat([0, 1], 6)),
    "classes that are points": (np.repeat(np.eye(3), 5, axis=0), np.repeat([0, 1, 2], 5)),
    "no spread within classes along a feature": (
        np.c_[RNG.standard_normal(16), np.repeat([0.0, 1.0], 8)],
        np.repeat([0, 1], 8),
    ),
    "a constant feature": (np.c_[RNG.standard_normal((16, 2)), np.ones(16)], np.arange(16) % 2),
    "noise": (RNG.standard_normal((60, 3)), np.arange(60) % 2),
    "tiny": (1e-140 * RNG.standard_normal((20, 2)), np.arange(20) % 2),
    "huge": (1e140 * RNG.standard_normal((20, 2)), np.arange(20) % 2),
}


@pytest.mark.filterwarnings("ignore:.*classes have fewer than n_neighbors")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_components", [None, 1])
@pytest.mark.parametrize("name", EDGES)
def test_edge_cases(name, n_components):
    points, labels = EDGES[name]
    metric = LMNN(n_components).fit(points, labels)
    assert np.isfinite(metric.components_).all()
    assert metric.components_.any()
    assert 0 <= metric.objective_ < np.inf
    assert metric.duality_gap_ >= -1e-9 * metric.objective_
    if name in ("tiny", "huge"):
        return
    literal = terms(points, np.array(labels))
    ours = objective(points, *literal, metric.get_mahalanobis_matrix())
    assert metric.objective_ == pytest.approx(ours, rel=1e-6, abs=1e-9)
    if n_components is None:
        assert metric.objective_ <= objective(points, *literal, np.eye(points.shape[1])) * (1 + 1e-9) + 1e-12
        assert metric.stop_reason_ in (StopReason.OPTIMAL, StopReason.NEGLIGIBLE)


NOISY = np.random.default_rng(0).standard_normal((60, 3))
NOISY_LABELS = (NOISY[:, 0] + 0.7 * np.random.default_rng(1).standard_normal(60) > 0).astype(int)


@pytest.mark.parametrize("n_components", [None, 1])
@pytest.mark.parametrize("points", [NOISY, np.ones((60, 2))], ids=["noise", "equal"])
def test_ends_whatever_the_tolerance(points, n_components):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        metric = LMNN(n_components, tol=1e-12).fit(points, NOISY_LABELS)
    assert np.isfinite(metric.objective_)


def test_features_that_say_nothing_change_nothing():
    expected = LMNN().fit(NOISY, NOISY_LABELS)
    for extra in (np.ones(60), NOISY[:, 1], NOISY @ [1.0, 2.0, 3.0]):
        metric = LMNN().fit(np.c_[NOISY, extra], comparisons=Comparisons.from_labels(NOISY, NOISY_LABELS, 3, "all"))
        assert metric.stop_reason_ is StopReason.OPTIMAL
        assert metric.objective_ == pytest.approx(expected.objective_, rel=2e-3)


def test_a_bound_is_known_where_targets_do_not_pull():
    """Targets share the last feature, which tells some of the impostors apart for nothing."""
    feature = np.arange(60) % 3 // 2
    labels = np.where(feature == 1, 2, NOISY_LABELS)
    metric = LMNN().fit(np.c_[NOISY, feature], labels)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    pairs, triplets = terms(np.c_[NOISY, feature], labels)
    optimum = minimum_by_convex_solver(np.c_[NOISY, feature], pairs, triplets)
    assert metric.objective_ == pytest.approx(optimum, rel=2e-3)
    assert metric.objective_ - metric.duality_gap_ <= optimum * (1 + 1e-6)


@pytest.mark.parametrize("range_", [1e2, 1e5, 1e8])
def test_units_of_features_do_not_matter(range_):
    comparisons = Comparisons.from_labels(NOISY, NOISY_LABELS, n_impostors="all")
    expected = LMNN().fit(NOISY, comparisons=comparisons)
    metric = LMNN().fit(NOISY * [1 / range_, 1.0, range_], comparisons=comparisons)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.objective_ == pytest.approx(expected.objective_, rel=2e-3)


@pytest.mark.parametrize("weight", [1e-30, 1e-8, 1e30])
def test_weights_of_any_size(weight):
    expected = LMNN().fit(NOISY, NOISY_LABELS)
    metric = LMNN().fit(NOISY, NOISY_LABELS, np.full(60, weight))
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.objective_ == pytest.approx(weight * expected.objective_, rel=1e-6)
    assert metric.history_[-1].loss == pytest.approx(weight * expected.history_[-1].loss, rel=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_never_worse_than_the_start():
    objectives = [LMNN(max_iter=n).fit(NOISY, NOISY_LABELS).objective_ for n in (1, 3, 10, 1000)]
    assert objectives == sorted(objectives, reverse=True)
    assert LMNN(tol=0.5).fit(NOISY, NOISY_LABELS).objective_ <= objectives[0]


def test_length_of_the_start_does_not_matter():
    expected = LMNN().fit(NOISY, NOISY_LABELS).objective_
    for length in (1e-200, 1e150):
        assert LMNN(init=length * np.eye(3)).fit(NOISY, NOISY_LABELS).objective_ == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="init is the zero metric"):
        LMNN(init=np.zeros((1, 3))).fit(NOISY, NOISY_LABELS)


def test_weight_on_samples_alone_in_their_class():
    labels = NOISY_LABELS.copy()
    labels[0] = 7
    with (
        pytest.warns(match="fewer than n_neighbors"),
        pytest.raises(ValueError, match="zero for every sample that has another of its class"),
    ):
        LMNN().fit(NOISY, labels, np.eye(60)[0])


def test_every_pass_that_hits_the_limit_is_warned_of():
    with pytest.warns(ConvergenceWarning, match="max_iter=30 was reached"):
        metric = LMNN(max_iter=30, n_passes=3, tol=1e-4).fit(NOISY, NOISY_LABELS)
    assert metric.n_iter_ > 30


def test_same_bits_for_any_number_of_blas_threads():
    points = np.random.default_rng(0).standard_normal((60, 200))
    bits = set()
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            bits.add(LMNN().fit(points, NOISY_LABELS).components_.tobytes())
    assert len(bits) == 1


def test_callback_stops_and_checkpoint_is_a_metric(tmp_path):
    class Stop:
        def on_iteration(self, record):
            return record.number == 3

    path = tmp_path / "lmnn.npz"
    metric = LMNN(callbacks=[Stop(), Checkpoint(path)]).fit(X, Y)
    assert metric.stop_reason_ is StopReason.CALLBACK
    assert metric.n_iter_ == len(metric.history_) == 3
    further = LMNN(init=Checkpoint.load(path).metric()).fit(X, Y)
    assert further.stop_reason_ is StopReason.OPTIMAL


def test_too_few_iterations_give_a_warning():
    with pytest.warns(ConvergenceWarning, match="max_iter=5 was reached"):
        LMNN(max_iter=5).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "data", "message"),
    [
        ({"push": 1.0}, {}, "push must be a finite number above 0 and below 1. Got 1.0"),
        ({"n_neighbors": 0}, {}, "n_neighbors must be a whole number of at least 1. Got 0"),
        ({"init": "zero"}, {}, "init must be one of 'identity'"),
        ({"n_components": 5}, {}, "n_components=5 is more than the 4 features"),
        ({}, {"comparisons": [[0, 1, 2]]}, "Both y and comparisons are given"),
        ({"n_passes": 2}, {"y": None, "comparisons": [[0, 1, 2]]}, "n_passes=2 would find targets again"),
        ({"init": "rca"}, {"y": None, "comparisons": [[0, 1, 2]]}, "init, without labels, must be one of 'identity'"),
        ({}, {"y": None, "comparisons": [[0, 1, 99]]}, "name point 99, but there are only 38 points"),
        ({}, {"y": None, "comparisons": [[0, 1]]}, r"by number: .* Got shape \(1, 2\)"),
        ({}, {"y": None, "comparisons": X[None, :3]}, r"Got shape \(1, 3, 4\)"),
        ({}, {"y": None}, "requires y to be passed"),
        ({}, {"sample_weight": [1.0]}, "sample_weight must hold one number for each sample, 38 in all"),
    ],
)
def test_errors_teach(parameters, data, message):
    with pytest.raises(ValueError, match=message):
        LMNN(**parameters).fit(X, **{"y": Y, **data})


@pytest.mark.parametrize("n_points", [1, 17, 300])
def test_others_within_are_those_that_all_distances_give(n_points):
    rng = np.random.default_rng(n_points)
    points, label = rng.standard_normal((n_points, 3)), rng.integers(0, 3, n_points)
    asked = rng.permutation(n_points)[: max(1, n_points // 2)]
    squares = rng.random(len(asked)) * 4
    found = others_within(points, label, asked, squares)
    near = (cdist(points[asked], points, "sqeuclidean") <= squares[:, None]) & (label[asked][:, None] != label)
    for row, expected in enumerate(near):
        numbers = found.values[found.bounds[row] : found.bounds[row + 1]]
        assert sorted(numbers) == np.flatnonzero(expected).tolist()
    assert others_within(points, label, asked, squares, most=len(found.values)) is not None
    if len(found.values):
        assert others_within(points, label, asked, squares, most=len(found.values) - 1) is None
