"""Points from files: every format gives the same points, and memory does not grow with the file."""

import csv
import gzip
import io
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostmetric.tables import PointTable, TableError, read_points
from boostmetric.tables.reading import is_number

X = np.array([[0.5, -1.25, 3.0], [1e-300, 2.0, 0.1], [7.0, 8.0, 1 / 3], [0.0, -0.0, 1e10]])
IDS = ["a,1", 'b"2', "c\n3", "é 4"]
LABELS = ["chair", "table", "chair", "lamp"]
NAMES = ["f0", "f1", "f2"]


def write_csv(path, ids=IDS, delimiter=",", opener=open):
    with opener(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["sku", *NAMES, "kind"])
        writer.writerows([i, *map(repr, row), kind] for i, row, kind in zip(ids, X.tolist(), LABELS, strict=True))


def write_jsonl(path, ids=IDS, vector=False, opener=open):
    with opener(path, "wt", encoding="utf-8") as file:
        for i, row, kind in zip(ids, X.tolist(), LABELS, strict=True):
            features = {"v": row} if vector else dict(zip(NAMES, row, strict=True))
            file.write(json.dumps({"sku": i, **features, "kind": kind}) + "\n")


def open_zstd(path, mode, encoding, newline=None):
    return io.TextIOWrapper(
        pytest.importorskip("pyarrow").CompressedOutputStream(path, "zstd"), encoding, newline=newline
    )


def write_parquet(path, ids=IDS, form="columns", **options):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    if form == "columns":
        features = dict(zip(NAMES, map(pa.array, X.T), strict=True))
    elif form == "list":
        features = {"v": pa.array(X.tolist())}
    elif form == "large list":
        features = {"v": pa.array(X.tolist(), type=pa.large_list(pa.float64()))}
    else:
        features = {"v": pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])}
        if form == "tensor":
            kind = pa.fixed_shape_tensor(pa.float64(), [X.shape[1]])
            features = {"v": pa.ExtensionArray.from_storage(kind, features["v"])}
    kinds = pa.array(LABELS).dictionary_encode()
    pq.write_table(pa.table({"sku": ids, **features, "kind": kinds}), path, **options)


WRITERS = {
    "points.csv": write_csv,
    "points.CSV": write_csv,
    "points.tsv": lambda path: write_csv(path, delimiter="\t"),
    "points.csv.gz": lambda path: write_csv(path, opener=gzip.open),
    "points.tsv.gz": lambda path: write_csv(path, delimiter="\t", opener=gzip.open),
    "points.jsonl": write_jsonl,
    "points.ndjson": write_jsonl,
    "points.jsonl.gz": lambda path: write_jsonl(path, opener=gzip.open),
    "vector.jsonl": lambda path: write_jsonl(path, vector=True),
    "points.csv.zst": lambda path: write_csv(path, opener=open_zstd),
    "points.jsonl.zst": lambda path: write_jsonl(path, opener=open_zstd),
    "points.parquet": write_parquet,
    "groups.parquet": lambda path: write_parquet(path, row_group_size=1),
    "list.parquet": lambda path: write_parquet(path, form="list", row_group_size=2),
    "large.parquet": lambda path: write_parquet(path, form="large list"),
    "fixed.parquet": lambda path: write_parquet(path, form="fixed", row_group_size=3),
    "tensor.parquet": lambda path: write_parquet(path, form="tensor"),
    "points.npz": lambda path: np.savez(path, X=X, sku=np.array(IDS), kind=np.array(LABELS)),
}


@pytest.mark.parametrize("name", ["w.csv", "w.jsonl", "w.npz"])
def test_weights_are_numbers_beside_the_features(name, tmp_path):
    columns = {"x": [1.0, 2.0, 3.0], "kind": [0, 1, 0], "w": [0.5, 0.0, 2.0]}
    rows = list(zip(*columns.values(), strict=True))
    if name == "w.npz":
        np.savez(tmp_path / name, X=np.array(columns["x"])[:, None], kind=columns["kind"], w=columns["w"])
    elif name == "w.csv":
        (tmp_path / name).write_text("\n".join(["x,kind,w", *(",".join(map(str, row)) for row in rows)]))
    else:
        (tmp_path / name).write_text("\n".join(json.dumps(dict(zip(columns, row, strict=True))) for row in rows))
    table = read_points(tmp_path / name, label="kind", weight="w")
    np.testing.assert_array_equal(table.points, [[1.0], [2.0], [3.0]])
    np.testing.assert_array_equal(table.weights, columns["w"])
    np.testing.assert_array_equal(table.take([2, 0]).weights, [2.0, 0.5])
    assert "weights: column 'w', 0 to 2" in table.describe()
    kept = read_points(tmp_path / name, label="kind", weight="w", keep="w")
    assert kept.numbers_kept("w").astype(float).tolist() == columns["w"]


def test_weights_below_0_are_refused(tmp_path):
    (tmp_path / "w.csv").write_text("x,w\n1,1\n2,-1\n")
    with pytest.raises(TableError, match=r"w.csv, line 3, column 'w': a weight below 0. Weights are at least 0"):
        read_points(tmp_path / "w.csv", weight="w")


@pytest.mark.parametrize("chunk", [1, 3, None], ids=["rows one by one", "a few", "at once"])
@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_points(name, chunk, tmp_path, monkeypatch):
    path = tmp_path / name
    WRITERS[name](path)
    if chunk is not None:
        from boostmetric.tables import formats

        monkeypatch.setattr(formats, "BYTES_PER_BLOCK", chunk * 60)
        monkeypatch.setattr(formats, "BYTES_PER_CHUNK", chunk * 60)
    table = read_points(path, id="sku", label="kind")
    assert table.points.tobytes() == X.tobytes()
    assert table.points.dtype == np.float64
    assert table.ids.tolist() == IDS
    assert table.labels.tolist() == LABELS
    assert table.feature_names in (NAMES, None)
    assert (table.feature_names is None) == (name.split(".")[0] not in ("points", "groups") or ".npz" in name)
    assert table.n_features == 3
    assert len(table) == 4
    assert table.source == str(path)


def test_npy_is_a_matrix(tmp_path):
    np.save(tmp_path / "points.npy", X)
    table = read_points(tmp_path / "points.npy")
    assert np.array_equal(table.points, X)
    assert table.ids is table.labels is table.feature_names is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [("float16", "float32"), ("float32", "float32"), ("float64", "float64"), ("int8", "float32"), ("int64", "float64")],
)
def test_float32_where_it_is_exact(given, kept, tmp_path):
    numbers = np.arange(6).reshape(3, 2).astype(given)
    np.save(tmp_path / "points.npy", numbers)
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": numbers[:, 0], "b": numbers[:, 1]}), tmp_path / "columns.parquet")
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 2)
    pq.write_table(pa.table({"v": fixed}), tmp_path / "vector.parquet")
    for name in ("points.npy", "columns.parquet", "vector.parquet"):
        table = read_points(tmp_path / name)
        assert table.points.dtype == kept
        assert np.array_equal(table.points, numbers)


def test_whole_and_true_numbers_of_parquet_are_features(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    price = pa.array([1, 2], pa.int8()).cast(pa.decimal128(10, 2))
    pq.write_table(pa.table({"new": [True, False], "price": price}), tmp_path / "points.parquet")
    assert read_points(tmp_path / "points.parquet").points.tolist() == [[1.0, 1.0], [0.0, 2.0]]


def test_shards_are_one_table(tmp_path):
    write_csv(tmp_path / "part-1.csv", ids=[1, 2, 3, 4])
    write_jsonl(tmp_path / "part-2.jsonl", ids=[5, 6, 7, 8])
    write_parquet(tmp_path / "part-3.parquet", ids=["9", "10", "11", "12"])
    table = read_points(str(tmp_path / "part-*"), id="sku", label="kind")
    assert np.array_equal(table.points, np.concatenate([X, X, X]))
    assert table.ids.tolist() == [str(number) for number in range(1, 13)]  # of which some are text
    both = read_points([tmp_path / "part-2.jsonl", tmp_path / "part-1.csv"], id="sku", label="kind")
    assert both.ids.tolist() == [5, 6, 7, 8, 1, 2, 3, 4]
    assert "and 1 more file: JSON lines, CSV, 8 points" in both.describe()


def test_a_shard_without_rows_is_passed_over(tmp_path):
    (tmp_path / "part-1.csv").write_text("id,f\n1,0.5\n")
    (tmp_path / "part-2.csv").write_text("id,f\n")
    (tmp_path / "part-3.csv").write_text("id,f\n2,oh\n")
    with pytest.raises(TableError, match=r"part-3.csv, line 2, column 'f': 'oh' is not a number"):
        read_points(tmp_path / "part-*.csv", id="id")


@given(ids=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, unique=True))
def test_ids_survive_every_format(ids, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ids")
    with (folder / "p.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["sku", "f"], *([text, 0.5] for text in ids)])
    (folder / "p.jsonl").write_text("\n".join(json.dumps({"sku": i, "f": 0.5}) for i in ids), encoding="utf-8")
    (folder / "q.jsonl").write_text(
        "\n".join(json.dumps({"sku": i, "f": 0.5}, ensure_ascii=False) for i in ids), encoding="utf-8"
    )
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"sku": ids, "f": [0.5] * len(ids)}), folder / "p.parquet")
    for path in folder.iterdir():
        table = read_points(path, id="sku")
        assert list(map(str, table.ids)) == ids, path.name
        assert table.find(ids).tolist() == list(range(len(ids)))
        if table.ids.dtype.kind == "i":
            assert path.name == "p.csv"  # which has no types


@given(rows=st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3), min_size=1))
def test_numbers_survive_text(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "p.csv").write_text("a,b,c\n" + "\n".join(",".join(map(repr, row)) for row in rows))
    (folder / "p.jsonl").write_text("\n".join(json.dumps({"v": row}) for row in rows))
    for path in folder.iterdir():
        assert read_points(path).points.tobytes() == np.array(rows).tobytes()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["3", "-1", "0"], [3, -1, 0]),
        (["3", "007", "1"], ["3", "007", "1"]),
        (["1.0", "2.0"], ["1.0", "2.0"]),
        (["-0", "1"], ["-0", "1"]),
        ([str(2**63 - 1), "1"], [str(2**63 - 1), "1"]),  # of 19 digits: some do not fit
    ],
)
def test_ids_of_csv_are_whole_numbers_only_if_nothing_is_lost(texts, expected, tmp_path):
    (tmp_path / "p.csv").write_text("id,f\n" + "".join(f"{text},1\n" for text in texts))
    assert read_points(tmp_path / "p.csv", id="id").ids.tolist() == expected


def test_large_unsigned_ids(tmp_path):
    np.savez(tmp_path / "p.npz", X=np.eye(2), id=np.array([2**64 - 1, 3], dtype=np.uint64))
    table = read_points(tmp_path / "p.npz", id="id")
    assert table.ids.tolist() == [str(2**64 - 1), "3"]
    assert table.find(["3", "4"]).tolist() == [1, -1]


def test_labels_of_all_types(tmp_path):
    lines = [{"v": [1], "y": y, "z": z} for y, z in [(1.0, True), (2, False), (3, 1)]]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert read_points(tmp_path / "p.jsonl", label="y").labels.tolist() == [1, 2, 3]
    assert read_points(tmp_path / "p.jsonl", label="z").labels.tolist() == [1, 0, 1]
    np.savez(tmp_path / "p.npz", X=np.eye(2), y=np.array([1.0, 2.0]), z=np.array([True, False]))
    assert read_points(tmp_path / "p.npz", label="y").labels.tolist() == [1, 2]
    assert read_points(tmp_path / "p.npz", label="z").labels.tolist() == [1, 0]


def test_named_features(tmp_path):
    (tmp_path / "p.csv").write_text("f2,f1,title,label,f10\n1,2,x,0,3\n")
    path = tmp_path / "p.csv"
    assert read_points(path, columns=["f1", "f10"]).points.tolist() == [[2, 3]]
    assert read_points(path, columns=["f*"]).feature_names == ["f2", "f1", "f10"]
    assert read_points(path, columns="f1*").feature_names == ["f1", "f10"]
    table = read_points(path, ignore=["title", "label", "f?"])
    assert table.feature_names == ["f10"]
    assert read_points(path, label="label", columns=["*"], ignore=["title"]).feature_names == ["f2", "f1", "f10"]
    assert "left out: 'title', 'label'" in read_points(path, columns=["f*"]).describe()


def test_one_of_several_vectors(tmp_path):
    (tmp_path / "p.jsonl").write_text('{"small": [1], "large": [1, 2], "price": 3, "title": "x"}\n')
    assert read_points(tmp_path / "p.jsonl", vector="large").points.tolist() == [[1, 2]]
    assert read_points(tmp_path / "p.jsonl", ignore=["large"]).points.tolist() == [[1]]
    with pytest.raises(TableError, match=r"columns 'small', 'large' hold lists\. Name the one to use as vector"):
        read_points(tmp_path / "p.jsonl")
    np.savez(tmp_path / "p.npz", train=np.eye(2), test=np.zeros((3, 2)), y=[1, 2], names=np.array(["a", "b", "c"]))
    table = read_points(tmp_path / "p.npz", vector="train", label="y")  # the other arrays have other lengths
    assert table.points.tolist() == [[1, 0], [0, 1]]


def test_kept_columns_and_rows_taken(tmp_path):
    (tmp_path / "p.csv").write_text("f,split,note,id\n1,train,,a\n2,test,x,b\n3,train,,c\n")
    table = read_points(tmp_path / "p.csv", id="id", keep=["split", "note"])
    assert table.kept["note"].tolist() == ["", "x", ""]
    train = table.take(table.kept["split"] == "train")
    assert train.ids.tolist() == ["a", "c"]
    assert train.points.tolist() == [[1], [3]]
    assert train.kept["split"].tolist() == ["train", "train"]
    assert train.find(["c", "b"]).tolist() == [1, -1]
    assert "CSV, 2 points with 1 feature" in train.describe()
    assert read_points(tmp_path / "p.csv", keep="split", columns="f").kept["split"].tolist() == [
        "train",
        "test",
        "train",
    ]


def test_description(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(Path("points.csv"))
    assert read_points("points.csv", id="sku", label="kind").describe() == (
        "points.csv: CSV, 4 points with 3 features\n"
        "  features: 3 columns: 'f0', 'f1', 'f2', as float64\n"
        "  ids: column 'sku', text, such as 'a,1', 'b\"2', 'c\\n3'\n"
        "  labels: column 'kind', 3 classes: 'chair' (2), 'lamp' (1), 'table' (1)"
    )
    write_jsonl(Path("vector.jsonl"), ids=[1, 2, 3, 4], vector=True)
    assert read_points("vector.jsonl", id="sku").describe() == (
        "vector.jsonl: JSON lines, 4 points with 3 features\n"
        "  features: the vector in column 'v', as float64\n"
        "  ids: column 'sku', whole numbers, such as 1, 2, 3\n"
        "  left out: 'kind'"
    )


def test_excel_and_pandas_write_csv(tmp_path):
    (tmp_path / "excel.csv").write_bytes(b"\xef\xbb\xbfid,f\r\n1,2\r\n")
    assert read_points(tmp_path / "excel.csv", id="id").ids.tolist() == [1]
    (tmp_path / "pandas.csv").write_text("0,1\n5,6\n\n7,8\n")
    assert read_points(tmp_path / "pandas.csv").points.tolist() == [[5, 6], [7, 8]]


@pytest.mark.parametrize("form", ["columns", "vector"])
def test_parquet_is_read_by_row_group(form, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    n, d, per_group = 40_000, 64, 1000
    numbers = np.random.default_rng(0).standard_normal((per_group, d))
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), d)
    group = pa.table({"v": fixed}) if form == "vector" else pa.table({f"f{c}": numbers[:, c] for c in range(d)})
    with pq.ParquetWriter(tmp_path / "p.parquet", group.schema) as writer:
        for _ in range(n // per_group):
            writer.write_table(group)
    del group, fixed
    pool = pa.system_memory_pool()  # a pool of its own, whose largest use is of this test
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        table = read_points(tmp_path / "p.parquet")
        _, python = tracemalloc.get_traced_memory()
        arrow = pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert np.array_equal(table.points[-per_group:], numbers)
    # The result, and of the file no more than a few of its row groups (of which there are 40).
    assert python + arrow < 1.25 * table.points.nbytes


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_text_is_read_in_chunks(suffix, tmp_path, monkeypatch):
    from boostmetric.tables import formats

    monkeypatch.setattr(formats, "BYTES_PER_BLOCK", 2**16)
    row = np.random.default_rng(0).standard_normal(50).tolist()
    with (tmp_path / f"p.{suffix}").open("w") as file:
        if suffix == "csv":
            file.write(",".join(f"f{c}" for c in range(50)) + "\n")
        line = ",".join(map(repr, row)) if suffix == "csv" else json.dumps({"v": row})
        file.writelines(f"{line}\n" for _ in range(10_000))
    tracemalloc.start()
    try:
        table = read_points(tmp_path / f"p.{suffix}")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert table.points.shape == (10_000, 50)
    assert peak < 1.7 * table.points.nbytes  # the text alone is more than twice as large


def result_of(path):
    """What is read, or what is said about it: in any order, which depends on the blocks."""
    try:
        table = read_points(path, id="i", columns=["x"])
    except TableError as error:
        return "many" if "... and" in str(error) else sorted(str(error).splitlines())
    return table.points.tolist(), table.ids.tolist()


CSV_ROWS = st.lists(st.lists(st.text('1a.,"\n\r \t-é', max_size=4), min_size=2, max_size=2), max_size=4)


@given(
    content=st.one_of(
        CSV_ROWS.map(lambda rows: "i,x\n" + "\n".join(map(",".join, rows))),
        st.tuples(CSV_ROWS, st.sampled_from(["\n", "\r\n"])).map(
            lambda drawn: drawn[1].join(
                ["i,x", *(",".join(f'"{c.replace(chr(34), chr(34) * 2)}"' for c in row) for row in drawn[0])]
            )
        ),
    )
)
def test_csv_is_read_as_the_standard_library_does(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "p.csv"
    path.write_bytes(content.encode())
    try:
        with path.open(newline="", encoding="utf-8") as file:
            _, *rows = [row for row in csv.reader(file, strict=True) if row]
        ids, numbers = zip(*rows, strict=True)
        is_valid = all(ids) and len({*ids}) == len(ids) and all(map(is_number, numbers))
    except (csv.Error, ValueError):
        is_valid = False
    if is_valid:
        points, found = result_of(path)
        assert (points, tuple(map(str, found))) == ([[float(number)] for number in numbers], ids)
    else:
        assert isinstance(result_of(path), str | list)


JSON_VALUES = st.one_of(
    st.integers(-(2**65), 2**65), st.floats(), st.text("ab1é", max_size=2), st.booleans(), st.none(), st.just([1])
)
JSON_ROWS = st.lists(st.dictionaries(st.sampled_from("ix"), JSON_VALUES), max_size=4)


@given(
    content=JSON_ROWS.map(lambda rows: "\n".join(map(json.dumps, [{"i": 0, "x": 0.5}, *rows]))),
    per_block=st.sampled_from([1, 7, 30, 2**20]),
)
def test_blocks_and_single_rows_give_the_same(content, per_block, tmp_path_factory):
    """Whether pyarrow or the standard library reads a block of JSON shows in nothing but the time it takes."""
    from boostmetric.tables import formats

    def refuse(self, block, wanted):
        raise ValueError

    path = tmp_path_factory.mktemp("text") / "p.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "BYTES_PER_BLOCK", per_block)
        blocks = result_of(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats.JsonLinesTable, "_by_pyarrow", refuse)
        assert result_of(path) == blocks


def test_arrays_are_used_as_they_are(tmp_path):
    np.save(tmp_path / "p.npy", np.zeros((100_000, 20)))
    tracemalloc.start()
    try:
        table = read_points(tmp_path / "p.npy")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * table.points.nbytes


def test_points_without_a_file():
    table = PointTable(np.eye(2), ids=np.array(["x", "y"], dtype=object), source="my points")
    assert table.describe() == "my points: 2 points with 2 features"
    with pytest.raises(TableError, match="was read without ids"):
        PointTable(np.eye(2)).find([1])


def test_places_of_rows_that_take_several_lines(tmp_path):
    (tmp_path / "p.csv").write_text('id,f\n"a\nb",1\n\n"c\n\nd",2\ne,oh\n')
    with pytest.raises(TableError, match=r"line 8, column 'f': 'oh'"):
        read_points(tmp_path / "p.csv", id="id")


def test_an_array_that_is_a_single_value(tmp_path):
    np.savez(tmp_path / "points.npz", X=np.ones((3, 2)), id=np.array(7))
    with pytest.raises(TableError, match=r"points\.npz: 'id' is one value, where one for each row is needed"):
        read_points(tmp_path / "points.npz", id="id")
