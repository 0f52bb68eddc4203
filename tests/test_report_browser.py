"""The report in a browser: it loads without complaint, points say what they are, and the switches work."""

import pytest

pytest.importorskip("fcntl")

import numpy as np

from boostmetric import MahalanobisMetric
from boostmetric.evaluation import LabelTask
from boostmetric.report import write_model_report
from browser import CHROMIUM, browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")

N = 40
IDS = [f"point <b>{i}</b></script>" for i in range(N)]
LABELS = np.array(["near & dear", "<i>far</i>"])[np.arange(N) % 2]
DOTS = "document.querySelectorAll('#view figure circle')"
TIP = "document.getElementById('tip')"
PLACES = f"Array.from({DOTS}, dot => [+dot.getAttribute('cx'), +dot.getAttribute('cy')])"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page whose first feature tells the class, and is all that the metric sees besides a little of the second."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((N, 3)) * [0.3, 3.0, 3.0] + np.outer(np.arange(N) % 2, [3.0, 0.0, 0.0])
    path = tmp_path_factory.mktemp("report") / "report.html"
    metric = MahalanobisMetric([[1.0, 0.0, 0.0], [0.0, 0.1, 0.0]], feature_names=["tells", "hardly", "nothing"])
    write_model_report(path, metric, LabelTask.of(points, LABELS), ids=IDS, n_bootstrap=20)
    return path


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(opened, report):
    opened.complaints.clear()
    opened.requests.clear()
    opened.move(0, 0)
    opened.open(report)
    yield opened
    assert opened.complaints == []
    assert set(opened.requests) <= {report.as_uri()}


def label_of(when):
    return f"document.querySelector('input[value={when}]').closest('label')"


def test_loads_with_all_its_parts(page):
    assert page.js("document.querySelectorAll('h2').length") == 9
    assert page.js(f"{DOTS}.length") == N  # the second picture is taken into the first
    assert page.js("document.querySelector('fieldset').hidden") is False
    assert page.js("document.documentElement.scrollWidth <= innerWidth")


def test_complaints_would_be_seen(opened, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<script>console.error('a'); throw new Error('b')</script><img src='file:///none.png'>")
    opened.complaints.clear()
    opened.open(bad)
    opened.until("document.images[0].complete")
    assert ["a"] in opened.complaints
    assert len(opened.complaints) >= 2
    assert "file:///none.png" in opened.requests


@pytest.mark.parametrize("number", [0, 7, N - 1])
def test_hover_says_id_and_label(page, number):
    assert page.js(f"{TIP}.hidden")
    page.move(*page.middle(f"{DOTS}[{number}]"))
    page.until(f"!{TIP}.hidden")
    assert page.js(f"{TIP}.querySelector('b').textContent") == IDS[number]
    assert page.js(f"{TIP}.querySelector('span').textContent") == LABELS[number]
    assert page.js(f"{TIP}.querySelector('i')") is None  # a label is text
    assert page.js("document.querySelectorAll('circle.lit').length") == N // 2
    page.move(*page.middle("document.querySelector('h1')"))
    page.until(f"{TIP}.hidden")
    assert page.js("document.querySelectorAll('circle.lit').length") == 0


def test_switch_moves_the_points_and_back(page):
    before = np.array(page.js(PLACES))
    page.click(*page.middle(label_of("after")))
    page.until("document.getElementById('view').dataset.moving === 'yes'")
    page.until("!document.getElementById('view').dataset.moving")
    after = np.array(page.js(PLACES))
    assert page.js("document.querySelector('figcaption').textContent") == "The points as the metric maps them"
    assert separation(before) < 1 < 5 < separation(after)
    page.move(*page.middle(f"{DOTS}[3]"))
    page.until(f"!{TIP}.hidden")
    assert page.js(f"{TIP}.querySelector('b').textContent") == IDS[3]
    page.click(*page.middle(label_of("before")))
    page.until("!document.getElementById('view').dataset.moving")
    np.testing.assert_allclose(page.js(PLACES), before)


def separation(places):
    """How far the classes are from each other, in units of their spread, along the line between them."""
    odd, even = places[1::2], places[::2]
    line = odd.mean(axis=0) - even.mean(axis=0)
    along = [side @ line / np.linalg.norm(line) for side in (odd, even)]
    return (along[0].mean() - along[1].mean()) / max(along[0].std(), along[1].std())


def test_everything_with_the_keyboard(page):
    page.js("document.querySelector('input[value=before]').focus()")
    page.press("ArrowRight")
    page.until("document.querySelector('figcaption').textContent.includes('metric')")
    page.until("!document.getElementById('view').dataset.moving")
    page.press("Tab")
    assert page.js("document.activeElement.tagName") == "svg"
    for expected in (0, 1, 2):
        page.press("ArrowRight")
        assert page.js(f"{TIP}.querySelector('b').textContent") == IDS[expected]
    page.press("ArrowLeft")
    assert page.js(f"{TIP}.querySelector('b').textContent") == IDS[1]
    page.press("Escape")
    assert page.js(f"{TIP}.hidden")
    page.press("Tab")
    page.press(" ")
    assert page.js("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert page.js("document.querySelectorAll('circle.lit').length") == N // 2


def test_a_class_in_the_legend_stands_out(page):
    button = "document.querySelectorAll('.legend button')[1]"
    page.click(*page.middle(button))
    assert page.js(f"{button}.getAttribute('aria-pressed')") == "true"
    lit = page.js(f"Array.from({DOTS}, dot => dot.classList.contains('lit'))")
    classes = sorted(set(LABELS))
    assert lit == [label == classes[1] for label in LABELS]
    page.click(*page.middle(button))
    assert page.js("document.querySelectorAll('circle.lit').length") == 0


def test_of_many_classes_a_grey_one_lights_up(page, tmp_path):
    rng = np.random.default_rng(0)
    labels = [f"class {row % 30}" for row in range(120)]
    points = rng.standard_normal((30, 3))[np.arange(120) % 30] + 0.3 * rng.standard_normal((120, 3))
    path = tmp_path / "many.html"
    task = LabelTask.of(points, labels)
    write_model_report(path, MahalanobisMetric(np.diag([2.0, 1.0, 0.5])), task, n_bootstrap=20)
    page.open(path)
    page.requests.clear()
    page.move(*page.middle(f"{DOTS}[0]"))
    page.until(f"!{TIP}.hidden")
    assert page.js(f"{DOTS}[0].classList.contains('other')")
    shown = page.js(f"{TIP}.querySelector('span').textContent")
    lit = page.js(f"Array.from({DOTS}).filter(dot => dot.classList.contains('lit')).length")
    assert lit == labels.count(shown) == 4
    assert page.js("getComputedStyle(document.querySelector('circle.lit')).fill") == "rgb(230, 159, 0)"
    page.move(*page.middle("document.querySelector('h1')"))
    button = "document.querySelector('.legend:last-of-type li:last-child button')"
    page.click(*page.middle(button))
    place = int(page.js(f"{button}.dataset.class"))
    named = page.js("JSON.parse(document.getElementById('view-data').textContent)")
    lit = page.js(f"Array.from({DOTS}, dot => dot.classList.contains('lit'))")
    assert lit == [number == place for number in named["labels"]]
    assert page.js(f"{button}.textContent").strip() == named["classes"][place]


def test_without_javascript_both_pictures_are_there(page, report):
    page.open(report, script=False)
    boxes = "Array.from(document.querySelectorAll('#view figure'), f => Math.round(f.getBoundingClientRect().width))"
    widths = page.js(boxes)
    assert len(widths) == 2
    assert min(widths) > 300
    assert page.js("getComputedStyle(document.querySelector('fieldset')).display") == "none"


def test_dark_and_narrow(page, report):
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.js(colour)
    page.open(report, dark=True, width=380)
    assert light == "rgb(255, 255, 255)"
    assert sum(map(int, page.js(colour)[4:-1].split(","))) < 150
    assert page.js("document.documentElement.scrollWidth <= innerWidth")


def test_no_motion_where_none_is_wanted(page, report):
    media = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    page.ask("Emulation.setEmulatedMedia", features=media)
    page.click(*page.middle(label_of("after")))
    page.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.until("!document.getElementById('view').dataset.moving")
    assert separation(np.array(page.js(PLACES))) > 5
