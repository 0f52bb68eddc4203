"""Search in a folder of pictures, before and after learning a metric from the names of its subfolders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from boostmetric.estimators import BoostMetric
from boostmetric.retrieval import MetricIndex
from boostmetric.vision.images import UnusableImageError
from boostmetric.vision.words import VisualWords

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Suffixes of the files that count as pictures."""

_N_NEIGHBORS = 3


@dataclass(frozen=True)
class Picture:
    """A picture of a folder.

    Attributes
    ----------
    path : Path
    label : str or None
        Name of its subfolder.
    """

    path: Path
    label: str | None


@dataclass(frozen=True)
class Answer:
    """The nearest pictures to a query, nearest first, with their distances.

    Attributes
    ----------
    query : Picture
        The query; its label is None if it is not in the folder.
    before, after : list of (Picture, float)
        Under the Euclidean distance between histograms, and under the learned metric.
    """

    query: Picture
    before: list[tuple[Picture, float]]
    after: list[tuple[Picture, float]]

    def hits(self, nearest: Sequence[tuple[Picture, float]]) -> int | None:
        """Number of nearest pictures from the query's subfolder; None if the query has none."""
        return None if self.query.label is None else sum(item.label == self.query.label for item, _ in nearest)


def find(folder: Path) -> list[Picture]:
    """Find all pictures in a folder and its subfolders, which serve as labels.

    Raises
    ------
    ValueError
        If there are none.
    """
    found = [
        Picture(path, parts[0] if len(parts := path.relative_to(folder).parts) > 1 else None)
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith(".")
    ]
    if not found:
        raise ValueError(f"The folder {folder} holds no pictures ({', '.join(SUFFIXES)}).")
    return found


def search(
    pictures: Sequence[Picture],
    queries: Sequence[Path],
    k: int,
    words: VisualWords,
    say: Callable[[str], None] = lambda text: None,
) -> list[Answer]:
    """Find the nearest pictures to each query, before and after learning.

    Copies of the queries among the pictures are left out, whatever their name: words and metric are learned without
    them.

    Parameters
    ----------
    pictures : sequence of Picture
        Pictures with at least two different labels.
    queries : sequence of Path
    k : int
    words : VisualWords
    say : callable, optional
        Called with a message before each stage.

    Raises
    ------
    ValueError
        If there is nothing to learn from.
    """
    asked = {_content(path): path for path in queries}
    labels_of_asked: dict[str, str | None] = dict.fromkeys(asked)
    others = []
    for picture in pictures:
        content = _content(picture.path)
        if content in asked:
            labels_of_asked[content] = picture.label
        else:
            others.append(picture)
    labels = np.array([picture.label or "" for picture in others])
    taken, n_neighbors = _to_learn_from(labels)

    say(f"Learning {words.n_words} visual words from {len(others):,} pictures")
    histograms = words.fit_transform([picture.path for picture in others])
    unusable = set(words.skipped_)
    usable = np.array([i for i in range(len(others)) if i not in unusable])
    if len(usable) < k:
        raise ValueError(f"k={k} is more than the {len(usable)} pictures that can be searched. Lower k.")
    counts = words.set_params(errors="raise").transform(list(asked.values()))

    learned_from = np.intersect1d(usable, taken)
    say(f"Learning a metric from {len(learned_from):,} pictures in {len(set(labels[learned_from]))} folders")
    metric = BoostMetric.paper(n_neighbors=n_neighbors, n_impostors=_N_NEIGHBORS)
    metric.fit(histograms[learned_from], labels[learned_from])

    answers = []
    indices = [MetricIndex(of).add(histograms[usable], ids=usable.tolist()) for of in (None, metric)]
    found = [index.search(counts, k) for index in indices]
    for row, content in enumerate(asked):
        before, after = (
            [(others[number], float(distance)) for number, distance in zip(ids[row], distances[row], strict=True)]
            for ids, distances in found
        )
        answers.append(Answer(Picture(asked[content], labels_of_asked[content]), before, after))
    return answers


def _to_learn_from(labels: NDArray[np.str_]) -> tuple[NDArray[np.int64], int]:
    """Pictures that are not alone in their subfolder, and how many targets each can have."""
    names, counts = np.unique(labels[labels != ""], return_counts=True)
    large = names[counts > 1]
    if len(large) < 2:
        raise ValueError(
            f"A metric is learned from the subfolders of the pictures. At least two of them must hold two or more "
            f"pictures; {len(large)} do. Put pictures that belong together into a subfolder of their own."
        )
    return np.flatnonzero(np.isin(labels, large)), int(min(_N_NEIGHBORS, counts[counts > 1].min() - 1))


def _content(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UnusableImageError(f"{path} cannot be read: {error.strerror}.") from None
