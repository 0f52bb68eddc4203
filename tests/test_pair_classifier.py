"""Pairs as a classifier, for every metric."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, fbeta_score, log_loss, roc_auc_score

from boostmetric import BoostMetric, ComparisonBoostMetric
from boostmetric.baselines import GMML, ITML, MMC, RCA, SDML
from boostmetric.comparisons.thresholds import STRATEGIES, choose_threshold

X, LABEL = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
ROWS = RNG.permutation(np.stack(np.triu_indices(150, 1), axis=1))[:900]
Y = np.where(LABEL[ROWS[:, 0]] == LABEL[ROWS[:, 1]], 1, -1)
PAIRS = X[ROWS]


def rates(similar, called):
    return np.mean(called[similar]), np.mean(~called[~similar])


def value(strategy, similar, called, beta, min_rate):
    found, told = rates(similar, called)
    if strategy == "accuracy":
        return accuracy_score(similar, called)
    if strategy == "f_beta":
        return fbeta_score(similar, called, beta=beta, zero_division=0)
    first, second = (found, told) if strategy == "max_tpr" else (told, found)
    return first if second >= min_rate else -1


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(3))
def test_no_threshold_is_better(strategy, seed):
    rng = np.random.default_rng(seed)
    distance = rng.integers(0, 12, 40).astype(float)  # with ties
    similar = rng.random(40) < 0.8 - distance / 20
    for beta, rate in itertools.product((0.5, 2.0), (0.0, 0.7, 1.0)):
        chosen = choose_threshold(distance, similar, strategy, beta=beta, min_rate=rate)
        best = value(strategy, similar, distance < chosen, beta, rate)
        others = [value(strategy, similar, distance < cut, beta, rate) for cut in np.arange(-1, 14) + 0.5]
        assert best == max(others)


@pytest.mark.parametrize("metric", [BoostMetric.paper(max_iter=30), RCA()])
def test_every_metric_tells_pairs_apart(metric):
    metric.fit(X, LABEL)
    assert not hasattr(metric, "predict")
    with pytest.raises(AttributeError) as refused:
        metric.predict(PAIRS)
    assert "Call calibrate_threshold(pairs, y)" in str(refused.value.__cause__)
    metric.calibrate_threshold(PAIRS[:450], Y[:450])
    assert accuracy_score(Y[450:], metric.predict(PAIRS[450:])) > 0.85
    assert metric.score(PAIRS, Y) == pytest.approx(roc_auc_score(Y, metric.pair_score(PAIRS)))
    assert metric.pair_score(PAIRS) == pytest.approx(-metric.pair_distance(PAIRS))
    assert (np.sign(metric.decision_function(PAIRS)) == metric.predict(PAIRS)).all()
    metric.set_threshold(0.5)
    assert (metric.predict(PAIRS) == np.where(metric.pair_distance(PAIRS) < 0.5, 1, -1)).all()
    metric.fit(X, LABEL)
    assert not hasattr(metric, "predict")


def test_rates_are_kept():
    metric = RCA().fit(X, LABEL).calibrate_threshold(PAIRS, Y, strategy="max_tpr", min_rate=0.95)
    found, told = rates(Y == 1, metric.predict(PAIRS) == 1)
    assert told >= 0.95
    assert found > 0.5


@pytest.mark.parametrize("learner", [MMC(), GMML(), ITML(), SDML(balance=0.01)])
def test_learners_of_pairs_have_a_threshold(learner):
    near, far = ROWS[:450][Y[:450] == 1], ROWS[:450][Y[:450] == -1]
    learner.fit(X, similar=near, dissimilar=far)
    assert accuracy_score(Y[450:], learner.predict(PAIRS[450:])) > 0.75


def test_probabilities():
    metric = RCA().fit(X, LABEL)
    with pytest.raises(AttributeError) as refused:
        metric.predict_proba(PAIRS)
    assert "Call calibrate_probability(pairs, y)" in str(refused.value.__cause__)
    metric.calibrate_probability(PAIRS[:450], Y[:450])
    probability = metric.predict_proba(PAIRS[450:])
    assert probability.sum(axis=1) == pytest.approx(1)
    assert log_loss(Y[450:], probability[:, 1]) < 0.3
    order = np.argsort(metric.pair_distance(PAIRS[450:]))
    assert (np.diff(probability[order, 1]) <= 0).all()
    assert np.mean(probability[:, 1]) == pytest.approx(np.mean(Y[450:] == 1), abs=0.05)
    with pytest.raises(ValueError, match=r"All of y is 1\. Give pairs of both kinds"):
        metric.calibrate_probability(PAIRS, np.ones(900))


def test_comparison_boost_metric():
    metric = ComparisonBoostMetric(max_iter=20).fit(PAIRS[:450], Y[:450])
    before = metric.threshold_
    metric.calibrate_threshold(PAIRS[450:], Y[450:], strategy="max_tnr", min_rate=0.99)
    assert metric.threshold_ > before
    assert np.mean(metric.predict(PAIRS[450:])[Y[450:] == 1] == 1) >= 0.99


def test_refusals():
    with pytest.raises(NotFittedError):
        RCA().set_threshold(1.0)
    metric = RCA().fit(X, LABEL)
    with pytest.raises(ValueError, match="strategy must be one of"):
        metric.calibrate_threshold(PAIRS, Y, strategy="best")
    with pytest.raises(ValueError, match="min_rate must be a finite number of at least 0 and at most 1"):
        metric.calibrate_threshold(PAIRS, Y, strategy="max_tpr", min_rate=2)
    with pytest.raises(ValueError, match="distance must be a finite number of at least 0"):
        metric.set_threshold(-1)
    with pytest.raises(ValueError, match=r"y must hold 1 \(similar\) or -1"):
        metric.calibrate_threshold(PAIRS, Y + 1)
    with pytest.raises(ValueError, match="There are no pairs: at least one is needed"):
        metric.calibrate_threshold(PAIRS[:0], [])
