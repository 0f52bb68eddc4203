"""Xing's metric learning from similar and dissimilar pairs: the learner, its searches, and pairs from labels."""

from boostmetric.baselines.mmc.mmc import MMC

__all__ = ["MMC"]
