"""Algorithms 1 and 2 of the paper, word for word: every A_r is formed, nothing is clever. The judge of every oracle."""

import numpy as np


def boost(points, quadruplets, v, n_iterations, epsilon=1e-14):
    """Return X, the directions and the weights after the given number of iterations.

    A comparison (i, j, k, l) says that the pair i, j is closer than the pair k, l; a triplet (i, j, k) is (i, j, i, k).
    """
    A = np.array([form_A(points, q) for q in quadruplets])  # Eq. (2)
    u = np.full(len(A), 1 / len(A))
    directions, weights = [], []
    for _ in range(n_iterations):
        A_hat = np.sum(u[:, None, None] * A, axis=0)  # Eq. (10)
        eigenvalues, eigenvectors = np.linalg.eigh(A_hat)
        if eigenvalues[-1] < v:
            break
        xi = eigenvectors[:, -1]  # Eq. (7)
        Z = np.outer(xi, xi)
        H = np.sum(A * Z, axis=(1, 2))
        w = bisection(u, H, v, epsilon)
        u = u * np.exp(-w * H)  # Eq. (9)
        u = u / u.sum()
        directions.append(xi)
        weights.append(w)
    X = sum(w * np.outer(xi, xi) for w, xi in zip(weights, directions, strict=True))  # Eq. (3)
    return X, np.array(directions), np.array(weights)


def form_A(points, quadruplet):
    i, j, k, l = quadruplet  # noqa: E741
    far, near = points[k] - points[l], points[i] - points[j]
    return np.outer(far, far) - np.outer(near, near)


def bisection(u, H, v, epsilon):
    """Algorithm 1: the root of Eq. (8), in an interval found by doubling."""

    def lhs(w):
        return np.sum((H - v) * u * np.exp(-w * (H - H.min())))  # the positive factor exp(w H.min()) moves no root

    w_l, w_u = 0.0, 1.0 / np.abs(H).max()
    while lhs(w_u) > 0:
        w_u *= 2
    while w_u - w_l > epsilon * w_u:
        w = 0.5 * (w_l + w_u)
        if not w_l < w < w_u:
            break
        if lhs(w) > 0:
            w_l = w
        else:
            w_u = w
    return w


def loss(points, quadruplets, v, X):
    """The objective of (P0)."""
    rho = np.array([np.sum(form_A(points, q) * X) for q in quadruplets])  # Eq. (4)
    return np.logaddexp.reduce(-rho) + v * np.trace(X)
