"""List the data sets: their sizes, their preprocessing, and where each would be loaded from now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from boostmetric.paper.archive import UnusableFileError
from boostmetric.paper.benchmarks import BENCHMARKS, Benchmark
from boostmetric.paper.datasets import GENERATED, N_LETTERS, load, own_file, read_own
from boostmetric.paper.download import cache_folder, cached_file, differences_from, read_cached
from boostmetric.paper.image_experiments import IMAGE_BENCHMARKS, ImageBenchmark
from boostmetric.paper.pictures import URL, cached_pictures, own_folder
from boostmetric.paper.sources import SOURCES

_BUNDLED = {"iris", "wine"}


@dataclass(frozen=True)
class DatasetRow:
    """Row of the listing.

    Attributes
    ----------
    name : str
        Name, as printed in the paper.
    size : str
        Samples x features.
    n_classes : int
    preprocessing : str
        Raw, scaled to [-1, 1], or PCA with its dimension.
    split : str
        Sizes of the training part and the test part.
    printed_split : str
        Sizes as printed in the paper, if different.
    origin : str
        Where `boostmetric.paper.datasets.load` would load it from.
    available : bool
        Whether it can be loaded without a download.
    """

    name: str
    size: str
    n_classes: int
    preprocessing: str
    split: str
    printed_split: str
    origin: str
    available: bool


def describe_datasets(data_dir: Path | None = None) -> list[DatasetRow]:
    """List the paper's sets in its order, its images, and the circles, without downloading anything.

    Parameters
    ----------
    data_dir : Path, optional
        As in `boostmetric.paper.datasets.load`.
    """
    origins = {source: _origin(source, data_dir) for source in {benchmark.source for benchmark in BENCHMARKS}}
    rows = [_row(benchmark, *origins[benchmark.source]) for benchmark in BENCHMARKS]
    X, y = load("circles")
    n_samples, n_features = X.shape
    size = f"{n_samples:,} x {n_features}"
    return [
        *rows,
        *(_row_of_images(benchmark, data_dir) for benchmark in IMAGE_BENCHMARKS),
        DatasetRow("Circles", size, len(set(y)), "raw", f"{n_samples:,} + {n_samples:,}", "", "generated", True),
    ]


def _row(benchmark: Benchmark, origin: str, available: bool) -> DatasetRow:
    steps = ["[-1, 1]"] * benchmark.scaled + [f"PCA {benchmark.n_pca}"] * (benchmark.n_pca is not None)
    printed = benchmark.printed_split
    return DatasetRow(
        name=benchmark.name,
        size=_size(benchmark),
        n_classes=benchmark.n_classes,
        preprocessing=", ".join(steps) or "raw",
        split=f"{benchmark.n_train:,} + {benchmark.n_test:,}",
        printed_split=f"{printed[0]:,} + {printed[1]:,}" if printed else "",
        origin=origin,
        available=available,
    )


def _row_of_images(benchmark: ImageBenchmark, data_dir: Path | None) -> DatasetRow:
    printed = benchmark.printed_split
    return DatasetRow(
        benchmark.name,
        f"{benchmark.n_train + benchmark.n_test:,} images",
        len(benchmark.categories),
        "visual words",
        f"{benchmark.n_train:,} + {benchmark.n_test:,}",
        f"{printed[0]:,} + {printed[1]:,}" if printed else "",
        *_origin_of_images(benchmark, data_dir),
    )


def _origin_of_images(benchmark: ImageBenchmark, data_dir: Path | None) -> tuple[str, bool]:
    """Where images come from, in words, and whether no download is needed."""
    for place, folder in (("folder", own_folder(data_dir)), ("in the cache", cached_pictures())):
        if folder is not None and all((folder / category).is_dir() for category in benchmark.categories):
            return f"{place} {folder}", True
    return f"can be downloaded from {urlsplit(URL).hostname}", False


def _size(benchmark: Benchmark) -> str:
    n_samples, n_features = benchmark.n_train + benchmark.n_test, benchmark.n_features
    if benchmark.source not in SOURCES:
        return f"{n_samples:,} x {n_features}"
    n_there, n_columns = SOURCES[benchmark.source].shape
    size = f"{n_there:,} x {n_columns:,}"
    if benchmark.source == "letters":
        size += f", first {N_LETTERS:,} used"
    if n_columns != n_features:
        size += f", printed: {n_features}"
    return size


def _origin(name: str, data_dir: Path | None) -> tuple[str, bool]:
    """Where a set comes from, in words, and whether no download is needed."""
    if name in GENERATED:
        return ("comes with scikit-learn" if name in _BUNDLED else "generated"), True
    source = SOURCES[name]
    path = own_file(name, data_dir)
    if path is not None and path.exists():
        try:
            other = differences_from(source, *read_own(path, source))
        except UnusableFileError as error:
            return f"{path} cannot be used: {error}", False
        return f"file in {path.parent}" + (" (its numbers differ from ours)" if other else ""), True
    if path is not None and not path.parent.is_dir():
        return f"there is no folder {path.parent}", False
    if read_cached(name, source) is not None:
        return f"in the cache {cache_folder()}", True
    damaged = "damaged in the cache; " if cached_file(name).exists() else ""
    return f"{damaged}can be downloaded from {urlsplit(source.places[0][0]).hostname}", False
