"""Ctrl-C keeps the best so far, and a fit that was killed is resumed: what is ended is a process of its own.

What goes on with it is done in this process, which need not import everything anew.
"""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.cli import app
from boostmetric.cli.fit_run import Interrupt
from boostmetric.solver.result import StopReason

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """Enough rows and features for a fit of some seconds."""
    rng = np.random.default_rng(0)
    n, d, n_classes = 1600, 40, 8
    y = rng.integers(n_classes, size=n)
    X = rng.standard_normal((n_classes, d))[y] * np.linspace(1, 0, d) + rng.standard_normal((n, d))
    path = tmp_path_factory.mktemp("points") / "points.npz"
    np.savez(path, X=X, y=y, split=np.arange(n) % 4 == 3)
    return path


# From a given start, so that there is little before the first iteration.
SETTING = ["--init", "identity", "--solver", "auto", "--max-iter", "60", "--passes", "4", "--jobs", "1"]


def command(points, output, *more):
    which = ["--label", "y", "--validation-where", "split=1", "-o", str(output), "--json", "--quiet"]
    return ["fit", str(points), *which, *SETTING, *more]


def here(arguments):
    return CliRunner().invoke(app, arguments)


def wait_for(path, process, seconds=120):
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def checkpoint_of(output):
    return output.with_name(output.name + ".checkpoint.npz")


def start(arguments):
    """In another process, as users run it."""
    arguments = [sys.executable, "-m", "boostmetric", *arguments]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def undisturbed(points, tmp_path_factory):
    output = tmp_path_factory.mktemp("whole") / "model.safetensors"
    done = here(command(points, output))
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    assert not checkpoint_of(output).exists()
    return output.read_bytes()


def test_interrupted_keeps_the_best_and_goes_on(points, undisturbed, tmp_path):
    output = tmp_path / "model.safetensors"
    process = start(command(points, output))
    wait_for(checkpoint_of(output), process)
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Stopping after this iteration" in said
    assert "run the same command with --resume" in said
    assert "Traceback" not in said
    result = json.loads(printed)
    assert result["interrupted"]
    metric = MahalanobisMetric.load(output)
    scores = result["evaluation"]["scores"][0]
    assert scores["learned"] >= scores["base"] - 0.02  # one of the candidates is the Euclidean distance
    assert metric.components.shape[1] == 40
    assert checkpoint_of(output).exists()

    done = here(command(points, output, "--resume"))
    assert done.exit_code == 0, done.stderr
    assert output.read_bytes() == undisturbed
    assert not checkpoint_of(output).exists()


@pytest.mark.parametrize("n_later", [0, 3])
def test_killed_and_resumed_is_the_same_to_the_bit(points, undisturbed, tmp_path, n_later):
    output = tmp_path / "model.safetensors"
    process = start(command(points, output))
    wait_for(checkpoint_of(output), process)
    for _ in range(n_later):  # further checkpoints
        first = checkpoint_of(output).stat().st_mtime_ns
        while process.poll() is None and checkpoint_of(output).stat().st_mtime_ns == first:
            time.sleep(0.001)
    process.kill()
    process.communicate()
    assert not output.exists()

    other = here(command(points, output, "--resume", "--where", "y!=0"))  # with other data, which is refused
    assert other.exit_code == 1
    assert "Error: The checkpoint belongs to another fit" in other.stderr
    assert "Leave --resume out to start over" in other.stderr
    assert not output.exists()

    again = here(command(points, output, "--resume"))
    assert again.exit_code == 0, again.stderr
    assert output.read_bytes() == undisturbed
    assert not checkpoint_of(output).exists()


class PressOnce:
    """Presses Ctrl-C when the first path has made a pass."""

    pressed = False

    def on_iteration(self, record):
        return False

    def on_candidate(self, candidate):
        if candidate.n_passes == 1 and not self.pressed:
            self.pressed = True
            signal.raise_signal(signal.SIGINT)


def test_interrupted_while_folds_choose_what_did_best_so_far_is_learned(capfd):
    X, y = load_wine(return_X_y=True)
    with Interrupt(choosing=True) as interrupt:
        metric = BoostMetric.recommended(random_state=0, callbacks=[PressOnce(), interrupt]).fit(X, y)
    assert "Learning with the best setting so far" in capfd.readouterr().err
    whole = [candidate for candidate in metric.candidates_ if candidate.recipe.rank is None and not candidate.normalize]
    assert [candidate.n_passes for candidate in whole] == [0] * 7 + [1]
    assert metric.stop_reason_ is not StopReason.CALLBACK  # the fit itself is whole
    assert not interrupt.asked


def test_a_choice_that_was_cut_short_shows_in_the_exit_code(tmp_path, monkeypatch):
    X, y = load_wine(return_X_y=True)
    np.savez(tmp_path / "wine.npz", X=X, y=y)
    original = Interrupt.on_candidate

    def press_once(self, candidate):
        if not self.chosen_early:
            signal.raise_signal(signal.SIGTERM)
        return original(self, candidate)

    monkeypatch.setattr(Interrupt, "on_candidate", press_once)
    output = tmp_path / "model.safetensors"
    done = here(["fit", str(tmp_path / "wine.npz"), "--label", "y", "-o", str(output), "--json", "--quiet"])
    assert done.exit_code == 130, done.stderr
    assert "Interrupted: the setting is the best of those tried. To try all, run the command again." in done.stderr
    assert json.loads(done.stdout)["interrupted"]
    assert MahalanobisMetric.load(output).components.shape[1] == 13
    assert not checkpoint_of(output).exists()


def test_a_second_ctrl_c_stops_at_once(points, tmp_path):
    # Whether the second one comes before the iteration ends, or while the model is measured, is a matter of luck.
    output = tmp_path / "model.safetensors"
    process = start(command(points, output))
    wait_for(checkpoint_of(output), process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "--resume" in said
    assert "Traceback" not in said
    assert checkpoint_of(output).exists()
