"""Pairs, triplets and quadruplets as samples of a classifier, for every metric."""

import itertools
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, fbeta_score, log_loss, roc_auc_score

from boostmetric import BoostMetric, ComparisonBoostMetric, MahalanobisMetric, baselines
from boostmetric.baselines import GMML, ITML, LMNN, LSML, MMC, RCA, SCML, SDML, PSDBoost
from boostmetric.comparisons.thresholds import STRATEGIES, choose_threshold

X, LABEL = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
ROWS = RNG.permutation(np.stack(np.triu_indices(150, 1), axis=1))[:900]
Y = np.where(LABEL[ROWS[:, 0]] == LABEL[ROWS[:, 1]], 1, -1)
PAIRS = X[ROWS]
TRIPLETS, QUADRUPLETS = (RNG.permuted(np.tile(np.arange(150), (400, 1)), axis=1)[:, :n] for n in (3, 4))


def margins(metric, rows):
    """Squared distances of the far pairs minus those of the near pairs."""
    mapped = metric.transform(X)
    near, far = ((0, 1), (0, 2)) if rows.shape[1] == 3 else ((0, 1), (2, 3))
    squares = [np.square(mapped[rows[:, i]] - mapped[rows[:, j]]).sum(axis=1) for i, j in (near, far)]
    return squares[1] - squares[0]


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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*baselines.__all__, "BoostMetric", "BoostMetric.recommended"])
def test_no_learner_is_left_out(name):
    quick = {"PSDBoost": {"max_iter": 5}, "NCA": {"max_iter": 10}, "MLKR": {"max_iter": 10}, "SCML": {"n_basis": 40}}
    made = {"BoostMetric": BoostMetric, "BoostMetric.recommended": BoostMetric.recommended}
    metric = (made.get(name) or getattr(baselines, name))(**quick.get(name, {})).fit(X, LABEL)
    check_tuples(metric.get_metric(), metric)
    for strategy, options in {
        "accuracy": {},
        "f_beta": {"beta": 0.5},
        "max_tpr": {"min_rate": 0.9},
        "max_tnr": {"min_rate": 0.9},
    }.items():
        metric.calibrate_threshold(PAIRS[:450], Y[:450], strategy=strategy, **options)
        assert (np.sign(metric.decision_function(PAIRS)) == metric.predict(PAIRS)).all()
    found, told = rates(Y[:450] == 1, metric.predict(PAIRS[:450]) == 1)
    assert found >= 0.9
    assert told > 0.2
    assert metric.score(PAIRS, Y) == pytest.approx(roc_auc_score(Y, metric.pair_score(PAIRS)))
    probability = metric.calibrate_probability(PAIRS[:450], Y[:450]).predict_proba(PAIRS[450:])
    assert log_loss(Y[450:], probability[:, 1]) < 0.6
    metric.set_threshold(0.5)
    assert (metric.predict(PAIRS) == np.where(metric.pair_distance(PAIRS) < 0.5, 1, -1)).all()


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


def check_tuples(classifier, metric):
    for rows in (TRIPLETS, QUADRUPLETS):
        expected = margins(metric, rows)
        assert classifier.decision_function(X[rows]) == pytest.approx(expected, abs=1e-9)
        assert (classifier.predict(X[rows]) == np.where(expected > 0, 1, -1)).all()
        assert classifier.score(X[rows]) == np.mean(expected > 0)


@pytest.mark.parametrize("metric", [BoostMetric.paper(max_iter=30), RCA(), GMML()])
def test_every_metric_tells_which_pair_is_closer(metric, tmp_path):
    metric.fit(X, LABEL)
    assert not hasattr(metric, "score")
    with pytest.raises(AttributeError) as refused:
        metric.predict(X[TRIPLETS])
    assert "For triplets and quadruplets, which need none, call predict" in str(refused.value.__cause__)
    check_tuples(metric.get_metric(), metric)
    metric.save(tmp_path / "model.safetensors")
    check_tuples(MahalanobisMetric.load(tmp_path / "model.safetensors"), metric)
    check_tuples(metric.set_threshold(1.0), metric)


@pytest.mark.parametrize("learner", [LMNN(), LSML(), SCML(n_basis=30, random_state=0), PSDBoost(max_iter=5, tol=1.0)])
@pytest.mark.parametrize("rows", [TRIPLETS, QUADRUPLETS])
def test_learners_of_comparisons_classify_tuples(learner, rows):
    rows = rows[margins(RCA().fit(X, LABEL), rows) > 0]
    learner.fit(X, comparisons=rows[:100])
    check_tuples(learner, learner)
    check_tuples(pickle.loads(pickle.dumps(learner)), learner)
    with pytest.raises(ValueError, match=r"There is no threshold between .* Call calibrate_threshold\(pairs, y\)"):
        learner.predict(PAIRS)
    learner.calibrate_threshold(PAIRS, Y)
    assert accuracy_score(Y, learner.predict(PAIRS)) > 0.7
    learner.fit(X, LABEL)
    assert not hasattr(learner, "predict")


def test_ties_and_large_points():
    metric = MahalanobisMetric(np.eye(2))
    near, middle, far = [0.0, 0.0], [1e200, 0.0], [3e200, 0.0]
    triplets = [[near, middle, far], [near, far, middle], [near, middle, middle]]
    assert metric.decision_function(triplets).tolist() == [np.inf, -np.inf, 0]
    assert metric.predict(triplets).tolist() == [1, -1, -1]
    assert metric.score(triplets) == 1 / 3


def test_refusals_of_tuples():
    metric = RCA().fit(X, LABEL).set_threshold(1.0)
    for classifier in (metric, metric.get_metric()):
        for shape in [(2, 4), (2, 5, 4), (2, 1, 4)]:
            with pytest.raises(ValueError, match=r"Tuples must be points of shape \(n_tuples, 2, n_features\)"):
                classifier.predict(np.zeros(shape))
        with pytest.raises(ValueError, match="The metric has 4 features, but the points have shape"):
            classifier.predict(np.zeros((2, 3, 5)))
        with pytest.raises(ValueError, match="There are no tuples: at least one is needed"):
            classifier.score(np.zeros((0, 3, 4)))
    with pytest.raises(ValueError, match="Pairs alone cannot be compared"):
        metric.get_metric().predict(PAIRS)
    with pytest.raises(ValueError, match="Pairs need y: 1 for similar, -1 for dissimilar ones"):
        metric.score(PAIRS)
    with pytest.raises(ValueError, match="y says which pairs are similar and is only for pairs"):
        metric.score(X[TRIPLETS], np.ones(400))


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
