"""Metric learning by Xing et al. from similar and dissimilar pairs: learner, searches, and pairs from labels."""

from boostmetric.baselines.mmc.mmc import MMC

__all__ = ["MMC"]
