"""Metric learners that the paper compares with, with the same interface as `boostmetric.BoostMetric`."""

from boostmetric.baselines.euclidean import Euclidean
from boostmetric.baselines.lmnn.lmnn import LMNN
from boostmetric.baselines.mmc.mmc import MMC
from boostmetric.baselines.nca import NCA
from boostmetric.baselines.psdboost.psdboost import PSDBoost
from boostmetric.baselines.rca import RCA

__all__ = ["LMNN", "MMC", "NCA", "RCA", "Euclidean", "PSDBoost"]
