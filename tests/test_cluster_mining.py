"""Targets and impostors mined part by part: the same as of all points at once, in this process and on a cluster."""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_iris, load_wine
from typer.testing import CliRunner

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons
from boostmetric.arrays.frame import Shift
from boostmetric.cli import app
from boostmetric.comparisons.labels import mine
from boostmetric.engines.ray import RayEngine
from boostmetric.mining import mine_neighbors
from boostmetric.neighbors import rounding_of_distances
from boostmetric.neighbors import streams as neighbor_streams
from boostmetric.neighbors.streams import NearestSoFar
from boostmetric.tables import TableError, TableNotFoundError, read_comparisons, read_points
from clustered import processes


def points_of(name):
    rng = np.random.default_rng(0)
    if name == "iris":  # on a grid of one decimal, with duplicates: full of ties
        return load_iris(return_X_y=True)
    if name == "wine":
        return load_wine(return_X_y=True)
    if name == "far single":  # ties that are none in their last bits, far from zero
        grid = (rng.integers(0, 6, (300, 4)) / 10 + 1000).astype(np.float32)
        return grid, rng.integers(0, 4, 300)
    if name == "copies":  # more equal points than neighbours are wanted
        return np.repeat(rng.standard_normal((8, 3)), 40, axis=0), rng.integers(0, 3, 320)
    if name == "clusters":  # which single precision does not tell apart
        centre = 1000 * rng.standard_normal((3, 6))[rng.integers(0, 3, 300)]
        return centre + 1e-5 * rng.standard_normal((300, 6)), rng.integers(0, 3, 300)
    if name == "scales":
        small = 1e-40 * rng.standard_normal((200, 5))
        return np.concatenate([small, rng.standard_normal((200, 5))]), rng.integers(0, 3, 400)
    assert name == "unequal classes"  # one of a single point, one with fewer than are wanted
    return rng.standard_normal((200, 40)), np.repeat([0, 1, 2, 3, 4], [150, 44, 3, 2, 1])[rng.permutation(200)]


NAMES = ["iris", "wine", "far single", "copies", "clusters", "scales", "unequal classes"]


def write_points(folder, X, y, n_files=3, row_group=17, ids=None, vector=False):
    folder.mkdir(exist_ok=True)
    ids = np.arange(len(X)) * 7 + 3 if ids is None else np.asarray(ids)
    for number, rows in enumerate(np.array_split(np.arange(len(X)), n_files)):
        if vector:
            columns = {"v": pa.FixedSizeListArray.from_arrays(pa.array(X[rows].ravel()), X.shape[1])}
        else:
            columns = {f"f{f}": X[rows, f] for f in range(X.shape[1])}
        table = pa.table({"id": ids[rows], "label": y[rows], **columns})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=row_group)
    return f"{folder}/*.parquet"


def assert_same(mined, points, X, y, n_neighbors, n_impostors):
    """One group for each point that has a target, of the same targets and impostors in the same order."""
    table = read_points(points, id="id", label="label")
    anchors, targets, impostors = mine(X, y, n_neighbors=n_neighbors, n_impostors=n_impostors, quiet=True)
    rows = read_points_free(mined.files)
    expected_query = np.repeat(anchors, targets.sizes + impostors.sizes)
    row = np.concatenate([targets.row, impostors.row])
    order = np.argsort(row, kind="stable")
    expected_document = np.concatenate([targets.values, impostors.values])[order]
    expected_grade = np.repeat([1, 0], [len(targets.values), len(impostors.values)])[order]
    assert table.find(rows["query"]).tolist() == expected_query.tolist()
    assert table.find(rows["document"]).tolist() == expected_document.tolist()
    assert rows["grade"].tolist() == expected_grade.tolist()
    assert (mined.n_anchors, mined.n_rows) == (len(anchors), len(expected_query))


def read_points_free(pattern):
    table = pa.concat_tables([pq.read_table(path) for path in sorted(Path(pattern).parent.glob("part-*.parquet"))])
    return {name: np.array(table[name].to_pylist()) for name in table.column_names}


@pytest.mark.filterwarnings("ignore:.* classes have fewer")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n_neighbors", "n_impostors"), [(3, 3), (1, 30)])
def test_same_as_of_all_points_at_once(tmp_path, name, n_neighbors, n_impostors):
    X, y = points_of(name)
    points = write_points(tmp_path / "points", X, y)
    options = {"n_neighbors": n_neighbors, "n_impostors": n_impostors, "rows_per_part": 40}
    mined = mine_neighbors(points, tmp_path / "mined", label="label", id="id", **options)
    assert mined.n_parts > 3
    assert_same(mined, points, X, y, n_neighbors, n_impostors)


@pytest.mark.parametrize("batch", [1, 7, 100, 1000])
@pytest.mark.parametrize("name", NAMES)
def test_streams_do_not_depend_on_the_batches(name, batch):
    X, y = points_of(name)
    anchors, targets, impostors = mine(X, y, n_neighbors=2, n_impostors=5, quiet=True)
    shift = Shift.of(X[0], X.min(axis=0), X.max(axis=0))
    placed, rounding = shift.coordinates_of(X), float(np.ldexp(rounding_of_distances(X), -shift.exponent))
    some = anchors[::9]
    search = NearestSoFar(placed[some], y[some], some, 2, 5, rounding, n_threads=2)
    for first in range(0, len(X), batch):
        search.offer(placed[first : first + batch], y[first : first + batch], first)
    same, others = search.nearest()
    assert np.array_equal(same.values, targets.take(np.arange(len(anchors))[::9]).values)
    assert np.array_equal(others.values, impostors.take(np.arange(len(anchors))[::9]).values)


def test_more_points_of_an_anchor_than_there_is_room_for():
    """Points that come nearer and nearer, each of which is the nearest so far."""
    X = np.concatenate([[0.0], np.linspace(9, 1, 3000)])[:, None]
    y = np.arange(len(X)) % 2
    shift = Shift.of(X[0], X.min(axis=0), X.max(axis=0))
    search = NearestSoFar(shift.coordinates_of(X[:1]), y[:1], np.zeros(1, dtype=int), 2, 2, 0.0)
    search.offer(shift.coordinates_of(X), y, 0)
    same, others = search.nearest()
    assert same.values.tolist() == [3000, 2998]
    assert others.values.tolist() == [2999, 2997]


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_the_first_of_those_that_are_equal_up_to_rounding(batch):
    """Also if it is farther by less than the rounding; and not if a still nearer one comes, from which it is not."""
    for x, expected in (
        ([0.0, 0.5 + 8e-7, 0.5, 0.9], [1]),
        ([0.0, 0.5 + 8e-7, 0.5, 0.5 - 4e-7], [2]),
        ([0.0, 0.5 + 8e-7, 0.5, 0.5], [1]),
    ):
        X, y = np.array(x)[:, None], np.zeros(len(x), dtype=int)
        search = NearestSoFar(X[:1], y[:1], np.zeros(1, dtype=int), 1, 1, 1e-6)
        for first in range(0, len(X), batch):
            search.offer(X[first : first + batch], y[first : first + batch], first)
        assert search.nearest()[0].values.tolist() == expected


def test_batches_are_not_held():
    """Nor is there garbage to collect, which may happen late."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    search = NearestSoFar(X, np.arange(40) % 2, np.arange(40), 1, 1, 0.0)
    gc.disable()
    try:
        search.offer(X, np.arange(40) % 2, 0)
        assert not any(type(thing) is neighbor_streams._Batch for thing in gc.get_objects())
    finally:
        gc.enable()


@pytest.mark.parametrize("ids", ["text", "mixed", "rows"])
@pytest.mark.parametrize("vector", [False, True])
def test_ids_and_labels_of_all_kinds(tmp_path, ids, vector):
    X, y = load_wine(return_X_y=True)
    names = [f"w{row:03}" if ids == "text" or row > 100 else str(row) for row in range(len(X))]
    labels = np.array(["Barolo", "Grignolino", "Barbera"])[y]
    points = write_points(tmp_path / "points", X, labels, ids=names, vector=vector)
    if ids == "mixed":  # whole numbers in the first file, text in the others: 7 and "7" are one id
        first = tmp_path / "points" / "0.parquet"
        table = pq.read_table(first)
        pq.write_table(table.set_column(0, "id", table["id"].cast(pa.int64())), first)
    options = {"label": "label", "rows_per_part": 50}
    if ids == "rows":
        mined = mine_neighbors(points, tmp_path / "mined", ignore="id", **options)
        table = read_points(points, label="label", ignore="id")
        found = read_comparisons(mined.files, table).comparisons
        expected = Comparisons.from_labels(X, y)
        assert sorted(found.quadruplets()) == sorted(expected.quadruplets())
    else:
        mined = mine_neighbors(points, tmp_path / "mined", id="id", **options)
        assert_same(mined, points, X, y, 3, 3)


def fitted_from(mined, points, **options):
    table = read_points(points, id="id", label="label")
    comparisons = read_comparisons(mined.files, table)
    return ComparisonBoostMetric(**options).fit(comparisons.comparisons, points=comparisons.points)


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_same_metric_from_the_parts(tmp_path, name):
    X, y = points_of(name)
    points = write_points(tmp_path / "points", X, y)
    mined = mine_neighbors(points, tmp_path / "mined", label="label", id="id", n_impostors=5, rows_per_part=30)
    found = fitted_from(mined, points, max_iter=20).get_mahalanobis_matrix()
    expected = BoostMetric.paper(n_neighbors=3, n_impostors=5, max_iter=20).fit(X, y).get_mahalanobis_matrix()
    assert np.linalg.norm(found - expected) < 1e-9 * np.linalg.norm(expected)


@pytest.fixture
def wine(tmp_path):
    X, y = load_wine(return_X_y=True)
    return write_points(tmp_path / "points", X, y), tmp_path / "mined"


OPTIONS = {"label": "label", "id": "id", "rows_per_part": 30}


def test_what_is_there_is_not_done_again(wine):
    points, output = wine
    seen = []
    whole = mine_neighbors(points, output, **OPTIONS, on_progress=lambda *done: seen.append(done))
    assert seen == [(done, 6) for done in range(7)]
    assert whole.n_found == 0
    paths = sorted(output.glob("part-*.parquet"))
    contents = [path.read_bytes() for path in paths]
    paths[1].unlink()
    paths[3].write_bytes(contents[3][:100])  # not whole
    pq.write_table(pq.read_table(paths[4]).replace_schema_metadata({}), paths[4])  # of nobody knows what
    (output / ".part-00001-of-00006-abc.parquet").write_bytes(b"left over")
    times = [path.stat().st_mtime_ns for path in (paths[0], paths[2], paths[5])]
    again = mine_neighbors(points, output, **OPTIONS)
    assert again.n_found == 3
    assert again.n_rows == whole.n_rows
    assert "3 of them there already" in again.describe()
    assert [path.read_bytes() for path in paths] == contents
    assert [path.stat().st_mtime_ns for path in (paths[0], paths[2], paths[5])] == times
    assert not list(output.glob(".part-*"))


def test_a_run_that_was_killed_goes_on(wine):
    points, output = wine
    code = f"""
import os, signal
from boostmetric.mining import mine_neighbors

def kill(done, total):
    if done == 2:
        os.kill(os.getpid(), signal.SIGKILL)

mine_neighbors({points!r}, {str(output)!r}, **{OPTIONS!r}, on_progress=kill)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(list(output.glob("part-*.parquet"))) == 2
    mined = mine_neighbors(points, output, **OPTIONS)
    assert mined.n_found == 2
    assert_same(mined, points, *load_wine(return_X_y=True), 3, 3)


def test_other_settings_in_one_folder_are_refused(wine, tmp_path):
    points, output = wine
    mine_neighbors(points, output, **OPTIONS)
    with pytest.raises(
        TableError, match=r"mined holds parts that do not fit: n_neighbors was 3 and is 2\. Name another"
    ):
        mine_neighbors(points, output, **OPTIONS, n_neighbors=2)
    X, y = load_wine(return_X_y=True)
    X[0, 0] += 1
    write_points(tmp_path / "points", X, y)
    with pytest.raises(TableError, match="the files of points are others, or have changed"):
        mine_neighbors(points, output, **OPTIONS)
    (output / "mining.json").write_text("{")
    with pytest.raises(TableError, match=r"mining\.json cannot be read\. Remove"):
        mine_neighbors(points, output, **OPTIONS)
    (output / "mining.json").unlink()
    with pytest.raises(TableError, match="is not empty, and holds no mined parts"):
        mine_neighbors(points, output, **OPTIONS)
    with pytest.raises(TableError, match="holds the files of points"):
        mine_neighbors(points, tmp_path / "points", **OPTIONS)


def damage(path):
    """The rows of a file, and not its footer."""
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)


def test_files_that_are_damaged_or_missing(wine, tmp_path):
    points, output = wine
    file = tmp_path / "points" / "1.parquet"
    whole = file.read_bytes()

    def after_a_part(change):
        def call(done, total):
            if done == 1:
                change(file)

        return call

    for change, error in ((damage, TableError), (Path.unlink, TableNotFoundError)):
        for part in output.glob("part-*"):
            part.unlink()
        with pytest.raises(error, match=r"1\.parquet"):
            mine_neighbors(points, output, **OPTIONS, on_progress=after_a_part(change))
        assert len(list(output.glob("part-*.parquet"))) == 1
        assert not list(output.glob(".part-*"))
        file.write_bytes(whole)
    assert mine_neighbors(points, output, **OPTIONS).n_found == 1


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"n_impostors": "all"}, r"n_impostors must be a whole number of at least 1\. Got 'all'"),
        ({}, {"rows_per_part": 0}, r"rows_per_part must be a whole number of at least 1\. Got 0"),
        ({}, {"label": "kind"}, "there is no column of labels 'kind'"),
        ({}, {"engine": "dask"}, r"engine must be one of 'ray'\. Got 'dask'"),
        ({"label": np.zeros(10)}, {}, r"column 'label': All 10 samples have the label 0"),
        ({"label": np.arange(10)}, {}, "Each of the 10 labels occurs once"),
        (
            {"f0": [1.0, np.nan, *range(8)]},
            {},
            r"0\.parquet, row 1 \(counted from 0\), column 'f0': nan is not a finite",
        ),
        (
            {"id": [0, 1, 2, 3, 4, 5, 6, 7, 8, 2]},
            {},
            r"1\.parquet, row 4 .*: id '2' is also that of .*0\.parquet, row 2",
        ),
        ({"id": [*"abcdefgh", "a", None]}, {}, r"1\.parquet, row 4 .*column 'id': no id"),
        ({"id": [*"abcdefghia"]}, {}, r"1\.parquet, row 4 .*: id 'a' is also that of .*0\.parquet, row 0"),
    ],
)
@pytest.mark.filterwarnings("ignore:.* classes have fewer")
def test_what_is_wrong_is_told(tmp_path, change, options, message):
    table = {"id": list(range(10)), "label": [0, 1] * 5, "f0": list(range(10))} | change
    for number, rows in enumerate((slice(0, 5), slice(5, 10))):
        pq.write_table(pa.table({name: values[rows] for name, values in table.items()}), tmp_path / f"{number}.parquet")
    options = {"label": "label", "id": "id", "rows_per_part": 3} | options
    with pytest.raises(ValueError, match=message):
        mine_neighbors(f"{tmp_path}/*.parquet", tmp_path / "mined", **options)


def test_files_that_do_not_belong_together(tmp_path):
    for number, size in enumerate((2, 3)):
        vectors = pa.array(np.eye(4, size).tolist())
        pq.write_table(pa.table({"label": [0, 0, 1, 1], "v": vectors}), tmp_path / f"{number}.parquet")
    with pytest.raises(TableError, match=r"1\.parquet: the vectors have 3 numbers, those of .*0\.parquet have 2"):
        mine_neighbors(f"{tmp_path}/*.parquet", tmp_path / "mined", label="label")
    (tmp_path / "points.csv").write_text("label,x\na,1\nb,2\n")
    with pytest.raises(TableError, match=r"points\.csv: only Parquet files are mined in parts, and this is CSV"):
        mine_neighbors(tmp_path / "points.csv", tmp_path / "mined", label="label")


def test_small_classes_are_warned_of(tmp_path):
    points = write_points(tmp_path / "points", *points_of("unequal classes"))
    with pytest.warns(UserWarning, match=r"3 of 5 classes have fewer than n_neighbors \+ 1 = 4 .*\(class 4 has 1\)"):
        mined = mine_neighbors(points, tmp_path / "mined", label="label", id="id")
    assert (mined.n_points, mined.n_anchors, mined.n_classes) == (200, 199, 5)


def test_files_without_rows_are_passed_over(wine, tmp_path):
    points, output = wine
    first = tmp_path / "points" / "0.parquet"
    pq.write_table(pq.read_table(first).slice(0, 0), tmp_path / "points" / "00.parquet")
    pq.write_table(pq.read_table(first).slice(0, 0), tmp_path / "points" / "3.parquet")
    mined = mine_neighbors(points, output, **OPTIONS)
    assert_same(mined, points, *load_wine(return_X_y=True), 3, 3)


def test_command(wine):
    points, output = wine
    command = ["neighbors", points, "--label", "label", "--id", "id", "-o", str(output), "--rows-per-part", "30"]
    done = CliRunner().invoke(app, [*command, "--impostors", "2", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["n_rows"] == 178 * 5
    assert (
        CliRunner().invoke(app, [*command, "--impostors", "2"]).stdout.startswith("890 rows (query, document, grade)")
    )
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    assert "n_impostors was 2 and is 3" in done.stderr.replace("--impostors", "n_impostors")
    done = CliRunner().invoke(app, [*command, "--workers", "2"])
    assert done.exit_code == 2


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray", reason="needs ray: make test-ray installs it")
    with RayEngine(n_workers=2).connected() as ray:
        yield ray


on_ray = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]  # Ray's own code warns of what it will change


class TestOnRay:
    """The same in processes of a cluster."""

    pytestmark = on_ray

    @pytest.mark.parametrize("name", ["iris", "far single", "unequal classes"])
    def test_same_as_of_all_points_at_once(self, cluster, tmp_path, name):
        X, y = points_of(name)
        points = write_points(tmp_path / "points", X, y)
        mined = mine_neighbors(points, tmp_path / "mined", **OPTIONS, engine="ray")
        assert mined.n_parts > 4
        assert_same(mined, points, X, y, 3, 3)

    def test_same_metric_from_the_parts(self, cluster, wine):
        points, output = wine
        mined = mine_neighbors(points, output, **OPTIONS, engine=RayEngine(n_workers=2))
        found = fitted_from(mined, points, max_iter=10).get_mahalanobis_matrix()
        expected = BoostMetric.paper(max_iter=10).fit(*load_wine(return_X_y=True)).get_mahalanobis_matrix()
        assert np.linalg.norm(found - expected) < 1e-9 * np.linalg.norm(expected)

    def test_a_worker_that_is_killed(self, cluster, tmp_path):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((12000, 8)), rng.integers(0, 3, 12000)
        points = write_points(tmp_path / "points", X, y, n_files=2, row_group=1000)
        killed = []

        def kill(done, total):
            if done in (1, 4):
                Thread(target=kill_a_worker, args=(killed,)).start()

        engine = RayEngine(n_workers=2)
        options = {"label": "label", "id": "id", "rows_per_part": 500, "engine": engine}
        mined = mine_neighbors(points, tmp_path / "mined", **options, on_progress=kill)
        assert len(killed) == 2
        assert mined.n_found == 0
        assert_same(mined, points, X, y, 3, 3)

    def test_what_is_wrong_is_told(self, cluster, wine, tmp_path):
        """As in this process: no error of Ray."""
        points, output = wine
        file = tmp_path / "points" / "1.parquet"
        whole = file.read_bytes()
        damage(file)
        with pytest.raises(TableError, match=r"1\.parquet: not a whole Parquet file") as caught:
            mine_neighbors(points, output, **OPTIONS, engine="ray")
        assert type(caught.value) is TableError
        file.write_bytes(whole)

        def remove(done, total):
            if done == 2:
                file.unlink(missing_ok=True)

        with pytest.raises(TableNotFoundError, match=r"1\.parquet: there is no such file"):
            mine_neighbors(points, output, **OPTIONS, engine="ray", on_progress=remove)
        n_done = len(list(output.glob("part-*.parquet")))
        assert n_done >= 2
        file.write_bytes(whole)
        mined = mine_neighbors(points, output, **OPTIONS)  # and goes on without Ray
        assert mined.n_found >= n_done
        assert_same(mined, points, *load_wine(return_X_y=True), 3, 3)


def kill_a_worker(killed):
    """A process that does a task, as soon as there is one."""
    for _ in range(1000):
        for pid in processes("answer")[:1]:
            with suppress(ProcessLookupError):  # it has just ended: the next one
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return
        time.sleep(0.002)
