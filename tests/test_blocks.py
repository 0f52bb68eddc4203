"""All impostors: far sides given by classes, and the kernels for them."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons
from boostmetric.arrays.frame import Frame
from boostmetric.callbacks import Checkpoint
from boostmetric.engines.device import DeviceBackend
from boostmetric.oracles import block_shard as blocks
from boostmetric.solver.direction import LARGEST_DENSE
from boostmetric.solver.learn import learn
from conftest import shards_of


def problem(sizes=(3, 9, 16, 25, 1), n_features=4, seed=0, n_neighbors=3, spread=1.0):
    """Points of classes of the given sizes, in random order, and all their impostors."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = rng.standard_normal((len(y), n_features)) + spread * rng.standard_normal((len(sizes), n_features))[y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of small classes
        return X, y, Comparisons.from_labels(X, y, n_neighbors, "all")


def matrix(boosted):
    return (boosted.directions.T * boosted.step_sizes) @ boosted.directions


SIZES = [(3, 9, 16, 25, 1), (8, 8), (30, 31), (5,) * 12, (2, 2), (1, 40, 17)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_listed_comparisons_are_the_same(sizes, backend):
    X, _, c = problem(sizes)
    listed = c.listed()
    assert listed.classes is None
    assert len(c.members) < len(listed.members)
    assert list(c.quadruplets()) == list(listed.quadruplets())
    for name in ("n_pairs", "n_groups", "n_comparisons", "total_weight", "n_points"):
        assert getattr(c, name) == getattr(listed, name), name
    a, b = learn(X, c, max_iter=6, backend=backend), learn(X, listed, max_iter=6, backend=backend)
    assert np.linalg.norm(matrix(a) - matrix(b)) < 1e-8 * np.linalg.norm(matrix(b))
    assert [r.violated for r in a.history] == pytest.approx([r.violated for r in b.history], abs=1e-12)
    assert a.duality_gap == pytest.approx(b.duality_gap, rel=1e-6, abs=1e-9)


def pair_set(comparisons):
    return {pair for q in comparisons.quadruplets() for pair in (q[:2], q[2:])}


@pytest.mark.parametrize("seed", range(5))
def test_splits_have_no_pair_in_common(seed):
    _, _, c = problem(seed=seed)
    train, test = c.split(0.3, seed)
    assert not pair_set(train) & pair_set(test)
    expected_train, expected_test = c.listed().split(0.3, seed)
    assert sorted(train.quadruplets()) == sorted(expected_train.quadruplets())
    assert sorted(test.quadruplets()) == sorted(expected_test.quadruplets())


def test_splits_of_mixed_comparisons_have_no_pair_in_common(backend):
    X, y, c = problem()
    listed = Comparisons.from_labels(X[:40], y[:40] % 2, 2, 5)
    pairs = Comparisons.from_pairs([[0, 1], [2, 3]], [[0, 5], [1, 9], [30, 40]])
    mixed = Comparisons.concatenate([listed, c, pairs])
    assert mixed.n_comparisons == listed.n_comparisons + c.n_comparisons + pairs.n_comparisons
    assert mixed.n_pairs == mixed.listed().n_pairs
    for seed in range(10):
        train, test = mixed.split(0.4, seed)
        assert not pair_set(train) & pair_set(test)
    a, b = learn(X, mixed, max_iter=10, backend=backend), learn(X, mixed.listed(), max_iter=10, backend=backend)
    assert np.linalg.norm(matrix(a) - matrix(b)) < 1e-8 * np.linalg.norm(matrix(b))


def test_subsets_weights_and_concatenation(backend):
    X, _, c = problem()
    chosen = c.subset([5, 1, 7])
    assert list(chosen.quadruplets()) == list(c.listed().subset([5, 1, 7]).quadruplets())
    weights = np.random.default_rng(1).integers(0, 3, c.n_groups)
    heavier = c.reweighted(weights)
    assert heavier.total_weight == pytest.approx(c.listed().reweighted(weights).total_weight)
    twice = Comparisons.concatenate([c, c])
    a, b = learn(X, twice, max_iter=8, backend=backend), learn(X, c, max_iter=8, backend=backend)
    assert matrix(a) == pytest.approx(matrix(b), rel=1e-9, abs=1e-12)
    _, _, other = problem(seed=1)
    together = Comparisons.concatenate([c, other])  # other classes: one of them is listed
    assert together.n_comparisons == c.n_comparisons + other.n_comparisons
    assert sorted(together.quadruplets()) == sorted([*c.quadruplets(), *other.quadruplets()])


def test_one_group_can_be_split():
    _, _, c = problem()
    train, test = c.subset([3]).split(0.5, 0)
    assert not pair_set(train) & pair_set(test)


def only_shard(X, c, backend):
    frame = Frame.of(X)
    (shard,) = shards_of(X, c, backend)
    return frame, shard


def forbid_tables(backend, monkeypatch):
    """Make every step too long for a table of a direction."""
    monkeypatch.setattr(blocks, "_TABLE_REACH", -1.0)
    if isinstance(backend, DeviceBackend):
        from boostmetric.gpu import device_blocks as on_device

        monkeypatch.setattr(on_device, "_REACH", dict.fromkeys(on_device._REACH, -1.0))


@pytest.mark.parametrize("with_table", [True, False])
@pytest.mark.parametrize("size", [1.0, 1e-3, 30.0, 1e4, 1e8])
def test_moments_from_the_table_and_without_it(size, with_table, backend, monkeypatch):
    """Metrics from flat to so long that sums need another shift; steps within and beyond the reach of the table."""
    X, _, c = problem()
    xi, steps = np.array([0.5, -0.5, 0.5, 0.5]), np.array([0.0, 1e-3, 0.1, 1.0, 3.0, 30.0, 3e3, 1e6])
    reach = blocks._TABLE_REACH / (np.ptp(X @ xi) / 2) ** 2
    assert 0 < np.sum(steps <= reach) < len(steps)
    if not with_table:
        forbid_tables(backend, monkeypatch)
    frame, block = only_shard(X, c, backend)
    _, listed = only_shard(X, c.listed(), backend)
    metric = np.eye(4), np.full(4, size * 4.0**frame.exponent)
    a, b = block.rebuild(*metric), listed.rebuild(*metric)
    for name in ("log_mass", "margin", "violated"):
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-11), name
    assert block.gram() == pytest.approx(listed.gram(), rel=1e-8, abs=1e-12)
    for shard in (block, listed):
        shard.project(xi)
    got, expected = (shard.moments(4.0**frame.exponent * steps) for shard in (block, listed))
    assert got.log_mass == pytest.approx(expected.log_mass, rel=1e-12, abs=1e-11)
    assert got.first == pytest.approx(expected.first, rel=1e-9, abs=1e-11)
    assert got.second == pytest.approx(expected.second, rel=1e-9, abs=1e-11)


def test_several_directions_with_factors_of_both_signs(backend):
    X, _, c = problem()
    frame, block = only_shard(X, c, backend)
    _, listed = only_shard(X, c.listed(), backend)
    rng = np.random.default_rng(3)
    directions, factors = rng.standard_normal((3, 4)), np.array([2.0, -0.5, 0.1])
    for shard in (block, listed):
        shard.rebuild(np.eye(4), np.full(4, 4.0**frame.exponent))
        shard.project(directions, factors)
    steps = np.array([0.0, 0.2, 0.5])
    assert block.moments(steps).first == pytest.approx(listed.moments(steps).first, rel=1e-10)
    assert block.commit(0.2).log_mass == pytest.approx(listed.commit(0.2).log_mass, rel=1e-12)
    x = rng.standard_normal(4)
    assert block.matvec(x) == pytest.approx(listed.gram() @ x, rel=1e-9)


def test_rebuilding_leaves_the_same_bits(backend):
    X, _, c = problem(spread=0.1)
    boosted = learn(X, c, max_iter=12, backend=backend)
    frame, shard = only_shard(X, c, backend)
    directions, steps = boosted.directions, boosted.step_sizes * 4.0**frame.exponent
    shard.rebuild(directions[:0], steps[:0])
    for xi, step in zip(directions, steps, strict=True):
        shard.project(xi)
        state = shard.commit(step)
    gram = shard.gram()
    assert shard.rebuild(directions, steps) == state
    assert shard.gram().tobytes() == gram.tobytes()


def test_a_resumed_fit_ends_as_if_never_stopped(tmp_path):
    X, y, _ = problem((20, 20, 20))
    whole = BoostMetric.paper(n_impostors="all", max_iter=20).fit(X, y)
    BoostMetric.paper(n_impostors="all", max_iter=9, callbacks=[Checkpoint(tmp_path / "c.npz")]).fit(X, y)
    resumed = BoostMetric.paper(n_impostors="all", max_iter=20).fit(X, y, resume_from=tmp_path / "c.npz")
    assert resumed.components_.tobytes() == whole.components_.tobytes()


def test_early_stopping_sparse_points_and_batches():
    X, y, c = problem((20, 20, 20))
    stopped = BoostMetric.paper(n_impostors="all", early_stopping=True, random_state=0).fit(X, y)
    assert stopped.history_[-1].held_out > 0.5
    dense = BoostMetric.paper(n_impostors="all", max_iter=10).fit(X, y)
    rows = BoostMetric.paper(n_impostors="all", max_iter=10).fit(sparse.csr_array(X), y)
    assert rows.get_mahalanobis_matrix() == pytest.approx(dense.get_mahalanobis_matrix(), rel=1e-6)
    batches = BoostMetric.paper(n_impostors="all").partial_fit(X, y)
    assert batches.get_mahalanobis_matrix() == pytest.approx(
        ComparisonBoostMetric().partial_fit(c.listed(), points=X).get_mahalanobis_matrix(), rel=1e-6
    )
    fitted = ComparisonBoostMetric(max_iter=10).fit(c, points=X)
    assert fitted.score(c) == fitted.score(c.listed())


def test_many_features(backend):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((LARGEST_DENSE + 60, LARGEST_DENSE + 20)), rng.integers(0, 3, LARGEST_DENSE + 60)
    X[:, :2] += 5 * y[:, None]
    c = Comparisons.from_labels(X, y, 2, "all")
    a, b = learn(X, c, max_iter=3, backend=backend), learn(X, c.listed(), max_iter=3, backend=backend)
    assert np.linalg.norm(matrix(a) - matrix(b)) < 1e-6 * np.linalg.norm(matrix(b))


def test_what_does_not_fit_in_memory_is_refused(monkeypatch):
    X, _, c = problem()
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}[name])
    with pytest.raises(MemoryError, match=r"All impostors of 53 of 54 samples .* Set n_impostors to a number"):
        learn(X, c)


def test_the_same_direction_with_other_factors_is_another_line(backend):
    X, _, c = problem()
    _, block = only_shard(X, c, backend)
    _, listed = only_shard(X, c.listed(), backend)
    xi = np.eye(4)[:2].copy()
    for shard in (block, listed):
        shard.rebuild(np.eye(4), np.ones(4))
    for factors in (np.array([1.0, 2.0]), np.array([3.0, 0.5])):
        xi[0] = xi[0][::-1]  # in place
        for shard in (block, listed):
            shard.project(xi, factors)
        assert block.moments(np.zeros(1)).first == pytest.approx(listed.moments(np.zeros(1)).first, rel=1e-10)


def test_an_outlier_does_not_spoil_the_table(backend):
    X, _, c = problem()
    X[0] += 1e7
    _, block = only_shard(X, c, backend)
    _, listed = only_shard(X, c.listed(), backend)
    for shard in (block, listed):
        shard.rebuild(np.empty((0, 4)), np.empty(0))
        shard.project(np.array([0.6, 0.0, 0.8, 0.0]))
    assert block.moments(np.zeros(1)).second == pytest.approx(listed.moments(np.zeros(1)).second, rel=1e-6)
    assert block.moments(np.zeros(1)).first == pytest.approx(listed.moments(np.zeros(1)).first, rel=1e-9)


def test_ties_between_near_and_far_are_counted():
    """To the last one; on a device, which finds far distances as products of matrices, rounding decides them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 13))
    X, y = np.concatenate([X, X]), np.repeat([0, 1], 20)  # every point in both classes
    c = Comparisons.from_labels(X, y, 3, "all")
    a, b = learn(X, c, max_iter=4), learn(X, c.listed(), max_iter=4)
    for ours, theirs in zip(a.history, b.history, strict=True):
        assert ours.violated == theirs.violated
        # Of the 20 points that each of 3 targets is compared with, its twin is as near, and the anchor's own nearer.
        assert ours.violated >= 2 / 20


def test_only_points_that_are_compared_are_asked_for():
    _, y, c = problem()
    for groups in ([0], np.flatnonzero(y[c.anchors] == 3)):
        assert c.subset(groups).points.tolist() == c.subset(groups).listed().points.tolist()
    assert c.subset([]).n_points == 0
    with pytest.raises(ValueError, match=r"Use listed\(\).pair_numbers\(\)"):
        c.pair_numbers()
