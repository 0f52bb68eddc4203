"""Fits in threads, in forked and other processes, and interrupted: no deadlock, and an estimator that is fitted or not.

What could hang runs in a process of its own that is ended after some time.
"""

import gc
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info

from boostmetric import BoostMetric, ComparisonBoostMetric
from boostmetric.baselines import LMNN, MMC, NCA, RCA, PSDBoost
from boostmetric.retrieval import MetricIndex

SECONDS = 240  # until something hangs, on a busy machine


def blobs(seed=0, n=60, n_features=4):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.standard_normal((n, n_features)) + 2 * np.eye(3, n_features)[y], y


def fit(seed=0, n_jobs=1):
    return BoostMetric.paper(max_iter=15, n_jobs=n_jobs).fit(*blobs(seed)).components_


def blas_threads():
    return [module["num_threads"] for module in threadpool_info() if module["user_api"] == "blas"]


def run(script, *, environment=None, seconds=SECONDS):
    """The output of a Python script in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_fits_in_several_threads_at_once():
    before = blas_threads()
    alone = [fit(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(fit, range(8), [1, 2] * 4))
    assert [a.tobytes() for a in together] == [a.tobytes() for a in alone]
    assert blas_threads() == before


def test_a_fit_that_fails_in_a_thread_disturbs_no_other():
    def bad(_):
        with pytest.raises(ValueError, match="NaN"):
            BoostMetric.paper().fit(np.full((20, 2), np.nan), np.arange(20) % 2)

    before, alone = blas_threads(), fit()
    with ThreadPoolExecutor(4) as pool:
        others = pool.map(bad, range(40))
        together = list(pool.map(fit, [0] * 10))
        list(others)
    assert {a.tobytes() for a in together} == {alone.tobytes()}
    assert blas_threads() == before


def test_blas_libraries_loaded_between_fits_are_limited_and_others_not_searched_for_again():
    script = """
from threadpoolctl import threadpool_info
from boostmetric.parallel import blas

searches, search = [], blas.ThreadpoolController
blas.ThreadpoolController = lambda: searches.append(1) or search()

def threads():
    with blas.single_threaded_blas():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

found = [threads(), threads()]
import numpy
found += [threads(), threads()]
import scipy.linalg
found += [threads(), threads()]
everywhere = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
print([set(limits) for limits in found[2:]] == 4 * [{1}], len(found[-1]) == len(everywhere), len(searches))
"""
    assert run(script, environment={"OPENBLAS_NUM_THREADS": "2"}) == "True True 3"


@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
def test_under_joblib(backend):
    alone = [fit(seed).tobytes() for seed in range(4)]
    together = Parallel(2, backend=backend, timeout=SECONDS)(delayed(fit)(seed) for seed in range(4))
    assert [a.tobytes() for a in together] == alone


FORKED = """
import multiprocessing, threading, warnings
warnings.simplefilter("ignore")
import numpy as np
from boostmetric import BoostMetric
from boostmetric.retrieval import MetricIndex
rng = np.random.default_rng(0)
y = np.arange(300) % 3
X = rng.standard_normal((300, 12)) + 2 * np.eye(3, 12)[y]
def fit(n_jobs):
    metric = BoostMetric.paper(max_iter=15, n_jobs=n_jobs, init="rca", early_stopping=True, random_state=0).fit(X, y)
    MetricIndex(metric).add(X).search(X, 3)
    return metric.components_.tobytes()
here = fit(2)
context = multiprocessing.get_context("fork")
def fork():
    with context.Pool(2) as pool:
        there = pool.map_async(fit, [1, 2, 1]).get(timeout=100)
    assert set(there) == {here}, "other bits"
fork()
print("after")
stop = threading.Event()
def go_on():
    while not stop.is_set():
        fit(2)
thread = threading.Thread(target=go_on)
thread.start()
try:
    for _ in range(5):
        fork()
finally:
    stop.set()
    thread.join()  # a process must not end while it is compiled code that runs
print("while")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_forked_after_and_during_fits():
    """Threads, and the locks that they hold, are not forked along."""
    assert run(FORKED).split() == ["after", "while"]


INTERRUPTED = """
import os, random, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info
import boostmetric
from boostmetric import *
from boostmetric.baselines import *

rng = np.random.default_rng(0)
def blobs(n, n_features):
    y = np.arange(n) % 3
    return rng.standard_normal((n, n_features)) + 2 * np.eye(3, n_features)[y], y
first = blobs(60, 4)
seconds = {"fit": blobs(90, 5), "partial_fit": blobs(90, 4)}  # a batch has the features of those before it
def state(learner):
    return sorted((name, value.tobytes() if isinstance(value, np.ndarray) else str(value))
                  for name, value in vars(learner).items() if name.endswith("_"))
def blas():
    return [m["num_threads"] for m in threadpool_info() if m["user_api"] == "blas"]
def check(make, verb, n):
    second = seconds[verb]
    call = lambda learner, data: getattr(learner, verb)(*data)
    call(make(), second)  # compiles
    threads, cores = threading.active_count(), blas()
    expected = [None, state(call(make(), first))]
    start = time.perf_counter()
    expected.append(state(call(make(), second)))
    took = time.perf_counter() - start
    expected.append(state(call(call(make(), first), second)))  # another metric, where batches are learned from
    seen = [0, 0, 0, 0]
    random.seed(0)
    for number in range(n):
        learner = make()
        if number % 2:
            call(learner, first)
        # One moment in each of n parts of the time, so that some are early however long the fit above took.
        def interrupt(when=random.uniform(number, number + 1) / n * 1.2 * took):
            time.sleep(when)
            os.kill(os.getpid(), signal.SIGINT)
        timer = threading.Thread(target=interrupt)
        try:
            timer.start()
            call(learner, second)
            timer.join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            pass
        try:
            timer.join()
        except KeyboardInterrupt:
            pass
        found = state(learner)
        if not found:
            try:
                learner.transform(first[0])
                raise SystemExit("transforms without having learned")
            except NotFittedError:
                seen[0] += 1
        else:
            assert found in expected[1:], ([name for name, _ in found], number)
            assert (found == expected[2]) if number % 2 == 0 else (found in (expected[1], expected[3]))
            seen[expected.index(found)] += 1
            learner.transform(first[0] if found == expected[1] else second[0])
    assert state(call(make(), second)) == expected[2], "a later fit is another one"
    for _ in range(100):
        if threading.active_count() <= threads:
            break
        time.sleep(0.05)
    assert threading.active_count() <= threads, "threads were left over"
    assert blas() == cores, "BLAS was left with other threads"
    print(*seen)
for learner, (verb, n) in {learners}.items():
    print(learner, "...", file=sys.stderr)  # where it failed
    check(lambda: eval(learner), verb, n * {times})
"""


LEARNERS = {
    "BoostMetric.paper(max_iter=40, n_jobs=2)": ("fit", 30),
    "BoostMetric.recommended(max_iter=2, n_passes=1, random_state=0)": ("fit", 12),
    "BoostMetric.paper()": ("partial_fit", 30),
    "LMNN(max_iter=10)": ("fit", 20),
}


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_interrupted_at_any_moment():
    """As fitted before, not fitted, or fitted: whatever the moment, nothing in between."""
    times = int(os.environ.get("BOOSTMETRIC_INTERRUPTS", 1))
    script = INTERRUPTED.replace("{learners}", str(LEARNERS)).replace("{times}", str(times))
    lines = run(script, seconds=len(LEARNERS) * SECONDS).splitlines()
    for line, (_, n) in zip(lines, LEARNERS.values(), strict=True):
        not_fitted, before, *after = map(int, line.split())
        assert not_fitted + before + sum(after) == n * times
        assert not_fitted + before > 0


@pytest.mark.parametrize(
    "learner",
    [BoostMetric.paper(max_iter=3), RCA(), LMNN(max_iter=3), MMC(max_iter=3), NCA(max_iter=3), PSDBoost(max_iter=3)],
)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_that_is_refused_leaves_all_as_it_was(learner):
    X, y = blobs()
    wide = np.hstack([X, X])
    with pytest.raises(ValueError, match="label"):
        learner.fit(wide, np.zeros(60))
    with pytest.raises(NotFittedError):
        learner.transform(X)
    assert not [name for name in vars(learner) if name.endswith("_")]
    before = learner.fit(X, y).transform(X)
    with pytest.raises(ValueError, match="label"):
        learner.fit(wide, np.zeros(60))
    assert learner.n_features_in_ == 4
    assert np.array_equal(learner.transform(X), before)


@pytest.mark.filterwarnings("ignore")
def test_a_batch_that_is_refused_leaves_all_as_it_was():
    X, _ = blobs()
    metric = ComparisonBoostMetric(max_iter=3).fit([[0, 1, 2], [3, 4, 5]], points=X)
    before, score = metric.components_, metric.score([[0, 1, 2]])
    with pytest.raises(ValueError, match="name point 99"):
        metric.partial_fit([[0, 1, 99]], points=X)
    assert metric.components_ is before
    assert metric.score([[0, 1, 2]]) == score  # with the points of the fit


COLD = """
import numpy as np
from boostmetric import Comparisons
rng = np.random.default_rng(0)
print("started", flush=True)
print(Comparisons.from_labels(rng.standard_normal((40, 3)), np.arange(40) % 2).members.tobytes().hex())
"""  # compiles four kernels


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGINT] if os.environ.get("BOOSTMETRIC_INTERRUPTS") else [signal.SIGKILL]
)
def test_a_process_that_is_ended_while_kernels_compile_leaves_a_good_cache(tmp_path, number):
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    expected = run(COLD)
    command = [sys.executable, "-c", COLD]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    process.stdout.readline()
    deadline = time.monotonic() + SECONDS
    while not list(tmp_path.rglob("*.nbc")) and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(number)
    process.communicate(timeout=SECONDS)
    assert process.returncode != 0
    assert run(COLD, environment=environment) == expected


def test_many_fits_do_not_grow_the_process():
    """What one fit leaves behind would show after many: objects, and the memory of the process."""
    X, y = blobs()
    comparisons = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    n = int(os.environ.get("BOOSTMETRIC_FITS", 60))

    def work():
        metric = BoostMetric.paper(max_iter=4, n_jobs=2).fit(X, y)
        metric.partial_fit(X, y)
        ComparisonBoostMetric(max_iter=4).fit(comparisons, points=X).score(comparisons)
        MetricIndex(metric).add(X).search(X, 2)

    for _ in range(15):
        work()
    gc.collect()
    objects, resident = len(gc.get_objects()), _resident()
    for _ in range(n):
        work()
    more = _resident() - resident
    assert more < 4e6 + 5e3 * n, f"{more / n:.0f} bytes of the process for each"
    gc.collect()
    assert len(gc.get_objects()) - objects < 50


def _resident():
    """Bytes that this process has in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
