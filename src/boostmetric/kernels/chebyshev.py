"""Polynomial approximation of functions in a short interval: the nodes of a bin, and the series through them."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

# Number of bins of the coordinates along a direction, and of nodes in each.
N_BINS, N_NODES = 16, 16
# Nodes of a bin, which ranges from -1 to 1, and the matrix from the values of a polynomial there to the coefficients of
# its Chebyshev series.
NODES = chebyshev.chebpts1(N_NODES)
TO_SERIES = np.array(chebyshev.chebvander(NODES, N_NODES - 1).T * (2 / N_NODES), dtype=np.float64)
TO_SERIES[0] /= 2


def node_coordinates(low: float, width: float) -> NDArray[np.float64]:
    """Nodes of all bins, the first of which begins at `low`."""
    bins = np.arange(N_BINS)[:, None] + 0.5 * (1 + NODES)
    return np.asarray(low + width * bins.ravel())
