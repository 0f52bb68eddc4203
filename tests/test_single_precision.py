"""Points in single precision with many features, which stay so: the same neighbours, almost the same metric."""

import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import reference
from boostmetric import BoostMetric, Comparisons
from boostmetric.arrays.frame import Frame, stays_single
from boostmetric.engines.threads import ThreadBackend
from boostmetric.metric import MahalanobisMetric
from boostmetric.metric.mapped_points import mapped_points
from boostmetric.metric.starts import STARTS, starting_components
from boostmetric.neighbors import nearest, nearest_others, rounding_of_distances, searches
from boostmetric.oracles.losses import LOSSES
from boostmetric.solver.learn import solve
from boostmetric.solver.plan import Settings
from boostmetric.solver.problem import Problem


def clusters(n=400, n_features=40, n_classes=8, seed=0):
    """Overlapping classes whose features differ in size, far from zero."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n_classes, n_features))[y] + rng.standard_normal((n, n_features))
    return (5 + X * rng.uniform(0.2, 2, n_features)).astype(np.float32), y


def relative(A, B):
    return np.linalg.norm(A - B) / np.linalg.norm(B)


@pytest.mark.parametrize("setting", ["plain", "paper", "blocks", "all impostors"])
def test_the_metric_is_almost_that_of_double_precision(setting):
    X, y = clusters()
    metric = {
        "plain": BoostMetric(n_passes=2, random_state=0),
        "paper": BoostMetric.paper(max_iter=8),
        "blocks": BoostMetric(n_passes=1, block_size=8, max_iter=4, init="rca", random_state=0),
        "all impostors": BoostMetric.paper(n_impostors="all", max_iter=15),
    }[setting]
    double = metric.fit(X.astype(np.float64), y).get_mahalanobis_matrix()
    assert relative(metric.fit(X, y).get_mahalanobis_matrix(), double) < 1e-4


def test_bits_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr("boostmetric.oracles.point_rows._PIECE_COST", 1e4)
    monkeypatch.setattr("boostmetric.oracles.cpu._MEMBERS_PER_SHARD", 2**9)
    X, y = clusters()
    metrics = []
    for n_jobs, n_blas in ((1, 1), (2, 2), (3, 1)):
        with threadpool_limits(n_blas, user_api="blas"):
            fitted = BoostMetric(n_jobs=n_jobs, n_passes=2, block_size=4, max_iter=8, random_state=0).fit(X, y)
        metrics.append(fitted.components_.tobytes())
    assert metrics[0] == metrics[1] == metrics[2]


@pytest.fixture(params=[3, "all"])
def opened(request, monkeypatch):
    monkeypatch.setattr("boostmetric.oracles.point_rows._PIECE_COST", 1)
    monkeypatch.setattr("boostmetric.oracles.point_rows._ROWS_IN_SINGLE", 16)
    monkeypatch.setattr("boostmetric.oracles.block_shard._TILE_ROWS", 16)
    monkeypatch.setattr("boostmetric.oracles.block_shard._TILE_COLUMNS", 24)
    X, y = clusters(n=60, n_features=33)
    problem = Problem(X, Comparisons.from_labels(X, y, 2, request.param))
    with problem.opened(ThreadBackend(2), loss=LOSSES["exponential"]) as (frame, oracle):
        assert frame.points.dtype == np.float32
        yield frame, oracle, problem.comparisons


def test_a_hat_is_that_of_the_paper(opened):
    frame, oracle, comparisons = opened
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((3, oracle.n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    weights = np.array([0.1, 0.2, 0.3])
    state = oracle.rebuild(directions, weights)
    quadruplets = comparisons.listed().quadruplets()
    A = np.array([reference.form_A(frame.points.astype(np.float64), q) for q in quadruplets])
    rho = np.einsum("rij,ij->r", A, (directions.T * weights) @ directions)
    assert state.loss == pytest.approx(np.log(np.exp(-rho).sum()), rel=1e-6)
    u = np.exp(-rho) / np.exp(-rho).sum()
    expected = np.einsum("r,rij->ij", u, A)
    assert relative(oracle.gram(), expected) < 1e-6
    assert oracle.matvec(directions[0]) == pytest.approx(expected @ directions[0], rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("opened", ["all"], indirect=True)
def test_a_hat_stays_finite_where_far_distances_differ_by_more_than_single_precision_holds(opened):
    _, oracle, _ = opened
    direction = np.eye(oracle.n_features)[:1]
    oracle.rebuild(direction, np.array([5000.0]))
    found = oracle.gram()
    assert np.isfinite(found).all()
    assert np.isfinite(oracle.probe(np.eye(oracle.n_features)[1:4], np.zeros(3)).first).all()
    assert found @ direction[0] == pytest.approx(oracle.matvec(direction[0]), rel=1e-4, abs=1e-4 * np.abs(found).max())


def test_slopes_of_several_directions_are_those_of_a_hat(opened):
    _, oracle, _ = opened
    directions = np.random.default_rng(1).standard_normal((5, oracle.n_features)) / 5
    oracle.rebuild(directions[:0], np.empty(0))
    probed = oracle.probe(directions, np.full(5, 0.1))
    after = oracle.rebuild(directions, np.full(5, 0.1))
    assert probed.loss == pytest.approx(after.loss, rel=1e-6)
    assert probed.first == pytest.approx(-np.einsum("ki,ij,kj->k", directions, oracle.gram(), directions), rel=1e-5)


def test_a_rebuild_gives_the_bits_of_the_steps(opened):
    _, oracle, _ = opened
    directions = np.random.default_rng(0).standard_normal((9, oracle.n_features)) / 5
    oracle.rebuild(directions[:8], np.full(8, 0.1))
    oracle.project(directions[8])
    stepped, gram = oracle.commit(0.2), oracle.gram()
    assert oracle.rebuild(directions, np.append(np.full(8, 0.1), 0.2)) == stepped
    assert np.array_equal(oracle.gram(), gram)


@pytest.mark.parametrize("kind", ["random", "grid", "tight", "copies", "few directions"])
@pytest.mark.parametrize("n_features", [40, 64])
def test_neighbors_are_those_of_the_same_points_in_double_precision(kind, n_features, monkeypatch):
    rng = np.random.default_rng(0)
    points, label = rng.standard_normal((300, n_features)), rng.integers(0, 5, 300)
    if kind == "grid":
        points = np.rint(points)
    if kind == "tight":  # closer together than products in single precision can tell
        points = points[rng.integers(0, 20, 300)] + 1e-5 * points
    if kind == "copies":
        points = points[rng.integers(0, 100, 300)]
    if kind == "few directions":
        points[:, 12:] *= 0.02
    points = points.astype(np.float32)
    rounding = rounding_of_distances(points)
    double = points.astype(np.float64)
    expected = nearest(double, None, 5, rounding), nearest_others(double, label, 5, rounding).values
    queries = points[:70] + 1
    queried = nearest(double, queries.astype(np.float64), 6, rounding)
    monkeypatch.setattr(searches, "_FEWEST_TO_ROUND", 0)
    monkeypatch.setattr(searches, "_FEWEST_FOR_AXES", 0)
    found = []
    propose = searches.Leading.propose
    monkeypatch.setattr(searches.Leading, "propose", lambda *given: found.append(1) or propose(*given))
    for given in (points, double):
        assert np.array_equal(nearest(given, None, 5, rounding), expected[0])
        assert np.array_equal(nearest_others(given, label, 5, rounding).values, expected[1])
        assert np.array_equal(nearest(given, queries.astype(given.dtype), 6, rounding), queried)
    assert bool(found) == (n_features == 64 and kind in ("tight", "few directions"))


def test_distances_along_the_axes_are_too_short():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((500, 64)) * np.append(np.ones(10), np.full(54, 0.03))
    centred = points - points.mean(axis=0)
    search = searches.Leading(searches._leading_axes(centred), centred, centred, 0.0)
    numbers, exceeded = search.propose(np.arange(20), 30)
    squares = np.square(centred[:20, None] - centred[None]).sum(axis=2)
    others = np.ones(squares.shape, dtype=bool)
    others[np.arange(20)[:, None], numbers] = False
    assert (np.where(others, squares, np.inf).min(axis=1) >= exceeded * (1 - 1e-5)).all()


@pytest.mark.parametrize("normalize", [False, True])
def test_mapped_points_have_the_distances_of_the_metric(normalize):
    X, _ = clusters()
    L = np.random.default_rng(1).standard_normal((7, 40))
    metric = MahalanobisMetric(L, normalize=normalize)
    known, asked = mapped_points(metric, X, X[:30])
    assert known.dtype == np.float32
    expected = metric.distance(X[:30].astype(np.float64), X[30:60].astype(np.float64))
    assert np.linalg.norm(asked - known[30:60], axis=1) == pytest.approx(expected, rel=1e-5)
    (double,) = mapped_points(metric, X.astype(np.float64))
    assert np.array_equal(double, metric.transform(X.astype(np.float64)))
    huge = MahalanobisMetric(1e30 * L)
    assert mapped_points(huge, X)[0].dtype == np.float64


@pytest.mark.parametrize("name", STARTS[2:])
def test_starts_are_those_in_double_precision(name):
    X, y = clusters()
    X[:, 3] = 7  # constant
    y[:2] = [100, 101]  # alone in their classes
    double = starting_components(name, X.astype(np.float64), y)
    single = starting_components(name, X, y)
    assert relative(single.T @ single, double.T @ double) < 1e-6
    few = X[:39], y[:39]  # fewer than features
    assert starting_components(name, *few) == pytest.approx(starting_components(name, few[0].astype(float), few[1]))


def test_a_frame_in_single_precision():
    X, _ = clusters()
    frame, double = Frame.of(X), Frame.of(X.astype(np.float64))
    assert (frame.points.dtype, double.points.dtype) == (np.float32, np.float64)
    assert frame.exponent == double.exponent
    assert frame.points == pytest.approx(double.points, rel=1e-6, abs=1e-7)
    others = frame.coordinates_of(X[:90])
    assert np.ptp(others - frame.points[:90], axis=0) == pytest.approx(0, abs=1e-6)
    assert not stays_single(X[:, :31])
    assert not stays_single(X * np.float32(1e30))


@pytest.mark.parametrize("shape", [(60, 40), (30, 40)], ids=["many points", "fewer than features"])
def test_points_are_shared_with_held_out_comparisons(shape, monkeypatch):
    rng = np.random.default_rng(0)
    points, y = rng.standard_normal(shape).astype(np.float32), np.arange(shape[0]) % 3
    train, held_out = Problem(points, Comparisons.from_labels(points, y, 2, 3)).split(0.3, 0)
    apart = held_out._replace(points=points.copy())  # other points, as of an eval_set
    settings = Settings(loss=LOSSES["logistic"])
    together, separate = (solve(train, settings, held_out=other, max_iter=6) for other in (held_out, apart))
    assert [r.held_out for r in together.history] == pytest.approx([r.held_out for r in separate.history])
    assert together.metric().matrix == pytest.approx(separate.metric().matrix, rel=1e-4, abs=1e-6)
    restricted, watched = train.restricted_with(held_out)
    assert restricted.points is watched.points


def test_a_fit_takes_a_few_times_the_memory_of_its_points():
    rng = np.random.default_rng(0)
    y = np.arange(12000) % 20
    X = (rng.standard_normal((20, 384))[y] + rng.standard_normal((12000, 384))).astype(np.float32)
    metric = BoostMetric(n_neighbors=3, n_impostors=10, n_passes=2, max_iter=20, random_state=0, n_jobs=2)
    metric.fit(X[::8], y[::8])  # load the kernels
    tracemalloc.start()
    metric.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4.8 * X.nbytes  # 3.2, and what loading further kernels takes
