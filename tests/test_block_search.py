"""Search among points read in blocks: what an index that holds them all finds."""

import csv
import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from boostmetric import MahalanobisMetric
from boostmetric.arrays import point_blocks
from boostmetric.cli import app
from boostmetric.retrieval import MetricIndex, backends, block_search, search_blocks
from boostmetric.tables import file_points, open_points


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(file_points, "ROWS", 64)


def opened(tmp_path, X):
    np.save(tmp_path / "points.npy", X)
    return open_points(tmp_path / "points.npy").points


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [3, 40])
def test_as_an_index_finds_them(small_blocks, tmp_path, dtype, n_features):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, n_features)).astype(dtype)
    X[400:420] = X[:20]  # ties
    Q = np.concatenate([X[:30], rng.standard_normal((20, n_features)).astype(dtype)])
    for metric in (None, MahalanobisMetric(rng.standard_normal((5, n_features)), normalize=True)):
        rows, distances = search_blocks(metric, opened(tmp_path, X), Q, 7)
        expected, far = MetricIndex(metric).add(X).search(Q, 7)
        assert np.array_equal(rows, expected)
        np.testing.assert_allclose(distances, far, rtol=1e-9, atol=1e-9)
        assert (np.diff(distances, axis=1) >= 0).all()


def test_ties_on_a_grid_are_broken_by_the_number_of_the_row(small_blocks, tmp_path):
    X = load_iris().data
    rows, _ = search_blocks(None, opened(tmp_path, X), X, 10)
    assert np.array_equal(rows, MetricIndex().add(X).search(X, 10)[0])
    assert np.array_equal(rows[:, 0], [int((x == X).all(axis=1).argmax()) for x in X])


@pytest.mark.parametrize("scale", [1e-140, 1e120])
def test_points_of_any_size(small_blocks, tmp_path, scale):
    X = np.random.default_rng(0).standard_normal((200, 4)) * scale
    rows, distances = search_blocks(None, opened(tmp_path, X), X[:9], 3)
    expected, far = MetricIndex().add(X).search(X[:9], 3)
    assert np.array_equal(rows, expected)
    np.testing.assert_allclose(distances, far, rtol=1e-9)


def test_many_queries_are_searched_in_parts_with_any_number_of_threads(small_blocks, tmp_path, monkeypatch):
    X = np.random.default_rng(0).standard_normal((300, 5))
    points = opened(tmp_path, X)
    seen = []
    one = search_blocks(None, points, X, 4, n_jobs=1, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (600, 600)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    monkeypatch.setattr(block_search, "_QUERIES", 128)
    for n_jobs in (1, 3):
        again = search_blocks(None, points, X, 4, n_jobs=n_jobs)
        assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))


def test_no_queries_and_all_points(small_blocks, tmp_path):
    points = opened(tmp_path, np.eye(3))
    assert [found.shape for found in search_blocks(None, points, np.empty((0, 3)), 2)] == [(0, 2)] * 2
    assert search_blocks(None, points, [[1.0, 0.1, 0.0]], 3)[0].tolist() == [[0, 1, 2]]


def test_messages(tmp_path):
    points = opened(tmp_path, np.array([[1.0, 0.0], [1e160, 0.0]]))
    with pytest.raises(ValueError, match=r"Row 1 of the points has numbers that are NaN, infinite, or above 1e\+150"):
        search_blocks(None, points, [[0.0, 0.0]], 1)
    with pytest.raises(ValueError, match=r"k=3 is more than the 2 points to search among\. Lower k"):
        search_blocks(None, points, [[0.0, 0.0]], 3)
    with pytest.raises(ValueError, match=r"Q must have shape \(n_queries, 2\), as the points have\. Got \(2,\)"):
        search_blocks(None, points, [0.0, 0.0], 1)


def test_blocks_are_read_by_the_command(small_blocks, tmp_path):
    X = np.random.default_rng(0).standard_normal((200, 3))
    names = [f"p{row}" for row in range(200)]
    table = "id,x,y,z\n" + "".join(
        f"{name},{','.join(map(repr, row))}\n" for name, row in zip(names, X.tolist(), strict=True)
    )
    (tmp_path / "points.csv").write_text(table)
    MahalanobisMetric(np.diag([3.0, 1.0, 0.1])).save(tmp_path / "m.safetensors")
    arguments = ["search", tmp_path / "m.safetensors", tmp_path / "points.csv", "--queries", tmp_path / "points.csv"]
    arguments += ["--id", "id", "-k", "2", "-o", tmp_path / "hits.csv", "--base", "--quiet"]
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    with (tmp_path / "hits.csv").open() as file:
        hits = list(csv.DictReader(file))
    learned, _ = MetricIndex(MahalanobisMetric.load(tmp_path / "m.safetensors")).add(X, ids=names).search(X, 2)
    base, _ = MetricIndex().add(X, ids=names).search(X, 2)
    assert [hit["id"] for hit in hits] == learned.ravel().tolist()
    assert [hit["base_id"] for hit in hits] == base.ravel().tolist()
    assert [hit["query"] for hit in hits] == np.repeat(names, 2).tolist()


def test_blocks_have_the_size_of_all_blocks():
    assert file_points.ROWS == point_blocks.ROWS


# an index in a file


@pytest.fixture
def searched(tmp_path):
    """A command that searches among points in a file, whose ids are texts."""
    X = np.random.default_rng(0).standard_normal((300, 4))
    np.savez(tmp_path / "points.npz", X=X, id=np.array([f"p{row}" for row in range(300)]), part=np.arange(300) % 2)
    MahalanobisMetric(np.diag([3.0, 1.0, 0.1, 1.0])).save(tmp_path / "m.safetensors")

    def search(*more, code=0, model="m.safetensors", points="points.npz"):
        arguments = ["search", tmp_path / model, tmp_path / points, "--queries", tmp_path / "points.npz", "--id", "id"]
        arguments += ["--ignore", "part", "-k", "3", "--quiet", *more]
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert done.exit_code == code, done.output
        return done

    return search


def test_an_index_is_written_once_and_read_again(searched, tmp_path, monkeypatch):
    exact = json.loads(searched("--json").stdout)
    path = tmp_path / "index.safetensors"
    made = json.loads(searched("--json", "--index", path).stdout)
    assert [hit["id"] for hit in made["hits"]] == [hit["id"] for hit in exact["hits"]]
    assert [hit["distance"] for hit in made["hits"]] == pytest.approx([hit["distance"] for hit in exact["hits"]])
    assert MetricIndex.load(path).ids[:2] == ["p0", "p1"]
    before = path.stat().st_mtime_ns
    with monkeypatch.context() as without:
        without.setattr(MetricIndex, "add", None)  # nothing is added to what was read
        assert json.loads(searched("--json", "--index", path).stdout) == made
    assert path.stat().st_mtime_ns == before


def test_an_index_of_something_else_is_refused(searched, tmp_path):
    path = tmp_path / "index.safetensors"
    searched("--index", path)
    MahalanobisMetric(np.eye(4)).save(tmp_path / "other.safetensors")
    assert "was made with another model. Remove it" in said(
        searched("--index", path, model="other.safetensors", code=2)
    )
    assert "from other points, or other columns or rows" in said(searched("--index", path, "--where", "part=1", code=2))
    np.savez(tmp_path / "less.npz", X=np.eye(4), id=np.arange(4))
    assert "from other points" in said(searched("--index", path, points="less.npz", code=2))
    assert "cannot be read as an index file" in said(searched("--index", tmp_path / "m.safetensors", code=1))
    assert "There is no" not in said(searched("--index", tmp_path / "new" / "index", code=0))
    assert "goes with a search among points" in said(
        CliRunner().invoke(app, ["search", "--images", str(tmp_path), "--query", "x", "--index", "i"])
    )


def said(result):
    return " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("backend", ["faiss-flat", "faiss-hnsw", "faiss-ivf"])
def test_the_recall_of_a_search_by_faiss_is_measured(searched, tmp_path, backend):
    pytest.importorskip("faiss")
    exact = json.loads(searched("--json").stdout)
    found = json.loads(searched("--json", "--backend", backend, "--index", tmp_path / "index").stdout)
    asked = {f"p{row}" for row in np.linspace(0, 299, 100).astype(int)}
    pairs = [{(hit["query"], hit["id"]) for hit in one["hits"] if hit["query"] in asked} for one in (exact, found)]
    assert found["recall"] == pytest.approx(len(pairs[0] & pairs[1]) / (3 * len(asked)))
    assert "recall" not in exact
    again = searched("--index", tmp_path / "index", "-o", tmp_path / "hits.csv").stdout
    assert f"It finds {found['recall']:.1%} of what an exact search finds." in again
    assert "It finds 100.0%" not in searched("--index", tmp_path / "index", "--backend", "exact").stdout


def test_recall_counts_what_is_missed(monkeypatch):
    X = np.random.default_rng(0).standard_normal((50, 3))
    index = MetricIndex().add(X)
    assert index.recall(X[:10], 5) == 1.0

    class Worse:
        def search(self, points, queries, k, extent):
            rows, distances = backends.Exact(None).search(points, queries, k, extent)
            rows[:, -1] = -1
            return rows, distances

    monkeypatch.setattr(index, "_search", Worse())
    assert index.recall(X[:10], 5) == 0.8
    with pytest.raises(ValueError, match="Q has no query, so there is nothing to measure"):
        index.recall(X[:0], 5)
