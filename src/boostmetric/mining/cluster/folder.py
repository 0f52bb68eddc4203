"""Folder of mined parts: check that it belongs to this run, find finished parts, and write new ones."""

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

from boostmetric.arrays.errors import literal, plural
from boostmetric.optional import require
from boostmetric.storage.files import replacing
from boostmetric.tables.complaints import TableError

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
    """Result of `mine_neighbors`.

    Attributes
    ----------
    files : str
        Pattern of the files of the parts, for `boostmetric.tables.read_comparisons`.
    n_points, n_classes, n_parts : int
    n_anchors : int
        Number of points that have a target; each is a group.
    n_rows : int
        Total number of targets and impostors.
    n_found : int
        Number of parts that existed already.
    """

    files: str
    n_points: int
    n_classes: int
    n_parts: int
    n_anchors: int
    n_rows: int
    n_found: int

    def describe(self) -> str:
        """Summary for people."""
        there = f", {self.n_found:,} of them there already" if self.n_found else ""
        return (
            f"{plural(self.n_rows, 'row')} (query, document, grade) for {self.n_anchors:,} of "
            f"{plural(self.n_points, 'point')} of {plural(self.n_classes, 'class', 'classes')}.\n"
            f"Parts: {self.files} ({plural(self.n_parts, 'file')}{there})"
        )


@dataclass(frozen=True)
class MinedFolder:
    """Folder with a file of settings and a Parquet file for each part.

    Attributes
    ----------
    path : Path
    settings : mapping of str to object
        Everything the parts depend on, except the points, as JSON types.
    files : mapping of str to list
        Names of the files of points, and checksums of their footers.
    n_parts : int
    """

    path: Path
    settings: Mapping[str, Any]
    files: Mapping[str, Any]
    n_parts: int

    def open(self) -> None:
        """Create the folder, or check that its parts have the same settings and points.

        Raises
        ------
        TableError
            If it holds anything else.
        """
        manifest = self.path / _MANIFEST
        if self.path.exists() and not self.path.is_dir():
            raise TableError(f"{self.path} is a file.", "Name a folder ({output}).")
        if manifest.exists():
            self._compare(manifest)
            for left_over in self.path.glob(".part-*"):  # from a process that was killed
                left_over.unlink(missing_ok=True)
            return
        if self.path.exists() and any(self.path.iterdir()):
            raise TableError(f"{self.path} is not empty, and holds no mined parts.", "Name another folder ({output}).")
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
            f"{{{name}}} was {literal(repr(settings.get(name)))} and is {literal(repr(value))}"
            for name, value in self.settings.items()
            if settings.get(name) != value
        ]
        if footers != self.files["footers"]:
            others.append("the files of points are others, or have changed")
        if others:
            raise TableError(
                f"{self.path} holds parts that do not fit:",
                f"{'; '.join(others)}. Name another folder ({{output}}), or remove this one.",
            )

    @cached_property
    def fingerprint(self) -> str:
        """Hash that identifies parts with these settings and points."""
        known = {"settings": dict(self.settings), "footers": self.files["footers"]}
        return sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()

    def path_of(self, part: MinedPart) -> Path:
        """File of a part."""
        return self.path / f"part-{part.number:05}-of-{self.n_parts:05}.parquet"

    def found(self, part: MinedPart) -> tuple[int, int] | None:
        """Numbers of anchors and rows of a part; None if it does not exist or is incomplete."""
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
        """Write a part, atomically."""
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
