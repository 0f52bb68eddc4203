"""Sittings for tests: drawn pictures, a simulated judge, and a server in a thread."""

import contextlib
import http.client
import json
import struct
import threading
import zlib

import numpy as np

from boostmetric.judge import AnswerFile
from boostmetric.judge.finish import Outputs
from boostmetric.judge.lesson import unpacked
from boostmetric.judge.questions import Questions
from boostmetric.judge.serving import Served, bound
from boostmetric.judge.sitting import Objects

N = 24
POINTS = np.random.default_rng(0).standard_normal((N, 5))
IDS = np.array([f"n° {i} <b>" for i in range(N)], dtype=object)
ROW = {name: row for row, name in enumerate(IDS)}
TRUTH = POINTS * [3.0, 1.0, 0.0, 0.0, 0.0]


def png(path, colour, side=8):
    """Write a picture of one colour."""
    rows = (b"\0" + bytes(colour) * side) * side

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )
    return path


def choice_of(mode, shown, mapped=TRUTH, noise=0.0, rng=None):
    """What a judge chooses who sees objects as `mapped`, with noise."""
    seen = mapped[[ROW[name] for name in shown]]
    if noise:
        seen = seen + rng.normal(0.0, noise, seen.shape)
    options = shown[1:] if mode.has_head else shown
    return [option for option, chosen in zip(options, mode.favourites(seen[None])[0], strict=True) if chosen]


def simulate(file, n, *, judge=None, mapped=TRUTH, noise=0.0, seed=0, start=0):
    """Answer n questions."""
    judge = judge or file.judge("anna")
    questions, rng = Questions(file, IDS, POINTS), np.random.default_rng(seed)
    lesson = file.last_lesson()
    questions.members = unpacked(lesson[2]) if lesson else ()
    for number in range(start, start + n):
        question = questions.ahead(judge, 1)[0]
        chosen = choice_of(file.mode, question.shown, mapped, noise, rng)
        file.answer(judge, question.number, chosen, key=f"{judge.name}-{number:08d}", seconds=1.5)
    return judge


@contextlib.contextmanager
def serving(path, names=("anna",), *, mode="triplet", port=0, loopback=True, pictures=None, texts=None):
    """A server in a thread: yields what it serves, and the address of each judge's page."""
    with AnswerFile(path, mode=mode, seed=0) as file:
        people = [file.judge(name) for name in names]
        outputs = Outputs(path.with_name("model.safetensors"), path.with_name("model.html"), "points.csv --id id")
        objects = Objects(IDS, POINTS, texts, pictures)
        served, listening = Served(file, objects, people, outputs, loopback=loopback), bound("127.0.0.1", port)
        thread = threading.Thread(target=served.run, args=[listening], daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            yield served, [f"{address}/{judge.token}/" for judge in people]
        finally:
            served.stop()
            thread.join(15)
            listening.close()
            assert not thread.is_alive()


class Client:
    """Requests as any program could send them."""

    def __init__(self, link):
        self.host = link.split("/")[2]
        self.token = link.split("/")[3]

    def ask(self, path, body=None, *, method=None, token=None, **headers):
        """Status and content of an answer."""
        connection = http.client.HTTPConnection(self.host, timeout=20)
        given = {}
        if body is not None:
            given = {"content-type": "application/json", "origin": f"http://{self.host}"}
        given |= {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        for name in [name for name, value in headers.items() if value is None]:
            given.pop(name.replace("_", "-"), None)
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            where = f"/{self.token if token is None else token}/{path}"
            connection.request(method or ("GET" if body is None else "POST"), where, content, given)
            answer = connection.getresponse()
            content = answer.read()
            self.headers = answer.headers
        finally:
            connection.close()
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.status, json.loads(content) if is_json else content
