"""The answers of ``boostmetric judge``: an SQLite file, read through its view of comparisons."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.tables.complaints import NoComparisonsError, reading
from boostmetric.tables.reading import Column, Table, Wanted

SUFFIX = ".judge"
"""Suffix of files of answers."""

VIEW = "comparisons"
"""View with a row for each comparison (anchor, near, far, judge) that counts: not undone, and of no judge left out."""


class AnswerTable(Table):
    """Comparisons of a file of answers. A file that is being written can be read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "answers")
        with reading(path, (sqlite3.Error, OSError), "judge"), closing(_opened(path)) as file:
            names = [row[1] for row in file.execute(f"PRAGMA table_info({VIEW})")]
            if not names:
                raise sqlite3.DatabaseError(f"it has no {VIEW}")
            self.n_rows = int(file.execute(f"SELECT count(*) FROM {VIEW}").fetchone()[0])
        if not self.n_rows:
            problem = f"{path}: no answer in it gives a comparison. Answer some questions first: boostmetric judge."
            raise NoComparisonsError(problem)
        self.columns = {name: Column(name, "text") for name in names}

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Any]]:
        """Yield all rows at once."""
        with reading(self.path, (sqlite3.Error, OSError), "judge"), closing(_opened(self.path)) as file:
            yield {
                name: _array([row[0] for row in file.execute(f'SELECT "{name}" FROM {VIEW}')])
                for name in wanted.columns
            }


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)


def _array(values: list[Any]) -> NDArray[Any]:
    if all(isinstance(value, int) for value in values):
        return np.array(values, dtype=np.int64)
    return np.array(list(map(str, values)), dtype=object)
