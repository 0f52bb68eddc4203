"""The interface of metric-learn 0.7.0, over the learners of `boostmetric.baselines`.

``import boostmetric.metric_learn as metric_learn`` is all that changes in a program that uses metric-learn: names,
parameters, defaults and attributes are the same. What is learned is ours: minima instead of the points where
metric-learn stops. For everything else that this package can do, use `boostmetric.baselines` and
`boostmetric.BoostMetric`.
"""

from boostmetric.metric_learn._version import __version__
from boostmetric.metric_learn.constraints import Constraints
from boostmetric.metric_learn.covariance import Covariance
from boostmetric.metric_learn.itml import ITML, ITML_Supervised
from boostmetric.metric_learn.lfda import LFDA
from boostmetric.metric_learn.lmnn import LMNN
from boostmetric.metric_learn.lsml import LSML, LSML_Supervised
from boostmetric.metric_learn.mlkr import MLKR
from boostmetric.metric_learn.mmc import MMC, MMC_Supervised
from boostmetric.metric_learn.nca import NCA
from boostmetric.metric_learn.rca import RCA, RCA_Supervised
from boostmetric.metric_learn.scml import SCML, SCML_Supervised
from boostmetric.metric_learn.sdml import SDML, SDML_Supervised

__all__ = [
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
    "Constraints",
    "Covariance",
    "ITML_Supervised",
    "LSML_Supervised",
    "MMC_Supervised",
    "RCA_Supervised",
    "SCML_Supervised",
    "SDML_Supervised",
    "__version__",
]
