"""Early stopping, checkpoints, warm starts, and scikit-learn's own callbacks."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_wine

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons
from boostmetric.callbacks import Checkpoint, EarlyStopping
from boostmetric.solver.learn import learn
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import StopReason
from conftest import random_triplets

X, Y = load_wine(return_X_y=True)


def noisy_problem(seed=0):
    """Many useless features, so that long boosting overfits."""
    problem = random_triplets(seed, n_points=80, n_features=12, n_triplets=600)
    train, test = problem.comparisons.split(0.3, random_state=0)
    return problem.points, train, test


# --- held-out comparisons ---------------------------------------------------------------------------------------------


def test_early_stopping_keeps_the_best_prefix():
    points, train, test = noisy_problem()
    stopped = ComparisonBoostMetric().fit(train, points=points, eval_set=test)
    assert stopped.stop_reason_ is StopReason.HELD_OUT
    scores = [record.held_out for record in stopped.history_]
    assert np.argmax(scores) == len(scores) - 1 == stopped.n_iter_ - 1
    assert len(stopped.directions_) == len(stopped.step_sizes_) == stopped.n_iter_
    # The same as a fit that was told to end there, certificate included.
    prefix = ComparisonBoostMetric(max_iter=stopped.n_iter_).fit(train, points=points)
    assert prefix.components_.tobytes() == stopped.components_.tobytes()
    assert stopped.duality_gap_ == pytest.approx(prefix.duality_gap_, rel=1e-9)
    assert stopped.score(test) == pytest.approx(scores[-1])
    # And no prefix of a longer fit does better within the patience.
    longer = ComparisonBoostMetric(max_iter=stopped.n_iter_ + 20).fit(train, points=points)
    maps = longer.staged_transform(points)
    near, far = test.pair_numbers()
    for z in maps:
        d = np.square(z[test.pairs[:, 0]] - z[test.pairs[:, 1]]).sum(axis=1)
        assert np.mean(d[far] > d[near]) <= scores[-1] + 1e-12


def test_held_out_scores_are_those_of_the_stages():
    X_train, y_train, X_test, y_test = X[::2], Y[::2], X[1::2], Y[1::2]
    metric = BoostMetric.paper(max_iter=15).fit(X_train, y_train, eval_set=(X_test, y_test))
    held = Comparisons.from_labels(X_test, y_test)
    for record, z in zip(metric.history_, metric.staged_transform(X_test), strict=True):
        d = np.square(z[held.pairs[:, 0]] - z[held.pairs[:, 1]]).sum(axis=1)
        near, far = held.pair_numbers()
        assert record.held_out == pytest.approx(np.mean(d[far] > d[near]), abs=1e-3)


def test_eval_set_beyond_the_span_of_the_training_points():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((60, 100))
    points[:, 0] *= 5
    y = points[:, 0] > 0
    metric = BoostMetric.paper(max_iter=5, n_iter_no_change=10).fit(points[:30], y[:30], eval_set=(points[30:], y[30:]))
    held = Comparisons.from_labels(points[30:], y[30:])
    after = ComparisonBoostMetric(max_iter=1).fit(held, points=points[30:])
    after.components_ = metric.components_
    assert metric.history_[-1].held_out == pytest.approx(after.score(held), abs=1e-6)


def test_early_stopping_is_repeatable_and_uses_the_random_state():
    a, b, c = (BoostMetric.paper(early_stopping=True, random_state=seed).fit(X, Y) for seed in (0, 0, 1))
    assert a.components_.tobytes() == b.components_.tobytes()
    assert a.components_.tobytes() != c.components_.tobytes()
    assert a.stop_reason_ is StopReason.HELD_OUT


def test_early_stopping_by_hand_needs_something_held_out():
    with pytest.raises(ValueError, match="needs held-out comparisons: set early_stopping=True"):
        BoostMetric.paper(callbacks=[EarlyStopping()]).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"validation_fraction": 0.0}, "validation_fraction must be a finite number above 0 and below 1. Got 0.0"),
        ({"validation_fraction": 1}, "below 1. Got 1"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be a whole number of at least 1"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        BoostMetric.paper(early_stopping=True, **parameters).fit(X, Y)


def test_bad_eval_sets_are_named():
    with pytest.raises(ValueError, match=r"eval_set must be a tuple \(X, y\). Got ndarray"):
        BoostMetric.paper().fit(X, Y, eval_set=X)
    with pytest.raises(ValueError, match="X has 5 features, but BoostMetric is expecting 13"):
        BoostMetric.paper().fit(X, Y, eval_set=(X[:, :5], Y))


def test_too_few_comparisons_to_hold_some_out():
    with pytest.raises(ValueError, match="early_stopping is set, or n_passes is more than 1: give more data"):
        ComparisonBoostMetric(early_stopping=True).fit([[0, 1, 2]], points=X)


# --- warm start -------------------------------------------------------------------------------------------------------


def test_warm_start_goes_on_to_the_same_bits():
    whole = BoostMetric.paper(max_iter=60).fit(X, Y)
    metric = BoostMetric.paper(max_iter=20, warm_start=True).fit(X, Y)
    for max_iter in (21, 40, 60, 60):
        metric.set_params(max_iter=max_iter).fit(X, Y)
        assert metric.n_iter_ == max_iter
    assert metric.components_.tobytes() == whole.components_.tobytes()
    assert metric.history_ == whole.history_
    assert metric.duality_gap_ == whole.duality_gap_


def test_warm_start_with_tolerance_remembers_where_it_began():
    whole = BoostMetric.paper(tol=1e-3).fit(X, Y)
    with pytest.warns(sklearn.exceptions.ConvergenceWarning):
        metric = BoostMetric.paper(tol=1e-3, max_iter=2, warm_start=True).fit(X, Y)
    metric.set_params(max_iter=500).fit(X, Y)
    assert metric.n_iter_ == whole.n_iter_


def test_warm_start_on_other_data_starts_from_the_metric():
    metric = BoostMetric.paper(max_iter=10, warm_start=True).fit(X[::2], Y[::2])
    first = metric.directions_
    metric.set_params(max_iter=12).fit(X[1::2], Y[1::2])
    assert metric.directions_[:10].tobytes() == first.tobytes()
    assert metric.n_iter_ == 12


def test_warm_start_needs_more_iterations_and_the_same_features():
    metric = BoostMetric.paper(max_iter=10, warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match=r"max_iter=9 is less than the 10 iterations .* Raise max_iter"):
        metric.set_params(max_iter=9).fit(X, Y)
    with pytest.raises(ValueError, match="X has 5 features"):
        metric.set_params(max_iter=20).fit(X[:, :5], Y)


def test_without_warm_start_a_fit_begins_anew():
    metric = BoostMetric.paper(max_iter=10).fit(X, Y)
    assert metric.fit(X[:, :5], Y).directions_.shape == (10, 5)


def test_scores_about_other_comparisons_do_not_roll_back():
    points, train, test = noisy_problem()
    first = {"points": points, "eval_set": test}
    metric = ComparisonBoostMetric(max_iter=60, warm_start=True).fit(train, **first)
    n_first = metric.n_iter_
    metric.set_params(max_iter=n_first + 10).fit(train, points=points)  # nothing held out any more
    assert metric.n_iter_ == n_first + 10
    metric = ComparisonBoostMetric(max_iter=60, warm_start=True, n_iter_no_change=5).fit(train, **first)
    n_first = metric.n_iter_
    other = Comparisons.from_triplets(np.random.default_rng(0).permuted(np.tile(range(80), (50, 1)), axis=1)[:, :3])
    metric.set_params(max_iter=200).fit(train, points=points, eval_set=other)  # scores of 0.5 at best
    assert metric.n_iter_ > n_first
    assert [record.held_out is None for record in metric.history_] == [i < n_first for i in range(metric.n_iter_)]
    assert metric.history_[-1].held_out == pytest.approx(metric.score(other))


def test_a_warm_start_holds_out_the_same_comparisons():
    np.random.seed(0)  # noqa: NPY002, the state that random_state=None takes
    metric = BoostMetric.paper(max_iter=5, early_stopping=True, warm_start=True).fit(X, Y)
    metric.set_params(max_iter=8).fit(X, Y)
    assert all(record.held_out is not None for record in metric.history_)


def test_early_stopping_objects_can_be_used_again():
    points, train, test = noisy_problem()
    stopping = EarlyStopping(5)
    fits = [
        ComparisonBoostMetric(callbacks=[callback], n_iter_no_change=100).fit(train, points=points, eval_set=test)
        for callback in (stopping, stopping, EarlyStopping(5))
    ]
    assert len({fit.n_iter_ for fit in fits}) == 1


def test_a_separable_fit_is_not_prolonged(tmp_path):
    line = np.arange(5.0)[:, None] ** 2
    triplets = [[0, 1, 2], [1, 0, 3]]
    path = tmp_path / "fit.npz"
    metric = ComparisonBoostMetric(warm_start=True, callbacks=[Checkpoint(path)]).fit(triplets, points=line)
    assert metric.stop_reason_ is StopReason.SEPARABLE
    n_iter, matrix = metric.n_iter_, metric.get_mahalanobis_matrix()
    resumed = ComparisonBoostMetric().fit(triplets, points=line, resume_from=path)
    for again in (metric.fit(triplets, points=line), resumed):
        assert again.n_iter_ == n_iter
        assert np.array_equal(again.get_mahalanobis_matrix(), matrix)
        assert again.stop_reason_ is StopReason.SEPARABLE


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [13, 300])
def test_a_resumed_fit_ends_as_if_never_stopped(tmp_path, n_features):
    """Also where there are more features than points, and directions are stored in other coordinates than computed."""
    points = np.pad(X, [(0, 0), (0, n_features - 13)]) + np.random.default_rng(0).standard_normal((len(X), n_features))
    whole = BoostMetric.paper(max_iter=80).fit(points, Y)
    path = tmp_path / "fit.npz"
    BoostMetric.paper(max_iter=37, callbacks=[Checkpoint(path, every=10)]).fit(points, Y)
    resumed = BoostMetric.paper(max_iter=80).fit(points, Y, resume_from=path)
    assert resumed.n_iter_ == whole.n_iter_ > 40
    expected = whole.get_mahalanobis_matrix()
    assert np.abs(resumed.get_mahalanobis_matrix() - expected).max() <= 1e-13 * np.abs(expected).max()
    assert resumed.history_ == whole.history_  # to the bit


def test_resuming_knows_early_stopping(tmp_path):
    path = tmp_path / "fit.npz"
    points, train, test = noisy_problem()
    whole = ComparisonBoostMetric().fit(train, points=points, eval_set=test)
    part = ComparisonBoostMetric(max_iter=whole.n_iter_ + 7, callbacks=[Checkpoint(path)])
    part.fit(train, points=points, eval_set=test)
    resumed = ComparisonBoostMetric().fit(train, points=points, eval_set=test, resume_from=path)
    assert resumed.components_.tobytes() == whole.components_.tobytes()
    assert resumed.stop_reason_ is StopReason.HELD_OUT


def test_resuming_without_the_held_out_comparisons_keeps_the_work(tmp_path):
    path = tmp_path / "fit.npz"
    points, train, test = noisy_problem()
    ComparisonBoostMetric(max_iter=30, n_iter_no_change=100, callbacks=[Checkpoint(path)]).fit(
        train, points=points, eval_set=test
    )
    resumed = ComparisonBoostMetric(max_iter=40).fit(train, points=points, resume_from=path)
    assert resumed.n_iter_ == 40


def test_a_checkpoint_does_not_mind_the_type_of_a_number(tmp_path):
    path = tmp_path / "fit.npz"
    BoostMetric.paper(max_iter=5, callbacks=[Checkpoint(path)]).fit(X, Y)
    assert BoostMetric.paper(regularization=np.float64(1e-7), max_iter=6).fit(X, Y, resume_from=path).n_iter_ == 6


def test_leftovers_of_killed_writers_are_removed(tmp_path):
    (tmp_path / ".fit-abc.npz").write_bytes(b"half")
    BoostMetric.paper(max_iter=2, callbacks=[Checkpoint(tmp_path / "fit.npz")]).fit(X, Y)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.npz"]


def test_an_interrupted_fit_leaves_its_last_iteration(tmp_path):
    path = tmp_path / "deep" / "fit.npz"

    class Interrupt:
        def on_iteration(self, record):
            if record.number == 23:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BoostMetric.paper(callbacks=[Checkpoint(path, every=10), Interrupt()]).fit(X, Y)
    assert len(Checkpoint.load(path).history) == 23
    assert list(path.parent.iterdir()) == [path]


def test_checkpoints_by_time(tmp_path):
    written = []

    class Watch:
        def on_iteration(self, record):
            written.append((tmp_path / "fit.npz").exists())
            time.sleep(0.02)

    BoostMetric.paper(max_iter=12, callbacks=[Watch(), Checkpoint(tmp_path / "fit.npz", every=None, seconds=0.1)]).fit(
        X, Y
    )
    assert not written[0]
    assert written[-1]


def test_a_checkpoint_is_a_metric(tmp_path):
    path = tmp_path / "fit.npz"
    metric = BoostMetric.paper(max_iter=10, callbacks=[Checkpoint(path)]).fit(X, Y)
    assert Checkpoint.load(path).metric().matrix == pytest.approx(metric.get_mahalanobis_matrix())


def test_wrong_checkpoints_are_named(tmp_path):
    path = tmp_path / "fit.npz"
    with pytest.raises(FileNotFoundError, match=r"There is no checkpoint '.*fit.npz'. Leave resume_from out"):
        BoostMetric.paper().fit(X, Y, resume_from=path)
    BoostMetric.paper(max_iter=5, callbacks=[Checkpoint(path)]).fit(X, Y)
    with pytest.raises(ValueError, match="points, comparisons, loss or regularization are not those"):
        BoostMetric.paper().fit(X + np.arange(13), Y[::-1], resume_from=path)
    with pytest.raises(ValueError, match="belongs to another fit"):
        BoostMetric.paper(regularization=1e-3).fit(X, Y, resume_from=path)
    with pytest.raises(ValueError, match="max_iter=4 is less than the 5 iterations"):
        BoostMetric.paper(max_iter=4).fit(X, Y, resume_from=path)
    with pytest.raises(ValueError, match="has 13 features, the data have 5"):
        BoostMetric.paper().fit(X[:, :5], Y, resume_from=path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"hello", whole[:-10]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"fit.npz' is not a checkpoint of a fit, or it is damaged"):
            BoostMetric.paper().fit(X, Y, resume_from=path)
    np.savez(path, directions=np.zeros((2, 13)))
    with pytest.raises(ValueError, match="is not a checkpoint"):
        BoostMetric.paper().fit(X, Y, resume_from=path)
    np.savez(path, directions=np.array([{}], dtype=object))  # would run code if it were unpickled
    with pytest.raises(ValueError, match="is not a checkpoint"):
        BoostMetric.paper().fit(X, Y, resume_from=path)


def test_bad_intervals_are_named(tmp_path):
    for arguments in ({"every": 0}, {"seconds": -1}):
        with pytest.raises(ValueError, match="must be"):
            Checkpoint(tmp_path / "fit.npz", **arguments)


KILLED = """
import os, signal, sys, time
import numpy as np
from sklearn.datasets import load_wine
from boostmetric import BoostMetric
from boostmetric.callbacks import Checkpoint
from pathlib import Path

class Slowly:
    def on_iteration(self, record):
        print(record.number, flush=True)
        time.sleep(0.002)

path, out = map(Path, sys.argv[1:3])
X, y = load_wine(return_X_y=True)

def fit():
    metric = BoostMetric.paper(max_iter=120, callbacks=[Slowly(), Checkpoint(path, every=3)])
    metric.fit(X, y, resume_from=path if path.exists() else None)
    np.save(out, metric.get_mahalanobis_matrix())

# Processes that are forked need not import everything anew.
for seconds in map(float, sys.argv[3:]):
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.dup2(writer, 1)
        fit()
        os._exit(0)
    os.close(writer)
    with open(reader) as printed:
        first = printed.readline().strip()
        for _ in range(4):
            printed.readline()  # the first checkpoint has been written
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
    print(first, os.WTERMSIG(status), out.exists(), flush=True)
sys.stdout = sys.stderr
fit()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_killed_process_is_resumed(tmp_path):
    """SIGKILL at random moments, several times in one fit, until it is done."""
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)  # shown if the test fails
    waits = np.random.default_rng(seed).uniform(0.0, 0.06, 3)
    out = tmp_path / "X.npy"
    command = [sys.executable, "-c", KILLED, str(tmp_path / "fit.npz"), str(out), *map(str, waits)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    numbers, signals, finished = zip(*map(str.split, done.stdout.splitlines()), strict=True)
    assert signals == (str(int(signal.SIGKILL)),) * 3
    assert finished == ("False",) * 3, "the process was done before it was killed"
    assert int(numbers[-1]) > 1, "nothing was resumed"
    assert int(done.stderr.split()[0]) > 1, "nothing was resumed"
    expected = BoostMetric.paper(max_iter=120).fit(X, Y).get_mahalanobis_matrix()
    assert np.abs(np.load(out) - expected).max() <= 1e-10 * np.abs(expected).max()


def test_problems_have_fingerprints_of_their_own():
    points, train, test = noisy_problem()
    prints = {
        Problem(points, train).fingerprint(regularization=1e-7),
        Problem(points, train).fingerprint(regularization=1e-6),
        Problem(points, test).fingerprint(regularization=1e-7),
        Problem(points + 1, train).fingerprint(regularization=1e-7),
        Problem(points, train.reweighted(np.full(len(train), 2.0))).fingerprint(regularization=1e-7),
    }
    assert len(prints) == 5
    assert Problem(points, train).fingerprint(regularization=1e-7) in prints


def test_records_give_the_progress_so_far():
    seen = []

    class Watch:
        def on_iteration(self, record):
            seen.append(record.so_far())

    problem = random_triplets(0)
    boosted = learn(problem.points, problem.comparisons, max_iter=5, on_iteration=[Watch().on_iteration])
    for n, progress in enumerate(seen, 1):
        assert progress.directions.tobytes() == boosted.directions[:n].tobytes()
        assert progress.history == boosted.history[:n]
    assert all(record.so_far is None for record in boosted.history)  # nothing keeps the fit alive


# --- scikit-learn's protocol ------------------------------------------------------------------------------------------

needs_sklearn_callbacks = pytest.mark.skipif(
    sklearn.utils.fixes.parse_version(sklearn.__version__) < sklearn.utils.fixes.parse_version("1.9"),
    reason="scikit-learn has callbacks from version 1.9",
)


class Recorder:
    """A callback of scikit-learn's protocol."""

    def __init__(self, stop_at=None):
        self.events, self.scores, self.stop_at = [], [], stop_at

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.events.append(f"end {context.task_name}")
        if fitted_estimator is not None:
            self.scores.append(fitted_estimator.transform(X).shape[1])
        return self.stop_at is not None and len(self.scores) == self.stop_at


@needs_sklearn_callbacks
def test_scikit_learn_callbacks_are_called():
    recorder = Recorder()
    BoostMetric.paper(max_iter=3).set_callbacks(recorder).fit(X, Y)
    iteration = ["begin iteration", "end iteration"]
    assert recorder.events == ["setup", "begin fit", *3 * iteration, "end fit", "teardown"]
    assert recorder.scores == [1, 2, 3]


@needs_sklearn_callbacks
def test_scikit_learn_callbacks_may_stop():
    metric = BoostMetric.paper().set_callbacks(Recorder(stop_at=4)).fit(X, Y)
    assert metric.n_iter_ == 4
    assert metric.stop_reason_ is StopReason.CALLBACK


@needs_sklearn_callbacks
def test_scikit_learn_callbacks_are_torn_down_after_an_error():
    recorder = Recorder()
    with pytest.raises(ValueError, match="NaN"):
        BoostMetric.paper().set_callbacks(recorder).fit(np.full_like(X, np.nan), Y)

    class Broken:
        def on_iteration(self, record):
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        BoostMetric.paper(callbacks=[Broken()]).set_callbacks(recorder).fit(X, Y)
    assert recorder.events[-1] == "teardown"


@needs_sklearn_callbacks
def test_scikit_learn_progress_bar(capfd):
    from sklearn.callback import ProgressBar
    from sklearn.model_selection import GridSearchCV

    BoostMetric.paper(max_iter=3).set_callbacks(ProgressBar()).fit(X, Y)
    out, err = capfd.readouterr()
    assert "BoostMetric" in out + err
    search = GridSearchCV(
        BoostMetric.paper(max_iter=2), {"n_neighbors": [1, 2]}, scoring=lambda metric, X, y: 0.0, cv=2
    )
    search.set_callbacks(ProgressBar()).fit(X, Y)
    assert search.best_estimator_.n_iter_ == 2


@pytest.mark.parametrize("drawn", [True, False])
def test_progress_is_a_bar_where_rich_can_draw_it_else_lines(drawn, monkeypatch, capsys):
    if drawn:
        monkeypatch.setenv("FORCE_COLOR", "1")  # which rich takes for a terminal
    else:
        monkeypatch.setattr("boostmetric.callbacks.find_spec", lambda name: None)
    monkeypatch.setattr("boostmetric.callbacks._SECONDS_BETWEEN_FIGURES", 0.0)
    monkeypatch.setattr("boostmetric.callbacks._SECONDS_BETWEEN_LINES", 0.0)
    BoostMetric.paper(max_iter=3, verbose=1).fit(X, Y)
    shown = capsys.readouterr().err
    if drawn:
        assert "\x1b[" in shown
    else:
        assert [line.partition(" loss")[0] for line in shown.splitlines()] == [f"Learning: {n} of 3" for n in (1, 2, 3)]
