"""Shards on a Ray cluster: Ray schedules, restarts and transfers; the computation is the same as on one machine.

Every machine has one process, with as many threads as processors, that holds a share of the groups and the points they
refer to, and answers the verbs of a shard. A share comes from the driver, or the process reads it from files. All other
state of a process follows from the metric, so a lost process can be *restored*: Ray restarts it, it loads its share,
and it rebuilds its distances from the directions and steps that the driver keeps. Each call says which state it refers
to; a restarted process has no state, and reports this.

Calls are few. A projection on a direction has no answer, so it is sent with the next call. After a step the matrix for
the next direction is needed, so it is returned with the answer to the step. An iteration thus takes two rounds for
single comparisons, whose histogram covers every step, and three for groups, for which several steps are evaluated at
once, or many if little is known about the step.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import cycle, islice
from operator import itemgetter
from time import monotonic, sleep
from typing import Any, NamedTuple

import numpy as np

from boostmetric.arrays.frame import Coordinates, Shift
from boostmetric.arrays.types import FloatArray
from boostmetric.arrays.validation import check_count, check_number
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.shares import Loaded, Share
from boostmetric.engines.worker import Call, Worker
from boostmetric.optional import require
from boostmetric.oracles.losses import Loss
from boostmetric.oracles.protocol import ONE
from boostmetric.parallel.crew import Crew

# Minimum fraction of the processors of a cluster that processes of equal size should use.
_LEAST_IN_USE = 0.9
# Seconds to wait before each attempt to restore lost processes, until we give up. Ray restarts a process that ends at
# once, but takes a minute or so to notice a lost machine.
_PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)


@dataclass(frozen=True)
class RayEngine:
    """A Ray cluster to learn on: ``BoostMetric(engine=RayEngine(...))``, or ``engine="ray"`` with these defaults.

    Parameters
    ----------
    address : str, optional
        Address of a running cluster, as for `ray.init`; by default the environment variable RAY_ADDRESS, which Ray sets
        in its jobs. Without an address, a cluster is started on this machine, listening on the loopback address only,
        and stopped at the end. If this process is already connected to a cluster, that one is used.
    n_workers : int, optional
        Number of processors to use; by default all of the cluster.
    workers_per_process : int, optional
        Number of threads per process. By default all processors of a machine share one process, so its points are
        stored, and multiplied, once. With 1, each has its own process: in total this takes more memory and time, but
        each process is smaller, and less is lost with it.
    timeout : float, default=1800.0
        Seconds after which a process that has not answered is considered lost and restarted. Must be longer than it
        takes to read its share.
    """

    address: str | None = None
    n_workers: int | None = None
    workers_per_process: int | None = None
    timeout: float = 1800.0

    def __post_init__(self) -> None:
        for name in ("n_workers", "workers_per_process"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), alternative=", or None")
        check_number("timeout", self.timeout, above=0.0)

    @contextmanager
    def pool(self, points: Coordinates, comparisons: Comparisons, loss: Loss) -> Iterator[RayShardPool]:
        ray = require("ray", "ray", 'engine="ray"')

        def shares(n: int) -> list[HeldShare]:
            return [HeldShare(ray.put(_restricted(points, part))) for part in _cut(comparisons, n)]

        with self._workers(shares, points.shape[1], loss) as workers:
            yield workers

    @contextmanager
    def shared_pool(
        self, shares: Callable[[int], Sequence[Share]], n_features: int, loss: Loss, shift: Shift | None = None
    ) -> Iterator[tuple[RayShardPool, Shift, float]]:
        with self._workers(shares, n_features, loss) as workers:
            yield workers, *workers.load(shift)

    @contextmanager
    def _workers(self, shares: Callable[[int], Sequence[Share]], n_features: int, loss: Loss) -> Iterator[RayShardPool]:
        with self.connected() as ray:
            processors = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]}
            nodes, n_threads = placed(processors, self.n_workers, self.workers_per_process)
            workers = RayShardPool(ray, shares(len(nodes)), nodes, n_threads, loss, n_features, self.timeout)
            try:
                yield workers
            finally:
                workers.close()

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Connect to the cluster, or reuse an existing connection; several fits in this context share one cluster."""
        ray = require("ray", "ray", 'engine="ray"')
        if ray.is_initialized():
            yield ray
            return
        quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        with ExitStack() as stack:
            stack.callback(ray.shutdown)
            address = self.address or os.environ.get("RAY_ADDRESS") or "local"
            if address != "local":
                ray.init(address, **quiet)
            else:
                stack.enter_context(_on_loopback(ray))
                # Always a new cluster: one already running on this machine would reject a number of processors.
                ray.init(address, num_cpus=self.n_workers or os.cpu_count(), include_dashboard=False, **quiet)
                _check_loopback(ray)
            yield ray


@contextmanager
def _on_loopback(ray: Any) -> Iterator[None]:
    """Make Ray start a cluster on the loopback address, as it does on systems where it supports no other.

    On Linux, Ray listens on the network address. This depends on an environment variable that it reads on import, which
    would also apply to clusters elsewhere. So we change the value it has read, and restore it afterwards.
    """
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _check_loopback(ray: Any) -> None:
    addresses = [node["NodeManagerAddress"] for node in ray.nodes()]
    if not all(ip_address(address).is_loopback for address in addresses):
        raise RuntimeError(
            f"Ray {ray.__version__} started a cluster that listens on the network, at {', '.join(addresses)}. It was "
            "stopped. Start one yourself and connect to it (ray.init, or address)."
        )


def placed(
    processors: Mapping[str, int], n_workers: int | None, workers_per_process: int | None
) -> tuple[list[str], int]:
    """Choose the machine of each process, and the number of threads per process.

    Parameters
    ----------
    processors : dict of str to int
        Number of processors of each machine.
    n_workers, workers_per_process : int, optional
        As for `RayEngine`.

    Examples
    --------
    >>> placed({"small": 8, "large": 16}, None, None)
    (['small', 'large', 'large'], 8)
    """
    n_processors = sum(processors.values())

    def in_use(n_threads: int) -> int:
        return sum(n // n_threads * n_threads for n in processors.values())

    # All shares have the same size. If machines differ, use the most threads per process that leave few idle.
    sizes = range(1, max(processors.values()) + 1)
    at_most = workers_per_process or max((n for n in sizes if in_use(n) >= _LEAST_IN_USE * n_processors), default=1)
    n_workers = n_workers or in_use(at_most) or max(n_processors, 1)
    n_processes = math.ceil(n_workers / at_most)
    turns = [(turn, node) for node, n in processors.items() for turn in range(n // at_most)]
    machines = [node for _, node in sorted(turns, key=itemgetter(0))]  # one process per machine before a second one
    return list(islice(cycle(machines or processors), n_processes)), math.ceil(n_workers / n_processes)


class Traffic(NamedTuple):
    """Network traffic: rounds of calls, and bytes of arrays sent and received."""

    rounds: int
    sent: int
    received: int


class RayShardPool:
    """Processes of a cluster, called all at once."""

    rounding = 0.0
    steps_at_once = 5  # a round costs more than a few passes over the members of a share

    def __init__(
        self,
        ray: Any,
        shares: Sequence[Share],
        nodes: Sequence[str],
        n_threads: int,
        loss: Loss,
        n_features: int,
        timeout: float,
    ) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray = ray
        self._timeout = timeout
        self._n_features = n_features
        self._shift: Shift | None = None
        # Workers start without state, and are restored in the first round.
        self._shares = list(shares)
        # Reserve no processors: workers for held-out comparisons would wait for them forever. But reserve a little
        # memory, because Ray puts actors that reserve nothing anywhere. Soft affinity allows another machine if this
        # one is lost.
        actor = ray.remote(num_cpus=0, memory=2**20, max_restarts=-1)(Worker)
        affinities = [NodeAffinitySchedulingStrategy(node, soft=True) for node in nodes[: len(shares)]]
        self._workers = [actor.options(scheduling_strategy=at).remote(loss, n_threads) for at in affinities]
        self._state = _State()
        self._pending: list[Call] = []
        self._gram: list[FloatArray] | None = None
        self._gram_is_asked_for = False
        self.traffic = Traffic(0, 0, 0)

    def load(self, shift: Shift | None) -> tuple[Shift, float]:
        """Have the workers load and convert their points; return the coordinates and the weight of all groups."""
        if shift is None:
            lows, highs = zip(*self._persist(lambda i: self._workers[i].ends.remote(self._shares[i])), strict=True)
            shift = Shift.to_the_middle(np.min(lows, axis=0), np.max(highs, axis=0))
        self._shift = shift
        weights = self._persist(lambda i: self._workers[i].weight.remote(self._shares[i], shift))
        if not any(weights):
            raise ValueError(
                "There are no comparisons: at least one is needed. If a share of the anchors is held out at random, it "
                "may be none or all of them. Choose another random_state or another share, or give files to hold out."
            )
        # A share may have no held-out comparisons.
        for worker, weight in zip(self._workers, weights, strict=True):
            if not weight:
                self._ray.kill(worker)
        self._workers, self._shares = (
            [item for item, weight in zip(held, weights, strict=True) if weight]
            for held in (self._workers, self._shares)
        )
        return shift, float(sum(weights))

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            self._ray.kill(worker)
        self._shares = []

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        if verb == "project":
            self._pending = [(verb, *arguments)]
            return [None] * len(self._workers)
        if verb == "gram" and self._gram is not None:
            return self._gram
        if verb == "rebuild":
            self._pending = []
        calls = [*self._pending, (verb, *arguments)]
        if verb in ("commit", "extend") and self._gram_is_asked_for:
            calls.append(("gram",))
        answers = self._round(calls)
        asked = len(self._pending)
        self._pending = []
        if verb == "gram":
            self._gram_is_asked_for = True
        if verb in ("commit", "extend", "rebuild"):
            self._gram = [self._whole(answer[-1]) for answer in answers] if len(calls) > asked + 1 else None
        chosen = [answer[asked] for answer in answers]
        return [self._whole(answer) for answer in chosen] if verb == "gram" else chosen

    def _whole(self, upper: FloatArray) -> FloatArray:
        """Build a symmetric matrix from its upper triangle."""
        matrix = np.zeros((self._n_features, self._n_features))
        matrix[np.triu_indices(self._n_features)] = upper
        return np.asarray(matrix + np.triu(matrix, 1).T)

    def _round(self, calls: list[Call]) -> list[list[Any]]:
        """Send calls to all workers and return their answers, restoring lost workers."""
        before, after = self._state, self._state.after(calls)
        answers = self._persist(
            lambda i: self._workers[i].ask.remote(before.number, calls, after.number),
            lambda i: self._workers[i].restore.remote(
                self._shares[i], self._shift, before.calls(), calls, after.number
            ),
        )
        self._state = after
        sent = len(self._workers) * sum(_n_bytes(call) for call in calls)
        rounds, sent_before, received = self.traffic
        self.traffic = Traffic(rounds + 1, sent_before + sent, received + _n_bytes(answers))
        return answers

    def _persist(self, ask: Callable[[int], Any], again: Callable[[int], Any] | None = None) -> list[Any]:
        """Collect the answers of all processes; lost ones are called with `again`, by default the same as `ask`."""
        every = range(len(self._workers))
        answers = self._answers({i: ask(i) for i in every})
        for pause in _PAUSES:
            if len(answers) == len(every):
                break
            sleep(pause)
            answers |= self._answers({i: (again or ask)(i) for i in every if i not in answers})
        if len(answers) < len(every):
            raise RuntimeError(
                f"A process of the cluster was lost, or took more than {self._timeout:g} s, {1 + len(_PAUSES)} times "
                "in one round. Check the cluster (`ray status`), above all its memory. A fit with a Checkpoint can be "
                "resumed with resume_from."
            )
        return [answers[i] for i in every]

    def _answers(self, asked: dict[int, Any]) -> dict[int, Any]:
        """Collect answers of workers, leaving out those that were lost or have no state after a restart.

        An error in a worker, such as a file that it cannot read, is raised here.
        """
        errors = self._ray.exceptions
        deadline = monotonic() + self._timeout
        answers = {}
        for i, reference in asked.items():
            try:
                answer = self._ray.get(reference, timeout=max(deadline - monotonic(), 1.0))
            except errors.GetTimeoutError:
                self._ray.kill(self._workers[i], no_restart=False)
                continue
            except (errors.RayActorError, errors.WorkerCrashedError, errors.ObjectLostError):
                continue
            except errors.RayTaskError as error:
                raise (error.cause or error) from None
            if answer is not None:
                answers[i] = answer
        return answers


@dataclass(frozen=True)
class _State:
    """The calls that led to the current state of the workers.

    Attributes
    ----------
    number : int
        Number of calls that changed the state.
    rebuilt : tuple
        Arguments of the last `rebuild`.
    steps : tuple
        Steps made since, as (direction, factors, step).
    projected : tuple
        Arguments of a `project` after the last step.
    """

    number: int = 0
    rebuilt: tuple[Any, ...] = ()
    steps: tuple[tuple[FloatArray, FloatArray, float], ...] = ()
    projected: tuple[Any, ...] = ()

    def after(self, calls: Sequence[Call]) -> _State:
        """The state after some calls."""
        number, rebuilt, steps, projected = self.number, self.rebuilt, self.steps, self.projected
        for verb, *arguments in calls:
            if verb == "rebuild":
                rebuilt, steps, projected = tuple(arguments), (), ()
            elif verb == "project":
                projected = tuple(arguments)
            elif verb == "commit":
                steps, projected = (*steps, (*projected, arguments[0])), ()
            elif verb == "extend":
                steps, projected = (*steps, *((xi, ONE, step) for xi, step in zip(*arguments, strict=True))), ()
            else:
                continue
            number += 1
        return _State(number, rebuilt, steps, projected)

    def calls(self) -> list[Call]:
        """Calls that bring a worker without state to this state, to the same bits."""
        if not self.rebuilt:
            return []
        directions, step_sizes, at_once = self.rebuilt
        calls: list[Call]
        if not at_once and all(xi.ndim == 1 and factors.tolist() == [1.0] for xi, factors, _ in self.steps):
            directions = np.concatenate([directions, *(xi[None] for xi, _, _ in self.steps)])
            step_sizes = np.concatenate([step_sizes, [step for _, _, step in self.steps]])
            calls = [("rebuild", directions, step_sizes, False)]
        else:
            calls = [("rebuild", *self.rebuilt)]
            for xi, factors, step in self.steps:
                calls += [("project", xi, factors), ("commit", step)]
        return [*calls, ("project", *self.projected)] if self.projected else calls


@dataclass(frozen=True)
class HeldShare:
    """A share in the object store of a cluster."""

    reference: Any

    def load(self, crew: Crew) -> Loaded:
        import ray

        points, comparisons = ray.get(self.reference)
        return Loaded(points, [lambda: comparisons])


def _cut(comparisons: Comparisons, n_parts: int) -> list[Comparisons]:
    """Cut into at most `n_parts` parts of consecutive groups, with about equally many members."""
    near, far = comparisons.side_sizes
    ends = np.cumsum(near + far)
    cuts = np.searchsorted(ends - 0.5 * (near + far), ends[-1] * np.arange(1, n_parts) / n_parts)
    groups = np.split(np.arange(comparisons.n_groups), np.unique(cuts))
    return [comparisons.subset(part) for part in groups if len(part)]


def _restricted(points: Coordinates, part: Comparisons) -> tuple[Coordinates, Comparisons]:
    """Restrict the points to those that a part refers to."""
    return points[part.points], part.renumbered()


def _n_bytes(value: Any) -> int:
    """Approximate number of bytes of the numbers in a message."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, (list, tuple)):
        return sum(map(_n_bytes, value))
    if hasattr(value, "__dataclass_fields__"):
        return sum(_n_bytes(getattr(value, name)) for name in value.__dataclass_fields__)
    return 8 if isinstance(value, (int, float)) and math.isfinite(value) else 0
