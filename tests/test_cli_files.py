"""The commands on files, as a user runs them."""

import csv
import json
import shlex
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.cli import app
from boostmetric.cli.conditions import Condition, other_conditions, parse_conditions
from boostmetric.evaluation import evaluate
from boostmetric.tables import read_comparisons, read_points

runner = CliRunner()
QUICK = ["--init", "standardized", "--solver", "stagewise", "--passes", "1", "--max-iter", "15"]


def run(*arguments, code=0):
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def json_of(*arguments, code=0):
    return json.loads(run(*arguments, "--json", code=code).stdout)


def message(result):
    """As one line: typer's errors come in a box."""
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Wine as CSV and npz, a model, triplets, grades, queries."""
    path = tmp_path_factory.mktemp("files")
    X, y = load_wine(return_X_y=True)
    names = load_wine().feature_names
    kinds = np.array(["Barolo", "Grignolino", "Barbera"])[y]
    with (path / "wine.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["bottle", "part", "kind", *names])
        for i, (x, kind) in enumerate(zip(X, kinds, strict=True)):
            rows.writerow([f"w{i}", "test" if i % 3 == 2 else "train", kind, *x])
    np.savez(path / "wine.npz", X=X, y=y, split=np.arange(len(y)) % 3)
    rng = np.random.default_rng(0)
    triplets = []
    for i in np.tile(np.arange(len(y)), 4):
        near, far = rng.choice(np.flatnonzero(y == y[i])), rng.choice(np.flatnonzero(y != y[i]))
        triplets += [f"w{i},w{near},w{far}\n"] if near != i else []
    (path / "triplets.csv").write_text("anchor,near,far\n" + "".join(triplets))
    with (path / "queries.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["bottle", *names])
        rows.writerows([f"q{i}", *(X[i] * 1.01)] for i in range(0, 178, 9))
    grades = [f"q{i},w{j},{int(y[i] == y[j])}\n" for i in range(0, 178, 9) for j in range(178)]
    (path / "grades.csv").write_text("query,document,grade\n" + "".join(grades))
    (path / "pairs.csv").write_text(
        "query,document\n" + "".join(f"w{i},w{i + 1}\n" for i in range(177) if y[i] == y[i + 1])
    )
    run(
        "fit",
        path / "wine.csv",
        "--label",
        "kind",
        "--id",
        "bottle",
        "--where",
        "part=train",
        "-o",
        path / "m.st",
        *QUICK,
    )
    return path


@pytest.fixture
def wine(folder):
    return folder / "wine.csv"


@pytest.fixture
def model(folder):
    return folder / "m.st"


LABELLED = ["--label", "kind", "--id", "bottle"]
TESTED = [*LABELLED, "--where", "part=test", "--reference-where", "part=train"]


# fit


def test_fit_with_validation_rows_says_what_came_out(wine, tmp_path):
    output = tmp_path / "new" / "m.safetensors"
    result = run("fit", wine, *LABELLED, "--validation-where", "part=test", "-o", output, *QUICK)
    assert "3-NN accuracy" in result.stdout
    assert "Better: mean of 3-NN and MAP@10" in result.stdout
    assert f"Model: {output}" in result.stdout
    assert "boostmetric evaluate" in result.stdout
    assert "119 points with 13 features" in result.stderr
    assert "59 rows, where part=test" in result.stderr
    metric = MahalanobisMetric.load(output)
    assert metric.feature_names == list(load_wine().feature_names)
    assert metric.about["data"]["n_validated"] == 59
    assert metric.about["estimator"]["parameters"]["callbacks"] is None
    assert [path.name for path in output.parent.iterdir()] == ["m.safetensors"]


def test_rows_are_weighed(tmp_path):
    X, y = load_wine(return_X_y=True)
    weights = np.where(np.arange(len(y)) % 2, 1.0, 0.25)
    np.savez(tmp_path / "w.npz", X=X, y=y, w=weights, zero=0 * weights)
    given = tmp_path / "w.npz", "--label", "y", "--setting", "paper", "--max-iter", "5", "--validation-fraction", "0"
    run("fit", *given, "--weight", "w", "-o", tmp_path / "m.st")
    expected = BoostMetric.paper(max_iter=5, random_state=0).fit(X, y, weights)
    learned = MahalanobisMetric.load(tmp_path / "m.st")
    np.testing.assert_array_equal(learned.components, expected.components_)
    assert not np.array_equal(BoostMetric.paper(max_iter=5, random_state=0).fit(X, y).components_, learned.components)
    said = message(run("fit", *given, "--weight", "zero", "-o", tmp_path / "n.st", code=1))
    assert "column 'zero': all weights are 0. Give a positive weight to some rows, or name another column (--w" in said


def test_fit_by_folds_chooses_among_starts(folder, tmp_path):
    found = json_of(
        "fit", folder / "wine.npz", "--label", "y", "--passes", "1", "--ignore", "split", "-o", tmp_path / "m"
    )
    assert found["evaluation"] is None
    assert found["validation_error"]["chosen"] < found["validation_error"]["base"]
    assert found["chosen"]["init"] != "identity"
    assert not found["is_base"]


def test_the_base_is_kept_where_nothing_is_learned(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    np.savez(tmp_path / "apart.npz", X=rng.standard_normal((300, 4)) + 20.0 * y[:, None], y=y)
    np.savez(tmp_path / "noise.npz", X=rng.standard_normal((300, 4)), y=y)
    arguments = ["fit", tmp_path / "apart.npz", "--label", "y", "--validation-fraction", "0.3"]
    result = run(*arguments, "--init", "identity", "--passes", "2", "-o", tmp_path / "m")
    assert "Keep the base" in result.stdout
    assert "the model is the Euclidean distance itself" in " ".join(result.stdout.split())
    components = MahalanobisMetric.load(tmp_path / "m").components
    assert components.T @ components == pytest.approx(components[0] @ components[0] * np.eye(4))

    rows = rng.permuted(np.tile(np.arange(300), (200, 1)), axis=1)[:, :3]
    np.save(tmp_path / "guesses.npy", rows)
    arguments = ["fit", tmp_path / "noise.npz", "--ignore", "y", "--comparisons", tmp_path / "guesses.npy"]
    found = json_of(*arguments, "-o", tmp_path / "c")
    if found["is_base"]:  # guesses may be learned by chance, but then they are better
        assert np.array_equal(MahalanobisMetric.load(tmp_path / "c").components, np.eye(4))
    else:
        assert found["evaluation"]["scores"][0]["difference"] > 0


def searched(folder):
    """Points of ten classes, and the clicks of users who look for their class in the ten nearest."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 10
    X = rng.standard_normal((10, 6))[y] + 0.6 * rng.standard_normal((300, 6))
    np.savez(folder / "points.npz", X=X, id=np.arange(300))
    np.savez(folder / "labelled.npz", X=X, id=np.arange(300), y=rng.permutation(y))
    order = np.argsort(np.linalg.norm(X[:, None] - X[None], axis=2), axis=1)[:, 1:11]
    clicked = (y[order] == y[:, None]) & (rng.random((300, 10)) < np.arange(1, 11) ** -0.6)
    rows = [
        f"{query},{place},{order[query, place]},{int(clicked[query, place])}"
        for query in range(300)
        for place in range(10)
    ]
    (folder / "clicks.csv").write_text("\n".join(["query,position,document,clicked", *rows]))
    np.save(folder / "guesses.npy", rng.permuted(np.tile(np.arange(300), (150, 1)), axis=1)[:, :3])


def test_a_few_directions_of_a_start_are_called_so(tmp_path):
    rng, y = np.random.default_rng(0), np.arange(400) % 2
    angles = rng.uniform(0, 2 * np.pi, 400)
    rings = (2 + 4 * y)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    np.savez(tmp_path / "rings.npz", X=np.column_stack([rings, 1.2 * rng.standard_normal((400, 14))]), y=y)
    quick = ["--passes", 1, "--max-iter", 1, "--impostors", 1]
    done = run("fit", tmp_path / "rings.npz", "--label", "y", "-o", tmp_path / "m.safetensors", *quick)
    named = "Euclidean distance of rank 4"
    assert f"Chosen: {named}." in done.stdout
    assert f"Why it ended: Kept the start ({named}):" in done.stdout


@pytest.mark.parametrize(
    "given",
    [
        ["labelled.npz", "--label", "y", "--validation-fraction", "0.3", "--passes", "1", "--max-iter", "5"],
        ["points.npz", "--comparisons", "guesses.npy", "--init", "identity", "--max-iter", "5"],
        ["points.npz", "--comparisons", "clicks.csv", "--max-iter", "20"],
    ],
    ids=["labels", "comparisons", "clicks"],
)
def test_a_kept_base_is_the_base_everywhere(tmp_path, monkeypatch, given):
    searched(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = run("fit", *given, "--id", "id", "-o", "printed", "--quiet")
    assert "Keep the base: the model is the Euclidean distance itself" in result.stdout
    found = json_of("fit", *given, "--id", "id", "-o", "m")
    model = MahalanobisMetric.load(tmp_path / "m")
    assert found["is_base"]
    assert np.array_equal(model.components, np.eye(6))
    assert (found["n_iterations"], found["chosen"]["init"], found["learned_from_all"]) == (0, "identity", False)
    reason = "Kept the start (Euclidean distance):" if found["rejected"] is None else "Kept the base:"
    assert found["stop_reason"].startswith(reason)
    assert f"Why it ended: {found['stop_reason']}" in result.stdout
    assert model.about["training"]["stop_reason"] == found["stop_reason"]
    # The inner products of an index whose documents are unchanged are no distance, not even of the base.
    scores = [score for score in found["evaluation"]["scores"] if "query side" not in score["name"]]
    assert {score["difference"] for score in scores} == {0.0}
    run("export", "m", "--to", "numpy", "-o", "m.npy")
    assert np.array_equal(np.load("m.npy"), np.eye(6))


def test_reason_and_file_agree_after_ctrl_c_and_resume(tmp_path, monkeypatch):
    searched(tmp_path)
    arguments = ["fit", tmp_path / "points.npz", "--id", "id", "--comparisons", tmp_path / "guesses.npy"]
    arguments += ["--setting", "paper", "--max-iter", "6"]  # which learns in any case

    def pressed(self, record):
        self.asked = record.number == 3
        return self.asked

    def checked(*more, code=0):
        found = json_of(*arguments, "-o", tmp_path / "m", *more, code=code)
        about = MahalanobisMetric.load(tmp_path / "m").about["training"]
        assert about["stop_reason"] == found["stop_reason"]
        assert about["n_iter"] == found["n_iterations"]
        return found

    with monkeypatch.context() as patch:
        patch.setattr("boostmetric.cli.fit_run.Interrupt.on_iteration", pressed)
        stopped = checked(code=130)
    assert stopped["stop_reason"].startswith("Interrupted")
    assert stopped["n_iterations"] == 3
    assert checked("--resume")["n_iterations"] == 6
    again = (tmp_path / "m").read_bytes()
    checked("--force")
    assert (tmp_path / "m").read_bytes() == again


def skipped_above(clicks):
    """Triplets of clicked over skipped above from a click log, whose rows of a query are in order of position."""
    rows, above = ["anchor,near,far"], {}
    for row in clicks.read_text().splitlines()[1:]:
        query, _, document, clicked = row.split(",")
        skipped = above.setdefault(query, [])
        if clicked == "1":
            rows += [f"{query},{document},{other}" for other in skipped]
        else:
            skipped.append(document)
    return "\n".join(rows)


def test_comparisons_that_contradict_the_ranking_they_come_from_are_an_alarm(tmp_path):
    searched(tmp_path)
    (tmp_path / "skipped.csv").write_text(skipped_above(tmp_path / "clicks.csv"))
    given = [tmp_path / "points.npz", "--id", "id", "--comparisons", tmp_path / "skipped.csv"]
    found = json_of("fit", *given, "-o", tmp_path / "m", "--init", "identity", "--max-iter", "20")
    assert found["is_base"]
    assert found["rejected"] is None  # the choice of the setting keeps the base already
    assert found["evaluation"]["verdict"] == "doubtful"
    assert "contradict the distance that ranked them" in found["evaluation"]["sentence"]
    assert json_of("evaluate", tmp_path / "m", *given)["verdict"] == "doubtful"
    run("report", tmp_path / "m", *given, "-o", tmp_path / "report.html")
    assert 'class="verdict doubtful"' in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_clicks_over_all_else_are_none_but_share_a_bias(tmp_path):
    searched(tmp_path)
    given = [tmp_path / "points.npz", "--id", "id", "--comparisons", tmp_path / "clicks.csv"]
    found = json_of("fit", *given, "-o", tmp_path / "m", "--init", "identity", "--max-iter", "20")
    assert found["evaluation"]["headline"] == "nDCG@10"
    assert found["evaluation"]["verdict"] != "doubtful"
    assert "share the bias of those that were learned from" in found["evaluation"]["sentence"]


def test_a_fit_says_if_queries_share_relevant_documents(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", X=rng.standard_normal((80, 4)), id=np.arange(80))
    np.savez(tmp_path / "q.npz", X=rng.standard_normal((60, 4)), id=np.arange(60))
    rows = [f"{q},{d},{int(d == q // 3)}" for q in range(60) for d in {q // 3, *rng.integers(60, 80, size=5)}]
    given = tmp_path / "grades.csv"
    given.write_text("\n".join(["query,document,grade", *rows]))
    arguments = ["fit", tmp_path / "d.npz", "--queries", tmp_path / "q.npz", "--id", "id", "--max-iter", "5"]
    apart = json_of(*arguments, "--comparisons", given, "-o", tmp_path / "a")
    assert apart["evaluation"]["notes"] == []
    names = [score["name"] for score in apart["evaluation"]["scores"]]
    assert {"nDCG@10", "MAP@10", "nDCG@10 (query side)", "comparison accuracy"} <= set(names)
    again = json_of(*arguments, "--comparisons", given, "--validation", given, "-o", tmp_path / "b")
    (note,) = again["evaluation"]["notes"]
    assert note.startswith("All held-out queries have a relevant document that was learned from")


def test_another_score_may_be_the_headline(folder, wine, model, tmp_path):
    found = json_of("evaluate", model, wine, *TESTED, "--headline", "MAP@10")
    assert found["headline"] == "MAP@10"
    assert found["sentence"].startswith("Better: MAP@10 ")
    result = run("evaluate", model, wine, *TESTED, "--headline", "F1", code=2)
    assert "no score 'F1'" in " ".join(result.stderr.split())
    result = run(
        "fit", wine, *LABELLED, "--validation-where", "part=test", "--headline", "F1", "-o", tmp_path / "m", code=2
    )
    assert "no score 'F1'" in " ".join(result.stderr.split())


@pytest.mark.parametrize("setting", ["recommended", "paper"])
def test_fit_from_comparisons(folder, wine, tmp_path, setting):
    arguments = ["fit", wine, "--id", "bottle", "--ignore", "part,kind", "--comparisons", folder / "triplets.csv"]
    found = json_of(*arguments, "-o", tmp_path / "m", "--setting", setting, "--max-iter", "30")
    assert found["chosen"]["loss"] == {"recommended": "logistic", "paper": "exponential"}[setting]
    assert found["data"]["kind"] == "triplets"
    assert found["evaluation"]["verdict"] == "better"


def test_fit_from_grades_of_queries_in_a_file_of_their_own(folder, wine, tmp_path):
    arguments = ["fit", wine, "--id", "bottle", "--columns", "alcohol,ash,proline", "--queries", folder / "queries.csv"]
    more = ["--comparisons", folder / "grades.csv", "--validation", folder / "grades.csv", "--max-per-query", "50"]
    found = json_of(*arguments, *more, "--max-iter", "5", "-o", tmp_path / "m")
    assert found["data"]["kind"] == "grades"
    assert MahalanobisMetric.load(tmp_path / "m").feature_names == ["alcohol", "ash", "proline"]


def test_columns_to_ignore_may_be_in_points_or_in_queries_only(folder, wine, tmp_path):
    lines = (folder / "queries.csv").read_text().splitlines()
    asked = tmp_path / "asked.csv"
    asked.write_text("\n".join([f"{lines[0]},text,turn", *(f"{line},red?,{i}" for i, line in enumerate(lines[1:]))]))
    given = [wine, "--id", "bottle", "--queries", asked, "--ignore", "part,kind,te*,turn"]
    graded = [*given, "--comparisons", folder / "grades.csv", "--max-per-query", "9", "--max-iter", "2"]
    fitted = ["fit", *graded, "--setting", "paper", "-o", tmp_path / "m"]
    said = message(run(*fitted[:-2], "--ignore", "aroma", "--dry-run", code=2))
    assert "wine.csv: there is no column to ignore 'aroma'" in said
    assert json_of(*fitted)["data"]["n_features"] == 13
    assert json_of("evaluate", tmp_path / "m", *given, "--relevance", folder / "grades.csv")["headline"]


def test_fit_from_clicks_and_from_positives(folder, wine, tmp_path):
    rng, kind = np.random.default_rng(0), load_wine().target
    log = ["query,session,position,document,clicked"]
    for session in range(100):
        query, *documents = rng.permutation(178)[:6]
        for place, document in enumerate(documents, start=1):
            clicked = kind[document] == kind[query] and rng.random() < 1 / place
            log.append(f"w{query},{session},{place},w{document},{int(clicked)}")
    (tmp_path / "clicks.csv").write_text("\n".join(log))
    arguments = ["fit", wine, "--id", "bottle", "--ignore", "part,kind", "--max-iter", "10", "-o", tmp_path / "m"]
    clicks = [*arguments, "--comparisons", tmp_path / "clicks.csv"]
    assert json_of(*clicks, "--click-model", "dependent")["data"]["kind"] == "clicks"
    refused = message(run(*clicks, "--click-model", "cascade", "--dry-run", code=1))
    assert "lists have more than one click, and the cascade model has users leave after the first" in refused
    tested = [tmp_path / "m", wine, "--id", "bottle", "--ignore", "part,kind", "--comparisons", tmp_path / "clicks.csv"]
    assert json_of("evaluate", *tested, "--click-model", "dependent")["headline"]
    page = ["report", *tested, "-o", tmp_path / "page.html", "--click-model"]
    for command in (["evaluate", *tested, "--click-model", "cascade"], [*page, "cascade"]):
        assert "lists have more than one click" in message(run(*command, code=1))
    assert json_of(*page, "dependent")["output"] == str(tmp_path / "page.html")
    without = [
        "evaluate",
        tmp_path / "m",
        wine,
        "--label",
        "kind",
        "--ignore",
        "part,bottle",
        "--click-model",
        "cascade",
    ]
    assert "--click-model goes with --comparisons" in message(run(*without, code=2))
    positives = [*arguments, "--comparisons", folder / "pairs.csv", "--force"]
    assert json_of(*positives)["data"]["kind"] == "positives"
    assert json_of(*positives, "--init", "identity", "--passes", "2")["chosen"]["n_passes"] in (0, 1, 2)
    refused = message(run(*clicks, "--force", "--passes", "2", "--click-model", "dependent", code=2))
    assert "--passes=2 would find comparisons again in every pass, but these are given. Leave --passes out" in refused
    refused = message(run(*positives, "--click-model", "position", code=1))
    assert "--click-model is for clicks without propensities; these are positives. Leave it out." in refused
    labelled = ["fit", wine, "--label", "kind", "--ignore", "part,bottle", "--contradictions", "refuse"]
    assert "--contradictions goes with --comparisons" in message(run(*labelled, code=2))


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (["--init", "foo"], "init must be one of 'zero', 'identity'"),
        (["--device", "gpu"], 'device must be "cpu", "cuda"'),
        (["--impostors", "2", "--init", "zeros"], "init must be one of"),
        (["--engine", "ray", "--device", "cuda"], "exclude each other"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_wrong_parameters_are_told_before_files_are_read(tmp_path, option, expected, more):
    missing = tmp_path / "no.csv"
    result = run("fit", missing, *LABELLED, "-o", tmp_path / "m", *option, *more, code=2)
    assert expected in message(result)


def test_dry_run_learns_nothing(wine, tmp_path):
    result = run("fit", wine, *LABELLED, "--where", "part=train", "-o", tmp_path / "m", "--dry-run")
    assert "labels: column 'kind', 3 classes" in result.stdout
    assert "setting: recommended, BoostMetric(init='auto'" in result.stdout
    assert list(tmp_path.iterdir()) == []
    found = json_of("fit", wine, *LABELLED, "--ignore", "part", "-o", tmp_path / "m", "--dry-run")
    assert found["data"]["n_points"] == 178


def test_validation_rows_are_never_learned_from(wine, tmp_path):
    arguments = ["fit", wine, *LABELLED, "-o", tmp_path / "m", "--dry-run", "--json"]
    both = json.loads(run(*arguments, "--where", "part=train", "--validation-where", "part=test").stdout)["data"]
    alone = json.loads(run(*arguments, "--validation-where", "part=test").stdout)["data"]
    assert both["n_points"] == alone["n_points"] == 119
    assert both["n_validated"] == 59
    other = ["--where", "kind!=Barolo", "--where", "part=train", "--validation-where", "part=test"]
    less = json.loads(run(*arguments, *other).stdout)["data"]
    assert (less["n_classes"], less["n_validated"]) == (2, 40)


def test_the_same_seed_gives_the_same_file(wine, tmp_path):
    for name in ("a", "b"):
        run("fit", wine, *LABELLED, "--ignore", "part", "--validation-fraction", "0.3", "-o", tmp_path / name, *QUICK)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "Give either --label or --comparisons"),
        (["--label", "kind"], 1, "columns 'bottle', 'part' hold no numbers"),
        (["--label", "sort"], 2, "there is no column of labels 'sort'"),
        ([*LABELLED, "--where", "part"], 2, "not of the form COLUMN=VALUE"),
        ([*LABELLED, "--where", "part=trian"], 2, "no row has 'trian' in column 'part' (part=trian). There are 'test'"),
        ([*LABELLED, "--where", "colour=red"], 2, "there is no column 'colour'"),
        ([*LABELLED, "--where", "part=train", "--where", "part=test"], 2, "no row satisfies part=train and part=test"),
        ([*LABELLED, "--ignore", "part", "--init", "unit"], 2, "init must be one of"),
        ([*LABELLED, "--ignore", "part", "--impostors", "some"], 2, "neither a positive whole number nor all"),
        ([*LABELLED, "--ignore", "part", "--resume"], 1, "There is no checkpoint"),
        ([*LABELLED, "--ignore", "part", "--kind", "triplets"], 2, "--kind goes with --comparisons"),
        (["--comparisons", "t.csv", "--neighbors", "2"], 2, "--neighbors goes with --label"),
        (["--id", "bottle", "--ignore", "part,kind", "--comparisons", "no.csv"], 1, "no.csv: there is no such file"),
        ([*LABELLED, "--ignore", "part", "--components", "14"], 2, "--components=14 is more than the 13 features"),
        ([*LABELLED, "--validation", "a", "--validation-where", "part=test"], 2, "Give one of --validation"),
        (
            [*LABELLED, "--where", "kind!=Barolo", "--validation-where", "kind=Barolo"],
            1,
            "The label 'Barolo' is among the rows to validate on",
        ),
    ],
)
def test_fit_says_what_is_wrong(wine, tmp_path, arguments, code, said):
    more = ["--ignore", "part"] if said.startswith("The label") else []
    result = run("fit", wine, *arguments, *more, "-o", tmp_path / "m", code=code)
    assert said in message(result)
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["fit", "wine.csv", "--label", "kind", "-o", "m"],
            "Say what they are (--id, --label), leave them out (--ignore), or name the features (--columns).",
        ),
        (
            ["fit", "wine.csv", "--vector", "ash", "--columns", "ash,{x}", "--label", "kind", "-o", "m"],
            "Give --vector ('ash') or --columns ('ash', '{x}'), not both.",
        ),
        (
            ["fit", "wine.csv", "--ignore", "part,kind,bottle", "--comparisons", "triplets.csv", "-o", "m"],
            "Points without ids go by row, counted from 0. If these are ids, name the points' column of ids (--id).",
        ),
        (
            ["fit", "wine.csv", "--id", "bottle", "--ignore", "part,kind", "--comparisons", "queries.csv", "-o", "m"],
            "Rename the columns, or give their names (--name) and the --kind.",
        ),
        (
            ["evaluate", "m.st", "wine.csv", "--id", "bottle", "--comparisons", "asked.csv"],
            "and the names of the columns; queries may have a file of their own (--queries).",
        ),
        (
            [
                "mine",
                "wine.csv",
                "--label",
                "kind",
                "--id",
                "bottle",
                "--ignore",
                "part",
                "--ranks",
                "9-3",
                "-o",
                "n.csv",
            ],
            "--ranks=(9, 3) is empty",
        ),
        (
            ["mine", "wine.csv", "--label", "kind", "--ignore", "part,bottle", "--margin", "2,1", "-o", "n.csv"],
            "--margin=(2.0, 1.0) keeps nothing",
        ),
        (
            [
                "mine",
                "wine.csv",
                "--positives",
                "queries.csv",
                "--id",
                "bottle",
                "--ignore",
                "part,kind",
                "-o",
                "n.csv",
            ],
            "Rename the columns, or give their names (--name).",
        ),
    ],
)
def test_messages_about_files_name_options(folder, tmp_path, monkeypatch, arguments, said):
    (folder / "asked.csv").write_text("anchor,near,far\nq0,w1,w2\n")
    monkeypatch.chdir(tmp_path)
    given = [str(folder / word) if (folder / word).is_file() else word for word in arguments]
    about_options = said.startswith(("--ranks", "--margin"))
    assert said in message(run(*given, code=2 if about_options else 1))


def test_outputs_are_not_overwritten_unasked(folder, wine, model, tmp_path):
    before, data = model.read_bytes(), wine.read_bytes()
    (tmp_path / "there.csv").write_text("kept")
    for arguments in (
        ["fit", wine, *LABELLED, "--ignore", "part"],
        ["report", model],
        ["export", model, "--to", "numpy"],
        ["mine", wine, *LABELLED, "--ignore", "part"],
    ):
        output = tmp_path / "there.csv"
        assert "exists already. Use --force" in message(run(*arguments, "-o", output, code=2))
        own = model if arguments[0] in ("report", "export") else wine
        assert "is what is read. Give another name." in message(run(*arguments, "-o", own, "--force", code=2))
    assert (tmp_path / "there.csv").read_text() == "kept"
    assert wine.read_bytes() == data
    assert model.read_bytes() == before


def test_where_a_fit_was_interrupted_an_output_that_is_there_can_be_gone_on_with(wine, tmp_path):
    output = tmp_path / "m.safetensors"
    output.write_text("a model")
    (tmp_path / "m.safetensors.checkpoint.npz").write_text("a checkpoint")
    arguments = ["fit", wine, *LABELLED, "--ignore", "part", "-o", output]
    assert "Use --force to replace it; --resume continues the fit" in message(run(*arguments, code=2))
    assert "Nothing was learned" in run(*arguments, "--dry-run").stdout
    assert output.read_text() == "a model"


def test_commands_that_are_said_to_be_next_work(folder, wine, tmp_path):
    """With all that was said about the columns, which may be said in several options."""
    triplets, output = folder / "triplets.csv", tmp_path / "a model.st"
    options = ["--id", "bottle", "--ignore", "kind,part", "--ignore", "ash, alcohol", "--comparisons", triplets]
    result = run("fit", wine, *options, "-o", output, "--max-iter", "3", "--quiet")
    steps = [shlex.split(line)[1:] for line in result.stdout.splitlines() if line.strip().startswith("boostmetric ")]
    given = {"TEST_POINTS": str(wine), "TEST_COMPARISONS": str(triplets), "transformed.npz": str(tmp_path / "t.npz")}
    commands = {step[0]: [given.get(word, word) for word in step] for step in steps}
    assert MahalanobisMetric.load(output).components.shape[1] == 11
    run(*commands["evaluate"])
    run(*commands["transform"])
    assert (tmp_path / "t.npz").exists()


def test_conditions():
    where = parse_conditions(["a=b=c", "d!=", "e=1"], "--where")
    assert where == (Condition("a", "b=c"), Condition("d", "", "!="), Condition("e", "1"))
    assert other_conditions(where, (Condition("e", "2"),)) == (Condition("e", "2"), *where[:2])


# evaluate, report


def test_evaluate_labels(wine, model):
    result = run("evaluate", model, wine, *TESTED, "--rank", "2,5", "-k", "1,3")
    assert "Better: mean of 3-NN and MAP@3" in result.stdout
    assert "Cut to 2 of 13 dimensions" in result.stdout
    assert "recall@3 (any)" in result.stdout
    found = json_of("evaluate", model, wine, *TESTED, "--rank", "2", "--neighbors", "1,3")
    assert found["headline"] == "mean of 1-NN and MAP@10"
    assert found["n_asked"] == 59
    assert [cut["rank"] for cut in found["cut"]] == [2]


def test_evaluate_with_a_reference_file(folder, wine, model):
    where = ["--label", "kind", "--id", "bottle"]
    found = json_of("evaluate", model, wine, *where, "--where", "part=test", "--reference", wine)
    assert found["n_asked"] == 59


def test_evaluate_grades_and_comparisons(folder, wine, model):
    graded = ["--relevance", folder / "grades.csv", "--queries", folder / "queries.csv", "--id", "bottle"]
    found = json_of("evaluate", model, wine, *graded)
    assert found["headline"] == "nDCG@10"
    assert found["n_asked"] == 20
    (scores,) = [score for score in found["scores"] if score["name"] == "nDCG@10"]
    assert scores["learned"] > scores["base"]
    compared = json_of("evaluate", model, wine, "--id", "bottle", "--comparisons", folder / "triplets.csv")
    assert compared["headline"] == "comparison accuracy"


def test_a_model_is_compared_with_an_earlier_one(wine, model, tmp_path):
    metric = MahalanobisMetric.load(model)
    names = metric.feature_names
    weak = tmp_path / "weak.st"
    # Columns may have been in another order when the other model was learned.
    MahalanobisMetric(np.eye(13), feature_names=names[::-1]).save(weak)
    base = json_of("evaluate", model, wine, *TESTED)
    found = json_of("evaluate", model, wine, *TESTED, "--against", weak, "--require", "better")
    assert found["against"] == str(weak)
    assert found["compared_with"] == "earlier"
    assert found["required"] == {"verdict": "better", "met": True}
    assert found["scores"] == base["scores"]  # the other model is the base, with its columns in another order
    result = run("evaluate", weak, wine, *TESTED, "--against", model, "--require", "not-worse", code=3)
    assert "Worse, keep the earlier metric: " in result.stdout
    assert message(result) == "The verdict is 'worse', so --require not-worse is not met."
    run("evaluate", model, wine, *TESTED, "--against", model, "--require", "not-worse")
    result = run("evaluate", model, wine, *TESTED, "--against", model, "--require", "better", "--json", code=3)
    assert json.loads(result.stdout)["required"] == {"verdict": "better", "met": False}
    MahalanobisMetric(np.eye(13), feature_names=["colour", *names[1:]]).save(weak)
    result = run("evaluate", model, wine, *TESTED, "--against", weak, code=1)
    assert "was learned from other columns: 'colour', which are not among those of the other model" in message(result)
    MahalanobisMetric(np.eye(2)).save(weak)
    result = run("evaluate", model, wine, *TESTED, "--against", weak, code=1)
    assert "was learned from 2 features, not from the 13 of the other model" in message(result)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "Nothing says which answers are right"),
        (["--label", "kind", "--comparisons", "x.csv"], 2, "only one can say what is right"),
        ([*TESTED, "--rank", "14"], 2, "The model has rank 13, so it cannot be cut to 14"),
        ([*TESTED, "--rank", "none"], 2, "not a list of positive whole numbers"),
        ([*TESTED, "-k", "0"], 2, "not a list of positive whole numbers"),
        (["--label", "kind", "--columns", "alcohol,ash"], 1, "has 2 features, the model was learned from 13"),
        (["--queries", "q.csv", "--label", "kind"], 2, "--queries goes with"),
    ],
)
def test_evaluate_says_what_is_wrong(wine, model, arguments, code, said):
    result = run("evaluate", model, wine, *arguments, code=code)
    assert said in message(result)
    assert result.stdout == ""


def test_a_file_that_is_no_model(wine, tmp_path):
    assert "is not a model but a table" in message(run("evaluate", wine, wine, *TESTED, code=2))
    (tmp_path / "text.safetensors").write_text("text")
    assert "Error: " in run("evaluate", tmp_path / "text.safetensors", wine, *TESTED, code=1).stderr
    assert "Error: " in run("evaluate", tmp_path / "none.safetensors", wine, *TESTED, code=1).stderr


def test_report(folder, wine, model, tmp_path):
    page = tmp_path / "page.html"
    assert json_of("report", model, wine, *TESTED, "-o", page, "--title", "Bottles") == {"output": str(page)}
    html = page.read_text(encoding="utf-8")
    assert "<h1>Bottles</h1>" in html
    assert "w2" in html
    run("report", model, "-o", tmp_path / "model.html")
    run("report", model, wine, "--id", "bottle", "-o", tmp_path / "points.html")
    graded = ["--relevance", folder / "grades.csv", "--queries", folder / "queries.csv", "--id", "bottle"]
    run("report", model, wine, *graded, "-o", tmp_path / "graded.html")
    said = tmp_path / "said.jsonl"
    rows = [{"vector": [float(row % 3), row / 30], "said": f"is it {row}?", "kind": "ab"[row % 2]} for row in range(30)]
    said.write_text("".join(json.dumps(row) + "\n" for row in rows))
    small = tmp_path / "small.safetensors"
    MahalanobisMetric([[1.0, 2.0]]).save(small)
    run("report", small, said, "--label", "kind", "--text", "said", "-o", tmp_path / "said.html")
    assert '<span class="id">is it 7?</span> <span class="label">b</span>' in (tmp_path / "said.html").read_text()
    unknown = run("report", small, said, "--label", "kind", "--text", "words", "-o", tmp_path / "x.html", code=2)
    assert "'words'" in message(unknown)
    assert "no POINTS" in message(run("report", model, "--label", "kind", "-o", tmp_path / "x.html", code=2))


# transform, search, mine, export


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".npz", ".npy"])
def test_transform_is_read_back(wine, model, tmp_path, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    output = tmp_path / f"mapped{suffix}"
    found = json_of("transform", model, wine, *LABELLED, "-o", output, "--rank", "4")
    assert (found["n_points"], found["n_dimensions"]) == (178, 4)
    named = {} if suffix == ".npy" else {"id": "bottle", "label": "kind"}
    back = read_points(output, **named)
    points = read_points(wine, id="bottle", label="kind", ignore="part")
    expected = MahalanobisMetric.load(model).truncate(4).transform(points.points)
    assert back.points == pytest.approx(expected, rel=1e-5, abs=1e-5)
    if named:
        assert back.ids.tolist() == points.ids.tolist()
        assert back.labels.tolist() == points.labels.tolist()


def test_transform_in_other_precision(wine, model, tmp_path):
    run("transform", model, wine, "-o", tmp_path / "x.npz", "--dtype", "float16")
    with np.load(tmp_path / "x.npz", allow_pickle=False) as file:
        assert file["X"].dtype == np.float16
    assert "not a format that can be written" in message(
        run("transform", model, wine, "-o", tmp_path / "x.xlsx", code=2)
    )


def test_search_prints_and_writes(folder, wine, model, tmp_path):
    arguments = ["search", model, wine, "--id", "bottle", "--queries", folder / "queries.csv", "-k", "3"]
    printed = run(*arguments, "--base").stdout.splitlines()
    assert printed[0].split() == ["query", "rank", "id", "distance", "base_id", "base_distance"]
    assert printed[1].split()[:2] == ["q0", "1"]
    found = json_of(*arguments)
    assert [hit["rank"] for hit in found["hits"][:4]] == [1, 2, 3, 1]
    run(*arguments, "-o", tmp_path / "hits.csv")
    rows = list(csv.DictReader((tmp_path / "hits.csv").read_text().splitlines()))
    assert [row["id"] for row in rows] == [hit["id"] for hit in found["hits"]]
    assert "needs MODEL, POINTS and --queries" in message(run("search", model, wine, code=2))
    assert "needs both --images and --query" in message(run("search", "--images", tmp_path, code=2))


def test_mined_triplets_are_learned_from(folder, wine, model, tmp_path):
    output = tmp_path / "negatives.csv"
    arguments = ["mine", wine, *LABELLED, "--ignore", "part", "--ranks", "2-20", "--negatives", "3", "-o", output]
    found = json_of(*arguments, "--model", model, "--per-query", "2", "--choice", "random")
    assert found["n_triplets"] == 2 * 178
    points = read_points(wine, id="bottle", label="kind", ignore="part")
    assert read_comparisons(output, points).kind == "triplets"
    fitted = ["fit", wine, "--id", "bottle", "--ignore", "part,kind", "--comparisons", output, "--max-iter", "5"]
    assert json_of(*fitted, "-o", tmp_path / "m")["data"]["n_comparisons"] > 100


def test_mine_from_pairs(folder, wine, tmp_path):
    arguments = ["mine", wine, "--id", "bottle", "--positives", folder / "pairs.csv", "--ignore", "part,kind"]
    loose = json_of(*arguments, "-o", tmp_path / "a.csv", "--relative-margin", "none", "--near-duplicate", "none")
    strict = json_of(*arguments, "-o", tmp_path / "b.csv", "--relative-margin", "0.1,0.5")
    assert loose["removed"]["too near"] == 0 < strict["removed"]["too near"]
    grouped = json_of(*arguments[:-2], "--ignore", "part", "--group", "kind", "-o", tmp_path / "c.csv")
    assert grouped["removed"]["same group"] > 0
    asked = tmp_path / "asked.csv"
    asked.write_text("query,document\n" + "".join(f"q{i},w{i}\n" for i in range(0, 178, 9)))
    two = ["mine", folder / "queries.csv", "--documents", wine, "--id", "bottle", "--positives", asked]
    names = ",".join(load_wine().feature_names)
    found = json_of(*two, "--columns", names, "-o", tmp_path / "d.csv", "--excluded", asked)
    assert (found["n_queries"], found["n_documents"]) == (20, 178)
    rows = list(csv.DictReader((tmp_path / "d.csv").read_text().splitlines()))
    assert rows[0]["anchor"].startswith("q")
    assert rows[0]["negative"].startswith("w")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "Give either --label or --positives"),
        (["--label", "kind", "--group", "part"], 2, "--group goes with --positives"),
        (["--label", "kind", "--ranks", "10"], 2, "not of the form FIRST-LAST"),
        (["--label", "kind", "--ranks", "9-3"], 2, "is empty"),
        (["--label", "kind", "--margin", "1,2,3"], 2, "is not a number"),
        (["--label", "part", "--ranks", "900-999", "--ignore", "kind"], 2, "Begin at a lower rank"),
    ],
)
def test_mine_says_what_is_wrong(wine, tmp_path, arguments, code, said):
    ignore = [] if "--ignore" in arguments else ["--ignore", "part"]
    result = run("mine", wine, "--id", "bottle", *arguments, *ignore, "-o", tmp_path / "n.csv", code=code)
    assert said in message(result)


def test_positives_that_are_none(wine, folder, tmp_path):
    more = ["--id", "bottle", "--ignore", "part,kind", "--positives", folder / "queries.csv", "-o", tmp_path / "n.csv"]
    assert "are not those of positives" in message(run("mine", wine, *more, code=1))


def test_export(model, tmp_path):
    run("export", model, "--to", "numpy", "-o", tmp_path / "m.npy", "--rank", "3", "--dtype", "float16")
    M = np.load(tmp_path / "m.npy", allow_pickle=False)
    assert (M.shape, M.dtype) == ((13, 3), np.float16)
    run("export", model, "--to", "query-side", "-o", tmp_path / "q.npz", "--document-length", "800")
    for to in ("json", "csv", "sql"):
        assert json_of("export", model, "--to", to, "-o", tmp_path / f"m.{to}")["to"] == to
        assert (tmp_path / f"m.{to}").read_text()
    run("export", model, "--to", "sentence-transformers", "-o", tmp_path / "dense")
    assert (tmp_path / "dense" / "config.json").exists()
    again = run("export", model, "--to", "sentence-transformers", "-o", tmp_path / "dense", "--force", code=2)
    assert "never replaced" in message(again)
    assert "--index is for --to faiss" in message(
        run("export", model, "--to", "numpy", "-o", tmp_path / "x", "--index", "Flat", code=2)
    )


@pytest.fixture(scope="module")
def unit_model(folder):
    """A model that scales vectors to unit length."""
    more = ["--where", "part=train", "-o", folder / "unit.st", "--setting", "paper", "--max-iter", "15"]
    result = run("fit", folder / "wine.csv", *LABELLED, *more, "--normalize")
    assert "Distances are between vectors of unit length (cosine)." in result.stdout
    return folder / "unit.st"


def test_a_model_of_unit_length_goes_through_all_commands(folder, wine, unit_model, tmp_path):
    metric = MahalanobisMetric.load(unit_model)
    assert metric.normalize
    run("transform", unit_model, wine, *LABELLED, "--ignore", "part", "-o", tmp_path / "Z.npy")
    assert np.linalg.norm(np.load(tmp_path / "Z.npy"), axis=1) == pytest.approx(np.ones(178), abs=1e-6)
    found = json_of("evaluate", unit_model, wine, *TESTED, "--rank", "2")
    assert found["normalize"]
    X, y = load_wine(return_X_y=True)
    test = np.arange(178) % 3 == 2
    expected = evaluate(metric, X[test], y[test], reference=(X[~test], y[~test]))
    assert found["scores"][0]["learned"] == pytest.approx(expected.rows[0].learned)
    hits = json_of("search", unit_model, wine, "--id", "bottle", "--ignore", "part,kind", "--queries", wine, "-k", "2")
    assert max(hit["distance"] for hit in hits["hits"]) <= 2
    run("report", unit_model, wine, *TESTED, "-o", tmp_path / "page.html")
    assert "between vectors of unit length (cosine)" in (tmp_path / "page.html").read_text(encoding="utf-8")
    for to, said in (
        ("numpy", "by cosine"),
        ("query-side", "multiplied by a number"),
        ("json", "by cosine"),
        ("csv", "by cosine"),
        ("sql", "Compare by cosine"),
        ("sentence-transformers", "Dense and Normalize"),
    ):
        result = run("export", unit_model, "--to", to, "-o", tmp_path / to)
        assert "dimensions, unit length: " in result.stdout
        assert said in result.stdout
    assert json_of("export", unit_model, "--to", "numpy", "-o", tmp_path / "m.npy")["normalize"]


def test_unit_length_is_chosen_by_the_user(wine, model, tmp_path):
    assert not MahalanobisMetric.load(model).normalize
    rows = [*LABELLED, "--where", "part=train", *QUICK]
    found = json_of("fit", wine, *rows, "--normalize", "-o", tmp_path / "m")
    assert (found["normalize"], MahalanobisMetric.load(tmp_path / "m").normalize) == (not found["is_base"],) * 2
    assert not json_of("fit", wine, *rows, "--no-normalize", "-o", tmp_path / "n")["normalize"]


def test_a_base_that_is_kept_has_no_unit_length(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    np.savez(tmp_path / "apart.npz", X=rng.standard_normal((300, 4)) + 20.0 * y[:, None], y=y)
    arguments = ["fit", tmp_path / "apart.npz", "--label", "y", "--validation-fraction", "0.3", "--normalize"]
    result = run(*arguments, "--init", "identity", "--passes", "2", "-o", tmp_path / "m")
    said = " ".join(result.stdout.split())
    kept = MahalanobisMetric.load(tmp_path / "m")
    assert f"distance itself; vectors {'are' if kept.normalize else 'are not'} scaled to unit length." in said


@pytest.mark.parametrize(("to", "package"), [("faiss", "faiss"), ("onnx", "onnx")])
def test_export_with_optional_packages(model, tmp_path, to, package):
    pytest.importorskip(package)
    assert json_of("export", model, "--to", to, "-o", tmp_path / "m")["n_features"] == 13
    assert (tmp_path / "m").stat().st_size > 100


def test_a_package_that_is_missing_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    result = run("export", model, "--to", "faiss", "-o", tmp_path / "m", code=1)
    assert "pip install 'boostmetric[faiss]'" in message(result)


# all of them


def test_warnings_are_lines_without_the_place_in_the_code(model, tmp_path):
    tiny = MahalanobisMetric(1e-9 * np.eye(2))
    tiny.save(tmp_path / "tiny")
    result = run("export", tmp_path / "tiny", "--to", "numpy", "--dtype", "float16", "-o", tmp_path / "m.npy")
    assert result.stderr.startswith("Warning: Rounding the metric to float16")
    assert ".py" not in result.stderr


def test_warnings_name_options(tmp_path):
    (tmp_path / "few.csv").write_text("a,b,kind\n1,2,x\n2,3,y\n3,1,x\n1,1,y\n")
    result = run("fit", tmp_path / "few.csv", "--label", "kind", "--setting", "paper", "-o", tmp_path / "m")
    few, nothing = (line for line in result.stderr.splitlines() if line.startswith("Warning: "))
    assert "fewer than --neighbors + 1 = 4 samples" in few
    assert "Lower --neighbors or drop these classes" in few
    assert "lower --regularization, which is 1e-07" in nothing


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from boostmetric.cli import app; app(['fit', '--help'], standalone_mode=False); "
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'matplotlib', 'joblib', 'safetensors'} & set(sys.modules); "
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--validation-where" in done.stdout
