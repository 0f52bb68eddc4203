"""Shards on a Ray cluster: Ray places, restarts and carries; the mathematics stays where it is.

Every machine has a process, with as many threads as it has processors, that holds a share of the groups, and of the
points that they name, and answers the verbs of a shard. A share comes from the driver, or the process reads it from
files. What it knows beyond its share follows from the metric, so that one that was lost is *restored*: Ray starts it
again, it loads its share, and it rebuilds its distances from the directions and steps that the driver remembers. Each
call says which state it is about; a process that was restarted is in none, and says so.

Calls are few. To project on a direction has no answer, so it waits for the next call and goes along; and after a step
the direction is asked for, so it is sent along with the answer to the step. So an iteration takes two rounds
for single comparisons, whose histogram knows every step, and three for groups, of which several steps are asked for at
once, and many where little is known of the step.
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
from boostmetric.parallel.crew import Crew

# Of the processors of a cluster, processes of one size should use so many.
_LEAST_IN_USE = 0.9
# Seconds to wait before processes that were lost in a round are restored, again and again, until it is given up. One
# that ends is started again at once; that a machine is lost, Ray knows after a minute or so.
_PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)


@dataclass(frozen=True)
class RayEngine:
    """A Ray cluster to learn on: ``BoostMetric(engine=RayEngine(...))``, or ``engine="ray"`` with these defaults.

    Parameters
    ----------
    address : str, optional
        Of a cluster that runs, as `ray.init` takes it; by default that of the environment variable RAY_ADDRESS, which
        Ray sets in its jobs. Without one, a cluster is started on this machine, which listens on the loopback address
        only, and stopped at the end. If this process is connected to one already, that is used.
    n_workers : int, optional
        Processors to work with; by default all of the cluster.
    workers_per_process : int, optional
        How many of them are threads of one process. By default those of a machine, whose points are then held, and
        multiplied, once. With 1 each has a process of its own: all together take more memory and time, but none is as
        large, and one that is lost takes less with it.
    timeout : float, default=1800.0
        Seconds after which a process that has not answered is taken for lost, and started again; more than it needs to
        read its share.
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
        """Connected to the cluster, as before if that was so: several fits in this context use one cluster."""
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
                # Not another one that runs on this machine, which would refuse a number of processors.
                ray.init(address, num_cpus=self.n_workers or os.cpu_count(), include_dashboard=False, **quiet)
                _check_loopback(ray)
            yield ray


@contextmanager
def _on_loopback(ray: Any) -> Iterator[None]:
    """Let a cluster that is started have the loopback address, as Ray does where it supports no other.

    On Linux it takes that of the network, and listens to it. It is told so by an environment variable that it reads
    when it is imported, which would also hold for clusters elsewhere; so what it has read is changed, and changed back.
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
            f"Ray {ray.__version__} has started a cluster that listens to the network, at {', '.join(addresses)}. It "
            "was stopped. Start one yourself, and connect to it (ray.init, or address)."
        )


def placed(
    processors: Mapping[str, int], n_workers: int | None, workers_per_process: int | None
) -> tuple[list[str], int]:
    """The machine of each process, and how many threads each has.

    Parameters
    ----------
    processors : dict of str to int
        Of each machine.
    n_workers, workers_per_process : int, optional
        As those of a `RayEngine`.

    Examples
    --------
    >>> placed({"small": 8, "large": 16}, None, None)
    (['small', 'large', 'large'], 8)
    """
    n_processors = sum(processors.values())

    def in_use(n_threads: int) -> int:
        return sum(n // n_threads * n_threads for n in processors.values())

    # All processes get shares of one size: of machines of several sizes, the most threads that leave few without work.
    sizes = range(1, max(processors.values()) + 1)
    at_most = workers_per_process or max((n for n in sizes if in_use(n) >= _LEAST_IN_USE * n_processors), default=1)
    n_workers = n_workers or in_use(at_most) or max(n_processors, 1)
    n_processes = math.ceil(n_workers / at_most)
    turns = [(turn, node) for node, n in processors.items() for turn in range(n // at_most)]
    machines = [node for _, node in sorted(turns, key=itemgetter(0))]  # every machine before one gets another
    return list(islice(cycle(machines or processors), n_processes)), math.ceil(n_workers / n_processes)


class Traffic(NamedTuple):
    """What went over the network: rounds of calls, and bytes of arrays in them."""

    rounds: int
    sent: int
    received: int


class RayShardPool:
    """Processes of a cluster, asked all at once."""

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
        # Workers begin with nothing, and are restored in the first round.
        self._shares = list(shares)
        # No processor is reserved: those of held-out comparisons would wait for them for ever. What reserves nothing
        # is put anywhere, so a little memory is. Soft: on another machine, once that one is lost.
        actor = ray.remote(num_cpus=0, memory=2**20, max_restarts=-1)(Worker)
        affinities = [NodeAffinitySchedulingStrategy(node, soft=True) for node in nodes[: len(shares)]]
        self._workers = [actor.options(scheduling_strategy=at).remote(loss, n_threads) for at in affinities]
        self._state = _State()
        self._pending: list[Call] = []
        self._gram: list[FloatArray] | None = None
        self._gram_is_asked_for = False
        self.traffic = Traffic(0, 0, 0)

    def load(self, shift: Shift | None) -> tuple[Shift, float]:
        """Let the workers load their points, and put them in coordinates; these, and the weight of all groups."""
        if shift is None:
            lows, highs = zip(*self._persist(lambda i: self._workers[i].ends.remote(self._shares[i])), strict=True)
            shift = Shift.to_the_middle(np.min(lows, axis=0), np.max(highs, axis=0))
        self._shift = shift
        weights = self._persist(lambda i: self._workers[i].weight.remote(self._shares[i], shift))
        if not any(weights):
            raise ValueError(
                "There are no comparisons: at least one is needed. Where anchors are held out by a share of them, none "
                "or all may be: choose another random_state, another share, or give files to hold out."
            )
        # Of comparisons that are held out, a share may have none.
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
        if verb == "commit" and self._gram_is_asked_for:
            calls.append(("gram",))
        answers = self._round(calls)
        asked = len(self._pending)
        self._pending = []
        if verb == "gram":
            self._gram_is_asked_for = True
        if verb in ("commit", "rebuild"):
            self._gram = [self._whole(answer[-1]) for answer in answers] if len(calls) > asked + 1 else None
        chosen = [answer[asked] for answer in answers]
        return [self._whole(answer) for answer in chosen] if verb == "gram" else chosen

    def _whole(self, upper: FloatArray) -> FloatArray:
        """A symmetric matrix from its upper triangle."""
        matrix = np.zeros((self._n_features, self._n_features))
        matrix[np.triu_indices(self._n_features)] = upper
        return np.asarray(matrix + np.triu(matrix, 1).T)

    def _round(self, calls: list[Call]) -> list[list[Any]]:
        """The answers of all workers to some calls; those that were lost are restored."""
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
        """What each process answers; those that were lost are asked `again`, by default the same."""
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
                "in one round. Look at the cluster (`ray status`), its memory above all; a fit with a Checkpoint goes "
                "on with resume_from."
            )
        return [answers[i] for i in every]

    def _answers(self, asked: dict[int, Any]) -> dict[int, Any]:
        """What workers answer; nothing of those that were lost, or know nothing since they were started again.

        An error of a worker, as about a file that it cannot read, is raised here.
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
    """How the workers came to where they are.

    Attributes
    ----------
    number : int
        Counts the calls that changed it.
    rebuilt : tuple
        The arguments of the last `rebuild`.
    steps : tuple
        Of direction, factors, step: those made since.
    projected : tuple
        The arguments of a `project` after the last step.
    """

    number: int = 0
    rebuilt: tuple[Any, ...] = ()
    steps: tuple[tuple[FloatArray, FloatArray, float], ...] = ()
    projected: tuple[Any, ...] = ()

    def after(self, calls: Sequence[Call]) -> _State:
        """The state that some calls lead to."""
        number, rebuilt, steps, projected = self.number, self.rebuilt, self.steps, self.projected
        for verb, *arguments in calls:
            if verb == "rebuild":
                rebuilt, steps, projected = tuple(arguments), (), ()
            elif verb == "project":
                projected = tuple(arguments)
            elif verb == "commit":
                steps, projected = (*steps, (*projected, arguments[0])), ()
            else:
                continue
            number += 1
        return _State(number, rebuilt, steps, projected)

    def calls(self) -> list[Call]:
        """What brings a worker that knows nothing to this state, to the same bits."""
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
    """Consecutive groups in so many parts, or fewer, with about as many members each."""
    near, far = comparisons.side_sizes
    ends = np.cumsum(near + far)
    cuts = np.searchsorted(ends - 0.5 * (near + far), ends[-1] * np.arange(1, n_parts) / n_parts)
    groups = np.split(np.arange(comparisons.n_groups), np.unique(cuts))
    return [comparisons.subset(part) for part in groups if len(part)]


def _restricted(points: Coordinates, part: Comparisons) -> tuple[Coordinates, Comparisons]:
    """A part with the points that it names."""
    return points[part.points], part.renumbered()


def _n_bytes(value: Any) -> int:
    """Bytes of the numbers in what is sent, roughly."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, (list, tuple)):
        return sum(map(_n_bytes, value))
    if hasattr(value, "__dataclass_fields__"):
        return sum(_n_bytes(getattr(value, name)) for name in value.__dataclass_fields__)
    return 8 if isinstance(value, (int, float)) and math.isfinite(value) else 0
