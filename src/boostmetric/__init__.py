"""Learn a distance from comparisons: "Positive Semidefinite Metric Learning with Boosting" (Shen et al., NIPS 2009).

The public names load on first use: ``import boostmetric`` costs milliseconds, and numba is imported by the
first fit, not before.
"""

from __future__ import annotations

# Of the standard library nothing is imported here: until it was, Ctrl-C would show a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from boostmetric.comparisons import Comparisons as Comparisons
    from boostmetric.comparisons import Points as Points
    from boostmetric.estimators import BoostMetric as BoostMetric
    from boostmetric.estimators import ComparisonBoostMetric as ComparisonBoostMetric
    from boostmetric.metric.mahalanobis import MahalanobisMetric as MahalanobisMetric

__version__ = "0.1.0"

_HOME = {
    "BoostMetric": "boostmetric.estimators",
    "ComparisonBoostMetric": "boostmetric.estimators",
    "Comparisons": "boostmetric.comparisons",
    "MahalanobisMetric": "boostmetric.metric",
    "Points": "boostmetric.comparisons",
}
__all__ = [
    "BoostMetric",
    "ComparisonBoostMetric",
    "Comparisons",
    "MahalanobisMetric",
    "Points",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'boostmetric' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
