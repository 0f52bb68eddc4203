"""A GPU compared with its limits and with the CPU of the same machine.

The lower bound of an iteration is its minimum number of bytes, products and exponentials, divided by the rates measured
on this device. No program can be faster; the figure is how close ours comes.
"""

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks import LeftOutError
from boostmetric import BoostMetric, Comparisons
from boostmetric.arrays.frame import Frame
from boostmetric.engines.device import DeviceBackend
from boostmetric.engines.threads import ThreadBackend
from boostmetric.evaluation import knn_error
from boostmetric.oracles.losses import EXPONENTIAL
from boostmetric.parallel.devices import torch_device
from boostmetric.solver.learn import learn
from boostmetric.solver.result import Boosted, Progress

N_THREADS = os.cpu_count() or 1
_GPU = DeviceBackend("cuda", single=True)
_CPU = ThreadBackend(N_THREADS)


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """All impostors, lists, and MNIST on a GPU: lower bounds, times, memory, and the CPU of the same machine."""
    if torch_device("auto", np.empty(0)) is None:
        raise LeftOutError("It needs torch and a GPU that torch sees.")
    rows = []
    for row in measured(data_dir):
        rows.append(row)
        shown = (f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}" for key, value in row.items())
        print("  " + "; ".join(shown), flush=True)
    return rows


def measured(data_dir: Path | None) -> Iterator[dict[str, object]]:
    """Run the measurements one after the other."""
    rates = Rates()
    yield rates.row
    for n, n_on_cpu in ((20_000, 6), (60_000, 4), (200_000, 0)):
        yield all_impostors(n, rates, n_on_cpu)
    yield lists(100_000, rates, on_cpu=True)
    yield lists(1_000_000, rates, on_cpu=False)
    yield embeddings(100_000)
    yield embeddings(1_000_000)
    yield from equality()
    yield from mnist(data_dir)
    yield from crossover()


class Rates:
    """Measured peak rates of the device: bytes copied, 16-bit matrix products, exponentials."""

    def __init__(self) -> None:
        import torch

        self.name = torch.cuda.get_device_name()
        self.bytes = _bytes_per_second()
        self.flops = _flops_per_second()
        self.exponentials = _exponentials_per_second()
        torch.cuda.empty_cache()

    @property
    def row(self) -> dict[str, object]:
        """The rates as a row of the results."""
        import torch
        import triton

        return {
            "what": f"ceilings of {self.name}, torch {torch.__version__}, Triton {triton.__version__}",
            "copy, TB/s": self.bytes / 1e12,
            "16-bit products, Tflop/s": self.flops / 1e12,
            "exponentials, T/s": self.exponentials / 1e12,
        }


def seconds(work: Callable[[], object], repeats: int = 7) -> float:
    """Median time on the device."""
    import torch

    work()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return float(np.median(times))


def _bytes_per_second() -> float:
    """Bytes read and written by a copy."""
    import torch

    a = torch.randn(2**30, device="cuda")
    b = torch.empty_like(a)
    return 2 * a.numel() * a.itemsize / seconds(lambda: b.copy_(a))


def _flops_per_second() -> float:
    """Rate of a large matrix product."""
    import torch

    a, b = torch.randn((2, 8192, 8192), dtype=torch.float16, device="cuda")
    return 2 * 8192**3 / seconds(lambda: a @ b)


def _exponentials_per_second() -> float:
    """Rate for numbers that stay in registers."""
    import torch

    from benchmarks import exponentials

    x = torch.rand(2**22, device="cuda")
    return len(x) * exponentials.ROUNDS / seconds(lambda: exponentials.many(x))


class Clock:
    """Times at which iterations ended."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, record: object) -> None:
        """Record the end of an iteration."""
        self.times.append(perf_counter())

    @property
    def seconds(self) -> float:
        """Median time of an iteration, without the first, which compiles kernels."""
        return float(np.median(np.diff(self.times)))


def clustered(n: int, n_features: int, n_classes: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes in float32: clouds in a hidden subspace, with noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    centres = 1.5 * rng.standard_normal((n_classes, 5))
    hidden = centres[y] + rng.standard_normal((n, 5))
    X = 0.7 * rng.standard_normal((n, n_features)) * rng.uniform(0.5, 2.0, n_features)
    X += hidden @ rng.standard_normal((5, n_features)) / np.sqrt(5)
    return X.astype(np.float32), y


def all_impostors(
    n: int, rates: Rates, n_on_cpu: int, n_features: int = 50, n_iterations: int = 30
) -> dict[str, object]:
    """Iterations over all impostors of n points, and some of them on the CPU."""
    X, y = clustered(n, n_features)
    start = perf_counter()
    comparisons = Comparisons.from_labels(X, y, n_impostors="all", device="cuda")
    mined = perf_counter() - start
    with peak() as used:
        clock = Clock()
        boosted = learn(X, comparisons, max_iter=n_iterations, backend=_GPU, on_iteration=[clock])
    # Passes over all pairs: weights, direction (two exponentials), table of the direction. A product in single
    # precision is three products of halves.
    pairs = n * (n - np.bincount(y).mean())
    products = 3 * 2 * pairs * (3 * n_features + n_features + 16) / rates.flops
    exponentials = 4 * pairs / rates.exponentials
    row: dict[str, object] = {
        "what": f"all impostors, n = {n:,}, {n_features} features",
        "comparisons": float(comparisons.n_comparisons),
        "mining, s": mined,
        "iteration, ms": 1e3 * clock.seconds,
        "floor of products, ms": 1e3 * products,
        "floor of exponentials, ms": 1e3 * exponentials,
        "of the sum of floors": (products + exponentials) / clock.seconds,
        "peak, GB": used[0] / 1e9,
        "loss": boosted.history[-1].loss,
        "violated": boosted.history[-1].violated,
    }
    return row | beside_the_cpu(X, comparisons, n_on_cpu, clock, boosted)


def beside_the_cpu(
    X: np.ndarray, comparisons: Comparisons, n_iterations: int, clock: Clock, boosted: Boosted
) -> dict[str, object]:
    """The first iterations on the CPU of the same machine, for comparison; an empty dict for 0 iterations."""
    if not n_iterations:
        return {}
    clock_of_cpu = Clock()
    of_cpu = learn(X, comparisons, max_iter=n_iterations, backend=_CPU, on_iteration=[clock_of_cpu])
    ratio = boosted.history[n_iterations - 1].loss / of_cpu.history[-1].loss
    return {
        f"CPU, {N_THREADS} threads, iteration, ms": 1e3 * clock_of_cpu.seconds,
        "times as fast": clock_of_cpu.seconds / clock.seconds,
        f"loss after {n_iterations}, relative difference": abs(ratio - 1),
    }


def listed(n_points: int, n_near: int, n_far: int) -> Comparisons:
    """Groups of random pairs, one per point; built on the device, because sorting them takes long."""
    import torch

    anchor = torch.arange(n_points, device="cuda").repeat_interleave(n_near + n_far)
    other = torch.randint(n_points - 1, (len(anchor),), device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    other += other >= anchor
    pairs, members = torch.unique(
        torch.minimum(anchor, other) * n_points + torch.maximum(anchor, other), return_inverse=True
    )
    ends = np.arange(n_points + 1) * (n_near + n_far)
    return Comparisons(
        torch.stack([pairs // n_points, pairs % n_points], 1).int().cpu().numpy(),
        members.int().cpu().numpy(),
        np.sort(np.concatenate([ends, ends[:-1] + n_near])),
        np.ones(n_points),
        np.arange(n_points),
    )


def lists(
    n_points: int, rates: Rates, on_cpu: bool, n_features: int = 128, n_iterations: int = 12
) -> dict[str, object]:
    """Iterations over lists of a hundred pairs per point, against the bytes they must move."""
    import torch

    comparisons = listed(n_points, n_near=4, n_far=96)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_points, n_features), dtype=np.float32)
    X *= np.linspace(0.2, 1.0, n_features, dtype=np.float32)
    torch.cuda.empty_cache()
    with peak() as used:
        clock = Clock()
        boosted = learn(X, comparisons, max_iter=n_iterations, backend=_GPU, on_iteration=[clock])
        n_moments, verbs = _verbs(X, comparisons)
    n_members = len(comparisons.members)
    # Numbers have four bytes. For every member, a direction reads a point and the positions of the point and the
    # coefficient, the latter twice; it also uses three arrays of points for sums over pieces. Growths: two points, one
    # number. Moments: two numbers per evaluation. The step updates a distance, which is read three more times, and
    # writes a coefficient.
    direction = 4 * (n_members * (n_features + 5) + 3 * n_points * n_features)
    streamed = 4 * n_members * (3 + 2 * n_moments + 3 + 1 + 1 + 2)
    row: dict[str, object] = {
        "what": f"lists, {n_members:,} pairs in {n_points:,} groups, {n_features} features",
        "comparisons": float(comparisons.n_comparisons),
        "iteration, ms": 1e3 * clock.seconds,
        "floor of bytes, ms": 1e3 * (direction + streamed) / rates.bytes,
        "of copy bandwidth": (direction + streamed) / clock.seconds / rates.bytes,
        "direction, of copy bandwidth": direction / verbs["gram"] / rates.bytes,
        "moments evaluated": n_moments,
        **{f"{verb}, ms": 1e3 * time for verb, time in verbs.items()},
        "peak, GB": used[0] / 1e9,
        "loss": boosted.history[-1].loss,
        "violated": boosted.history[-1].violated,
    }
    return row | beside_the_cpu(X, comparisons, n_iterations if on_cpu else 0, clock, boosted)


def embeddings(n: int, n_features: int = 384, n_classes: int = 1000) -> dict[str, object]:
    """One pass over points of many classes, with 10 targets and 50 impostors, from the array to the metric."""
    rng = np.random.default_rng(0)
    centres, y = rng.standard_normal((n_classes, n_features), dtype=np.float32), rng.integers(0, n_classes, n)
    X = rng.standard_normal((n, n_features), dtype=np.float32) * np.linspace(0.2, 2.0, n_features, dtype=np.float32)
    X += 0.6 * centres[y]
    with peak() as used:
        start = perf_counter()
        comparisons = Comparisons.from_labels(X, y, 10, 50, device="cuda")
        mined = perf_counter()
        boosted = learn(
            X,
            comparisons,
            loss="logistic",
            max_iter=2,
            block_size=32,
            start=Progress.of_metric(np.eye(n_features)),
            reweigh=True,
            backend=_GPU,
        )
        end = perf_counter()
    return {
        "what": f"embeddings, n = {n:,}, {n_features} features, {n_classes:,} classes, 10 targets, 50 impostors",
        "mining, s": mined - start,
        "boosting, s": end - mined,
        "peak, GB": used[0] / 1e9,
        "violated": boosted.history[-1].violated,
    }


def _verbs(X: np.ndarray, comparisons: Comparisons) -> tuple[float, dict[str, float]]:
    """Number of moment evaluations per iteration, and the time of each verb."""
    with _GPU.pool(Frame.of(X).points, comparisons, EXPONENTIAL) as pool:
        (shard,) = pool.shards
        counted: list[int] = []
        moments = shard._moments
        shard._moments = lambda w: (counted.append(1), moments(w))[1]
        boosted = _boost_on(pool, X.shape[1], n_iterations=6)
        n_moments = len(counted) / len(boosted.history)
        del shard._moments
        xi = boosted.directions[-1]
        shard.project(xi)
        return n_moments, {
            "project": seconds(lambda: shard.project(xi)),
            "moments": seconds(lambda: shard._moments(0.0)),
            "commit": seconds(lambda: shard._move(0.0)),
            "gram": seconds(shard.gram),
        }


def _boost_on(pool: object, n_features: int, n_iterations: int) -> Boosted:
    from boostmetric.oracles.sharded import ShardedOracle
    from boostmetric.solver.loop import Stagewise, boost
    from boostmetric.solver.result import Progress
    from boostmetric.solver.step import exact_step

    return boost(
        ShardedOracle(pool, n_features, EXPONENTIAL, 1.0),
        1e-7,
        start=Progress.nothing(n_features),
        max_iter=n_iterations,
        tol=0.0,
        solver=Stagewise(exact_step),
        on_iteration=lambda record, so_far: None,
        rng=np.random.RandomState(0),
    )


def equality() -> Iterator[dict[str, object]]:
    """Difference of X from the CPU's after 50 iterations."""
    X, y = clustered(4_000, 30)
    problems = {
        "all impostors, n = 4,000": (X, Comparisons.from_labels(X, y, n_impostors="all")),
        "3 targets, 20 impostors, n = 4,000": (X, Comparisons.from_labels(X, y, n_impostors=20)),
    }
    for name, (points, comparisons) in problems.items():
        for loss in ("exponential", "logistic"):
            expected = learn(points, comparisons, max_iter=50, backend=_CPU, loss=loss)
            matrix = (expected.directions.T * expected.step_sizes) @ expected.directions
            row: dict[str, object] = {"what": f"X after 50 iterations, {name}, {loss}"}
            for precision, single in (("float32", True), ("float64", False)):
                got = learn(points, comparisons, max_iter=50, backend=DeviceBackend("cuda", single), loss=loss)
                of_gpu = (got.directions.T * got.step_sizes) @ got.directions
                row[f"{precision}, relative difference"] = float(
                    np.linalg.norm(of_gpu - matrix) / np.linalg.norm(matrix)
                )
                row[f"{precision}, stop reason"] = (
                    "the same" if got.stop_reason == expected.stop_reason else got.stop_reason.name
                )
            yield row


def mnist(data_dir: Path | None) -> Iterator[dict[str, object]]:
    """All of MNIST from samples to metric; synthetic data of the same size if its four files are not in the folder."""
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    files = [None if data_dir is None else data_dir / f"{name}-ubyte.gz" for name in names]
    if all(file is not None and file.exists() for file in files):
        what = "MNIST"
        train, y, test, y_test = (np.frombuffer(gzip.decompress(file.read_bytes()), np.uint8) for file in files)
        train, test = (images[16:].reshape(-1, 784) for images in (train, test))
        y, y_test = y[8:], y_test[8:]
    else:
        what = "synthetic of the size of MNIST"
        X, y = clustered(70_000, 784)
        train, test, y, y_test = X[:60_000], X[60_000:], y[:60_000], y[60_000:]
    start = perf_counter()
    train, test = reduced(train, test, 50)
    reduced_after = perf_counter() - start
    before = knn_error(train, y, test, y_test, n_neighbors=3)
    settings = {
        "all impostors, 100 iterations": BoostMetric.paper(n_impostors="all", max_iter=100, device="cuda"),
        "all impostors, 100 iterations, logistic": BoostMetric.paper(
            n_impostors="all", max_iter=100, loss="logistic", device="cuda"
        ),
        "recommended": BoostMetric.recommended(device="cuda", random_state=0),
    }
    for name, metric in settings.items():
        start = perf_counter()
        metric.fit(train, y)
        fitted_after = perf_counter() - start
        start = perf_counter()
        Comparisons.from_labels(train, y, n_impostors=metric.n_impostors, device="cuda")
        yield {
            "what": f"{what}, 60,000 x 784 reduced to 50, {name}",
            "reduction, s": reduced_after,
            "fit, s": fitted_after,
            "mining once, s": perf_counter() - start,
            "3-NN error before": before,
            "after": knn_error(metric.transform(train), y, metric.transform(test), y_test, n_neighbors=3),
        }


def reduced(train: np.ndarray, test: np.ndarray, n_components: int) -> tuple[np.ndarray, np.ndarray]:
    """Principal components in float32, computed on the device."""
    import torch

    a, b = (torch.tensor(images, dtype=torch.float64, device="cuda") / 255 for images in (train, test))
    mean = a.mean(0)
    _, vectors = torch.linalg.eigh((a - mean).T @ (a - mean))
    axes = vectors[:, -n_components:]
    return tuple(((images - mean) @ axes).float().cpu().numpy() for images in (a, b))


def crossover() -> Iterator[dict[str, object]]:
    """Whole fits of 50 iterations, on the GPU and on the CPU."""
    for n_impostors in (3, 50, "all"):
        for n in (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000):
            if n_impostors == "all" and n > 20_000:
                continue
            X, y = clustered(n, 50)
            times = {}
            for device in ("cuda", "cpu"):
                metric = BoostMetric.paper(n_impostors=n_impostors, max_iter=50, device=device, n_jobs=-1)
                if n == 500:
                    metric.fit(X, y)  # compiles
                start = perf_counter()
                metric.fit(X, y)
                times[device] = perf_counter() - start
            yield {
                "what": f"fit, {n_impostors} impostors, n = {n:,}",
                "GPU, s": times["cuda"],
                f"CPU, {N_THREADS} threads, s": times["cpu"],
                "times as fast": times["cpu"] / times["cuda"],
            }


@contextmanager
def peak() -> Iterator[list[int]]:
    """Peak device memory inside the context."""
    import torch

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    used: list[int] = []
    yield used
    used.append(torch.cuda.max_memory_allocated() - before)
