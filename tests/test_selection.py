"""The recommended setting: what it chooses from, how it judges, and what it promises."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.callbacks import Checkpoint
from boostmetric.estimators import candidates
from boostmetric.estimators.candidates import Candidate, Recipe, choose, is_better
from boostmetric.estimators.folds import soft_losses
from boostmetric.estimators.selection import Choice, mean_map
from boostmetric.evaluation import knn_error
from boostmetric.metric.starts import STARTS
from boostmetric.solver.plan import Settings
from boostmetric.solver.result import StopReason
from boostmetric.solver.sources import DrawnAnchors, Labelled
from conftest import labelled

X, Y = load_wine(return_X_y=True)
QUICK = {"n_passes": 2, "max_iter": 5, "random_state": 0}


def mean_error(train, test, components):
    mapped = MahalanobisMetric(components).transform
    return np.mean([knn_error(mapped(train[0]), train[1], mapped(test[0]), test[1], k) for k in (1, 3, 5)])


def test_candidates_are_all_starts_and_passes_from_the_best():
    metric = BoostMetric.recommended(**QUICK).fit(X, Y)
    compared, unit = ([c for c in metric.candidates_ if c.normalize == length] for length in (False, True))
    learned = [candidate for candidate in compared if candidate.n_passes]
    assert [(c.recipe, c.n_passes) for c in unit if c.n_passes] == [(c.recipe, c.n_passes) for c in learned]
    assert [c.recipe.init for c in unit if c.recipe.rank is None and not c.n_passes] == list(STARTS[1:])
    starts = [candidate for candidate in compared if candidate.n_passes == 0]
    whole = [start for start in starts if start.recipe.rank is None]
    assert [start.recipe.init for start in whole] == list(STARTS[1:])
    best = min(whole, key=lambda start: start.loss)
    assert {candidate.recipe.init for candidate in learned} == {best.recipe.init, "standardized"}
    raced = [candidate for candidate in learned if not is_varied(candidate)]
    assert {(c.recipe.n_neighbors, c.recipe.n_impostors) for c in raced} == {(3, 3), (5, 10), (10, 20)}
    chosen, *others = metric.chosen_
    firm = [c for c in metric.candidates_ if not is_varied(c) or is_better(c, best_raced(metric.candidates_), 1.3)]
    assert chosen.loss == min(candidate.loss for candidate in firm)
    assert chosen.error < metric.candidates_[0].error
    assert (metric.init_, metric.n_passes_) == (chosen.recipe.init, chosen.n_passes)
    assert (metric.n_neighbors_, metric.n_impostors_) == (chosen.recipe.n_neighbors, chosen.recipe.n_impostors)
    assert len(others) == (2 if chosen.n_passes else 0)
    assert len({candidate.recipe for candidate in metric.chosen_}) == len(metric.chosen_)


def is_varied(candidate):
    """Whether a candidate differs from those that are tried first."""
    recipe = candidate.recipe
    return recipe.learning_rate != 1.0 or recipe.n_impostors == "all" or recipe.n_bags > 1


def best_raced(found):
    return min((candidate for candidate in found if not is_varied(candidate)), key=lambda candidate: candidate.loss)


def test_the_leading_recipe_is_varied_in_one_thing_at_a_time():
    metric = BoostMetric.recommended(**QUICK, normalize=False).fit(X, Y)
    learned = [candidate for candidate in metric.candidates_ if candidate.n_passes]
    raced, varied = ([c for c in learned if is_varied(c) == which] for which in (False, True))
    leading = min(raced, key=lambda candidate: candidate.loss).recipe
    *others, bagged = varied
    assert list(dict.fromkeys(candidate.recipe for candidate in others)) == [
        replace(leading, learning_rate=0.3),
        replace(leading, n_impostors="all"),
    ]
    best = min((c for c in learned if c.recipe in (leading, *(o.recipe for o in others))), key=lambda c: c.loss)
    assert (bagged.recipe, bagged.n_passes) == (best.recipe.bagged, best.n_passes)
    given = BoostMetric.recommended(**QUICK, normalize=False, learning_rate=0.5, n_impostors=4).fit(X, Y)
    recipes = {candidate.recipe for candidate in given.candidates_ if candidate.n_passes}
    assert {recipe.learning_rate for recipe in recipes} == {0.5}
    assert {recipe.n_impostors for recipe in recipes} == {4}
    assert {recipe.n_bags for recipe in recipes} == {1, 3}
    assert given.learning_rate_ == 0.5


def test_each_bag_leaves_out_other_samples_of_every_class():
    data = Labelled(np.arange(30.0)[:, None], np.repeat([0, 1, 2], 10), None, 3, 3)
    recipe = Recipe("identity", "stagewise", 3, 3, 1, n_bags=3)
    bags = recipe.bags(data)
    left_out = [sample for bag in bags for sample in set(range(30)) - set(bag.X[:, 0].astype(int))]
    assert len(left_out) == len(set(left_out)) == 18
    assert all(np.array_equal(np.unique(bag.y, return_counts=True)[1], [8, 8, 8]) for bag in bags)
    assert replace(recipe, n_bags=1).bags(data) == [data]
    lonely = Labelled(np.arange(6.0)[:, None], np.array([0, 0, 0, 0, 0, 1]), None, 1, 1)
    few = replace(recipe, n_bags=5).bags(lonely)
    assert len(few) == 4  # in one bag there is nothing to compare with


def test_the_mean_of_metrics_in_units_of_their_mean_squared_distance():
    rng = np.random.default_rng(0)
    X, maps = rng.standard_normal((50, 5)), [rng.standard_normal((n, 5)) for n in (2, 5, 4)]
    scatter = np.cov(X, rowvar=False)
    found = mean_map([*maps, None], scatter)
    matrices = [rows.T @ rows / np.vdot(rows.T @ rows, scatter) for rows in maps]
    assert found.shape == (5, 5)
    np.testing.assert_allclose(found.T @ found, sum(matrices), rtol=1e-12)
    assert mean_map([None, np.zeros((5, 5))], scatter) is None


def test_a_bagged_result_is_the_mean_of_its_bags():
    X, Y = labelled("balance")
    recipe = Recipe("identity", "stagewise", 3, 3, 1, learning_rate=0.3, n_bags=3)
    candidate, data = Candidate(recipe, 2, np.zeros(0), np.zeros(0)), Labelled(X, Y, None, 3, 3)

    def learned(candidate, data):
        metric = BoostMetric.recommended(**QUICK)
        metric._fit(data, None, None, (data.X, data.y), decision=metric._decided(data, [candidate]))
        assert (metric.n_passes_, metric.learning_rate_) == (2, 0.3)
        return metric.get_mahalanobis_matrix()

    scatter, alone = np.cov(X, rowvar=False), replace(candidate, recipe=replace(recipe, n_bags=1))
    matrices = [learned(alone, bag) for bag in recipe.bags(data)]
    mean = sum(matrix / np.vdot(matrix, scatter) for matrix in matrices) / 3
    together = learned(candidate, data)
    assert together / np.vdot(together, scatter) == pytest.approx(mean, rel=1e-9)
    # The metric that was judged is the same mean, with bags of the samples that it learned from.
    judged = mean_map([np.linalg.cholesky(matrix).T for matrix in matrices], data.scatter)
    judged = judged.T @ judged
    assert judged / np.vdot(judged, scatter) == pytest.approx(mean, rel=1e-9)


def test_errors_are_those_on_the_eval_set():
    X, Y = labelled("balance")
    order = np.random.default_rng(0).permutation(len(Y))
    train, test = ((X[part], Y[part]) for part in np.split(order, [400]))
    metric = BoostMetric.recommended(**QUICK).fit(*train, eval_set=test)
    euclidean = metric.candidates_[0]
    assert euclidean.recipe.init == "identity"
    assert euclidean.error == pytest.approx(mean_error(train, test, np.eye(X.shape[1])))


class Watch:
    """A callback that counts, and stops or fails when it is told to."""

    def __init__(self, fail_after=None):
        self.numbers, self.candidates = [], []
        self.fail_after = fail_after

    def on_iteration(self, record):
        self.numbers.append(record.number)
        if len(self.numbers) == self.fail_after:
            raise KeyboardInterrupt

    def on_candidate(self, candidate):
        self.candidates.append(candidate)


class Enough(Watch):
    def on_candidate(self, candidate):
        super().on_candidate(candidate)
        return candidate.n_passes == 1


def test_a_callback_may_have_seen_enough_candidates():
    data = labelled("balance")
    watch = Enough()
    metric = BoostMetric.recommended(**QUICK, callbacks=[watch]).fit(*data)
    assert watch.candidates == metric.candidates_
    whole = [candidate for candidate in metric.candidates_ if candidate.recipe.rank is None]
    assert [candidate.n_passes for candidate in whole if not candidate.normalize] == [0] * 7 + [1]
    assert watch.numbers == list(range(1, metric.n_iter_ + 1))  # trials are not watched, the fit is


@pytest.mark.parametrize("fail_after", [2, 5, 6])
def test_a_fit_goes_on_from_its_checkpoint_to_the_same_metric(fail_after, tmp_path):
    data, quick = labelled("balance"), QUICK | {"normalize": False, "learning_rate": 1.0, "random_state": 3}
    whole = BoostMetric.recommended(**quick).fit(*data)
    assert whole.n_passes_ == 2
    assert len(whole.chosen_) == 3
    path = tmp_path / "fit.npz"
    with pytest.raises(KeyboardInterrupt):
        BoostMetric.recommended(**quick, callbacks=[Checkpoint(path, every=1), Watch(fail_after)]).fit(*data)
    again = BoostMetric.recommended(**quick).fit(*data, resume_from=path)
    assert again.components_.tobytes() == whole.components_.tobytes()


def test_the_result_is_the_mean_of_what_was_chosen_learned_from_all_samples():
    X, Y = labelled("balance")
    metric = BoostMetric.recommended(**QUICK).fit(X, Y)
    assert BoostMetric.recommended(**QUICK).fit(X, Y).components_.tobytes() == metric.components_.tobytes()
    scatter, matrices = np.cov(X, rowvar=False), []
    for candidate in metric.chosen_:
        recipe = candidate.recipe
        alone = BoostMetric.recommended(**QUICK)
        alone.chosen_ = [candidate]
        source = Labelled(X, Y, None, recipe.n_neighbors, recipe.n_impostors)
        alone._fit(source, None, None, (X, Y), decision=alone._decided(source, [candidate]))
        assert alone.n_passes_ == candidate.n_passes
        matrices.append(alone.get_mahalanobis_matrix())
    sizes = [np.vdot(matrix, scatter) for matrix in matrices]
    expected = np.mean([matrix / size for matrix, size in zip(matrices, sizes, strict=True)], axis=0)
    learned = metric.get_mahalanobis_matrix()
    assert learned / np.vdot(learned, scatter) == pytest.approx(expected, rel=1e-9)


def test_refit_learns_what_was_chosen_without_choosing():
    X, Y = labelled("balance")
    whole = BoostMetric.recommended(**QUICK).fit(X, Y)
    watch = Watch()
    metric = BoostMetric.recommended(**QUICK, warm_start=True).fit(X[::2], Y[::2])
    metric.chosen_ = whole.chosen_
    metric.set_params(callbacks=[watch]).refit(X, Y)
    assert not watch.candidates
    assert metric.components_.tobytes() == whole.components_.tobytes()
    paper = BoostMetric.paper(max_iter=5, warm_start=True).fit(X[::2], Y[::2])
    assert paper.refit(X, Y).components_.tobytes() == BoostMetric.paper(max_iter=5).fit(X, Y).components_.tobytes()


def test_overrides_and_clones():
    metric = BoostMetric.recommended(n_components=2, n_neighbors=5)
    assert metric.n_components == 2
    assert metric.n_neighbors == 5
    assert metric.init == metric.n_impostors == "auto"
    assert metric.loss == "logistic"
    assert clone(metric).get_params() == metric.get_params()
    with pytest.raises(TypeError, match="unexpected keyword"):
        BoostMetric.recommended(speed="high")
    assert BoostMetric.recommended(**QUICK, n_components=2).fit(X, Y).transform(X).shape == (len(X), 2)


@pytest.mark.parametrize("init", ["identity", "zero", np.eye(13)], ids=["identity", "zero", "array"])
def test_only_what_is_auto_is_chosen(init):
    metric = BoostMetric.recommended(**QUICK, init=init, n_neighbors=4).fit(X, Y)
    assert metric.init_ is init or metric.init_ == "identity"
    learned = [candidate for candidate in metric.candidates_ if candidate.n_passes > 0]
    assert all(candidate.recipe.init is init for candidate in learned)
    assert {candidate.recipe.n_neighbors for candidate in learned} == {4}
    assert {candidate.recipe.solver for candidate in learned} == {"stagewise"}
    both = BoostMetric.recommended(**QUICK, solver="auto").fit(X, Y)
    assert {candidate.recipe.solver for candidate in both.candidates_} == {"stagewise", "corrective"}


def test_a_start_that_is_kept_is_said():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.standard_normal((60, 2)), rng.standard_normal((60, 2)) + np.array([20.0, 0.0])])
    metric = BoostMetric.recommended(random_state=0, init="identity", n_passes=2).fit(points, np.repeat([0, 1], 60))
    assert metric.candidates_[0].error == 0.0
    assert metric.stop_reason_ is StopReason.KEPT_START
    assert str(metric.stop_reason_).startswith("Kept the start")
    assert metric.n_passes_ == metric.n_iter_ == 0
    matrix = metric.get_mahalanobis_matrix()
    assert matrix == pytest.approx(matrix[0, 0] * np.eye(2))


EUCLIDEAN, RCA = (Recipe(init, "stagewise", 5, 10, 1) for init in ("identity", "rca"))


def found_with(*figures, normalize=False):
    """Candidates of recipes, passes and losses; of two in turn, losses of the samples differ much."""
    spreads = (np.array([-0.25, 0.25, -0.25, 0.25]), np.array([0.25, -0.25, -0.25, 0.25]))
    return [
        Candidate(recipe, n, loss + spreads[i % 2], np.zeros(4), normalize)
        for i, (recipe, n, loss) in enumerate(figures)
    ]


def test_the_smallest_loss_is_chosen_and_two_more():
    figures = [(EUCLIDEAN, 0, 9.0), (RCA, 0, 3.0), (EUCLIDEAN, 1, 2.0), (RCA, 1, 1.75), (RCA, 2, 1.75)]
    every = found_with(*figures)
    assert choose(every) == [every[3], every[2]]  # the fewest passes among equals
    assert choose(every[:2]) == [every[1]]  # a start is not averaged
    more = found_with(*((Recipe("rca", "stagewise", n, 10, 1), 1, 1.75 + n / 16) for n in range(1, 5)))
    assert choose([*every, *more]) == [every[3], more[0], more[2]]  # more[1] is worse on every sample
    # Starts are averaged at unit length, and what is not at unit length is not averaged with what is.
    units = found_with(*((recipe, n, loss - 0.25) for recipe, n, loss in figures), normalize=True)
    start = replace(units[2], recipe=replace(RCA, rank=2), n_passes=0, losses=units[2].losses + 0.0625)
    assert choose([*every, *units, start]) == [units[3], units[2], start]


def test_a_variation_is_not_averaged_with_its_origin():
    varied = RCA.varied(learning_rate=0.3)
    figures = [(EUCLIDEAN, 2, 1.8), (RCA, 1, 2.0), (RCA.bagged, 1, 1.8), (varied, 4, 1.75), (EUCLIDEAN, 1, 3.0)]
    every = found_with((EUCLIDEAN, 0, 9.0), *figures)
    # The bagged one is better than its origin by 0.2, which is 1.1 standard errors.
    assert choose(every) == [every[4], every[1]]
    assert choose([*every[:3], *every[5:]]) == [every[1], every[2]]
    assert varied.bagged.family is RCA


def test_a_variation_takes_the_lead_only_if_it_is_clearly_better():
    leader, doubtful, firm = found_with((RCA, 1, 2.0), (RCA.bagged, 1, 1.9), (RCA.bagged, 1, 1.9))
    assert not Choice._leads(doubtful, leader)
    assert Choice._leads(firm, leader)
    assert Choice._leads(replace(doubtful, recipe=EUCLIDEAN), leader)


def test_what_is_clearly_worse_is_not_averaged_with_the_best():
    figures = [(EUCLIDEAN, 0, 0.5), (RCA, 1, 0.1), (EUCLIDEAN, 1, 0.11)]
    every = [Candidate(recipe, n, np.full(4, loss), np.zeros(4)) for recipe, n, loss in figures]
    assert choose(every) == [every[1]]
    doubtful = replace(every[2], losses=np.array([0.3, 0.1, 0.0, 0.05]))  # worse by 0.0125, standard error 0.057
    assert choose([*every[:2], doubtful]) == [every[1], doubtful]


def test_a_start_may_be_an_array_beside_named_ones():
    given = Recipe(np.eye(2), "stagewise", 5, 10, 1)
    every = [*found_with((EUCLIDEAN, 0, 9.0)), *found_with((EUCLIDEAN, 0, 2.0), (given, 1, 1.75), normalize=True)]
    chosen = choose(every)
    assert [candidate is expected for candidate, expected in zip(chosen, [every[2], every[1]], strict=True)] == [
        True
    ] * 2


def test_a_mean_of_starts_is_not_said_to_be_a_start():
    X, Y = labelled("balance")
    metric = BoostMetric.recommended(**QUICK).fit(X, Y)
    starts = [Candidate(Recipe(init, "stagewise", 3, 3, 1), 0, np.zeros(0), np.zeros(0)) for init in ("rca", "lda")]
    metric.chosen_ = starts
    assert metric.refit(X, Y).stop_reason_ is StopReason.VALIDATED
    assert list(map(str, starts)) == ["RCA", "LDA"]
    metric.chosen_ = starts[:1]
    assert metric.refit(X, Y).stop_reason_ is StopReason.KEPT_START


def test_the_smallest_loss_says_whether_to_scale_to_unit_length():
    base = Candidate(EUCLIDEAN, 0, np.full(4, 0.5), np.zeros(4))
    firm = Candidate(RCA, 1, base.losses - 0.02, np.zeros(4))
    doubtful = Candidate(RCA, 1, base.losses - np.array([0.5, -0.2, -0.2, 0.1]), np.zeros(4), normalize=True)
    assert choose([base, firm, doubtful]) == [base]
    assert choose([base, firm, replace(doubtful, losses=base.losses - 0.01)]) == [firm]


def test_what_is_better_by_chance_is_not_chosen():
    base = Candidate(EUCLIDEAN, 0, np.full(4, 0.5), np.zeros(4))
    gains = np.array([0.5, -0.2, -0.2, 0.1])  # mean 0.05, standard error 0.144
    doubtful = Candidate(RCA, 2, base.losses - gains, np.zeros(4))
    firm = Candidate(RCA, 1, base.losses - 0.02, np.zeros(4))
    assert choose([base, doubtful]) == [base]
    assert choose([base, doubtful, firm]) == [firm]


def test_soft_losses_are_the_definition():
    rng = np.random.default_rng(0)
    train, test = (Labelled(rng.standard_normal((n, 3)), rng.integers(0, 2, n), None, 3, 3) for n in (15, 7))
    losses, errors = soft_losses(train, test, MahalanobisMetric(2 * np.eye(3)))
    squares = 4 * ((test.X[:, None] - train.X) ** 2).sum(axis=2)
    unit = np.sort(squares, axis=1)[:, :10].mean()
    weights = np.exp(-squares / (0.4 * unit))
    probability = (weights * (train.y == test.y[:, None])).sum(axis=1) / weights.sum(axis=1)
    assert losses[3] == pytest.approx(-np.log(0.05 + 0.95 * probability))
    assert errors.mean() == pytest.approx(mean_error((train.X, train.y), (test.X, test.y), np.eye(3)))


def candidates_of(data, follow, held_out=None, n_passes=1):
    class Following(Choice):
        def _follow(self, train, recipe):
            return follow(train, recipe)

    options = {
        "init": "auto",
        "solver": "stagewise",
        "n_neighbors": "auto",
        "n_impostors": "auto",
        "block_size": "auto",
        "learning_rate": "auto",
    }
    told = []
    options |= {"max_iter": 1, "rank": None, "normalize": False, "settings": Settings()}
    choice = Following(data, held_out, n_passes=n_passes, **options)
    found = choice.candidates(
        choice._folds(), lambda candidate: False, lambda done, total, what: told.append((done, total))
    )
    done = [number for number, _ in told]
    assert done == sorted(done)
    assert told[-1][0] == told[-1][1]
    return found


def test_trials_never_see_what_they_are_judged_on():
    n = 100
    data = Labelled(np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2, None, 3, 3)
    seen = []

    def follow(train, recipe):
        seen.append(tuple(train.X[:, 0]))
        yield np.eye(2)

    found = candidates_of(data, follow)
    left_out = [set(data.X[:, 0]) - set(part) for part in seen[:10]]
    assert [len(part) for part in left_out] == [10] * 10
    assert set.union(*left_out) == set(data.X[:, 0])
    assert set(seen) == set(seen[:10])
    n_starts = len({candidate.recipe.init for candidate in found if candidate.n_passes})
    assert len(found) == 7 + 3 * n_starts  # seven starts, and a pass with three sizes


def rings_among_noise():
    """Two classes, one around the other in the directions of most variance."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    angles = rng.uniform(0, 2 * np.pi, 240)
    rings = (2 + 4 * y)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    return np.column_stack([rings, 1.2 * rng.standard_normal((240, 14))]), y


def test_starts_are_judged_with_fewer_directions_as_long_as_that_is_better():
    found = candidates_of(Labelled(*rings_among_noise(), None, 3, 3), lambda train, recipe: iter([np.eye(16)] * 2))
    for init in STARTS[1:]:
        of_start = [candidate for candidate in found if candidate.recipe.init == init and not candidate.n_passes]
        ranks = [candidate.recipe.rank for candidate in of_start]
        first = 1 if init == "lda" else 16  # LDA has a direction fewer than classes
        halved = [None, *(-(-first // 2**i) for i in range(1, len(ranks)))]
        assert ranks == halved
        assert all(is_better(fewer, more, 0.5) for more, fewer in pairwise(of_start))
    assert any(candidate.recipe.rank is not None for candidate in found)
    assert all(candidate.recipe.rank is None for candidate in found if candidate.n_passes)


def test_principal_directions_are_those_of_the_mapped_samples():
    components = np.random.default_rng(0).standard_normal((5, 13))
    found = Labelled(X, Y, None, 3, 3, start_rank=2).start(components)
    expected = PCA(2).fit_transform(X @ components.T)
    assert np.abs((X - X.mean(axis=0)) @ found.T) == pytest.approx(np.abs(expected), rel=1e-6, abs=1e-6)


def test_a_few_directions_of_a_start_can_be_the_result():
    metric = BoostMetric.recommended(random_state=0, max_iter=1, n_passes=1, n_impostors=1).fit(*rings_among_noise())
    (chosen,) = metric.chosen_
    assert chosen.recipe.rank is not None
    assert metric.stop_reason_ is StopReason.KEPT_START
    assert len(metric.components_) == chosen.recipe.rank
    assert metric.start_rank_ == chosen.recipe.rank
    assert f"of rank {chosen.recipe.rank}" in str(chosen.recipe)


def test_large_data_are_validated_on_once():
    rng = np.random.default_rng(0)
    data = Labelled(rng.standard_normal((2000, 140)), rng.integers(0, 2, 2000), None, 3, 3)
    asked = []

    def follow(train, recipe):
        asked.append((recipe, len(train.y)))
        yield np.eye(140)

    candidates_of(data, follow)
    assert {n for _, n in asked} == {1500}
    assert {(recipe.n_neighbors, recipe.n_impostors) for recipe, _ in asked} == {(10, 50), (20, 100)}
    assert {recipe.block_size for recipe, _ in asked} == {32}


def test_the_worse_half_is_given_up_and_so_is_what_gets_no_better():
    data = Labelled(np.random.default_rng(0).standard_normal((120, 2)), np.arange(120) % 2, None, 3, 3)
    taken = []

    def follow(train, recipe):
        for n in range(1, 100):
            taken.append((recipe, n))
            yield np.eye(2)

    candidates_of(data, follow, n_passes=99)
    raced = {recipe for recipe, _ in taken if not is_varied(Candidate(recipe, 1, np.zeros(0), np.zeros(0)))}
    most = [max(n for tried, n in taken if tried == recipe) for recipe in raced]
    assert max(most) == 3  # no pass is better than the start
    assert sorted(most)[: len(most) // 2] == [2] * (len(most) // 2)


def test_anchors_are_drawn_again_for_every_pass():
    sample = DrawnAnchors(10, seed=3)
    first, again, other = (sample.drawn(50, None, n_passes) for n_passes in (0, 0, 1))
    assert first.sum() == other.sum() == 10
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert sample.drawn(10, None, 0) is None
    data = Labelled(np.random.default_rng(0).standard_normal((50, 3)), np.arange(50) % 2, None, 3, 4, sample=sample)
    for n_passes in (0, 2):
        comparisons = data.problem(np.eye(3), n_passes).comparisons
        assert comparisons.n_groups == 10
        assert set(comparisons.anchors) == set(np.flatnonzero(sample.drawn(50, None, n_passes)))


def test_the_last_passes_of_a_result_compare_all_anchors(monkeypatch):
    monkeypatch.setattr(candidates, "MOST_ANCHORS", 10)
    data = Labelled(np.random.default_rng(0).standard_normal((50, 3)), np.arange(50) % 2, None, 3, 4)
    source = Recipe("identity", "stagewise", 3, 4, 1).to_learn(data, 5)
    assert [source.problem(np.eye(3), n_passes).comparisons.n_groups for n_passes in range(5)] == [10, 10, 50, 50, 50]
    source = Recipe("identity", "stagewise", 3, 4, 1).to_learn(data, 0)
    assert source.problem(np.eye(3), 0).comparisons.n_groups == 50


@pytest.mark.filterwarnings("ignore:.*fewer than n_neighbors")
def test_too_few_samples_to_validate_on():
    with pytest.warns(UserWarning, match="3 samples are not enough to validate on"):
        metric = BoostMetric.recommended(n_neighbors=1).fit([[0.0], [1.0], [5.0]], [0, 0, 1])
    assert metric.candidates_ == []
    assert metric.init_ == "identity"


def test_auto_and_early_stopping_exclude_each_other():
    with pytest.raises(ValueError, match='early_stopping=True and "auto" exclude each other'):
        BoostMetric.recommended(early_stopping=True).fit(X, Y)


def test_warm_start_goes_on_with_what_was_chosen():
    X, Y = labelled("balance")
    metric = BoostMetric.recommended(**QUICK, warm_start=True).fit(X, Y)
    n_iter, chosen = metric.n_iter_, metric.chosen_
    assert n_iter > 0
    metric.set_params(max_iter=8).fit(X, Y)
    assert metric.n_iter_ > n_iter
    assert metric.chosen_ == chosen


def test_a_stream_and_a_fit_in_turn():
    metric = BoostMetric.recommended(**QUICK, warm_start=True)
    metric.partial_fit(X, Y).fit(X, Y)
    assert metric.solver_ in ("stagewise", "corrective")
    metric.partial_fit(X, Y)
    assert not hasattr(metric, "candidates_")
    assert not hasattr(metric, "init_")


def test_candidates_are_judged_with_the_rank_they_will_have():
    train, test = (X[::2], Y[::2]), (X[1::2], Y[1::2])
    metric = BoostMetric.recommended(**QUICK, n_components=1).fit(*train, eval_set=test)
    euclidean = metric.candidates_[0]
    assert euclidean.error == pytest.approx(mean_error(train, test, np.eye(13)[:1]))


def test_candidates_are_judged_at_unit_length_where_that_is_asked_for():
    train, test = (X[::2], Y[::2]), (X[1::2], Y[1::2])
    metric = BoostMetric.recommended(**QUICK, normalize=True).fit(*train, eval_set=test)
    units = [(points / np.linalg.norm(points, axis=1, keepdims=True), y) for points, y in (train, test)]
    assert metric.candidates_[0].error == pytest.approx(mean_error(*units, np.eye(13)))


def test_the_euclidean_distance_may_beat_a_metric_that_was_given():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    points = rng.standard_normal((120, 2)) + 20.0 * y[:, None] * [1.0, 0.0]
    metric = BoostMetric.recommended(random_state=0, init=np.array([[0.0, 1.0]]), n_passes=2).fit(points, y)
    assert metric.candidates_[0].error == 0.0
    assert metric.init_ == "identity"


def test_weights_that_are_zero_in_most_samples():
    weights = np.zeros(len(Y))
    weights[:3] = 1.0
    metric = BoostMetric.recommended(**QUICK).fit(X, Y, weights)
    assert np.isfinite(metric.components_).all()
    with pytest.raises(ValueError, match="sample_weight"):
        BoostMetric.recommended(**QUICK).fit(X, Y, weights[:5])


def test_labels_of_another_kind_are_refused():
    with pytest.raises(ValueError, match=r"None of the labels of eval_set, such as 'a'.*, is among those of y"):
        BoostMetric.recommended(**QUICK).fit(X, Y.astype(str), eval_set=(X, np.full(len(Y), "a")))
    with pytest.raises(ValueError, match="All 178 samples have the label 1"):
        BoostMetric.recommended(**QUICK).fit(X, np.ones(len(Y)))


def test_better_than_euclidean_on_new_samples():
    """A guard against mistakes, not a benchmark."""
    errors = {"euclidean": [], "recommended": []}
    for points, y in ((X, Y), load_iris(return_X_y=True)):
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = order[: len(y) * 7 // 10], order[len(y) * 7 // 10 :]
            metric = BoostMetric.recommended(random_state=0, n_passes=3).fit(points[train], y[train])
            mapped = metric.transform(points)
            errors["euclidean"].append(knn_error(points[train], y[train], points[test], y[test]))
            errors["recommended"].append(knn_error(mapped[train], y[train], mapped[test], y[test]))
    assert np.mean(errors["recommended"]) < 0.5 * np.mean(errors["euclidean"])
