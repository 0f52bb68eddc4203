"""The command line, as a user runs it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from boostmetric import __version__
from boostmetric.cli import app
from boostmetric.paper.datasets import BENCHMARKS, MissingDataError, concentric_circles, load
from boostmetric.paper.illustration import circles
from boostmetric.paper.protocol import splits
from boostmetric.storage.files import replacing

runner = CliRunner()


def said(result):
    """What was printed, as one line: errors come in a box as wide as the terminal."""
    return " ".join(result.output.replace("│", " ").split())


def test_demo_prints_errors_and_writes_a_picture(tmp_path):
    result = runner.invoke(app, ["demo", "--output", str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    assert "Circles, 9,000 triplets" in result.output
    assert "Requests to a bank: 1,050 sentences of 30 intents." in result.output
    (row,) = (line for line in result.output.splitlines() if "Requests, 450 others" in line)
    before, after = (float(cell.split()[0]) for cell in row.split("│")[2:4])
    assert after < before - 2
    picture, page = (tmp_path / "new" / name for name in ("circles.png", "report.html"))
    assert picture.read_bytes().startswith(b"\x89PNG")
    html = page.read_text()
    assert "<h1>Requests to a bank: a learned metric</h1>" in html
    for section in ("Before and after", "Class by class", "The points in two dimensions", "Nearest neighbours"):
        assert f">{section}</h2>" in html
    assert ">Features</h2>" not in html  # dimensions without names
    assert "Better: mean of 3-NN and MAP@10" in html
    assert "Gained most:" in html
    assert "All 30 classes" in html
    assert html.count('class="id">') > 20
    assert 'class="id">0<' not in html  # sentences in place of numbers
    assert "://" not in html.replace("http://www.w3.org/2000/svg", "")  # nothing is loaded from elsewhere
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["circles.png", "report.html"]


def test_circles_are_found_by_the_learned_metric_only():
    found = circles()
    assert found.n_triplets == 9000
    assert found.boostmetric < 20 < 50 < found.euclidean
    shares = found.eigenvalues / found.eigenvalues.sum()
    assert shares[:2].min() > 0.35
    assert shares[2:].sum() < 0.05


def test_paper_sets_ours_beside_the_printed_values(tmp_path):
    result = runner.invoke(
        app,
        [
            *("paper", "table2", "--only", "iris,usps-1", "--data-dir", str(tmp_path), "-o", str(tmp_path / "o")),
            *("--runs", "2", "--systems", "euclidean,rca,boostmetric", "--jobs", "1"),
        ],
    )
    assert result.exit_code == 0, result.output
    assert "USPS-1 left out." in result.output
    assert f"Tables: {tmp_path / 'o' / 'paper.md'}" in result.output
    table = (tmp_path / "o" / "paper.md").read_text()
    assert "| Iris | 4.44 (0.00)<br><sub>2.22 (2.10)</sub> |" in table
    assert "<sub>2.89 (2.78)</sub>" in table
    assert "USPS-1 | " not in table


def test_paper_asks_only_for_the_sets_that_a_part_needs(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    result = runner.invoke(
        app, ["paper", "table3", "--runs", "1", "--jobs", "1", "--data-dir", str(empty), "-o", str(tmp_path / "o")]
    )
    assert result.exit_code == 0, result.output
    left_out = [line.split(" left out")[0] for line in result.output.splitlines() if " left out" in line]
    assert left_out == ["Breast-Cancer", "Diabetes"]


def test_paper_without_any_set_writes_no_report(tmp_path):
    where = ("--data-dir", str(tmp_path), "-o", str(tmp_path / "o"))
    result = runner.invoke(app, ["paper", "table2", "--only", "vehicle", "--runs", "1", *where])
    assert result.exit_code == 1
    assert "Vehicle left out." in result.output
    assert result.output.endswith("No set is left: nothing was run, and nothing written.\n")
    assert not [*(tmp_path / "o").iterdir()]


def test_paper_names_the_sets_it_knows():
    result = runner.invoke(app, ["paper", "--only", "irish"])
    assert result.exit_code == 2
    assert "'irish' is not known. There are: USPS-1" in said(result)


def test_arguments_are_checked_before_any_work(tmp_path):
    taken = tmp_path / "file"
    taken.write_text("")
    for command in ("demo", "paper"):
        result = runner.invoke(app, [command, "--output", str(taken)])
        assert result.exit_code == 2
        assert "cannot be used as a folder" in said(result)
    for wrong in (["--jobs", "0"], ["--runs", "0"], ["table9"], ["--systems", "svm"], ["--data-dir", str(taken)]):
        result = runner.invoke(app, ["paper", "--output", str(tmp_path), *wrong])
        assert result.exit_code == 2, wrong


@pytest.mark.parametrize("command", [("demo",), ("paper", "circles")])
def test_pictures_say_what_to_install_before_any_work(tmp_path, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = runner.invoke(app, [*command, "--output", str(tmp_path / "new")])
    assert result.exit_code == 1
    assert "needs the package matplotlib, which is not installed" in said(result)
    assert "pip install 'boostmetric[plot]'" in said(result)
    assert not (tmp_path / "new").exists()


def test_version_and_help():
    command = [sys.executable, "-m", "boostmetric"]
    assert subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout == (
        f"boostmetric {__version__}\n"
    )
    assert "demo" in subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ["Iris", "Wine", "Bal", "Twin Peaks", "Helix"])
def test_splits_have_the_stated_sizes(name):
    (benchmark,) = [benchmark for benchmark in BENCHMARKS if benchmark.name == name]
    data = load(benchmark.source)
    first = next(splits(benchmark, data))
    assert (len(first.y_train), len(first.y_test)) == (benchmark.n_train, benchmark.n_test)


@pytest.mark.parametrize("source", ["balance", "twin_peaks", "helix"])
def test_generated_sets_are_those_of_the_data_folder(source, data_dir):
    X, y = load(source)
    with np.load(data_dir / f"{source}.npz") as stored:
        assert pytest.approx(stored["X"], abs=1e-5) == X
        assert np.array_equal(stored["y"], y)


def test_missing_data_say_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.delenv("BOOSTMETRIC_DATA", raising=False)
    with pytest.raises(MissingDataError, match=r"no data folder was given.*usps\.npz.*--data-dir"):
        load("usps")
    monkeypatch.setenv("BOOSTMETRIC_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match="there is no file"):
        load("usps")


def test_circles_have_the_stated_shape():
    X, y = concentric_circles()
    assert X.shape == (1000, 10)
    assert np.linalg.norm(X[:, :2], axis=1) == pytest.approx(y + 1, abs=0.3)


def test_files_are_whole_or_absent(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with replacing(path) as temporary:
        temporary.write_text("old")

    def write_half():
        with replacing(path) as temporary:
            temporary.write_text("new, but only ha")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert path.read_text() == "old"
    assert list(Path(path.parent).iterdir()) == [path]
