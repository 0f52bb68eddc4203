"""PSDBoost, the predecessor of BoostMetric: the learner and its linear programs."""

from boostmetric.baselines.psdboost.psdboost import PSDBoost

__all__ = ["PSDBoost"]
