"""Mahalanobis metrics: the linear map, the model file, and metrics to start from."""

from boostmetric.metric.mahalanobis import MahalanobisMetric as MahalanobisMetric
