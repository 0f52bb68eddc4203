"""Weights of several directions at once.

The leading eigenvectors of one A_hat are all good directions, and forming A_hat is the larger part of an iteration.
With X + sum_k w_k xi_k xi_k' the loss is a convex function of the weights w >= 0, which L-BFGS-B minimises.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from boostmetric.arrays.types import FloatArray
from boostmetric.oracles.protocol import Oracle

# The next iteration corrects what is left, so an approximate minimum is enough: stop when a round gains less than this
# fraction of what the first direction gains alone.
_MOST_ROUNDS = 30
_TOLERANCE = 1e-2


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
    nothing = oracle.probe(directions, np.zeros(len(directions)))
    gain = -0.5 * guess * (nothing.first[0] + v)  # of the first direction, if the loss is a parabola

    def fall(weights: FloatArray) -> tuple[float, FloatArray]:
        """Change of the objective, and its slopes, in these units."""
        at = oracle.probe(directions, guess * weights)
        change = at.loss - nothing.loss + v * guess * float(weights.sum())
        return change / gain, guess * (at.first + v) / gain

    options = {"maxiter": _MOST_ROUNDS, "ftol": _TOLERANCE, "gtol": 0.0}
    bounds = [(0.0, None)] * len(directions)
    result = minimize(fall, np.zeros(len(directions)), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(guess * result.x)
