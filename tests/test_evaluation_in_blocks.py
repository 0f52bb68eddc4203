"""Evaluation on points that are read block by block is evaluation on the points."""

import json

import numpy as np
import pytest
from tests.test_large_files import peak_of
from typer.testing import CliRunner

from boostmetric import Comparisons, MahalanobisMetric
from boostmetric.arrays import point_blocks
from boostmetric.arrays.point_blocks import PointBlocks, Stacked
from boostmetric.cli import app, points
from boostmetric.evaluation import ComparisonTask, LabelTask, RankingTask, compare
from boostmetric.neighbors import in_blocks


class InBlocks(PointBlocks):
    """An array in blocks of a few rows."""

    def __init__(self, X):
        self._X, self.shape, self.dtype = X, X.shape, X.dtype

    def __getitem__(self, rows):
        return InBlocks(self._X[rows])

    def blocks(self):
        yield from (self._X[start : start + 7] for start in range(0, len(self._X), 7))


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(in_blocks, "ROWS", 11)


def drawn(n, dtype, grid=None, seed=0):
    """Points of three classes; on a grid many distances are equal."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = rng.standard_normal((n, 5)) + y[:, None]
    return (X if grid is None else np.round(X * grid)).astype(dtype), y


METRICS = {
    "metric": MahalanobisMetric(np.random.default_rng(5).standard_normal((3, 5))),
    "normalized": MahalanobisMetric(np.random.default_rng(5).standard_normal((3, 5)), normalize=True),
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("grid", [None, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("blocks", [(False, True), (True, False), (True, True)])
def test_labels_are_found_as_in_memory(blocks, dtype, grid, metric):
    (X, y), (R, r) = drawn(40, dtype, grid), drawn(60, dtype, grid, seed=1)
    asked, searched = (InBlocks(some) if in_blocks else some for some, in_blocks in zip((X, R), blocks, strict=True))
    read = []
    found = compare(
        METRICS[metric], LabelTask.of(asked, y, reference=(searched, r)), on_progress=lambda *given: read.append(given)
    )
    expected = compare(METRICS[metric], LabelTask.of(X, y, reference=(R, r)))
    assert found.rows == expected.rows
    n_queries, size = len(X), 7 if blocks[0] else 11
    if blocks[1]:  # of both metrics
        total = 60 * (1 + -(-n_queries // 11))
        assert read[-1][1] == total
        if size == 11:
            assert read[-1] == (total, total)


@pytest.mark.parametrize("grid", [None, 1])
def test_points_that_search_each_other(grid):
    X, y = drawn(60, "float32", grid)
    y[3] = 9  # alone in its class
    with pytest.warns(UserWarning, match="alone in their class"):
        found, expected = (compare(METRICS["metric"], LabelTask.of(some, y)) for some in (InBlocks(X), X))
    assert found.rows == expected.rows
    relevance = np.array([[i, j, 1 + (j % 2)] for i in (4, 20, 41) for j in range(60) if y[i] == y[j] and i != j])
    found, expected = (compare(METRICS["metric"], RankingTask.of(some, None, relevance)) for some in (InBlocks(X), X))
    assert found.rows == expected.rows


@pytest.mark.parametrize("metric", METRICS)
def test_documents_are_ranked_as_in_memory(metric):
    (Q, _), (D, d) = drawn(6, "float32"), drawn(50, "float32", seed=1)
    relevance = np.array([[q, j, 1 + (j % 3)] for q in range(6) for j in range(50) if d[j] == q % 3])
    found, expected = (compare(METRICS[metric], RankingTask.of(Q, some, relevance)) for some in (InBlocks(D), D))
    assert [row.name for row in found.rows] == [row.name for row in expected.rows]  # with the query side
    for row, other in zip(found.rows, expected.rows, strict=True):
        assert (row.base, row.learned, row.low) == pytest.approx((other.base, other.learned, other.low))


@pytest.mark.parametrize("kind", ["triplets", "pairs", "labels"])
def test_of_comparisons_the_points_compared_are_held(kind):
    X, y = drawn(60, "float32")
    comparisons = {
        "triplets": Comparisons.from_triplets([[50, 3, 9], [50, 9, 20], [7, 3, 20]]),
        "pairs": Comparisons.from_pairs([[50, 3], [9, 20]], [[7, 3], [20, 50], [9, 3]]),
        "labels": Comparisons.from_labels(X, y, n_impostors="all"),
    }[kind]
    found, expected = (compare(METRICS["metric"], ComparisonTask.of(comparisons, some)) for some in (InBlocks(X), X))
    assert found.rows == expected.rows
    if kind == "triplets":
        assert ComparisonTask.of(comparisons, InBlocks(X)).points[0].shape == (5, 5)


def test_sets_of_points_follow_each_other():
    X, _ = drawn(60, "float32")
    stacked = Stacked([X[:20], InBlocks(X[20:35]), InBlocks(X[35:35]), InBlocks(X[35:])])
    np.testing.assert_array_equal(stacked.in_memory(), X)
    for rows in (slice(20, None), slice(0, 0), np.arange(0, 60, 7), np.array([19, 20, 34, 35, 59]), X[:, 0] > 0):
        np.testing.assert_array_equal(stacked[rows].in_memory(), X[rows])
        assert stacked[rows].shape == X[rows].shape


def test_the_reference_must_be_others():
    X, y = drawn(20, "float32")
    with pytest.raises(ValueError, match="reference holds the queries themselves"):
        LabelTask.of(InBlocks(X), y, reference=(InBlocks(X.copy()), y))


@pytest.fixture
def files(tmp_path):
    (X, y), (R, r) = drawn(40, "float32"), drawn(300, "float32", seed=1)
    np.savez(tmp_path / "asked.npz", X=X, y=y, id=np.arange(1000, 1040))
    np.savez(tmp_path / "all.npz", X=R, y=r, id=np.arange(300))
    lines = [f"{1000 + i},{j},1\n" for i in range(40) for j in range(i, 300, 40) if y[i] == r[j]]
    (tmp_path / "grades.csv").write_text("query,document,grade\n" + "".join(lines))
    METRICS["metric"].save(tmp_path / "m.st")
    return tmp_path


@pytest.mark.parametrize("task", ["reference", "relevance", "grades", "positives", "reference-where"])
def test_the_command_leaves_large_files_where_they_are(files, task, monkeypatch):
    monkeypatch.setattr(point_blocks, "ROWS", 64)
    if task == "reference":
        arguments = ["asked.npz", "--label", "y", "--ignore", "id", "--reference", str(files / "all.npz")]
    elif task == "reference-where":
        arguments = ["all.npz", "--label", "y", "--where", "id<40", "--reference-where", "id>=40"]
    else:
        arguments = ["all.npz", "--id", "id", "--ignore", "y", "--queries", str(files / "asked.npz")]
        arguments += ["--relevance" if task == "relevance" else "--comparisons", str(files / "grades.csv")]
        if task == "grades":
            header, *rows = (files / "grades.csv").read_text().split()
            graded = [f"{row[:-1]}{1 + number % 2}" for number, row in enumerate(rows)]
            (files / "grades.csv").write_text("\n".join([header, *graded]))
    arguments = ["evaluate", str(files / "m.st"), str(files / arguments[0]), *arguments[1:], "--json"]

    def evaluated(*more):
        done = CliRunner().invoke(app, [*arguments, *more])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout), done.stderr

    expected, said = evaluated()
    assert "Points" not in said
    monkeypatch.setattr(points, "LARGE", 0)
    found, said = evaluated()
    assert found["scores"] == [pytest.approx(score) for score in expected["scores"]]
    n = 260 if task == "reference-where" else 300
    assert f"of {n * (1 + 4)}" in said  # to know their extent, and for each eleven of the queries
    assert "Points" not in evaluated("--quiet")[1]


@pytest.mark.parametrize("name", ["x.npy", "x.parquet"])
def test_evaluate_takes_no_more_memory_for_more_points(tmp_path, name):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400_000, 128), dtype=np.float32), np.arange(400_000) % 3  # 200 MB
    np.savez(tmp_path / "asked.npz", X=X[:50] + 1, y=y[:50])
    MahalanobisMetric(np.eye(128)).save(tmp_path / "m.st")
    peaks = []
    for n in (270_000, len(X)):
        path = tmp_path / name
        if name == "x.npy":
            np.save(path, X[:n])
            np.save(tmp_path / "y.npy", y[:n])
            tested = [path, "--label", f"{tmp_path / 'y.npy'},{tmp_path / 'y.npy'}"]
            np.save(tmp_path / "asked.npy", X[:50] + 1)
            np.save(tmp_path / "labels.npy", y[:50])
            tested = [tmp_path / "asked.npy", "--label", f"{tmp_path / 'labels.npy'},{tmp_path / 'y.npy'}"]
        else:
            pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[:n].ravel()), 128)
            pq.write_table(pa.table({"X": vectors, "y": y[:n]}), path, use_dictionary=False, compression="none")
            tested = [tmp_path / "asked.npz", "--label", "y"]
        peaks.append(peak_of("evaluate", tmp_path / "m.st", *tested, "--reference", path, "-q"))
    assert peaks[1] - peaks[0] < 40  # of 66 MB more


def test_judged_documents_alone_are_ranked_as_in_memory():
    (Q, _), (D, d) = drawn(6, "float32"), drawn(50, "float32", seed=1)
    relevance = np.array([[q, j, j % 3] for q in range(6) for j in range(50) if d[j] == q % 3])
    tasks = (RankingTask.of(Q, some, relevance, only_judged=True) for some in (InBlocks(D), D))
    found, expected = (compare(METRICS["metric"], task) for task in tasks)
    for row, other in zip(found.rows, expected.rows, strict=True):
        assert (row.base, row.learned, row.low) == pytest.approx((other.base, other.learned, other.low))
