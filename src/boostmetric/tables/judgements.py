"""Which documents belong to which query, from files: grades to evaluate with, positives to mine with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.tables.building import ComparisonRows, read_rows
from boostmetric.tables.complaints import TableError, listed
from boostmetric.tables.kinds import KINDS, Kind, recognise, with_named_columns
from boostmetric.tables.opening import FilePaths, open_tables
from boostmetric.tables.point_table import PointTable
from boostmetric.tables.reading import Table, TableSet

# What the two columns of positives may be called: query and document, anchor and positive, or any two points.
_ROLES = ("query", "document")
_PAIRS = (_ROLES, ("query", "doc"), ("query", "item"), ("anchor", "positive"), ("anchor", "near"), ("a", "b"))


def read_relevance(
    path: FilePaths, points: PointTable, *, queries: PointTable | None = None, names: Mapping[str, str] | None = None
) -> NDArray[np.float64]:
    r"""Read grades of documents for queries, as `boostmetric.evaluation.evaluate_rankings` takes them.

    Parameters
    ----------
    path : path, pattern or sequence of them
        With the columns query, document and grade.
    points, queries, names
        As for `boostmetric.tables.read_comparisons`.

    Returns
    -------
    ndarray of shape (n_rows, 3)
        Row numbers of the query and of the document in their tables, and the grade.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from boostmetric.tables import PointTable, read_relevance
    >>> path = Path(tempfile.mkdtemp()) / "grades.csv"
    >>> _ = path.write_text("query,document,grade\nq,b,2\n")
    >>> documents = PointTable(np.eye(2), ids=np.array(["a", "b"], dtype=object))
    >>> read_relevance(path, documents, queries=PointTable(np.eye(2)[:1], ids=np.array(["q"], dtype=object)))
    array([[0., 1., 2.]])
    """
    names = names or {}
    table_set = _opened(path, "grades", names)
    _, columns = recognise(table_set.first, "grades", names)
    columns.pop("weight", None)
    rows = read_rows(table_set, KINDS["grades"], columns, points, queries)
    return np.stack([*_numbers(rows), rows["grade"]], axis=1, dtype=np.float64)


def read_positives(
    path: FilePaths, points: PointTable, *, queries: PointTable | None = None, names: Mapping[str, str] | None = None
) -> NDArray[np.int64]:
    r"""Read pairs of a query and a document that belong together, as `boostmetric.mining` takes them.

    Parameters
    ----------
    path : path, pattern or sequence of them
        With the columns query and document (or doc, item), anchor and positive (or near), or a and b; or a matrix of
        two columns.
    points, queries, names
        As for `boostmetric.tables.read_comparisons`; the roles are query and document.

    Returns
    -------
    ndarray of shape (n_rows, 2)
        Row numbers of the query and of the document in their tables.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from boostmetric.tables import PointTable, read_positives
    >>> path = Path(tempfile.mkdtemp()) / "positives.csv"
    >>> _ = path.write_text("anchor,positive\nb,a\n")
    >>> read_positives(path, PointTable(np.eye(2), ids=np.array(["a", "b"], dtype=object)))
    array([[1, 0]])
    """
    names = names or {}
    table_set = _opened(path, "pairs", names)
    columns = dict(zip(_ROLES, _pair_of_columns(table_set.first, names), strict=True))
    return np.stack(_numbers(read_rows(table_set, Kind("pairs", _ROLES), columns, points, queries)), axis=1)


def _opened(path: FilePaths, kind: str, names: Mapping[str, str]) -> TableSet[Table]:
    return TableSet([with_named_columns(table, kind, names)[0] for table in open_tables(path).tables])


def _pair_of_columns(table: Table, names: Mapping[str, str]) -> tuple[str, str]:
    wrong = [role for role in names if role not in _ROLES]
    if wrong:
        raise TableError(
            f"Positives have a query and a document, and no {wrong[0]!r}, which is given a name", "({names})."
        )
    for first, second in _PAIRS:
        found = names.get("query", first), names.get("document", second)
        if all(name in table.columns for name in found):
            return found
    for role, name in names.items():
        table.column(name, f"for {role} called")
    raise TableError(
        f"{table.path}: the columns {listed(table.columns)} are not those of positives: query and document, anchor and "
        "positive, or a and b.",
        "Rename the columns, or give their names ({names}).",
    )


def _numbers(rows: ComparisonRows) -> list[NDArray[Any]]:
    """Row numbers of queries and documents in their tables."""
    return [rows["query"], rows["document"] - (0 if rows.queries is None else len(rows.queries))]
