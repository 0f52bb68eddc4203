"""The answers of ``boostmetric judge``: an SQLite file whose answers give comparisons."""

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

TABLES = ("comparison", "answer", "question", "judge")
"""Tables of a file of answers that comparisons are read from."""

COLUMNS = {"anchor": "comparison.anchor", "near": "comparison.near", "far": "comparison.far", "judge": "judge.name"}
"""Columns of the comparisons, and where they are."""

# What counts: answers that are not undone, of judges who are not left out.
_THAT_COUNT = (
    "FROM comparison JOIN answer ON answer.id = comparison.answer JOIN question ON question.id = answer.question "
    "JOIN judge ON judge.id = question.judge WHERE NOT answer.undone AND NOT judge.left_out"
)
_LONGEST = 2**20  # bytes of a value


class AnswerTable(Table):
    """Comparisons of a file of answers. A file that is being written can be read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "answers")
        with reading(path, (sqlite3.Error, OSError), "judge"), closing(_opened(path)) as file:
            found = {row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not found.issuperset(TABLES):  # a view of that name could be any program
                raise sqlite3.DatabaseError("it has no tables of answers")
            self.n_rows = int(file.execute(f"SELECT count(*) {_THAT_COUNT}").fetchone()[0])
        if not self.n_rows:
            raise NoComparisonsError(
                f"{path}: no answer in it gives a comparison. Answer some questions first (boostmetric judge), or take "
                "judges who are left out back in (--leave-out '')."
            )
        self.columns = {name: Column(name, "text") for name in COLUMNS}

    def chunks(self, wanted: Wanted) -> Iterator[dict[str, Any]]:
        """Yield all rows at once."""
        names = list(wanted.columns)
        chosen = ", ".join(COLUMNS[name] for name in names)
        with reading(self.path, (sqlite3.Error, OSError), "judge"), closing(_opened(self.path)) as file:
            rows = file.execute(f"SELECT {chosen} {_THAT_COUNT} ORDER BY comparison.rowid").fetchall()
        yield {name: _array([row[place] for row in rows]) for place, name in enumerate(names)}


def _opened(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)
    file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    return file


def _array(values: list[Any]) -> NDArray[Any]:
    if all(isinstance(value, int) for value in values):
        return np.array(values, dtype=np.int64)
    return np.array(list(map(str, values)), dtype=object)
