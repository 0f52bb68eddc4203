"""Search in a folder of pictures, as a user runs it."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("cv2")

from boostmetric.cli import app
from boostmetric.vision import VisualWords
from boostmetric.vision.folders import find, search
from drawn import checks, rectangles, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two kinds of pictures in subfolders, and one picture that belongs to neither."""
    path = tmp_path_factory.mktemp("pictures")
    save(path / "boards", [checks(seed) for seed in range(12)], "png")
    save(path / "boxes" / "deeper", [rectangles(100 + seed) for seed in range(12)], "jpg")
    save(path, [rectangles(7)], "png")
    (path / "boards" / "notes.txt").write_text("no picture")
    return path


def words():
    return VisualWords(n_words=12, random_state=0, n_jobs=1)


def run(*arguments):
    return CliRunner().invoke(app, ["search", *map(str, arguments)])


def test_subfolders_are_labels(folder):
    found = find(folder)
    assert [picture.label for picture in found].count("boards") == 12
    assert [picture.label for picture in found].count("boxes") == 12
    assert [picture.label for picture in found].count(None) == 1
    assert all(picture.path.suffix in (".png", ".jpg") for picture in found)


def test_a_query_is_not_found_nor_learned_from_under_any_name(folder, tmp_path):
    query = sorted((folder / "boards").glob("*.png"))[3]
    copy = tmp_path / "copy.png"
    shutil.copy(query, copy)
    seen = []

    class Watched(VisualWords):
        def fit_transform(self, X, y=None, **params):
            seen.extend(X)
            return super().fit_transform(X, y, **params)

    (answer,) = search(find(folder), [copy], 5, Watched(n_words=12, random_state=0, n_jobs=1))
    assert query not in seen
    assert answer.query.path == copy
    assert answer.query.label == "boards"  # known from the folder
    for nearest in (answer.before, answer.after):
        assert len(nearest) == 5
        assert query not in [picture.path for picture, _ in nearest]
        assert [distance for _, distance in nearest] == sorted(distance for _, distance in nearest)
    assert answer.hits(answer.after) >= 4


def test_a_query_from_elsewhere_has_no_right_answers(folder, tmp_path):
    save(tmp_path, [checks(99)], "png")
    (path,) = tmp_path.glob("*.png")
    (answer,) = search(find(folder), [path], 3, words())
    assert answer.query.label is None
    assert answer.hits(answer.before) is None


def test_before_is_the_euclidean_distance_of_the_histograms(folder):
    pictures = find(folder)
    query = pictures[0].path
    (answer,) = search(pictures, [query], 4, words())
    others = [picture.path for picture in pictures if picture.path != query]
    vision = words()
    histograms = vision.fit_transform(others)
    distance = np.linalg.norm(histograms - vision.transform([query]), axis=1)
    assert [found for _, found in answer.before] == pytest.approx(np.sort(distance)[:4])


def test_sheet_and_page_are_written(folder, tmp_path):
    first, second = sorted((folder / "boards").glob("*.png"))[0], sorted((folder / "boxes").rglob("*.jpg"))[0]
    out = tmp_path / "out"
    result = run("--images", folder, "--query", first, "--query", second, "-o", out, "-k", 4, "--words", 12)
    assert result.exit_code == 0, result.output
    assert re.search(rf"{first.name}: \d of 4 right before learning, \d after", result.output)
    assert (out / "contact-sheet.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "search.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 2 * (1 + 4 + 4)
    assert "://" not in page  # nothing is loaded from elsewhere
    assert sorted(path.name for path in out.iterdir()) == ["contact-sheet.png", "search.html"]


def test_a_broken_picture_is_named_and_passed_over(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "some")
    broken = tmp_path / "some" / "boards" / "broken.png"
    broken.write_bytes(b"no picture")
    query = sorted((tmp_path / "some" / "boxes").rglob("*.jpg"))[0]
    with pytest.warns(UserWarning, match=r"broken\.png cannot be read as a picture"):
        (answer,) = search(find(tmp_path / "some"), [query], 20, words())
    assert broken not in [picture.path for picture, _ in answer.before + answer.after]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--images", "none", "--query", "x.png"], "none is not a folder"),
        (["--images", "flat", "--query", "none.png"], "There is no file none.png"),
        (["--images", "flat", "--query", "flat/image_0001.png"], "Put pictures that belong together into a subfolder"),
        (["--images", "empty", "--query", "flat/image_0001.png"], "The folder empty holds no pictures"),
        (
            ["--images", "flat", "--query", "flat/image_0001.png", "--detector", "eye"],
            "'eye' is not one of harris-affine",
        ),
    ],
)
def test_what_is_wrong_is_said(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "flat", [checks(seed) for seed in range(3)], "png")
    Path("empty").mkdir()
    result = run(*arguments)
    assert result.exit_code != 0
    assert message in " ".join(result.output.replace("│", " ").split())


def test_options_of_the_other_search_are_refused(folder):
    query = find(folder)[0].path
    result = run("--images", folder, "--query", query, "--rank", 3)
    assert result.exit_code == 2
    assert "It goes with a search among points" in result.output
    result = run("model.safetensors", "points.csv", "--queries", "asked.csv", "--words", 5)
    assert result.exit_code == 2
    assert "It goes with a search among pictures" in result.output


def test_too_many_neighbours_and_a_broken_query(folder, tmp_path):
    query = tmp_path / "query.png"
    query.write_bytes(b"no picture")
    result = run("--images", folder, "--query", query, "-o", tmp_path / "out", "--words", 12)
    assert result.exit_code == 1
    assert "query.png cannot be read as a picture" in result.output
    with pytest.raises(ValueError, match="k=40 is more than the 24 pictures that can be searched"):
        search(find(folder), [find(folder)[0].path], 40, words())
