"""Neighbours found on a torch device: the same as on the CPU."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from boostmetric import Comparisons
from boostmetric.neighbors import nearest, nearest_others, rounding_of_distances
from conftest import import_torch

torch = import_torch()
from boostmetric.neighbors import on_device  # noqa: E402  (needs torch)

DEVICE = "torch:cpu"
pytestmark = pytest.mark.torch


@pytest.fixture
def asked(monkeypatch):
    """Sends every search to the device, and counts the blocks it works on."""
    monkeypatch.setattr("boostmetric.neighbors.nearest_points._FEWEST_ON_A_DEVICE", 0)
    sizes = []
    work = on_device.DeviceSearch._nearest

    def counted(self, queries, *given):
        sizes.append(len(queries))
        return work(self, queries, *given)

    monkeypatch.setattr(on_device.DeviceSearch, "_nearest", counted)
    return sizes


def points_of_a_kind(kind):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((300, 10))
    if kind == "single":
        return points.astype(np.float32)
    if kind == "grid":
        return np.rint(points)
    if kind == "iris":  # one decimal, which floating point cannot hold
        return load_iris().data
    if kind == "copies":
        return points[rng.integers(0, 100, 300)]
    if kind == "far":
        return 1e6 + points
    if kind == "tight":  # closer together than the expanded square of a distance can tell
        return points[rng.integers(0, 20, 300)] + 1e-9 * points
    if kind == "outlier":
        points[0] = 1e12
    if kind == "flat":  # few features: on the CPU, searched in a tree
        return points[:, :2]
    return points


KINDS = ["random", "single", "grid", "iris", "copies", "far", "tight", "outlier", "flat"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_neighbors", [1, 3, 40])
def test_same_neighbors(kind, n_neighbors, asked, monkeypatch):
    monkeypatch.setattr("boostmetric.neighbors.nearest_points._LEAST_POINTS_OF_A_TREE", 0)
    points = points_of_a_kind(kind)
    rounding = rounding_of_distances(points)
    expected = nearest(points, None, n_neighbors, rounding)
    assert not asked
    assert np.array_equal(nearest(points, None, n_neighbors, rounding, device=DEVICE), expected)
    others = points[::7] + points.std(axis=0).mean(dtype=points.dtype)
    expected = nearest(points, others, n_neighbors, rounding)
    assert np.array_equal(nearest(points, others, n_neighbors, rounding, device=DEVICE), expected)
    assert asked == [len(points), len(others)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_neighbors", [3, 40])
def test_same_others(kind, n_neighbors, asked, monkeypatch):
    monkeypatch.setattr("boostmetric.neighbors.nearest_points._LEAST_POINTS_OF_A_TREE", 0)
    points = points_of_a_kind(kind)
    # Classes of 1, 2, ... points, and one with fewer others than neighbours asked for.
    sizes = [1, 2, 3, 5, 8, 9]
    label = np.repeat(np.arange(7), [*sizes, len(points) - sum(sizes)])
    label = np.random.default_rng(1).permutation(label)
    rounding = rounding_of_distances(points)
    expected = nearest_others(points, label, n_neighbors, rounding)
    assert not asked
    found = nearest_others(points, label, n_neighbors, rounding, device=DEVICE)
    assert np.array_equal(found.bounds, expected.bounds)
    assert np.array_equal(found.values, expected.values)
    assert asked == [len(points)]


@pytest.mark.parametrize("kind", ["random", "single", "far"])
def test_what_is_proposed_suffices(kind, asked, monkeypatch):
    def among_all(points, asked, queries, n_neighbors, *given):
        assert not len(queries)
        return np.empty((0, n_neighbors), dtype=np.int64)

    monkeypatch.setattr("boostmetric.neighbors.nearest_points._among_all", among_all)
    points, label = points_of_a_kind(kind), np.arange(300) % 3
    nearest(points, None, 3, rounding_of_distances(points), device=DEVICE)
    nearest_others(points, label, 3, rounding_of_distances(points), device=DEVICE)
    assert len(asked) == 2


@pytest.mark.parametrize("n_points", [2, 3, 63, 64, 65, 200])
def test_few_points(n_points, asked):
    points = np.random.default_rng(0).standard_normal((n_points, 3))
    for k in {1, n_points - 1}:
        assert np.array_equal(nearest(points, None, k, device=DEVICE), nearest(points, None, k))
    assert nearest(points, np.empty((0, 3)), 1, device=DEVICE).shape == (0, 1)


@pytest.mark.parametrize("group", [2, 16])
def test_the_smallest_are_found_in_groups(group, monkeypatch):
    monkeypatch.setattr(on_device, "_GROUP", group)
    scores = torch.from_numpy(np.random.default_rng(0).integers(0, 50, (40, 320)).astype(float))
    scores[:, ::3] = torch.inf
    for n in (1, 7, 19, 100):
        found = scores.gather(1, on_device._smallest(scores.clone(), n))
        assert torch.equal(found, scores.sort(dim=1).values[:, :n])


@pytest.mark.parametrize("block", [1, 320, 10_000])
def test_blocks_change_nothing(block, asked, monkeypatch):
    monkeypatch.setattr(on_device, "_BLOCK", block)
    points = points_of_a_kind("random")
    label = np.arange(300) % 4
    assert np.array_equal(nearest(points, None, 3, device=DEVICE), nearest(points, None, 3))
    assert sum(asked) == 300
    assert max(asked) == max(1, block // 320)  # 300 points in whole groups
    found, expected = (nearest_others(points, label, 3, device=device) for device in (DEVICE, "cpu"))
    assert np.array_equal(found.values, expected.values)


def test_too_little_memory_halves_the_block(asked, monkeypatch):
    work = on_device.DeviceSearch._nearest

    def scarce(self, queries, *given):
        if len(queries) > 20:
            raise torch.cuda.OutOfMemoryError("no room")
        return work(self, queries, *given)

    points = points_of_a_kind("random")
    monkeypatch.setattr(on_device.DeviceSearch, "_nearest", scarce)
    assert np.array_equal(nearest(points, None, 3, device=DEVICE), nearest(points, None, 3))
    assert set(asked) == {18, 12}  # 300 halved, and what is left
    monkeypatch.setattr(on_device.DeviceSearch, "_nearest", lambda *given: scarce(given[0], np.empty(21)))
    with pytest.raises(MemoryError, match=r"GB are needed on device 'cpu', but: no room\. Set device=.cpu"):
        nearest(points, None, 3, device=DEVICE)


def test_few_pairs_are_compared_on_the_cpu(asked, monkeypatch):
    points = points_of_a_kind("random")
    monkeypatch.setattr("boostmetric.neighbors.nearest_points._FEWEST_ON_A_DEVICE", len(points) ** 2)
    nearest(points, points[:-1], 3, device=DEVICE)
    assert not asked
    nearest(points, points, 3, device=DEVICE)
    assert asked == [len(points)]


@pytest.mark.parametrize("n_impostors", [3, "all"])
@pytest.mark.parametrize("n_of_class", [50, 300])
def test_same_comparisons(n_of_class, n_impostors, asked):
    y = np.repeat([0, 1], n_of_class)
    X = np.random.default_rng(0).standard_normal((len(y), 4)) + y[:, None]
    found, expected = (Comparisons.from_labels(X, y, 3, n_impostors, device=device) for device in (DEVICE, "cpu"))
    within = [300, 300] if n_of_class == 300 else []  # small classes are compared on the CPU
    assert asked == within + ([len(y)] if n_impostors == 3 else [])
    for name in ("pairs", "members", "bounds", "anchors"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))


def test_devices_that_are_not_there_are_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="device must be"):
        Comparisons.from_labels(X, y, device="tpu")
    number = torch.cuda.device_count()
    with pytest.raises(ValueError, match="no such GPU"):  # however few the points
        Comparisons.from_labels(X, y, device=f"cuda:{number}")


def test_sparse_points_are_refused():
    from scipy import sparse

    X, y = load_iris(return_X_y=True)
    with pytest.raises(TypeError, match="dense points"):
        Comparisons.from_labels(sparse.csr_array(X), y, device=DEVICE)
