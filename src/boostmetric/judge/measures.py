"""What is said about answers: shares with intervals, consistency, the ceiling, and whether there are enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_Z = 1.96  # intervals of 95 %
_FLAT = 0.01  # a doubling of the answers brings no more
_SURELY = 0.05  # and surely less than this


@dataclass(frozen=True)
class Measured:
    """A mean of n answers with its interval of 95 %.

    Attributes
    ----------
    mean, low, high : float
    n : int
    """

    mean: float
    low: float
    high: float
    n: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def share(values: ArrayLike) -> Measured | None:
    """Mean of numbers from 0 to 1, with the interval of Wilson (1927); None without any.

    Examples
    --------
    >>> from boostmetric.judge.measures import share
    >>> found = share([1, 1, 1, 0])
    >>> round(found.low, 2), found.mean, round(found.high, 2)
    (0.3, 0.75, 0.95)
    """
    some = np.asarray(values, dtype=np.float64)
    n = len(some)
    if not n:
        return None
    p = float(some.mean())
    centre = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * np.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
    return Measured(p, max(0.0, float(centre - half)), min(1.0, float(centre + half)), n)


def difference(values: ArrayLike) -> Measured | None:
    """Mean of differences from -1 to 1, with the interval of Bonett and Price (2012) for paired shares.

    It stays honest where all differences are 0, since it adds one answer for each side.

    Examples
    --------
    >>> from boostmetric.judge.measures import difference
    >>> found = difference([0, 0, 0, 0, 0, 0, 0, 0])
    >>> round(found.low, 2), found.mean, round(found.high, 2)
    (-0.28, 0.0, 0.28)
    """
    some = np.asarray(values, dtype=np.float64)
    n = len(some)
    if not n:
        return None
    up = (float(np.maximum(some, 0).sum()) + 1) / (n + 2)
    down = (float(np.maximum(-some, 0).sum()) + 1) / (n + 2)
    half = _Z * np.sqrt((up + down - (up - down) ** 2) / (n + 2))
    return Measured(float(some.mean()), max(-1.0, float(up - down - half)), min(1.0, float(up - down + half)), n)


def consistency(pairs: Sequence[tuple[Sequence[Sequence[Any]], Sequence[Sequence[Any]]]]) -> Measured | None:
    """Share of comparisons that are answered the same way when their question is asked again.

    Parameters
    ----------
    pairs : sequence of (first, second)
        Comparisons (anchor, near, far) of the first and the second answer. Those that the other answer leaves open do
        not count.
    """
    shares = []
    for first, second in pairs:
        same = {tuple(row) for row in second}
        opposite = {(_pair(row[0], row[2]), _pair(row[0], row[1])) for row in second}
        stated = [(tuple(row), (_pair(row[0], row[1]), _pair(row[0], row[2]))) for row in first]
        agreed = sum(row in same for row, _ in stated)
        contradicted = sum(sides in opposite for _, sides in stated)
        if agreed + contradicted:
            shares.append(agreed / (agreed + contradicted))
    return share(shares)


def _pair(a: Any, b: Any) -> frozenset[Any]:
    return frozenset((a, b))


def ceiling(consistent: float) -> float:
    """The largest share of single answers that any metric can agree with, if all questions are equally hard.

    A judge who errs with probability e answers twice the same way with s = (1 - e)^2 + e^2, so the ceiling is
    1 - e = (1 + sqrt(2s - 1)) / 2. Where some questions are harder than others, it is a little lower.

    Examples
    --------
    >>> from boostmetric.judge.measures import ceiling
    >>> [round(ceiling(share), 2) for share in (0.5, 0.82, 1.0)]
    [0.5, 0.9, 1.0]
    """
    return 0.5 * (1.0 + float(np.sqrt(max(0.0, 2.0 * consistent - 1.0))))


def is_enough(gain: Measured | None) -> bool:
    """Whether the curve is flat: the last doubling of the answers brought little, and surely not much."""
    return gain is not None and gain.mean <= _FLAT and gain.high <= _SURELY
