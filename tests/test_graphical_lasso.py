"""The graphical lasso against scikit-learn's, cvxpy's minimum, and its own bound."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from sklearn.covariance import graphical_lasso
from sklearn.exceptions import ConvergenceWarning

from boostmetric.baselines.graphical_lasso import sparse_inverse


def value(S, M, penalty):
    off_diagonal = np.abs(M).sum() - np.trace(np.abs(M))
    return np.vdot(S, M) - np.linalg.slogdet(M)[1] + penalty * off_diagonal


def correlations(n, n_features, seed=0):
    rng = np.random.default_rng(seed)
    return np.corrcoef(
        rng.standard_normal((n, n_features)) @ rng.standard_normal((n_features, n_features)), rowvar=False
    )


@pytest.mark.parametrize("penalty", [0.01, 0.2, 2.0])
@pytest.mark.parametrize(("n", "n_features"), [(30, 2), (40, 13), (8, 20), (100, 40)])
def test_same_as_scikit_learn(n, n_features, penalty):
    S = correlations(n, n_features) + 0.1 * np.eye(n_features)
    found = sparse_inverse(S, penalty, tol=1e-7, max_iter=1000)
    assert found.objective == pytest.approx(value(S, found.precision, penalty), rel=1e-12)
    assert 0 <= found.objective - found.bound <= 1e-7
    assert (found.precision == found.precision.T).all()
    with warnings.catch_warnings():  # of its lassos, where S is nearly singular
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, theirs = graphical_lasso(S, penalty, tol=1e-6, enet_tol=1e-8, max_iter=1000)
    theirs = (theirs + theirs.T) / 2
    assert found.objective <= value(S, theirs, penalty) + 1e-7
    assert found.precision == pytest.approx(theirs, abs=1e-2 * np.abs(theirs).max())


@pytest.mark.parametrize("seed", range(6))
def test_matrices_that_are_not_positive(seed):
    rng = np.random.default_rng(seed)
    S = rng.standard_normal((6, 6))
    S = (S + S.T) / 4
    np.fill_diagonal(S, rng.uniform(0.3, 1.0, 6))
    assert np.linalg.eigvalsh(S)[0] < 0
    for penalty in (0.05, 0.15, 0.25, 0.4):
        # There is a minimum if some positive definite matrix is within the penalty of S.
        W, least = cp.Variable((6, 6), symmetric=True), cp.Variable()
        near = [cp.abs(W - S) <= penalty * (1 - np.eye(6)), W - least * np.eye(6) >> 0]
        possible = cp.Problem(cp.Maximize(least), near).solve(solver=cp.CLARABEL)
        found = sparse_inverse(S, penalty, tol=1e-7, max_iter=5000)
        if possible < -1e-6:
            assert found is None
        elif possible > 1e-3:
            M = cp.Variable((6, 6), PSD=True)
            off_diagonal = cp.sum(cp.abs(cp.multiply(M, 1 - np.eye(6))))
            objective = cp.Minimize(cp.trace(S @ M) - cp.log_det(M) + penalty * off_diagonal)
            assert found.objective == pytest.approx(cp.Problem(objective).solve(solver=cp.CLARABEL), rel=1e-5, abs=1e-5)
            assert found.objective - found.bound <= 1e-7


def test_parts_that_do_not_touch():
    one, other = correlations(30, 4), correlations(30, 3, seed=1)
    S = np.full((7, 7), 0.05)
    S[:4, :4], S[4:, 4:] = one, other
    whole = sparse_inverse(S, 0.05, tol=1e-9, max_iter=100)
    assert not whole.precision[:4, 4:].any()
    for part, rows in ((one, slice(4)), (other, slice(4, 7))):
        alone = sparse_inverse(part, 0.05, tol=1e-9, max_iter=100)
        assert whole.precision[rows, rows] == pytest.approx(alone.precision, abs=1e-3 * np.abs(alone.precision).max())


def test_without_penalty_and_without_minimum():
    S = correlations(30, 3)
    found = sparse_inverse(S, 0.0, tol=0.0, max_iter=1)
    assert found.precision == pytest.approx(np.linalg.inv(S))
    assert found.objective == found.bound == pytest.approx(value(S, found.precision, 0.0))
    assert sparse_inverse(np.array([[2.0]]), 0.1, tol=1e-9, max_iter=9).precision == pytest.approx(0.5)
    assert sparse_inverse(np.array([[1.0, 2.0], [2.0, 1.0]]), 0.0, tol=1e-9, max_iter=9) is None
    assert sparse_inverse(np.array([[1.0, 2.0], [2.0, 1.0]]), 0.9, tol=1e-9, max_iter=9) is None
    assert sparse_inverse(np.array([[1.0, 2.0], [2.0, 1.0]]), 1.1, tol=1e-9, max_iter=99) is not None
    assert sparse_inverse(np.diag([1.0, -1.0]), 1.0, tol=1e-9, max_iter=9) is None
