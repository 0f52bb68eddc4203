"""Weights of several directions at once.

The leading eigenvectors of one A_hat are all good directions, and forming A_hat is the larger part of an iteration. With
X + sum_k w_k xi_k xi_k' the loss is a convex function of the weights w >= 0, which L-BFGS-B minimises.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from boostmetric.arrays.types import FloatArray
from boostmetric.oracles.protocol import Oracle

# The next iteration corrects what is left, so an approximate minimum is enough.
_MOST_ROUNDS = 30
_TOLERANCE = 1e-4


def block_weights(oracle: Oracle, v: float, directions: FloatArray, guess: float) -> FloatArray:
    """Weights w >= 0 of the directions that minimise the loss plus v times their sum.

    Parameters
    ----------
    oracle : Oracle
    v : float
        Regularization.
    directions : ndarray of shape (n_directions, n_features)
    guess : float
        The best weight of the first direction alone.
    """

    def loss_and_slope(weights: FloatArray) -> tuple[float, FloatArray]:
        slopes = oracle.probe(directions, guess * weights)
        return slopes.loss + v * guess * float(weights.sum()), guess * (slopes.first + v)

    start = np.zeros(len(directions))
    options = {"maxiter": _MOST_ROUNDS, "ftol": _TOLERANCE, "gtol": 0.0}
    result = minimize(
        loss_and_slope, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(start), options=options
    )
    return np.asarray(guess * result.x)
