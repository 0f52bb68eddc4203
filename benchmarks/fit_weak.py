"""``python fit_weak.py MODULE NAME IN OUT``: fit a learner of metric-learn's interface, with its default setting.

MODULE is ``metric_learn`` or ``boostmetric.metric_learn``. IN holds X, y and pairs, quadruplets and triplets of points.
OUT receives the linear map L and the seconds of a fit, the second one if MODULE compiles.
"""

import importlib
import sys
import warnings
from time import perf_counter

import numpy as np

INPUT = {
    "Covariance": ("X",),
    "LFDA": ("X", "y"),
    "MLKR": ("X", "y"),
    "ITML": ("pairs", "kinds"),
    "MMC": ("pairs", "kinds"),
    "LSML": ("quadruplets",),
    "SCML": ("triplets",),
}
PARAMETERS = {"SCML": {"n_basis": 320, "random_state": 0}}

if __name__ == "__main__":
    module, name, source, target = sys.argv[1:]
    warnings.simplefilter("ignore")
    data = np.load(source)
    learner = getattr(importlib.import_module(module), name)
    given = [data[key] for key in INPUT[name]]
    if module.startswith("boostmetric"):
        learner(**PARAMETERS.get(name, {})).fit(*given)  # load the kernels
    start = perf_counter()
    fitted = learner(**PARAMETERS.get(name, {})).fit(*given)
    seconds = perf_counter() - start
    np.savez(target, L=fitted.components_, seconds=seconds)
