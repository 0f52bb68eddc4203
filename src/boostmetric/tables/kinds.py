"""The kinds of comparisons that files hold, and how a file's columns tell which one it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from boostmetric.arrays.validation import check_choice
from boostmetric.tables.arrays import ArrayTable, MatrixTable
from boostmetric.tables.complaints import TableError, listed, missing_column
from boostmetric.tables.reading import Table


@dataclass(frozen=True)
class Kind:
    """What the rows of a file say.

    Attributes
    ----------
    title : str
        For people.
    roles : tuple of str
        What its columns are, in the order of the columns of a matrix.
    points : tuple of str
        The roles that name points.
    queries : tuple of str
        Those of them that name queries, where queries have a table of their own.
    optional : tuple of str
        Roles that may be missing, besides the weight.
    """

    title: str
    roles: tuple[str, ...]
    points: tuple[str, ...]
    queries: tuple[str, ...]
    optional: tuple[str, ...] = ()


KINDS = {
    "triplets": Kind(
        "triplets: anchor is closer to near than to far",
        ("anchor", "near", "far"),
        points=("anchor", "near", "far"),
        queries=("anchor",),
    ),
    "quadruplets": Kind(
        "quadruplets: a and b are closer to each other than c and d",
        ("a", "b", "c", "d"),
        points=("a", "b", "c", "d"),
        queries=("a", "c"),
    ),
    "pairs": Kind(
        "pairs: similar ones should be closer than dissimilar ones",
        ("a", "b", "sign"),
        points=("a", "b"),
        queries=("a",),
    ),
    "grades": Kind(
        "graded results: those with a larger grade should be closer to the query",
        ("query", "document", "grade"),
        points=("query", "document"),
        queries=("query",),
    ),
    "clicks": Kind(
        "click log: what was clicked should be closer to the query than what was passed over above it",
        ("query", "position", "document", "clicked"),
        points=("query", "document"),
        queries=("query",),
        optional=("session",),
    ),
    "rankings": Kind(
        "rankings: results in order of position should be in order of closeness to the query",
        ("query", "position", "document"),
        points=("query", "document"),
        queries=("query",),
        optional=("session",),
    ),
}
# Roles whose columns often have another name.
_OTHER_NAMES = {
    "near": ("positive",),
    "far": ("negative",),
    "document": ("doc", "item"),
    "grade": ("relevance",),
    "clicked": ("click",),
}


def recognise(table: Table, kind: str | None, names: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The kind of comparisons in a table, and the column of each role.

    Parameters
    ----------
    table : Table
    kind : str, optional
        If it is known.
    names : mapping of str to str
        Columns of roles that do not have the usual names.
    """
    roles = dict.fromkeys(role for known in KINDS.values() for role in (*known.roles, *known.optional, "weight"))
    for role in names:
        check_choice("A role in names", role, roles)
    found = {role: _column(table, role, names) for role in roles}
    if kind is None:
        kind = _only_kind(table, {role for role, column in found.items() if column is not None})
    known = KINDS[kind]
    for role in known.roles:
        if found[role] is None:
            raise missing_column(
                str(table.path),
                f"column for {kind} called",
                role,
                list(table.columns),
                f" {_needed(kind)}, under these names or those given with names.",
            )
    for role in names:
        if role not in (*known.roles, *known.optional, "weight"):
            raise TableError(f"{table.path}: {kind} have no {role!r}, which names gives. {_needed(kind)}.")
    used = (*known.roles, *known.optional, "weight")
    return kind, {role: column for role in used if (column := found[role]) is not None}


def _column(table: Table, role: str, names: Mapping[str, str]) -> str | None:
    if role in names:
        return table.column(names[role], f"for {role} called").name
    there = [name for name in (role, *_OTHER_NAMES.get(role, ())) if name in table.columns]
    if len(there) > 1:
        raise TableError(
            f"{table.path}: {listed(there)} could all be the {role}. Say which with names={{{role!r}: ...}}."
        )
    return there[0] if there else None


def _only_kind(table: Table, found: set[str]) -> str:
    # A list in order is what a click log is without its clicks, or with their column called something else: it is not
    # taken for one unless that is asked for.
    kinds = [name for name, kind in KINDS.items() if name != "rankings" and found.issuperset(kind.roles)]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise TableError(
            f"{table.path}: the columns {listed(table.columns)} could be {listed(kinds)}. Say which (kind)."
        )
    if found.issuperset(KINDS["rankings"].roles):
        raise TableError(
            f"{table.path}: the columns {listed(table.columns)} are those of rankings, which are read only if that is "
            "said: kind 'rankings' (kind). A click log needs one more column, clicked; another name of it is given "
            "(names)."
        )
    needs = "; ".join(f"{name} ({', '.join(kind.roles)})" for name, kind in KINDS.items())
    raise TableError(
        f"{table.path}: the columns {listed(table.columns)} are not those of any kind of comparisons. There are: "
        f"{needs}. Rename the columns, or give their names (names) and the kind."
    )


def _needed(kind: str) -> str:
    known = KINDS[kind]
    return f"{kind.capitalize()} need {', '.join(known.roles)}, and may have {', '.join((*known.optional, 'weight'))}"


def with_named_columns(table: Table, kind: str | None, names: Mapping[str, str]) -> tuple[Table, str | None]:
    """A matrix in npy or npz as a table whose columns are the roles of its kind, and that kind; others as they are."""
    if not isinstance(table, ArrayTable):
        return table, kind
    matrices = [name for name, column in table.columns.items() if column.kind == "list"]
    vectors = {name for name, column in table.columns.items() if column.kind != "list"}
    has_columns = names or any(vectors.issuperset(known.roles) for known in KINDS.values())
    if table.format == "npz" and (has_columns or not matrices):
        return table, kind
    called = [name for name in matrices if name in KINDS and kind in (None, name)]
    if len(called) != 1 and len(matrices) != 1:
        which = f"there are several matrices ({listed(matrices)})" if matrices else "there is no matrix of numbers"
        raise TableError(
            f"{table.path}: {which}. Comparisons are one array of shape (rows, columns), called after the "
            f"kind in npz: {listed(KINDS)}."
        )
    name = called[0] if len(called) == 1 else matrices[0]
    width = table.shapes[name][0][1]
    if kind is None:
        kind = name if name in KINDS else {3: "triplets", 4: "quadruplets"}.get(width)
    if kind is None:
        raise TableError(
            f"{table.path}: {width} columns in a matrix say nothing about the kind of comparisons. Say it (kind)."
        )
    roles = KINDS[kind].roles
    if width == len(KINDS[kind].points) == len(roles) - 1:
        roles = KINDS[kind].points  # the sign of pairs, the grade of results, in an array of its own
    if width != len(roles):
        raise TableError(f"{table.path}: {kind} need {len(roles)} columns, {', '.join(roles)}; the matrix has {width}.")
    return MatrixTable(table, name, roles), kind
