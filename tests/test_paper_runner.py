"""The paper's experiments: rows of fits in other processes, and the tables, figures and report made of them."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import boostmetric
from boostmetric import BoostMetric
from boostmetric.cli import app
from boostmetric.cli.paper import PARTS
from boostmetric.paper import figures, tables
from boostmetric.paper.benchmarks import BENCHMARKS
from boostmetric.paper.datasets import load
from boostmetric.paper.experiments import EXPERIMENTS, SYSTEMS, Laboratory, tasks
from boostmetric.paper.page import write_report
from boostmetric.paper.protocol import run as run_split
from boostmetric.paper.protocol import split
from boostmetric.paper.runner import FAILED, OK, OUT_OF_MEMORY, OVER_TIME, FitRow, FitTask, RowFile, run
from boostmetric.paper.tables import Results
from boostmetric.paper.validated import N_ITERATIONS, ValidatedIterations
from errands import execute

SMALL = [benchmark for benchmark in BENCHMARKS if benchmark.name in ("Wine", "Iris", "Bal")]


def task(system="fine", seed=0, data="set"):
    return FitTask("table2", data, system, seed)


def statuses(file):
    return {row.system: row.status for row in file.rows.values()}


@pytest.fixture
def file(tmp_path):
    return RowFile(tmp_path / "rows.jsonl")


def test_rows_are_appended_and_not_made_again(file):
    todo = [task(seed=seed) for seed in range(5)]
    seen = []
    run(todo, execute, file, jobs=2, on_row=lambda done, total: seen.append((done, total)))
    assert [file.rows[t].figures["square"] for t in todo] == [0, 1, 4, 9, 16]
    assert all(row.status == OK and row.version == boostmetric.__version__ for row in file.rows.values())
    assert all(row.figures["process"] != os.getpid() for row in file.rows.values())
    assert seen[-1] == (5, 5)
    again = RowFile(file.path)
    assert again.rows == file.rows
    run(todo, execute, again)
    assert len(file.path.read_text().splitlines()) == 5


def test_a_failed_fit_is_a_row_and_not_the_end(file):
    run([task("error"), task("memory"), task("crash"), task("fine")], execute, file)
    assert statuses(file) == {"error": FAILED, "memory": OUT_OF_MEMORY, "crash": FAILED, "fine": OK}
    assert file.rows[task("error")].message == "ValueError: nothing to learn from set"
    assert "exit status -9" in file.rows[task("crash")].message


def test_a_fit_over_its_time_is_ended_and_not_tried_on_other_splits(file, monkeypatch):
    monkeypatch.setattr("boostmetric.paper.runner._GRACE", 0.0)
    todo = [
        task("sleep"),
        task("sleep", seed=1),
        task("slow"),
        task("slow", seed=1),
        task("fine"),
        task("fine", seed=1),
    ]
    start = time.monotonic()
    run(todo, execute, file, time_limit=3.0)
    assert time.monotonic() - start < 40
    assert statuses(file) == {"sleep": OVER_TIME, "slow": OVER_TIME, "fine": OK}
    assert len(file.rows) == 4
    assert file.rows[task("slow")].message == "over 3 s"


def test_rows_survive_a_kill_while_writing(file):
    run([task(seed=0)], execute, file)
    with file.path.open("a") as opened:
        opened.write('{"experiment": "table2", "da')
    again = RowFile(file.path)
    assert list(again.rows) == [task(seed=0)]
    run([task(seed=0), task(seed=1)], execute, again)
    assert sorted(t.seed for t in RowFile(file.path).rows) == [0, 1]


def test_rows_of_another_version_are_made_again(file):
    file.append(FitRow(*task(), "0.0.1", OK, {"square": -1}))
    again = RowFile(file.path)
    assert again.rows == {}
    run([task()], execute, again)
    assert again.rows[task()].figures["square"] == 0


def test_a_killed_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")  # of the processes that are started
    arguments = ["paper", "table3", "--only", "bal", "--jobs", "1"]
    command = [sys.executable, "-m", "boostmetric", *arguments, "-o", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    rows = tmp_path / "rows.jsonl"
    while not rows.exists() or len(rows.read_text().splitlines()) < 3:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    first = rows.read_text().splitlines()[:3]
    result = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    lines = rows.read_text().splitlines()
    assert lines[:3] == first
    assert len({tuple(json.loads(line)[key] for key in ("system", "seed")) for line in lines}) == 50


def test_tasks_are_those_of_the_paper():
    assert len(tasks("table2")) == len(SYSTEMS) * (14 * 10 + 1)
    assert len(tasks("table2", SMALL, runs=2, systems=["RCA"])) == 6
    assert {t.data for t in tasks("table3")} == {"Bal", "Breast-Cancer", "Diabetes"}
    assert len(tasks("table3")) == 150
    for experiment in EXPERIMENTS:
        todo = tasks(experiment)
        assert len(set(todo)) == len(todo) > 0
    with pytest.raises(ValueError, match="There is no experiment 'table9'"):
        tasks("table9")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_measures_an_error(system):
    measured = Laboratory(None)(FitTask("table2", "Iris", system, 0))
    assert 0 <= measured["error"] < 15
    (iris,) = [benchmark for benchmark in BENCHMARKS if benchmark.name == "Iris"]
    assert measured["error"] == run_split(SYSTEMS[system](iris), split(iris, load("iris"), 0)).error


def rows_of_everything():
    rng = np.random.default_rng(0)
    rows = []
    for experiment in EXPERIMENTS:
        for t in tasks(experiment, SMALL if experiment != "triplets" else BENCHMARKS, runs=3):
            measured = {
                "error": float(rng.random()),
                "seconds": float(rng.random()),
                "triplets": 10 * 4 ** len(t.system),
                "loss": (1 / np.arange(1.0, 20.0)).tolist(),
                "stop_reason": "",
            }
            rows.append(FitRow(*t, boostmetric.__version__, OK, measured))
    return rows


def test_table2_has_ours_above_the_printed_and_the_best_in_bold():
    errors = {"RCA": [1.0, 2.0], "LMNN": [2.0, 4.0]}
    rows = [
        FitRow("table2", "Wine", system, seed, "", OK, {"error": error, "seconds": 1.0})
        for system, values in errors.items()
        for seed, error in enumerate(values)
    ]
    rows.append(FitRow("table2", "Wine", "NCA", 0, "", OVER_TIME, {}, "over 5 s"))
    table = tables.table2(Results(rows))
    text = table.markdown()
    assert "**1.50 (0.50)**<br><sub>2.26 (1.95)</sub>" in text
    assert "| 3.00 (1.00)<br><sub>5.47 (3.01)</sub> |" in text
    assert "over time<br><sub>27.36 (6.31)</sub>" in text
    assert text.count("**") == 2
    assert "<b>1.50 (0.50)</b><br><small>2.26 (1.95)</small>" in table.html()
    assert "over 5 s" in tables.times(Results(rows)).markdown()


def test_printed_values_of_table3_are_those_of_the_paper():
    paper = Path(__file__).parents[2] / "shared" / "paper"
    sources = sorted(paper.glob("*.tex"))
    if not sources:
        pytest.skip("needs the paper's LaTeX")
    text = sources[0].read_text(errors="replace")
    for name, label in (("Bal", "Bal"), ("Breast-Cancer", "B-Cancer"), ("Diabetes", "Diabetes")):
        (line,) = re.findall(rf"^\s*{label}\s*&(.*26\.0.*|.*8\.88.*|.*2\.11.*)\\\\", text, re.M)
        assert [cell.strip() for cell in line.split("&")] == list(tables._PRINTED_3[name])


def test_figures_and_report(tmp_path):
    rows = rows_of_everything()
    rows[0] = replace(rows[0], status=FAILED, message="ValueError: <odd> & bad", figures={})
    results = Results(rows)
    for draw in (figures.cputime, figures.convergence, figures.triplets):
        assert draw(results).axes
    written = write_report(tmp_path, results, PARTS, {"wine": "0123abcd"})
    names = {path.name for path in written}
    assert {"report.html", "paper.md", "circles.png", "circles.pdf", "cputime.png", "triplets.pdf"} <= names
    assert (tmp_path / "figures" / "convergence.pdf").read_bytes().startswith(b"%PDF")
    html, text = (tmp_path / "report.html").read_text(), (tmp_path / "paper.md").read_text()
    assert not re.search(r"https?://", html)  # nothing is loaded from elsewhere
    assert "&lt;odd&gt; &amp; bad" in html
    for part in ("Table 1", "Table 2", "Table 3", "Test sizes", "Lost data sets", "0.542, 0.414, 0.007"):
        assert part in html
        assert part in text
    assert html.count("data:image/png;base64,") == 4
    assert "SHA-256 0123abcd" in html
    assert boostmetric.__version__ in html


def test_parts_that_are_not_wanted_are_left_out(tmp_path):
    result = CliRunner().invoke(app, ["paper", "table1", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "paper.md").read_text()
    assert "Table 1" in text
    assert "Table 2" not in text
    assert not (tmp_path / "figures").exists()


def test_the_number_of_iterations_is_cross_validated():
    X, y = load("wine")
    learner = ValidatedIterations(BoostMetric.paper()).fit(X, y)
    assert learner.n_iter in N_ITERATIONS
    assert learner.metric.n_iter_ <= learner.n_iter
    assert learner.transform(X).tobytes() == BoostMetric.paper(max_iter=learner.n_iter).fit(X, y).transform(X).tobytes()
    rng = np.random.default_rng(0)
    noise = ValidatedIterations(BoostMetric.paper()).fit(rng.standard_normal((60, 3)), np.arange(60) % 2)
    assert noise.stop_reason_ == f"{noise.n_iter} iterations by cross-validation."
