"""The server of boostmetric judge against hostile requests, and the limits that it keeps."""

import json
import socket
import time

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from boostmetric.judge.limits import MOST_BYTES, Rates, is_from_this_site, is_loopback
from boostmetric.judge.pictures import PictureError, find_pictures
from judged import IDS, Client, N, png, serving


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    return [png(folder / f"{number}.png", (number, 0, 0)) for number in range(N)]


@pytest.fixture
def served(tmp_path, pictures):
    with serving(tmp_path / "a.judge", ("anna", "ben"), pictures=pictures) as (served, links):
        yield served.sitting, *map(Client, links)


@pytest.fixture(scope="module")
def refusing(tmp_path_factory, pictures):
    """A server for requests that change nothing."""
    folder = tmp_path_factory.mktemp("refusing")
    with serving(folder / "a.judge", ("anna", "ben"), pictures=pictures) as (served, links):
        yield served.sitting, *map(Client, links)
        assert served.sitting.file.judged() == []


def an_answer(client, **changes):
    question = client.ask("begin")[1]["questions"][0]
    ids = [one["id"] for one in question["objects"]]
    body = {"question": question["number"], "chosen": ids[1:2], "seconds": 1.5, "key": f"key-{question['number']:08d}"}
    return {**body, **changes}


def test_a_page_with_its_parts(served):
    sitting, anna, _ = served
    status, page = anna.ask("")
    assert status == 200
    assert b"<script src=" in page
    policy = anna.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert anna.headers["referrer-policy"] == "no-referrer"
    assert anna.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in anna.headers
    for name, kind in (("judge.js", "text/javascript"), ("judge.css", "text/css")):
        assert anna.ask(f"static/{name}")[0] == 200
        assert anna.headers["content-type"].startswith(kind)
    status, picture = anna.ask("picture/3")
    assert (status, picture) == (200, sitting.objects.pictures[3].read_bytes())
    assert anna.headers["content-type"] == "image/png"


def test_answers_are_stored_before_the_reply(served):
    sitting, anna, _ = served
    body = an_answer(anna)
    status, reply = anna.ask("answer", body)
    assert status == 200
    assert reply["progress"]["answers"] == 1
    assert reply["last"] == body["key"]
    (judged,) = sitting.file.judged()
    assert list(judged.chosen) == body["chosen"]
    assert anna.ask("answer", body)[1]["progress"]["answers"] == 1  # sent again
    assert anna.ask("undo", {"key": body["key"]})[1]["progress"]["answers"] == 0


def test_judges_have_links_of_their_own(served):
    sitting, anna, ben = served
    body = an_answer(anna)
    assert ben.ask("answer", body)[0] == 409  # a question of another judge
    assert anna.ask("answer", body)[0] == 200
    assert ben.ask("undo", {"key": body["key"]})[1]["progress"]["answers"] == 0
    assert len(sitting.file.judged()) == 1
    assert ben.ask("begin")[1]["judge"] == "ben"


@pytest.mark.parametrize("token", ["", "x", "../", "%00", "a" * 5000, "anna", "' OR 1 --"])
def test_without_the_token_there_is_nothing(refusing, token):
    _, anna, _ = refusing
    for path in ("", "begin", "state", "picture/0", "static/judge.js"):
        status, _ = anna.ask(path, token=token.replace(" ", "%20"))
        assert status in (400, 404)
    for path in ("answer", "undo", "finish"):
        assert anna.ask(path, {"key": "12345678"}, token=token.replace(" ", "%20"))[0] in (400, 404, 405)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": None},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"content_type": "text/plain"},
        {"content_type": "application/x-www-form-urlencoded"},
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
    ],
)
def test_other_sites_change_nothing(refusing, headers):
    sitting, anna, _ = refusing
    for path in ("answer", "undo", "finish"):
        assert anna.ask(path, an_answer(anna), **headers)[0] == 403
    assert sitting.file.judged() == []
    assert sitting.outcome is None


def test_a_foreign_name_for_this_machine_shows_nothing(refusing):
    """DNS rebinding: the browser sends the name that it was given."""
    _, anna, _ = refusing
    for path in ("", "begin", "picture/0"):
        assert anna.ask(path, host="evil.example")[0] == 403
        assert anna.ask(path, host=f"localhost:{anna.host.partition(':')[2]}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "picture/../../../../etc/passwd",
        "picture/..%2f..%2f..%2fetc%2fpasswd",
        "picture/%2e%2e/%2e%2e/etc/passwd",
        "picture//etc/passwd",
        "picture/99999",
        "picture/-1",
        "picture/0.png",
        "picture/1e3",
        "static/../answers.py",
        "static/..%2fanswers.py",
        "static/%2fetc%2fpasswd",
        "static/page.html",
        "static/",
        "a.judge",
    ],
)
def test_no_path_leads_out(refusing, path):
    _, anna, _ = refusing
    status, content = anna.ask(path)
    assert status == 404
    assert "error" in content


@pytest.mark.parametrize(
    "changes",
    [
        {"chosen": None},
        {"chosen": ["elsewhere"]},
        {"chosen": [1.5]},
        {"chosen": [True]},
        {"chosen": [["nested"]]},
        {"chosen": ["x"] * 1000},
        {"question": "1"},
        {"question": 10**30},
        {"question": None},
        {"seconds": -1},
        {"seconds": "now"},
        {"seconds": 1e300},
        {"key": ""},
        {"key": "short"},
        {"key": "k" * 65},
        {"key": 7},
        {"key": "ключ-ключ"},
    ],
)
def test_what_is_no_answer_is_refused(refusing, changes):
    sitting, anna, _ = refusing
    status, content = anna.ask("answer", an_answer(anna, **changes))
    assert status in (400, 409, 413)
    assert content["error"]
    assert sitting.file.judged() == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"null", b'"x"', b"\xff\xfe", b"[" * 4000, b'{"seconds": NaN, "question": 1, "chosen": []}'],
)
def test_what_is_no_json_is_refused(refusing, content):
    _, anna, _ = refusing
    assert anna.ask("answer", content)[0] == 400


def test_large_requests_are_refused_early(refusing):
    sitting, anna, _ = refusing
    assert anna.ask("answer", json.dumps(an_answer(anna, more="x" * MOST_BYTES)).encode())[0] == 413
    # One that says it is large, or never ends, is not waited for.
    host, port = anna.host.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        head = f"POST /{anna.token}/answer HTTP/1.1\r\nHost: {anna.host}\r\nOrigin: http://{anna.host}\r\n"
        head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        for _ in range(8):
            connection.sendall(b"400\r\n" + b" " * 0x400 + b"\r\n")
        assert b" 413 " in connection.recv(1000)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(f"GET /{anna.token}/ HTTP/1.1\r\nHost: {anna.host}\r\nX: {'x' * 200_000}".encode())
        assert b" 400 " in connection.recv(1000)
    assert anna.ask("begin")[0] == 200
    assert sitting.file.judged() == []


def test_other_methods_are_refused(refusing):
    _, anna, _ = refusing
    for path, method in (("", "POST"), ("answer", "GET"), ("answer", "PUT"), ("begin", "DELETE"), ("", "OPTIONS")):
        assert anna.ask(path, method=method)[0] == 405


def test_rates_are_bounded():
    now = [0.0]
    rates = Rates(clock=lambda: now[0])
    assert sum(rates.allow("a") for _ in range(1000)) == 200
    assert rates.allow("b")  # others are not held up
    now[0] += 1.0
    assert sum(rates.allow("a") for _ in range(1000)) == 40
    for number in range(5000):  # many clients take no more memory
        rates.allow(str(number))
    assert len(rates._left) <= 1000


def test_too_many_requests_are_told_to_wait(served):
    _, anna, ben = served
    statuses = [anna.ask("", token="guess")[0] for _ in range(260)]
    assert 429 in statuses
    assert ben.ask("begin")[0] == 200  # who has a link is counted alone


def test_hosts_and_origins():
    own = {"host": "127.0.0.1:80", "origin": "http://127.0.0.1:80", "content-type": "application/json; charset=utf-8"}
    assert is_from_this_site(own, loopback=True, changes=True)
    assert is_from_this_site({"host": "[::1]:80"}, loopback=True, changes=False)
    assert is_from_this_site({"host": "judge.lan"}, loopback=False, changes=False)
    assert not is_from_this_site({"host": "judge.lan"}, loopback=True, changes=False)
    assert not is_from_this_site({}, loopback=True, changes=False)
    assert not is_loopback("127.0.0.1.example.org")


def test_pictures_are_of_the_folder_only(tmp_path):
    folder, outside = tmp_path / "in", tmp_path / "outside.png"
    (folder / "sub").mkdir(parents=True)
    png(outside, (1, 2, 3))
    png(folder / "a.png", (1, 2, 3))
    png(folder / "sub" / "b.PNG", (1, 2, 3))
    (folder / "c.svg").write_text("<svg/>")
    assert [path.name for path in find_pictures(folder, ["a", "sub/b", "a.png"])] == ["a.png", "b.PNG", "a.png"]
    for wrong in ("../outside", "../outside.png", str(outside), "c", "c.svg", "b", ""):
        with pytest.raises(PictureError, match="there is no picture of 1 point of 1"):
            find_pictures(folder, [wrong])
    (folder / "d.png").symlink_to(outside)
    with pytest.raises(PictureError, match="leads out of the folder"):
        find_pictures(folder, ["d"])
    png(folder / "a.webp", (1, 2, 3))
    with pytest.raises(PictureError, match=r"several pictures of 'a' \(a.png, a.webp\)"):
        find_pictures(folder, ["a"])
    with pytest.raises(PictureError, match="is no folder"):
        find_pictures(folder / "none", [])


def test_a_picture_that_is_gone(refusing, pictures):
    _, anna, _ = refusing
    content = pictures[5].read_bytes()
    pictures[5].unlink()
    try:
        assert anna.ask("picture/5")[0] == 404
    finally:
        pictures[5].write_bytes(content)


def test_the_page_does_not_wait_for_learning(served):
    """Answers take milliseconds, whatever another process does with the file."""
    _, anna, _ = served
    times = []
    for _ in range(10):
        body = an_answer(anna)
        begun = time.perf_counter()
        assert anna.ask("answer", body)[0] == 200
        times.append(time.perf_counter() - begun)
    assert sorted(times)[5] < 0.5


def test_all_must_finish(served):
    sitting, anna, ben = served
    for client in (anna, ben):
        for _ in range(8):
            assert client.ask("answer", an_answer(client))[0] == 200
    status, reply = anna.ask("finish", {})
    assert status == 200
    assert "Others are still answering" in reply["text"]
    assert sitting.outcome is None
    status, reply = ben.ask("finish", {})
    assert status == 200
    assert "boostmetric transform" in reply["commands"][0]
    assert len(sitting.outcome["result"]["judges"]) == 2
    assert {judge["n"] for judge in sitting.outcome["result"]["judges"]} == {8}
    assert set(IDS) >= {id for judged in sitting.file.judged() for id in judged.question.shown}
