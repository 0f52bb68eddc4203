"""The paper's images: where they come from, and its experiments on drawn ones."""

import dataclasses
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import boostmetric
from boostmetric.cli import app
from boostmetric.paper import experiments, image_experiments, image_results, pictures
from boostmetric.paper.datasets import MissingDataError
from boostmetric.paper.experiments import tasks
from boostmetric.paper.image_experiments import CUTS, METRICS, NEIGHBORS, SVM, histograms, image_tasks, precisions
from boostmetric.paper.page import write_report
from boostmetric.paper.pictures import CATEGORIES, cached_pictures, find_pictures
from boostmetric.paper.protocol import TrainTestSplit
from boostmetric.paper.runner import FAILED, OK, OVER_TIME, FitRow
from boostmetric.paper.tables import Results
from drawn import checks, rectangles, save
from test_paper_data import cache, serving, whole  # noqa: F401

# Where they come from


def tar_of(files, kind="w:gz"):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=kind) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("101_ObjectCategories/Faces/link.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return packed.getvalue()


def published(**more):
    """An archive as it is published, with a few bytes instead of pictures; further files of the inner one by name."""
    top = "101_ObjectCategories"
    files = {f"{top}/{name}/image_000{i}.jpg": f"{name} {i}".encode() for name in CATEGORIES.values() for i in (2, 1)}
    files |= {f"{top}/Faces_easy/image_0001.jpg": b"not wanted", f"{top}/BACKGROUND_Google/tmp": b"not a picture"}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as outer:
        outer.writestr("caltech-101/Annotations.tar", b"")
        outer.writestr("__MACOSX/caltech-101/._101_ObjectCategories.tar.gz", b"no archive")
        outer.writestr("caltech-101/101_ObjectCategories.tar.gz", tar_of(files | more))
    return file.getvalue()


@pytest.fixture
def publisher(monkeypatch, cache):  # noqa: F811
    """Call it with an archive, as a context: the address is the publisher's, and its hash the one expected."""

    def serve(content, answer=None, sha256=None):
        found = serving({"/caltech-101.zip": answer or whole(content)})
        monkeypatch.setattr(pictures, "SHA256", sha256 or hashlib.sha256(content).hexdigest())
        return found

    return serve


def place(monkeypatch, address):
    monkeypatch.setattr(pictures, "URL", f"{address}/caltech-101.zip")


def test_a_download_holds_the_four_classes_and_is_not_repeated(publisher, monkeypatch, capsys):
    with publisher(published()) as (address, asked):
        place(monkeypatch, address)
        for name, theirs in CATEGORIES.items():
            files = find_pictures(name)
            assert [path.name for path in files] == ["image_0001.jpg", "image_0002.jpg"]
            assert [path.read_text() for path in files] == [f"{theirs} 1", f"{theirs} 2"]
    assert asked == ["/caltech-101.zip"]
    assert "Downloading Caltech-101" in capsys.readouterr().err
    assert sorted(path.name for path in cached_pictures().iterdir()) == sorted(CATEGORIES)


def test_a_class_missing_from_the_cache_is_fetched_again(publisher, monkeypatch):
    with publisher(published()) as (address, asked):
        place(monkeypatch, address)
        (cached_pictures() / "faces").mkdir(parents=True)
        (cached_pictures() / "faces" / "kept.jpg").write_bytes(b"kept")
        assert len(find_pictures("airplanes")) == 2
        assert [path.name for path in find_pictures("faces")] == ["kept.jpg"]
    assert len(asked) == 1


def test_names_in_the_archive_do_not_lead_out_of_the_folder(publisher, monkeypatch, tmp_path):
    tricks = {
        "../../../Faces/../outside.jpg": b"x",
        "/Faces/rooted.jpg": b"x",
        "101_ObjectCategories/Faces/../../../up.jpg": b"x",
        "101_ObjectCategories/Faces/._image_0001.jpg": b"x",
    }
    with publisher(published(**tricks)) as (address, _):
        place(monkeypatch, address)
        assert [path.name for path in find_pictures("faces")] == ["image_0001.jpg", "image_0002.jpg", "rooted.jpg"]
    inside = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert all(path.parent.parent == cached_pictures() for path in inside)
    assert not Path("/Faces").exists()


@pytest.mark.parametrize(
    ("answer", "sha256", "wrong"),
    [
        (whole(b"gone", 404), None, "the server answered 404 Not Found"),
        ((200, published()[:100], 5000), None, "ended"),
        (None, "0" * 64, "sent an unexpected file: its SHA-256 is [0-9a-f]{64}, not 0{64}"),
        (whole(published()[:-10]), None, "sent an unexpected file"),
    ],
    ids=["404", "truncated", "hash", "short"],
)
def test_a_failed_download_says_why_leaves_nothing_and_names_the_ways(publisher, monkeypatch, answer, sha256, wrong):
    with publisher(published(), answer, sha256) as (address, _):
        place(monkeypatch, address)
        with pytest.raises(MissingDataError, match=wrong) as error:
            find_pictures("background_google")
    for part in ("no data folder was given", address, "BACKGROUND_Google", "images/background_google", "--data-dir"):
        assert part in str(error.value)
    assert "BOOSTMETRIC_DATA" in str(error.value)
    assert not cached_pictures().exists()


def test_an_interrupted_unpacking_leaves_no_class(publisher, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with publisher(published()) as (address, _):
        place(monkeypatch, address)
        with monkeypatch.context() as patch:
            patch.setattr(pictures.shutil, "copyfileobj", interrupt)
            with pytest.raises(KeyboardInterrupt):
                find_pictures("faces")
        assert not list(cached_pictures().iterdir())
        assert len(find_pictures("faces")) == 2


def test_a_killed_unpacking_leaves_no_class(publisher, monkeypatch, cache):  # noqa: F811
    with publisher(published()) as (address, _):
        place(monkeypatch, address)
        program = f"""
import shutil, time
from boostmetric.paper import pictures
pictures.URL, pictures.SHA256 = {pictures.URL!r}, {pictures.SHA256!r}
shutil.copyfileobj = lambda *_: time.sleep(60)
pictures.find_pictures("faces")
"""
        process = subprocess.Popen([sys.executable, "-c", program], env=os.environ, stderr=subprocess.DEVNULL)
        while not list(cache.rglob("*.jpg")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not [path for path in cached_pictures().iterdir() if path.name in CATEGORIES]
        assert len(find_pictures("faces")) == 2


def test_a_cache_that_cannot_be_written_is_said(publisher, monkeypatch, cache):  # noqa: F811
    cache.write_text("a file where the folder should be")
    with publisher(published()) as (address, _):
        place(monkeypatch, address)
        with pytest.raises(MissingDataError, match=r"the download failed: .*cache"):
            find_pictures("faces")


def test_own_folder_comes_first(tmp_path, monkeypatch, cache):  # noqa: F811
    for folder in ("named", "given"):
        (tmp_path / folder / "images" / "faces").mkdir(parents=True)
        for name in ("b.JPG", "a.jpg", "notes.txt", "._a.jpg"):
            (tmp_path / folder / "images" / "faces" / name).touch()
    monkeypatch.setenv("BOOSTMETRIC_DATA", str(tmp_path / "named"))
    assert find_pictures("faces") == [tmp_path / "named" / "images" / "faces" / name for name in ("a.jpg", "b.JPG")]
    assert find_pictures("faces", tmp_path / "given")[0].parent == tmp_path / "given" / "images" / "faces"
    (tmp_path / "given" / "images" / "airplanes").mkdir()
    with pytest.raises(MissingDataError, match=r"airplanes holds no \.jpg files"):
        find_pictures("airplanes", tmp_path / "given")
    with pytest.raises(MissingDataError, match=r"there is no folder .*motorbikes.*tests do not use the network"):
        find_pictures("motorbikes", tmp_path / "given")


# The experiments


@pytest.fixture
def small(monkeypatch, tmp_path, cache):  # noqa: F811
    """Both experiments with few drawn pictures, two splits, small codebooks, in this process; the folder of data."""
    folder = tmp_path / "data"
    for number, (name, draw) in enumerate(zip(CATEGORIES, (rectangles, checks) * 2, strict=True)):
        save(folder / "images" / name, [draw(100 * number + seed) for seed in range(24)], "jpg")
    benchmarks = {
        benchmark: dataclasses.replace(benchmark, n_train=24) for benchmark in image_experiments.IMAGE_BENCHMARKS
    }
    for module in (image_experiments, experiments):
        monkeypatch.setattr(module, "IMAGES_OF", {k: benchmarks[v] for k, v in experiments.IMAGES_OF.items()})
        monkeypatch.setattr(module, "IMAGE_BENCHMARKS", tuple(benchmarks.values()))
    changed = tuple(benchmarks.get(b, b) for b in experiments.ALL_SETS)
    monkeypatch.setattr(experiments, "ALL_SETS", changed)
    monkeypatch.setattr(image_experiments, "N_RUNS", 2)
    monkeypatch.setattr(image_experiments, "_PENALTIES", [0.01, 1.0])
    for module in (image_experiments, image_results):
        monkeypatch.setattr(module, "CODEBOOKS", {"5 words": (5, "count"), "7 words": (7, "sqrt")})
        monkeypatch.setattr(module, "TRIPLETS", "5 words")
        monkeypatch.setattr(module, "NEIGHBORS", (1, 2))
    monkeypatch.setattr(image_results, "_SHOWN", ("5 words", "7 words"))
    monkeypatch.setattr(image_results, "_PRINTED", {"5 words": image_results._PRINTED["100 words"]})
    monkeypatch.setattr("boostmetric.paper.runner.run", run_here)
    return folder


def run_here(todo, execute, file, *, on_row, **_):
    """As the runner, in this process, which knows of the small experiments."""
    for done, task in enumerate(todo, 1):
        if task not in file.rows:
            file.append(FitRow(*task, boostmetric.__version__, OK, execute(task)))
        on_row(done, len(todo))


def paper(*arguments):
    return CliRunner().invoke(app, ["paper", *map(str, arguments)])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_both_experiments_enter_the_report(small, tmp_path, monkeypatch):
    result = paper("motorbikes", "faces", "-o", tmp_path / "out", "--data-dir", small, "--runs", 1)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 2 * 5 + 2 + 2 * 4
    errors = [row["figures"]["error"] for row in rows if row["experiment"] == "motorbikes"]
    assert len(errors) == 10
    assert np.mean(errors) < 25  # the two kinds of pictures are easily told apart
    precisions = [row["figures"]["precision"] for row in rows if row["experiment"] == "faces"]
    assert np.shape(precisions) == (8, len(CUTS))
    assert np.mean(precisions, axis=0)[0] > 75
    for row in rows:
        if row["experiment"] == "motorbikes-triplets":
            assert row["figures"]["triplets"] == 24 * int(row["system"]) ** 2
    html, text = (tmp_path / "out" / "report.html").read_text(), (tmp_path / "out" / "paper.md").read_text()
    for part in ("Figure 3: Motorbikes against Airplanes", "Figure 4: Faces against Background", "7 words, first 20"):
        assert part in html
        assert part in text
    assert html.count("data:image/png;base64,") == 2
    for name in ("motorbikes", "faces"):
        assert (tmp_path / "out" / "figures" / f"{name}.png").stat().st_size > 1000
        assert image_experiments.prepare(experiments.IMAGES_OF[name], small) in html
    # The same again needs neither images nor fits.
    monkeypatch.setattr("boostmetric.vision.extraction.read", None)
    monkeypatch.setattr(image_experiments, "measure", None)
    assert paper("faces", "-o", tmp_path / "out", "--data-dir", small, "--runs", 1).exit_code == 0


def test_histograms_are_of_a_split_and_kept(small, monkeypatch, cache):  # noqa: F811
    benchmark = experiments.IMAGES_OF["faces"]
    part = histograms(benchmark, 5, 0, small)
    assert part.X_train.shape == (24, 5)
    assert part.X_test.shape == (24, 5)
    assert sorted([*part.y_train, *part.y_test]) == [0] * 24 + [1] * 24
    (kept,) = (cache / "histograms").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(image_experiments.VisualWords, "fit_transform", None)
        again = histograms(benchmark, 5, 0, small)
        for version in ("boostmetric.__version__", "sklearn.__version__", "boostmetric.vision.extraction._VERSION"):
            with patch.context() as other:
                other.setattr(version, "0.0.0")
                with pytest.raises(TypeError):
                    histograms(benchmark, 5, 0, small)
        for changed, n_words, seed in ((benchmark, 6, 0), (benchmark, 5, 1)):
            with pytest.raises(TypeError):
                histograms(changed, n_words, seed, small)
        with pytest.raises(TypeError):
            histograms(dataclasses.replace(benchmark, n_train=20), 5, 0, small)
    assert np.array_equal(again.X_test, part.X_test)
    kept.write_bytes(b"damaged")
    assert np.array_equal(histograms(benchmark, 5, 0, small).X_train, part.X_train)


def test_words_are_learned_on_the_training_part(small, monkeypatch):
    seen = []
    monkeypatch.setattr(image_experiments, "words", lambda *a, **b: Watched(seen))
    monkeypatch.setattr(image_experiments, "replacing", None)

    class Watched:
        detector, upright, max_side, descriptor, weighting = "dense", True, 640, "sift", "count"

        def __init__(self, seen):
            self.seen = seen

        def fit_transform(self, files):
            self.seen.append(("fit", set(files)))
            return np.zeros((len(files), 5))

        def transform(self, files):
            self.seen.append(("transform", set(files)))
            return np.zeros((len(files), 5))

    with pytest.raises(TypeError):  # nothing is kept
        histograms(experiments.IMAGES_OF["faces"], 5, 3, small)
    (first, train), (second, test) = seen
    assert (first, second) == ("fit", "transform")
    assert len(train) == len(test) == 24
    assert not train & test


def test_precision_is_that_of_a_literal_search():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), np.repeat([0, 1], 30)
    X[:30] += 1
    expected = np.zeros(len(CUTS))
    for query in range(30):
        order = sorted((i for i in range(60) if i != query), key=lambda i: np.linalg.norm(X[i] - X[query]))
        expected += [100 * np.mean(y[order[:cut]] == 0) / 30 for cut in CUTS]
    assert np.allclose(precisions(TrainTestSplit(X, y, X, y)), expected)
    assert not np.allclose(precisions(TrainTestSplit(X, y, X, y), lambda points: points[:, :1]), expected)


def test_tasks_are_those_of_the_paper():
    assert len(tasks("motorbikes")) == 10 * 4 * (len(METRICS) + 1) + 10 * len(NEIGHBORS)
    assert len(tasks("faces")) == 10 * 4 * len(METRICS)
    assert {task.system for task in tasks("faces")} == set(METRICS)
    assert len(image_tasks(image_experiments.FACES, 3)) == 3 * 4 * len(METRICS)
    sizes = [(benchmark.n_train, benchmark.categories) for benchmark in image_experiments.IMAGE_BENCHMARKS]
    assert sizes == [(959, ("motorbikes", "airplanes")), (541, ("faces", "background_google"))]


def test_only_other_sets_leaves_images_out(small, tmp_path):
    result = paper("motorbikes", "faces", "-o", tmp_path / "out", "--data-dir", small, "--only", "wine")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "out" / "paper.md").read_text()
    assert "Figure 3" not in text
    assert not (tmp_path / "out" / "figures").exists()


def test_missing_few_and_broken_images_are_named_and_left_out(small, tmp_path, monkeypatch):
    airplanes = small / "images" / "airplanes"
    airplanes.rename(tmp_path / "moved")
    (small / "images" / "faces" / "image_0003.jpg").write_bytes(b"broken")
    result = paper("motorbikes", "faces", "-o", tmp_path / "out", "--data-dir", small, "--runs", 1)
    assert result.exit_code == 1, result.output
    assert (
        f"Motorbikes left out. The images 'airplanes' do not come with the package; there is no folder {airplanes}"
        in (result.output)
    )
    assert "Faces left out. 1 of 48 images cannot be used." in result.output
    assert "image_0003.jpg cannot be read as a picture" in result.output
    assert "No set is left: nothing was run" in result.output
    assert not (tmp_path / "out" / "paper.md").exists()
    airplanes.mkdir()
    save(airplanes, [checks(0)], "jpg")
    monkeypatch.setattr(image_experiments.VisualWords, "describe", None)
    with pytest.raises(MissingDataError, match=r"needs 24 images to learn from and more than 20 others; .* hold 25"):
        image_experiments.prepare(experiments.IMAGES_OF["motorbikes"], small)


def test_missing_opencv_is_named_and_images_are_left_out(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    result = paper("faces", "-o", tmp_path / "out", "--data-dir", small)
    assert result.exit_code == 1, result.output
    assert "Faces left out. " in result.output
    assert "needs the package cv2, which is not installed" in result.output


# Tables and figures


def row(experiment, words, system, seed, **figures):
    return FitRow(experiment, words, system, seed, "", OK, figures)


def test_motorbikes_table_has_ours_above_the_printed():
    errors = {"Euclidean": [10.0, 12.0], "BoostMetric": [3.0, 4.0], SVM: [3.001, 4.0], "LMNN": [1.0]}
    rows = [row("motorbikes", "100 words", s, i, error=e) for s, values in errors.items() for i, e in enumerate(values)]
    rows.append(FitRow("motorbikes", "100 words", "LMNN", 1, "", OVER_TIME, {}, "over 5 s"))
    table = image_results.motorbikes_table(Results(rows))
    assert [cells[0].text for cells in table.rows] == ["100 words"]  # there are no rows of 200
    text = table.markdown()
    assert "| 11.00 (1.00)<br><sub>15.00 (1.00)</sub> |" in text
    assert "| over time<br><sub>4.70 (0.50)</sub> |" in text  # not the mean of the split that came to an end
    assert "| **3.50 (0.50)**<br><sub>3.63 (0.68)</sub> |" in text
    assert "**3.50 (0.50)**<br><sub>3.87 (0.69)</sub> |" in text
    assert image_results.motorbikes_table(Results([])).rows == []


def test_faces_table_has_the_largest_precision_in_bold():
    rows = [
        row("faces", "200 words", metric, seed, precision=[90.0 + i + seed - cut for cut in range(4)])
        for i, metric in enumerate(METRICS)
        for seed in (0, 2)
    ]
    table = image_results.faces_table(Results(rows))
    assert [cells[0].text for cells in table.rows] == [f"200 words, first {cut}" for cut in CUTS]
    assert [cell.text for cell in table.rows[3]][1:] == ["88.00 (1.00)", "89.00 (1.00)", "90.00 (1.00)", "91.00 (1.00)"]
    assert [cell.best for cell in table.rows[3]][1:] == [False, False, False, True]
    assert image_results.faces_table(Results([])).rows == []


@pytest.mark.parametrize("present", ["all", "one codebook", "one system", "no triplets"])
def test_figures_of_a_run_that_is_not_whole(present, tmp_path):
    rows = []
    for task in [*tasks("motorbikes", runs=2), *tasks("faces", runs=2)]:
        gone = (
            (present == "one codebook" and task.data == "200 words")
            or (present == "one system" and task.system == "LMNN" and task.data == "200 words")
            or (present == "no triplets" and task.experiment == "motorbikes-triplets")
        )
        figures = {"error": 3.0 + task.seed, "triplets": 1000, "precision": [90.0, 80.0, 70.0, 60.0 + task.seed]}
        rows.append(
            FitRow(*task, "", FAILED if gone else OK, {} if gone else figures, "ValueError: odd" if gone else "")
        )
    write_report(tmp_path, Results(rows), ("motorbikes", "faces"), {})
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        f"{name}.{suffix}" for name in ("motorbikes", "faces") for suffix in ("png", "pdf")
    }
    html = (tmp_path / "report.html").read_text()
    assert ("ValueError: odd" in html) == (present != "all")
    assert ("motorbikes, 200 words, LMNN, split 1: failed. ValueError: odd" in html) == present.startswith("one")
