"""Files that go together although their columns differ, standard input, and arrays beside arrays."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from boostmetric import MahalanobisMetric
from boostmetric.cli import app
from boostmetric.tables import ComparisonFiles, TableError, read_points

QUICK = ["--setting", "paper", "--max-iter", "3"]


def run(*arguments, code=0, given=None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=given)
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def message(result):
    """As one line: typer's errors come in a box."""
    return " ".join(result.stderr.replace("│", " ").split())


def lines(first, n, **more):
    """JSON lines of points of two classes."""
    rng = np.random.default_rng(first)
    rows = []
    for i in range(first, first + n):
        vector = [float(i % 2 + rng.normal() / 2), float(rng.normal())]
        rows.append({"id": f"p{i}", "kind": "ab"[i % 2], "v": vector} | {name: f"{name} {i}" for name in more})
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.jsonl").write_text(lines(0, 40, text=1))
    (tmp_path / "others.jsonl").write_text(lines(100, 40, note=1))
    (tmp_path / "triplets.csv").write_text(
        "anchor,near,far\n" + "".join(f"p{i},p{100 + i},p{101 + i}\n" for i in range(39))
    )
    MahalanobisMetric([[2.0, 0.0], [0.0, 0.5]]).save("model.st")
    return tmp_path


COLUMNS = ["--id", "id", "--label", "kind", "--ignore", "text,no*"]
UNLABELLED = ["--id", "id", "--ignore", "text,kind,note"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "points.jsonl", "--validation", "others.jsonl", *COLUMNS, *QUICK, "-o", "new.st"],
        ["evaluate", "model.st", "points.jsonl", "--reference", "others.jsonl", *COLUMNS],
        ["report", "model.st", "points.jsonl", "--reference", "others.jsonl", *COLUMNS, "-o", "page.html"],
        ["watch", "model.st", "points.jsonl", "--reference", "others.jsonl", "--tolerance", "1", *COLUMNS],
        ["search", "model.st", "points.jsonl", "--queries", "others.jsonl", *UNLABELLED],
        ["mine", "points.jsonl", "--documents", "others.jsonl", "--positives", "pairs.csv", *UNLABELLED, "-o", "t.csv"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_columns_to_ignore_may_be_in_one_of_two_files(here, arguments):
    for name in ("points", "others"):  # numbers in columns, so that what is left would be a feature or refused
        rows = list(map(json.loads, (here / f"{name}.jsonl").read_text().splitlines()))
        (here / f"{name}.jsonl").write_text(
            "".join(
                json.dumps({k: v for k, v in row.items() if k != "v"} | dict(zip("xy", row["v"], strict=True))) + "\n"
                for row in rows
            )
        )
    (here / "pairs.csv").write_text("query,document\np0,p100\np1,p101\n")
    run(*arguments)
    said = message(run(*arguments, "--ignore", "noise", *(["--force"] if "-o" in arguments else []), code=2))
    assert ".jsonl: there is no column to ignore 'noise'" in said


def test_columns_to_ignore_may_be_in_some_files_of_a_table(here):
    both = ["points.jsonl", "others.jsonl"]
    with pytest.raises(TableError, match="there is no column to ignore 'notes'"):
        read_points(both, id="id", label="kind", ignore=["text", "notes"])
    assert len(read_points(both, id="id", label="kind", ignore=["text", "note"])) == 80


def test_files_for_a_cluster_may_have_different_columns(here):
    files = ComparisonFiles(
        "others.jsonl", "triplets.csv", id="id", ignore=["kind", "text", "note"], queries="points.jsonl"
    )
    points, comparisons = files.read()
    assert (len(points), comparisons.n_comparisons) == (80, 39)
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name in ("points", "others"):
        rows = list(map(json.loads, (here / f"{name}.jsonl").read_text().splitlines()))
        pq.write_table(pa.table({key: [row[key] for row in rows] for key in rows[0]}), f"{name}.parquet")
    rows = [line.split(",") for line in (here / "triplets.csv").read_text().split()]
    pq.write_table(pa.table({name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}), "triplets.parquet")
    shared = ComparisonFiles(
        "others.parquet", "triplets.parquet", id="id", ignore=["kind", "text", "note"], queries="points.parquet"
    ).opened()
    assert shared.n_features == 2
    assert "features: the vector in column 'v'" in shared.describe()


def test_points_come_from_standard_input(here):
    given = lines(0, 40)
    fitted = run("fit", "-", "--id", "id", "--label", "kind", *QUICK, "-o", "new.st", given=given)
    assert "standard input: JSON lines, 40 points with 2 features" in fitted.stderr
    (here / "same.jsonl").write_text(given)
    run("fit", "same.jsonl", "--id", "id", "--label", "kind", *QUICK, "-o", "same.st")
    new, same = MahalanobisMetric.load("new.st"), MahalanobisMetric.load("same.st")
    np.testing.assert_array_equal(new.components, same.components)
    (record,), (other,) = (metric.about["origin"]["files"] for metric in (new, same))
    assert record == other | {"name": "standard input"}

    done = run("transform", "new.st", "-", "--id", "id", "--ignore", "kind", "-o", "out.npz", given=given)
    assert "Points: 40 of 40" in done.stderr
    asked = ["--queries", "-", "--id", "id", "--ignore", "kind,text", "-k", "1", "--json"]
    found = json.loads(run("search", "new.st", "points.jsonl", *asked, given=lines(0, 3)).stdout)
    assert [hit["id"] for hit in found["hits"]] == ["p0", "p1", "p2"]
    tested = json.loads(run("evaluate", "new.st", "-", *COLUMNS[:4], "--json", given=given).stdout)
    assert tested["n_asked"] == 40


def test_errors_in_standard_input_have_its_name(here):
    broken = lines(0, 3) + '{"id": 1'
    transform = ["transform", "model.st", "-", "--ignore", "id,kind", "-o", "out.npz"]
    assert "Error: standard input, line 4: not JSON" in message(run(*transform, code=1, given=broken))
    assert "Error: standard input: the file is empty." in message(run(*transform, code=1, given=""))
    said = message(run(*transform, "--vector", "w", code=2, given=lines(0, 3)))
    assert "Error: standard input: there is no column of vectors 'w'" in said


@pytest.mark.parametrize("where", [[], ["--base"], ["--backend", "exact"], ["--index", "made.st"]])
def test_search_shows_texts_beside_ids(here, where):
    arguments = ["search", "model.st", "points.jsonl", "--queries", "asked.jsonl", "--ignore", "kind", "-k", "2", "-q"]
    (here / "asked.jsonl").write_text(lines(0, 2, text=1))
    for columns in (["--ignore", "id"], ["--id", "id"]):
        (here / "made.st").unlink(missing_ok=True)
        found = json.loads(run(*arguments, *where, *columns, "--text", "text", "--json").stdout)["hits"]
        assert [hit["query_text"] for hit in found] == ["text 0", "text 0", "text 1", "text 1"]
        assert found[0]["text"] == "text 0"
        for hit in found:
            for base in ("", "base_") if where == ["--base"] else ("",):
                assert hit[f"{base}text"].split()[1] == str(hit[f"{base}id"]).removeprefix("p")
    printed = run(*arguments, *where, "--id", "id", "--text", "text").stdout
    assert printed.splitlines()[0].split()[:5] == ["query", "query_text", "rank", "id", "text"]
    assert printed.count("\n\n") == 1  # between the queries


def test_texts_may_be_in_one_file_only(here):
    asked = ["--queries", "others.jsonl", *UNLABELLED[:2], "--ignore", "kind,note", "-k", "1", "--json"]
    (hit, *_) = json.loads(run("search", "model.st", "points.jsonl", *asked, "--text", "text").stdout)["hits"]
    assert hit["text"].startswith("text ")
    assert "query_text" not in hit
    said = message(run("search", "model.st", "points.jsonl", *asked, "--text", "words", code=2))
    assert "there is no column 'words'" in said
    long = json.dumps({"id": "p", "v": [0.0, 0.0], "text": "so " * 50}) + "\n"
    printed = run("search", "model.st", "-", "--queries", "-", "--id", "id", "--text", "text", "-k", "1", given=long)
    assert printed.stdout.count("so so so…") == 2


def test_labels_beside_an_array_are_in_a_file_of_their_own(here):
    table = read_points("points.jsonl", id="id", label="kind", ignore="text")
    np.save("X.npy", table.points[:30])
    np.save("y.npy", np.asarray(table.labels[:30], dtype=str))
    np.save("ids.npy", np.asarray(table.ids[:30], dtype=str))
    np.save("X_test.npy", table.points[30:])
    np.save("y_test.npy", np.asarray(table.labels[30:], dtype=str))
    read = read_points("X.npy", id="ids.npy", label="y.npy")
    np.testing.assert_array_equal(read.points, table.points[:30])
    assert read.labels.tolist() == table.labels[:30].tolist()
    assert read.ids.tolist() == table.ids[:30].tolist()

    said = run("fit", "X.npy", "--label", "y.npy", *QUICK, "-o", "new.st").stdout
    assert "evaluate new.st TEST_POINTS --label TEST_LABELS.npy,y.npy --reference X.npy\n" in said
    files = MahalanobisMetric.load("new.st").about["origin"]["files"]
    assert [(record["name"], record["role"]) for record in files] == [("X.npy", "points"), ("y.npy", "labels")]
    tested = ["evaluate", "new.st", "X_test.npy", "--label", "y_test.npy,y.npy", "--reference", "X.npy", "-k", "3"]
    assert json.loads(run(*tested, "--json").stdout)["n_asked"] == 10
    assert "'array' has 10, 'y.npy' has 30" in message(
        run("evaluate", "new.st", "X_test.npy", "--label", "y.npy", code=1)
    )
    assert "no file of labels 'z.npy'" in message(run("fit", "X.npy", "--label", "z.npy", code=2))


def test_a_model_of_columns_reads_a_vector_when_told_so(here):
    MahalanobisMetric([[2.0, 0.0]]).save("plain.st")
    metric = MahalanobisMetric([[2.0, 0.0]])
    metric.feature_names = ["width", "height"]
    metric.save("named.st")
    arguments = ["transform", "named.st", "points.jsonl", "--ignore", "text,id,kind", "-o", "named.npz"]
    said = message(run(*arguments, code=1))
    assert "there is no column 'width', and the model was learned from 'width', 'height'." in said
    assert "If 'v' holds the same 2 numbers in this order, say so: --vector v." in said
    run(*arguments, "--vector", "v")
    run("transform", "plain.st", "points.jsonl", "--ignore", "text,id,kind", "-o", "plain.npz")
    with np.load("named.npz") as named, np.load("plain.npz") as plain:
        np.testing.assert_array_equal(named["X"], plain["X"])
    (here / "table.csv").write_text("id,width\np0,1\n")
    said = message(run("transform", "named.st", "table.csv", "--id", "id", "-o", "x.npz", code=1))
    assert "there is no column 'height', and the model was learned from 'width', 'height'. Give points with" in said


def test_queries_may_have_no_ids_and_be_another_form_of_vector(here):
    MahalanobisMetric(np.eye(2), feature_names=["x", "y"]).save("named.st")
    (here / "points.csv").write_text("id,x,y\na,0,0\nb,5,5\nc,9,0\n")
    np.save("queries.npy", [[5.0, 4.0], [1.0, 0.0]])
    asked = ["search", "named.st", "points.csv", "--id", "id", "--queries", "queries.npy", "-k", 1, "--json"]
    assert "If 'array' holds the same 2 numbers in this order, say so: --vector array." in message(run(*asked, code=1))
    hits = json.loads(run(*asked, "--vector", "array").stdout)["hits"]
    assert [(hit["query"], hit["id"]) for hit in hits] == [(0, "b"), (1, "a")]
    assert "there is no column of vectors 'vec'" in message(run(*asked, "--vector", "vec", code=2))
    assert "there is no column of ids 'key'" in message(run(*asked, "--vector", "array", "--id", "key", code=2))
