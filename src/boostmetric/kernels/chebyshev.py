"""Polynomials that stand for functions in a short interval: the nodes of a bin, and the series through them."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

# Bins of the coordinates along a direction, and nodes in each.
N_BINS, N_NODES = 16, 16
# Nodes of a bin, which reaches from -1 to 1, and coefficients of the Chebyshev series of a polynomial from its values
# there.
NODES = chebyshev.chebpts1(N_NODES)
TO_SERIES = np.array(chebyshev.chebvander(NODES, N_NODES - 1).T * (2 / N_NODES), dtype=np.float64)
TO_SERIES[0] /= 2


def node_coordinates(low: float, width: float) -> NDArray[np.float64]:
    """The nodes of all bins, the first of which begins at `low`."""
    bins = np.arange(N_BINS)[:, None] + 0.5 * (1 + NODES)
    return np.asarray(low + width * bins.ravel())
