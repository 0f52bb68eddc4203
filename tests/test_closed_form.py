"""Learners with a closed form, against their definitions written out and solved by other means."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.optimize import minimize
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from boostmetric.baselines import DMLMJ, GMML, LFDA, Covariance
from boostmetric.baselines.singular import inverse_root, singular
from boostmetric.evaluation import knn_error
from boostmetric.solver.result import StopReason

IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)
RNG = np.random.default_rng(0)


def test_covariance_is_its_formula():
    X, _ = WINE
    metric = Covariance().fit(X)
    inverse = np.linalg.inv(np.cov(X, rowvar=False))
    assert metric.get_mahalanobis_matrix() == pytest.approx(inverse, rel=1e-6, abs=1e-9 * np.abs(inverse).max())
    assert metric.stop_reason_ is StopReason.CLOSED_FORM
    assert Covariance().fit(X[:, :1]).components_ == pytest.approx(1 / X[:, :1].std(ddof=1))


@pytest.mark.parametrize(
    "X", [np.c_[IRIS[0], IRIS[0][:, 0] + 2 * IRIS[0][:, 1]], RNG.standard_normal((6, 9)), np.c_[IRIS[0], np.ones(150)]]
)
def test_singular_covariance_has_a_pseudo_inverse(X):
    inverse = np.linalg.pinv(np.cov(X, rowvar=False), hermitian=True, rcond=1e-10)
    assert Covariance().fit(X).get_mahalanobis_matrix() == pytest.approx(inverse, rel=1e-6, abs=1e-8)


def test_covariance_refuses_equal_samples():
    with pytest.raises(ValueError, match="All samples are equal"):
        Covariance().fit(np.ones((4, 2)))


def local_scatters(X, y, k):
    """The scatters of Sugiyama (2007), pair by pair."""
    n, d = X.shape
    within, between = np.zeros((d, d)), np.zeros((d, d))
    scale = {}
    for c in set(y):
        members = np.flatnonzero(y == c)
        for i in members:
            scale[i] = np.sort(np.linalg.norm(X[members] - X[i], axis=1))[min(k, len(members) - 1)]
    for i in range(n):
        for j in range(n):
            outer = np.outer(X[i] - X[j], X[i] - X[j]) / 2
            if y[i] != y[j]:
                between += outer / n
                continue
            n_c = np.sum(y == y[i])
            affinity = np.exp(-np.sum((X[i] - X[j]) ** 2) / (scale[i] * scale[j]))
            within += outer * affinity / n_c
            between += outer * affinity * (1 / n - 1 / n_c)
    return within, between


@pytest.mark.parametrize("n_components", [None, 2])
def test_lfda_is_its_definition(n_components):
    X, y = IRIS[0][::3], IRIS[1][::3]
    within, between = local_scatters(X, y, 7)
    values, vectors = eigh(between, within)
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    plain = LFDA(n_components, lengths="plain").fit(X, y)
    assert plain.ratios_ == pytest.approx(values)
    assert plain.get_mahalanobis_matrix() == pytest.approx(vectors @ vectors.T)
    weighted = LFDA(n_components).fit(X, y).get_mahalanobis_matrix()
    assert weighted == pytest.approx(vectors * np.maximum(values, 0) @ vectors.T)
    basis, _ = np.linalg.qr(vectors)
    assert LFDA(n_components, lengths="orthonormal").fit(X, y).get_mahalanobis_matrix() == pytest.approx(
        basis @ basis.T, abs=1e-12
    )


def test_lfda_keeps_two_clusters_of_a_class_apart():
    """Class 0 lies on both sides of class 1: Fisher's discriminant sees no difference of means along the first axis."""
    centres = np.repeat([-6.0, 0.0, 6.0], 40)
    X = np.c_[centres, np.zeros(120)] + RNG.standard_normal((120, 2)) * [0.5, 3.0]
    first, second = np.abs(LFDA(n_components=1).fit(X, np.repeat([0, 1, 0], 40)).components_[0])
    assert first > 20 * second


def test_lfda_of_deficient_rank():
    X = RNG.standard_normal((12, 30))
    metric = LFDA().fit(X, np.arange(12) % 3)
    assert np.isfinite(metric.components_).all()
    with pytest.raises(ValueError, match="neighbours of each class are equal"):
        LFDA().fit(np.repeat(np.eye(3), 4, axis=0), np.repeat([0, 1, 2], 4))
    with pytest.raises(ValueError, match="lengths must be one of"):
        LFDA(lengths="short").fit(X, np.arange(12) % 3)


def divergence(within, between):
    """Jeffrey divergence of two normal distributions with mean zero."""
    n = len(within)
    return np.trace(np.linalg.inv(within) @ between + np.linalg.inv(between) @ within) / 2 - n


def difference_scatters(X, y, k):
    near, far = [], []
    for i, x in enumerate(X):
        order = np.argsort(np.linalg.norm(X - x, axis=1), kind="stable")
        same = [j for j in order if y[j] == y[i] and j != i]
        other = [j for j in order if y[j] != y[i]]
        near += [x - X[j] for j in same[:k]]
        far += [x - X[j] for j in other[:k]]
    return np.transpose(near) @ near / len(near), np.transpose(far) @ far / len(far)


def test_dmlmj_maximises_the_divergence():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((90, 4)) * [1, 2, 3, 1]
    y = (X[:, 0] + 0.3 * rng.standard_normal(90) > 0).astype(int)
    within, between = difference_scatters(X, y, 3)
    metric = DMLMJ(2).fit(X, y)
    L = metric.components_
    found = divergence(L @ within @ L.T, L @ between @ L.T)
    assert metric.divergence_ == pytest.approx(found, rel=1e-3)
    assert np.linalg.eigvals(np.linalg.inv(L @ within @ L.T)).prod() == pytest.approx(1, rel=1e-3)

    def negative(flat):
        rows = flat.reshape(2, 4)
        return -divergence(rows @ within @ rows.T, rows @ between @ rows.T)

    others = [minimize(negative, rng.standard_normal(8)).fun for _ in range(5)]
    assert -min(others) == pytest.approx(found, rel=1e-3)
    whole = DMLMJ().fit(X, y)
    assert whole.get_mahalanobis_matrix() == pytest.approx(np.linalg.inv(within), rel=1e-3, abs=1e-3)


def test_dmlmj_refuses_equal_neighbors():
    with pytest.raises(ValueError, match="Every sample equals its neighbours"):
        DMLMJ().fit(np.repeat(np.eye(3), 5, axis=0), np.repeat([0, 1, 2], 5))


def drawn_pairs(n, count):
    """Distinct pairs in random order."""
    every = np.stack(np.triu_indices(n, 1), axis=1)
    return RNG.permutation(every)[:count]


def scatter(X, pairs):
    differences = X[pairs[:, 0]] - X[pairs[:, 1]]
    return differences.T @ differences


def test_gmml_minimises_its_objective():
    X = StandardScaler().fit_transform(RNG.standard_normal((30, 3)) @ RNG.standard_normal((3, 3)))
    pairs = drawn_pairs(30, 60)
    metric = GMML(regularization=0.0).fit(X, similar=pairs[:25], dissimilar=pairs[25:])
    M, near, far = metric.get_mahalanobis_matrix(), scatter(X, pairs[:25]), scatter(X, pairs[25:])
    # Up to the units of the scatters, M S M = D.
    product = M @ near @ M
    assert product / np.trace(product) == pytest.approx(far / np.trace(far), abs=1e-9)

    scale = np.sqrt(np.trace(far) / np.trace(product))
    variable = cp.Variable((3, 3), symmetric=True)
    root = np.linalg.cholesky(far)
    objective = cp.Minimize(cp.trace(near @ variable) + cp.matrix_frac(root, variable))
    cp.Problem(objective).solve(solver=cp.CLARABEL)
    assert scale * M == pytest.approx(variable.value, rel=1e-3, abs=1e-3 * scale * np.abs(M).max())


def test_ends_of_the_geodesic():
    X = StandardScaler().fit_transform(WINE[0])
    pairs = drawn_pairs(178, 200)
    near, far = (scatter(X, part) for part in (pairs[:100], pairs[100:]))
    for share, expected in ((0.0, np.linalg.inv(near)), (1.0, far)):
        M = GMML(share=share, regularization=0.0).fit(X, similar=pairs[:100], dissimilar=pairs[100:])
        matrix = M.get_mahalanobis_matrix()
        assert matrix / np.trace(matrix) == pytest.approx(expected / np.trace(expected), abs=1e-8)


def test_gmml_does_not_depend_on_units():
    X, y = IRIS
    units = np.array([1e-3, 1.0, 7.0, 1e4])
    matrix = GMML().fit(X, y).get_mahalanobis_matrix()
    assert GMML().fit(X * units, y).get_mahalanobis_matrix() * np.outer(units, units) == pytest.approx(matrix)


def test_gmml_of_labels_is_that_of_all_pairs():
    X, y = IRIS[0][::5], IRIS[1][::5]
    i, j = np.triu_indices(30, 1)
    same = y[i] == y[j]
    pairs = np.stack([i, j], axis=1)
    listed = GMML().fit(X, similar=pairs[same], dissimilar=pairs[~same])
    assert GMML().fit(X, y).get_mahalanobis_matrix() == pytest.approx(listed.get_mahalanobis_matrix())


def test_gmml_separates_wine():
    X, y = WINE
    mapped = GMML().fit(X[::2], y[::2]).transform(X)
    assert knn_error(mapped[::2], y[::2], mapped[1::2], y[1::2]) < 0.1
    with pytest.raises(ValueError, match="every similar pair are equal"):
        GMML().fit(np.repeat(np.eye(3), 2, axis=0), similar=[[0, 1]], dissimilar=[[0, 2]])


@pytest.mark.parametrize("least", [1.0, 1e-2, 1e-5, 0.0])
@pytest.mark.parametrize("n_rows", [4, 200])
def test_singular_values_and_axes(least, n_rows):
    rows = np.random.default_rng(0).standard_normal((n_rows, 6)) * [1, 2, 3, 4, 5, least]
    lengths, axes = singular(rows)
    _, expected, expected_axes = np.linalg.svd(rows, full_matrices=False)
    assert lengths == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert abs((axes * expected_axes).sum(axis=1)) == pytest.approx(1.0)


@pytest.mark.parametrize("least", [1.0, 1e-2])
def test_inverse_root_is_triangular(least):
    rows = np.random.default_rng(0).standard_normal((200, 6)) * [1, 2, 3, 4, 5, least]
    root = inverse_root(rows.T @ rows)
    assert root.T @ root == pytest.approx(np.linalg.inv(rows.T @ rows), rel=1e-9)
    assert not np.triu(root, 1).any()


@pytest.mark.parametrize("least", [1e-5, 0.0])
def test_there_is_no_inverse_root_that_would_lose_digits(least):
    rows = np.random.default_rng(0).standard_normal((200, 6)) * [1, 2, 3, 4, 5, least]
    assert inverse_root(rows.T @ rows) is None


def test_covariance_in_single_precision_is_that_in_double():
    X = np.random.default_rng(0).standard_normal((300, 40)).astype(np.float32)
    single, double = Covariance().fit(X), Covariance().fit(X.astype(np.float64))
    assert single.get_mahalanobis_matrix() == pytest.approx(double.get_mahalanobis_matrix(), rel=1e-12, abs=1e-12)
