"""Fits on a Ray cluster of this machine: the same answers, also where workers are lost."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from threading import Timer

import numpy as np
import pytest
from sklearn.base import clone

from boostmetric import BoostMetric, ComparisonBoostMetric
from boostmetric.engines.ray import HeldShare, RayEngine, Worker, _cut, _State, placed
from boostmetric.engines.threads import ThreadBackend
from boostmetric.oracles.losses import EXPONENTIAL
from boostmetric.solver.learn import learn
from boostmetric.solver.problem import Problem
from clustered import processes
from conftest import labelled, make_problem, random_triplets

ray = pytest.importorskip("ray", reason="needs ray: make test-ray installs it")
# Ray's own code warns of what it will change.
pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with RayEngine(n_workers=8).connected():
        yield


def matrix(boosted):
    return (boosted.directions.T * boosted.step_sizes) @ boosted.directions


def difference(a, b):
    return np.linalg.norm(matrix(a) - matrix(b)) / np.linalg.norm(matrix(b))


@pytest.mark.parametrize(("n_workers", "per_process"), [(1, 1), (2, 1), (4, 1), (8, 1), (8, 3), (3, None)])
@pytest.mark.parametrize(
    ("name", "loss"), [("triplets", "exponential"), ("iris", "logistic"), ("iris", "smooth-hinge")]
)
def test_same_metric_as_in_one_process(name, loss, n_workers, per_process):
    problem = make_problem(name)
    one, many = (
        learn(problem.points, problem.comparisons, loss=loss, max_iter=15, backend=backend)
        for backend in (ThreadBackend(), RayEngine(n_workers=n_workers, workers_per_process=per_process))
    )
    assert difference(many, one) < 1e-9
    assert many.stop_reason == one.stop_reason
    # Eight iterations come to the optimum of the triplets, and rounding decides whether there is a ninth.
    n = 8 if name == "triplets" else 15
    violated = [[record.violated for record in fit.history] for fit in (many, one)]
    assert violated[0][:n] == pytest.approx(violated[1][:n], abs=1e-12)
    assert all(n <= len(values) <= n + (name == "triplets") for values in violated)


def test_all_impostors():
    problem = make_problem("balance-all")
    one, many = (
        learn(problem.points, problem.comparisons, max_iter=8, backend=backend)
        for backend in (ThreadBackend(), RayEngine(None, 4, 2))
    )
    assert difference(many, one) < 1e-9


def test_estimators():
    X, y = labelled("wine")
    options = {"max_iter": 10, "early_stopping": True, "random_state": 0}
    one, many = (BoostMetric.paper(engine=engine, **options).fit(X, y) for engine in (None, RayEngine(n_workers=2)))
    assert many.components_ == pytest.approx(one.components_, rel=1e-6, abs=1e-12)
    copied = clone(many)
    assert copied.engine == RayEngine(n_workers=2)
    problem = random_triplets(0)
    one, many = (
        ComparisonBoostMetric(engine=engine, max_iter=5, solver="corrective").fit(
            problem.comparisons, points=problem.points
        )
        for engine in (None, "ray")
    )
    assert many.components_ == pytest.approx(one.components_, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "dask"}, r"engine must be one of 'ray'\. Got 'dask'"),
        ({"engine": 3}, r'engine must be "ray", a RayEngine, or None\. Got 3'),
        ({"engine": "ray", "device": "cuda"}, r"engine='ray' and device='cuda' exclude each other"),
    ],
)
def test_parameters_are_checked(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        BoostMetric.paper(**options).fit(*labelled("iris"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_workers": 0}, r"n_workers must be a whole number of at least 1, or None\. Got 0"),
        ({"workers_per_process": 1.5}, r"workers_per_process must be a whole number of at least 1, or None\. Got 1\.5"),
        ({"timeout": 0}, r"timeout must be a finite number above 0\. Got 0"),
    ],
)
def test_an_engine_checks_its_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        RayEngine(**options)


@pytest.mark.parametrize(
    ("processors", "n_workers", "per_process", "expected"),
    [
        ({"a": 2}, None, None, (["a"], 2)),
        ({"a": 2}, 8, None, (["a"] * 4, 2)),
        ({"a": 8}, 2, None, (["a"], 2)),
        ({"a": 8}, 2, 1, (["a"] * 2, 1)),
        ({"a": 4, "b": 4}, 5, None, (["a", "b"], 3)),
        ({"head": 1, "a": 64, "b": 64}, None, None, (["a", "b"], 64)),
        ({"a": 8, "b": 16}, None, None, (["a", "b", "b"], 8)),
        ({"a": 8, "b": 16}, 4, 1, (["a", "b", "a", "b"], 1)),
        ({"a": 0}, None, None, (["a"], 1)),
        ({"a": 2, "b": 2}, None, 16, (["a"], 4)),
        ({"a": 0, "b": 4}, None, None, (["b"], 4)),
    ],
)
def test_where_processes_go(processors, n_workers, per_process, expected):
    assert placed(processors, n_workers, per_process) == expected


def apart(n_processes=2, **options):
    """So many processes of one worker each."""
    return RayEngine(n_workers=n_processes, workers_per_process=1, **options)


def opened(problem):
    return Problem(problem.points, problem.comparisons).opened(apart(timeout=60.0))


def workers_of(oracle):
    return oracle._shards._pool


def test_two_rounds_an_iteration():
    """For single comparisons; the direction is sent as a triangle."""
    problem = random_triplets(0)
    with opened(problem) as (_, oracle):
        workers = workers_of(oracle)
        oracle.rebuild(np.empty((0, 5)), np.empty(0))
        oracle.gram()
        before = workers.traffic
        for _ in range(3):
            oracle.project(np.eye(5)[0])
            oracle.histogram()
            oracle.commit(0.1)
            oracle.gram()
        rounds, _, received = np.subtract(workers.traffic, before)
        assert rounds == 6
        numbers = received / (3 * 2 * 8) - oracle.histogram().table.size  # of each worker in an iteration
        assert 15 <= numbers < 25


class Watched:
    """A backend whose pools are kept, to ask for their traffic."""

    def __init__(self):
        self.pools = []

    @contextmanager
    def pool(self, points, comparisons, loss):
        with apart().pool(points, comparisons, loss) as workers:
            self.pools.append(workers)
            yield workers


@pytest.mark.parametrize(("name", "loss", "n"), [("triplets", "exponential", 2), ("balance", "logistic", 3)])
def test_rounds_of_a_fit(name, loss, n):
    """Two an iteration for single comparisons, three for groups; one more of the workers that watch."""
    problem, backend, rounds = make_problem(name), Watched(), []
    held_out = Problem(problem.points, problem.comparisons.subset(np.arange(20)))

    def count(record):
        rounds.append([workers.traffic.rounds for workers in backend.pools])

    learn(
        problem.points,
        problem.comparisons,
        held_out=held_out,
        loss=loss,
        max_iter=7,
        backend=backend,
        on_iteration=[count],
    )
    assert np.diff(rounds, axis=0).tolist() == [[n, 1]] * 6
    assert rounds[0] == [n + 2, 2]  # and those for the metric and the direction at the start


class Lost:
    """Loses a worker after some iterations, by a signal to its process."""

    def __init__(self, iterations, number, after=None, rest=0.0):
        self.iterations, self.number, self.after, self.rest = iterations, number, after, rest
        self.done = []

    def __call__(self, record):
        if record.number in self.iterations:
            pids = processes("Worker")
            pid = pids[len(self.done) % len(pids)]
            self.done.append(record.number)
            if self.after is not None:  # while the next round is on its way
                Timer(self.after, os.kill, (pid, self.number)).start()
            else:
                os.kill(pid, self.number)
                time.sleep(self.rest)


@pytest.fixture(scope="module")
def undisturbed():
    problem = random_triplets(3, n_points=80, n_triplets=4000)
    return problem, learn(problem.points, problem.comparisons, max_iter=12, backend=apart())


@pytest.mark.parametrize("when", [{}, {"rest": 1.0}, {"after": 0.001}, {"after": 0.004}], ids=str)
def test_workers_that_are_killed(undisturbed, when):
    """Twice in a fit: before it is asked again, long before, and while it is asked."""
    problem, expected = undisturbed
    lose = Lost((3, 7), signal.SIGKILL, **when)
    found = learn(problem.points, problem.comparisons, max_iter=12, backend=apart(), on_iteration=[lose])
    assert lose.done == [3, 7]
    assert difference(found, expected) < 1e-12
    assert len(found.history) == len(expected.history)


def test_a_worker_that_hangs(undisturbed):
    problem, expected = undisturbed
    lose = Lost((4,), signal.SIGSTOP)
    found = learn(
        problem.points,
        problem.comparisons,
        max_iter=12,
        backend=apart(timeout=10.0),
        on_iteration=[lose],
    )
    assert lose.done == [4]
    assert difference(found, expected) < 1e-12


def in_new_process(code, environment):
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)


def test_a_driver_that_is_killed(tmp_path):
    """Its checkpoint is gone on from, with another number of workers."""
    X, y = labelled("wine")
    checkpoint = tmp_path / "checkpoint.npz"
    code = f"""
import os, signal
from sklearn.datasets import load_wine
from boostmetric import BoostMetric
from boostmetric.callbacks import Checkpoint
from boostmetric.engines.ray import RayEngine

class Kill:
    def on_iteration(self, record):
        if record.number == 6:
            os.kill(os.getpid(), signal.SIGKILL)

engine = RayEngine({ray.get_runtime_context().gcs_address!r}, n_workers=2, workers_per_process=1)
BoostMetric.paper(max_iter=10, engine=engine, callbacks=[Checkpoint({str(checkpoint)!r}, every=1), Kill()]).fit(
    *load_wine(return_X_y=True)
)
"""
    # The cluster of the tests has the loopback address, where a driver looks for none unless it is told so.
    environment = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    done = in_new_process(code, environment)
    assert done.returncode == -signal.SIGKILL, done.stderr
    expected = BoostMetric.paper(max_iter=10).fit(X, y)
    found = BoostMetric.paper(max_iter=10, engine=apart(3)).fit(X, y, resume_from=checkpoint)
    assert found.n_iter_ == 10
    a, b = found.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix()
    assert np.linalg.norm(a - b) < 1e-6 * np.linalg.norm(b)


def test_a_machine_that_is_lost():
    """Three machines, as Ray simulates them on this one: what was on the largest goes to others."""
    code = """
import os, signal
from contextlib import suppress
import ray
from ray._private.state import actors
from ray.cluster_utils import Cluster
from sklearn.datasets import load_wine
from boostmetric import BoostMetric

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
cluster.add_node(num_cpus=2)
largest = cluster.add_node(num_cpus=4)
ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)

def report(when):
    names = {node["NodeID"]: f"{node['Resources']['CPU']:.0f} processors" for node in ray.nodes() if node["Alive"]}
    alive = [actor for actor in actors().values() if actor["State"] == "ALIVE"]
    places = {actor["Pid"]: names[actor["Address"]["NodeID"]] for actor in alive}
    print(when, sorted(places.values()))
    return places

class Lose:
    def on_iteration(self, record):
        if record.number == 3:
            places = report("before:")
            cluster.remove_node(largest, allow_graceful=False)
            for pid, where in places.items():
                if where == "4 processors":
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        if record.number == 10:
            report("after:")

X, y = load_wine(return_X_y=True)
found = BoostMetric.paper(max_iter=10, engine="ray", callbacks=[Lose()]).fit(X, y)
expected = BoostMetric.paper(max_iter=10).fit(X, y)
print("difference:", abs(found.get_mahalanobis_matrix() / expected.get_mahalanobis_matrix() - 1).max())
ray.shutdown()
cluster.shutdown()
"""
    environment = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # on the loopback address
    done = in_new_process(code, environment)
    assert done.returncode == 0, done.stderr
    said = dict(
        line.split(": ", 1) for line in done.stdout.splitlines() if line.startswith(("before", "after", "diff"))
    )
    assert said["before"] == str(["2 processors"] * 2 + ["4 processors"] * 2)
    assert said["after"] == str(["2 processors"] * 4)
    assert float(said["difference"]) < 1e-6


def test_a_restored_worker_is_in_the_same_state():
    """Whatever led there: steps along one direction or several, and a projection that was not used yet."""
    problem = random_triplets(1)
    rng = np.random.default_rng(0)
    one, two = rng.standard_normal(5), rng.standard_normal((2, 5))
    factors, steps = np.array([0.5, 0.1]), np.array([0.0, 0.3])
    for directions in ([(one, np.ones(1))], [(one, np.ones(1)), (two, factors)]):
        calls = [("rebuild", np.eye(5), np.full(5, 0.1), False)]
        for xi, factor in directions:
            calls += [("project", xi, factor), ("commit", 0.2)]
        calls.append(("project", one, np.ones(1)))
        share = HeldShare(ray.put((problem.points, problem.comparisons)))
        state = _State().after(calls)
        lived, restored = Worker(EXPONENTIAL, n_threads=2), Worker(EXPONENTIAL)
        assert lived.ask(0, calls, state.number) is None
        lived.restore(share, None, [], calls, state.number)
        restored.restore(share, None, [], state.calls(), state.number)
        asked = [("moments", steps), ("gram",)]
        a, b = (worker.ask(state.number, asked, state.number) for worker in (lived, restored))
        assert np.array_equal(a[0].log_mass, b[0].log_mass)
        assert np.array_equal(a[1], b[1])
        assert lived.ask(state.number - 1, asked, state.number) is None


def test_a_cluster_of_its_own_is_started_and_stopped():
    code = (
        "import ray\n"
        "from sklearn.datasets import load_iris\n"
        "from boostmetric import BoostMetric\n"
        "metric = BoostMetric.paper(max_iter=3, engine='ray', early_stopping=True).fit(*load_iris(return_X_y=True))\n"
        "print(metric.n_iter_ <= 3, ray.is_initialized())\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = in_new_process(code, environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "False"]
    assert "core_worker" not in done.stderr  # of which users would not know what to think


def test_the_cluster_of_a_job_is_used():
    code = (
        "import ray\n"
        "from sklearn.datasets import load_iris\n"
        "from boostmetric import BoostMetric\n"
        "class Show:\n"
        "    def on_iteration(self, record):\n"
        "        print(ray.get_runtime_context().gcs_address)\n"
        "BoostMetric.paper(max_iter=1, engine='ray', callbacks=[Show()]).fit(*load_iris(return_X_y=True))\n"
    )
    address = ray.get_runtime_context().gcs_address
    environment = {**os.environ, "RAY_ADDRESS": address, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    done = in_new_process(code, environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [address]


def test_parts_have_all_groups_once():
    comparisons = make_problem("mixed").comparisons
    for n_parts in (1, 3, 1000):
        parts = _cut(comparisons, n_parts)
        assert len(parts) <= n_parts
        assert sum(part.n_groups for part in parts) == comparisons.n_groups
        assert sorted(q for part in parts for q in part.quadruplets()) == sorted(comparisons.quadruplets())


def test_fits_inside_of_tasks():
    """Each in a worker of Ray, several at once: the bits of a fit in this process."""

    @ray.remote(num_cpus=1)
    def fit(seed):
        X = np.random.default_rng(seed).standard_normal((40, 3))
        return (
            BoostMetric.paper(max_iter=10, n_jobs=2).fit(X + np.arange(40)[:, None] % 2, np.arange(40) % 2).components_
        )

    here = [fit._function(seed) for seed in range(4)]
    there = ray.get([fit.remote(seed) for seed in range(4)], timeout=300)
    assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
