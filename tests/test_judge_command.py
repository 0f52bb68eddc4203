"""``boostmetric judge`` as a process: links, Ctrl-C, going on, finishing, and what is made of the answers."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import boostmetric
from boostmetric import MahalanobisMetric
from boostmetric.cli import app
from boostmetric.judge import MODES, AnswerFile
from boostmetric.report.judging import judging_block
from judged import IDS, POINTS, Client, choice_of, png, simulate

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Points with a column of text and one of pictures, in the current folder."""
    monkeypatch.chdir(tmp_path)
    lines = ["id,title,file," + ",".join(f"f{d}" for d in range(5))]
    (tmp_path / "pictures").mkdir()
    for row, name in enumerate(IDS):
        png(tmp_path / "pictures" / f"{row}.png", (row, 0, 0))
        lines.append(f"{name},Title {row},{row}.png," + ",".join(map(repr, POINTS[row].tolist())))
    (tmp_path / "points.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


POINT_OPTIONS = ["points.csv", "--id", "id", "--text", "title", "--images", "pictures", "--image", "file"]


class Running:
    """The command, in a process of its own."""

    def __init__(self, folder, *options):
        shown = [*POINT_OPTIONS, "--port", "0", "--no-browser", "--seed", "0"]
        command = [sys.executable, "-m", "boostmetric", "judge", *shown, *options]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(boostmetric.__file__).parents[1])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = []

    def links(self, n=1):
        """The links that it printed."""
        found = []
        while len(found) < n:
            line = self.process.stderr.readline()
            assert line, (self.said, self.process.stdout.read())
            self.said.append(line)
            if "http://" in line:
                found.append(line[line.index("http://") :].strip())
        return found

    def end(self, *, interrupt=False):
        """Exit code, and what was printed."""
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


def answer(client, n):
    """Answer n questions as the simulated judge does."""
    for _ in range(n):
        state = client.ask("begin")[1]
        question, mode = state["questions"][0], MODES[state["mode"]["name"]]
        shown = [one["id"] for one in question["objects"]]
        body = {
            "question": question["number"],
            "chosen": choice_of(mode, shown),
            "seconds": 1.0,
            "key": f"key-{question['number']:09d}",
        }
        assert client.ask("answer", body)[0] == 200


def test_ctrl_c_loses_nothing_and_the_same_command_goes_on(folder):
    first = Running(folder)
    try:
        (link,) = first.links()
        client = Client(link)
        answer(client, 12)
        begun = client.ask("begin")[1]
        assert begun["questions"][0]["objects"][0]["text"].startswith("Title ")
        assert client.ask(begun["questions"][0]["objects"][0]["picture"])[0] == 200
        end = time.monotonic() + 60  # the lessons come from the other process
        while (client.ask("state")[1]["lesson"] or {}).get("n_answers") != 12:
            assert time.monotonic() < end
            time.sleep(0.1)
        code, _, err = first.end(interrupt=True)
    finally:
        first.process.kill()
    assert code == 130
    assert "12 answers are in answers.judge. The same command goes on" in err
    assert "Traceback" not in err
    assert not (folder / "judged.safetensors").exists()

    second = Running(folder, "--json")
    try:
        (again,) = second.links()
        client = Client(again)
        assert client.token == Client(link).token
        resumed = client.ask("begin")[1]
        assert resumed["progress"]["answers"] == 12
        assert resumed["questions"] == begun["questions"]
        answer(client, 30)
        status, reply = client.ask("finish", {})
        assert status == 200, reply
        code, out, err = second.end()
    finally:
        second.process.kill()
    assert code == 0, err
    told = json.loads(out)
    assert told["n_answers"] == 42
    metric = MahalanobisMetric.load(folder / "judged.safetensors")
    assert metric.feature_names == [f"f{d}" for d in range(5)]
    assert metric.about["judging"]["n_answers"] == 42
    check_next_commands(reply["commands"])
    with AnswerFile(folder / "answers.judge") as file:  # closed in order: nothing is left beside the file
        assert len(file.judged()) == 42


def check_next_commands(commands):
    """What is said to be next works as it is printed."""
    import shlex

    for command in commands:
        if "faiss" in command:
            pytest.importorskip("faiss")
        name, *arguments = shlex.split(command)
        assert name == "boostmetric"
        result = CliRunner().invoke(app, [*arguments, *(["--quiet"] if arguments[0] == "fit" else [])])
        assert result.exit_code == 0, (command, result.output)


def invoke(*arguments):
    return CliRunner().invoke(app, ["judge", *map(str, arguments)])


@pytest.fixture
def judged(folder):
    with AnswerFile(folder / "answers.judge", mode="triplet", seed=0) as file:
        simulate(file, 80, judge=file.judge("anna"), noise=0.1)
        simulate(file, 30, judge=file.judge("ben"), noise=30.0, seed=1)
    return folder


def test_finish_without_a_page(judged):
    result = invoke(*POINT_OPTIONS, "--finish", "--leave-out", "ben")
    assert result.exit_code == 0, result.output
    assert "80 answers, 16 of them held out" in result.output
    assert "ben: left out" in result.output
    assert "boostmetric fit points.csv --id id --ignore title,file --comparisons answers.judge" in result.output
    page = (judged / "judged.html").read_text(encoding="utf-8")
    assert "How people judged" in page
    assert "Hardest questions" in page
    assert page.count('class="judged"') == len(MahalanobisMetric.load("judged.safetensors").about["judging"]["hardest"])
    assert "data:image/" in page
    assert "<b>" not in page[page.index("Hardest questions") + 30 : page.index("Spectrum</h2>")]  # ids are text
    again = invoke(*POINT_OPTIONS, "--finish")
    assert again.exit_code == 2
    assert "exists already" in again.output
    # Who is left out stays left out, also for fit, until that is said otherwise.
    options = ["--ignore", "title,file", "--comparisons", "answers.judge", "-o", "m.safetensors", "--dry-run"]
    fitted = CliRunner().invoke(app, ["fit", "points.csv", "--id", "id", *options])
    assert "triplets: anchor is closer to near than to far" in fitted.output
    assert "answers.judge: answers, " in fitted.output
    both = invoke(*POINT_OPTIONS, "--finish", "--force", "--leave-out", "", "--json")
    assert json.loads(both.stdout)["n_answers"] == 110


def test_a_learned_model_without_held_out_answers_is_said_to_be_one(folder):
    with AnswerFile(folder / "answers.judge", mode="triplet", seed=0) as file:
        rng, judge = np.random.default_rng(0), file.judge("anna")
        for number in range(120):
            question = file.ask(judge, "random", tuple(rng.choice(IDS, 3, replace=False).tolist()))
            file.answer(judge, question.number, choice_of(file.mode, question.shown), key=str(number), seconds=1.0)
    told = invoke(*POINT_OPTIONS, "--finish").output
    assert MahalanobisMetric.load("judged.safetensors").about["judging"]["n_iter"] > 0
    assert "with answers that are never learned from is not known: there are none." in told
    assert "the model is the Euclidean distance" not in told
    assert "learned again" not in told


def test_the_final_model_learns_from_everything_and_says_what_was_measured_before(judged):
    result = invoke(*POINT_OPTIONS, "--finish", "--leave-out", "ben", "--json")
    told = json.loads(result.stdout)
    assert told["n_iter"] > 0
    assert told["learned"]["n"] == 16
    metric = MahalanobisMetric.load("judged.safetensors")
    with AnswerFile("answers.judge") as file:
        held_out = [one for one in file.judged() if one.question.purpose == "held-out" and one.question.judge == 1]
        right = [
            choice_of(file.mode, one.question.shown, metric.transform(POINTS)) == list(one.chosen) for one in held_out
        ]
    assert np.mean(right) >= told["learned"]["mean"]


def test_report_of_a_judged_model(judged):
    assert invoke(*POINT_OPTIONS, "--finish").exit_code == 0
    for name, row in zip(IDS, range(24), strict=True):
        (judged / "pictures" / f"{row}.png").rename(judged / "pictures" / f"{name}.png")
    options = ["--id", "id", "--ignore", "title,file", "--images", "pictures", "-o", "page.html"]
    result = CliRunner().invoke(app, ["report", "judged.safetensors", "points.csv", *options])
    assert result.exit_code == 0, result.output
    assert "data:image/" in (judged / "page.html").read_text(encoding="utf-8")
    refused = CliRunner().invoke(app, ["report", "judged.safetensors", "--images", "pictures", "-o", "b.html"])
    assert refused.exit_code == 2
    assert "there are none" in refused.output


@pytest.mark.parametrize("judging", [None, 3, {}, {"n_answers": "x"}, {"n_answers": 1, "n_held_out": 1, "curve": 7}])
def test_a_report_of_nonsense_has_no_section(judging):
    metric = MahalanobisMetric(np.eye(2), about={} if judging is None else {"judging": judging})
    assert judging_block(metric) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["points.csv", "--ignore", "id,title,file"], "Nothing can be shown of the objects"),
        ([*POINT_OPTIONS, "--answers", "a.csv"], "must end with .judge"),
        (["points.csv", "--id", "id", "--image", "file"], "give --images"),
        ([*POINT_OPTIONS, "--finish"], "There are no answers yet"),
        (["points.csv", "--id", "id", "--ignore", "title,file", "--images", "none"], "is no folder of pictures"),
        (["points.csv", "--id", "id", "--ignore", "title,file", "--images", "pictures"], "there is no picture of"),
        (["points.csv", "--id", "id", "--text", "none", "--ignore", "title,file"], "there is no column 'none'"),
        ([*POINT_OPTIONS, "--mode", "sorting"], "Invalid value"),
        ([*POINT_OPTIONS, "--host", "no.such.host.invalid", "--no-browser"], "cannot be used"),
    ],
)
def test_wrong_options_are_explained(folder, options, message):
    result = invoke(*options)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.output.replace("│", " ").split())


def test_a_port_that_is_taken(folder):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = invoke(*POINT_OPTIONS, "--port", taken.getsockname()[1], "--no-browser")
    assert result.exit_code == 2
    assert "Give another --port" in " ".join(result.output.replace("│", " ").split())
