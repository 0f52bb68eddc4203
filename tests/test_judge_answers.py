"""Files of answers: durable, idempotent, readable as comparisons; and the questions that are put into them."""

import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from boostmetric import ComparisonBoostMetric
from boostmetric.judge import MODES, AnswerFile
from boostmetric.judge.questions import COMMITTEE, HELD_OUT, RANDOM, REPEAT, Questions, disagreement
from boostmetric.judge.records import AnswerFileError, StaleAnswerError
from boostmetric.tables import ComparisonFiles, PointTable, TableError, read_comparisons
from judged import IDS, POINTS, TRUTH, choice_of, simulate

TABLE = PointTable(POINTS, ids=IDS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.judge"


@pytest.mark.parametrize("mode", MODES)
def test_answers_are_comparisons_of_a_fit(path, mode, tmp_path):
    with AnswerFile(path, mode=mode, seed=0) as file:
        simulate(file, 30)
        expected = Counter()
        for judged in file.judged():
            expected.update(file.mode.comparisons(judged.question.shown, judged.chosen))
        # While the file is open elsewhere, too.
        table = read_comparisons(path, TABLE)
    rows = Counter()
    for i, j, k, m in table.comparisons.quadruplets():
        (head,) = {i, j} & {k, m}
        rows[(IDS[head], *(IDS[({*pair} - {head}).pop()] for pair in ((i, j), (k, m))))] += 1
    assert set(rows) == set(expected)
    assert table.kind == "triplets"
    points = tmp_path / "points.npz"
    np.savez(points, id=IDS.astype(str), X=POINTS)
    metric = ComparisonBoostMetric(max_iter=5).fit(ComparisonFiles(points, path, id="id", vector="X"))
    assert metric.n_features_in_ == 5


def test_row_numbers_are_ids_too(path):
    with AnswerFile(path, mode="triplet", seed=0) as file:
        judge = file.judge("anna")
        question = Questions(file, np.arange(24), POINTS).ahead(judge, 1)[0]
        assert all(type(id) is int for id in question.shown)
        file.answer(judge, question.number, question.shown[2:], key="a", seconds=1)
    (row,) = read_comparisons(path, PointTable(POINTS)).comparisons.quadruplets()
    head, far, near = question.shown
    assert set(row[:2]) == {head, near}
    assert set(row[2:]) == {head, far}


def test_nothing_counts_that_is_undone_left_out_or_not_said(path):
    with AnswerFile(path, mode="triplet", seed=0) as file:
        anna = simulate(file, 3)
        ben = simulate(file, 2, judge=file.judge("ben"))
        questions = Questions(file, IDS, POINTS)
        file.answer(ben, questions.ahead(ben, 1)[0].number, [], key="cannot-say", seconds=1)
        assert read_comparisons(path, TABLE).n_rows == 5
        file.undo(anna, file.last_key(anna))
        assert read_comparisons(path, TABLE).n_rows == 4
        file.leave_out(["ben"])
        assert read_comparisons(path, TABLE).n_rows == 2
        with pytest.raises(AnswerFileError, match=r"no judge 'carl' to leave out\. There are: anna, ben"):
            file.leave_out(["carl"])
        file.leave_out(["anna", "ben"])
        with pytest.raises(TableError, match="or take judges who are left out back in"):
            read_comparisons(path, TABLE)


def test_an_answer_is_stored_once(path):
    with AnswerFile(path, mode="triplet", seed=0) as file:
        judge = file.judge("anna")
        first, second = Questions(file, IDS, POINTS).ahead(judge, 2)
        for _ in range(3):  # sent again, since no confirmation came
            stored = file.answer(judge, first.number, first.shown[1:2], key="k1", seconds=2.0)
            assert stored.chosen == first.shown[1:2]
        assert len(file.judged()) == 1
        with pytest.raises(StaleAnswerError, match="answered already"):
            file.answer(judge, first.number, first.shown[2:], key="k2", seconds=1)
        with pytest.raises(StaleAnswerError, match="used for question 1"):
            file.answer(judge, second.number, second.shown[2:], key="k1", seconds=1)
        with pytest.raises(StaleAnswerError, match="not one of this judge"):
            file.answer(file.judge("ben"), second.number, second.shown[2:], key="k3", seconds=1)
        for wrong in (["elsewhere"], list(second.shown[1:]), [second.shown[0]]):
            with pytest.raises(ValueError, match="An answer chooses"):
                file.answer(judge, second.number, wrong, key="k4", seconds=1)
        assert len(file.judged()) == 1
        # Undone, sent again, and late: each has the effect that it has the first time.
        for _ in range(2):
            assert file.undo(judge, "k1").number == first.number
        assert file.judged() == []
        file.answer(judge, first.number, first.shown[1:2], key="k1", seconds=2.0)
        assert file.judged() == []  # the answer that was undone, arriving late
        file.answer(judge, first.number, first.shown[2:], key="k5", seconds=2.0)
        with pytest.raises(StaleAnswerError, match="Another answer was given since"):
            file.undo(judge, "never")
        assert [judged.chosen for judged in file.judged()] == [first.shown[2:]]


def test_threads_answer_at_the_same_time(path):
    with AnswerFile(path, mode="triplet", seed=0) as file:
        judges = [file.judge(f"judge {number}") for number in range(4)]
        threads = [threading.Thread(target=simulate, args=(file, 15), kwargs={"judge": judge}) for judge in judges]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Counter(judged.question.judge for judged in file.judged()) == dict.fromkeys([1, 2, 3, 4], 15)


KILLED = """
import os, sys
from judged import *
file = AnswerFile(sys.argv[1], mode="triplet", seed=0)
simulate(file, 7)
file._file.execute("BEGIN IMMEDIATE")
file._file.execute("UPDATE answer SET undone = 1")
os._exit(9)
"""


def test_a_killed_process_loses_nothing_that_was_stored(path):
    found = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", KILLED, str(path)]
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": found}, timeout=120)
    assert ended.returncode == 9
    assert read_comparisons(path, TABLE).n_rows == 7
    with AnswerFile(path) as file:
        assert len(file.judged()) == 7
        simulate(file, 1, judge=file.judges()[0], start=7)
        assert len(file.judged()) == 8


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW comparison AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT * FROM n",
        "CREATE TABLE comparison (answer, anchor AS (zeroblob(900000000)), near, far)",
        "CREATE TABLE comparison (x)",
    ],
)
def test_hostile_files_are_refused_quickly(path, statement):
    """A view would be a program; a value could ask for any memory."""
    with AnswerFile(path, mode="triplet", seed=0) as file:
        simulate(file, 2)
        file._file.execute("DROP TABLE comparison")
        file._file.execute(statement)
        if "zeroblob" in statement:
            file._file.execute("INSERT INTO comparison VALUES (1, 'b', 'c')")
    with pytest.raises(TableError, match="not a whole judge file"):
        read_comparisons(path, TABLE)


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_only_the_owner_may_read_the_links(path, tmp_path):
    with AnswerFile(path, mode="triplet", seed=0) as file:
        simulate(file, 2)
        assert {other.stat().st_mode & 0o077 for other in tmp_path.iterdir()} == {0}
    with pytest.raises(AnswerFileError, match="cannot be written"):
        AnswerFile(tmp_path / "none" / "a.judge", mode="triplet")


def test_progress_of_a_judge(path):
    with AnswerFile(path, mode="triplet", seed=0) as file:
        anna = simulate(file, 5)
        simulate(file, 2, judge=file.judge("ben"))
        file.undo(anna, file.last_key(anna))
        assert file.progress(anna, 3) == (4, [1.5, 1.5, 1.5])


def test_other_files_are_refused(tmp_path, path):
    no_database = tmp_path / "a.judge"
    no_database.write_text("anchor,near,far\n" * 100)
    with pytest.raises(AnswerFileError, match="cannot be used as a file of answers"):
        AnswerFile(no_database, mode="triplet", seed=0)
    with pytest.raises(TableError, match="not a whole judge file"):
        read_comparisons(no_database, TABLE)
    other = tmp_path / "b.judge"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE points (x)")
    database.close()
    before = other.read_bytes()
    with pytest.raises(AnswerFileError, match="is no file of answers"):
        AnswerFile(other, mode="triplet", seed=0)
    assert other.read_bytes() == before
    with pytest.raises(AnswerFileError, match="needs a mode"):
        AnswerFile(tmp_path / "new.judge")
    assert not (tmp_path / "new.judge").exists()
    with pytest.raises(TableError, match="not a whole judge file"):
        read_comparisons(other, TABLE)
    with pytest.raises(TableError, match="there is no such file"):
        read_comparisons(tmp_path / "none.judge", TABLE)
    AnswerFile(path, mode="odd", seed=0).close()
    with pytest.raises(AnswerFileError, match="mode 'odd', not 'triplet'"):
        AnswerFile(path, mode="triplet", seed=0)


@pytest.mark.parametrize("mode", MODES)
def test_purposes_are_dealt_out_as_promised(path, mode):
    """A fifth is held out, one in twenty is repeated, and of the others half comes from the committee."""
    rng = np.random.default_rng(0)
    with AnswerFile(path, mode=mode, seed=0) as file:
        judge, questions = file.judge("anna"), Questions(file, IDS, POINTS)
        for number in range(100):
            if number == 20:
                questions.members = [np.diag(rng.random(5)) for _ in range(6)]
            (question,) = questions.ahead(judge, 1)
            file.answer(judge, question.number, choice_of(file.mode, question.shown), key=str(number), seconds=1)
        judged = file.judged()
        purposes = Counter(one.question.purpose for one in judged)
        assert purposes[HELD_OUT] == 20
        assert purposes[REPEAT] in (4, 5)
        assert purposes[COMMITTEE] in range(28, 33)
        # Held-out questions are never asked to learn from, and no question is asked twice but those that are repeated.
        same = [file.mode.same(one.question.shown) for one in judged if one.question.purpose != REPEAT]
        assert len(set(same)) == len(same)
        for one in judged:
            if one.question.purpose == REPEAT:
                before = next(other for other in judged if other.question.number == one.question.repeats)
                assert file.mode.same(before.question.shown) == file.mode.same(one.question.shown)
                assert before.question.shown != one.question.shown  # in another order
                assert before.question.purpose in (RANDOM, HELD_OUT)
                assert judged.index(one) - judged.index(before) > 8


def test_a_batch_has_no_head_twice(path):
    with AnswerFile(path, mode="triplet", seed=0) as file:
        judge, questions = file.judge("anna"), Questions(file, IDS, POINTS)
        questions.members = [np.diag(row) for row in np.random.default_rng(0).random((6, 5))]
        waiting = [question for question in questions.ahead(judge, 20) if question.purpose == COMMITTEE]
        assert len(waiting) >= 7
        assert len({question.shown[0] for question in waiting}) == len(waiting)


def test_the_committee_asks_what_it_disputes(path):
    members = [np.diag([1.0, 0, 0, 0, 0]), np.diag([0, 1.0, 0, 0, 0])]
    rng = np.random.default_rng(0)
    pool = np.array([rng.permutation(24)[:3] for _ in range(500)])
    with AnswerFile(path, mode="triplet", seed=0) as file:
        judge, questions = file.judge("anna"), Questions(file, IDS, POINTS)
        questions.members = members
        numbers = {name: row for row, name in enumerate(IDS)}
        asked = [question for question in questions.ahead(judge, 20) if question.purpose == COMMITTEE]
        rows = np.array([[numbers[name] for name in question.shown] for question in asked])
    # Literally: two members, of whom one prefers the first and the other the second, dispute as much as they can.
    first, second = (abs(POINTS[rows[:, [0]], d] - POINTS[rows[:, 1:], d]).argmin(axis=1) for d in (0, 1))
    assert (first != second).all()
    spread = disagreement(MODES["triplet"], members, POINTS, pool)
    assert set(np.unique(spread)) == {0.0, 0.5}
    one, other = (abs(POINTS[pool[:, [0]], d] - POINTS[pool[:, 1:], d]).argmin(axis=1) for d in (0, 1))
    np.testing.assert_array_equal(spread > 0, one != other)


@pytest.mark.parametrize("mode", MODES)
def test_favourites_are_those_of_a_literal_judge(mode):
    rng = np.random.default_rng(0)
    shown = np.array([rng.permutation(24)[: MODES[mode].n_shown] for _ in range(50)])
    favourites = MODES[mode].favourites(TRUTH[shown])
    for row, chosen in zip(shown, favourites, strict=True):
        distance = np.linalg.norm(TRUTH[row][:, None] - TRUTH[row][None], axis=2)
        if mode == "odd":
            pairs = {0: distance[1, 2], 1: distance[0, 2], 2: distance[0, 1]}
            assert chosen.tolist() == [odd == min(pairs, key=pairs.get) for odd in range(3)]
        else:
            nearest = sorted(range(1, len(row)), key=lambda place: distance[0, place])[: MODES[mode].n_chosen]
            assert chosen.tolist() == [place in nearest for place in range(1, len(row))]


def test_few_points(path):
    few = pytest.raises(ValueError, match="A question shows 9 objects, and there are 8 points")
    with AnswerFile(path, mode="choice", seed=0) as file, few:
        Questions(file, IDS[:8], POINTS[:8])
    path.unlink()
    with AnswerFile(
        path, mode="triplet", seed=0
    ) as file:  # three points: all questions are soon asked, and asked again
        simulate_all = Questions(file, IDS[:3], POINTS[:3])
        judge = file.judge("anna")
        for number in range(30):
            (question,) = simulate_all.ahead(judge, 1)
            file.answer(judge, question.number, question.shown[1:2], key=str(number), seconds=1)
        assert len(file.judged()) == 30
