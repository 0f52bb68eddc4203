"""Samples without a label: an error, or neither learned from nor validated on."""

import csv
import json

import numpy as np
import pytest
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from boostmetric import BoostMetric, Comparisons, MahalanobisMetric
from boostmetric.cli import app
from boostmetric.tables import read_points

X, Y = load_wine(return_X_y=True)
KNOWN = np.arange(len(Y)) % 4 > 0
FORMS = {
    "-1": np.where(KNOWN, Y, -1),
    "NaN": np.where(KNOWN, Y, np.nan),
    "None": np.where(KNOWN, Y, None),
    "text": np.where(KNOWN, np.array(["a", "b", "c"])[Y], ""),
    "list": [
        label if known else float("nan") for label, known in zip(np.array(["a", "b", "c"])[Y], KNOWN, strict=True)
    ],
}
each_form = pytest.mark.parametrize("form", FORMS)


def quick(**options):
    return BoostMetric(max_iter=5, n_passes=2, random_state=0, **options)


@each_form
@pytest.mark.parametrize("n_impostors", [4, "all"])
def test_points_keep_their_numbers_and_are_compared_with_nothing(form, n_impostors):
    weights = np.linspace(0.0, 2.0, len(Y))
    found = Comparisons.from_labels(X, FORMS[form], 2, n_impostors, weights, unlabelled=True)
    alone = Comparisons.from_labels(X[KNOWN], Y[KNOWN], 2, n_impostors, weights[KNOWN])
    expected = np.flatnonzero(KNOWN)[np.array(list(alone.quadruplets()))]
    np.testing.assert_array_equal(list(found.quadruplets()), expected)
    np.testing.assert_array_equal(found.weights, alone.weights)


@each_form
def test_a_fit_is_the_same_as_without_them(form):
    weights = np.linspace(0.5, 2.0, len(Y))
    found = quick(unlabelled=True).fit(X, FORMS[form], weights, eval_set=(X[::-1], FORMS[form][::-1]))
    alone = quick().fit(X[KNOWN], Y[KNOWN], weights[KNOWN], eval_set=(X[KNOWN][::-1], Y[KNOWN][::-1]))
    np.testing.assert_array_equal(found.components_, alone.components_)
    assert found.transform(X).shape == X.shape


def test_streams_and_refits():
    labels = FORMS["-1"]
    found = quick(unlabelled=True).partial_fit(X, labels)
    np.testing.assert_array_equal(found.components_, quick().partial_fit(X[KNOWN], Y[KNOWN]).components_)
    found, alone = quick(unlabelled=True).fit(X, labels), quick().fit(X[KNOWN], Y[KNOWN])
    half = slice(None, None, 2)
    alone.refit(X[half][KNOWN[half]], Y[half][KNOWN[half]])
    np.testing.assert_array_equal(found.refit(X[half], labels[half]).components_, alone.components_)


def test_nothing_is_validated_on_them():
    options = {"n_passes": 1, "max_iter": 3, "init": "standardized", "n_impostors": 5, "random_state": 0}
    found = BoostMetric.recommended(unlabelled=True, **options).fit(X, FORMS["-1"])
    alone = BoostMetric.recommended(**options).fit(X[KNOWN], Y[KNOWN])
    assert [(c.recipe, c.error) for c in found.candidates_] == [(c.recipe, c.error) for c in alone.candidates_]


def test_minus_one_is_a_class_unless_asked():
    labels = np.where(Y == 0, -1, Y)
    np.testing.assert_array_equal(quick().fit(X, labels).components_, quick().fit(X, Y).components_)


def test_refusals():
    with pytest.raises(ValueError, match=r"no label; the first is sample 0 \(nan\). Leave .* or set unlabelled=True"):
        quick().fit(X, FORMS["NaN"])
    with pytest.raises(ValueError, match="None of the 178 samples has a label"):
        quick(unlabelled=True).fit(X, np.full(len(Y), -1))
    with pytest.raises(ValueError, match="unlabelled must be True or False"):
        quick(unlabelled="yes").fit(X, Y)


# --- files ------------------------------------------------------------------------------------------------------------


def write(path, blank, rows=slice(None)):
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["kind", "part", *load_wine().feature_names])
        for i in np.arange(len(Y))[rows]:
            out.writerow([Y[i] if KNOWN[i] else blank, i % 3, *X[i]])
    return path


def fit(path, *more, code=0):
    quickly = ["--init", "standardized", "--passes", "1", "--max-iter", "3", "--solver", "stagewise", "--quiet"]
    arguments = ["fit", path, "--label", "kind", "-o", path.with_suffix(".st"), *quickly, *more]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize("blank", ["", -1])
@pytest.mark.parametrize("held_out", ["--validation-where=part=0", "--validation-fraction=0.2"])
def test_rows_are_left_out_and_counted(tmp_path, blank, held_out):
    more = held_out, "--ignore", "part"
    path, alone = write(tmp_path / "all.csv", blank), write(tmp_path / "alone.csv", blank, KNOWN)
    found = json.loads(fit(path, *more, "--unlabelled", "--json").stdout)
    expected = json.loads(fit(alone, *more, "--json").stdout)
    assert (found["data"].pop("n_unlabelled"), expected["data"].pop("n_unlabelled")) == ((~KNOWN).sum(), 0)
    assert found["data"] == expected["data"]
    assert found["evaluation"] == expected["evaluation"]
    metrics = [MahalanobisMetric.load(file.with_suffix(".st")) for file in (path, alone)]
    np.testing.assert_array_equal(metrics[0].components, metrics[1].components)


def test_what_is_said_about_rows_without_a_label(tmp_path):
    path = write(tmp_path / "all.csv", "")
    assert "line 2, column 'kind': no class" in fit(path, code=1).output
    understood = fit(path, "--unlabelled", "--dry-run").stdout
    assert "unlabelled: 45 rows, left out of learning and validation" in understood
    said = fit(path, "--unlabelled").stdout
    assert f"--label kind --unlabelled --reference {path}\n" in said
    assert f"transform {path.with_suffix('.st')} {path} -o" in said
    (tmp_path / "t.csv").write_text("anchor,near,far\n1,2,3\n")
    arguments = ["fit", str(path), "--comparisons", str(tmp_path / "t.csv"), "--unlabelled"]
    assert "--unlabelled goes with --label" in " ".join(CliRunner().invoke(app, arguments).output.split())


@pytest.mark.parametrize("command", ["evaluate", "report", "watch"])
def test_other_commands_leave_rows_without_a_label_out(tmp_path, command):
    path, alone = write(tmp_path / "all.csv", ""), write(tmp_path / "alone.csv", "", KNOWN)
    fit(alone, "--ignore", "part")

    def answer(path, *more, code=0):
        output = ["-o", path.with_suffix(".html"), "--force"] if command == "report" else []
        tested = ["--reference", path, "--tolerance", "1"] if command == "watch" else []
        columns = ["--label", "kind", "--ignore", "part"]
        arguments = [command, alone.with_suffix(".st"), path, *columns, *tested, *more, *output, "--json"]
        done = CliRunner().invoke(app, list(map(str, arguments)))
        assert done.exit_code == code, done.output
        return done

    assert "line 2, column 'kind': no class" in answer(path, code=1).stderr
    found, expected = (json.loads(answer(*files).stdout) for files in ((path, "--unlabelled"), (alone,)))
    assert found.get("evaluation", found.get("rows")) == expected.get("evaluation", expected.get("rows"))


def test_rows_without_a_label_are_not_mined(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("id,kind,x\n" + "".join(f"p{i},{'' if i % 3 == 0 else 'ab'[i % 2]},{i * i}\n" for i in range(30)))
    arguments = ["mine", str(path), "--label", "kind", "--unlabelled", "-o", str(tmp_path / "t.npz")]
    done = CliRunner().invoke(app, [*arguments, "--id", "id"])
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "t.npz") as triplets:
        named = {name for role in ("anchor", "positive", "negative") for name in triplets[role].tolist()}
    assert named <= {f"p{i}" for i in range(30) if i % 3}
    refused = CliRunner().invoke(app, [*arguments, "--ignore", "id", "--force"])
    assert refused.exit_code == 2
    assert "name the column of ids (--id)" in " ".join(refused.stderr.replace("│", " ").split())


def test_files_are_read_with_empty_labels(tmp_path):
    np.savez(tmp_path / "p.npz", X=X, y=FORMS["NaN"])
    table = read_points(tmp_path / "p.npz", label="y", unlabelled=True)
    np.testing.assert_array_equal(table.labels != "", KNOWN)
    found = quick(unlabelled=True).fit(table.points, table.labels)
    np.testing.assert_array_equal(found.components_, quick().fit(X[KNOWN], Y[KNOWN]).components_)
