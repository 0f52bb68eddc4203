"""``python fit_peer.py NAME IN OUT``: fit one metric learner, in an environment that may lack boostmetric.

IN holds the arrays X and y and the number k of neighbours. OUT receives the linear map L and the seconds of the fit,
without imports and compilation.
"""

import sys
from time import perf_counter

import numpy as np


def boostmetric_(X, y, k):
    from sklearn.base import clone

    from boostmetric import BoostMetric

    metric = BoostMetric.paper(n_neighbors=k, n_impostors=k, n_jobs=2)
    clone(metric).set_params(max_iter=2).fit(X, y)  # load the kernels
    return timed(lambda: metric.fit(X, y).components_)


def lmnn(X, y, k):
    from boostmetric.baselines import LMNN

    LMNN(n_neighbors=k, max_iter=2).fit(X, y)  # load the kernels
    return timed(lambda: LMNN(n_neighbors=k).fit(X, y).components_)


def nca(X, y, k):
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    return timed(lambda: NeighborhoodComponentsAnalysis(random_state=0).fit(X, y).components_)


def metric_learn_lmnn(X, y, k):
    from metric_learn import LMNN

    return timed(lambda: LMNN(n_neighbors=k, random_state=0).fit(X, y).components_)


def metric_learn_scml(X, y, k):
    from metric_learn import SCML_Supervised

    return timed(lambda: SCML_Supervised(random_state=0).fit(X, y).components_)


def mlpack_lmnn(X, y, k):
    from mlpack import lmnn

    return timed(lambda: lmnn(input_=X, labels=y, k=k, seed=1)["output"])


def pylmnn_lmnn(X, y, k):
    from types import ModuleType

    # Its search for hyperparameters, which we do not use, needs a package that cannot be installed today.
    missing = ModuleType("GPyOpt.methods")
    missing.BayesianOptimization = None
    sys.modules |= {"GPyOpt": ModuleType("GPyOpt"), "GPyOpt.methods": missing}
    from pylmnn import LargeMarginNearestNeighbor

    return timed(lambda: LargeMarginNearestNeighbor(n_neighbors=k, random_state=0).fit(X, y).components_)


def timed(fit):
    start = perf_counter()
    L = fit()
    return np.asarray(L), perf_counter() - start


LEARNERS = {
    "BoostMetric": boostmetric_,
    "boostmetric LMNN": lmnn,
    "scikit-learn NCA": nca,
    "mlpack LMNN": mlpack_lmnn,
    "metric-learn LMNN": metric_learn_lmnn,
    "metric-learn SCML": metric_learn_scml,
    "pylmnn LMNN": pylmnn_lmnn,
}

if __name__ == "__main__":
    name, source, target = sys.argv[1:]
    data = np.load(source)
    L, seconds = LEARNERS[name](data["X"], data["y"], int(data["k"]))
    np.savez(target, L=L, seconds=seconds)
