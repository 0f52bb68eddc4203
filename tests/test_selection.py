"""The recommended setting: what it chooses from, how it judges, and what it promises."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.callbacks import Checkpoint
from boostmetric.estimators.selection import Candidate, Choice, Path, choose
from boostmetric.evaluation import knn_error
from boostmetric.solver.plan import Settings
from boostmetric.solver.result import StopReason
from boostmetric.solver.sources import Labelled
from conftest import labelled

X, Y = load_wine(return_X_y=True)
QUICK = {"n_passes": 2, "max_iter": 5, "random_state": 0}


def mean_error(train, test, components):
    mapped = MahalanobisMetric(components).transform
    return np.mean([knn_error(mapped(train[0]), train[1], mapped(test[0]), test[1], k) for k in (1, 3, 5)])


def test_never_worse_than_euclidean_on_its_own_validation_samples():
    metric = BoostMetric.recommended(**QUICK).fit(X, Y)
    euclidean, *others = metric.candidates_
    assert euclidean.path.init == "identity"
    assert euclidean.n_passes == 0
    chosen = choose(metric.candidates_, len(Y))
    assert chosen.path == Path(metric.init_, metric.solver_)
    assert chosen.n_passes == metric.n_passes_
    assert chosen.error < euclidean.error
    assert {other.path.init for other in others} == {"standardized", "rca", "standardized-rca"}
    assert {other.path.solver for other in others} == {"stagewise", "corrective"}
    best_start = min([euclidean, *others], key=lambda c: c.error if c.n_passes == 0 else np.inf)
    assert {other.path.init for other in others if other.n_passes > 0} == {best_start.path.init}


def test_errors_are_those_on_the_eval_set():
    X, Y = labelled("balance")
    order = np.random.default_rng(0).permutation(len(Y))
    train, test = ((X[part], Y[part]) for part in np.split(order, [400]))
    metric = BoostMetric.recommended(**QUICK, n_neighbors=2).fit(*train, eval_set=test)
    euclidean = next(c for c in metric.candidates_ if c.path.init == "identity" and c.n_passes == 0)
    assert euclidean.error == pytest.approx(mean_error(train, test, np.eye(X.shape[1])))
    # With samples set aside, the chosen metric is the one that was judged.
    chosen = choose(metric.candidates_, len(train[1]))
    assert chosen.n_passes > 0
    assert mean_error(train, test, metric.components_) == pytest.approx(chosen.error)


class Watch:
    """A callback that counts, and stops or fails when it is told to."""

    def __init__(self, stop_after=None, fail_after=None):
        self.numbers, self.candidates = [], []
        self.stop_after, self.fail_after = stop_after, fail_after

    def on_iteration(self, record):
        self.numbers.append(record.number)
        if len(self.numbers) == self.fail_after:
            raise KeyboardInterrupt
        return len(self.numbers) == self.stop_after

    def on_candidate(self, candidate):
        self.candidates.append(candidate)


@pytest.fixture(scope="module")
def several_passes():
    """Three classes that take several passes, with samples to validate on."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((600, 8))
    labels = (points[:, 0] * points[:, 1] > 0).astype(int) + (points[:, 2] > 0.5)
    points[:, 3:] *= 3
    return (points[:400], labels[:400]), (points[400:], labels[400:])


MORE = {"n_passes": 4, "max_iter": 6, "random_state": 0, "solver": "stagewise"}


def test_with_an_eval_set_what_is_validated_is_the_fit(several_passes):
    train, test = several_passes
    watch = Watch()
    metric = BoostMetric.recommended(**MORE, callbacks=[watch]).fit(*train, eval_set=test)
    assert metric.n_passes_ > 1
    assert watch.candidates == metric.candidates_
    n_passes = sum(candidate.n_passes > 0 for candidate in metric.candidates_)
    assert watch.numbers == list(range(1, 6 * n_passes + 1))  # each iteration once: nothing is learned again
    assert metric.n_iter_ == 6 * metric.n_passes_
    further = metric.n_passes_ < n_passes
    assert metric.stop_reason_ is (StopReason.VALIDATED if further else StopReason.ITERATION_LIMIT)


class Enough(Watch):
    def on_candidate(self, candidate):
        super().on_candidate(candidate)
        return candidate.n_passes == 1


def test_a_callback_may_have_seen_enough_candidates():
    data = labelled("balance")
    watch = Enough()
    metric = BoostMetric.recommended(**MORE, callbacks=[watch]).fit(*data)
    assert watch.candidates == metric.candidates_
    assert [candidate.n_passes for candidate in metric.candidates_] == [0, 0, 0, 0, 1]
    chosen = choose(metric.candidates_, len(data[1]))
    assert (metric.init_, metric.n_passes_) == (chosen.path.init, chosen.n_passes)  # learned from all samples
    assert watch.numbers == list(range(1, metric.n_iter_ + 1))


def test_stopped_by_a_callback_the_best_so_far_is_kept(several_passes):
    train, test = several_passes
    metric = BoostMetric.recommended(**MORE, callbacks=[Watch(stop_after=8)]).fit(*train, eval_set=test)
    assert metric.stop_reason_ is StopReason.CALLBACK
    assert max(candidate.n_passes for candidate in metric.candidates_) == 2  # the second pass is not whole
    chosen = choose(metric.candidates_, len(train[1]))
    assert mean_error(train, test, metric.components_) == pytest.approx(chosen.error)


@pytest.mark.parametrize(
    ("solver", "fail_after"), [*(("stagewise", n) for n in (2, 6, 7, 15)), ("auto", 9), ("auto", 26), ("corrective", 3)]
)
def test_a_validated_fit_goes_on_from_its_checkpoint_to_the_same_metric(several_passes, solver, fail_after, tmp_path):
    train, test = several_passes
    setting = {**MORE, "solver": solver}
    whole = BoostMetric.recommended(**setting).fit(*train, eval_set=test)
    path = tmp_path / "fit.npz"
    watching = [Checkpoint(path, every=1), Watch(fail_after=fail_after)]
    with pytest.raises(KeyboardInterrupt):
        BoostMetric.recommended(**setting, callbacks=watching).fit(*train, eval_set=test)
    again = BoostMetric.recommended(**setting).fit(*train, eval_set=test, resume_from=path)
    assert again.components_.tobytes() == whole.components_.tobytes()
    assert [c.error for c in again.candidates_] == pytest.approx([c.error for c in whole.candidates_])


def test_stopped_again_after_a_resume_nothing_is_lost(several_passes, tmp_path):
    train, test = several_passes
    path = tmp_path / "fit.npz"
    setting = MORE
    stopped = BoostMetric.recommended(**setting, callbacks=[Checkpoint(path, every=1), Watch(stop_after=20)])
    stopped.fit(*train, eval_set=test)
    assert stopped.n_passes_ > 0
    watch = Watch(stop_after=1)
    again = BoostMetric.recommended(**setting, callbacks=[Checkpoint(path, every=1), watch])
    again.fit(*train, eval_set=test, resume_from=path)
    assert watch.numbers == [21]  # and no earlier one again
    assert again.stop_reason_ is StopReason.CALLBACK
    chosen = choose(again.candidates_, len(train[1]))
    assert chosen.error <= choose(stopped.candidates_, len(train[1])).error
    assert mean_error(train, test, again.components_) == pytest.approx(chosen.error)
    assert len(Checkpoint.load(path).history) == 21


@pytest.mark.filterwarnings("ignore:max_iter=. was reached before tol")
def test_the_result_is_learned_from_all_samples_as_if_it_had_been_asked_for():
    X, Y = labelled("balance")
    metric = BoostMetric.recommended(**QUICK).fit(X, Y)
    assert metric.n_passes_ > 0
    same = BoostMetric.recommended(**QUICK).fit(X, Y)
    assert same.components_.tobytes() == metric.components_.tobytes()
    max_iter = 5 if metric.solver_ == "stagewise" else 1
    asked = BoostMetric.recommended(
        init=metric.init_, solver=metric.solver_, n_passes=1, max_iter=max_iter, random_state=0
    ).fit(X, Y)
    assert metric.history_[: asked.n_iter_] == asked.history_


def test_overrides_and_clones():
    metric = BoostMetric.recommended(n_components=2, n_neighbors=5)
    assert metric.n_components == 2
    assert metric.n_neighbors == 5
    assert metric.init == metric.solver == "auto"
    assert metric.loss == "logistic"
    assert clone(metric).get_params() == metric.get_params()
    with pytest.raises(TypeError, match="unexpected keyword"):
        BoostMetric.recommended(speed="high")
    assert BoostMetric.recommended(**QUICK, n_components=2).fit(X, Y).transform(X).shape == (len(X), 2)


@pytest.mark.parametrize("init", ["identity", "zero", np.eye(13)], ids=["identity", "zero", "array"])
def test_only_what_is_auto_is_chosen(init):
    metric = BoostMetric.recommended(**QUICK, init=init).fit(X, Y)
    assert metric.init_ is init or metric.init_ == "identity"
    learned = [candidate for candidate in metric.candidates_ if candidate.n_passes > 0]
    assert all(candidate.path.init is init for candidate in learned)
    stagewise = BoostMetric.recommended(**QUICK, solver="stagewise").fit(X, Y)
    assert {candidate.path.solver for candidate in stagewise.candidates_} == {"stagewise"}


def test_no_headroom_is_said():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.standard_normal((60, 2)), rng.standard_normal((60, 2)) + np.array([4.0, 0.0])])
    y = np.repeat([0, 1], 60)
    metric = BoostMetric.recommended(random_state=0, init="identity", n_passes=2).fit(points, y)
    euclidean = metric.candidates_[0]
    assert not any(candidate.is_clearly_better(euclidean, 2.0) for candidate in metric.candidates_)
    assert metric.stop_reason_ is StopReason.KEPT_START
    assert str(metric.stop_reason_).startswith("Kept the start")
    assert metric.n_passes_ == metric.n_iter_ == 0
    matrix = metric.get_mahalanobis_matrix()
    assert matrix == pytest.approx(matrix[0, 0] * np.eye(2))


def test_only_what_is_clearly_better_is_chosen():
    n = 100
    errors = {share: (np.arange(n) < share).astype(float) for share in (1, 2, 10, 12, 14, 30)}
    euclidean, rca = Path("identity", "stagewise"), Path("rca", "stagewise")

    def chosen(*found):
        return choose([Candidate(path, n_passes, errors[share]) for path, n_passes, share in found], n)

    assert chosen((euclidean, 0, 14), (rca, 0, 12)).path == euclidean  # two errors of a hundred are chance
    assert chosen((euclidean, 0, 30), (rca, 0, 12), (rca, 1, 10)).n_passes == 0
    assert chosen((euclidean, 0, 30), (rca, 0, 12), (rca, 1, 2), (rca, 2, 2)).n_passes == 1
    assert chosen((euclidean, 0, 14), (rca, 0, 12), (rca, 3, 1)).n_passes == 3


def candidates_of(data, follow, held_out=None, solver="auto", n_passes=1):
    class Following(Choice):
        def _follow(self, part, path):
            return follow(part, path)

    options = {"init": "auto", "solver": solver, "n_passes": n_passes, "max_iter": 1, "rank": None}
    told = []
    found = Following(data, held_out, settings=Settings(), **options).candidates(
        lambda candidate: False, lambda done, total: told.append((done, total))
    )
    done = [number for number, _ in told]
    assert done == sorted(done)
    assert told[-1][0] == told[-1][1]
    return found


def test_paths_never_see_what_they_are_judged_on():
    n = 100
    data = Labelled(np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2, None, 3, 3)
    seen = []

    def follow(part, path):
        seen.append(part.X[:, 0])
        yield np.eye(2)
        yield np.eye(2)

    found = candidates_of(data, follow, solver="stagewise")
    parts = [tuple(part) for part in seen[:10]]  # five folds, twice
    left_out = [set(data.X[:, 0]) - set(part) for part in parts]
    assert [len(part) for part in left_out] == [20] * 10
    assert set.union(*left_out[:5]) == set.union(*left_out[5:]) == set(data.X[:, 0])
    assert all(tuple(part) in parts for part in seen)
    assert len(found) == 4 + 1  # four starts, and a pass from the best


def test_large_data_are_validated_on_once():
    rng = np.random.default_rng(0)
    data = Labelled(rng.standard_normal((2000, 40)), rng.integers(0, 2, 2000), None, 3, 3)
    asked = []

    def follow(part, path):
        asked.append((path, len(part.y)))
        yield np.eye(40)
        yield np.eye(40)

    found = candidates_of(data, follow)
    assert {n for _, n in asked} == {1500}
    assert {path.solver for path, _ in asked} == {"stagewise"}  # too many features for the other one
    assert len(found) == 4 + 1


@pytest.mark.parametrize(("set_aside", "patience"), [(False, 3), (True, 2)])
def test_a_path_that_gets_no_better_is_given_up(set_aside, patience):
    data = Labelled(np.arange(40.0).reshape(20, 2), np.arange(20) % 2, None, 3, 3)
    taken = []

    def follow(part, path):
        for n in range(100):
            taken.append(n)
            yield np.eye(2)

    candidates_of(data, follow, held_out=data if set_aside else None, solver="stagewise", n_passes=99)
    assert max(taken) == patience


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
    metric = BoostMetric.recommended(**QUICK, warm_start=True, solver="stagewise").fit(X, Y)
    n_iter, loss = metric.n_iter_, metric.history_[-1].loss
    assert n_iter > 0
    metric.set_params(max_iter=8).fit(X, Y)
    assert metric.n_iter_ > n_iter
    assert metric.history_[-1].loss < loss


def test_a_stream_and_a_fit_in_turn():
    metric = BoostMetric.recommended(**QUICK, warm_start=True)
    metric.partial_fit(X, Y).fit(X, Y)
    assert metric.solver_ in ("stagewise", "corrective")
    metric.partial_fit(X, Y)
    assert not hasattr(metric, "candidates_")
    assert not hasattr(metric, "init_")


def test_candidates_are_judged_with_the_rank_they_will_have():
    train, test = (X[::2], Y[::2]), (X[1::2], Y[1::2])
    for rank in (1, 2):
        metric = BoostMetric.recommended(**QUICK, n_components=rank).fit(*train, eval_set=test)
        chosen = choose(metric.candidates_, len(train[1]))
        assert mean_error(train, test, metric.components_) == pytest.approx(chosen.error)


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
