"""Experiments of the paper's section 3.3: metrics on histograms of visual words, for categorization and retrieval."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

import boostmetric
from boostmetric.baselines import LMNN
from boostmetric.comparisons import Comparisons
from boostmetric.estimators import BoostMetric
from boostmetric.neighbors import nearest, rounding_of_distances
from boostmetric.paper.datasets import MissingDataError
from boostmetric.paper.download import cache_folder
from boostmetric.paper.pictures import find_pictures
from boostmetric.paper.protocol import TrainTestSplit
from boostmetric.paper.runner import FitTask
from boostmetric.storage.files import replacing
from boostmetric.vision import VisualWords
from boostmetric.vision.extraction import ExtractionSettings, identity

N_RUNS = 10
CODEBOOKS = {
    "100 words": (100, "count"),
    "200 words": (200, "count"),
    "100 words, square roots": (100, "sqrt"),
    "200 words, square roots": (200, "sqrt"),
}
"""Number of words, and whether to use their counts, as the paper does, or the square roots."""
CUTS = (5, 10, 15, 20)
"""Numbers of retrieved images at which precision is measured."""
METRICS: dict[str, Callable[[], Any]] = {
    "Euclidean": lambda: None,
    "LMNN": lambda: LMNN(n_neighbors=3),
    "BoostMetric": lambda: BoostMetric.paper(n_neighbors=3, n_impostors=3),
    "recommended": lambda: BoostMetric.recommended(random_state=0),
}
SVM = "linear SVM"
# Values of C for the SVM, chosen from by 5-fold cross-validation.
_PENALTIES = np.logspace(-5, 1, 13)
# Error against the number of triplets: number of targets, and of impostors, per sample.
NEIGHBORS = (1, 2, 3, 5, 7, 10)
TRIPLETS = "100 words"


@dataclass(frozen=True)
class ImageBenchmark:
    """One of the two image experiments.

    Attributes
    ----------
    name : str
    source : str
        Name of the experiment.
    categories : (str, str)
        The classes; retrieval searches for the first.
    n_train, n_test : int
        Number of images of both classes in the parts of a split.
    printed_split : (int, int) or None
        Sizes as printed in the paper, if different.
    """

    name: str
    source: str
    categories: tuple[str, str]
    n_train: int
    n_test: int
    printed_split: tuple[int, int] | None = None


MOTORBIKES = ImageBenchmark("Motorbikes", "motorbikes", ("motorbikes", "airplanes"), 959, 639)
# The paper has 520 images of the background; 467 are published.
FACES = ImageBenchmark("Faces", "faces", ("faces", "background_google"), 541, 361, (573, 382))
IMAGE_BENCHMARKS = (MOTORBIKES, FACES)
# Images of each experiment.
IMAGES_OF = {"motorbikes": MOTORBIKES, "motorbikes-triplets": MOTORBIKES, "faces": FACES}


def image_tasks(benchmark: ImageBenchmark, runs: int | None = None) -> list[FitTask]:
    """Tasks of an experiment: for each split, all codebooks and systems, which share the histograms."""
    seeds = range(min(runs or N_RUNS, N_RUNS))
    categorization = benchmark.source == "motorbikes"
    systems = [*METRICS, SVM] if categorization else list(METRICS)
    columns = [(words, system) for words in CODEBOOKS for system in systems]
    planned = [FitTask(benchmark.source, *column, seed) for seed in seeds for column in columns]
    if categorization:
        planned += [FitTask("motorbikes-triplets", TRIPLETS, str(k), seed) for seed in seeds for k in NEIGHBORS]
    return planned


def measure(task: FitTask, data_dir: Path | None) -> dict[str, Any]:
    """Run a task and return what was measured."""
    n_words, weighting = CODEBOOKS[task.data]
    part = histograms(IMAGES_OF[task.experiment], n_words, task.seed, data_dir)
    if weighting == "sqrt":
        part = replace(part, X_train=np.sqrt(part.X_train), X_test=np.sqrt(part.X_test))
    if task.system == SVM:
        return _support_vectors(part)
    if task.experiment == "motorbikes-triplets":
        k = int(task.system)
        n_triplets = Comparisons.from_labels(part.X_train, part.y_train, k, k).n_comparisons
        return {
            "triplets": n_triplets,
            **_learn(BoostMetric.paper(n_neighbors=k, n_impostors=k), part, TrainTestSplit.error, "error"),
        }
    if task.experiment == "motorbikes":
        return _learn(METRICS[task.system](), part, TrainTestSplit.error, "error")
    return _learn(METRICS[task.system](), part, precisions, "precision")


def _learn(metric: Any, part: TrainTestSplit, score: Callable[..., Any], name: str) -> dict[str, Any]:
    if metric is None:
        return {name: score(part), "seconds": 0.0, "stop_reason": ""}
    start = perf_counter()
    metric.fit(part.X_train, part.y_train)
    seconds = perf_counter() - start
    return {name: score(part, metric.transform), "seconds": seconds, "stop_reason": str(metric.stop_reason_)}


def precisions(part: TrainTestSplit, transform: Callable[[NDArray[Any]], NDArray[Any]] | None = None) -> list[float]:
    """Precision at each of `CUTS`, in per cent, with the test images of the first class as queries among the others."""
    points = part.X_test if transform is None else transform(part.X_test)
    found = nearest(points, None, max(CUTS), rounding_of_distances(points))[part.y_test == 0]
    right = part.y_test[found] == 0
    return [100 * float(right[:, :cut].mean()) for cut in CUTS]


def _support_vectors(part: TrainTestSplit) -> dict[str, Any]:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    start = perf_counter()
    search = GridSearchCV(SVC(kernel="linear"), {"C": _PENALTIES}, cv=5).fit(part.X_train, part.y_train)
    seconds = perf_counter() - start
    error = 100 * (1 - search.score(part.X_test, part.y_test))
    return {"error": error, "seconds": seconds, "stop_reason": f"C = {search.best_params_['C']:.2g}"}


def words(n_words: int, seed: int, **options: Any) -> VisualWords:
    """Representation of the images: Harris-affine regions, SIFT, counts; descriptors are cached."""
    return VisualWords(
        n_words, upright=True, errors="raise", cache_dir=cache_folder() / "descriptors", random_state=seed, **options
    )


def prepare(benchmark: ImageBenchmark, data_dir: Path | None) -> str:
    """Describe all images of an experiment, with a progress bar, so that fits find the descriptors in the cache.

    Returns
    -------
    str
        SHA-256 of the images' contents.

    Raises
    ------
    MissingDataError
        If there are no images, or too few.
    UnusableImageError
        If an image is broken.
    """
    files = [path for category in benchmark.categories for path in find_pictures(category, data_dir)]
    if len(files) - benchmark.n_train <= max(CUTS):
        raise MissingDataError(
            f"{benchmark.name} needs {benchmark.n_train} images to learn from and more than {max(CUTS)} others; the "
            f"folders {' and '.join(str(path) for path in {file.parent: None for file in files})} hold {len(files)}."
        )
    words(1, 0, verbose=1).describe(files)
    return _content(files)


def histograms(benchmark: ImageBenchmark, n_words: int, seed: int, data_dir: Path | None) -> TrainTestSplit:
    """Random split: words learned on the training part, and their counts in both parts; cached."""
    files = [find_pictures(category, data_dir) for category in benchmark.categories]
    paths = [path for of_class in files for path in of_class]
    labels = np.repeat([0, 1], [len(of_class) for of_class in files])
    order = np.random.default_rng(seed).permutation(len(paths))
    train, test = order[: benchmark.n_train], order[benchmark.n_train :]
    vision = words(n_words, seed, n_jobs=1)
    settings = ExtractionSettings(vision.detector, vision.upright, vision.max_side)
    # Everything that determines the counts; the indices of the training part identify the split.
    decisive = (boostmetric.__version__, sklearn.__version__, identity(settings), vision.descriptor, vision.weighting)
    key = hashlib.sha256(repr((*decisive, n_words, seed, train.tolist(), _content(paths))).encode()).hexdigest()
    kept = cache_folder() / "histograms" / f"{benchmark.name}-{key[:32]}.npy"
    counts = _read(kept, (len(paths), n_words))
    if counts is None:
        counts = np.empty((len(paths), n_words))
        counts[train] = vision.fit_transform([paths[i] for i in train])
        counts[test] = vision.transform([paths[i] for i in test])
        with replacing(kept) as temporary, temporary.open("wb") as file:
            np.save(file, counts)
    return TrainTestSplit(counts[train], labels[train], counts[test], labels[test])


def _read(path: Path, shape: tuple[int, int]) -> NDArray[np.float64] | None:
    try:
        with path.open("rb") as file:
            counts: NDArray[np.float64] = np.load(file, allow_pickle=False)
    except Exception:  # a damaged header can fail in any way; words are then counted again
        return None
    return counts if counts.shape == shape else None


def _content(files: Sequence[Path]) -> str:
    """SHA-256 of the contents of files, in order."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
