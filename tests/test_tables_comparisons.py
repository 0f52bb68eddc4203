"""Comparisons from files: what the builders give, by id; and what is wrong, by line."""

import csv
import gzip
import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostmetric import ComparisonBoostMetric, Comparisons
from boostmetric.tables import PointTable, TableError, read_comparisons, read_points

IDS = [f"p{number}" for number in range(10)]
POINTS = PointTable(
    np.random.default_rng(0).standard_normal((10, 3)), ids=np.array(IDS, dtype=object), source="points.csv"
)
UNNAMED = PointTable(POINTS.points, source="points.npy")
QUERIES = PointTable(
    np.random.default_rng(1).standard_normal((4, 3)),
    ids=np.array(["p0", "q1", "q2", "q3"], dtype=object),
    source="queries.csv",
)


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def equal(a, b):
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("pairs", "members", "bounds", "weights", "anchors")
    )


def write(name, columns):
    """A table of columns in the format of the name."""
    rows = list(zip(*columns.values(), strict=True))
    if ".csv" in name or ".tsv" in name:
        opener = gzip.open if name.endswith("gz") else open
        with opener(name, "wt", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter="\t" if "tsv" in name else ",").writerows([list(columns), *rows])
    elif "jsonl" in name:
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
        Path(name).write_bytes(
            gzip.compress("\n".join(lines).encode()) if name.endswith("gz") else "\n".join(lines).encode()
        )
    elif name.endswith("npz"):
        np.savez(name, **{column: np.array(values) for column, values in columns.items()})
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table(columns), name, row_group_size=2)
    return name


def complaint(path, points=POINTS, **options):
    with pytest.raises(TableError) as caught:
        read_comparisons(path, points, **options)
    return str(caught.value)


def named(numbers, ids=IDS):
    return [ids[number] for number in numbers]


TRIPLETS = np.array([[0, 1, 2], [0, 1, 3], [4, 5, 6], [0, 1, 2]])
QUADRUPLETS = np.array([[0, 1, 2, 3], [4, 5, 0, 6], [7, 8, 7, 9]])
PAIRS, SIGNS = np.array([[0, 1], [2, 3], [4, 5], [1, 6]]), np.array([1, -1, 1, -1])
QUERY, DOCUMENT, GRADE = [0, 0, 0, 1, 1], [2, 3, 4, 2, 5], [0, 2, 1, 1, 0]
WEIGHT = [0.5, 2.0, 1.0, 0.0, 4.0]
NO_QUERIES = np.arange(2, 10)

KINDS = {
    "triplets": (
        dict(zip(("anchor", "near", "far"), TRIPLETS.T, strict=True)),
        lambda w: Comparisons.from_triplets(TRIPLETS, w),
    ),
    "quadruplets": (
        dict(zip("abcd", QUADRUPLETS.T, strict=True)),
        lambda w: Comparisons.from_quadruplets(QUADRUPLETS, w),
    ),
    "pairs": (
        {"a": PAIRS[:, 0], "b": PAIRS[:, 1], "sign": SIGNS},
        lambda w: Comparisons.from_pairs(PAIRS[SIGNS == 1], PAIRS[SIGNS == -1]),
    ),
    "grades": (
        {"query": QUERY, "document": DOCUMENT, "grade": GRADE},
        lambda w: Comparisons.from_rankings(QUERY, DOCUMENT, GRADE, weights=w),
    ),
    "clicks": (
        {"query": QUERY, "position": [1, 2, 3, 1, 2], "document": DOCUMENT, "clicked": [0, 1, 1, 0, 1]},
        lambda w: Comparisons.from_clicks(
            QUERY, DOCUMENT, [1, 2, 3, 1, 2], [0, 1, 1, 0, 1], weights=w, corpus=NO_QUERIES
        ),
    ),
    "rankings": (
        {"query": QUERY, "position": [1, 2, 3, 1, 2], "document": DOCUMENT},
        lambda w: Comparisons.from_rankings(QUERY, DOCUMENT, weights=w),
    ),
    "positives": (
        {"query": QUERY, "document": DOCUMENT},
        lambda w: Comparisons.from_positives(QUERY, DOCUMENT, points=POINTS.points, weights=w, corpus=NO_QUERIES),
    ),
}
ID_ROLES = {"anchor", "near", "far", "a", "b", "c", "d", "query", "document"}
SUFFIXES = ["csv", "tsv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "npz"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("kind", "weighted"),
    [(kind, weighted) for kind in KINDS for weighted in (False, True) if (kind, weighted) != ("pairs", True)],
)
def test_every_kind_in_every_format(kind, suffix, weighted):
    columns, build = KINDS[kind]
    n = len(next(iter(columns.values())))
    weights = WEIGHT[:n] if weighted else None
    numbers = {name: np.asarray(values).tolist() for name, values in columns.items()}
    extra = {"weight": weights} if weighted else {}
    asked = kind if kind == "rankings" else None
    by_id = {name: named(values) if name in ID_ROLES else values for name, values in numbers.items()}
    table = read_comparisons(write(f"ids.{suffix}", {**by_id, **extra}), POINTS, kind=asked)
    assert table.kind == kind
    assert table.n_rows == n
    assert table.points is POINTS.points
    assert equal(table.comparisons, build(weights))
    by_row = read_comparisons(write(f"rows.{suffix}", {**numbers, **extra}), UNNAMED, kind=asked)
    assert equal(by_row.comparisons, build(weights))


@pytest.mark.parametrize("kind", KINDS)
def test_matrices(kind):
    columns, build = KINDS[kind]
    matrix = np.stack([np.asarray(values) for values in columns.values()], axis=1)
    np.save("m.npy", matrix)
    asked = None if kind in ("triplets", "quadruplets") else kind
    assert equal(read_comparisons("m.npy", UNNAMED, kind=asked).comparisons, build(None))
    np.savez("m.npz", **{kind: matrix, "other": np.eye(3)})
    assert equal(read_comparisons("m.npz", UNNAMED).comparisons, build(None))


def test_matrices_with_vectors_beside_them():
    np.savez("p.npz", pairs=PAIRS, sign=SIGNS)
    assert equal(read_comparisons("p.npz", UNNAMED).comparisons, KINDS["pairs"][1](None))
    np.savez("t.npz", triplets=TRIPLETS, weight=[1.0, 2.0, 3.0, 4.0])
    assert equal(read_comparisons("t.npz", UNNAMED).comparisons, Comparisons.from_triplets(TRIPLETS, [1, 2, 3, 4]))
    columns = dict(zip(("anchor", "near", "far"), TRIPLETS.T, strict=True))
    np.savez("c.npz", X=np.zeros((2, 3)), **columns)  # whose matrix is something else
    assert equal(read_comparisons("c.npz", UNNAMED).comparisons, Comparisons.from_triplets(TRIPLETS))
    whole = PointTable(POINTS.points, ids=np.arange(10) * 7)
    np.save("ids.npy", TRIPLETS * 7)
    assert equal(read_comparisons("ids.npy", whole).comparisons, Comparisons.from_triplets(TRIPLETS))


@pytest.mark.parametrize(
    "signs", [[1, -1], [1, 0], [True, False], ["similar", "Dissimilar"], ["+1", "-1"], ["1.0", "0.0"], [1.0, -1.0]]
)
def test_signs(signs):
    sign = [signs[0] if s == 1 else signs[1] for s in SIGNS]
    columns = {"a": named(PAIRS[:, 0]), "b": named(PAIRS[:, 1]), "sign": sign}
    for name in ("p.csv", "p.jsonl", "p.parquet"):
        assert equal(read_comparisons(write(name, columns), POINTS).comparisons, KINDS["pairs"][1](None))


def test_weighted_pairs_count_as_if_given_more_often():
    columns = {"a": named(PAIRS[:, 0]), "b": named(PAIRS[:, 1]), "sign": SIGNS.tolist()}
    weight = [2, 3, 1, 0]
    table = read_comparisons(write("p.csv", {**columns, "weight": weight}), POINTS)
    repeated = np.repeat(np.arange(4), weight)
    write("q.csv", {name: [values[i] for i in repeated] for name, values in columns.items()})
    plain = read_comparisons("q.csv", POINTS)
    assert table.comparisons.total_weight == plain.comparisons.total_weight == 9
    fits = [ComparisonBoostMetric(max_iter=5).fit(t.comparisons, points=t.points) for t in (table, plain)]
    assert np.allclose(*(fit.get_mahalanobis_matrix() for fit in fits))


def test_a_single_column_of_another_name():
    columns = {"q": named(QUERY), "sku": named(DOCUMENT), "stars": GRADE}
    names = {"query": "q", "document": "sku", "grade": "stars"}
    table = read_comparisons(write("g.csv", columns), POINTS, names=names)
    assert equal(table.comparisons, KINDS["grades"][1](None))
    assert "columns: q (query), sku (document), stars (grade)" in table.describe()
    other = {"anchor": named(TRIPLETS[:, 0]), "positive": named(TRIPLETS[:, 1]), "negative": named(TRIPLETS[:, 2])}
    assert equal(read_comparisons(write("t.csv", other), POINTS).comparisons, Comparisons.from_triplets(TRIPLETS))


def test_triplets_that_say_the_opposite_are_refused_on_request():
    rows = {"anchor": ["p0", "p0", "p1", "p0"], "near": ["p1", "p2", "p0", "p2"], "far": ["p2", "p3", "p2", "p1"]}
    assert complaint(write("t.csv", rows), contradictions="refuse") == (
        "t.csv, line 5: ('p0', 'p2', 'p1') says the opposite of t.csv, line 2. Remove one of each."
    )
    assert read_comparisons("t.csv", POINTS).comparisons.n_comparisons == 4
    answered = {**{name: column[:2] for name, column in rows.items()}, "answer": [1, -1]}
    answered["near"], answered["far"] = ["p1", "p1"], ["p2", "p2"]
    assert "says the opposite of" in complaint(write("a.csv", answered), contradictions="refuse")
    fine = {name: column[:3] for name, column in rows.items()}
    assert read_comparisons(write("f.csv", fine), POINTS, contradictions="refuse").comparisons.n_comparisons == 3


def test_clicks_grade_the_documents_that_were_looked_at():
    n = 40
    rows = {
        "session": np.repeat(np.arange(n), 3),
        "query": ["p0"] * 3 * n,
        "position": [1, 2, 3] * n,
        "document": ["p1", "p2", "p3"] * n,
        "clicked": [0, 1, 0] * n,
    }
    table = read_comparisons(write("c.csv", rows), POINTS, click_model="cascade")
    assert table.only_judged
    assert table.judgements[:, :2].tolist() == [[0, 1], [0, 2]]  # users left before the third document
    wrong, right = table.judgements[:, 2]
    assert wrong == 0.0
    assert 0.9 < right <= 1.0
    assert not read_comparisons(write("t.csv", {"anchor": ["p0"], "near": ["p1"], "far": ["p2"]}), POINTS).only_judged


def test_clicks_in_any_order_and_in_sessions():
    log = {
        "query": named([0, 0, 0, 0, 1, 1]),
        "session": ["s1", "s2", "s1", "s2", "s1", "s1"],
        "position": [2, 2, 1, 1, 10, 9],
        "document": named([3, 4, 2, 3, 3, 4]),
        "clicked": ["true", "true", "false", "false", "true", "false"],
    }
    table = read_comparisons(write("c.csv", log), POINTS)
    query, document, position, clicked = [0, 0, 0, 0, 1, 1], [3, 4, 2, 3, 3, 4], [2, 2, 1, 1, 10, 9], [1, 1, 0, 0, 1, 0]
    columns = {"sessions": [1, 2, 1, 2, 1, 1], "corpus": NO_QUERIES}
    expected = Comparisons.from_clicks(query, document, position, clicked, **columns)
    assert equal(table.comparisons, expected)
    assert "2 queries in 3 lists\n  3 clicks\n  propensities: by the position model" in table.describe()
    # A hundred times query 0 was clicked on document 3 and not on 4.
    asked = np.repeat([0, 1], [200, 2])
    lists = asked, np.tile([3, 4], 101), np.tile([1, 2], 101), np.append(np.tile([1, 0], 100), [1, 1])
    popular = dict(zip(("query", "document", "position", "clicked"), lists, strict=True))
    session, looked = np.arange(202) // 2, np.tile([1.0, 0.2], 101)
    named_log = {**popular, "query": named(asked), "document": named(lists[1])}
    file = write("p.csv", {**named_log, "session": session, "propensity": looked})
    for most in (None, 2):
        limited = Comparisons.from_clicks(
            *lists, sessions=session, propensities=looked, corpus=NO_QUERIES, max_per_query=most
        )
        assert equal(read_comparisons(file, POINTS, max_per_query=most).comparisons, limited)
    numbered = read_comparisons(write("d.csv", {**log, "session": [1, 2, 1, 2, 1, 1]}), POINTS)
    assert equal(numbered.comparisons, expected)
    reading = read_comparisons("c.csv", POINTS, click_model="dependent")
    assert equal(
        reading.comparisons, Comparisons.from_clicks(query, document, position, clicked, model="dependent", **columns)
    )
    chance = [0.5, 0.5, 1, 1, 0.25, 1]
    given_chance = read_comparisons(write("p.csv", {**log, "propensity": chance}), POINTS)
    assert equal(
        given_chance.comparisons,
        Comparisons.from_clicks(query, document, position, clicked, propensities=chance, **columns),
    )
    assert "propensities: given" in given_chance.describe()
    assert complaint("p.csv", click_model="cascade").endswith(
        "click_model is for clicks without propensities; these have their propensities. Leave it out."
    )
    assert complaint(write("p.csv", {**log, "propensity": [0.5, 0, 1, 1, 2, 1]})) == (
        "p.csv, line 3, column 'propensity': the propensity is 0\np.csv, line 6, column 'propensity': the propensity "
        "is 2\nA propensity is the chance that a result was looked at, above 0 and at most 1: correct these rows."
    )


def test_positives():
    rows = {"query": named([0, 1]), "document": named([2, 3])}
    build = Comparisons.from_positives
    expected = build([0, 1], [2, 3], points=POINTS.points, corpus=NO_QUERIES)
    table = read_comparisons(write("p.csv", rows), POINTS)
    assert (table.kind, equal(table.comparisons, expected)) == ("positives", True)
    assert "2 queries, 8 documents to search" in table.describe()
    graded = read_comparisons(write("g.csv", {**rows, "grade": [1, 1]}), POINTS)
    assert (graded.kind, equal(graded.comparisons, expected)) == ("positives", True)
    pairs = {"anchor": rows["query"], "positive": rows["document"]}
    assert equal(read_comparisons(write("a.csv", pairs), POINTS).comparisons, expected)
    both = PointTable(np.concatenate([QUERIES.points, POINTS.points]))
    table = read_comparisons(write("q.csv", {"query": ["p0", "q1"], "document": ["p0", "p1"]}), POINTS, queries=QUERIES)
    assert equal(table.comparisons, build([0, 1], [4, 5], points=both.points, corpus=np.arange(4, 14)))
    # One column more may be the grade: it is not passed over.
    assert complaint(write("s.csv", {**rows, "score": [0, 1]})) == (
        "s.csv: the columns 'query', 'document', 'score' hold positives, relevant documents alone, only if that is "
        "said: kind 'positives' (kind). Grades need one more column, grade; another name of it is given (names)."
    )
    assert equal(read_comparisons("s.csv", POINTS, kind="positives").comparisons, expected)
    assert complaint(write("i.csv", {**rows, "document": named([2, 1])})) == (
        "i.csv, line 3: the document 'p1' is the query itself, whose distance is always 0. Remove these rows."
    )
    assert "for grades, clicks and rankings; these are positives" in complaint("p.csv", max_per_query=3)


def test_lists_that_say_nothing_are_left_out():
    log = {"query": named([0, 0, 1, 1, 2]), "document": named([3, 4, 3, 4, 4])}
    graded = {**log, "grade": [0, 1, 1, 1, 1]}
    with pytest.warns(
        UserWarning, match=r"^g.csv: 2 of 3 lists give no comparison .* 'p1' \(g.csv, line 4\) has 2 results"
    ):
        table = read_comparisons(write("g.csv", graded), POINTS)
    assert equal(table.comparisons, Comparisons.from_rankings([0], [[4, 3]], [[1, 0]]))
    assert complaint(write("g.csv", {**graded, "grade": [2] * 5})) == (
        "g.csv: no list gives a comparison. The first, of query 'p0' (g.csv, line 2) has 2 results of the "
        "same grade. Add "
        "results of other grades."
    )
    clicks = {**log, "position": [1, 2, 1, 2, 1], "clicked": [0, 1, 0, 0, 1]}
    table = read_comparisons(write("c.csv", clicks), POINTS)
    assert "3 queries in 3 lists\n  2 clicks, 1 list without one" in table.describe()
    assert set(table.comparisons.anchors) == {0, 2, 4}  # a list of one result is compared with others
    assert complaint(write("c.csv", {**clicks, "clicked": [0] * 5})) == (
        "c.csv: nothing was clicked. Give rows that were clicked beside those that were not."
    )


def test_pairs_that_contradict_each_other_are_weighed():
    columns = {"a": named([0, 1, 0, 2, 4, 6]), "b": named([1, 0, 1, 3, 5, 7]), "sign": [1, -1, 1, 1, -1, -1]}
    table = read_comparisons(write("p.csv", columns), POINTS)
    assert equal(table.comparisons, Comparisons.from_pairs([[0, 1], [2, 3]], [[4, 5], [6, 7]]))
    assert "1 pair is both similar and dissimilar, which is weighed against each other" in table.describe()
    weights = [1, 5, 2, 1, 1, 1]  # 3 for, and 5 against (p0, p1)
    weighted = read_comparisons(write("w.csv", {**columns, "weight": weights}), POINTS).comparisons
    expected = [Comparisons.from_groups([[[2, 3]]], [[[0, 1]]], weights=[2])]
    expected.append(Comparisons.from_groups([[[2, 3]]], [[[4, 5], [6, 7]]], weights=[1]))
    assert sorted(zip(weighted.weights, weighted.side_sizes[1], strict=True)) == [(1, 2), (2, 1)]
    assert sorted(weighted.quadruplets()) == sorted(q for part in expected for q in part.quadruplets())
    with pytest.raises(ValueError, match="contradictions must be one of 'weigh', 'refuse'"):
        read_comparisons("w.csv", POINTS, contradictions="keep")


def test_documents_that_several_judges_graded():
    graded = {"query": named([0] * 5), "document": named([2, 3, 2, 4, 4]), "grade": [2, 1, 1, 0, 0]}
    table = read_comparisons(write("g.csv", graded), POINTS)
    expected = Comparisons.from_rankings([0] * 3, [2, 3, 4], [1.5, 1, 0], weights=[2, 1, 2])
    assert equal(table.comparisons, expected)
    assert "2 rows about a document that its query has already, merged" in table.describe()
    same = {name: values[1:] for name, values in graded.items()}  # two of p4, alike
    assert equal(
        read_comparisons(write("s.csv", same), POINTS, contradictions="refuse").comparisons,
        Comparisons.from_rankings([0] * 3, [2, 3, 4], [1, 1, 0], weights=[1, 1, 2]),
    )


@pytest.mark.parametrize(
    "answers", [["yes", "no", "tie"], [1, -1, 0], ["near", "far", "0"], ["true", "false", "Tie"]], ids=str
)
def test_answers_may_be_ties(answers):
    columns = {"anchor": named([0, 1, 2]), "near": named([3, 4, 5]), "far": named([6, 7, 8]), "answer": answers}
    table = read_comparisons(write("t.csv", columns), POINTS)
    assert equal(table.comparisons, Comparisons.from_triplets([[0, 3, 6], [1, 7, 4]]))
    assert "answers: 1 the other way round, 1 tie left out" in table.describe()
    four = {"a": named([0, 1, 2]), "b": named([3, 4, 5]), "c": named([0, 1, 9]), "d": named([6, 7, 8])}
    table = read_comparisons(write("q.csv", {**four, "answer": answers}), POINTS)
    assert equal(table.comparisons, Comparisons.from_quadruplets([[0, 3, 0, 6], [1, 7, 1, 4]]))
    assert complaint(write("t.csv", {**columns, "answer": ["tie"] * 3})).startswith("t.csv: all answers are ties")
    assert "'maybe' is not understood. An answer is 1" in complaint(
        write("t.csv", {**columns, "answer": ["1", "maybe", "1"]})
    )


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_queries_in_a_table_of_their_own(suffix):
    graded = {
        "query": ["q1", "q1", "p0", "p0"],
        "document": named([0, 1, 0, 2]),  # p0 is the name of a query and of a document
        "grade": [1, 0, 0, 1],
    }
    table = read_comparisons(write(f"g.{suffix}", graded), POINTS, queries=QUERIES)
    assert np.array_equal(table.points, np.concatenate([QUERIES.points, POINTS.points]))
    assert table.n_queries == 4
    assert equal(table.comparisons, Comparisons.from_rankings([0, 1], [[4, 6], [4, 5]], [[0, 1], [1, 0]]))
    assert "points: query in queries.csv, by id; others in points.csv, by id" in table.describe()
    triplets = {"anchor": ["p0"], "near": ["p0"], "far": ["p1"]}
    table = read_comparisons(write(f"t.{suffix}", triplets), POINTS, queries=QUERIES)
    assert equal(table.comparisons, Comparisons.from_triplets([[0, 4, 5]]))
    quadruplets = {"a": ["p0"], "b": ["p0"], "c": ["q1"], "d": ["p1"]}
    table = read_comparisons(write(f"q.{suffix}", quadruplets), POINTS, queries=QUERIES)
    assert equal(table.comparisons, Comparisons.from_quadruplets([[0, 4, 1, 5]]))
    pairs = {"a": ["p0", "q3"], "b": ["p0", "p1"], "sign": [1, -1]}
    table = read_comparisons(write(f"p.{suffix}", pairs), POINTS, queries=QUERIES)
    assert equal(table.comparisons, Comparisons.from_pairs([[0, 4]], [[3, 5]]))
    assert complaint(write("g.csv", {**graded, "document": ["q1", "p1", "p2", "p3"]}), queries=QUERIES).startswith(
        "g.csv, line 2, column 'document': 'q1' is not an id of points.csv"
    )
    rows = PointTable(QUERIES.points, source="queries.npy")
    table = read_comparisons(write("r.csv", {**graded, "query": [1, 1, 0, 0]}), POINTS, queries=rows)
    assert equal(table.comparisons, Comparisons.from_rankings([0, 1], [[4, 6], [4, 5]], [[0, 1], [1, 0]]))


def test_tables_that_do_not_go_together():
    path = write("t.csv", {"anchor": ["p0"], "near": ["p1"], "far": ["p2"]})
    assert complaint(path, queries=PointTable(np.eye(2), source="queries.csv")) == (
        "queries.csv has 2 features, points.csv has 3. Queries and documents must have the same features."
    )
    a, b = (PointTable(np.eye(2), feature_names=names, source="x.csv") for names in (["f", "g"], ["g", "f"]))
    assert "the same features in different orders" in complaint(path, points=a, queries=b)


def test_shards_of_comparisons():
    columns = {"anchor": named(TRIPLETS[:, 0]), "near": named(TRIPLETS[:, 1]), "far": named(TRIPLETS[:, 2])}
    for part in range(4):
        write(
            f"t-{part}.{['csv', 'jsonl', 'parquet', 'tsv'][part]}",
            {name: v[part : part + 1] for name, v in columns.items()},
        )
    table = read_comparisons("t-*", POINTS)
    assert equal(table.comparisons, Comparisons.from_triplets(TRIPLETS))
    assert table.describe().startswith("t-0.csv and 3 more files: CSV, JSON lines, Parquet, TSV, 4 rows")


def test_description():
    columns = {"anchor": named(TRIPLETS[:, 0]), "near": named(TRIPLETS[:, 1]), "far": named(TRIPLETS[:, 2])}
    table = read_comparisons(write("t.csv", {**columns, "weight": WEIGHT[:4]}), POINTS)
    assert table.describe() == (
        "t.csv: CSV, 4 rows\n"
        "  triplets: anchor is closer to near than to far\n"
        "  columns: anchor, near, far, weight\n"
        "  points: points.csv, by id\n"
        "  weights: 0 to 2\n"
        "  3 comparisons of 5 pairs in 3 groups"
    )
    assert (
        "2 similar pairs, 2 dissimilar"
        in read_comparisons(
            write("p.csv", {"a": named(PAIRS[:, 0]), "b": named(PAIRS[:, 1]), "sign": SIGNS}), POINTS
        ).describe()
    )
    assert (
        "2 queries in 2 lists"
        in read_comparisons(
            write("g.csv", {"query": named(QUERY), "document": named(DOCUMENT), "grade": GRADE}), POINTS
        ).describe()
    )


def triplet(**columns):
    return {"anchor": ["p0", "p1"], "near": ["p1", "p2"], "far": ["p2", "p3"], **columns}


def test_unknown_ids():
    assert complaint(write("t.csv", triplet(near=["p1", " p1"]))) == (
        "t.csv, line 3, column 'near': ' p1' is not an id of points.csv (is 'p1' meant?). Add these points "
        "to points.csv, or "
        "remove these rows."
    )
    assert complaint(write("t.parquet", triplet(near=["p1", "sofa"]))) == (
        "t.parquet, row 1 (counted from 0), column 'near': 'sofa' is not an id of points.csv. Add these "
        "points to points.csv, "
        "or remove these rows."
    )
    assert complaint(write("t.jsonl", triplet(far=["P2", "x"]))) == (
        "t.jsonl, line 1, column 'far': 'P2' is not an id of points.csv (is 'p2' meant?)\n"
        "t.jsonl, line 2, column 'far': 'x' is not an id of points.csv\n"
        "None of column 'far' is. The ids of points.csv are text, such as 'p0', 'p1', 'p2'. Check that the "
        "files belong "
        "together, and the names of the columns."
    )
    assert complaint(write("t.csv", triplet(anchor=["q1", "q2"]))).endswith(
        "Check that the files belong together, and the names of the columns; queries may have a file of their own "
        "(queries)."
    )
    many = {"anchor": ["p0"] * 100, "near": ["p1"] + [f"sofa {i}" for i in range(99)], "far": ["p2"] * 100}
    text = complaint(write("t.csv", many))
    assert text.startswith("t.csv, line 3, column 'near': 'sofa 0' is not an id of points.csv\n")
    assert "\n... and 94 more like these\n" in text


def test_ids_of_another_type():
    whole = PointTable(POINTS.points, ids=np.arange(10), source="points.parquet")
    texts = write("t.jsonl", {"anchor": ["0"], "near": ["1"], "far": ["2"]})
    assert equal(read_comparisons(texts, whole).comparisons, Comparisons.from_triplets([[0, 1, 2]]))
    text = PointTable(POINTS.points, ids=np.array(list("0123456789"), dtype=object), source="points.jsonl")
    numbers = write("t.parquet", {"anchor": [0], "near": [1], "far": [2]})
    assert equal(read_comparisons(numbers, text).comparisons, Comparisons.from_triplets([[0, 1, 2]]))
    names = write("t.jsonl", {"anchor": ["a"], "near": ["b"], "far": ["c"]})
    assert "The ids of points.parquet are whole numbers, such as 0, 1, 2." in complaint(names, points=whole)
    floats = write("t.parquet", {"anchor": [0.0], "near": [1.0], "far": [2.0]})
    assert complaint(floats, points=whole).startswith(
        "t.parquet, row 0 (counted from 0), column 'anchor': 0.0 cannot be an id\n"
    )


def test_rows_in_place_of_ids():
    remedy = "Points without ids go by row, counted from 0. If these are ids, name the points' column of ids (id)."
    assert complaint(write("t.csv", {"anchor": [0, 1], "near": [1, 10], "far": [2, -1]}), points=UNNAMED) == (
        f"t.csv, line 3, column 'near': 10 is not a row of points.npy, which has rows 0 to 9\n"
        f"t.csv, line 3, column 'far': -1 is not a row of points.npy, which has rows 0 to 9\n{remedy}"
    )
    assert complaint(write("t.csv", triplet()), points=UNNAMED).startswith(
        "t.csv, line 2, column 'anchor': 'p0' is not a row of points.npy, which has rows 0 to 9\n"
    )


def test_missing_and_odd_values():
    fill = "Fill in what is missing, or remove these rows."
    assert complaint(write("t.csv", triplet(near=["p1", ""]))) == f"t.csv, line 3, column 'near': no id. {fill}"
    assert complaint(write("t.csv", triplet(weight=["1", "x"]))).startswith(
        "t.csv, line 3, column 'weight': 'x' is not a"
    )
    assert complaint(write("t.csv", triplet(weight=["1", "nan"]))).startswith(
        "t.csv, line 3, column 'weight': nan is not"
    )
    assert complaint(write("t.csv", triplet(weight=[1, -1]))) == (
        "t.csv, line 3, column 'weight': the weight is -1. Weights are at least 0: correct these rows. 0 "
        "leaves a row out."
    )
    assert complaint(write("t.csv", triplet(weight=[0, 0]))).startswith("t.csv: all weights are 0")
    assert complaint(write("t.csv", triplet(weight=[1, 1e200]))).startswith("t.csv: weights[1] is 1e+200")
    pairs = {"a": ["p0", "p1"], "b": ["p1", "p2"]}
    mark = "Similar pairs are marked by 1, true or similar, dissimilar ones by -1, 0, false or dissimilar."
    assert complaint(write("p.csv", {**pairs, "sign": ["1", "2"]})) == (
        f"p.csv, line 3, column 'sign': '2' is not understood. {mark}"
    )
    assert complaint(write("p.jsonl", {**pairs, "sign": [1, [0]]})) == (
        f"p.jsonl, line 2, column 'sign': [0] is not understood. {mark}"
    )
    assert complaint(write("p.csv", {**pairs, "sign": ["1", ""]})) == f"p.csv, line 3, column 'sign': no value. {fill}"
    clicks = {"query": ["p0", "p0"], "position": [1, 2], "document": ["p1", "p2"], "clicked": [0, -1]}
    assert complaint(write("c.csv", clicks)) == (
        "c.csv, line 3, column 'clicked': '-1' is not understood. What was clicked is marked by 1 or true, what was "
        "not by 0 or "
        "false."
    )
    assert "column 'position': 'top' is not a number" in complaint(write("c.csv", {**clicks, "position": ["top", 2]}))


def test_rows_that_compare_nothing():
    assert complaint(write("t.csv", triplet(near=["p1", "p1"]))) == (
        "t.csv, line 3: ('p1', 'p1', 'p3') are not three different points. Remove these rows."
    )
    np.save("t.npy", [[0, 0, 1]])
    assert "(row 0, row 0, row 1) are not three different points" in complaint("t.npy", points=UNNAMED)
    assert "... and 95 more like these" in complaint(write("t.csv", {role: ["p1"] * 100 for role in triplet()}))
    quadruplet = {"a": ["p0", "p0"], "b": ["p1", "p1"], "c": ["p1", "p2"], "d": ["p0", "p2"]}
    assert complaint(write("q.csv", quadruplet)) == (
        "q.csv, line 3: in ('p0', 'p1', 'p2', 'p2') a point is paired with itself. Remove these rows."
    )
    assert complaint(write("q.csv", {**quadruplet, "d": ["p0", "p3"]})) == (
        "q.csv, line 2: in ('p0', 'p1', 'p1', 'p0') a pair is compared with itself. Remove these rows."
    )
    pairs = {"a": ["p0", "p1", "p1"], "b": ["p1", "p2", "p0"], "sign": [1, 1, -1]}
    assert complaint(write("p.csv", pairs), contradictions="refuse") == (
        "p.csv, line 4: ('p1', 'p0') is dissimilar here and similar in p.csv, line 2. Remove one of each."
    )
    assert complaint(write("p.csv", {**pairs, "sign": [1, 1, 1]})).startswith("p.csv: no pair is dissimilar.")
    assert complaint(write("p.csv", {**pairs, "b": ["p1", "p1", "p3"]})) == (
        "p.csv, line 3: ('p1', 'p1') is one point. Remove these rows."
    )
    three = {"a": ["p0", "p1", "p2"], "b": ["p1", "p2", "p3"], "sign": [1, 0, -1]}
    assert complaint(write("p.csv", three)) == (
        "p.csv, line 3, column 'sign': 0, but elsewhere dissimilar pairs are marked by -1. Use one of them for all."
    )
    assert "the weights of all pairs of one kind are 0" in complaint(
        write("p.csv", {**three, "sign": [1, 1, 0], "weight": [1, 1, 0]})
    )
    many = {"a": ["p0"] * 300, "b": ["p1"] * 150 + ["p2"] * 150, "sign": [1] * 150 + [0] * 150, "weight": range(300)}
    assert "149 different weights of similar pairs and 150 of dissimilar ones" in complaint(write("p.csv", many))


def test_lists_that_are_wrong():
    graded = {"query": ["p0"] * 3, "document": ["p1", "p2", "p1"], "grade": [1, 0, 0]}
    assert complaint(write("g.csv", graded), contradictions="refuse") == (
        "g.csv, line 4: query 'p0' has document 'p1' here and in g.csv, line 2. Keep one of each: remove the others."
    )
    assert complaint(write("g.csv", {**graded, "document": ["p1", "p0", "p2"]})) == (
        "g.csv, line 3: the result 'p0' is the query itself, whose distance is always 0. Remove these rows."
    )
    long = {"query": ["p0"] * 9, "document": ["p1"] * 9, "grade": range(9)}
    write("g.csv", long)
    said = complaint("g.csv", contradictions="refuse")
    assert "line 3: query 'p0' has document 'p1' here and in g.csv, line 2\n" in said
    assert "... and 3 more like these" in said
    clicks = {"query": ["p0"] * 3, "position": [1, 2, 1], "document": ["p1", "p2", "p3"], "clicked": [1, 0, 0]}
    assert complaint(write("c.csv", clicks)) == (
        "c.csv, line 4: query 'p0' has position 1 here and in c.csv, line 2. If these are several occasions, "
        "add a column "
        "that tells them apart (session); else keep one of each."
    )


def test_kinds_that_cannot_be_told():
    assert complaint(write("x.csv", {"left": ["p0"], "right": ["p1"]})).startswith(
        "x.csv: the columns 'left', 'right' are not those of any kind of comparisons. There are: triplets "
        "(anchor, near, far);"
    )
    both = {"query": ["p0"], "document": ["p1"], "grade": [1], "position": [1], "clicked": [1]}
    assert complaint(write("x.csv", both)).endswith("could be 'grades', 'clicks'. Say which (kind).")
    assert complaint(write("x.csv", {"anchor": ["p0"], "near": ["p1"], "Far": ["p2"]}), kind="triplets") == (
        "x.csv: there is no column for triplets called 'far'. Did you mean 'Far'? It has 'anchor', 'near', "
        "'Far'. Triplets "
        "need anchor, near, far, and may have answer, weight, under these names or those given with names."
    )
    rankings = write("x.csv", {"query": ["p0"], "position": [1], "document": ["p1"], "clck": [1]})
    assert complaint(rankings) == (  # not taken for lists in order
        "x.csv: the columns 'query', 'position', 'document', 'clck' are those of rankings, which are read only if that "
        "is said: kind 'rankings' (kind). A click log needs one more column, clicked; another name of it is given "
        "(names)."
    )
    twice = write("x.csv", {"anchor": ["p0"], "near": ["p1"], "positive": ["p1"], "far": ["p2"]})
    assert "'near', 'positive' could all be the near" in complaint(twice)
    path = write("t.csv", triplet())
    assert complaint(path, names={"near": "nah"}).startswith("t.csv: there is no column for near called 'nah'.")
    assert complaint(path, names={"grade": "far"}, kind="triplets").startswith("t.csv: triplets have no 'grade'")
    assert complaint(path, max_per_query=3).startswith("t.csv: max_per_query is for grades, clicks and rankings")
    with pytest.raises(ValueError, match="kind must be one of 'triplets'"):
        read_comparisons(path, POINTS, kind="triples")
    with pytest.raises(ValueError, match="A role in names must be one of 'anchor'"):
        read_comparisons(path, POINTS, names={"ankor": "x"})
    np.save("m.npy", PAIRS)
    assert "2 columns in a matrix say nothing about the kind" in complaint("m.npy", points=UNNAMED)
    assert complaint("m.npy", points=UNNAMED, kind="triplets") == (
        "m.npy: triplets need 3 columns, anchor, near, far; the matrix has 2."
    )
    np.save("v.npy", np.arange(3))
    assert "there is no matrix of numbers" in complaint("v.npy", points=UNNAMED)
    np.savez("m.npz", a=PAIRS, b=PAIRS)
    assert "there are several matrices ('a', 'b')" in complaint("m.npz", points=UNNAMED)
    np.save("f.npy", TRIPLETS + 0.5)
    assert "column 'anchor': 0.5 cannot be an id" in complaint("f.npy", points=UNNAMED)


@given(
    ids=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=3, max_size=8, unique=True),
    data=st.data(),
)
def test_comparisons_by_any_ids(ids, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ids")
    triplets = data.draw(st.lists(st.permutations(range(len(ids))).map(lambda p: p[:3]), min_size=1, max_size=5))
    points = {"sku": ids, "f": [0.5] * len(ids)}
    columns = {name: [ids[t[c]] for t in triplets] for c, name in enumerate(("anchor", "near", "far"))}
    for suffix in ("csv", "jsonl", "parquet"):
        table = read_points(write(str(folder / f"p.{suffix}"), points), id="sku")
        for other in ("csv", "jsonl", "parquet"):
            read = read_comparisons(write(str(folder / f"t.{other}"), columns), table)
            assert equal(read.comparisons, Comparisons.from_triplets(triplets))


@pytest.mark.parametrize("text", [False, True], ids=["whole numbers", "text"])
def test_a_million_ids(text):
    """Some seconds at most; a search through all ids for each of them would take days."""
    n = 1_000_000
    ids = np.array([f"sku-{number}" for number in range(n)], dtype=object) if text else np.arange(n) * 3
    table = PointTable(np.zeros((n, 1)), ids=ids)
    wanted = np.random.default_rng(0).permutation(n)
    given_ids = ids[wanted].tolist()
    start = time.perf_counter()
    found = table.find(given_ids)
    assert time.perf_counter() - start < 15  # about one on an idle core
    assert np.array_equal(found, wanted)
