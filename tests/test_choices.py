"""Comparisons from answers of people, probabilities of answers, and committees."""

from itertools import product

import numpy as np
import pytest

from boostmetric import ComparisonBoostMetric, Comparisons
from boostmetric.estimators import committee
from boostmetric.evaluation.comparison_scores import comparison_accuracy

RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((12, 3))


def listed(comparisons):
    return {frozenset([frozenset(q[:2]), "closer than", tuple(sorted(q[2:]))]) for q in comparisons.quadruplets()}


def stated(pairs):
    return {frozenset([frozenset(near), "closer than", tuple(sorted(far))]) for near, far in pairs}


def test_the_odd_one_is_far_from_both_others():
    shown, odd = [[0, 1, 2], [5, 3, 4], [6, 7, 8]], [1, -1, 8]
    found = Comparisons.from_odd_one_out(shown, odd)
    assert found.n_groups == 2  # an answer is one group; "cannot say" is none
    expected = []
    for three, one in zip(shown, odd, strict=True):
        if one >= 0:
            pair = [point for point in three if point != one]
            expected += [(pair, (pair[0], one)), (pair, (pair[1], one))]
    assert listed(found) == stated(expected)
    assert (found.anchors < 0).all()


def test_choices_are_nearer_than_what_was_not_chosen():
    heads, shown, chosen = [0, 5, 7], [[1, 2, 3, 4], [6, 7], [1, 2]], [[2, 4], [], [1, 2]]
    found = Comparisons.from_choices(heads, shown, chosen)
    assert found.n_groups == 1  # none and all give no comparison
    expected = [((0, near), (0, far)) for near, far in product([2, 4], [1, 3])]
    assert listed(found) == stated(expected)
    assert found.anchors.tolist() == [0]


def test_weights_belong_to_answers():
    odd = Comparisons.from_odd_one_out([[0, 1, 2], [3, 4, 5], [6, 7, 8]], [2, -1, 6], weights=[0.5, 9.0, 2.0])
    assert odd.weights.tolist() == [0.5, 2.0]
    choices = Comparisons.from_choices([0, 1, 2], [[1, 2], [2, 3], [3, 4]], [[1], [2], [3]], weights=[1.0, 0.0, 3.0])
    assert choices.weights.tolist() == [1.0, 3.0]


def test_the_loss_of_an_odd_one_is_that_of_a_choice_among_three_pairs():
    """The logistic loss of a group is minus the logarithm of the softmax of -d over the three pairs."""
    near, far = 0.3, np.array([0.9, 1.4])
    group = np.log1p(np.exp(near) * np.exp(-far).sum())
    softmax = np.exp(-near) / np.exp(-np.append(near, far)).sum()
    np.testing.assert_allclose(group, -np.log(softmax))
    rows = np.array([RNG.permutation(12)[:3] for _ in range(40)])
    truth = POINTS[:, :1]
    sides = [[abs(truth[b] - truth[c]), abs(truth[a] - truth[c]), abs(truth[a] - truth[b])] for a, b, c in rows]
    odd = rows[np.arange(40), np.argmin(np.squeeze(sides), axis=1)]
    answers = Comparisons.from_odd_one_out(rows, odd)
    metric = ComparisonBoostMetric(loss="logistic", init="identity", max_iter=10).fit(answers, points=POINTS)
    distance = np.array(
        [
            [metric.get_metric().distance(POINTS[i], POINTS[j]) ** 2 for i, j in ((b, c), (a, c), (a, b))]
            for a, b, c in rows
        ]
    )
    right = np.arange(40), np.argmax(rows == odd[:, None], axis=1)
    likelihood = distance[right] + np.log(np.exp(-distance).sum(axis=1))
    regularization = metric.regularization * np.trace(metric.get_mahalanobis_matrix())
    np.testing.assert_allclose(metric.history_[-1].loss, likelihood.mean() + regularization, rtol=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Comparisons.from_odd_one_out([[0, 1, 1]], [0]), "three points must differ"),
        (lambda: Comparisons.from_odd_one_out([[0, 1, 2]], [3]), r"odd\[0\] is 3, which is not among .*\(0, 1, 2\)"),
        (lambda: Comparisons.from_odd_one_out([[0, 1, 2]], [-1]), "There are no answers"),
        (lambda: Comparisons.from_odd_one_out([[0, 1, 2]], [0, 1]), "one point for each of the 1 questions"),
        (lambda: Comparisons.from_odd_one_out([[0, 1, 2]], [0.5]), "integer point numbers"),
        (lambda: Comparisons.from_odd_one_out([[0, 1, 2]] * 2, [0, -1], [0, 1]), "0 for every answer that gives"),
        (lambda: Comparisons.from_choices([0], [[1, 2]], [[3]]), r"chosen\[0\] contains point 3, which was not shown"),
        (lambda: Comparisons.from_choices([0], [[0, 2]], [[2]]), r"shown\[0\] contains its head, point 0"),
        (lambda: Comparisons.from_choices([0], [[1, 1, 2]], [[1]]), r"shown\[0\] contains point 1 twice"),
        (lambda: Comparisons.from_choices([0], [[1, 2]], [[]]), "No answer gives a comparison"),
        (lambda: Comparisons.from_choices([0, 1], [[1, 2]], [[1]]), "one entry for each answer. Got 2, 1 and 1"),
    ],
)
def test_what_cannot_be_an_answer_is_refused(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()


def simulated(n, seed, scale=(4.0, 0.5, 0.0)):
    """Triplets answered at random, with the probabilities of the logistic model of a known metric."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((60, 3))
    rows = np.array([rng.permutation(60)[:3] for _ in range(n)])
    mapped = points * np.sqrt(scale)
    margin = ((mapped[rows[:, 0]] - mapped[rows[:, 2]]) ** 2 - (mapped[rows[:, 0]] - mapped[rows[:, 1]]) ** 2).sum(
        axis=1
    )
    swapped = rng.random(n) > 1 / (1 + np.exp(-margin))
    rows[swapped] = rows[swapped][:, [0, 2, 1]]
    return points, rows


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_probabilities_are_kept(loss):
    """Of the answers given with probability p, a share p is given."""
    points, rows = simulated(6000, 0, (0.4, 0.1, 0.0))
    metric = ComparisonBoostMetric(loss=loss, solver="corrective", max_iter=20)
    metric.fit(Comparisons.from_triplets(rows[:3000], grouped=False), points=points)  # each answer counts
    probability = metric.predict_proba(rows[3000:])
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(metric.classes_[probability.argmax(axis=1)], metric.predict(rows[3000:]))
    # Both answers of every question: the one given, and the other.
    stated = probability.ravel()
    given = np.tile([False, True], 3000)
    for low in (0.1, 0.3, 0.5, 0.7):
        there = (stated >= low) & (stated < low + 0.2)
        assert abs(given[there].mean() - stated[there].mean()) < (0.06)


def test_probabilities_are_refused_where_there_are_none():
    rows = [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="gives no probabilities: fit with 'logistic' or 'exponential'"):
        ComparisonBoostMetric(loss="smooth-hinge", max_iter=2).fit(rows, points=POINTS).predict_proba(rows)
    with pytest.raises(ValueError, match="unit length"):
        ComparisonBoostMetric(normalize=True, max_iter=2).fit(rows, points=POINTS).predict_proba(rows)
    with pytest.raises(ValueError, match="Pairs have no probabilities by the loss"):
        ComparisonBoostMetric(max_iter=2).fit(rows, points=POINTS).predict_proba([[0, 1]])


def test_a_committee_disagrees_where_little_is_known():
    """The more is answered, the less members disagree; the same seed gives the same members."""
    learner = ComparisonBoostMetric(loss="logistic", init="identity", learning_rate=0.3, max_iter=20)
    disagreement = []
    for n in (30, 1000):
        points, rows = simulated(n, 1, (4.0, 2.0, 0.0))
        members = committee(learner, rows, points=points, n_members=6, random_state=0)
        _, asked = simulated(300, 2)
        votes = np.mean(
            [
                member.distance(points[asked[:, 0]], points[asked[:, 1]])
                < member.distance(points[asked[:, 0]], points[asked[:, 2]])
                for member in members
            ],
            axis=0,
        )
        disagreement.append(np.mean(votes * (1 - votes)))
        accuracy = [comparison_accuracy(Comparisons.from_triplets(rows), m.transform(points)).accuracy for m in members]
        assert min(accuracy) > 0.6
    assert disagreement[1] < 0.6 * disagreement[0]
    again = committee(learner, rows, points=points, n_members=6, random_state=0)
    np.testing.assert_array_equal(members[3].components, again[3].components)
    assert not hasattr(learner, "components_")


def test_a_committee_weighs_groups_as_a_whole():
    answers = Comparisons.from_choices([0, 5], [[1, 2, 3, 4], [6, 7, 8, 9]], [[1, 2], [7, 8]])
    learner = ComparisonBoostMetric(loss="logistic", init="identity", max_iter=3)
    (member,) = committee(learner, answers, points=POINTS, n_members=1, random_state=3)
    weights = np.random.RandomState(3).standard_exponential(2)
    expected = learner.fit(answers, points=POINTS, sample_weight=weights)
    np.testing.assert_array_equal(member.components, expected.components_)
    with pytest.raises(ValueError, match="comparisons are pairs"):
        committee(learner, [[0, 1]], points=POINTS)
