"""The contract that all baselines share with BoostMetric."""

import pytest
from sklearn.datasets import load_wine
from sklearn.utils.estimator_checks import parametrize_with_checks

from boostmetric.baselines import MMC, NCA, RCA, Euclidean

X, Y = load_wine(return_X_y=True)
ALL = [Euclidean(), RCA(), NCA(max_iter=10), MMC(), MMC(diagonal=True)]
ITERATIVE = [NCA(max_iter=10), MMC(), MMC(diagonal=True)]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.filterwarnings("ignore:.*classes have fewer than n_neighbors")
@parametrize_with_checks(
    [*ALL, RCA(n_components=1), NCA(n_components=1, init="random", random_state=0), MMC(n_components=1)]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
