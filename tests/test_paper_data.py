"""The paper's data sets: facts, files, cache, downloads (from a server on this machine) and their listing."""

import dataclasses
import gzip
import io
import re
import threading
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from typer.testing import CliRunner

from boostmetric.cli import app
from boostmetric.paper import archive, datasets, download, sources
from boostmetric.paper.benchmarks import BENCHMARKS, SYSTEMS
from boostmetric.paper.datasets import MissingDataError, concentric_circles, load
from boostmetric.paper.listing import describe_datasets
from boostmetric.paper.sources import SOURCES

runner = CliRunner()

LETTERS_TEXT = b"B,2,8\nA,5,12\nC,4,11\nA,7,11\n"
LETTERS = np.array([[2, 8], [5, 12], [4, 11], [7, 11]]), np.array([1, 0, 2, 0])


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache, and no folder of the user's."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("BOOSTMETRIC_CACHE", str(folder))
    monkeypatch.delenv("BOOSTMETRIC_DATA", raising=False)
    return folder


@contextmanager
def serving(answers):
    """A server on this machine that answers paths with (status, content, stated length); its address and its log."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            status, content, length = answers.get(self.path, (404, b"", 0))
            self.send_response(status)
            if length is not None:
                self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def small_letters(monkeypatch):
    """Letters with four rows; call it with the places that have them."""

    def place(*urls):
        small = dataclasses.replace(
            SOURCES["letters"],
            shape=(4, 2),
            n_classes=3,
            sha256=archive.content_hash(*LETTERS),
            places=tuple((url,) for url in urls),
        )
        monkeypatch.setitem(SOURCES, "letters", small)
        return small

    return place


def whole(content, status=200):
    return status, content, len(content)


def check_three_ways(message, name):
    assert "--data-dir" in message
    assert "BOOSTMETRIC_DATA" in message
    assert SOURCES[name].places[0][0] in message
    assert f"{name}.npz with arrays X" in message


# The facts


def test_rows_are_those_of_the_papers_tables(data_dir):
    source = data_dir.parent / "paper" / "boostmetric-nips2009.tex"
    if not source.exists():
        pytest.skip("needs the paper's source beside the data")
    lines = source.read_text(encoding="utf-8", errors="replace").replace(r"\\", "").splitlines()
    printed = [
        [cell.replace(r"\hline", "").strip() for cell in line.split("&")]
        for line in lines
        if re.match(r"\s*\d+\s*&", line)
    ]
    sizes, errors = [row for row in printed if len(row) == 9], [row for row in printed if len(row) == 8]
    assert len(sizes) == len(errors) == len(BENCHMARKS)
    for benchmark, (_, name, *numbers, time), (_, same_name, *cells) in zip(BENCHMARKS, sizes, errors, strict=True):
        n_train, n_test, n_features, n_pca, n_classes, n_runs = (int(n.replace(",", "") or 0) for n in numbers)
        assert name == same_name == benchmark.name
        assert (n_train, n_test) == (benchmark.printed_split or (benchmark.n_train, benchmark.n_test))
        assert (n_features, n_pca) == (benchmark.n_features, benchmark.n_pca or 0)
        assert (n_classes, n_runs, time) == (benchmark.n_classes, benchmark.n_runs, benchmark.printed_time)
        found = {}
        for system, cell in zip(SYSTEMS, cells, strict=True):
            if numbers := [float(number) for number in re.findall(r"[\d.]+", cell)]:
                found[system] = (numbers[0], numbers[1] if len(numbers) > 1 else None)
        assert found == benchmark.printed_errors


def test_printed_means_are_whole_numbers_of_errors():
    def fits(benchmark, n_test):
        n_tried = benchmark.n_runs * n_test
        means = [mean for mean, _ in benchmark.printed_errors.values()]
        return all(abs(100 * round(mean / 100 * n_tried) / n_tried - mean) < 0.0051 for mean in means)

    for benchmark in BENCHMARKS:
        assert fits(benchmark, benchmark.n_test), benchmark.name
        if benchmark.printed_split is not None:
            assert not fits(benchmark, benchmark.printed_split[1]), benchmark.name
            assert sum(benchmark.printed_split) == benchmark.n_train + benchmark.n_test


def test_blank_cells_are_absent():
    errors = {benchmark.name: benchmark.printed_errors for benchmark in BENCHMARKS}
    assert errors["USPS-1"] == {
        "Euclidean": (5.18, None),
        "RCA": (32.71, None),
        "LMNN": (7.51, None),
        "BoostMetric": (2.96, None),
    }
    assert list(errors["Wine"]) == list(SYSTEMS)
    assert errors["Wine"]["NCA"] == (27.36, 6.31)


@pytest.mark.parametrize("name", SOURCES)
def test_shared_files_have_the_pinned_hash(name, data_dir):
    X, y = archive.read(data_dir / f"{name}.npz")
    assert download.differences_from(SOURCES[name], X, y) == []


# In single precision: the last bit of a sine in double precision depends on the processor.
@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("iris", "097c516a0c6b735cf4541b6a9f7ac7784ee7c82b29df794039298f19228d7b0e"),
        ("wine", "01b6fc7b87030150455dfec527c1a2bf5d455e0c07a93603b8da59ed863d61dc"),
        ("balance", "e0ae66dcb60995b2e0d7ab7f07736f03a71d563e43909a601c377d2ded4f1f6e"),
        ("twin_peaks", "597b20b8151d95cbc544272bfbd208ca79be27d364783bbbee8ba7baf785eea6"),
        ("helix", "3646cec0097db51bd65673b827b5ec2f16b9a1694fce5010eb7215f20483bee3"),
        ("circles", "99cc0d93f251d71809f46e53dbd3771ac77aa35ca6351b1bd5831f60fa0ab0d2"),
    ],
)
def test_bundled_and_generated_sets_never_change(name, sha256, monkeypatch, tmp_path):
    monkeypatch.setenv("BOOSTMETRIC_DATA", str(tmp_path))
    archive.write(tmp_path / f"{name}.npz", np.zeros((3, 2)), np.arange(3))  # is not looked at
    X, y = load(name)
    assert (X.dtype, y.dtype) == (np.float64, np.int64)
    assert archive.content_hash(X, y) == sha256


def test_hash_is_of_the_numbers_and_their_order():
    X, y = concentric_circles(20)
    same = archive.content_hash(np.asfortranarray(X).astype(">f8"), y.astype(np.uint8))
    assert same == archive.content_hash(X, y)
    assert archive.content_hash(-np.zeros((2, 2)), y[:2]) == archive.content_hash(np.zeros((2, 2)), y[:2])
    others = [(X[::-1], y[::-1]), (X.reshape(10, 20), y), (X, y + 1), (X + np.eye(20, 10), y)]
    assert len({archive.content_hash(*other) for other in others} | {same}) == 5


# The user's own files


def test_own_folder_comes_before_the_cache_and_a_given_one_before_the_named(
    cache, monkeypatch, tmp_path, small_letters
):
    small_letters("http://127.0.0.1:9/none")
    X, y = LETTERS
    archive.write(cache / "letters.npz", X, y)
    for folder, shift in (("named", 1), ("given", 2)):
        archive.write(tmp_path / folder / "letters.npz", X + shift, y)
    assert np.array_equal(load("letters")[0], X)
    monkeypatch.setenv("BOOSTMETRIC_DATA", str(tmp_path / "named"))
    assert np.array_equal(load("letters")[0], X + 1)
    assert np.array_equal(load("letters", tmp_path / "given")[0], X + 2)


def test_letters_are_the_first_15000(data_dir):
    X, y = load("letters", data_dir)
    assert X.shape == (15000, 16)
    assert (X.dtype, y.dtype) == (np.float64, np.int64)


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


X4, Y4 = LETTERS
GOOD = npz(X=X4, y=Y4)


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"no archive at all", "cannot be read as an .npz file"),
        (b"", "cannot be read as an .npz file"),
        (GOOD[:-40], "cannot be read as an .npz file"),
        (GOOD.replace(X4.tobytes(), bytes(X4.nbytes)), "cannot be read as an .npz file"),
        (npz(X=X4), "it has no array y (it has: X)"),
        (npz(data=X4), "it has no array X and no array y (it has: data)"),
        (npy(X4), "it is a single array"),
        (npz(X=np.array([{}] * 4), y=Y4), "cannot be read as an .npz file"),
        (npz(X=X4[:3], y=Y4[:3]), "X has shape (3, 2), not (4, 2); y has shape (3,), not (4,)"),
        (npz(X=X4.astype(str), y=Y4), "which is not numeric"),
        (npz(X=X4 * [[1, np.inf]], y=Y4), "not finite"),
        (npz(X=X4, y=Y4 / 2), "y has dtype float64, which is not an integer type"),
        (npz(X=X4, y=Y4 // 2), "y has 2 classes, not 3"),
    ],
    ids=[
        "junk",
        "empty",
        "cut",
        "altered",
        "no y",
        "no arrays",
        "npy",
        "objects",
        "rows",
        "text",
        "inf",
        "float",
        "classes",
    ],
)
def test_unusable_files_are_named_with_what_is_wrong(content, wrong, cache, tmp_path, small_letters):
    small_letters("http://127.0.0.1:9/letters.data")
    path = tmp_path / "letters.npz"
    path.write_bytes(content)
    with pytest.raises(MissingDataError) as error:
        load("letters", tmp_path)
    assert f"the file {path} cannot be used: " in str(error.value)
    assert wrong in str(error.value)
    check_three_ways(str(error.value), "letters")


def test_a_folder_that_is_not_there_is_named(cache, monkeypatch, tmp_path):
    with pytest.raises(MissingDataError, match=r"there is no folder .*typo"):
        load("usps", tmp_path / "typo")
    monkeypatch.setenv("BOOSTMETRIC_DATA", str(tmp_path / "typo"))
    with pytest.raises(MissingDataError, match=r"there is no folder .*typo"):
        load("usps")


def test_unknown_sets_are_refused():
    with pytest.raises(ValueError, match=r"'usbs' is not a data set of the paper\. Available: iris, .*usps"):
        load("usbs")


# Downloads


def test_a_download_is_shown_kept_and_not_repeated(cache, small_letters, capsys):
    with serving({"/letters.data": whole(LETTERS_TEXT)}) as (address, asked):
        small_letters(f"{address}/letters.data")
        first = load("letters")
        shown = capsys.readouterr()
        again = load("letters")
    assert asked == ["/letters.data"]
    assert "Downloading letters" in shown.err
    assert shown.out == ""
    for X, y in (first, again):
        assert np.array_equal(X, X4)
        assert np.array_equal(y, Y4)
        assert (X.dtype, y.dtype) == (np.float64, np.int64)
    assert [path.name for path in cache.iterdir()] == ["letters.npz"]
    assert np.array_equal(load("letters")[0], X4)  # the server is gone


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (whole(b"gone", 500), "the server answered 500 Internal Server Error"),
        (whole(b"gone", 404), "the server answered 404 Not Found"),
        ((200, LETTERS_TEXT[:10], len(LETTERS_TEXT)), "ended"),
        (whole(LETTERS_TEXT.replace(b"C,4,11", b"C,4,12")), "sent unexpected data for 'letters': the SHA-256"),
        (whole(LETTERS_TEXT[::-1]), "sent an unexpected file"),
        (whole(b"A,1,2\n"), "X has shape (1, 2), not (4, 2)"),
        (whole(b"<html>please log in</html>"), "sent"),
        (whole(b""), "sent"),
    ],
    ids=["500", "404", "truncated", "other data", "reversed", "short", "page", "empty"],
)
def test_failed_downloads_say_why_and_leave_nothing(answer, wrong, cache, small_letters):
    with serving({"/letters.data": answer}) as (address, asked):
        source = small_letters(f"{address}/letters.data")
        with pytest.raises(MissingDataError) as error:
            load("letters")
    message = str(error.value)
    assert asked == ["/letters.data"]
    assert wrong in message
    assert "no data folder was given, it is not in the cache, and the download failed" in message
    check_three_ways(message, "letters")
    if "SHA-256" in wrong:
        other = archive.content_hash(np.array([[2, 8], [5, 12], [4, 12], [7, 11]]), Y4)
        assert f"is {other}, not {source.sha256}" in message
    assert not cache.exists() or not list(cache.iterdir())


def test_a_truncated_download_without_a_stated_length_is_caught_by_the_hash(cache, small_letters):
    with serving({"/letters.data": (200, LETTERS_TEXT[:-9], None)}) as (address, _):
        small_letters(f"{address}/letters.data")
        with pytest.raises(MissingDataError, match="X has shape"):
            load("letters")


def test_downloads_without_end_are_given_up(cache, small_letters, monkeypatch):
    monkeypatch.setattr(download, "_LARGEST", 10)
    with serving({"/letters.data": whole(LETTERS_TEXT)}) as (address, _):
        small_letters(f"{address}/letters.data")
        with pytest.raises(MissingDataError, match="sends more than 10 bytes"):
            load("letters")


def test_the_next_place_is_asked_and_all_failures_are_named(cache, small_letters):
    with serving({"/good": whole(LETTERS_TEXT), "/bad": whole(b"A,1,2\n")}) as (address, asked):
        small_letters(f"{address}/none", f"{address}/bad", f"{address}/good")
        assert np.array_equal(load("letters")[0], X4)
        assert asked == ["/none", "/bad", "/good"]
        (cache / "letters.npz").unlink()
        small_letters(f"{address}/none", f"{address}/bad")
        with pytest.raises(MissingDataError, match=r"/none cannot be downloaded .*404.*; .*/bad sent unexpected data"):
            load("letters")


def test_a_damaged_cache_is_replaced(cache, small_letters):
    with serving({"/letters.data": whole(LETTERS_TEXT)}) as (address, asked):
        small_letters(f"{address}/letters.data")
        archive.write(cache / "letters.npz", X4 + 1, Y4)  # right shape, other numbers: the hash tells
        assert np.array_equal(load("letters")[0], X4)
        assert np.array_equal(archive.read(cache / "letters.npz")[0], X4)
        (cache / "letters.npz").write_bytes(b"half")
        assert np.array_equal(load("letters")[0], X4)
    assert len(asked) == 2
    (cache / "letters.npz").write_bytes(b"half")
    with pytest.raises(MissingDataError, match=r"letters\.npz is damaged, and the download failed"):
        load("letters")


def test_data_are_there_even_if_they_cannot_be_kept(cache, small_letters):
    cache.write_text("a file where the folder should be")
    with serving({"/letters.data": whole(LETTERS_TEXT)}) as (address, _):
        small_letters(f"{address}/letters.data")
        with pytest.warns(UserWarning, match="cannot be saved in .*BOOSTMETRIC_CACHE"):
            X, _ = load("letters")
    assert np.array_equal(X, X4)


def test_cache_folder_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("BOOSTMETRIC_CACHE", str(tmp_path))
    assert download.cache_folder() == tmp_path
    monkeypatch.delenv("BOOSTMETRIC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert download.cache_folder() == tmp_path / "xdg" / "boostmetric"
    for unset in ("", "relative"):  # the XDG specification: to be ignored
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert download.cache_folder() == Path.home() / ".cache" / "boostmetric"


# The publishers' formats


def test_usps_is_read_from_planes_of_columns():
    images = np.random.default_rng(0).integers(0, 256, (10, 3, 16, 16), dtype=np.uint8)  # digit, number, row, column
    columns = images.transpose(0, 1, 3, 2).reshape(10, 3, 256)
    planes = columns[[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]].transpose(2, 1, 0)
    file = io.BytesIO()
    savemat(file, {"data": planes})
    X, y = sources.read_usps([file.getvalue()])
    assert np.array_equal(X, images.reshape(30, 256))
    assert np.array_equal(y, np.repeat(np.arange(10), 3))


@pytest.mark.parametrize(("names", "brightest"), [(("X", "Y"), 255), (("fea", "gnd"), 1)])
def test_coil20_is_read_from_columns_of_either_brightness(names, brightest):
    images = np.random.default_rng(0).integers(0, 256, (6, 32, 32))
    images[0, 0, 0] = 255
    columns = images.transpose(0, 2, 1).reshape(6, 1024) * (brightest / 255)
    file = io.BytesIO()
    savemat(file, dict(zip(names, (columns, np.array([[1, 1, 2, 2, 3, 3]]).T), strict=True)))
    X, y = sources.read_coil20([file.getvalue()])
    assert np.array_equal(X, images.reshape(6, 1024))
    assert y.tolist() == [0, 0, 1, 1, 2, 2]


def test_orl_is_halved_and_sorted_by_person_and_number():
    pixels = np.array([[0, 1, 10, 20], [0, 1, 30, 43]], dtype=np.uint8)  # means 0.5 and 25.75
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        for person, number in ((10, 1), (2, 10), (2, 9)):
            shifted = pixels + np.uint8(2 * number)
            zipped.writestr(f"some-folder/s{person}/{number}.pgm", b"P5\n4 2\n255\n" + shifted.tobytes())
        zipped.writestr("README", "no image")
    X, y = sources.read_orl([file.getvalue()])
    assert X.tolist() == [[18, 44], [20, 46], [2, 28]]
    assert y.tolist() == [1, 1, 9]


def test_mnist_is_read_from_idx():
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    header = bytes([0, 0, 8, 3]) + np.array([2, 3, 4], dtype=">i4").tobytes()
    labels = bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 5])
    X, y = sources.read_mnist([gzip.compress(header + images.tobytes()), gzip.compress(labels)])
    assert np.array_equal(X, images.reshape(2, 12))
    assert y.tolist() == [7, 5]


def test_arff_leaves_out_rows_with_missing_values():
    text = b"""@relation cars
@attribute 'RADIUS RATIO' numeric
@attribute b real
@attribute Class {van,bus,opel}
@data
1,2.5,van
?,2,opel
3,4,bus
5,6,opel
"""
    X, y = sources.read_arff([text])
    assert X.tolist() == [[1, 2.5], [3, 4], [5, 6]]
    assert y.tolist() == [2, 0, 1]


# The listing


def test_listing_says_where_each_set_comes_from(cache, monkeypatch, tmp_path, small_letters):
    small_letters("https://example.org/letters.data")
    rows = {row.name: row for row in describe_datasets()}
    assert list(rows) == [*(benchmark.name for benchmark in BENCHMARKS), "Motorbikes", "Faces", "Circles"]
    assert (rows["Faces"].size, rows["Faces"].printed_split) == ("902 images", "573 + 382")
    assert rows["Faces"].origin == "can be downloaded from data.caltech.edu"
    assert (rows["Wine"].origin, rows["Bal"].origin) == ("comes with scikit-learn", "generated")
    assert rows["Letters"].origin == "can be downloaded from example.org"
    assert not rows["Letters"].available
    assert (rows["ORLFace-1"].split, rows["ORLFace-1"].printed_split) == ("280 + 120", "340 + 60")
    assert (rows["Iris"].split, rows["Iris"].printed_split) == ("105 + 45", "")
    assert (rows["USPS-2"].preprocessing, rows["Vehicle"].preprocessing) == ("PCA 64", "[-1, 1]")
    assert rows["Breast-Cancer"].size == "683 x 9, printed: 10"
    assert rows["Twin Peaks"].size == "20,000 x 3"

    def letters(data_dir=None):
        return next((row.origin, row.available) for row in describe_datasets(data_dir) if row.name == "Letters")

    archive.write(cache / "letters.npz", *LETTERS)
    assert letters() == (f"in the cache {cache}", True)
    archive.write(cache / "letters.npz", X4 + 1, Y4)
    assert letters() == ("damaged in the cache; can be downloaded from example.org", False)
    archive.write(tmp_path / "letters.npz", *LETTERS)
    assert letters(tmp_path) == (f"file in {tmp_path}", True)
    archive.write(tmp_path / "letters.npz", X4 + 1, Y4)
    monkeypatch.setenv("BOOSTMETRIC_DATA", str(tmp_path))
    assert letters() == (f"file in {tmp_path} (its numbers differ from ours)", True)
    archive.write(tmp_path / "letters.npz", X4, Y4 * 0)
    assert letters() == (f"{tmp_path / 'letters.npz'} cannot be used: y has 1 classes, not 3", False)
    assert letters(tmp_path / "typo") == (f"there is no folder {tmp_path / 'typo'}", False)


def test_command_prints_the_listing_and_runs_nothing(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["paper", "datasets"])
    assert result.exit_code == 0, result.output
    assert re.search(
        r"Vehicle +846 x 18 +4 +\[-1, 1\] +593 \+ 253 +can be downloaded from www\.openml\.org", result.output
    )
    assert re.search(r"Helix +20,000 x 3 +7 +raw +14,000 \+ 6,000 +generated", result.output)
    assert "printed 142 + 36" in result.output
    assert list(tmp_path.iterdir()) == []
    result = runner.invoke(app, ["paper", "datasets", "--data-dir", "typo"])
    assert result.exit_code == 2
    assert "typo is not a folder" in result.output


def test_all_sets_are_known():
    assert {benchmark.source for benchmark in BENCHMARKS} | {"circles"} == {*datasets.GENERATED, *SOURCES}
    for benchmark in BENCHMARKS:
        if benchmark.source in SOURCES and benchmark.source != "letters":
            assert SOURCES[benchmark.source].shape[0] == benchmark.n_train + benchmark.n_test
            assert SOURCES[benchmark.source].n_classes == benchmark.n_classes
