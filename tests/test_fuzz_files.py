"""Files that are broken, cut off or were never what their name says: an error that was meant, or what is in them."""

import gzip
import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.callbacks import Checkpoint
from boostmetric.retrieval import MetricIndex
from boostmetric.tables import PointTable, TableError, read_comparisons, read_points, read_positives, read_relevance
from boostmetric.tenants import TenantMetrics
from hostile import WORDS, attempt, cases, seeds, seldom

IDS = ["a", "b", "c", "日本", "1", "é"]
CELLS = [
    *IDS,
    *WORDS,
    "0.5",
    "1e300",
    "-1e-310",
    "nan",
    "inf",
    "1,5",
    "007",
    "1_000",
    "true",
    "0x10",
    '"',
    "\n",
    "9" * 400,
]
HEADERS = [
    "id",
    "label",
    "x",
    "y",
    "",
    "x",
    "anchor",
    "near",
    "far",
    "query",
    "document",
    "grade",
    "position",
    "clicked",
    "a",
    "b",
    "sign",
    "weight",
    "é\u0301",
]


TABLES = {
    "points": [["id", "label", "x", "y"], ["a", "p", "0.5", "1"], ["b", "q", "1.5", "-2e3"], ["é", "p", "0", "7"]],
    "triplets": [["anchor", "near", "far", "weight"], ["a", "b", "c", "1"], ["b", "c", "a", "0.5"]],
    "quadruplets": [["a", "b", "c", "d"], ["a", "b", "b", "c"], ["1", "b", "c", "a"]],
    "pairs": [["a", "b", "similar"], ["a", "b", "1"], ["b", "c", "-1"], ["1", "c", "1"]],
    "grades": [["query", "document", "grade"], ["a", "b", "2"], ["a", "c", "0"], ["b", "c", "1"]],
    "clicks": [["query", "document", "position", "clicked"], ["a", "b", "1", "0"], ["a", "c", "2", "1"]],
    "rankings": [["query", "document", "position"], ["a", "b", "1"], ["a", "c", "2"], ["a", "日本", "3"]],
}


def _table(draw):
    """Rows of texts: a table of some kind, mostly with nothing or one thing changed; or anything."""
    if seldom(draw, 4):
        n_columns = draw(st.integers(0, 6))
        header = [draw(st.sampled_from(HEADERS)) for _ in range(n_columns)]
        n_rows = draw(st.integers(0, 4))
        return [header, *([draw(st.sampled_from(CELLS)) for _ in range(n_columns)] for _ in range(n_rows))]
    table = [list(row) for row in TABLES[draw(st.sampled_from(sorted(TABLES)))]]
    if draw(st.booleans()):
        row = draw(st.sampled_from(table))
        row[draw(st.integers(0, len(row) - 1))] = draw(st.sampled_from(CELLS + HEADERS))
    if seldom(draw, 8):
        draw(st.sampled_from(table)).append("more")
    if seldom(draw, 8):
        table.append(table[-1])
    return table


def _csv(draw, delimiter):
    return "\n".join(delimiter.join(row) for row in _table(draw)).encode("utf-8", "surrogatepass")


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.sampled_from(CELLS))
NESTED = st.one_of(st.lists(LEAVES, max_size=3), st.dictionaries(st.sampled_from(HEADERS), LEAVES, max_size=3))
JSON = st.one_of(LEAVES, LEAVES, NESTED, st.lists(NESTED, max_size=2))


def _number(text):
    try:
        return float(text)
    except ValueError:
        return text


def _json_lines(draw):
    if draw(st.booleans()):
        header, *rows = _table(draw)
        records = [dict(zip(header, map(_number, row), strict=False)) for row in rows]
        return "\n".join(map(json.dumps, records)).encode()
    records = draw(st.lists(st.one_of(st.dictionaries(st.sampled_from(HEADERS), JSON, max_size=5), JSON), max_size=4))
    return "\n".join(json.dumps(record) for record in records).encode("utf-8", "surrogatepass")


ARRAYS = [
    np.eye(3),
    np.eye(3)[:, :2],
    np.arange(3),
    np.array(["a", "é", "b"]),
    np.array([1.0, np.nan, np.inf]),
    np.zeros((0, 2)),
    np.zeros((3, 0)),
    np.array(1.5),
    np.ones((2, 2, 2)),
    np.array([1j, 2]),
    np.array([b"x", b"y"]),
    np.array(["2020-01-01"], dtype="M8[D]"),
    np.zeros(2, dtype=[("a", float)]),
    np.array([True, False]),
    np.eye(3, dtype=">f4"),
    np.asfortranarray(np.ones((3, 2), dtype=np.float16)),
]


def _npy(draw):
    file = io.BytesIO()
    np.save(file, draw(st.sampled_from(ARRAYS)))
    return file.getvalue()


def _npz(draw):
    file = io.BytesIO()
    names = draw(st.lists(st.sampled_from(["X", "y", "id", "é", "a/b"]), max_size=3, unique=True))
    save = draw(st.sampled_from([np.savez, np.savez_compressed]))
    save(file, **{name: draw(st.sampled_from(ARRAYS)) for name in names})
    return file.getvalue()


def _parquet(draw):
    import pyarrow as pa
    from pyarrow import parquet

    if draw(st.booleans()):
        header, *rows = _table(draw)
        width = len(header)
        made = {name: [_number(row[place]) for row in rows if len(row) == width] for place, name in enumerate(header)}
        texts = {
            name: column if all(type(x) is float for x in column) else list(map(str, column))
            for name, column in made.items()
        }
        file = io.BytesIO()
        parquet.write_table(
            pa.table(
                {
                    name.encode("utf-8", "replace").decode(): pa.array(
                        [x if type(x) is float else x.encode("utf-8", "replace").decode() for x in column]
                    )
                    for name, column in texts.items()
                }
            ),
            file,
        )
        return file.getvalue()
    columns = [
        pa.array([1.5, None, 2.0]),
        pa.array(["a", "é", None]),
        pa.array([[1.0, 2.0], [3.0, 4.0], None]),
        pa.array([[1.0], [2.0, 3.0], []]),
        pa.array([1, 2, 3], type=pa.uint64()),
        pa.array([b"x", b"y", b"z"]),
        pa.array([{"a": 1}] * 3),
        pa.array([float("nan"), float("inf"), 1e300]),
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array([1, 2, 3], type=pa.timestamp("ns")),
        pa.array([True, None, False]),
        pa.nulls(3),
        pa.array(np.array([0.5, 1.5, 2.5], dtype=np.float16)),
    ]
    names = draw(st.lists(st.sampled_from(sorted(set(HEADERS))), max_size=4, unique=True))
    table = pa.table({name: draw(st.sampled_from(columns)) for name in names}).slice(0, draw(st.integers(0, 3)))
    file = io.BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


FORMATS = {
    "csv": lambda draw: _csv(draw, ","),
    "tsv": lambda draw: _csv(draw, "\t"),
    "csv.gz": lambda draw: gzip.compress(_csv(draw, ","), 1, mtime=0),
    "jsonl": _json_lines,
    "npy": _npy,
    "npz": _npz,
    "parquet": _parquet,
}


def damaged(draw, content):
    """Half of the time as it is; else cut off, empty, with other bytes, or with bytes in between."""
    damage = draw(st.sampled_from(["none"] * 6 + ["cut", "bytes", "between", "empty", "other"]))
    place = draw(st.integers(0, max(0, len(content) - 1)))
    other = np.random.default_rng(draw(seeds)).bytes(draw(st.integers(1, 8)))
    return {
        "none": content,
        "cut": content[:place],
        "bytes": content[:place] + other + content[place + len(other) :],
        "between": content[:place] + other + content[place:],
        "empty": b"",
        "other": other,
    }[damage]


@pytest.fixture(scope="module")
def points():
    return PointTable(np.arange(12.0).reshape(6, 2), ids=np.array(IDS, dtype=object))


NAMES = st.sampled_from([None] * 6 + ["x", "é\u0301", "X", "nope"])


@pytest.mark.parametrize("suffix", FORMATS)
@cases(40)
@given(st.data())
def test_tables(tmp_path_factory, points, suffix, data):
    path = tmp_path_factory.mktemp("table") / f"table.{suffix}"
    path.write_bytes(damaged(data.draw, FORMATS[suffix](data.draw)))
    names = {name: data.draw(st.one_of(st.just(name), NAMES)) for name in ("id", "label")}
    names["vector"] = data.draw(NAMES)
    if seldom(data.draw, 3):
        names["columns"] = data.draw(st.sampled_from(["*", "x", ["x", "y"], [], "[", "q*"]))
    if seldom(data.draw, 3):
        names["keep"] = data.draw(st.sampled_from(["x", ["label"], "nope"]))
    found = attempt(read_points, path, **names)
    if found is not None:
        assert np.isfinite(found.points).all()
        assert found.points.ndim == 2
        assert found.describe()
        if found.ids is not None:
            assert (found.find(found.ids) == np.arange(len(found))).all()
    comparisons = attempt(read_comparisons, path, points)
    if comparisons is not None:
        assert comparisons.comparisons.n_points <= len(points)
        assert comparisons.comparisons.n_groups
    for read in (read_relevance, read_positives):
        rows = attempt(read, path, points)
        assert rows is None or np.isfinite(rows).all()


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory):
    """A model, an index and a checkpoint, as they are written."""
    folder = tmp_path_factory.mktemp("whole")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), np.arange(20) % 2
    model = BoostMetric.paper(max_iter=3, callbacks=[Checkpoint(folder / "checkpoint")]).fit(X, y)
    model.save(folder / "model")
    MetricIndex(model).add(X, ids=[f"é{i}" for i in range(20)]).save(folder / "index")
    tenants = TenantMetrics(model)
    tenants.fit("few queries", X[:2], X[2:], [[0, 1, 1], [1, 2, 1]])
    tenants.save(folder / "tenants")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


LOADERS = {
    "model": MahalanobisMetric.load,
    "index": MetricIndex.load,
    "tenants": TenantMetrics.load,
    "checkpoint": Checkpoint.load,
}


@pytest.mark.parametrize("kind", LOADERS)
@cases(60)
@given(st.data())
def test_stored_files(tmp_path_factory, whole_files, kind, data):
    path = tmp_path_factory.mktemp("stored") / "file"
    content = whole_files[data.draw(st.sampled_from([kind] * 8 + sorted(whole_files)))]
    for _ in range(data.draw(st.integers(0, 2))):
        content = damaged(data.draw, content)
    path.write_bytes(content)
    found = attempt(LOADERS[kind], path)
    if kind == "model" and found is not None:
        assert np.isfinite(found.components).all()
    if kind == "checkpoint":
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((20, 3)), np.arange(20) % 2
        fitted = attempt(BoostMetric.paper(max_iter=4).fit, X, y, resume_from=path)
        assert fitted is None or np.isfinite(fitted.components_).all()


def test_checkpoint_of_an_unknown_compression(tmp_path, whole_files):
    """Found by atheris: zipfile says NotImplementedError."""
    content = bytearray(whole_files["checkpoint"])
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.index(mark) + place] = 77
    (tmp_path / "checkpoint").write_bytes(content)
    with pytest.raises(ValueError, match=r"is not a checkpoint of a fit, or it is damaged \(That compression method"):
        Checkpoint.load(tmp_path / "checkpoint")


def rewritten(content, **changes):
    """An npz file with other bytes for some of its members."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w") as new:
        for member in old.namelist():
            new.writestr(member, changes.get(member.removesuffix(".npy"), old.read(member)))
    return file.getvalue()


def bytes_of(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


IMPOSSIBLE = np.array([0x110000], dtype=np.uint32).view("U1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"directions": b"no array"}, "a part of it is not an array"),
        ({"problem": bytes_of(IMPOSSIBLE)}, "a string in it has the character 0x110000, which does not exist"),
        ({"directions": bytes_of(np.full((3, 3), np.nan))}, "directions are not finite numbers"),
        ({"step_sizes": bytes_of(np.array(["a", "b", "c"]))}, "step_sizes are not finite numbers"),
    ],
)
def test_checkpoint_with_other_members(tmp_path, whole_files, change, message):
    """Found by atheris, or looked for after that."""
    (tmp_path / "checkpoint").write_bytes(rewritten(whole_files["checkpoint"], **change))
    with pytest.raises(ValueError, match=rf"or it is damaged \({message}"):
        Checkpoint.load(tmp_path / "checkpoint")


def test_text_of_characters_that_do_not_exist(tmp_path):
    """Found by atheris: a SystemError."""
    np.savez(tmp_path / "p.npz", X=np.eye(1), id=IMPOSSIBLE.astype(">U1"))
    with pytest.raises(TableError, match=r"not a whole npz file \(a string in it has the character 0x110000"):
        read_points(tmp_path / "p.npz", id="id")


def test_compressed_text_that_is_broken_and_not_utf8(tmp_path):
    """Found by hypothesis: the search for the line that is not UTF-8 ran into the broken end."""
    content = gzip.compress(b"x,y\n\xff\xfe,1\n" * 3, mtime=0)
    (tmp_path / "p.csv.gz").write_bytes(content[:-9])
    with pytest.raises(TableError, match=r"not a whole gzip file|is not UTF-8 text"):
        read_points(tmp_path / "p.csv.gz")


def test_ids_in_a_matrix(tmp_path):
    np.savez(tmp_path / "p.npz", X=np.eye(3), id=np.eye(3))
    with pytest.raises(TableError, match=r"\[1.0, 0.0, 0.0\] cannot be an id"):
        read_points(tmp_path / "p.npz", id="id")


def test_header_of_a_type_that_is_no_type(tmp_path):
    """Found by atheris: a SyntaxError of NumPy's."""
    (tmp_path / "p.npy").write_bytes(bytes_of(np.eye(2)).replace(b"'<f8'", b"',f8'"))
    with pytest.raises(TableError, match="not a whole npy file"):
        read_points(tmp_path / "p.npy")
