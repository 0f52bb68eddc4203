"""Search for the nearest points to a query under a metric."""

from boostmetric.retrieval.block_search import search_blocks
from boostmetric.retrieval.index import MetricIndex

__all__ = ["MetricIndex", "search_blocks"]
