"""Comparisons, grades and positives from files that name points by id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import listed, plural
from boostmetric.arrays.point_blocks import PointBlocks, Stacked
from boostmetric.arrays.validation import check_choice, check_count
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.examination import PROPENSITIES, ClickModel
from boostmetric.comparisons.grouping import CONTRADICTIONS, Contradictions
from boostmetric.tables.building import KINDS, QUERIES, ComparisonRows, open_comparisons, recognise
from boostmetric.tables.comparing import compare
from boostmetric.tables.complaints import TableError
from boostmetric.tables.formats import FilePaths
from boostmetric.tables.judgements import judgements_of
from boostmetric.tables.point_table import PointTable
from boostmetric.tables.reading import Table

# What the two columns of positives may be called: query and document, anchor and positive, or any two points.
_ROLES = ("query", "document")
_PAIRS = (_ROLES, ("query", "doc"), ("query", "item"), ("anchor", "positive"), ("anchor", "near"), ("a", "b"))


@dataclass(frozen=True, eq=False)
class ComparisonTable:
    r"""Comparisons and their points, as returned by `read_comparisons`.

    Attributes
    ----------
    comparisons : Comparisons
    points : ndarray or PointBlocks of shape (n_points, n_features)
        Points that the comparisons refer to by number. Queries from a separate table come first.
    kind : str
        One of "triplets", "quadruplets", "pairs", "grades", "clicks", "rankings" and "positives".
    n_rows : int
        Number of rows of the file.
    n_queries : int
        Number of points from the table of queries.
    source : str
        Name of the file in messages.
    judgements : ndarray of shape (n_judgements, 3) or None
        For kinds with queries and documents: the point numbers of both, and the grade of the document. With clicks it
        is the probability that the document is relevant; in a ranking it falls with the position. None for the other
        kinds.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from boostmetric.tables import PointTable, read_comparisons
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "triplets.npy"
    ...     np.save(path, [[0, 1, 2], [1, 0, 2]])
    ...     table = read_comparisons(path, PointTable(np.eye(3), source="points.npy"))
    >>> print("\n".join(table.describe().splitlines()[1:]))
      triplets: anchor is closer to near than to far
      columns: anchor, near, far
      points: points.npy, by row number
      2 comparisons of 3 pairs in 2 groups
    """

    comparisons: Comparisons
    points: Any
    kind: str
    n_rows: int
    n_queries: int
    source: str
    judgements: NDArray[np.float64] | None = None
    _lines: tuple[str, ...] = ()

    @property
    def only_judged(self) -> bool:
        """Whether nothing is known of documents without a judgement, because one ranking decided what was shown."""
        return self.kind == "clicks"

    def describe(self) -> str:
        """Describe what was read: file, kind, columns and number of comparisons, one line each."""
        return "\n  ".join(self._lines)


def read_comparisons(
    path: FilePaths,
    points: PointTable,
    *,
    kind: str | None = None,
    queries: PointTable | None = None,
    names: Mapping[str, str] | None = None,
    max_per_query: int | None = None,
    grouped: bool = True,
    click_model: ClickModel | None = None,
    contradictions: Contradictions = "weigh",
) -> ComparisonTable:
    r"""Read comparisons of points from a file, or from several files of the same columns.

    Parameters
    ----------
    path : path, pattern such as ``"clicks-*.jsonl"``, or sequence of them
        .csv, .tsv, .jsonl, .ndjson (all also .gz or .zst) or .parquet with named columns; .npz with arrays of these
        names; or a matrix whose columns are in the order below, in .npy, or in .npz called after the kind.
    points : PointTable
        Points that the rows name by id, or by row number from 0 if they were read without ids. Those of
        `boostmetric.tables.open_points` stay in their files, unless the rows are positives.
    kind : str, optional
        What the rows contain. By default, it is recognised by the names of the columns:

        - "triplets": anchor, near, far;
        - "quadruplets": a, b, c, d: a and b are closer to each other than c and d;
        - "pairs": a, b, sign (1, true or similar; or else -1, 0, false or dissimilar);
        - "grades": query, document, grade (larger is better);
        - "clicks": query, position, document, clicked, and session if a query was asked more than once; perhaps
          propensity, the chance that the result was looked at;
        - "rankings": query, position, document: best first. Only if asked for;
        - "positives": query, document (or anchor, positive), and no other column unless asked for: relevant documents
          alone. Grades that are all 1 are read as positives too.

        All may have a column ``weight``, and triplets and quadruplets a column ``answer``: 1 (or true, yes, near) as
        the row says, -1 (false, no, far) the other way round, and 0 or tie for no preference.
    queries : PointTable, optional
        Table of the queries (``query``, ``anchor``, ``a`` and ``c``) if queries and documents are in two tables. An id
        may then be in both.
    names : mapping of str to str, optional
        Columns with other names, such as ``{"document": "sku"}``. Always known are positive and negative for near and
        far, doc and item for document, relevance for grade, and click for clicked.
    max_per_query : int, optional
        Maximum number of comparisons per query, see `boostmetric.Comparisons.from_rankings`; for clicks, number of
        clicks that count in full.
    grouped : bool, default=True
        Whether triplets may form groups, see `boostmetric.Comparisons.from_triplets`.
    click_model : {"position", "cascade", "dependent"}, optional
        How to estimate what was looked at, for clicks without propensities, see `boostmetric.Comparisons.from_clicks`.
    contradictions : {"weigh", "refuse"}, default="weigh"
        What to do with pairs that are both similar and dissimilar, with documents that are graded twice, and with
        triplets and quadruplets that say the opposite of each other: weigh them against each other, see
        `boostmetric.Comparisons.from_pairs` and ``from_rankings``, or raise an error.

    Returns
    -------
    ComparisonTable

    Raises
    ------
    TableError
        If anything is wrong, with the file, the line and the column.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from boostmetric.tables import PointTable, read_comparisons
    >>> points = PointTable(np.eye(3), ids=np.array(["a", "b", "c"], dtype=object))
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "judged.csv"
    >>> _ = path.write_text("anchor,near,far\na,b,c\nb,a,c\n")
    >>> table = read_comparisons(path, points)
    >>> table.kind, table.comparisons
    ('triplets', Comparisons(n_comparisons=2, n_pairs=3, n_groups=2))
    >>> folder.cleanup()
    """
    if kind is not None:
        check_choice("kind", kind, KINDS)
    if max_per_query is not None:
        check_count("max_per_query", max_per_query, alternative=", or None")
    if click_model is not None:
        check_choice("click_model", click_model, PROPENSITIES)
    check_choice("contradictions", contradictions, CONTRADICTIONS)
    table_set, kind = open_comparisons(path, kind, names or {})
    kind, columns = recognise(table_set.first, kind, names or {}, max_per_query)
    if click_model is not None and (kind != "clicks" or "propensity" in columns):
        what = "have their propensities" if kind == "clicks" else f"are {kind}"
        problem = f"{{click_model}} is for clicks without propensities; these {what}. Leave it out."
        raise table_set.first.error("", problem)
    stacked = stack(points, queries)
    rows = ComparisonRows(table_set, columns, points, queries)
    if kind == "grades" and max_per_query is None and (rows["grade"] == 1).all():
        kind = "positives"
    comparisons = compare(rows, kind, max_per_query, grouped, stacked, click_model, contradictions)
    n_rows, source = len(rows[KINDS[kind].roles[0]]), str(table_set)
    head = f"{source}: {table_set.format}, {plural(n_rows, 'row')}", KINDS[kind].title
    lines = (*head, *_description(rows, comparisons))
    judgements = judgements_of(rows, click_model)
    return ComparisonTable(comparisons, stacked, kind, n_rows, rows.n_queries, source, judgements, lines)


def stack(points: PointTable, queries: PointTable | None) -> Any:
    """Stack queries above documents."""
    if queries is None:
        return points.points if isinstance(points.points, PointBlocks) else np.asarray(points.points)
    if queries.n_features != points.n_features:
        has = f"{queries.source} has {plural(queries.n_features, 'feature')}, {points.source} has"
        raise TableError(f"{has} {points.n_features:,}. Queries and documents must have the same features.")
    names = queries.feature_names or [], points.feature_names or []
    if names[0] != names[1] and set(names[0]) == set(names[1]):
        problem = f"{queries.source} and {points.source} have the same features in different orders."
        raise TableError(problem, "Read one of them with the names of the other ({columns}).")
    both = queries.points, points.points
    return Stacked(both) if any(isinstance(some, PointBlocks) for some in both) else np.concatenate(both)


def _description(rows: ComparisonRows, comparisons: Comparisons) -> list[str]:
    tables = {"": rows.points}
    if rows.queries is not None:
        asked = ", ".join(role for role in rows.columns if role in QUERIES)
        tables = {f"{asked} in ": rows.queries, "others in ": rows.points}
    by = [f"{what}{table.source}, by {'row number' if table.ids is None else 'id'}" for what, table in tables.items()]
    columns = ", ".join(column if role == column else f"{column} ({role})" for role, column in rows.columns.items())
    weights = [f"weights: {rows['weight'].min():g} to {rows['weight'].max():g}"] if "weight" in rows else []
    counts = plural(comparisons.n_comparisons, "comparison"), plural(comparisons.n_pairs, "pair")
    groups = f"{counts[0]} of {counts[1]} in {plural(comparisons.n_groups, 'group')}"
    return [f"columns: {columns}", f"points: {'; '.join(by)}", *rows.notes, *weights, groups]


def read_relevance(
    path: FilePaths, points: PointTable, *, queries: PointTable | None = None, names: Mapping[str, str] | None = None
) -> NDArray[np.float64]:
    r"""Read grades of documents for queries, for `boostmetric.evaluation.evaluate_rankings`.

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
    table_set, _ = open_comparisons(path, "grades", names or {})
    _, columns = recognise(table_set.first, "grades", names or {})
    columns.pop("weight", None)
    rows = ComparisonRows(table_set, columns, points, queries)
    return np.stack([rows["query"], rows["document"] - rows.n_queries, rows["grade"]], axis=1, dtype=np.float64)


def read_positives(
    path: FilePaths, points: PointTable, *, queries: PointTable | None = None, names: Mapping[str, str] | None = None
) -> NDArray[np.int64]:
    r"""Read pairs of a query and a matching document, for `boostmetric.mining`.

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
    table_set, _ = open_comparisons(path, "pairs", names or {})
    columns = _columns_of_positives(table_set.first, names or {})
    rows = ComparisonRows(table_set, columns, points, queries)
    return np.stack([rows["query"], rows["document"] - rows.n_queries], axis=1)


def _columns_of_positives(table: Table, names: Mapping[str, str]) -> dict[str, str]:
    for role in names:
        if role not in _ROLES:
            problem = f"Positives have a query and a document, and no {role!r}, which is given a name"
            raise TableError(problem, "({names}).")
    for pair in _PAIRS:
        columns = {**dict(zip(_ROLES, pair, strict=True)), **names}
        if table.columns.keys() >= {*columns.values()}:
            return columns
    for role, name in names.items():
        table.column(name, f"for {role} called")
    known = "query and document, anchor and positive, or a and b"
    problem = f"the columns {listed(table.columns)} are not those of positives: {known}."
    raise table.error(problem, "Rename the columns, or give their names ({names}).")
