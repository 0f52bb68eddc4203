"""The contract that all baselines share with BoostMetric."""

import pytest
from sklearn.datasets import load_wine
from sklearn.utils.estimator_checks import parametrize_with_checks

from boostmetric.baselines import NCA, RCA, Euclidean, PSDBoost

X, Y = load_wine(return_X_y=True)
ALL = [Euclidean(), RCA(), NCA(max_iter=10), PSDBoost()]
ITERATIVE = [NCA(max_iter=10), PSDBoost()]
OF_RANK_ONE = [RCA(n_components=1), NCA(n_components=1, init="random", random_state=0), PSDBoost(n_components=1)]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.filterwarnings("ignore:.*classes have fewer than n_neighbors")
@parametrize_with_checks(
    [*ALL, *OF_RANK_ONE],
    expected_failed_checks=lambda estimator: (
        {"check_sample_weight_equivalence_on_dense_data": "a sample given twice is its own nearest target"}
        if isinstance(estimator, PSDBoost)
        else {}
    ),
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
