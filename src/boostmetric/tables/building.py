"""Rows of comparisons in files: kinds known by their columns, points looked up by id, errors located by line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import ParameterError, listed, literal, shown
from boostmetric.arrays.identifiers import as_texts
from boostmetric.tables.complaints import Complaints, refuse
from boostmetric.tables.formats import ArrayTable, FilePaths, open_tables
from boostmetric.tables.point_table import PointTable
from boostmetric.tables.reading import Chunk, Table, TableSet, Wanted

# Roles of columns that name points, and those of them that name queries, where queries have a table of their own.
POINTS = ("query", "anchor", "a", "c", "b", "d", "near", "far", "document")
QUERIES = ("query", "anchor", "a", "c")
# Roles whose columns often have another name.
_OTHER_NAMES = {
    "near": ("positive",),
    "far": ("negative",),
    "document": ("doc", "item"),
    "grade": ("relevance",),
    "clicked": ("click",),
}


class Kind(NamedTuple):
    """Kind of comparisons: its description, the roles of its columns in the order of a matrix, and optional ones."""

    title: str
    roles: tuple[str, ...]
    optional: tuple[str, ...] = ("weight",)


KINDS = {
    "triplets": Kind("triplets: anchor is closer to near than to far", ("anchor", "near", "far"), ("answer", "weight")),
    "quadruplets": Kind(
        "quadruplets: a and b are closer to each other than c and d", ("a", "b", "c", "d"), ("answer", "weight")
    ),
    "pairs": Kind("pairs: similar ones should be closer than dissimilar ones", ("a", "b", "sign")),
    "grades": Kind(
        "graded results: those with a larger grade should be closer to the query", ("query", "document", "grade")
    ),
    "clicks": Kind(
        "click log: what was clicked should be closer to the query than what else was shown, and than what was not",
        ("query", "position", "document", "clicked"),
        ("session", "propensity", "weight"),
    ),
    "rankings": Kind(
        "rankings: results in order of position should be in order of closeness to the query",
        ("query", "position", "document"),
        ("session", "weight"),
    ),
    "positives": Kind(
        "positives: these documents should be closer to the query than others, of which nothing is said",
        ("query", "document"),
    ),
}
_ROLES = tuple(dict.fromkeys(role for kind in KINDS.values() for role in (*kind.roles, *kind.optional)))
# Kinds that must be asked for, or whose columns must be the only ones: with a column missing or called otherwise, a
# click log looks like rankings, and grades look like positives.
_PARTS_OF_OTHERS = ("rankings", "positives")
_POSITIVES = ({"query", "document"}, {"anchor", "near"})


def recognise(
    table: Table, kind: str | None, names: Mapping[str, str], max_per_query: int | None = None
) -> tuple[str, dict[str, str]]:
    """Return the kind of comparisons in a table and the column of each role; `names` gives other names of columns."""
    for role in names:
        if role not in _ROLES:
            known = ", ".join(map(repr, _ROLES))
            raise ParameterError("A role in {names} must be one of {known}. Got {role!r}.", known=known, role=role)
    columns = {}
    for role in _ROLES:
        there = [name for name in (role, *_OTHER_NAMES.get(role, ())) if name in table.columns]
        if role in names:
            there = [table.column(names[role], f"for {role} called").name]
        if len(there) > 1:
            remedy = f"Say which with {{names}}={{{{{role!r}: ...}}}}."
            raise table.error(f"{listed(there)} could all be the {role}.", remedy)
        if there:
            columns[role] = there[0]
    kind = kind or _only_kind(table, columns)
    if kind == "positives" and "query" not in columns and columns.keys() >= {"anchor", "near"}:
        columns |= {"query": columns["anchor"], "document": columns["near"]}
    _, roles, optional = KINDS[kind]
    needed = f"{kind.capitalize()} need {', '.join(roles)}, and may have {', '.join(optional)}"
    for role in roles:
        if role not in columns:
            table.column(role, f"for {kind} called", f"{needed}, under these names or those given with {{names}}.")
    for role in names:
        if role not in (*roles, *optional):
            raise table.error(f"{kind} have no {role!r}, which", f"{{names}} gives. {needed}.")
    if max_per_query is not None and ("query" not in roles or kind == "positives"):
        only = f"{{max_per_query}} is for grades, clicks and rankings; these are {kind}"
        raise table.error("", f"{only}, which have no {{max_per_query}}. Leave it out.")
    return kind, {role: columns[role] for role in (*roles, *optional) if role in columns}


def _only_kind(table: Table, found: Mapping[str, str]) -> str:
    kinds = [name for name, kind in KINDS.items() if name not in _PARTS_OF_OTHERS and {*kind.roles} <= found.keys()]
    if len(kinds) == 1:
        return kinds[0]
    columns = f"the columns {listed(table.columns)}"
    if kinds:
        raise table.error(f"{columns} could be {listed(kinds)}.", "Say which ({kind}).")
    if found.keys() - {"weight"} in _POSITIVES and len(found) == len(table.columns):
        return "positives"
    if {*KINDS["rankings"].roles} <= found.keys():
        clicks = "A click log needs one more column, clicked; another name of it is given ({names})."
        problem = f"{columns} are those of rankings, which are read only if that is said: kind 'rankings'"
        raise table.error(problem, f"({{kind}}). {clicks}")
    if {*KINDS["positives"].roles} <= found.keys():
        grades = "Grades need one more column, grade; another name of it is given ({names})."
        problem = f"{columns} hold positives, relevant documents alone, only if that is said: kind 'positives'"
        raise table.error(problem, f"({{kind}}). {grades}")
    needs = "; ".join(f"{name} ({', '.join(kind.roles)})" for name, kind in KINDS.items())
    remedy = "Rename the columns, or give their names ({names}) and the {kind}."
    raise table.error(f"{columns} are not those of any kind of comparisons. There are: {needs}.", remedy)


def open_comparisons(path: FilePaths, kind: str | None, names: Mapping[str, str]) -> tuple[TableSet[Table], str | None]:
    """Open tables of comparisons; the kind is that of a matrix, if it is not given."""
    table_set = open_tables(path)
    kinds = [_name_columns(table, kind, names) if isinstance(table, ArrayTable) else kind for table in table_set.tables]
    return table_set, kinds[0]


def _name_columns(table: ArrayTable, kind: str | None, names: Mapping[str, str]) -> str | None:
    """Name the columns of a matrix after the roles of its kind, which is returned; other arrays stay as they are."""
    matrices = [name for name, column in table.columns.items() if column.kind == "list"]
    vectors = table.columns.keys() - matrices
    has_columns = names or any(vectors.issuperset(known.roles) for known in KINDS.values())
    if table.format == "npz" and (has_columns or not matrices):
        return kind
    called = [name for name in matrices if name in KINDS and kind in (None, name)]
    if len(called) != 1 and len(matrices) != 1:
        which = f"there are several matrices ({listed(matrices)})" if matrices else "there is no matrix of numbers"
        form = "Comparisons are one array of shape (rows, columns), called after the kind in npz"
        raise table.error(f"{which}. {form}: {listed(KINDS)}.")
    name = called[0] if len(called) == 1 else matrices[0]
    width = table.shapes[name][0][1]
    kind = kind or (name if name in KINDS else {3: "triplets", 4: "quadruplets"}.get(width))
    if kind is None:
        raise table.error(f"{width} columns in a matrix say nothing about the kind of comparisons.", "Say it ({kind}).")
    roles = KINDS[kind].roles
    points = tuple(role for role in roles if role in POINTS)
    if width == len(points) == len(roles) - 1:
        roles = points  # the sign of pairs, the grade of results, in an array of its own
    if width != len(roles):
        raise table.error(f"{kind} need {len(roles)} columns, {', '.join(roles)}; the matrix has {width}.")
    table.name_columns(name, roles)
    return kind


_TRUTH = {"1": 1, "true": 1, "0": 0, "false": 0}
_FIX_SIGN = "Similar pairs are marked by 1, true or similar, dissimilar ones by -1, 0, false or dissimilar."
_FIX_CLICK = "What was clicked is marked by 1 or true, what was not by 0 or false."
_ANSWERS = _TRUTH | {"yes": 1, "near": 1, "no": -1, "far": -1, "-1": -1, "tie": 0, "false": -1}
_FIX_ANSWER = "An answer is 1, true, yes or near; -1, false, no or far, for the other way round; or 0 or tie."
_MARKS = {
    "answer": (_ANSWERS, _FIX_ANSWER),
    "sign": (_TRUTH | {"similar": 1, "dissimilar": 0, "-1": -1}, _FIX_SIGN),
    "clicked": (_TRUTH, _FIX_CLICK),
}
_FIX_ROW = "Points without ids go by row, counted from 0. If these are ids, name the points' column of ids ({id})."
_NUMBERS = ("weight", "grade", "position", "propensity")
_MOST_NAMED = 5


class ComparisonRows(dict[str, NDArray[Any]]):
    """Values of each role, one a row. Points, found by id or row, are numbered after the queries of another table."""

    def __init__(
        self, table_set: TableSet[Table], columns: Mapping[str, str], points: PointTable, queries: PointTable | None
    ) -> None:
        self.table_set, self.columns, self.points, self.queries = table_set, columns, points, queries
        self.n_queries = 0 if queries is None else len(queries)
        self.notes = list[str]()  # lines for the description
        self.refuse = partial(refuse, table_set.location)
        tables = dict.fromkeys([role for role in columns if role in POINTS], points)
        if queries is not None:
            tables |= dict.fromkeys([role for role in columns if role in QUERIES], queries)
        unknown = {role: (list[int](), list[str | int]()) for role in tables}
        sessions: dict[str, int] = {}

        def values(chunk: Chunk, role: str, column: str) -> NDArray[Any]:
            if role in tables:
                ids = chunk.ids(column)
                numbers = tables[role].identifiers.find(ids)
                missing = np.flatnonzero(numbers < 0)
                unknown[role][0].extend(chunk.rows[missing].tolist())
                unknown[role][1].extend(ids[missing[:_MOST_NAMED]].tolist())
                return numbers if role in QUERIES else numbers + self.n_queries
            if role in _MARKS:
                return chunk.marks(column, *_MARKS[role])
            if role == "session":
                return np.array([sessions.setdefault(text, len(sessions)) for text in as_texts(chunk.ids(column))])
            return chunk.numbers(column)

        numbers = [column for role, column in columns.items() if role in _NUMBERS]
        names = [column for role, column in columns.items() if role not in _NUMBERS]
        parts = [
            {role: values(chunk, role, column) for role, column in columns.items()}
            for chunk in table_set.chunks(Wanted(names, numbers))
        ]
        super().__init__({role: np.concatenate([part[role] for part in parts]) for role in columns})
        complaints = Complaints(table_set.location)
        for role, (rows, ids) in unknown.items():
            elsewhere = (
                "; queries may have a file of their own ({queries})" if queries is None and role in QUERIES else ""
            )
            hint = elsewhere if len(rows) == len(self[role]) else None
            _complain_of_unknown(complaints, rows, ids, tables[role], columns[role], hint)
        complaints.raise_if_any()

    def name(self, *points: Any) -> str:
        """Names of points in their files, for a message."""
        names = []
        for point in points:
            table, row = (self.points, point - self.n_queries) if point >= self.n_queries else (self.queries, point)
            names.append(f"row {row}" if table is None or table.ids is None else shown(table.ids[[row]].tolist()[0]))
        return ", ".join(names)


def _complain_of_unknown(
    complaints: Complaints, rows: list[int], ids: list[str | int], table: PointTable, column: str, elsewhere: str | None
) -> None:
    """Complain of rows with ids that are not in a table; `elsewhere` is where they may be, if none is in the table."""
    source, known = literal(table.source), table.ids
    is_named = known is not None and (table.origin is None or table.origin.columns.id is not None)
    problem, remedy = f"is not an id of {table.source}", f"Add these points to {source}, or remove these rows."
    if not is_named:
        # Of points that were chosen by their rows, it is not known how many there are.
        range_of_rows = f", which has rows 0 to {len(table) - 1:,}" if known is None else ""
        problem, remedy = f"is not a row of {table.source}{range_of_rows}", _FIX_ROW
    elif known is not None and elsewhere is not None:
        such = f"{'text' if known.dtype == object else 'whole numbers'}, such as {listed(known[:3].tolist())}"
        remedy = literal(f"None of column {column!r} is. The ids of {table.source} are {such}.")
        remedy += f" Check that the files belong together, and the names of the columns{elsewhere}."

    def told(i: int) -> str:
        close = table.identifiers.closest(str(ids[i])) if is_named else None
        return f"{shown(ids[i])} {problem}" + (f" (is {shown(close)} meant?)" if close is not None else "")

    complaints.add(rows, told, remedy, column)
