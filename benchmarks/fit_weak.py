"""``python fit_weak.py MODULE NAME IN OUT``: fit a learner of metric-learn's interface, by default where that works.

MODULE is ``metric_learn`` or ``boostmetric.metric_learn``. IN holds X, y, chunks, and pairs, quadruplets and triplets
of points. OUT receives the linear map L and the processor seconds of the shortest of a thousand fits, or of as many as
end within two seconds. Unlike those of a clock, these hardly depend on what else the machine does.
"""

import importlib
import sys
import warnings
from time import process_time

import numpy as np

INPUT = {
    "Covariance": ("X",),
    "RCA": ("X", "chunks"),
    "LFDA": ("X", "y"),
    "LMNN": ("X", "y"),
    "NCA": ("X", "y"),
    "MLKR": ("X", "y"),
    "ITML": ("pairs", "kinds"),
    "MMC": ("pairs", "kinds"),
    "LSML": ("quadruplets",),
    "SDML": ("pairs", "kinds"),
    "SCML": ("triplets",),
}
REPEATS, ENOUGH = 1000, 2.0
# With its default balance_param, the problem of SDML has no solution on these data.
PARAMETERS = {"SCML": {"n_basis": 320, "random_state": 0}, "SDML": {"balance_param": 1e-4}}

if __name__ == "__main__":
    module, name, source, target = sys.argv[1:]
    warnings.simplefilter("ignore")
    data = np.load(source)
    learner = getattr(importlib.import_module(module), name)
    given = [data[key] for key in INPUT[name]]
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < ENOUGH:
        start = process_time()
        fitted = learner(**PARAMETERS.get(name, {})).fit(*given)
        times.append(process_time() - start)
    np.savez(target, L=fitted.components_, seconds=min(times))
