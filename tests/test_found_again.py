"""Passes over positives: what is far is found again under the metric so far."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from boostmetric import ComparisonBoostMetric, Comparisons
from boostmetric.callbacks import Checkpoint
from boostmetric.solver.passes import Passes, learn_in_passes
from boostmetric.solver.plan import Plan, Settings, Split
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import Progress, StopReason
from boostmetric.solver.sources import Searched

RNG = np.random.default_rng(0)
CLASSES = np.arange(260) % 10
# The first four features say the class, the others, which are larger, do not.
POINTS = np.hstack(
    [RNG.standard_normal((10, 4))[CLASSES] + 0.3 * RNG.standard_normal((260, 4)), RNG.normal(size=(260, 4))]
)
DOCUMENTS, QUERIES = np.arange(160), np.arange(160, 260)
PAIRS = np.array(
    [(q, d) for q in QUERIES for d in RNG.choice(DOCUMENTS[CLASSES[:160] == CLASSES[q]], 3, replace=False)]
)
SIDES = {"corpus": DOCUMENTS, "n_nearest": 8, "n_random": 4}
POSITIVES = Comparisons.from_positives(*PAIRS.T, points=POINTS, **SIDES)
SEEN = POINTS * [3, 3, 3, 3, 0.1, 0.1, 0.1, 0.1]
PASSES = {"n_passes": 3, "max_iter": 6, "loss": "logistic", "init": "identity", "random_state": 0}


def same(a, b):
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("pairs", "members", "bounds", "weights", "anchors")
    )


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_far_sides_found_again_are_those_of_the_mapped_points(form):
    assert same(POSITIVES.found_again(form(POINTS), form(POINTS)), POSITIVES)
    again = POSITIVES.found_again(form(POINTS), form(SEEN))
    # Copies are those of the points as given, so none are looked for in the mapped ones.
    expected = Comparisons.from_positives(*PAIRS.T, points=SEEN, **SIDES, near_duplicate=0)
    exact = Comparisons.from_positives(*PAIRS.T, points=POINTS, **SIDES, near_duplicate=0).found_again(POINTS, SEEN)
    assert same(exact, expected)
    assert not same(again, POSITIVES)
    assert again.anchors.tolist() == POSITIVES.anchors.tolist()
    assert same(again.found_again(form(POINTS), form(POINTS)), POSITIVES)


def test_what_is_selected_weighted_split_or_stored_can_be_found_again():
    whole = POSITIVES.found_again(POINTS, SEEN)
    some = np.array([7, 3, 50])
    assert same(POSITIVES[some].found_again(POINTS, SEEN), whole[some])
    weights = np.linspace(1, 2, len(POSITIVES))
    assert same(POSITIVES.reweighted(weights).found_again(POINTS, SEEN), whole.reweighted(weights))
    assert same(pickle.loads(pickle.dumps(POSITIVES)).found_again(POINTS, SEEN), whole)
    for one, other in zip(POSITIVES.split(0.3, 0), whole.split(0.3, 0), strict=True):
        assert one.anchors.tolist() == other.anchors.tolist()  # the same queries are held out under every metric
        assert same(one.found_again(POINTS, SEEN), other)


def test_what_is_given_stays():
    triplets = Comparisons.from_triplets([[0, 1, 2], [3, 4, 5]])
    assert triplets.found_again(POINTS, SEEN) is triplets
    both = Comparisons.concatenate([POSITIVES, triplets])
    assert both.search is None
    assert both.found_again(POINTS, SEEN) is both


def test_a_group_keeps_its_far_side_where_nothing_is_found():
    # Document 2 is a copy of the positive, and the nearest of the others where the second feature is large.
    points = np.array([[0.0, 0.0], [5.0, 0.0], [5.1, 0.0], [0.0, 4.0]])
    one = Comparisons.from_positives([0], [1], points=points, corpus=[1, 2, 3], n_nearest=1, n_random=0)
    assert list(one.quadruplets()) == [(0, 1, 0, 3)]
    wide = points * [1, 9]
    assert not one.search.far(points, wide).sizes.any()
    assert same(one.found_again(points, wide), one)


def test_each_pass_finds_far_sides_under_the_metric_so_far():
    problem = Problem(POINTS, POSITIVES)
    asked = []

    class Watched(Searched):
        def problem(self, under=None, n_passes=0):
            found = super().problem(under, n_passes)
            asked.append((under, found.comparisons))
            return found

    *_, last = Passes(Plan(Watched(problem), Progress.beginning(np.eye(8), 8), (5, 4, 3), Settings()))
    assert last.iterations_of_passes == (5, 4, 3)
    assert [same(found, POSITIVES) for _, found in asked] == [True, False, False]
    for under, found in asked[1:]:
        assert same(found, POSITIVES.found_again(POINTS, POINTS @ under.T))
    assert np.array_equal(asked[0][0], np.eye(8))


def test_passes_hold_out_the_same_queries():
    held = []

    class Watched(Searched):
        def problem(self, under=None, n_passes=0):
            found = super().problem(under, n_passes)
            held.append(set(found.split(0.2, 3)[1].comparisons.anchors.tolist()))
            return found

    learn_in_passes(
        Plan(
            Watched(Problem(POINTS, POSITIVES)),
            Progress.beginning(np.eye(8), 8),
            (4,) * 3,
            Settings(),
            split=Split(0.2, 3),
        )
    )
    assert len(held) > 1
    assert all(queries == held[0] for queries in held)


def test_the_estimator_makes_passes():
    metric = ComparisonBoostMetric(**PASSES).fit(POSITIVES, points=POINTS)
    assert 1 <= metric.n_passes_ <= 3
    assert metric.n_iter_ == len(metric.history_)
    assert metric.history_[-1].held_out is not None
    copy = clone(metric)
    assert copy.get_params()["n_passes"] == 3
    assert not hasattr(copy, "n_passes_")
    several = ComparisonBoostMetric(**PASSES, n_jobs=3).fit(POSITIVES, points=POINTS)
    assert several.components_.tobytes() == metric.components_.tobytes()
    test = Comparisons.from_positives(*PAIRS[-30:].T, points=POINTS, **SIDES)
    rest = Comparisons.from_positives(*PAIRS[:-30].T, points=POINTS, **SIDES)
    watched = ComparisonBoostMetric(**PASSES).fit(rest, points=POINTS, eval_set=test)
    assert watched.history_[-1].held_out is not None
    again = ComparisonBoostMetric(**PASSES).fit(rest, points=POINTS, eval_set=test[:])
    assert again.components_.tobytes() == watched.components_.tobytes()


def test_a_fit_killed_in_a_later_pass_goes_on_with_the_same_bits(tmp_path):
    path = tmp_path / "passes.npz"
    settings = {**PASSES, "n_iter_no_change": 100}
    whole = ComparisonBoostMetric(**settings).fit(POSITIVES, points=POINTS)
    last = whole.n_iter_
    assert whole.n_passes_ > 1

    class Killed:
        def on_iteration(self, record):
            if record.number == last - 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ComparisonBoostMetric(**settings, callbacks=[Checkpoint(path), Killed()]).fit(POSITIVES, points=POINTS)
    resumed = ComparisonBoostMetric(**settings).fit(POSITIVES, points=POINTS, resume_from=path)
    assert resumed.components_.tobytes() == whole.components_.tobytes()
    assert resumed.n_passes_ == whole.n_passes_
    assert resumed.stop_reason_ is whole.stop_reason_


def test_a_callback_ends_all_passes():
    class Stop:
        def on_iteration(self, record):
            return record.number == 2

    metric = ComparisonBoostMetric(**PASSES, callbacks=[Stop()]).fit(POSITIVES, points=POINTS)
    assert metric.n_iter_ <= 2
    assert metric.stop_reason_ is StopReason.CALLBACK


def test_validation_chooses_whether_to_make_passes():
    recommended = ComparisonBoostMetric.recommended(n_passes="auto", max_iter=6, init="identity", random_state=0)
    assert ComparisonBoostMetric.recommended().n_passes == 1
    metric = recommended.fit(POSITIVES, points=POINTS)
    (tried,) = [candidate for candidate in metric.candidates_ if candidate.n_passes > 1]
    assert sum(tried.max_iter) == tried.n_iter
    assert metric.chosen_[0].n_passes in (1, 3)
    assert metric.n_passes_ <= metric.chosen_[0].n_passes
    triplets = np.array([(a, b, c) for (a, b), c in zip(PAIRS, np.roll(PAIRS[:, 1], 50), strict=True) if b != c])
    given = clone(recommended).fit(triplets, points=POINTS)
    assert {candidate.n_passes for candidate in given.candidates_} == {1}
    assert given.n_passes_ <= 1


def test_passes_that_are_wanted_are_made_again_by_refit_and_warm_start():
    metric = ComparisonBoostMetric.recommended(n_passes=3, init="identity", max_iter=6, random_state=0, warm_start=True)
    metric.fit(POSITIVES, points=POINTS)
    assert metric.chosen_[0].n_passes == 3
    passes = metric._boosted.iterations_of_passes
    assert passes == metric.chosen_[0].max_iter
    learned = metric.components_
    assert clone(metric).fit(POSITIVES, points=POINTS).refit(POSITIVES, points=POINTS).components_.tobytes() == (
        learned.tobytes()
    )
    metric.fit(POSITIVES, points=POINTS)
    assert metric.n_passes_ == 3
    assert metric.n_iter_ >= sum(passes)


def test_passes_over_given_comparisons_are_an_error():
    triplets = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    message = r"n_passes=2 would find comparisons again in every pass, but these are given.*from_positives"
    with pytest.raises(ValueError, match=message):
        ComparisonBoostMetric(n_passes=2).fit(triplets, points=POINTS)
    with pytest.raises(ValueError, match=message):
        ComparisonBoostMetric.recommended(n_passes=2).fit(triplets, points=POINTS)
    for value in (0, "auto "):
        with pytest.raises(ValueError, match="n_passes must be"):
            ComparisonBoostMetric(n_passes=value).fit(triplets, points=POINTS)
