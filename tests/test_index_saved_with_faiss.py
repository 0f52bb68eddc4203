"""What faiss built is saved with an index, and checked before faiss uses it."""

import numpy as np
import pytest

from boostmetric.retrieval import MetricIndex
from boostmetric.storage.tensor_file import read_tensors, write_tensors

faiss = pytest.importorskip("faiss")
KINDS = ["faiss-hnsw", "faiss-ivf"]
POINTS = np.random.default_rng(0).standard_normal((600, 8))
QUERIES = np.random.default_rng(1).standard_normal((30, 8))


@pytest.fixture(params=KINDS)
def searched(request, tmp_path):
    """An index that was searched and saved, and its file."""
    index = MetricIndex(backend=request.param).add(POINTS)
    index.search(QUERIES, 5)
    path = tmp_path / "index.safetensors"
    index.save(path)
    return index, path


def build_nothing(monkeypatch):
    """Let faiss train no cells, and link no points."""

    def refuse(*arguments):
        raise AssertionError("built again")

    monkeypatch.setattr(faiss.IndexHNSWFlat, "add", refuse)
    monkeypatch.setattr(faiss.IndexIVFFlat, "train", refuse)


def test_a_loaded_index_finds_the_same_without_building(searched, monkeypatch):
    index, path = searched
    expected = index.search(QUERIES, 5)
    build_nothing(monkeypatch)
    for found, right in zip(MetricIndex.load(path).search(QUERIES, 5), expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_options_of_the_search_may_differ(searched, monkeypatch):
    index, path = searched
    build_nothing(monkeypatch)
    how = {"ef_search": 600} if index.backend == "faiss-hnsw" else {"probes": 600}
    loaded = MetricIndex.load(path, backend=index.backend, backend_options=how)
    assert loaded.recall(QUERIES, 5) == 1.0


def test_options_of_the_building_build_again(searched, monkeypatch):
    index, path = searched
    build_nothing(monkeypatch)
    how = {"links": 4} if index.backend == "faiss-hnsw" else {"cells": 3}
    with pytest.raises(AssertionError, match="built again"):
        MetricIndex.load(path, backend=index.backend, backend_options=how).search(QUERIES, 5)


def test_another_backend_uses_the_points_alone(searched):
    index, path = searched
    other = next(kind for kind in KINDS if kind != index.backend)
    assert MetricIndex.load(path, backend=other).recall(QUERIES, 1) > 0.5
    exact = MetricIndex.load(path, backend="exact")
    np.testing.assert_array_equal(exact.search(QUERIES, 1)[0], MetricIndex().add(POINTS).search(QUERIES, 1)[0])


def test_points_may_be_added_and_removed_after_loading(searched):
    path = searched[1]
    loaded = MetricIndex.load(path)
    loaded.add(QUERIES, ids=[f"q{number}" for number in range(30)])
    assert loaded.search(QUERIES, 1)[0].ravel().tolist() == [f"q{number}" for number in range(30)]
    loaded.remove(["q0"])
    assert loaded.search(QUERIES[:1], 1)[0][0, 0] != "q0"
    for change in (lambda one: one.remove([0]), lambda one: one.add(QUERIES)):  # before the first search
        changed = MetricIndex.load(path)
        change(changed)
        changed.save(path.with_name("changed.safetensors"))
        again = MetricIndex.load(path.with_name("changed.safetensors"))
        assert len(again) == len(changed)
        assert again.recall(QUERIES, 5) > 0.5
    unchanged = MetricIndex.load(path)
    unchanged.save(path.with_name("copy.safetensors"))
    assert path.with_name("copy.safetensors").read_bytes() == path.read_bytes()


def spoil(path, name, change):
    """Write the file again, valid as a file, with other numbers in one array."""
    file = read_tensors(path, "index", 2)
    array = file.tensors[f"built.{name}"].copy()
    file.tensors[f"built.{name}"] = change(array)
    write_tensors(path, "index", file.version, file.tensors, file.about)


def with_first(value):
    def change(array):
        array.flat[0] = value
        return array

    return change


@pytest.mark.parametrize(
    ("backend", "name", "change"),
    [
        ("faiss-ivf", "cell_of", with_first(10**6)),
        ("faiss-ivf", "cell_of", with_first(-1)),
        ("faiss-ivf", "cells", lambda array: array[:0]),
        ("faiss-hnsw", "layers", with_first(0)),
        ("faiss-hnsw", "layers", with_first(10**6)),
        ("faiss-hnsw", "links", with_first(600)),
        ("faiss-hnsw", "links", with_first(-2)),
        ("faiss-hnsw", "links", lambda array: array[:-1]),
        ("faiss-hnsw", "entry", with_first(600)),
        ("faiss-hnsw", "entry", with_first(-1)),
    ],
)
def test_arrays_that_do_not_fit_never_reach_faiss(backend, name, change, tmp_path):
    path = tmp_path / "index.safetensors"
    index = MetricIndex(backend=backend).add(POINTS)
    index.search(QUERIES, 5)
    index.save(path)
    spoil(path, name, change)
    with pytest.raises(ValueError, match=r"What faiss built cannot be used: it has .* Make the index again"):
        MetricIndex.load(path).search(QUERIES, 5)


def test_links_stay_in_their_layer(tmp_path):
    path = tmp_path / "index.safetensors"
    index = MetricIndex(backend="faiss-hnsw", backend_options={"links": 4}).add(POINTS)
    index.search(QUERIES, 5)
    index.save(path)
    layers = read_tensors(path, "index", 2).tensors["built.layers"]
    low, high = int(np.flatnonzero(layers == 1)[0]), int(np.flatnonzero(layers > 1)[0])
    slots = {1: 8, 2: 12, 3: 16, 4: 20, 5: 24, 6: 28}  # 2 * links in the lowest layer, and links in each above
    first = sum(slots[layer] for layer in layers[:high].tolist()) + 8

    def link_below(links):
        links[first] = low
        return links

    spoil(path, "links", link_below)
    with pytest.raises(ValueError, match="a point that is not in its layer"):
        MetricIndex.load(path).search(QUERIES, 5)
