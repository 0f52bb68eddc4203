"""The report of a learned metric: what stands on the page, for every kind of task, and what can not break it."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_wine

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.baselines import RCA
from boostmetric.evaluation import ComparisonTask, LabelTask, RankingTask, class_gains, compare
from boostmetric.evaluation.stages import scores_by_direction
from boostmetric.report import heading, paragraph, table, write_model_report, write_page
from boostmetric.report.charts import bar_chart, line_chart, ticks
from boostmetric.report.facts import facts
from boostmetric.report.neighbors import sample_of_queries
from boostmetric.report.page import Html, data_block
from boostmetric.report.projection import principal_plane, turned
from boostmetric.report.scores import enough, ranks_to_try
from boostmetric.report.subject import Names, subject_of
from boostmetric.report.view import MOST_POINTS

WINE = load_wine()
X, Y, NAMES = WINE.data, WINE.target_names[WINE.target], WINE.feature_names
SECTIONS = [
    "What was learned",
    "Before and after",
    "Class by class",
    "How short the vectors can get",
    "Spectrum",
    "Convergence",
    "The points in two dimensions",
    "Features",
    "Nearest neighbours",
]
WICKED = "</script><script>alert(1)</script><!-- \"&'<img src=x onerror=alert(2)>\u2028"


@pytest.fixture(scope="module")
def model():
    return BoostMetric.paper(max_iter=15).fit(pd.DataFrame(X, columns=NAMES)[::2], Y[::2])


@pytest.fixture(scope="module")
def task():
    return LabelTask.of(X[1::2], Y[1::2], reference=(X[::2], Y[::2]))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "report.html"


class Reader(HTMLParser):
    """Elements, their text, and whether all are closed in the right order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def read(path):
    return Reader(path.read_text(encoding="utf-8"))


def view_data(page):
    (text,) = (text for text in page.texts["script"] if text.startswith("{"))
    return json.loads(text)


def test_the_whole_page(model, task, path):
    write_model_report(path, model, task, title="Wine & more", n_bootstrap=50)
    page = read(path)
    assert page.texts["title"][0] == page.texts["h1"][0] == "Wine & more"
    assert page.texts["h2"] == SECTIONS
    text = path.read_text(encoding="utf-8")
    evaluation = compare(model, task, n_bootstrap=50, random_state=np.random.RandomState(0))
    assert evaluation.sentence.replace(">", "&gt;") in text
    for row in evaluation.table()[1:]:
        assert "".join(f"<td>{cell}</td>" for cell in row) in text
    assert "defaults, except " in text
    assert "max_iter=15" in text
    assert "The iteration limit max_iter was reached." in text
    assert "The objective after each iteration." in text


def test_nothing_is_loaded_and_every_picture_is_described(model, task, path):
    write_model_report(path, model, task)
    page, text = read(path), path.read_text(encoding="utf-8")
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert attributes.get("href", "#")[0] == "#" or attributes["href"] == "data:,"
        assert not any(name.startswith("on") for name in attributes)
    for link in page.of("a"):
        assert {"id": link["href"][1:]} in page.of("h2")
    pictures = page.of("svg")
    assert pictures
    for picture in pictures:
        assert picture.get("aria-hidden") == "true" or (picture["role"] == "img" and picture["aria-label"])
    (policy,) = (meta["content"] for meta in page.of("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'")
    assert "script-src 'sha256-" in policy


def test_wicked_texts_do_no_harm(path):
    metric = MahalanobisMetric(
        [[1.0, 0.5], [0.0, 1.0]],
        feature_names=[WICKED, "b"],
        about={"estimator": {"name": WICKED, "parameters": {WICKED: WICKED}}, "library": WICKED, WICKED: [WICKED]},
    )
    points = np.random.default_rng(0).standard_normal((12, 2))
    labels = np.array([WICKED + "1", WICKED + "2"])[np.arange(12) % 2]
    ids = [f"{WICKED}{i}" for i in range(12)]
    task = LabelTask.of(points, labels, k=1)
    write_model_report(path, metric, task, ids=ids, title=WICKED)
    page = read(path)
    assert len(page.of("script")) == 2
    assert not page.of("img")
    assert page.texts["h1"] == [WICKED]
    data = view_data(page)
    assert data["ids"] == ids
    assert data["classes"] == sorted(set(labels))


@settings(max_examples=15)
@given(st.lists(st.text(st.characters(exclude_categories=())), min_size=8, max_size=8))
def test_any_text_is_an_id(tmp_path_factory, ids):
    path = tmp_path_factory.mktemp("any") / "report.html"
    points = np.arange(8.0)[:, None] ** 2
    write_model_report(path, MahalanobisMetric([[2.0]]), points=points, ids=ids, labels=ids)
    assert view_data(read(path))["ids"] == ids


def test_half_a_surrogate_pair_is_written_as_a_reference(path):
    write_page(path, "a", [paragraph("x\ud800y")])
    assert "x&#55296;y" in path.read_text(encoding="utf-8")


def test_data_cannot_end_its_block():
    assert "<" not in data_block("x", {"</script>": "<!--&"})[40:-9]
    with pytest.raises(ValueError, match="JSON compliant"):
        data_block("x", float("nan"))


def test_text_is_escaped_and_html_is_not():
    assert heading("a<b") == "<h2>a&lt;b</h2>"
    assert "<td><b>x</b></td><td>&lt;i&gt;</td>" in table(["h", "k"], [[Html("<b>x</b>"), "<i>"]])


def test_points_only(model, path):
    write_model_report(path, model.get_metric(), points=X, ids=np.arange(len(X)) + 1000)
    page = read(path)
    assert page.texts["h2"] == [name for name in SECTIONS if name not in SECTIONS[1:4]]
    data = view_data(page)
    assert data["ids"][:2] == ["1000", "1001"]
    assert data["classes"] == [""]
    assert "verdict" not in {attributes.get("class") for attributes in page.of("p")}
    assert not any(span.get("class") == "right" for span in page.of("span"))


def test_points_with_labels_mark_neighbors(model, path):
    write_model_report(path, model, points=X, labels=Y)
    page = read(path)
    assert view_data(page)["classes"] == ["class_0", "class_1", "class_2"]
    assert [button["data-class"] for button in page.of("button")] == ["0", "1", "2"]
    assert {"class": "right", "role": "img", "aria-label": "right"} in page.of("span")


def test_no_points_at_all(path):
    write_model_report(path, MahalanobisMetric(np.diag([2.0, 1.0]), feature_names=["height", "width"]))
    page = read(path)
    assert page.texts["h2"] == ["What was learned", "Spectrum", "Convergence", "Features"]
    assert "The model has no record of its training." in path.read_text(encoding="utf-8")
    assert not page.of("script")


def test_rankings_show_documents_and_what_was_relevant(path):
    rng = np.random.default_rng(0)
    queries, documents = rng.random((20, 3)), rng.random((30, 3))
    apart = cdist(queries[:, :1], documents[:, :1])
    judgements = [[q, d, 1.0] for q, d in np.argwhere(apart < 0.2)]
    task = RankingTask.of(queries, documents, judgements, k=5)
    names = [f"doc-{i}" for i in range(30)]
    write_model_report(path, MahalanobisMetric([[1.0, 0.0, 0.0]]), task, reference_ids=names, sample_queries=20)
    text = path.read_text(encoding="utf-8")
    assert "nDCG@5" in text
    data = view_data(Reader(text))
    assert data["classes"] == ["document", "query"]
    assert data["ids"] == [f"query {i}" for i in range(20)] + names
    for card in re.findall(r'<article class="query">.*?</article>', text):
        query = int(re.search(r"query (\d+)", card)[1])
        for kind, document in re.findall(r'aria-label="(right|wrong)".*?doc-(\d+)<', card):
            assert (kind == "right") == (apart[query, int(document)] < 0.2)
    assert text.count("of 5 right") == 40


def test_comparisons(path):
    points = np.random.default_rng(0).standard_normal((40, 2))
    triplets = np.random.default_rng(1).permuted(np.tile(np.arange(40), (60, 1)), axis=1)[:, :3]
    task = ComparisonTask.of(triplets, points)
    write_model_report(path, MahalanobisMetric([[1.0, 0.0]]), task, n_bootstrap=20)
    page = read(path)
    assert page.texts["h2"] == [name for name in SECTIONS if name not in ("Class by class", "Features")]
    assert "comparison accuracy" in path.read_text(encoding="utf-8")
    assert not any(span.get("class") == "right" for span in page.of("span"))


def test_sparse_points_give_the_page_of_dense_ones(model, path):
    dense = np.round(X[::3] * (X[::3] > np.median(X, axis=0)), 1)
    for points in (dense, sparse.csr_array(dense)):
        write_model_report(path, model.get_metric(), LabelTask.of(points, Y[::3]), n_bootstrap=20)
        page = read(path)
        features = re.findall(
            rf"<td>(?:{'|'.join(map(re.escape, NAMES))})</td>.*?</tr>", path.read_text(encoding="utf-8")
        )
        places = [(float(dot["cx"]), float(dot["cy"])) for dot in page.of("circle") if "cx" in dot and "class" in dot]
        if points is dense:
            expected = features, places
    assert len(features) == 12
    assert features == expected[0]
    np.testing.assert_allclose(places, expected[1], atol=0.2)


def test_many_points_are_sampled_and_said_so(path):
    points = np.random.default_rng(0).standard_normal((2500, 2))
    write_model_report(path, MahalanobisMetric(np.eye(2)), points=points, labels=np.arange(2500) % 40)
    page, text = read(path), path.read_text(encoding="utf-8")
    assert "2,000 of 2,500 points, drawn at random" in text
    data = view_data(page)
    assert len(data["ids"]) == len(set(data["ids"])) == MOST_POINTS
    assert "The points of the other 32 classes are grey." in text
    assert "Largest:" in text
    assert data["classes"][:3] == ["0", "1", "2"]
    for name in data["ids"][:50]:
        assert data["labels"][data["ids"].index(name)] == int(name.removeprefix("point ")) % 40


@pytest.fixture
def many():
    """Forty classes of twelve, and a metric that helps some of them and harms others."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(40), 12)
    points = rng.standard_normal((40, 4))[y] + 0.4 * rng.standard_normal((len(y), 4))
    return LabelTask.of(points, [f"kind {label}" for label in y]), MahalanobisMetric(np.diag([2.0, 1.0, 1.0, 0.7]))


def test_of_many_classes_those_that_changed_most_are_coloured(many, path):
    task, metric = many
    write_model_report(path, metric, task, n_bootstrap=20)
    evaluation = compare(metric, task, n_bootstrap=20)
    gains = class_gains(evaluation, task)
    page, text = read(path), path.read_text(encoding="utf-8")
    gained = [gain.label for gain in gains if gain.difference > 0][:5]
    lost = [gain.label for gain in reversed(gains) if gain.difference < 0][:5]
    assert len(gained) == len(lost) == 5
    data = view_data(page)
    shown = [data["classes"][int(button["data-class"])] for button in page.of("button")]
    assert shown == gained + lost
    style = {label: f"c{place}" for place, label in enumerate(gained)}
    style |= {label: f"c{place} ring" for place, label in enumerate(lost)}
    picture = re.search(r'<figure class="before">.*?</figure>', text)[0]
    dots = re.findall(r'r="4" class="([^"]*)"', picture)
    assert dots == [style.get(data["classes"][number], "other") for number in data["labels"]]
    assert dots == sorted(dots, key=lambda kind: kind != "other")  # drawn over the others
    for gain in gains:  # all are in the table that opens
        assert f"<td>{gain.label}</td><td>12</td><td>{gain.base:.3f}</td><td>{gain.learned:.3f}</td>" in text
    assert text.count(f"<td>{gains[0].label}</td>") == 2
    assert "All 40 classes" in text


def test_no_class_changes(path):
    points = np.arange(24.0)[:, None]
    write_model_report(path, MahalanobisMetric([[1.0]]), LabelTask.of(points, np.arange(24) // 2, k=1), n_bootstrap=20)
    text = path.read_text(encoding="utf-8")
    assert "It rises in 0 of 12 classes, in 0 of them with an interval above 0, and falls in 0" in text
    assert "+0.000 to +0.000" in text
    assert "Largest:" in text


def test_the_same_seed_gives_the_same_page(model, task, path):
    def without_date():
        write_model_report(path, model, task, n_bootstrap=20)
        return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", path.read_text(encoding="utf-8"))

    assert without_date() == without_date()


def test_the_score_is_drawn_against_the_number_of_directions(model, task, path):
    metric = model.get_metric()
    score = task.headline
    found = scores_by_direction(metric, task, score)
    assert [number for number, _ in found] == [1, 2, 4, 8, 15]
    column = task.names.index(score)
    for number, value in found:
        rows = np.sqrt(metric.step_sizes[:number])[:, None] * metric.directions[:number]
        stage = MahalanobisMetric(rows)
        (sample,) = task.measure([stage.transform(points) for points in task.points])
        assert value == pytest.approx(sample.mean[column])
    (whole,) = task.measure([metric.transform(points) for points in task.points])
    assert found[-1][1] == pytest.approx(whole.mean[column])
    write_model_report(path, model, task, n_bootstrap=20)
    page = path.read_text(encoding="utf-8")
    assert f"{score} from {found[0][1]:.3f} with the first direction to {found[-1][1]:.3f} with all 15." in page
    assert "first directions" in page


def test_a_metric_without_directions_has_no_such_chart(task, path):
    metric = MahalanobisMetric(np.eye(13))
    assert scores_by_direction(metric, task, task.headline) == []
    write_model_report(path, metric, task, n_bootstrap=20)
    assert "first directions" not in path.read_text(encoding="utf-8")


def test_a_model_without_history_shows_its_steps(model, path):
    metric = model.get_metric()
    del metric.about["training"]["history"]
    write_model_report(path, metric)
    assert "Step sizes of 15 directions" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "history",
    [
        3,
        {"iteration": [1, 2], "loss": [1.0]},
        {"iteration": [2, 1], "loss": [1.0, 2.0]},
        {"iteration": [1], "loss": "x"},
        {"iteration": [], "loss": []},
        {"iteration": [1, 2], "loss": [None, None]},
    ],
)
def test_a_history_that_makes_no_sense_is_not_drawn(history, path):
    write_model_report(path, MahalanobisMetric([[1.0]], about={"training": {"history": history}}))
    assert "The model has no record of its training" in path.read_text(encoding="utf-8")


def test_facts_of_what_is_known(model):
    said = dict(facts(model.get_metric()))
    assert said["Learned by"] == "BoostMetric"
    assert said["Iterations"] == "15"
    assert said["Linear map"] == "13 features to 13 dimensions"
    assert dict(facts(RCA().fit(X, Y).get_metric()))["Parameters"] == "all at their defaults"
    unknown = MahalanobisMetric([[1.0]], about={"estimator": {"name": "Other", "parameters": {"a": 1.5, "b": None}}})
    assert dict(facts(unknown))["Parameters"] == "a=1.5, b=None"
    assert dict(facts(MahalanobisMetric([[1.0]], about={"estimator": "text", "training": []})))


def test_unit_length_is_said_where_it_matters(model, task, path):
    metric = model.get_metric()
    said = "between vectors of unit length (cosine)"
    write_model_report(path, metric, task, n_bootstrap=20)
    assert "unit length" not in path.read_text(encoding="utf-8")
    metric.normalize = True
    assert dict(facts(metric))["Distances"].startswith(said)
    for more in ({"task": task, "n_bootstrap": 20}, {}):
        write_model_report(path, metric, **more)
        text = path.read_text(encoding="utf-8")
        assert said in text
        assert text.count("This is before vectors are scaled to unit length.") == 2  # spectrum and features


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (None, False),
        (["f0", "f1", "f2"], False),
        (["1", "2", "3"], False),
        (["dim_1", "dim_2", "dim_3"], False),
        (["f2", "f1", "f0"], True),  # numbered by somebody who meant something
        (["year_2019", "year_2020", "year_2021"], True),
        (["f0", "f1", "colour"], True),
        (["f0", "g1", "h2"], True),
    ],
)
def test_features_are_shown_if_their_names_say_something(names, shown, path):
    write_model_report(path, MahalanobisMetric(np.diag([3.0, 2.0, 1.0]), feature_names=names))
    assert ("Features" in read(path).texts["h2"]) == shown


def test_texts_stand_in_place_of_ids(path):
    points = np.arange(12.0)[:, None]
    texts = [f"where is my <order> {row}?" for row in range(12)]
    names = {"ids": [f"id-{row}" for row in range(12)], "texts": texts}
    write_model_report(path, MahalanobisMetric([[2.0]]), points=points, **names)
    page = read(path)
    assert view_data(page)["ids"] == texts
    cards = re.findall(r'<li><span class="id">(.*?)</span> <small>(id-\d+)</small>', path.read_text(encoding="utf-8"))
    assert cards
    for text, id in cards:
        assert text == f"where is my &lt;order&gt; {id[3:]}?"
    task = RankingTask.of(points[:4], points[4:], [[row, row, 1.0] for row in range(4)], k=1)
    names = {"texts": texts[:4], "reference_texts": texts[4:]}
    write_model_report(path, MahalanobisMetric([[2.0]]), task, **names, n_bootstrap=5)
    assert view_data(read(path))["ids"] == texts
    assert "document 0" not in path.read_text(encoding="utf-8")


def test_a_zero_metric_and_equal_points(path):
    metric = MahalanobisMetric(np.zeros((1, 3)))
    write_model_report(path, metric, points=np.ones((5, 3)))
    read(path)
    assert "All eigenvalues are 0" in path.read_text(encoding="utf-8")


def test_neighbors_are_those_of_brute_force_and_never_the_query_itself(model):
    metric = model.get_metric()
    points = np.vstack([X, X[:10]])  # some twice
    subject = subject_of(None, points, Names())
    sample = sample_of_queries(subject, metric, 60, np.random.RandomState(0))
    assert sample.n_asked == len(points)
    mapped = metric.transform(points)
    for one in sample.queries:
        for found, where in ((one.before, points), (one.after, mapped)):
            apart = cdist(where[[one.query]], where)[0]
            apart[one.query] = np.inf
            assert one.query not in found
            np.testing.assert_allclose(apart[found], np.sort(apart)[:5], rtol=1e-9)
    changed = [set(one.before) - set(one.after) for one in sample.queries if one.why == "neighbours changed most"]
    assert len(changed) == 30
    assert min(map(len, changed)) >= max(5 - len(set(o.before) & set(o.after)) for o in sample.queries[30:])


def test_a_metric_that_changes_nothing_has_no_changed_neighbors():
    subject = subject_of(None, X, Names())
    sample = sample_of_queries(subject, MahalanobisMetric(np.eye(13)), 5, np.random.RandomState(0))
    assert sample.kept == 1.0
    assert [one.why for one in sample.queries] == ["drawn at random"] * 2


def test_the_plane_is_that_of_the_principal_components():
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((20, 50)) * np.linspace(3, 0.1, 50)
    for points in (wide, wide.T, sparse.csr_array(wide)):
        plane = principal_plane(points)
        dense = points.toarray() if sparse.issparse(points) else points
        left, size, _ = np.linalg.svd(dense - dense.mean(axis=0), full_matrices=False)
        expected = cdist(left[:, :2] * size[:2], left[:, :2] * size[:2])
        got = cdist(plane.coordinates, plane.coordinates)
        np.testing.assert_allclose(got / got.max(), expected / expected.max(), atol=1e-9)
        assert plane.share == pytest.approx(np.square(size[:2]).sum() / np.square(size).sum())
        assert np.abs(plane.coordinates).max() == pytest.approx(1.0)


def test_turning_undoes_a_rotation():
    rng = np.random.default_rng(0)
    plane = principal_plane(rng.standard_normal((30, 2)))
    mirrored = plane.coordinates @ [[0.0, 1.0], [1.0, 0.0]]
    np.testing.assert_allclose(turned(mirrored, plane.coordinates), plane.coordinates, atol=1e-9)


def test_enough_dimensions():
    assert enough([(1, 0.9), (2, 0.9)], base=0.5) == 1
    assert enough([(1, 0.5), (2, 0.8999)], base=0.5) == 2
    assert enough([(1, 0.9), (2, 0.5)], base=0.5) is None
    assert ranks_to_try(1) == [1]
    assert ranks_to_try(384)[-4:] == [128, 192, 256, 384]


def test_how_few_dimensions_stands_on_the_page(path):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    points = (
        rng.standard_normal((200, 5))
        + 6 * np.outer(y, [1, 0, 0, 0, 0])
        + rng.standard_normal((200, 1)) * 20 * [0, 1, 1, 0, 0]
    )
    metric = MahalanobisMetric(np.diag([2.0, 1e-3, 1e-4, 1e-5, 1e-6]))
    write_model_report(path, metric, LabelTask.of(points, y), n_bootstrap=20)
    assert "1 of 5 dimensions is enough for 99 % of the gain" in path.read_text(encoding="utf-8")


@given(st.floats(-1e6, 1e6), st.floats(1e-2, 1e6))
def test_ticks_are_few_round_and_inside(low, size):
    high = low + size
    found = ticks(low, high)
    assert len(found) <= 7
    assert all(low - 1e-6 * size <= tick <= high + 1e-6 * size for tick in found)
    assert found == sorted(set(found))


def test_charts_with_gaps_and_with_one_value():
    chart = line_chart([1, 2, 3, 4], [1.0, None, 2.0, 3.0], names=("x", "y"), description="d")
    assert re.search(r'd="M[^ML]+M[^ML]+L[^ML]+"', chart)
    assert "nan" not in line_chart([5], [0.0], names=("x", "y"), description="d", logarithmic=True, dots=True)
    assert "nan" not in bar_chart([0.0], names=("x", "y"), description="d")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"ids": ["a"]}, ValueError, "There are 1 ids, but 89 points"),
        ({"reference_labels": ["a"]}, ValueError, "There are 1 reference_labels, but 89 points"),
        ({"texts": ["a"]}, ValueError, "There are 1 texts, but 89 points"),
        ({"reference_texts": ["a"]}, ValueError, "There are 1 reference_texts, but 89 points"),
        (
            {"task": None, "points": X, "reference_texts": [1]},
            ValueError,
            "reference_texts are given, but",
        ),
        ({"ids": "abc"}, ValueError, "ids must be a list"),
        ({"points": X}, ValueError, "Both a task and points"),
        ({"task": None, "ids": [1]}, ValueError, "neither a task nor points"),
        ({"task": None, "points": X, "reference_ids": [1]}, ValueError, "only one set of points"),
        ({"task": "labels"}, TypeError, "task must be a LabelTask"),
        ({"metric": None}, ValueError, "a report is about a learned metric"),
        ({"sample_queries": 0}, ValueError, "sample_queries must be a whole number"),
        ({"headline": "fame"}, ValueError, "headline must be one of"),
        ({"metric": MahalanobisMetric(np.eye(3))}, ValueError, "The metric has 3 features"),
    ],
)
def test_errors_and_then_no_file(model, task, path, options, error, message):
    with pytest.raises(error, match=message):
        write_model_report(**{"path": path, "metric": model, "task": task, **options})
    assert not path.exists()


def test_numbers_of_an_axis_do_not_reach_its_name():
    chart = line_chart([5, 6], [0.9674, 0.9682], names=("iteration", "held-out accuracy"), description="It rises.")
    numbers = re.findall(r'<text x="([0-9.]+)" y="[0-9.]+" text-anchor="end">(0\.[0-9]+)</text>', chart)
    assert max(len(number) for _, number in numbers) == 6
    assert re.findall(r'text-anchor="middle">([0-9.]+)</text>', chart) == ["5", "6"]
    # A digit is at most 7 wide, and the name covers what is left of 20.
    assert min(float(x) - 7 * len(number) for x, number in numbers) > 20


def test_a_curve_begins_where_it_is_known(path):
    history = {"iteration": [1, 2, 3, 4], "loss": [4.0, 3.0, 2.0, 1.0], "held_out": [None, None, 0.5, 0.75]}
    metric = MahalanobisMetric(np.eye(2), about={"training": {"history": history}})
    write_model_report(path, metric)
    page = path.read_text()
    assert "Loss over 4 iterations, from 4 to 1." in page
    assert "Held-out accuracy in iterations 3 to 4, from 0.5 to 0.75." in page
