"""The file of judges, questions and answers: SQLite, in which an answer is durable when `AnswerFile.answer` returns.

Objects are stored by id (or by row number, where points have no ids), so that points can be added between two sittings.
An answer that is undone stays in the file, marked. Comparisons are stored with their answer; `boostmetric.tables` reads
them, without what is undone and who is left out.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from boostmetric.judge.modes import MODES, Mode
from boostmetric.judge.records import AnswerFileError, GivenAnswer, Id, Judge, Question, StaleAnswerError

_VERSION = 1
_GROWTH = 1.1  # of the number of answers, between two lessons that are kept for the curve
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE judge (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, token TEXT NOT NULL UNIQUE,
    done INTEGER NOT NULL DEFAULT 0, left_out INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE question (
    id INTEGER PRIMARY KEY, judge INTEGER NOT NULL REFERENCES judge, purpose TEXT NOT NULL,
    shown TEXT NOT NULL, repeats INTEGER REFERENCES question
);
CREATE TABLE answer (
    id INTEGER PRIMARY KEY, question INTEGER NOT NULL REFERENCES question, key TEXT NOT NULL UNIQUE,
    chosen TEXT NOT NULL, seconds REAL, at REAL NOT NULL, undone INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX one_answer ON answer (question) WHERE NOT undone;
CREATE TABLE comparison (answer INTEGER NOT NULL REFERENCES answer, anchor, near, far);
CREATE TABLE lesson (
    id INTEGER PRIMARY KEY, n_learned INTEGER NOT NULL, result TEXT NOT NULL, map BLOB NOT NULL, members BLOB
);
"""


class AnswerFile:
    """Judges, questions and answers in one file, for any number of threads and processes.

    Parameters
    ----------
    path : str or Path
        Made if it does not exist; its folder must exist.
    mode : str, optional
        Kind of the questions, see `MODES`; needed for a new file.
    seed : int, optional
        Random seed of the questions in a new file; by default another one each time.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from boostmetric.judge import AnswerFile
    >>> with AnswerFile(Path(tempfile.mkdtemp()) / "chairs.judge", mode="triplet") as file:
    ...     anna = file.judge("anna")
    ...     question = file.ask(anna, "random", ("oak", "pine", "steel"))
    ...     _ = file.answer(anna, question.number, ("pine",), key="1", seconds=2.5)
    ...     [judged.chosen for judged in file.judged()]
    [('pine',)]
    """

    def __init__(self, path: str | Path, mode: str | None = None, seed: int | None = None) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        try:
            if mode is None and not (self.path.exists() and self.path.stat().st_size):
                raise AnswerFileError(f"{self.path}: is a new file of answers, which needs a mode.")
            self.path.touch(mode=0o600)  # for its owner only: it holds the secrets of the links
        except OSError as error:
            raise AnswerFileError(f"{self.path}: cannot be written ({error.strerror}). Name another file.") from None
        self._file = sqlite3.connect(self.path, timeout=30.0, check_same_thread=False, isolation_level=None)
        try:
            # Each commit is on disk when it returns, also if the machine stops.
            for pragma in ("synchronous = FULL", "foreign_keys = ON"):
                self._file.execute(f"PRAGMA {pragma}")
            self._open(mode, seed)
            self._file.execute("PRAGMA journal_mode = WAL")  # of our files only
        except sqlite3.Error as error:
            self._file.close()
            remedy = "Name another file, or copy it again if it was copied."
            raise AnswerFileError(f"{self.path}: cannot be used as a file of answers ({error}). {remedy}") from None
        except AnswerFileError:
            self._file.close()
            raise

    def _open(self, mode: str | None, seed: int | None) -> None:
        with self._writing():
            if mode is not None and not self._all("SELECT count(*) FROM sqlite_master")[0][0]:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._file.execute(statement)
                facts = [
                    ("version", str(_VERSION)),
                    ("mode", mode),
                    ("seed", str(secrets.randbits(31) if seed is None else seed)),
                ]
                self._file.executemany("INSERT INTO about VALUES (?, ?)", facts)
        try:
            about = dict(self._file.execute("SELECT name, value FROM about"))
        except sqlite3.Error:
            raise AnswerFileError(f"{self.path}: is no file of answers. Name another one.") from None
        if about.get("version") != str(_VERSION):
            raise AnswerFileError(f"{self.path}: was written by another version of boostmetric, which can read it.")
        if mode is not None and about["mode"] != mode:
            raise AnswerFileError(
                f"{self.path}: holds answers to questions of the mode {about['mode']!r}, not {mode!r}. Name another "
                "file for another mode."
            )
        self.mode: Mode = MODES[about["mode"]]
        self.seed = int(about["seed"])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write all or nothing; other processes wait."""
        with self._lock:
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
            self._file.execute("COMMIT")

    def _all(self, query: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._file.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> AnswerFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def judge(self, name: str) -> Judge:
        """Return the judge of a name, who is new if the name is.

        Parameters
        ----------
        name : str
        """
        with self._writing():
            row = (name, secrets.token_urlsafe(24))
            self._file.execute("INSERT INTO judge (name, token) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", row)
        return next(judge for judge in self.judges() if judge.name == name)

    def judges(self) -> list[Judge]:
        """All judges, in the order in which they came."""
        rows = self._all("SELECT id, name, token, done, left_out FROM judge ORDER BY id")
        return [Judge(*row[:3], *map(bool, row[3:])) for row in rows]

    def leave_out(self, names: Sequence[str]) -> None:
        """Leave out the answers of these judges, and of no others, from the comparisons.

        Parameters
        ----------
        names : sequence of str
        """
        known = [judge.name for judge in self.judges()]
        for name in names:
            if name not in known:
                raise AnswerFileError(
                    f"{self.path}: there is no judge {name!r} to leave out. There are: {', '.join(known)}."
                )
        with self._writing():
            self._file.executemany("UPDATE judge SET left_out = ? WHERE name = ?", [(n in names, n) for n in known])

    def set_done(self, judge: Judge, done: bool) -> None:
        """Note whether a judge has finished."""
        with self._writing():
            self._file.execute("UPDATE judge SET done = ? WHERE id = ?", (done, judge.number))

    def ask(self, judge: Judge, purpose: str, shown: Sequence[Id], repeats: int | None = None) -> Question:
        """Add a question.

        Parameters
        ----------
        judge : Judge
        purpose, shown, repeats
            See `Question`.
        """
        with self._writing():
            row = (judge.number, purpose, json.dumps(list(shown)), repeats)
            cursor = self._file.execute(
                "INSERT INTO question (judge, purpose, shown, repeats) VALUES (?, ?, ?, ?)", row
            )
            number = int(cursor.lastrowid or 0)
        return Question(number, judge.number, purpose, tuple(shown), repeats)

    def open_questions(self, judge: Judge) -> list[Question]:
        """Return the questions that a judge has not answered, oldest first."""
        return self._questions("judge = ? AND id NOT IN (SELECT question FROM answer WHERE NOT undone)", judge.number)

    def questions(self, judge: Judge | None = None) -> list[Question]:
        """Return all questions, answered or not, or those of one judge."""
        return self._questions("1") if judge is None else self._questions("judge = ?", judge.number)

    def _questions(self, condition: str, *values: Any) -> list[Question]:
        rows = self._all(
            f"SELECT id, judge, purpose, shown, repeats FROM question WHERE {condition} ORDER BY id", *values
        )
        return [_question(row) for row in rows]

    def answer(self, judge: Judge, number: int, chosen: Sequence[Id], *, key: str, seconds: float) -> GivenAnswer:
        """Store an answer. When this returns, it is on disk.

        Parameters
        ----------
        judge : Judge
        number : int
            Number of the question.
        chosen : sequence of int or str
            Ids of what was chosen; empty for "cannot say".
        key : str
            Names this answer: sent again under the same key, it is stored once.
        seconds : float

        Raises
        ------
        StaleAnswerError
            If the question is not open to this judge.
        """
        with self._writing():
            found = self._questions("id = ? AND judge = ?", number, judge.number)
            if not found:
                raise StaleAnswerError(f"Question {number} is not one of this judge.")
            (question,) = found
            before = self._all("SELECT question, chosen, seconds, at FROM answer WHERE key = ?", key)
            if before:
                if before[0][0] != number:
                    raise StaleAnswerError(f"The key of this answer was used for question {before[0][0]}.")
                return GivenAnswer(question, tuple(json.loads(before[0][1])), *before[0][2:])
            comparisons = self.mode.comparisons(question.shown, chosen)  # refuses what is no answer
            now = time.time()
            row = (number, key, json.dumps(list(chosen)), seconds, now)
            try:
                cursor = self._file.execute(
                    "INSERT INTO answer (question, key, chosen, seconds, at) VALUES (?, ?, ?, ?, ?)", row
                )
            except sqlite3.IntegrityError:
                raise StaleAnswerError(f"Question {number} is answered already, perhaps in another window.") from None
            self._file.executemany(
                "INSERT INTO comparison VALUES (?, ?, ?, ?)", [(cursor.lastrowid, *c) for c in comparisons]
            )
        return GivenAnswer(question, tuple(chosen), seconds, now)

    def undo(self, judge: Judge, key: str) -> Question | None:
        """Take back the last answer of a judge, whose question is open again; return it, or None if there is none.

        Parameters
        ----------
        judge : Judge
        key : str
            Key of the answer to take back, which must be the last one.

        Raises
        ------
        StaleAnswerError
            If another answer is the last one.
        """
        with self._writing():
            known = self._all(
                "SELECT answer.id, question.id, undone FROM answer JOIN question ON question.id = answer.question "
                "WHERE answer.key = ? AND question.judge = ?",
                key,
                judge.number,
            )
            if known and known[0][2]:  # the request came twice
                return self._questions("id = ?", known[0][1])[0]
            last = self.last_key(judge)
            if last is None:
                return None
            if last != key:
                raise StaleAnswerError("Another answer was given since, perhaps in another window.")
            self._file.execute("UPDATE answer SET undone = 1 WHERE id = ?", (known[0][0],))
        return self._questions("id = ?", known[0][1])[0]

    def last_key(self, judge: Judge) -> str | None:
        """Key of the last answer of a judge that is not undone."""
        row = self._all(
            "SELECT answer.key FROM answer JOIN question ON question.id = answer.question WHERE question.judge = ? "
            "AND NOT answer.undone ORDER BY answer.id DESC LIMIT 1",
            judge.number,
        )
        return row[0][0] if row else None

    def progress(self, judge: Judge, recent: int) -> tuple[int, list[float]]:
        """Number of answers of a judge, and the seconds of the last ones.

        Parameters
        ----------
        judge : Judge
        recent : int
            Number of answers whose seconds are returned, at most.
        """
        of_judge = "FROM answer JOIN question ON question.id = answer.question WHERE NOT undone AND judge = ?"
        ((count,),) = self._all(f"SELECT count(*) {of_judge}", judge.number)
        rows = self._all(f"SELECT seconds {of_judge} ORDER BY answer.id DESC LIMIT ?", judge.number, recent)
        return count, [row[0] for row in rows]

    def judged(self) -> list[GivenAnswer]:
        """Return all answers that are not undone, in the order in which they were given."""
        rows = self._all(
            "SELECT question.id, judge, purpose, shown, repeats, chosen, seconds, at FROM answer JOIN question ON "
            "question.id = answer.question WHERE NOT undone ORDER BY answer.id"
        )
        return [GivenAnswer(_question(row), tuple(json.loads(row[5])), *row[6:]) for row in rows]

    def count(self) -> tuple[int, int]:
        """Return two numbers that change with every answer and every answer that is undone."""
        ((given, undone),) = self._all("SELECT count(*), coalesce(sum(undone), 0) FROM answer")
        return given, undone

    def add_lesson(self, n_learned: int, result: dict[str, Any], map: bytes, members: bytes) -> None:
        """Store what was learned. Of earlier lessons, those that make a curve are kept, without their committee.

        Parameters
        ----------
        n_learned : int
            Number of answers that were learned from.
        result : dict
        map, members : bytes
            The linear map, and those of a committee.
        """
        with self._writing():
            kept = 0
            for number, before in self._all("SELECT id, n_learned FROM lesson ORDER BY id"):
                if kept * _GROWTH <= before < n_learned:
                    kept = before
                else:
                    self._file.execute("DELETE FROM lesson WHERE id = ?", (number,))
            self._file.execute("UPDATE lesson SET members = NULL")
            row = (n_learned, json.dumps(result, allow_nan=False), map, members)
            self._file.execute("INSERT INTO lesson (n_learned, result, map, members) VALUES (?, ?, ?, ?)", row)

    def last_lesson(self) -> tuple[int, dict[str, Any], bytes] | None:
        """Return number, result and committee of the last lesson."""
        rows = self._all("SELECT id, result, members FROM lesson ORDER BY id DESC LIMIT 1")
        return (rows[0][0], json.loads(rows[0][1]), rows[0][2]) if rows else None

    def earlier_maps(self) -> list[tuple[int, bytes]]:
        """Return the number of answers and the linear map of each lesson that was kept, in order."""
        return [(row[0], row[1]) for row in self._all("SELECT n_learned, map FROM lesson ORDER BY id")]


def _question(row: Sequence[Any]) -> Question:
    """Make a question of (id, judge, purpose, shown, repeats, ...)."""
    number, judge, purpose, shown, repeats = row[:5]
    return Question(number, judge, purpose, tuple(json.loads(shown)), repeats)
