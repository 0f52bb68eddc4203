"""Comparisons from the rows of files: kinds known by their columns, points looked up by id, errors located by line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boostmetric.arrays.errors import ParameterError, listed, literal, plural, shown
from boostmetric.arrays.identifiers import as_texts
from boostmetric.arrays.numbering import RowsError
from boostmetric.arrays.ragged import Ragged, run_starts
from boostmetric.arrays.types import IntArray
from boostmetric.arrays.validation import warn
from boostmetric.comparisons import Comparisons
from boostmetric.comparisons.examination import ClickModel
from boostmetric.comparisons.grouping import Contradictions
from boostmetric.comparisons.rankings import cuts_of
from boostmetric.tables.complaints import Complaints, NoComparisonsError, TableError, refuse
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
_FIX_WEIGHT = "Weights are at least 0: correct these rows. 0 leaves a row out."
_FIX_ROW = "Points without ids go by row, counted from 0. If these are ids, name the points' column of ids ({id})."
_FIX_PROPENSITY = "A propensity is the chance that a result was looked at, above 0 and at most 1: correct these rows."
_NUMBERS = ("weight", "grade", "position", "propensity")
_MOST_NAMED = 5
_MOST_WEIGHTS = 100  # of similar pairs times those of dissimilar ones, which are all combined


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


def compare(
    rows: ComparisonRows,
    kind: str,
    max_per_query: int | None,
    grouped: bool,
    points: NDArray[Any] | None,
    click_model: ClickModel | None = None,
    contradictions: Contradictions = "weigh",
) -> Comparisons:
    """Build comparisons from rows; of all points, unless the rows are a worker's share of them."""
    table_set, weights = rows.table_set, rows.get("weight")
    if weights is not None:
        negative = np.flatnonzero(weights < 0)
        rows.refuse(negative, lambda row: f"the weight is {weights[row]:g}", _FIX_WEIGHT, rows.columns["weight"])
        if not weights.any():
            problem = "all weights are 0, which leaves out every row. Give a positive weight to some."
            raise table_set.error(problem, kind=NoComparisonsError)
    try:
        if kind == "pairs":
            return _from_pairs(rows, contradictions)
        if kind == "clicks":
            return _from_clicks(rows, max_per_query, points, click_model)
        if kind == "positives":
            return _from_positives(rows, points)
        if "query" in rows:
            return _from_rankings(rows, max_per_query, contradictions)
        return _from_single(rows, kind, grouped)
    except TableError:
        raise
    except ValueError as error:
        raise table_set.error(str(error)) from error


def _from_single(rows: ComparisonRows, kind: str, grouped: bool) -> Comparisons:
    """See `Comparisons.from_triplets` and `Comparisons.from_quadruplets`."""
    points = np.stack([rows[role] for role in KINDS[kind].roles], axis=1)
    build = Comparisons.from_triplets if kind == "triplets" else Comparisons.from_quadruplets
    answers = rows.get("answer")
    if answers is not None:
        n_other, n_ties = int(np.sum(answers == -1)), int(np.sum(answers == 0))
        rows.notes.append(f"answers: {n_other:,} the other way round, {plural(n_ties, 'tie')} left out")
        if n_ties == len(answers):
            problem = "all answers are ties, which say nothing about what is closer. Give some that are not."
            raise rows.table_set.error(problem, kind=NoComparisonsError)
    try:
        return build(points, rows.get("weight"), grouped=grouped, answers=answers)
    except RowsError as error:
        problem = "({}) are not three different points" if kind == "triplets" else f"in ({{}}) {error.reason}"
        rows.refuse(error.rows, lambda row: problem.format(rows.name(*points[row])))
        raise


def _from_pairs(rows: ComparisonRows, contradictions: Contradictions) -> Comparisons:
    """See `Comparisons.from_pairs`. The weight of a comparison is the product of the weights of its two pairs."""
    pairs, sign, weights = np.stack([rows["a"], rows["b"]], axis=1), rows["sign"], rows.get("weight")
    if np.isin([0, -1], sign).all():
        place = rows.table_set.location(int(np.argmax(sign == 0)), rows.columns["sign"])
        raise TableError(f"{place}: 0, but elsewhere dissimilar pairs are marked by -1. Use one of them for all.")
    rows.refuse(np.flatnonzero(pairs[:, 0] == pairs[:, 1]), lambda row: f"({rows.name(*pairs[row])}) is one point")
    sides = {"similar": sign == 1, "dissimilar": sign != 1}
    rows.notes.append(f"{plural(int(np.sum(sign == 1)), 'similar pair')}, {int(np.sum(sign != 1)):,} dissimilar")
    ordered = np.sort(pairs)
    order = np.lexsort((sign, ordered[:, 1], ordered[:, 0]))
    both = np.flatnonzero((np.diff(ordered[order], axis=0) == 0).all(axis=1) & (np.diff(sign[order]) != 0))

    def contradicts(row: int) -> str:
        here, there = sides if sign[row] == 1 else reversed(sides)
        return f"({rows.name(*pairs[row])}) is {here} here and {there} in"

    one, other = order[both], order[both + 1]
    if contradictions == "refuse":
        rows.refuse(np.maximum(one, other), contradicts, "Remove one of each.", others=np.minimum(one, other))
    elif len(both):
        number = "1 pair is" if len(both) == 1 else f"{len(both):,} pairs are"
        rows.notes.append(f"{number} both similar and dissimilar, which is weighed against each other")
        if weights is not None:
            weights = _balanced(ordered, sides["similar"], weights)
    for mark, side in sides.items():
        if not side.any():
            problem = f"no pair is {mark}. Similar pairs are compared with dissimilar ones: both are needed."
            raise rows.table_set.error(problem)
    if weights is None:
        return Comparisons.from_pairs(*(pairs[side] for side in sides.values()))
    near, far = (
        [(float(weight), pairs[side & (weights == weight)]) for weight in np.unique(weights[side & (weights > 0)])]
        for side in sides.values()
    )
    if len(near) * len(far) > _MOST_WEIGHTS:
        problem = f"{len(near)} different weights of similar pairs and {len(far)} of dissimilar ones. Each is combined"
        raise rows.table_set.error(f"{problem} with each, and {_MOST_WEIGHTS} combinations can be: round the weights.")
    if not near or not far:
        raise rows.table_set.error("the weights of all pairs of one kind are 0. Give a positive weight to some.")
    groups = zip(*((a, b, v * w) for v, a in near for w, b in far), strict=True)
    return Comparisons.from_groups(*map(list, groups))


def _balanced(pairs: NDArray[Any], similar: NDArray[np.bool_], weights: NDArray[Any]) -> NDArray[Any]:
    """Weights of the rows after those of each pair on its lighter side have been taken from its heavier side."""
    _, number = np.unique(pairs, axis=0, return_inverse=True)
    sums = [np.bincount(number, np.where(side, weights, 0.0)) for side in (similar, ~similar)]
    own = np.where(similar, *(total[number] for total in sums))
    other = np.where(similar, *(total[number] for total in reversed(sums)))
    return np.asarray(weights * np.maximum(own - other, 0.0) / np.where(own > 0, own, 1.0))


def _from_clicks(
    rows: ComparisonRows, max_per_query: int | None, points: NDArray[Any] | None, model: ClickModel | None
) -> Comparisons:
    """See `Comparisons.from_clicks`. Workers draw no documents, which they would draw from their shares."""
    chance = rows.get("propensity")
    if chance is not None:
        bad = np.flatnonzero(~((chance > 0) & (chance <= 1)))
        rows.refuse(bad, lambda row: f"the propensity is {chance[row]:g}", _FIX_PROPENSITY, rows.columns["propensity"])
    order, first = _lists(rows)
    if not rows["clicked"].any():
        problem = "nothing was clicked. Give rows that were clicked beside those that were not."
        raise rows.table_set.error(problem, kind=NoComparisonsError)
    n_clicks, n_without = int(rows["clicked"].sum()), int(np.sum(np.add.reduceat(rows["clicked"][order], first) == 0))
    rows.notes.append(plural(n_clicks, "click") + (f", {plural(n_without, 'list')} without one" if n_without else ""))
    clicks = Comparisons.from_clicks(
        *(rows[role] for role in ("query", "document", "position", "clicked")),
        sessions=rows.get("session"),
        propensities=chance,
        model=model,
        weights=rows.get("weight"),
        max_per_query=max_per_query,
        corpus=None if points is None else _corpus(rows, len(points)),
        **({"n_unseen": 0} if points is None else {}),
    )
    rows.notes.append("propensities: " + (f"by the {model or 'position'} model" if chance is None else "given"))
    return clicks


def _from_positives(rows: ComparisonRows, points: NDArray[Any] | None) -> Comparisons:
    """See `Comparisons.from_positives`."""
    assert points is not None  # workers refuse positives
    itself = "the document {} is the query itself, whose distance is always 0"
    same = np.flatnonzero(rows["query"] == rows["document"])
    rows.refuse(same, lambda row: itself.format(rows.name(rows["document"][row])))
    corpus = _corpus(rows, len(points))
    rows.notes.append(
        f"{plural(len(np.unique(rows['query'])), 'query', 'queries')}, {plural(len(corpus), 'document')} to search"
    )
    return Comparisons.from_positives(
        rows["query"], rows["document"], points=points, weights=rows.get("weight"), corpus=corpus
    )


def _corpus(rows: ComparisonRows, n_points: int) -> IntArray:
    """All documents: where queries have no table of their own, all points that are no query, or a document too."""
    is_document = np.ones(n_points, dtype=bool)
    is_document[: rows.n_queries] = False
    if rows.queries is None:
        is_document[rows["query"]] = False
    is_document[rows["document"]] = True
    return np.flatnonzero(is_document)


def _from_rankings(rows: ComparisonRows, max_per_query: int | None, contradictions: Contradictions) -> Comparisons:
    """See `Comparisons.from_rankings`. Lists that give no comparison are left out, with a note."""
    order, first = _lists(rows, merges="grade" in rows and contradictions == "weigh")
    sizes = np.diff(np.append(first, len(order)))
    of_row = np.repeat(np.arange(len(first)), sizes)
    useful = _useful(rows, order, first, sizes)
    order, sizes = order[useful[of_row]], sizes[useful]
    first = np.cumsum(sizes) - sizes
    query = rows["query"][order]
    several = len(np.unique(query[first])) < len(first)  # lists of one query, which a flat table would make one

    def shaped(role: str) -> Any:
        if role not in rows:
            return None
        return np.split(rows[role][order], first[1:]) if several else rows[role][order]

    queries = query[first] if several else query
    document, grade, weights = map(shaped, ("document", "grade", "weight"))
    return Comparisons.from_rankings(
        queries, document, grade, weights=weights, max_per_query=max_per_query, contradictions=contradictions
    )


def _lists(rows: ComparisonRows, *, merges: bool = False) -> tuple[IntArray, IntArray]:
    """Order of the rows by list, of a query and perhaps a session, and position; and where each list begins in it.

    A document may be twice in a list if `merges`, or if its grades are the same.
    """
    keys = [rows[role] for role in ("query", "session") if role in rows]
    order = np.lexsort([*(rows[role] for role in ("position",) if role in rows), *reversed(keys)])
    first = run_starts(*(key[order] for key in keys))
    of_row = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(order))))
    _check_lists(rows, order, of_row, merges=merges)
    rows.notes.append(plural(len(np.unique(rows["query"])), "query", "queries") + f" in {plural(len(first), 'list')}")
    return order, first


def _check_lists(rows: ComparisonRows, order: IntArray, of_row: IntArray, *, merges: bool) -> None:
    """Refuse lists with the query itself or with duplicates; those of grades may be merged, which is noted."""
    query, document = rows["query"], rows["document"]
    itself = "the result {} is the query itself, whose distance is always 0"
    rows.refuse(np.flatnonzero(document == query), lambda row: itself.format(rows.name(document[row])))
    remedy = "Keep one of each: remove the others."
    if "position" in rows and "session" not in rows:
        remedy = "If these are several occasions, add a column that tells them apart (session); else keep one of each."
    for role in [role for role in ("position", "document") if role in rows]:
        values = rows[role][order]
        again = np.lexsort((order, values, of_row))
        same = np.flatnonzero((np.diff(values[again]) == 0) & (np.diff(of_row[again]) == 0))
        if "grade" in rows:
            grade = rows["grade"][order[again]]
            differ = grade[same] != grade[same + 1]
            if len(same) and (merges or not differ.any()):
                rows.notes.append(f"{plural(len(same), 'row')} about a document that its query has already, merged")
                continue
            same = same[differ]

        def twice(row: int, role: str = role) -> str:
            value = rows.name(document[row]) if role == "document" else f"{rows[role][row]:g}"
            return f"query {rows.name(query[row])} has {role} {value} here and in"

        rows.refuse(order[again[same + 1]], twice, remedy, others=order[again[same]])


def _useful(rows: ComparisonRows, order: IntArray, first: IntArray, sizes: IntArray) -> NDArray[np.bool_]:
    """Whether each list gives a comparison; if some give none, add a note, and if all, raise an error."""
    grade = rows["grade"][order] if "grade" in rows else None
    cuts = cuts_of(Ragged.from_starts(order, first), grade, None)
    useful = np.isin(np.arange(len(first)), cuts.of_list)
    if useful.all():
        return useful
    n, row, size = int(np.sum(~useful)), int(order[first[np.argmin(useful)]]), int(sizes[np.argmin(useful)])
    reason = f"has {size} results of the same grade"
    if size == 1:
        reason = "has one result, and a comparison needs two"
    where = f"query {rows.name(rows['query'][row])} ({rows.table_set.location(row)}) {reason}"
    if n == len(useful):
        problem = f"no list gives a comparison. The first, of {where}. Add results of other grades."
        raise rows.table_set.error(problem, kind=NoComparisonsError)
    give, are = ("gives", "is") if n == 1 else ("give", "are")
    note = f"{n:,} of {len(useful):,} lists {give} no comparison and {are} left out; the first, of {where}"
    rows.notes.append(note)
    warn(f"{rows.table_set}: {note}.")
    return useful
