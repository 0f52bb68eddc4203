"""MMC: the maximum of Xing et al., with a bound that proves it, from labels and from pairs."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from boostmetric.baselines import MMC
from boostmetric.baselines.mmc import separation
from boostmetric.baselines.pair_set import PairSet
from boostmetric.baselines.side_information import Standardized, pairs_of_classes
from boostmetric.paper import datasets
from boostmetric.solver.result import StopReason

FORMS = [False, True]
IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)


def every_pair(y):
    pairs = np.array(list(itertools.combinations(range(len(y)), 2)))
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return pairs[same], pairs[~same]


def blobs(seed, n=16, n_features=3, n_classes=3):
    """Classes that overlap, in features of different lengths that are correlated."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, n_features)) + rng.standard_normal((n_classes, n_features))[y]
    return X @ rng.standard_normal((n_features, n_features)), y


def sums(metric, X, similar, dissimilar):
    """Squared distances of the similar pairs, and distances of the dissimilar pairs, added up."""
    near, far = (metric.pair_distance(X[pairs]) for pairs in (similar, dissimilar))
    return np.sum(near**2), np.sum(far)


def maximum_by_convex_solver(X, similar, dissimilar, diagonal):
    near, far = (X[pairs[:, 0]] - X[pairs[:, 1]] for pairs in (similar, dissimilar))
    d = X.shape[1]
    if diagonal:
        metric = cp.Variable(d, nonneg=True)
        squared = (far**2) @ metric
        limit = np.sum(near**2, axis=0) @ metric
    else:
        metric = cp.Variable((d, d), PSD=True)
        squared = np.stack([np.outer(z, z).ravel() for z in far]) @ cp.vec(metric, order="C")
        limit = cp.trace((near.T @ near) @ metric)
    return cp.Problem(cp.Maximize(cp.sum(cp.sqrt(squared))), [limit <= 1]).solve(solver=cp.CLARABEL)


def searches(X, y):
    """Both searches on the same points, as generators."""
    standard = Standardized.of(X, rotated=False)
    pairs = standard.different(pairs_of_classes(y, None, None))
    return (
        standard.points,
        pairs,
        [
            separation.full_search(PairSet.of(standard.points, pairs)),
            separation.diagonal_search(standard.points, pairs),
        ],
    )


# --- the maximum ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("diagonal", FORMS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_finds_the_maximum_that_a_convex_solver_finds(seed, diagonal):
    X, y = blobs(seed)
    similar, dissimilar = every_pair(y)
    metric = MMC(diagonal=diagonal, tol=1e-8).fit(X, y)
    limit, objective = sums(metric, X, similar, dissimilar)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert limit == pytest.approx(1, rel=1e-9)
    assert objective == pytest.approx(maximum_by_convex_solver(X, similar, dissimilar, diagonal), rel=1e-6)
    assert objective == pytest.approx(-metric.history_[-1].loss, rel=1e-9)
    assert 0 <= metric.duality_gap_ <= 1e-8 * objective
    matrix = metric.get_mahalanobis_matrix()
    assert metric.history_[-1].trace == pytest.approx(np.trace(matrix))
    assert diagonal == np.allclose(matrix, np.diag(np.diag(matrix)), atol=1e-12 * matrix.max())


@pytest.mark.parametrize("diagonal", FORMS)
def test_finds_it_for_few_pairs(diagonal):
    X, y = blobs(3, n=20, n_features=4)
    rng = np.random.default_rng(3)
    similar, dissimilar = (rng.permutation(pairs)[:9] for pairs in every_pair(y))
    metric = MMC(diagonal=diagonal, tol=1e-7).fit(X, similar=similar, dissimilar=dissimilar)
    limit, objective = sums(metric, X, similar, dissimilar)
    assert limit == pytest.approx(1, rel=1e-9)
    assert objective == pytest.approx(maximum_by_convex_solver(X, similar, dissimilar, diagonal), rel=1e-5)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_holds_from_the_first_iteration_on(which, seed):
    reached = list(itertools.islice(searches(*blobs(seed, n=30, n_features=5))[2][which], 60))
    objectives, bounds = (np.array([getattr(at, name) for at in reached]) for name in ("objective", "bound"))
    best = objectives.max()
    assert np.all(bounds >= best * (1 - 1e-12))
    assert bounds[0] > best * (1 + 1e-3), "there was nothing to improve"
    assert bounds.min() <= best * (1 + 1e-9)
    for at in reached:
        trace = np.sum(at.metric) if which else np.trace(at.metric)
        assert trace == pytest.approx(1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_gap_uses_the_least_bound_on_the_way():
    X, y = datasets.load("balance")
    metrics = [MMC(max_iter=most, tol=0).fit(X[::5], y[::5]) for most in range(1, 15)]
    bounds = [metric.duality_gap_ - metric.history_[-1].loss for metric in metrics]
    assert np.diff(bounds).max() <= 1e-12 * bounds[-1]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_bound_is_a_bound_for_any_numbers(scale):
    """Even where most roots are continued, which no fit comes near to."""
    X, y = blobs(1)
    points, pairs, _ = searches(X, y)
    far, best = PairSet.of(points, pairs), 0.0
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows = rng.standard_normal((3, 3))
        best = max(best, np.sqrt(far.squared_distances(rows / np.linalg.norm(rows))).sum())
    d = far.squared_distances(np.eye(3)[:1])
    roots = separation._Roots(d, scale * d.mean())
    largest = np.linalg.eigvalsh(far.gram(roots.slopes))[-1]
    assert roots.bound(largest) >= best
    assert roots.objective == pytest.approx(np.sqrt(d).sum())
    assert roots.total >= roots.objective


def test_the_slopes_are_those_of_the_objective():
    X, y = blobs(2)
    points, pairs, _ = searches(X, y)
    far, table = PairSet.of(points, pairs), separation._Table(points, pairs)
    rng = np.random.default_rng(0)
    L, change = rng.standard_normal((2, 3, 3))
    B, change = L.T @ L, change + change.T
    differences = points[pairs[:, 0]] - points[pairs[:, 1]]
    d, d_change = far.squared_distances(L), np.einsum("pi,ij,pj->p", differences, change, differences)
    least, h = np.median(d), 1e-6  # half of the roots are continued
    roots = separation._Roots(d, least)
    above, below = (separation._Roots(d + sign * h * d_change, least).total for sign in (1, -1))
    numerical = (above - below) / (2 * h)
    assert np.vdot(far.gram(roots.slopes), change) == pytest.approx(numerical, rel=1e-6)
    assert table.times(np.diag(B)) == pytest.approx(far.squared_distances(np.diag(np.sqrt(np.diag(B)))))


def test_newton_solves_the_model_within_its_bounds():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 30):
        half = rng.standard_normal((n, n))
        hessian, slope, most = half @ half.T + 0.1 * np.eye(n), rng.standard_normal(n), rng.uniform(0, 0.2, n)
        fall = separation._newton_fall(slope, hessian, most)
        residual = slope - hessian @ fall
        assert np.all(fall <= most)
        assert np.abs(residual[fall < most]).max(initial=0) < 1e-6
        assert residual[fall == most].min(initial=0) > -1e-6


def test_a_table_that_is_not_held_gives_the_same(monkeypatch):
    held = MMC(diagonal=True).fit(*IRIS)
    monkeypatch.setattr(separation, "_MOST_HELD", 0)
    monkeypatch.setattr(separation, "_PART", 1000)
    assert MMC(diagonal=True).fit(*IRIS).components_ == pytest.approx(held.components_, rel=1e-6)


@pytest.mark.parametrize("diagonal", FORMS)
@pytest.mark.parametrize("name", ["iris", "wine", "balance"])
def test_converges_in_few_iterations(name, diagonal):
    """Of Balance, pairs differ by one step in one feature: distances come close to 0, and the gradient to infinity."""
    X, y = datasets.load(name)
    metric = MMC(diagonal=diagonal, tol=1e-6).fit(X, y)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.n_iter_ < (8 if diagonal else 150)
    assert metric.duality_gap_ < -1e-6 * metric.history_[-1].loss


def test_the_full_form_is_at_least_as_good_as_the_diagonal_one():
    full, diagonal = (MMC(diagonal=form).fit(*WINE).history_[-1].loss for form in FORMS)
    assert full < diagonal * (1 + 1e-3)
    assert MMC(n_components=1).fit(*WINE).components_.shape == (1, 13)


# --- units, labels and pairs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("diagonal", FORMS)
def test_the_units_of_the_features_do_not_matter(diagonal):
    X, y = blobs(4, n=40, n_features=4)
    units = np.array([1e-5, 1.0, 1e4, 37.0])
    plain, scaled = (MMC(diagonal=diagonal, tol=1e-9).fit(points, y) for points in (X, X * units))
    assert scaled.transform(X * units) @ scaled.transform(X * units).T == pytest.approx(
        plain.transform(X) @ plain.transform(X).T, abs=1e-4 * np.square(plain.transform(X)).sum(axis=1).max()
    )
    assert scaled.history_[-1].loss == pytest.approx(plain.history_[-1].loss, rel=1e-8)


def test_a_power_of_two_changes_no_bit():
    X, y = IRIS
    plain, scaled = (MMC().fit(points, y) for points in (X, 1024 * X))
    assert (1024 * scaled.components_).tobytes() == plain.components_.tobytes()


@pytest.mark.parametrize("diagonal", FORMS)
def test_labels_are_all_pairs(diagonal):
    X, y = blobs(5, n=25)
    similar, dissimilar = every_pair(y)
    rng = np.random.default_rng(0)
    listed = MMC(diagonal=diagonal, tol=1e-9).fit(X, similar=similar, dissimilar=rng.permutation(dissimilar)[:, ::-1])
    named = MMC(diagonal=diagonal, tol=1e-9).fit(X, np.array(["a", "b", "c"])[y])
    assert listed.get_mahalanobis_matrix() == pytest.approx(named.get_mahalanobis_matrix(), rel=1e-4, abs=1e-8)
    assert listed.history_[-1].loss == pytest.approx(named.history_[-1].loss, rel=1e-9)


def test_a_pair_counts_as_often_as_it_is_given():
    X, y = blobs(6)
    similar, dissimilar = every_pair(y)
    once = MMC(tol=1e-9).fit(X, similar=similar, dissimilar=dissimilar)
    twice = MMC(tol=1e-9).fit(X, similar=np.tile(similar, (2, 1)), dissimilar=np.tile(dissimilar, (2, 1)))
    assert 2 * twice.get_mahalanobis_matrix() == pytest.approx(once.get_mahalanobis_matrix(), rel=1e-4, abs=1e-8)


def test_pairs_of_classes_are_those_of_different_labels():
    y = np.array([3, 1, 3, 2, 1, 1, 0])
    _, dissimilar = every_pair(y)
    assert set(map(frozenset, pairs_of_classes(y, None, None).tolist())) == set(map(frozenset, dissimilar.tolist()))
    rng = np.random.RandomState(0)
    drawn = [frozenset(pair) for _ in range(300) for pair in pairs_of_classes(y, 3, rng).tolist()]
    assert set(drawn) == set(map(frozenset, dissimilar.tolist()))
    counts = [drawn.count(pair) for pair in set(drawn)]
    assert max(counts) < 1.6 * np.mean(counts)
    assert min(counts) > 0.5 * np.mean(counts)
    assert len(set(map(frozenset, pairs_of_classes(y, 16, rng).tolist()))) == 16, "one was drawn twice"


def test_pairs_are_drawn_without_a_list_of_all():
    pairs = pairs_of_classes(np.arange(200_000) % 1000, 50, np.random.RandomState(0))  # of 2e10
    assert pairs.shape == (50, 2)
    assert np.all(pairs[:, 0] % 1000 != pairs[:, 1] % 1000)
    assert pairs.max() > 100_000


def test_drawn_pairs_depend_on_the_random_state_only():
    X, y = WINE
    one, same, other = (MMC(max_pairs=300, random_state=seed).fit(X, y) for seed in (0, 0, 1))
    assert one.components_.tobytes() == same.components_.tobytes()
    assert not np.allclose(one.components_, other.components_)
    _, dissimilar = every_pair(y)
    whole, none_left_out = (MMC(max_pairs=most).fit(X, y) for most in (None, len(dissimilar)))
    assert whole.components_.tobytes() == none_left_out.components_.tobytes()


def test_pair_sets_answer_in_the_order_given():
    rng = np.random.default_rng(0)
    points, rows, pairs = rng.standard_normal((9, 4)), rng.standard_normal((2, 4)), rng.integers(0, 9, (50, 2))
    c = rng.standard_normal(50)
    for given_pairs in (pairs, np.unique(np.sort(pairs), axis=0)):
        weights = c[: len(given_pairs)]
        differences = points[given_pairs[:, 0]] - points[given_pairs[:, 1]]
        ours = PairSet.of(points, given_pairs)
        assert len(ours) == len(given_pairs)
        assert ours.squared_distances(rows) == pytest.approx(np.square(differences @ rows.T).sum(axis=1))
        assert ours.gram(weights) == pytest.approx((differences.T * weights) @ differences)


# --- data that leave something open -----------------------------------------------------------------------------------


@pytest.mark.parametrize("diagonal", FORMS)
def test_a_constant_feature_has_no_length(diagonal):
    X, y = blobs(0, n=30)
    metric = MMC(diagonal=diagonal, tol=1e-9).fit(np.insert(X, 1, 7.1, axis=1), y)
    plain = MMC(diagonal=diagonal, tol=1e-9).fit(X, y)
    matrix = metric.get_mahalanobis_matrix()
    size = np.abs(plain.get_mahalanobis_matrix()).max()
    assert np.abs(matrix[1]).max() < 1e-12 * size
    assert np.delete(np.delete(matrix, 1, 0), 1, 1) == pytest.approx(plain.get_mahalanobis_matrix(), abs=1e-4 * size)


@pytest.mark.parametrize("diagonal", FORMS)
def test_more_features_than_samples(diagonal):
    rng = np.random.default_rng(0)
    y = np.arange(12) % 3
    X = rng.standard_normal((12, 40)) + 3 * rng.standard_normal((3, 40))[y]
    metric = MMC(diagonal=diagonal).fit(X, y)
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert np.isfinite(metric.components_).all()
    near, far = (metric.pair_distance(X[pairs]) for pairs in every_pair(y))
    assert near.max() < far.min() or diagonal
    assert near.mean() < 0.7 * far.mean()
    # The same points twice: the same directions, of more samples than features.
    twice = MMC(diagonal=diagonal).fit(np.tile(X, (4, 1)), np.tile(y, 4))
    assert twice.pair_distance(X[every_pair(y)[1]]) * 4 == pytest.approx(far, rel=0.02)


@pytest.mark.parametrize("diagonal", FORMS)
def test_a_direction_without_similar_variation_counts_as_the_narrowest(diagonal):
    """The third feature is the class itself."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    X = np.column_stack([rng.standard_normal(100), 0.1 * rng.standard_normal(100) + y, y])
    metric = MMC(diagonal=diagonal, tol=1e-9).fit(X, y)
    scatter = Standardized.of(X, rotated=False).scatter_of_classes(y)
    assert np.abs(scatter[2]).max() == 0
    scatter[2, 2] = np.diag(scatter)[:2].min() if diagonal else np.linalg.eigvalsh(scatter)[1]
    standardized = metric.components_ * X.std(axis=0)
    assert np.vdot(standardized.T @ standardized, scatter) == pytest.approx(1, rel=1e-9)
    lengths = np.square(standardized).sum(axis=0)
    assert lengths[2] > 0.3 * lengths.sum()
    # Other units, other columns: nothing else changes.
    units = np.array([1e3, 1e-3, 70.0])
    assert MMC(diagonal=diagonal, tol=1e-9).fit(X * units, y).pair_distance((X * units)[:100].reshape(50, 2, 3)) == (
        pytest.approx(metric.pair_distance(X.reshape(50, 2, 3)), rel=1e-3)
    )


@pytest.mark.parametrize("diagonal", FORMS)
def test_features_that_repeat_each_other(diagonal):
    """Directions in which nothing varies at all, among features that do."""
    X, y = blobs(0, n=30)
    plain, twice = (MMC(diagonal=diagonal, tol=1e-9).fit(points, y) for points in (X, np.hstack([X, -2 * X])))
    pairs = every_pair(y)[1]
    far = plain.pair_distance(X[pairs])
    assert twice.pair_distance(np.hstack([X, -2 * X])[pairs]) == pytest.approx(far, rel=1e-3)


@pytest.mark.parametrize("diagonal", FORMS)
def test_equal_samples_of_one_class_only_count_several_times(diagonal):
    X, y = blobs(0, n=18)
    once, thrice = (MMC(diagonal=diagonal, tol=1e-9).fit(np.tile(X, (n, 1)), np.tile(y, n)) for n in (1, 3))
    matrix = once.get_mahalanobis_matrix()
    assert 9 * thrice.get_mahalanobis_matrix() == pytest.approx(matrix, abs=1e-4 * np.abs(matrix).max())


@pytest.mark.parametrize("diagonal", FORMS)
@pytest.mark.parametrize("n_features", [3, 30])
def test_equal_samples_of_different_classes_are_no_pair(diagonal, n_features):
    X, y = blobs(0, n=18, n_features=n_features)
    X, y = np.concatenate([X, X[:1]]), np.append(y, 1)
    similar, dissimilar = every_pair(y)
    kept = dissimilar[np.any(X[dissimilar[:, 0]] != X[dissimilar[:, 1]], axis=1)]
    assert len(kept) == len(dissimilar) - 1
    labelled = MMC(diagonal=diagonal, tol=1e-8).fit(X, y)
    without = MMC(diagonal=diagonal, tol=1e-8).fit(X, similar=similar, dissimilar=kept)
    assert labelled.stop_reason_ is StopReason.OPTIMAL
    assert labelled.history_[-1].loss == pytest.approx(without.history_[-1].loss, rel=1e-7)


@pytest.mark.parametrize("diagonal", FORMS)
def test_classes_of_one_member_are_dissimilar_only(diagonal):
    X, y = blobs(0, n=12)
    y[:2] = [7, 8]
    similar, dissimilar = every_pair(y)
    metric = MMC(diagonal=diagonal, tol=1e-8).fit(X, y)
    limit, objective = sums(metric, X, similar, dissimilar)
    assert limit == pytest.approx(1, rel=1e-9)
    assert objective == pytest.approx(maximum_by_convex_solver(X, similar, dissimilar, diagonal), rel=1e-5)


def test_one_dissimilar_pair_gives_the_direction_of_fisher():
    X, y = blobs(0)
    similar, dissimilar = every_pair(y)
    metric = MMC(tol=1e-10).fit(X, similar=similar, dissimilar=dissimilar[:1])
    near, far = X[similar[:, 0]] - X[similar[:, 1]], X[dissimilar[0, 0]] - X[dissimilar[0, 1]]
    expected = np.linalg.solve(near.T @ near, far)
    assert metric.components_.shape == (1, 3)
    assert np.abs(metric.components_[0] @ far) == pytest.approx(np.sqrt(far @ expected))
    assert metric.components_[0] / metric.components_[0, 0] == pytest.approx(expected / expected[0])


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(4, 12), st.booleans(), st.booleans())
def test_any_data_give_a_metric_that_is_the_best(seed, n_features, n, diagonal, whole):
    """Whole numbers, few samples, one feature: equal samples, and directions without variation, are among them."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, n_features)).astype(float) if whole else rng.standard_normal((n, n_features))
    y = np.arange(n) % 2
    try:
        metric = MMC(diagonal=diagonal, tol=1e-4).fit(X, y)
    except ValueError as error:
        assert "equal" in str(error)  # noqa: PT017
        return
    assert metric.stop_reason_ is StopReason.OPTIMAL
    assert metric.n_iter_ < 200
    assert np.isfinite(metric.components_).all()


# --- watching, stopping and errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("diagonal", FORMS)
def test_a_callback_sees_every_iteration_and_can_stop(diagonal):
    X, y = IRIS
    _, dissimilar = every_pair(y)
    seen = []

    class Watch:
        def on_iteration(self, record):
            seen.append((record, record.so_far().metric().components))
            return record.number == 2

    metric = MMC(diagonal=diagonal, tol=0, callbacks=[Watch()]).fit(X, y)
    assert metric.stop_reason_ is StopReason.CALLBACK
    assert metric.n_iter_ == len(seen) == 2
    for record, components in seen:
        far = np.linalg.norm((X[dissimilar[:, 0]] - X[dissimilar[:, 1]]) @ components.T, axis=1)
        assert record.loss == pytest.approx(-far.sum(), rel=1e-6)
        assert record.trace == pytest.approx(np.square(components).sum())
    assert metric.components_ == pytest.approx(seen[-1][1])


@pytest.mark.parametrize("diagonal", FORMS)
def test_too_few_iterations_give_a_warning(diagonal):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        metric = MMC(diagonal=diagonal, max_iter=1, tol=1e-9).fit(*WINE)
    assert metric.stop_reason_ is StopReason.ITERATION_LIMIT
    best = MMC(diagonal=diagonal, tol=1e-9).fit(*WINE)
    missing = metric.history_[-1].loss - best.history_[-1].loss
    assert 0 < missing <= metric.duality_gap_


@pytest.mark.parametrize("diagonal", FORMS)
def test_a_tolerance_of_zero_ends_where_numbers_do(diagonal):
    metric = MMC(diagonal=diagonal, tol=0, max_iter=3000).fit(*blobs(0, n=30))
    assert metric.stop_reason_ in {StopReason.OPTIMAL, StopReason.NOTHING_TO_IMPROVE}
    assert metric.duality_gap_ < -1e-10 * metric.history_[-1].loss


PAIRS = {"similar": [[0, 1]], "dissimilar": [[0, 2]]}


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"similar": [[0, 1]]}, "similar pairs are given, but no dissimilar ones. Pass both"),
        ({"dissimilar": [[0, 1]]}, "dissimilar pairs are given, but no similar ones. Pass both"),
        ({**PAIRS, "y": [0] * 150}, "Both y and similar are given"),
        ({**PAIRS, "similar": [[0, 0]]}, r"similar\[0\] is \(0, 0\): a point is paired with itself"),
        ({**PAIRS, "similar": [[0, 2]]}, "Every similar pair is dissimilar as often"),
        ({**PAIRS, "dissimilar": [[0, 150]]}, "name point 150, but there are only 150 points"),
        ({**PAIRS, "dissimilar": [[0, -1]]}, r"dissimilar\[0, 1\] is -1"),
        ({**PAIRS, "dissimilar": [[0, 1, 2]]}, "dissimilar must be rows of 2 point numbers"),
        ({}, "requires y"),
    ],
)
def test_errors_about_pairs_say_what_to_do(given, match):
    with pytest.raises(ValueError, match=match):
        MMC().fit(IRIS[0], **given)


@pytest.mark.parametrize("diagonal", FORMS)
def test_errors_about_equal_samples(diagonal):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((2, 30))  # fewer samples than features, which are rotated
    with pytest.raises(ValueError, match="every similar pair are equal"):
        MMC(diagonal=diagonal).fit(centres[np.repeat([0, 1], 7)], np.repeat([0, 1], 7))
    with pytest.raises(ValueError, match="every similar pair are equal"):
        MMC(diagonal=diagonal).fit(centres[[0, 0, 1, 1]], similar=[[0, 1]], dissimilar=[[0, 2]])
    with pytest.raises(ValueError, match="every dissimilar pair are equal"):
        MMC(diagonal=diagonal).fit(centres[[0, 0, 1, 1]], similar=[[0, 2]], dissimilar=[[0, 1]])


@pytest.mark.parametrize(
    ("parameter", "value", "match"),
    [
        ("diagonal", "yes", "diagonal must be True or False"),
        ("max_pairs", 0, "max_pairs must be a whole number of at least 1, or None for all"),
        ("max_iter", 1.5, "max_iter must be a whole number"),
        ("tol", -1, "tol must be a finite number of at least 0"),
        ("n_components", 5, "n_components=5 is more than the 4 features"),
    ],
)
def test_errors_about_parameters(parameter, value, match):
    with pytest.raises(ValueError, match=match):
        MMC(**{parameter: value}).fit(*IRIS)
