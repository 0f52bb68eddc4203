"""Metric learners by other authors, with the same interface as `boostmetric.BoostMetric`."""

from boostmetric.baselines.covariance import Covariance
from boostmetric.baselines.dmlmj import DMLMJ
from boostmetric.baselines.euclidean import Euclidean
from boostmetric.baselines.gmml import GMML
from boostmetric.baselines.itml import ITML
from boostmetric.baselines.lfda import LFDA
from boostmetric.baselines.lmnn.lmnn import LMNN
from boostmetric.baselines.lsml import LSML
from boostmetric.baselines.mlkr import MLKR
from boostmetric.baselines.mmc.mmc import MMC
from boostmetric.baselines.nca import NCA
from boostmetric.baselines.psdboost.psdboost import PSDBoost
from boostmetric.baselines.rca import RCA
from boostmetric.baselines.scml.scml import SCML
from boostmetric.baselines.sdml import SDML

__all__ = [
    "DMLMJ",
    "GMML",
    "ITML",
    "LFDA",
    "LMNN",
    "LSML",
    "MLKR",
    "MMC",
    "NCA",
    "RCA",
    "SCML",
    "SDML",
    "Covariance",
    "Euclidean",
    "PSDBoost",
]
