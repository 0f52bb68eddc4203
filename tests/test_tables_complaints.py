"""What is wrong with a file of points is said with file, line and column."""

import contextlib
import gzip
import json
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from boostmetric.arrays.identifiers import Identifiers
from boostmetric.tables import PointTable, TableError, TableNotFoundError, formats, read_points


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def zstd_compress(content):
    return pytest.importorskip("pyarrow").compress(content, codec="zstd", asbytes=True)


def complaint(path, **options):
    with pytest.raises(TableError) as caught:
        read_points(path, **options)
    return str(caught.value)


def parquet(name, columns, **options):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(columns), name, **options)
    return name


NUMBERS = "Numbers are needed here: correct these values, remove these rows, or leave the column out."
FINITE = "Only finite numbers can be used: correct these values, or remove these rows."
MISSING = "Fill in what is missing, or remove these rows."
LENGTH = "All vectors must have one length: correct or remove the others."


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.csv", "a,b\n1,2\n3,n/a\n", f"p.csv, line 3, column 'b': 'n/a' is not a number. {NUMBERS}"),
        ("p.csv", "a,b\n1,2\n3,1_0\n", f"p.csv, line 3, column 'b': '1_0' is not a number. {NUMBERS}"),
        ("p.csv", "a,b\n1,2\n,3\n", f"p.csv, line 3, column 'a': no value. {MISSING}"),
        ("p.csv", "a,b\n1,2\n3,NaN\n", f"p.csv, line 3, column 'b': nan is not a finite number. {FINITE}"),
        ("p.csv", "a,b\n1,-inf\n3,4\n", f"p.csv, line 2, column 'b': -inf is not a finite number. {FINITE}"),
        ("p.csv", "a,b\n1,1e999\n3,4\n", f"p.csv, line 2, column 'b': inf is not a finite number. {FINITE}"),
        ("p.jsonl", '{"a": 1}\n{"a": "x"}\n', f"p.jsonl, line 2, column 'a': 'x' is not a number. {NUMBERS}"),
        ("p.jsonl", '{"a": 1}\n{"a": "2"}\n', f"p.jsonl, line 2, column 'a': '2' is not a number. {NUMBERS}"),
        ("p.jsonl", '{"a": 1}\n\n{"a": null}\n', f"p.jsonl, line 3, column 'a': no value. {MISSING}"),
        ("p.jsonl", '{"a": 1, "b": 2}\n{"b": 1}\n', f"p.jsonl, line 2, column 'a': no value. {MISSING}"),
        ("p.jsonl", '{"a": 1}\n{"a": NaN}\n', f"p.jsonl, line 2, column 'a': nan is not a finite number. {FINITE}"),
        (
            "p.jsonl",
            '{"a": 1}\n{"a": 1' + "0" * 400 + "}\n",
            f"p.jsonl, line 2, column 'a': 1{'0' * 55}...0 is not a number. {NUMBERS}",
        ),
        (
            "p.jsonl",
            '{"v": [1, 2]}\n{"v": [1, 2, 3]}\n',
            f"p.jsonl, line 2, column 'v': the vector has 3 numbers, those before it have 2. {LENGTH}",
        ),
        (
            "p.jsonl",
            '{"v": [1, 2]}\n{"v": [1, "x"]}\n',
            f"p.jsonl, line 2, column 'v', element 1: 'x' is not a number. {NUMBERS}",
        ),
        (
            "p.jsonl",
            '{"v": [1, 2]}\n{"v": [1, null]}\n',
            f"p.jsonl, line 2, column 'v', element 1: no value. {MISSING}",
        ),
        (
            "p.jsonl",
            '{"v": [1, 2]}\n{"v": [1, Infinity]}\n',
            f"p.jsonl, line 2, column 'v', element 1: inf is not a finite number. {FINITE}",
        ),
        ("p.jsonl", '{"v": [1, 2]}\n{"w": 1}\n', f"p.jsonl, line 2, column 'v': no value. {MISSING}"),
        (
            "p.jsonl",
            '{"v": [1, 2]}\n{"v": 3}\n',
            "p.jsonl, line 2, column 'v': 3 is not a list of numbers. A list of numbers is needed here: correct these "
            "values, or name another column as vector.",
        ),
        ("p.jsonl", '{"v": []}\n', "p.jsonl: the vectors in column 'v' are empty."),
    ],
)
def test_values(name, content, message):
    assert complaint(write(name, content)) == message


def test_values_of_parquet():
    numbers = {"a": [1.0, None, 3.0], "b": [1.0, 2.0, float("nan")]}
    assert complaint(parquet("p.parquet", numbers, row_group_size=2)) == (
        f"p.parquet, row 1 (counted from 0), column 'a': no value. {MISSING}\n"
        f"p.parquet, row 2 (counted from 0), column 'b': nan is not a finite number. {FINITE}"
    )
    ragged = parquet("p.parquet", {"v": [[1.0, 2.0], [3.0, 4.0], [5.0]]}, row_group_size=2)
    assert complaint(ragged) == (
        f"p.parquet, row 2 (counted from 0), column 'v': the vector has 1 number, those before it have 2. {LENGTH}"
    )
    gaps = parquet("p.parquet", {"v": [[1.0, 2.0], None, [5.0, None]]})
    assert complaint(gaps) == (
        f"p.parquet, row 1 (counted from 0), column 'v': no value\n"
        f"p.parquet, row 2 (counted from 0), column 'v', element 1: no value\n{MISSING}"
    )
    named = parquet("p.parquet", {"a": ["x", "2"]})
    assert complaint(named, columns=["a"]).startswith(
        "p.parquet, row 0 (counted from 0), column 'a': 'x' is not a number\n"
        "p.parquet, row 1 (counted from 0), column 'a': '2' is not a number\n"
    )


def test_values_of_arrays():
    np.save("p.npy", np.array([[1.0, 2.0], [3.0, np.nan]]))
    assert complaint("p.npy") == (
        f"p.npy, row 1 (counted from 0), column 'array', element 1: nan is not a finite number. {FINITE}"
    )
    np.savez("p.npz", X=np.eye(2), y=np.array([1.0, np.nan]), z=np.array([0.5, 1]))
    assert complaint("p.npz", label="y") == f"p.npz, row 1 (counted from 0), column 'y': no class. {MISSING}"
    assert complaint("p.npz", label="z") == (
        "p.npz, row 0 (counted from 0), column 'z': 0.5 cannot be a class. Classes are text or whole "
        "numbers: convert the "
        "column."
    )
    assert "column 'z': 0.5 cannot be an id\n" in complaint("p.npz", id="z")


def test_the_first_few_of_a_kind_and_the_number_of_the_others():
    rows = ["1,2"] + ["x,nan"] * 8 + ["1,2"] * 3
    text = complaint(write("p.csv", "a,b\n" + "\n".join(rows)))
    assert text == "\n".join(
        [
            *(f"p.csv, line {line}, column 'a': 'x' is not a number" for line in range(3, 8)),
            "... and 3 more like these",
            NUMBERS,
            *(f"p.csv, line {line}, column 'b': nan is not a finite number" for line in range(3, 8)),
            "... and 3 more like these",
            FINITE,
        ]
    )


def test_complaints_of_all_chunks_are_counted(monkeypatch):
    from boostmetric.tables import formats

    monkeypatch.setattr(formats, "BYTES_PER_BLOCK", 20)
    assert "... and 95 more like these" in complaint(write("p.csv", "a,b\n1,2\n" + "x,1\n" * 100))


def test_duplicate_ids_name_both_rows():
    remedy = "Each id must be there once: remove or rename the others."
    csv = write("p.csv", "id,f\na,1\nb,2\na,3\n")
    assert complaint(csv, id="id") == f"p.csv, line 4, column 'id': id 'a' is also that of p.csv, line 2. {remedy}"
    npz = np.savez("p.npz", X=np.eye(3), id=[5, 5, 5]) or "p.npz"
    assert complaint(npz, id="id") == (
        "p.npz, row 1 (counted from 0), column 'id': id 5 is also that of p.npz, row 0 (counted from 0)\n"
        f"p.npz, row 2 (counted from 0), column 'id': id 5 is also that of p.npz, row 0 (counted from 0)\n{remedy}"
    )
    many = complaint(write("p.csv", "id,f\n" + "a,1\n" * 10), id="id")
    assert many.startswith("p.csv, line 3, column 'id': id 'a' is also that of p.csv, line 2\np.csv, line 4,")
    assert many.endswith(
        f"line 7, column 'id': id 'a' is also that of p.csv, line 2\n... and 4 more like these\n{remedy}"
    )
    mixed = write("p.jsonl", '{"id": 7, "f": 1}\n{"id": "7", "f": 2}\n')
    assert complaint(mixed, id="id").startswith("p.jsonl, line 2, column 'id': id '7' is also that of p.jsonl, line 1.")
    write("q.csv", "id,f\n7,1\n")
    write("q.jsonl", '{"id": "7", "f": 2}\n')
    assert "column 'id': id '7' is also that of q.csv, line 2." in complaint(["q.csv", "q.jsonl"], id="id")


@pytest.mark.parametrize("value", ["true", "1.5", "[1]", "{}"])
def test_what_cannot_be_an_id(value):
    path = write("p.jsonl", '{"id": 1, "v": [1]}\n{"id": VALUE, "v": [1]}\n'.replace("VALUE", value))
    assert re.match(
        r"p.jsonl, line 2, column 'id': .* cannot be an id. Ids are text or whole numbers", complaint(path, id="id")
    )


@pytest.mark.parametrize("value", ["null", '""', "NaN"])
def test_missing_ids_and_labels(value):
    path = write("p.jsonl", '{"id": 1, "v": [1]}\n{"id": VALUE, "v": [1]}\n'.replace("VALUE", value))
    assert complaint(path, id="id") == f"p.jsonl, line 2, column 'id': no id. {MISSING}"
    assert complaint(path, label="id") == f"p.jsonl, line 2, column 'id': no class. {MISSING}"


def test_missing_columns():
    path = write("p.csv", "SKU,f\n1,2\n")
    assert complaint(path, id="sku") == (
        "p.csv: there is no column of ids 'sku'. Did you mean 'SKU'? It has 'SKU', 'f'."
    )
    assert "Did you mean 'SKU'?" in complaint(path, id="skus")
    assert complaint(path, label="kind") == "p.csv: there is no column of labels 'kind'. It has 'SKU', 'f'."
    assert complaint(path, columns=["g*"]).startswith("p.csv: there is no column of features 'g*'.")
    assert complaint(path, ignore=["g"]).startswith("p.csv: there is no column to ignore 'g'.")
    assert complaint(path, keep=["g"]).startswith("p.csv: there is no column 'g'.")
    assert complaint(path, vector="g").startswith("p.csv: there is no column of vectors 'g'.")
    assert complaint(path, columns=[]).startswith("p.csv: there are no columns of numbers to use as features.")
    assert complaint(path, columns=["f"], vector="f") == "Give vector ('f') or columns ('f'), not both."


def test_shards_must_have_the_same_columns():
    write("1.csv", "a,b\n1,2\n")
    write("2.csv", "a,c\n1,2\n")
    write("3.csv", "a\n1\n")
    assert complaint(["1.csv", "2.csv"]).startswith("2.csv: has 'c', which 1.csv does not have.")
    assert complaint(["1.csv", "2.csv"], columns=["b"]).startswith("2.csv: there is no column of features 'b'.")
    assert complaint(["1.csv", "3.csv"]) == "3.csv: there is no column of features 'b'. It has 'a'."
    write("4.csv", "b,a\n2,1\n")  # in another order
    assert read_points(["1.csv", "4.csv"]).points.tolist() == [[1, 2], [1, 2]]
    assert complaint(["1.csv", "2.csv"], columns=["a"], id="b") == (
        "2.csv: there is no column 'b'. It has 'a', 'c'. 1.csv has it."
    )


def test_columns_that_are_no_features_are_not_passed_over():
    remedy = "Say what they are (id, label), leave them out (ignore), or name the features (columns)."
    path = write("p.csv", "title,f,note\noak chair,1,\npine,2,\n")
    assert complaint(path) == (
        f"p.csv: columns 'title', 'note' hold no numbers but, for example, 'oak chair'. {remedy}"
    )
    assert read_points(path, ignore=["title", "note"]).feature_names == ["f"]
    lists = write("p.csv", 'f,v\n1,"[1, 2]"\n')
    assert complaint(lists).endswith("Lists of numbers are read from Parquet and JSON lines, not from CSV.")
    assert complaint(lists, vector="v").startswith(
        "p.csv: column 'v' does not hold lists of numbers but, for example, '[1, 2]'. Vectors are lists in Parquet"
    )
    tags = write("p.jsonl", '{"f": 1, "tags": ["a"]}\n')
    assert complaint(tags).startswith("p.jsonl: column 'tags' holds no numbers but, for example, ['a'].")
    dates = parquet("p.parquet", {"f": [1], "day": np.array(["2020-01-01"], dtype="datetime64[ns]")})
    assert complaint(dates).startswith("p.parquet: column 'day' holds no numbers.")
    assert complaint(write("p.jsonl", '{"f": 1, "v": [1]}\n'), columns=["f", "v"]).startswith(
        "p.jsonl: column 'v' holds lists, and columns must hold one number each."
    )


@pytest.mark.parametrize("name", ["id", "ID", "user_id", "label", "target", "", "Unnamed: 0", "__index_level_0__"])
def test_numbers_that_are_hardly_features_are_not_used_unasked(name):
    path = write("p.csv", f"{name},f\n1,2\n")
    assert complaint(path).startswith(
        f"p.csv: column {name!r} holds numbers that would be used as features, which by the name they seldom are."
    )
    assert ("index=False" in complaint(path)) == (name in ("", "Unnamed: 0", "__index_level_0__"))
    assert read_points(path, columns=[name, "f"]).points.tolist() == [[1, 2]]
    assert read_points(path, ignore=[name]).points.tolist() == [[2]]


def test_fields_that_turn_up_late(monkeypatch):
    from boostmetric.tables import formats

    monkeypatch.setattr(formats, "FIRST_ROWS", 1)
    path = write("p.jsonl", '{"a": 1}\n{"a": 2}\n{"a": 3, "b": 4}\n')
    assert complaint(path).startswith("p.jsonl, line 3: has 'b', which the rows before do not have.")
    assert read_points(path, columns=["a"]).points.tolist() == [[1], [2], [3]]


def test_broken_text():
    assert complaint(write("p.csv", "a,b\n1,2\n\n1,2,3\n")).startswith("p.csv, line 4: 3 fields, but the header has 2.")
    assert complaint(write("p.csv", 'a,b\n1,2\n1,"2\n3,4\n')).startswith("p.csv, line 3: not valid CSV (unexpected end")
    assert complaint(write("p.csv", "a,a\n1,2\n")) == "p.csv, line 1: several columns are called 'a'. Rename them."
    assert complaint(write("p.csv", "a;b\n1;2\n")).startswith(
        "p.csv, line 1: one column, 'a;b', which seems to be several"
    )
    assert "separated by tabs" in complaint(write("p.csv", "a\tb\n1\t2\n"))
    assert "separated by commas" in complaint(write("p.tsv", "a,b\n1,2\n"))
    assert complaint(write("p.csv", "1.5,2\n1,2\n")).startswith("p.csv, line 1: numbers ('1.5', '2') where the names")
    assert complaint(write("p.jsonl", '{"a": 1}\n{"a": 1,}\n')).startswith("p.jsonl, line 2: not JSON (")
    assert complaint(write("p.jsonl", '{"a": 1}\n[1]\n')).startswith("p.jsonl, line 2: [1] is not a JSON object.")
    assert complaint(write("p.jsonl", '{"a": 1}\n' + "[" * 100_000)).startswith(
        "p.jsonl, line 2: cannot be read as JSON"
    )
    assert complaint(write("p.jsonl", '{"a": ' + "1" * 5000 + "}")).startswith(
        "p.jsonl, line 1: cannot be read as JSON"
    )


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl", "p.csv.gz", "p.csv.zst"])
def test_not_utf8(name):
    text = "a\n" + "1\n" * 20_000 if "csv" in name else '{"a": 1}\n' * 20_001
    content = text.encode() + "é\n".encode("latin-1")
    packed = {"gz": gzip.compress, "zst": zstd_compress}.get(name.rpartition(".")[2], bytes)
    write(name, packed(content))
    assert complaint(name) == (
        f"{name}, line 20002: byte 0xe9 at position 1 is not UTF-8 text. Save the file as UTF-8."
    )
    assert complaint(write("utf16.csv", "a,b\n1,2\n".encode("utf-16"))).startswith("utf16.csv, line 1: byte 0xff")


def test_broken_files():
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)
    assert complaint(write("p.csv.gz", whole[:-20])).startswith("p.csv.gz: not a whole gzip file (")
    assert complaint(write("p.csv.gz", b"a,b\n1,2\n")).startswith("p.csv.gz: not a whole gzip file (")
    whole = zstd_compress(b"a,b\n" + b"1,2\n" * 10_000)
    assert complaint(write("p.csv.zst", whole[:-3])).startswith("p.csv.zst: not a whole zstd file (")
    assert complaint(write("p.csv.zst", b"a,b\n1,2\n")).startswith("p.csv.zst: not a whole zstd file (")
    np.save("p.npy", np.eye(3))
    assert complaint(write("q.npy", Path("p.npy").read_bytes()[:-8])).startswith("q.npy: not a whole npy file (")
    assert complaint(write("q.npy", b"hello")).startswith("q.npy: not a whole npy file (")
    np.savez("p.npz", X=np.eye(3))
    content = Path("p.npz").read_bytes()
    assert complaint(write("q.npz", content[:-30])).startswith("q.npz: not a whole npz file (")
    damaged = content.replace(np.eye(3).tobytes(), np.ones((3, 3)).tobytes())
    assert complaint(write("q.npz", damaged)).startswith("q.npz: not a whole npz file (")
    np.savez("o.npz", X=np.eye(1), id=np.array([{}]), allow_pickle=True)
    assert complaint("o.npz", id="id").startswith("o.npz: holds Python objects, which are not loaded")


def test_columns_of_one_name_in_parquet():
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table([[1.0], [2.0]], names=["a", "a"]), "p.parquet")
    assert complaint("p.parquet") == "p.parquet: several columns are called 'a'. Rename them."


def test_broken_parquet():
    path = parquet("p.parquet", {"a": np.arange(1000.0)}, compression=None)
    content = Path(path).read_bytes()
    for bad in (b"hello", content[:-10], content[:200]):
        assert complaint(write("q.parquet", bad)).startswith("q.parquet: not a whole Parquet file (")


def test_damaged_bytes_never_crash():
    """Every damage is a complaint or goes unseen."""
    parquet("p.parquet", {"id": [f"id{i}" for i in range(50)], "v": np.random.default_rng(0).random((50, 3)).tolist()})
    np.save("p.npy", np.random.default_rng(0).random((50, 3)))
    np.savez_compressed("p.npz", v=np.random.default_rng(0).random((50, 3)), id=np.arange(50))
    lines = [json.dumps({"id": i, "v": [i / 7, 0.5]}) for i in range(50)]
    write("p.jsonl", "\n".join(lines))
    write("p.csv", "id,a\n" + "".join(f"{i},{i / 7}\n" for i in range(50)))
    rng = np.random.default_rng(0)
    for name in ("p.parquet", "p.npz", "p.npy", "p.jsonl", "p.csv"):
        content = bytearray(Path(name).read_bytes())
        for _ in range(50):
            damaged = bytearray(content)
            for place in rng.integers(len(content), size=3):
                damaged[place] = rng.integers(256)
            write(f"q.{name[2:]}", bytes(damaged))
            with contextlib.suppress(TableError):  # any other error fails
                assert np.isfinite(read_points(f"q.{name[2:]}", id=None if ".npy" in name else "id").points).all()


def test_empty_files():
    for name in ("p.csv", "p.jsonl", "p.parquet", "p.npy"):
        assert complaint(write(name, "")) == f"{name}: the file is empty."
    assert complaint(write("p.csv", "\n\n")).startswith("p.csv: the file is empty. It needs a line of column names")
    assert complaint(write("p.csv.gz", gzip.compress(b""))).startswith("p.csv.gz: the file is empty.")
    assert complaint(write("p.jsonl", "\n \n")).startswith(
        "p.jsonl: the file is empty. It needs one JSON object a line"
    )
    assert complaint(write("p.csv", "a,b\n"), columns=["a"]) == (
        "p.csv: there are no rows. It has the columns 'a', 'b'. At least one is needed."
    )
    assert complaint("p.csv", id="a") == (
        "p.csv: there are no rows. It has the columns 'a', 'b'. At least one is needed."
    )
    assert complaint(parquet("p.parquet", {"a": np.empty(0)})).startswith("p.parquet: there are no rows.")
    np.save("p.npy", np.empty((0, 3)))
    assert complaint("p.npy").startswith("p.npy: there are no rows.")
    np.save("p.npy", np.empty((3, 0)))
    assert complaint("p.npy") == "p.npy: the vectors in column 'array' are empty."


def test_wrong_shapes_of_arrays():
    np.save("p.npy", np.arange(3))
    assert complaint("p.npy") == (
        "p.npy: there is no matrix of numbers (array int64 (3,)). Points are an array of shape (points, features)."
    )
    np.savez("p.npz")
    assert complaint("p.npz") == "p.npz: there are no arrays in it."
    np.savez("p.npz", a=np.eye(2), b=np.eye(3), y=[1, 2, 3])
    assert complaint("p.npz") == (
        "p.npz: there are several matrices (a float64 (2, 2), b float64 (3, 3), y int64 (3,)). Name one as vector."
    )
    assert complaint("p.npz", vector="a", label="y") == (
        "p.npz: the arrays must have equally many rows, but 'a' has 2, 'y' has 3."
    )


def test_files_that_are_not_there_or_not_read():
    assert complaint("p.csv") == "p.csv: there is no such file. Check the path; it is looked for in the current folder."
    assert complaint("p-*.csv") == "p-*.csv: no file has a name like this. Check the pattern, and the folder."
    with pytest.raises(FileNotFoundError):
        read_points("p.csv")
    with pytest.raises(TableNotFoundError):
        read_points("p.csv")
    assert complaint([]) == "No file is given: at least one is needed."
    assert complaint(write("p.json", "{}")).startswith("p.json: files called .json are not read. Those that are: .csv,")
    assert complaint("p.json").endswith("Write one object a line and call the file .jsonl.")
    Path("folder").mkdir()
    assert complaint("folder") == "folder: is a folder. Give the files in it, such as 'folder/*.parquet'."


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.jsonl", "p.npy", "p.npz", "p.parquet"])
@pytest.mark.parametrize("when", ["found", "opened"])
def test_files_that_go_away_while_they_are_read(name, when, monkeypatch):
    """Between any two looks at them: what is told does not depend on who was faster."""
    write_table(name)

    def remove_after(look):
        def looked(path):
            found = look(path)
            Path(name).unlink()
            return found

        return looked

    table = f"{formats.__name__}.{'_check' if when == 'found' else '_open'}"
    monkeypatch.setattr(table, remove_after(formats._check if when == "found" else formats._open))
    expected = f"{name}: there is no such file. Check the path; it is looked for in the current folder."
    with pytest.raises(TableNotFoundError, match=f"^{re.escape(expected)}$"):
        read_points(name)


def write_table(name):
    suffix = name.partition(".")[2]
    if suffix == "parquet":
        parquet(name, {"a": [1.0, 2.0]})
    elif suffix.startswith("np"):
        np.save(name, [[1.0], [2.0]]) if suffix == "npy" else np.savez(name, a=[[1.0], [2.0]])
    else:
        text = '{"a": 1}\n' if suffix == "jsonl" else "a\n1\n"
        write(name, gzip.compress(text.encode()) if suffix.endswith("gz") else text)


def test_files_that_may_not_be_read(monkeypatch):
    """As told by the system when the file is opened: the superuser, who runs some tests, may read all."""

    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    write("p.csv", "a\n1\n")
    monkeypatch.setattr("builtins.open", refuse)
    assert complaint("p.csv") == "p.csv: may not be read by this user. Change its permissions."


@pytest.mark.parametrize(
    ("name", "kind"), [("p.parquet", "Parquet"), ("p.csv", "CSV"), ("p.tsv", "TSV"), ("p.jsonl.gz", "JSON lines")]
)
def test_without_pyarrow(name, kind, monkeypatch):
    write(name, "x")
    np.savez("p.npz", X=np.eye(2), id=np.array(["a", "b"]))
    for module in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"Reading {kind} files needs the package pyarrow, .* 'boostmetric\[data\]'"):
        read_points(name)
    assert read_points("p.npz", id="id").ids.tolist() == ["a", "b"]
    np.save("p.npy", np.eye(2))
    assert read_points("p.npy").points.tolist() == [[1, 0], [0, 1]]


def test_the_id_that_may_have_been_meant():
    ids = Identifiers(np.array(["sku-1", "Sku-22", "0042", "x y"], dtype=object))
    assert ids.closest("SKU-1") == "sku-1"
    assert ids.closest(" sku-22") == "Sku-22"
    assert ids.closest("42") == "0042"
    assert ids.closest("xy") == "x y"
    assert ids.closest("something else") is None
    assert Identifiers(np.arange(10**5)).closest("77.0") == "77"


def test_whole_numbers_and_their_text_are_one_id():
    numbers = PointTable(np.eye(3), ids=np.array([7, 8, -9]))
    assert numbers.find(["7", "-9", "007", "7.0"]).tolist() == [0, 2, -1, -1]
    assert numbers.find([8, 10]).tolist() == [1, -1]
    assert numbers.find(np.array([-9])).tolist() == [2]
    texts = PointTable(np.eye(3), ids=np.array(["7", "07", "x"], dtype=object))
    assert texts.find([7, 0]).tolist() == [0, -1]
    assert texts.find(["07", "x"]).tolist() == [1, 2]


def test_errors_name_parameters_as_data():
    path = write("{id}.csv", "{columns},x\n{label},1\n")
    with pytest.raises(TableError) as caught:
        read_points(path)
    error = pickle.loads(pickle.dumps(caught.value))
    for options, (i, label, ignore, columns) in (
        ({}, ("id", "label", "ignore", "columns")),
        ({"id": "--id", "ignore": "--ignore"}, ("--id", "label", "--ignore", "columns")),
    ):
        assert error.told(options) == (
            f"{{id}}.csv: column '{{columns}}' holds no numbers but, for example, '{{label}}'. Say what they are ({i}, "
            f"{label}), leave them out ({ignore}), or name the features ({columns})."
        )
    assert str(error) == error.told({}) == str(caught.value)
    assert isinstance(error, ValueError)
    assert error.parameters == ("id", "label", "ignore", "columns")


def test_complaints_name_parameters_as_data():
    lists = write("{x}.jsonl", '{"v": [1]}\n{"v": "{vector}"}\n')
    with pytest.raises(TableError) as caught:
        read_points(lists)
    assert pickle.loads(pickle.dumps(caught.value)).told({"vector": "--vector"}) == (
        "{x}.jsonl, line 2, column 'v': '{vector}' is not a list of numbers. A list of numbers is needed here: correct "
        "these values, or name another column as --vector."
    )
    with pytest.raises(TableNotFoundError) as missing:
        read_points("{id}.npy")
    again = pickle.loads(pickle.dumps(missing.value))
    assert type(again) is TableNotFoundError
    assert str(again) == str(missing.value)
    assert str(again).startswith("{id}.npy: there is no such file.")
