"""Comparisons in files: shares that together are the whole, read by whoever has them."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boostmetric import ComparisonBoostMetric, Comparisons
from boostmetric.arrays.frame import Shift
from boostmetric.comparisons.anchor_sample import AnchorSample, _hashed
from boostmetric.parallel.crew import Crew
from boostmetric.tables import ComparisonFiles, TableError, TableNotFoundError
from boostmetric.tables.formats import ParquetTable

pytest.importorskip("pyarrow")
from filed import triplets_by_metric, write_points, write_rows, write_triplets

X, TRIPLETS = triplets_by_metric()
NUMBERS = np.random.default_rng(1).permutation(len(X)) * 7 + 3
TEXTS = [f"sku-{number}" for number in NUMBERS]


@pytest.fixture(params=["row numbers", "numbers", "text"])
def ids(request):
    return {"row numbers": None, "numbers": NUMBERS.tolist(), "text": TEXTS}[request.param]


def files(tmp_path, ids, **options):
    points = write_points(tmp_path / "points", X, ids)
    comparisons = write_triplets(tmp_path / "triplets", TRIPLETS, ids)
    return ComparisonFiles(points, comparisons, id=None if ids is None else "id", **options)


def compared(points, comparisons):
    """Every comparison by the coordinates of its points: those of the near pair, then of the far one."""
    ordered = comparisons.pairs[np.arange(len(comparisons.pairs))[:, None], np.argsort(points[comparisons.pairs, 0])]
    return np.concatenate([points[ordered[pair]].reshape(len(pair), -1) for pair in comparisons.pair_numbers()], axis=1)


def load(share, n_threads=1):
    """Its points, and its comparisons block by block."""
    with Crew(n_threads) as crew:
        points, blocks = share.load(crew)
        made = crew.each(lambda block: block(), blocks)
    return points, [block for block in made if block is not None]


def loaded(*shares, n_threads=1):
    """All comparisons of some shares, and the coordinates of their anchors."""
    parts = [(points, block) for points, blocks in (load(share, n_threads) for share in shares) for block in blocks]
    rows = np.concatenate([compared(*part) for part in parts])
    return rows[np.lexsort(rows.T)], {tuple(point) for points, block in parts for point in points[block.anchors]}


def whole(points, comparisons):
    rows = compared(points, comparisons)
    return rows[np.lexsort(rows.T)]


ALL = whole(X, Comparisons.from_triplets(TRIPLETS))


@pytest.mark.parametrize("n_shares", [1, 3, 50])
def test_shares_together_are_the_whole(tmp_path, ids, n_shares, monkeypatch):
    monkeypatch.setattr("boostmetric.tables.comparison_files._ROWS_AT_ONCE", 130)
    shares = pickle.loads(pickle.dumps(files(tmp_path, ids).opened().shares(n_shares)))
    assert len(shares) == min(n_shares, 12)  # of as many row groups
    assert np.array_equal(loaded(*shares)[0], ALL)
    assert np.array_equal(loaded(*shares, n_threads=3)[0], ALL)
    points, blocks = load(shares[0])
    assert sum(block.n_comparisons for block in blocks) <= 600 / len(shares) + 50
    assert len(points) == len(np.unique(np.concatenate([block.points for block in blocks])))  # no others are held


def test_a_share_is_read_in_blocks(tmp_path, monkeypatch):
    (share,) = files(tmp_path, None).opened().shares(1)
    monkeypatch.setattr("boostmetric.tables.comparison_files._ROWS_AT_ONCE", 130)
    assert [block.n_comparisons for block in load(share)[1]] == [100] * 6
    assert [(rows.begin, rows.end, rows.n_rows) for rows in share.rows] == 3 * [(k, k + 1, 50) for k in range(4)]


def test_a_file_is_opened_once_for_all_its_row_groups(tmp_path, monkeypatch):
    """Each time what it says about all of them is read."""
    (share,) = files(tmp_path, None).opened().shares(1)
    opened = []
    read = ParquetTable.chunks
    monkeypatch.setattr(ParquetTable, "chunks", lambda self, names: opened.append(self.path.name) or read(self, names))
    load(share)
    of_triplets = ["part-0.parquet", "part-1.parquet", "part-2.parquet"]
    assert sorted(opened) == sorted(3 * of_triplets)  # for ids, for points, for comparisons
    monkeypatch.setattr("boostmetric.tables.comparison_files._ROWS_AT_ONCE", 250)
    parts = [[(Path(rows.path).name, rows.begin, rows.end) for rows in block] for block in share._cut()]
    assert parts == [
        [("part-0.parquet", 0, 4), ("part-1.parquet", 0, 1)],
        [("part-1.parquet", 1, 4), ("part-2.parquet", 0, 2)],
        [("part-2.parquet", 2, 4)],
    ]


def test_what_the_files_say(tmp_path):
    given = files(tmp_path, TEXTS)
    described = given.opened()
    assert (described.n_features, described.feature_names, described.n_rows) == (4, None, 600)
    assert "120 points in 3 files, read by the workers" in described.describe()
    assert "600 rows in 3 files" in described.describe()
    columns = ComparisonFiles(write_points(tmp_path / "named", X, columns=True), given.comparisons).opened()
    assert (columns.n_features, columns.feature_names) == (4, ["f0", "f1", "f2", "f3"])


def test_fingerprints_are_of_the_content_and_of_how_it_is_read(tmp_path):
    one = files(tmp_path / "a", TEXTS)
    assert one.opened().fingerprint == files(tmp_path / "b", TEXTS).opened().fingerprint
    others = [files(tmp_path / "c", NUMBERS.tolist()), one.split(0.2, 0)[0], one.split(0.2, 1)[0]]
    write_triplets(tmp_path / "d" / "triplets", TRIPLETS[::-1], TEXTS)
    others.append(replace(one, comparisons=str(tmp_path / "d" / "triplets" / "*")))
    assert len({other.opened().fingerprint for other in (one, *others)}) == 5


def test_a_split_is_by_anchors(tmp_path, ids):
    train, held_out = files(tmp_path, ids).split(0.3, 0)
    parts, anchors = zip(*(loaded(*part.opened().shares(3)) for part in (train, held_out)), strict=True)
    rows = np.concatenate(parts)
    assert np.array_equal(rows[np.lexsort(rows.T)], ALL)
    assert not anchors[0] & anchors[1]
    assert 0.15 < len(anchors[1]) / len(X) < 0.45
    with pytest.raises(ValueError, match="held out from others already"):
        train.split(0.1, 0)


def test_a_sample_does_not_depend_on_how_ids_are_written():
    numbers = np.arange(-3000, 3000)
    hashes = _hashed(numbers, 5)
    assert np.array_equal(hashes, _hashed(texts(numbers), 5))
    assert not np.array_equal(hashes, _hashed(numbers, 6))
    counts, _ = np.histogram(hashes, bins=10, range=(0, 1))
    assert np.all(abs(counts - 600) < 120)
    assert _hashed(texts(["007", "ü", ""]), 5).shape == (3,)
    large = [2**63 - 1, -(2**63), 1234567890123456789]
    assert np.array_equal(_hashed(np.array(large), 5), _hashed(texts(large), 5))
    assert _hashed(texts([2**63]), 5) < 1.0


def texts(values):
    return np.array(list(map(str, values)), dtype=object)


def test_groups_about_no_point_are_sampled_by_the_first():
    quadruplets = Comparisons.from_quadruplets([[0, 1, 2, 3], [4, 5, 6, 7]])
    ids = np.arange(8)
    parts = [AnchorSample(0.5, seed, True).of(quadruplets, ids) for seed in range(20)]
    assert {0 if part is None else part.n_comparisons for part in parts} == {0, 1, 2}


def test_graded_results_with_queries_of_their_own(tmp_path):
    rng = np.random.default_rng(0)
    documents, queries = rng.standard_normal((30, 3)), rng.standard_normal((6, 3))
    query, document = np.repeat(np.arange(6), 5), np.concatenate([rng.permutation(30)[:5] for _ in range(6)])
    columns = {"query": [f"q{q}" for q in query], "document": document.tolist(), "grade": [0, 1, 0, 2, 1] * 6}
    given = ComparisonFiles(
        write_points(tmp_path / "documents", documents, list(range(30))),
        write_rows(tmp_path / "grades", n_files=3, row_group_size=2, **columns),
        id="id",
        queries=write_points(tmp_path / "queries", queries, [f"q{q}" for q in range(6)]),
        max_per_query=4,
    )
    shares = given.opened().shares(8)
    assert len(shares) == 3  # a file is not cut, since lists may go over row groups
    assert np.array_equal(loaded(*shares)[0], whole(*given.read()))


@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e150])
def test_a_shift_to_the_middle(spread):
    points = spread * np.random.default_rng(0).standard_normal((40, 3)) + 5 * spread
    shift = Shift.to_the_middle(points.min(axis=0), points.max(axis=0))
    placed = shift.coordinates_of(points)
    assert np.allclose(placed.min(axis=0), -placed.max(axis=0))
    assert 0.5 <= np.abs(placed).max() < 1.0
    differences = (placed[1:] - placed[0]) * 2.0**shift.exponent
    assert np.allclose(differences, points[1:] - points[0], atol=1e-12 * spread)


def test_points_that_are_too_far_apart_are_refused():
    with pytest.raises(ValueError, match="spread over about 1e308"):
        Shift.to_the_middle(np.array([-1.7e308]), np.array([1.7e308]))
    assert Shift.to_the_middle(np.ones(2), np.ones(2)).coordinates_of(np.ones((1, 2))).tolist() == [[0.0, 0.0]]


def test_without_an_engine_the_files_are_read_here(tmp_path, ids):
    given = files(tmp_path, ids)
    direct = ComparisonBoostMetric(max_iter=8).fit(Comparisons.from_triplets(TRIPLETS, grouped=False), points=X)
    read = ComparisonBoostMetric(max_iter=8).fit(given)
    assert read.components_.tobytes() == direct.components_.tobytes()
    assert read.score(given) == pytest.approx(direct.score(TRIPLETS))
    watched = ComparisonBoostMetric(max_iter=8).fit(given, eval_set=given)
    assert watched.history_[-1].held_out is not None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"points": X}, ValueError, "points is given beside files, which bring their own"),
        ({"sample_weight": np.ones(600)}, ValueError, "sample_weight is given beside files"),
        ({"eval_set": TRIPLETS}, TypeError, r"eval_set must be ComparisonFiles too\. Got ndarray"),
    ],
)
def test_what_does_not_go_with_files(tmp_path, arguments, error, message):
    with pytest.raises(error, match=message):
        ComparisonBoostMetric(max_iter=2).fit(files(tmp_path, None), **arguments)


def test_unknown_ids_are_named_with_their_rows(tmp_path):
    given = files(tmp_path, TEXTS)
    named = np.array(TEXTS, dtype=object)[TRIPLETS]
    named[333, 2] = "sku-x"
    write_triplets(tmp_path / "triplets", np.arange(1800).reshape(600, 3), named.ravel())
    with pytest.raises(TableError, match=r"part-1\.parquet, row 133 .*, column 'far': 'sku-x' is not an id of"):
        loaded(*given.opened().shares(4))


def test_repeated_and_bad_points_are_named_with_their_rows(tmp_path):
    ids = NUMBERS.tolist()
    ids[77] = ids[41]
    (share,) = files(tmp_path, ids).opened().shares(1)
    with pytest.raises(TableError, match=r"part-1\.parquet, row 37 .*is also that of .*part-1\.parquet, row 1 "):
        load(share)
    bad = X.copy()
    bad[100, 2] = np.nan
    write_points(tmp_path / "points", bad, NUMBERS.tolist())
    (share,) = replace(files_at(tmp_path), id="id").opened().shares(1)
    with pytest.raises(TableError, match=r"part-2\.parquet, row 20 .*, element 2: nan is not a finite number"):
        load(share)


def files_at(folder):
    return ComparisonFiles(str(folder / "points" / "*"), str(folder / "triplets" / "*"))


def test_a_file_may_be_given_twice(tmp_path):
    given = files(tmp_path, None)
    paths = [str(tmp_path / "triplets" / f"part-{number}.parquet") for number in (0, 0, 1, 2)]
    for n_shares in (1, 3, 8):
        shares = replace(given, comparisons=paths).opened().shares(n_shares)
        assert sum(block.n_comparisons for share in shares for block in load(share)[1]) == 800


def test_equal_row_groups_are_shared_out(tmp_path):
    sizes = [[rows.end - rows.begin for rows in share.rows] for share in files(tmp_path, None).opened().shares(12)]
    assert sizes == [[1]] * 12


def test_shares_without_a_comparison(tmp_path):
    weights = np.repeat([0.0, 1.0], [200, 400])
    columns = {role: TRIPLETS[:, k].tolist() for k, role in enumerate(("anchor", "near", "far"))}
    given = replace(
        files(tmp_path, None), comparisons=write_rows(tmp_path / "weighted", weight=weights.tolist(), **columns)
    )
    assert [len(load(share)[1]) for share in given.opened().shares(3)] == [0, 1, 1]
    grades = {"query": [0, 0, 1, 1], "document": [2, 3, 4, 5], "grade": [1, 1, 1, 0]}
    graded = replace(given, comparisons=write_rows(tmp_path / "grades", n_files=2, **grades))
    assert [len(load(share)[1]) for share in graded.opened().shares(2)] == [0, 1]


def test_none_of_the_ids_is_known(tmp_path):
    given = replace(files(tmp_path, TEXTS), id=None, ignore="id")
    with pytest.raises(TableError, match=r"(?s)'sku-.*is not a row of .*name the points' column of ids \(id\)"):
        load(given.opened().shares(1)[0])


def test_vectors_of_other_lengths(tmp_path):
    given = files(tmp_path, None)
    write_points(tmp_path / "points", np.ones((40, 5)), n_files=1)  # the first file; comparisons name others as well
    with pytest.raises(TableError, match=r"the vector has 4 numbers, those before it have 5"):
        load(given.opened().shares(1)[0])
    other = replace(given, points=write_points(tmp_path / "none", np.ones((1, 0)), n_files=1))
    with pytest.raises(TableError, match=r"^\S+, row 0 \(counted from 0\), column 'vector': no value\. Fill"):
        _ = other.opened().n_features


def test_what_only_fit_and_score_take(tmp_path):
    metric, given = ComparisonBoostMetric(max_iter=2), files(tmp_path, None)
    with pytest.raises(ValueError, match="tuples and files have none"):
        metric.fit_transform(given)
    metric.fit(given)
    for ask in (metric.decision_function, metric.predict, metric.partial_fit):
        with pytest.raises(TypeError, match="ComparisonFiles are for fit and score"):
            ask(given)


def test_what_workers_cannot_read(tmp_path):
    given = files(tmp_path, None)
    csv = tmp_path / "points.csv"
    csv.write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match=r"points\.csv: workers read Parquet files, and this is CSV\. Write it as"):
        replace(given, points=csv).opened().shares(2)
    pairs = write_rows(tmp_path / "pairs", a=[0, 1], b=[2, 3], sign=[1, -1], n_files=1)
    with pytest.raises(TableError, match="workers cannot share them out"):
        replace(given, comparisons=pairs).opened().shares(2)
    with pytest.raises(TableError, match="these are triplets, which have no max_per_query"):
        replace(given, max_per_query=3).opened().shares(2)
    with pytest.raises(TableNotFoundError, match="no file has a name like this"):
        replace(given, comparisons=str(tmp_path / "none" / "*.parquet")).opened().shares(2)
    with pytest.raises(ValueError, match="kind must be one of"):
        replace(given, kind="pears")


def test_workers_take_clicks_with_propensities(tmp_path):
    points = write_points(tmp_path / "points", X, None)
    log = {
        "query": [0, 0, 0, 1, 1],
        "position": [1, 2, 3, 1, 2],
        "document": [5, 6, 7, 6, 8],
        "clicked": [0, 1, 1, 1, 0],
    }
    chance = [1.0, 0.5, 0.25, 1.0, 0.5]
    clicks = ComparisonFiles(points, write_rows(tmp_path / "log", **log, propensity=chance, n_files=1))
    rows, _ = loaded(*clicks.opened().shares(2))
    columns = (log[name] for name in ("query", "document", "position", "clicked"))
    expected = Comparisons.from_clicks(*columns, propensities=chance, n_unseen=0, pooled=False)
    assert np.array_equal(rows, whole(X, expected))
    bare = ComparisonFiles(points, write_rows(tmp_path / "bare", **log, n_files=1))
    with pytest.raises(TableError, match="without propensities, which are estimated from a whole log"):
        bare.opened().shares(2)
    positives = write_rows(tmp_path / "positives", query=[0, 1], document=[5, 6], n_files=1)
    with pytest.raises(TableError, match="positives are compared with the documents nearest to their query"):
        ComparisonFiles(points, positives).opened().shares(2)


def test_a_part_that_is_cut_off_is_named(tmp_path):
    (share,) = files(tmp_path, None).opened().shares(1)
    part = tmp_path / "triplets" / "part-1.parquet"
    part.write_bytes(part.read_bytes()[:-30])
    with pytest.raises(TableError, match=r"part-1\.parquet: not a whole Parquet file"):
        load(share)
    part.unlink()
    with pytest.raises(TableNotFoundError, match=r"part-1\.parquet: there is no such file"):
        load(share)


@pytest.mark.parametrize("kind", ["points", "triplets"])
def test_a_part_that_was_written_anew_is_named(tmp_path, kind):
    """By a worker that is started again, which would learn from something else."""
    given = files(tmp_path, None)
    (share,) = given.opened().shares(1)
    load(share)
    if kind == "points":
        write_points(tmp_path / "points", X + 1.0)
    else:
        write_triplets(tmp_path / "triplets", TRIPLETS[::-1])
    with pytest.raises(TableError, match=rf"{kind}.*part-0\.parquet: was rewritten since the fit began"):
        load(share)
    (again,) = given.opened().shares(1)  # the same description, of the files as they are now
    assert load(again)[0].shape == X.shape
