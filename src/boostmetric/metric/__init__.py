"""A Mahalanobis metric: the linear map, its model file, and metrics to start from."""

from boostmetric.metric.mahalanobis import MahalanobisMetric as MahalanobisMetric
