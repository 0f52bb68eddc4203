"""Kinds of comparisons in files, recognised by the names of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from boostmetric.arrays.errors import ParameterError, listed
from boostmetric.tables.formats import ArrayTable, FilePaths, open_tables
from boostmetric.tables.reading import Table, TableSet

# Roles of columns that name points. The first four name queries, where queries have a table of their own.
_POINTS = ("query", "anchor", "a", "c", "b", "d", "near", "far", "document")
_QUERIES = _POINTS[:4]
# Roles whose columns often have another name.
_OTHER_NAMES = {
    "near": ("positive",),
    "far": ("negative",),
    "document": ("doc", "item"),
    "grade": ("relevance",),
    "clicked": ("click",),
}


class Kind(NamedTuple):
    """Kind of comparisons: its description, and the roles of its columns in the order of a matrix."""

    title: str
    roles: tuple[str, ...]

    @property
    def optional(self) -> tuple[str, ...]:
        """Roles that may be missing."""
        return ("session", "weight") if "position" in self.roles else ("weight",)

    @property
    def points(self) -> tuple[str, ...]:
        """Roles that name points."""
        return tuple(role for role in self.roles if role in _POINTS)

    @property
    def queries(self) -> tuple[str, ...]:
        """Roles that name queries, if queries have a separate table."""
        return tuple(role for role in self.roles if role in _QUERIES)


KINDS = {
    "triplets": Kind("triplets: anchor is closer to near than to far", ("anchor", "near", "far")),
    "quadruplets": Kind("quadruplets: a and b are closer to each other than c and d", ("a", "b", "c", "d")),
    "pairs": Kind("pairs: similar ones should be closer than dissimilar ones", ("a", "b", "sign")),
    "grades": Kind(
        "graded results: those with a larger grade should be closer to the query", ("query", "document", "grade")
    ),
    "clicks": Kind(
        "click log: what was clicked should be closer to the query than what was passed over above it",
        ("query", "position", "document", "clicked"),
    ),
    "rankings": Kind(
        "rankings: results in order of position should be in order of closeness to the query",
        ("query", "position", "document"),
    ),
}
_ROLES = tuple(dict.fromkeys(role for kind in KINDS.values() for role in (*kind.roles, *kind.optional)))


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
    roles, optional = KINDS[kind].roles, KINDS[kind].optional
    needed = f"{kind.capitalize()} need {', '.join(roles)}, and may have {', '.join(optional)}"
    for role in roles:
        if role not in columns:
            table.column(role, f"for {kind} called", f"{needed}, under these names or those given with {{names}}.")
    for role in names:
        if role not in (*roles, *optional):
            raise table.error(f"{kind} have no {role!r}, which", f"{{names}} gives. {needed}.")
    if max_per_query is not None and "query" not in roles:
        only = f"{{max_per_query}} is for grades, clicks and rankings; these are {kind}"
        raise table.error("", f"{only}, which have no {{max_per_query}}. Leave it out.")
    return kind, {role: columns[role] for role in (*roles, *optional) if role in columns}


def _only_kind(table: Table, found: Mapping[str, str]) -> str:
    # A list in order is what a click log is without its clicks, or with their column called something else: it is not
    # taken for one unless that is asked for.
    kinds = [name for name, kind in KINDS.items() if name != "rankings" and {*kind.roles} <= found.keys()]
    if len(kinds) == 1:
        return kinds[0]
    columns = f"the columns {listed(table.columns)}"
    if kinds:
        raise table.error(f"{columns} could be {listed(kinds)}.", "Say which ({kind}).")
    if {*KINDS["rankings"].roles} <= found.keys():
        clicks = "A click log needs one more column, clicked; another name of it is given ({names})."
        problem = f"{columns} are those of rankings, which are read only if that is said: kind 'rankings'"
        raise table.error(problem, f"({{kind}}). {clicks}")
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
    if width == len(KINDS[kind].points) == len(roles) - 1:
        roles = KINDS[kind].points  # the sign of pairs, the grade of results, in an array of its own
    if width != len(roles):
        raise table.error(f"{kind} need {len(roles)} columns, {', '.join(roles)}; the matrix has {width}.")
    table.name_columns(name, roles)
    return kind
