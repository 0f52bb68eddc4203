"""The page of boostmetric judge in a browser, with real keys: nothing is lost or doubled, and texts are text."""

import json
import time

import pytest

pytest.importorskip("fcntl")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from boostmetric.judge import AnswerFile
from boostmetric.judge.lesson import packed
from boostmetric.judge.worker import learn_again
from browser import CHROMIUM, browser
from judged import IDS, POINTS, N, choice_of, png, serving, simulate

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")

SHOWN = "document.getElementById('options').children"
SEEN = "!document.getElementById('question').hidden && !document.body.classList.contains('waiting')"
COUNT = "parseInt(document.getElementById('pace').textContent)"
STATE = "document.getElementById('saved').textContent"
NAME = "(card => card.querySelector('img') ? card.querySelector('img').alt : card.querySelector('p').textContent)"
NAMES = f"Array.from({SHOWN}, {NAME})"
HEAD = f"document.querySelector('#head .card') && {NAME}(document.querySelector('#head .card'))"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(opened):
    opened.complaints.clear()
    opened.requests.clear()
    yield opened
    opened.ask("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    opened.ask("Page.navigate", url="about:blank")


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    return [png(folder / f"{number}.png", (number * 10, 255 - number * 10, 99)) for number in range(N)]


def start(page, link, **how):
    page.open(link, **how)
    page.until(f"document.readyState === 'complete' && {SEEN}")


def press(page, key):
    """Press a key and wait until its answer is stored and the next question is there."""
    before = page.js(COUNT)
    page.press(key)
    page.until(f"{COUNT} === {before + 1} && {SEEN}")


def test_keys_answer_and_undo(page, tmp_path, pictures):
    with serving(tmp_path / "a.judge", pictures=pictures) as (served, (link,)):
        start(page, link)
        asked = []
        for key, place in (("ArrowLeft", 0), ("ArrowRight", 1), (" ", None)):
            names, head = page.js(NAMES), page.js(HEAD)
            asked.append((head, *names, [] if place is None else [names[place]]))
            press(page, key)
        file = served.sitting.file
        found = [(*judged.question.shown, list(judged.chosen)) for judged in file.judged()]
        assert found == asked
        # The last question is back after an undo, and is answered differently.
        page.press("u")
        page.until(f"{COUNT} === 2 && {SEEN}")
        assert (page.js(HEAD), *page.js(NAMES)) == asked[2][:3]
        press(page, "ArrowRight")
        assert file.judged()[2].chosen == (asked[2][2],)
        assert len(file.judged()) == 3
        assert page.complaints == []
        assert all(url.startswith(link) for url in page.requests)


def test_a_key_that_is_held_down_answers_once(page, tmp_path):
    with serving(tmp_path / "a.judge") as (served, (link,)):
        start(page, link)
        for repeat in (False, True, True, True):
            page.ask(
                "Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft", windowsVirtualKeyCode=37, autoRepeat=repeat
            )
        page.until(f"{COUNT} === 1 && {SEEN}")
        time.sleep(0.2)
        assert len(served.sitting.file.judged()) == 1


def test_clicks_and_the_focus(page, tmp_path):
    with serving(tmp_path / "a.judge") as (served, (link,)):
        start(page, link)
        chosen = page.js(NAMES)[1]
        page.click(*page.middle(f"{SHOWN}[1]"))
        page.until(f"{COUNT} === 1 && {SEEN}")
        assert served.sitting.file.judged()[0].chosen == (chosen,)
        # A card with the focus: Enter chooses it, space still says "cannot say", once.
        page.js(f"{SHOWN}[0].focus()")
        first = page.js(NAMES)[0]
        page.press("Enter")
        page.until(f"{COUNT} === 2 && {SEEN}")
        assert served.sitting.file.judged()[1].chosen == (first,)
        page.js(f"{SHOWN}[0].focus()")
        page.press(" ")
        page.until(f"{COUNT} === 3 && {SEEN}")
        assert served.sitting.file.judged()[2].chosen == ()


def test_odd_one_out_by_number(page, tmp_path):
    with serving(tmp_path / "a.judge", mode="odd") as (served, (link,)):
        start(page, link)
        assert page.js(HEAD) is None
        names = page.js(NAMES)
        press(page, "3")
        (judged,) = served.sitting.file.judged()
        assert (judged.question.shown, judged.chosen) == (tuple(names), (names[2],))


def test_two_of_eight(page, tmp_path):
    with serving(tmp_path / "a.judge", mode="choice") as (served, (link,)):
        start(page, link)
        names = page.js(NAMES)
        assert len(names) == 8
        for key in "552":  # chosen, taken back, another
            page.press(key)
        assert page.js(f"Array.from({SHOWN}, card => card.getAttribute('aria-pressed'))").count("true") == 1
        assert not served.sitting.file.judged()
        press(page, "8")
        (judged,) = served.sitting.file.judged()
        assert set(judged.chosen) == {names[1], names[7]}
        assert len(served.sitting.file._all("SELECT * FROM comparison")) == 12


def test_pictures_are_there_before_their_question(page, tmp_path, pictures):
    """When the next question appears, all its pictures are complete, and were asked for before."""
    with serving(tmp_path / "a.judge", pictures=pictures) as (_, (link,)):
        start(page, link)
        page.js(
            "window.flicker = 0; new MutationObserver(() => { for (const image of document.images) "
            "if (!image.complete || !image.naturalWidth) window.flicker += 1; })"
            ".observe(document.getElementById('question'), {childList: true, subtree: true})"
        )
        for _ in range(6):
            press(page, "ArrowLeft")
        assert page.js("window.flicker") == 0
        assert page.js("document.images.length") == 3


def test_a_reload_keeps_the_question(page, tmp_path):
    with serving(tmp_path / "a.judge") as (served, (link,)):
        start(page, link)
        press(page, "ArrowLeft")
        before = page.js(HEAD), page.js(NAMES)
        start(page, link)
        assert (page.js(HEAD), page.js(NAMES)) == before
        assert page.js(COUNT) == 1
        page.press("u")  # what was answered before the reload can be undone
        page.until(f"{COUNT} === 0 && {SEEN}")
        assert served.sitting.file.judged() == []


def test_a_lost_connection_loses_nothing(page, tmp_path):
    with serving(tmp_path / "a.judge") as (served, (link,)):
        start(page, link)
        names = page.js(NAMES)
        page.ask(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )
        page.press("ArrowRight")
        page.until(f"{STATE}.startsWith('Not saved yet')")
        page.press("ArrowLeft")  # the page waits: it does not go on
        assert page.js(NAMES) == names
        page.ask(
            "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )
        page.until(f"{COUNT} === 1 && {SEEN}")
        assert [judged.chosen for judged in served.sitting.file.judged()] == [(names[1],)]
        assert page.js(STATE) == ""


def test_a_restart_of_the_server_loses_nothing(page, tmp_path):
    """The server ends between question and answer, and starts again on the same file: the answer arrives, once."""
    path = tmp_path / "a.judge"
    with serving(path) as (_, (link,)):
        start(page, link)
        press(page, "ArrowLeft")
        names = page.js(NAMES)
    page.press("ArrowRight")
    page.until(f"{STATE}.startsWith('Not saved yet')")
    with serving(path, port=int(link.split(":")[2].partition("/")[0])) as (served, (again,)):
        assert again == link
        page.until(f"{COUNT} === 2 && {SEEN}")
        assert len(served.sitting.file.judged()) == 2
        assert served.sitting.file.judged()[1].chosen == (names[1],)
        press(page, "ArrowLeft")


def test_an_answer_that_was_stored_unheard_is_not_doubled(page, tmp_path):
    """A reload after an answer was sent, whose confirmation never came: it is sent again under the same key."""
    with serving(tmp_path / "a.judge") as (served, (link,)):
        start(page, link)
        names = page.js(NAMES)
        question = served.sitting.file.open_questions(served.sitting.file.judges()[0])[0]
        body = {"question": question.number, "chosen": [names[0]], "seconds": 1.0, "key": "sent-before-the-reload"}
        kept = json.dumps(json.dumps({"path": "answer", "body": body}))
        served.sitting.answer(served.sitting.file.judges()[0], question.number, [names[0]], body["key"], 1.0)
        page.js(f"localStorage.setItem('boostmetric-judge:' + location.pathname, {kept})")
        start(page, link)
        page.until(f"{COUNT} === 1 && localStorage.length === 0")
        assert len(served.sitting.file.judged()) == 1
        assert page.js(NAMES) != names


def test_two_windows_of_one_judge(page, tmp_path):
    """What was answered elsewhere is not asked again, and not stored twice."""
    with serving(tmp_path / "a.judge") as (served, (link,)):
        start(page, link)
        sitting = served.sitting
        judge = sitting.file.judges()[0]
        question = sitting.file.open_questions(judge)[0]
        sitting.answer(judge, question.number, [], "the-other-window", 1.0)
        page.press("ArrowLeft")
        page.until("document.getElementById('message').textContent.includes('another window')")
        page.until(f"{COUNT} === 1 && {SEEN}")
        assert len(sitting.file.judged()) == 1
        press(page, "ArrowLeft")


def test_what_was_learned_is_shown(page, tmp_path):
    path = tmp_path / "a.judge"
    with AnswerFile(path, mode="triplet", seed=0) as file:
        simulate(file, 60)
        learn_again(file, IDS, POINTS)
        simulate(file, 60, start=60)
        learn_again(file, IDS, POINTS)
    with serving(path) as (served, (link,)):
        start(page, link)
        _, lesson, _ = served.sitting.file.last_lesson()
        panel = page.js("document.getElementById('learned').innerText")
        for name in ("learned", "base"):
            assert f"{round(100 * lesson[name]['mean'])} %" in panel
        assert "24 answers that were never learned from" in panel
        assert page.js("document.querySelectorAll('#curve polyline').length") == 1
        assert "Committee, not random" in panel
        assert page.complaints == []


def test_enough_and_the_end_of_the_committee_are_said(page, tmp_path):
    """While the page is open, and without any answer."""
    path = tmp_path / "a.judge"
    with serving(path) as (served, (link,)):
        file = served.sitting.file
        simulate(file, 60)
        learn_again(file, IDS, POINTS)
        start(page, link)
        assert page.js("document.getElementById('enough').hidden")
        _, result, _ = file.last_lesson()
        result["enough"], result["gain_of_doubling"] = True, {"mean": 0.004, "low": -0.02, "high": 0.031, "n": 90}
        worse = {"mean": -0.05, "low": -0.09, "high": -0.01, "n": 90}
        result["halves"] = {"n": 40, "on": False, "difference": worse}
        file.add_lesson(result["n_learned"] + 1, result, packed([POINTS[:5, :5]]), packed([POINTS[:5, :5]] * 2))
        page.until("!document.getElementById('enough').hidden")
        panel = page.js("document.getElementById('learned').innerText")
        assert "Enough: the curve is flat. The second half of the answers brought +0.4 points (at most +3.1)." in panel
        assert "The committee asks no more: it taught less." in panel
        press(page, "ArrowLeft")
        assert served.sitting._questions.members == []  # so that the next questions are random


def test_texts_are_text_and_nothing_is_loaded_from_elsewhere(page, tmp_path):
    hostile = [
        "<img src=x onerror=alert(1)>",
        "</script><script>window.hurt = 1</script>",
        "javascript:alert(1)",
        "\u202eevil",
        "",
    ]
    texts = [f"{hostile[i % len(hostile)]} {i}" for i in range(N)]
    with serving(tmp_path / "a.judge", texts=texts) as (_, (link,)):
        start(page, link)
        for _ in range(5):
            assert set(page.js(NAMES)) <= set(texts)
            press(page, "ArrowLeft")
        assert page.js("window.hurt === undefined && document.images.length === 0")
        assert page.complaints == []
        assert all(url.startswith(link) for url in page.requests)
        # The policy of the page holds: no script can be added, nothing fetched from elsewhere.
        page.js(
            "const s = document.createElement('script'); s.textContent = 'window.hurt = 1'; document.body.append(s)"
        )
        page.js("fetch('http://127.0.0.1:9/').catch(() => { window.refused = true; }); 0")
        page.until("window.refused === true")
        assert page.js("window.hurt === undefined")


@pytest.mark.parametrize("mode", ["triplet", "odd", "choice"])
@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 390), (False, 320)])
def test_fits_every_width_light_and_dark(page, tmp_path, pictures, mode, dark, width):
    with serving(tmp_path / "a.judge", mode=mode, pictures=pictures) as (_, (link,)):
        start(page, link, dark=dark, width=width, height=800)
        assert page.js("document.documentElement.scrollWidth <= innerWidth")
        light = sum(map(int, page.js("getComputedStyle(document.body).backgroundColor")[4:-1].split(",")))
        assert (light < 150) == dark
        boxes = page.js(f"Array.from({SHOWN}, card => card.querySelector('img').getBoundingClientRect().toJSON())")
        assert all(box["width"] >= 90 and box["height"] >= 60 for box in boxes)
        buttons = "Array.from(document.querySelectorAll('#actions button'), b => b.getBoundingClientRect().top)"
        assert min(page.js(buttons)) >= max(box["bottom"] for box in boxes)  # nothing lies over a picture


def test_finish_writes_the_model(page, tmp_path):
    path = tmp_path / "a.judge"
    with AnswerFile(path, mode="triplet", seed=0) as file:
        simulate(file, 40)
    with serving(path) as (served, (link,)):
        start(page, link)
        page.click(*page.middle("document.getElementById('finish')"))
        page.press("ArrowLeft")  # goes to the dialog, and answers nothing
        assert page.js("document.getElementById('sure').open")
        page.click(*page.middle("document.getElementById('really')"))
        page.until("!document.getElementById('ended').hidden")
        assert "boostmetric transform" in page.js("document.getElementById('ended').innerText")
        assert len(served.sitting.file.judged()) == 40
        assert (tmp_path / "model.safetensors").exists()
        assert "How people judged" in (tmp_path / "model.html").read_text(encoding="utf-8")


def test_a_wrong_link_says_so(page, tmp_path):
    with serving(tmp_path / "a.judge") as (served, (link,)):
        token = served.sitting.file.judges()[0].token
        page.open(link.replace(token, "x" * len(token)))
        page.until("document.body.innerText.includes('There is no such page')")


def test_answers_of_a_page_teach_as_simulated_ones_do(page, tmp_path):
    """Twelve questions answered by keys in the browser, each as the judge sees it."""
    with serving(tmp_path / "a.judge") as (served, (link,)):
        start(page, link)
        file = served.sitting.file
        for _ in range(12):
            shown = (page.js(HEAD), *page.js(NAMES))
            (chosen,) = choice_of(file.mode, shown)
            press(page, "ArrowLeft" if chosen == shown[1] else "ArrowRight")
        for judged in file.judged():
            assert list(judged.chosen) == choice_of(file.mode, judged.question.shown)
