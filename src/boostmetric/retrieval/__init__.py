"""The nearest points to a query under a metric, by their ids."""

from boostmetric.retrieval.index import MetricIndex

__all__ = ["MetricIndex"]
