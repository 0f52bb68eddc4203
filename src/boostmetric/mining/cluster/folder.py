"""The folder of mined parts: what belongs into it, what is there already, and how more is added."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.optional import require
from boostmetric.storage.files import replacing
from boostmetric.tables.complaints import TableError, plural

_MANIFEST = "mining.json"
_KEY = b"boostmetric.comparisons.labels"
_N_ANCHORS = b"boostmetric.anchors"


@dataclass(frozen=True)
class MinedPart:
    """Rows of one file whose neighbours are found together: number of the part, file, first row, row after the last."""

    number: int
    file: int
    first: int
    end: int


@dataclass(frozen=True)
class MinedNeighbors:
    """What `mine_neighbors` wrote.

    Attributes
    ----------
    files : str
        A pattern of the parts, as `boostmetric.tables.read_comparisons` takes it.
    n_points, n_classes, n_parts : int
    n_anchors : int
        Points that have a target, each a group.
    n_rows : int
        Targets and impostors in all.
    n_found : int
        Parts that were there already.
    """

    files: str
    n_points: int
    n_classes: int
    n_parts: int
    n_anchors: int
    n_rows: int
    n_found: int

    def describe(self) -> str:
        """For people."""
        there = f", {self.n_found:,} of them there already" if self.n_found else ""
        return (
            f"{plural(self.n_rows, 'row')} (query, document, grade) for {self.n_anchors:,} of "
            f"{plural(self.n_points, 'point')} of {plural(self.n_classes, 'class', 'classes')}.\n"
            f"Parts: {self.files} ({plural(self.n_parts, 'file')}{there})"
        )


@dataclass(frozen=True)
class MinedFolder:
    """A folder with a file of settings and a Parquet file for each part.

    Attributes
    ----------
    path : Path
    settings : mapping of str to object
        All that the parts depend on but the points, as JSON holds it.
    files : mapping of str to list
        The names of the files of points, and checksums of their footers.
    n_parts : int
    """

    path: Path
    settings: Mapping[str, Any]
    files: Mapping[str, Any]
    n_parts: int

    def open(self) -> None:
        """Make the folder, or see that it holds parts of just these settings and points.

        Raises
        ------
        TableError
            If it holds anything else.
        """
        manifest = self.path / _MANIFEST
        if self.path.exists() and not self.path.is_dir():
            raise TableError(f"{self.path} is a file. Name a folder (output).")
        if manifest.exists():
            self._compare(manifest)
            for left_over in self.path.glob(".part-*"):  # of a process that was killed
                left_over.unlink(missing_ok=True)
            return
        if self.path.exists() and any(self.path.iterdir()):
            raise TableError(f"{self.path} is not empty, and holds no mined parts. Name another folder (output).")
        with replacing(manifest) as temporary:
            temporary.write_text(json.dumps(self._contents, indent=1) + "\n", encoding="utf-8")

    @property
    def _contents(self) -> dict[str, Any]:
        return {"settings": dict(self.settings), "files": dict(self.files), "n_parts": self.n_parts}

    def _compare(self, manifest: Path) -> None:
        try:
            there = json.loads(manifest.read_text(encoding="utf-8"))
            settings, footers = dict(there["settings"]), there["files"]["footers"]
        except (ValueError, KeyError, TypeError):
            raise TableError(f"{manifest} cannot be read. Remove {self.path}, or name another folder.") from None
        others = [
            f"{name} was {settings.get(name)!r} and is {value!r}"
            for name, value in self.settings.items()
            if settings.get(name) != value
        ]
        if footers != self.files["footers"]:
            others.append("the files of points are others, or have changed")
        if others:
            raise TableError(
                f"{self.path} holds parts that do not fit: {'; '.join(others)}. Name another folder (output), or "
                "remove this one."
            )

    @cached_property
    def fingerprint(self) -> str:
        """Tells parts of these settings and points from all others."""
        known = {"settings": dict(self.settings), "footers": self.files["footers"]}
        return sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()

    def path_of(self, part: MinedPart) -> Path:
        """The file of a part."""
        return self.path / f"part-{part.number:05}-of-{self.n_parts:05}.parquet"

    def found(self, part: MinedPart) -> tuple[int, int] | None:
        """How many anchors and rows a part has; None if it is not there, or not whole."""
        arrow = require("pyarrow", "data", "Mining from Parquet files")
        parquet = require("pyarrow.parquet", "data", "Mining from Parquet files")
        path = self.path_of(part)
        if not path.exists():
            return None
        try:
            footer = parquet.read_metadata(path)
        except (arrow.ArrowException, OSError):
            return None
        told = footer.metadata or {}
        if told.get(_KEY) != self.fingerprint.encode():
            return None
        return int(told[_N_ANCHORS]), footer.num_rows

    def write(self, part: MinedPart, columns: Mapping[str, NDArray[Any]]) -> None:
        """Write a part, whole or not at all."""
        arrow = require("pyarrow", "data", "Mining from Parquet files")
        parquet = require("pyarrow.parquet", "data", "Mining from Parquet files")
        arrays = {
            name: arrow.array(values, type=arrow.string() if values.dtype == object else None)
            for name, values in columns.items()
        }
        query = columns["query"]
        n_anchors = int(np.count_nonzero(query[1:] != query[:-1])) + bool(len(query))
        told = {_KEY: self.fingerprint.encode(), _N_ANCHORS: str(n_anchors).encode()}
        with replacing(self.path_of(part)) as temporary:
            parquet.write_table(arrow.table(arrays).replace_schema_metadata(told), temporary)
