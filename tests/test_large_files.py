"""Files of points that are read block by block."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from boostmetric import MahalanobisMetric
from boostmetric.cli import app
from boostmetric.tables import TableError, file_points, open_points, read_points

runner = CliRunner()


def run(*arguments, code=0):
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(file_points, "ROWS", 7)


@pytest.fixture
def model(tmp_path):
    metric = MahalanobisMetric(np.random.default_rng(0).standard_normal((2, 3)))
    metric.save(tmp_path / "m.st")
    return metric


def points(n=40):
    return np.random.default_rng(1).standard_normal((n, 3)).astype(np.float32)


def write(path, X):
    """Points with ids, a class and a price, in any format."""
    ids, kinds, prices = [f"p{i}" for i in range(len(X))], np.arange(len(X)) % 3, np.arange(len(X)) / 4
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.name.endswith("f.npz"):
        np.savez(path, X=np.asfortranarray(X), id=np.array(ids), kind=kinds, price=prices)
    elif path.suffix == ".npz":
        np.savez_compressed(path, X=X, id=np.array(ids), kind=kinds, price=prices)
    elif path.suffix == ".csv":
        rows = zip(ids, kinds, prices, X.tolist(), strict=True)
        path.write_text("id,kind,price,a,b,c\n" + "".join(f"{i},{k},{p},{a},{b},{c}\n" for i, k, p, (a, b, c) in rows))
    elif path.suffix == ".jsonl":
        rows = zip(ids, kinds.tolist(), prices.tolist(), X.tolist(), strict=True)
        path.write_text("".join(json.dumps({"id": i, "kind": k, "price": p, "v": v}) + "\n" for i, k, p, v in rows))
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = {"id": ids, "kind": kinds, "price": prices, "v": list(X)}
        pq.write_table(pa.table(table), path, row_group_size=11)
    return path


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "f.npz", "x.csv", "x.jsonl", "x.parquet"])
def test_blocks_are_the_points(small_blocks, tmp_path, name):
    X = points()
    path = write(tmp_path / name, X)
    asked = {} if name == "x.npy" else {"id": "id", "label": "kind", "keep": "price"}
    table, whole = open_points(path, **asked), read_points(path, **asked)
    blocks = list(table.points.blocks())
    assert [len(block) for block in blocks] == [7] * 5 + [5]
    assert np.concatenate(blocks) == pytest.approx(X)
    assert {block.dtype for block in blocks} == {whole.points.dtype} == {table.points.dtype}
    assert table.describe() == whole.describe()
    assert table.points.shape == whole.points.shape
    if asked:
        assert table.ids.tolist() == whole.ids.tolist()
        assert table.labels.tolist() == whole.labels.tolist()
        assert table.numbers_kept("price").tolist()[:3] == (
            ["0.0", "0.25", "0.5"] if name == "x.csv" else [0, 0.25, 0.5]
        )
    some = table.take(np.arange(40) % 3 == 1).take(np.arange(5, 10))
    assert np.concatenate(list(some.points.blocks())) == pytest.approx(X[1::3][5:10])


def test_files_are_one_table(small_blocks, tmp_path):
    X = points()
    paths = [write(tmp_path / "a.npy", X[:9]), write(tmp_path / "b.npy", X[9:])]
    assert np.concatenate(list(open_points(paths).points.blocks())) == pytest.approx(X)


def test_errors_of_features_come_with_the_blocks(tmp_path):
    X = points()
    X[33, 1] = np.nan
    table = open_points(write(tmp_path / "x.npy", X))
    with pytest.raises(TableError, match=r"row 33 .*nan is not a finite number"):
        list(table.points.blocks())
    np.save(tmp_path / "x.npy", points(39))
    with pytest.raises(TableError, match="had 40 rows and has 39 now"):
        list(table.points.blocks())


@pytest.mark.parametrize("source", ["x.npz", "x.csv", "x.parquet"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".jsonl", ".parquet"])
def test_transform_in_blocks(small_blocks, tmp_path, model, source, suffix):
    pytest.importorskip("pyarrow")
    X = points()
    path, output = write(tmp_path / source, X), tmp_path / f"out{suffix}"
    extra = ["--keep", "price"] if suffix != ".npy" else ["--ignore", "price"] if source == "x.csv" else []
    columns = ["--id", "id", "--label", "kind", "--where", "kind!=1", *extra]
    done = run("transform", tmp_path / "m.st", path, *columns, "-o", output)
    assert "Points: 27 of 27" in done.stderr
    if suffix == ".npy":
        assert np.load(output) == pytest.approx(model.transform(X[np.arange(40) % 3 != 1]), rel=1e-5)
        return
    back = read_points(output, id="id", label="kind", keep="price")
    assert back.points == pytest.approx(model.transform(X[np.arange(40) % 3 != 1]), rel=1e-5)
    assert back.ids.tolist() == [f"p{i}" for i in range(40) if i % 3 != 1]
    assert [float(price) for price in back.kept["price"]] == [i / 4 for i in range(40) if i % 3 != 1]
    if suffix == ".npz" and source != "x.csv":
        with np.load(output) as arrays:
            assert arrays["price"].dtype == np.float64


def test_transform_writes_all_or_nothing(small_blocks, tmp_path, model):
    X = points()
    X[33, 1] = np.inf
    path, output = write(tmp_path / "x.npy", X), tmp_path / "out.npy"
    failed = run("transform", tmp_path / "m.st", path, "-o", output, code=1)
    assert "row 33" in failed.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.st", "x.npy"]
    refused = run("transform", tmp_path / "m.st", path, "-o", output, "--keep", "price", code=2)
    assert "holds numbers alone" in " ".join(refused.stderr.replace("│", " ").split())


def peak_of(*arguments):
    """Peak memory of a command in MB."""
    code = (
        "import sys; from pathlib import Path; from boostmetric.cli import app\n"
        "try: app(sys.argv[1:])\n"
        "finally: print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1]) / 2**10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no such figure on this system")
@pytest.mark.parametrize("name", ["x.npy", "x.parquet"])
def test_transform_takes_no_more_memory_for_more_points(tmp_path, model, name):
    X = np.ones((2_000_000, 16), dtype=np.float32)  # 128 MB
    MahalanobisMetric(np.eye(16)).save(tmp_path / "m.st")
    peaks = []
    for n in (500_000, len(X)):
        path = tmp_path / name
        if name == "x.npy":
            np.save(path, X[:n])
        else:
            pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[:n].ravel()), 16)
            pq.write_table(pa.table({"v": vectors}), path, use_dictionary=False, compression="none")
        arguments = ["transform", tmp_path / "m.st", path, "-o", tmp_path / f"{n}.npy", "-q"]
        peaks.append(peak_of(*arguments))
    assert peaks[1] - peaks[0] < 50
