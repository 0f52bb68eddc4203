"""Images to histograms of visual words: regions, descriptors, words, files that cannot be used, and the cache."""

import io
import os
import pickle
import struct
import subprocess
import sys
import time
import zlib

import numpy as np
import pandas as pd
import pytest
import sklearn
from PIL import Image
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.fixes import parse_version

from boostmetric import BoostMetric
from boostmetric.vision import UnusableImageError, VisualWords, extraction, images
from boostmetric.vision.descriptors import describe, describe_grid, root
from boostmetric.vision.extraction import DETECTORS
from boostmetric.vision.images import content_of, read
from boostmetric.vision.regions import Regions, grid, harris_affine, harris_laplace, sample
from drawn import checks, cv2, rectangles, rotation, save, warped

STRETCH = np.array([[1.6, 0.3], [0.0, 0.8]])


def vision(n_words=6, **options):
    """Fast: one process, no loading of others."""
    return VisualWords(n_words, **{"n_jobs": 1, "random_state": 0, "detector": "harris-laplace", **options})


@pytest.fixture(scope="module")
def large():
    return rectangles(0, side=400, n=60)


@pytest.fixture(scope="module")
def drawn():
    return [rectangles(seed) for seed in range(6)]


@pytest.fixture
def paths(drawn, tmp_path):
    return save(tmp_path / "pictures", drawn)


# Regions and descriptors


def inner(regions, side):
    """Those with a size at which pixels do not matter, and with all that is described inside of the picture."""
    radii = regions.shapes[:, 0, 0]
    keep = (abs(regions.centers - (side - 1) / 2).max(axis=1) + 3 * radii < side / 2) & (radii > 6)
    return Regions(regions.centers[keep], regions.shapes[keep])


def distances(descriptors, others):
    """Median distance of descriptors of the same things, and of others."""
    differences = descriptors.astype(float) - others, descriptors.astype(float) - np.roll(others, 7, axis=0)
    return [float(np.median(np.linalg.norm(difference, axis=1))) for difference in differences]


@pytest.mark.parametrize("degrees", [-60, 37, 90, 180])
def test_descriptors_of_a_turned_picture_are_the_same_unless_upright(large, degrees):
    regions = inner(harris_laplace(large), 400)
    assert len(regions) > 20
    turned, shift = warped(large, rotation(degrees))
    there = Regions(regions.centers @ rotation(degrees).T + shift, regions.shapes)
    same, other = distances(*(describe(*pair, upright=False) for pair in ((large, regions), (turned, there))))
    assert same < 0.05 * other
    same, other = distances(*(describe(*pair, upright=True) for pair in ((large, regions), (turned, there))))
    assert same > 0.7 * other


def test_descriptors_of_a_stretched_region_are_the_same(large):
    regions = inner(harris_laplace(large), 400)
    stretched, shift = warped(large, STRETCH)
    there = Regions(regions.centers @ STRETCH.T + shift, STRETCH @ regions.shapes)
    same, other = distances(describe(large, regions, upright=True), describe(stretched, there, upright=True))
    assert same < 0.05 * other


def corresponding(find, picture):
    """Regions found in a picture and in the picture stretched, as far as they are of the same place and size."""
    stretched, shift = warped(picture, STRETCH)
    here, there = find(picture), find(stretched)
    mapped = Regions(here.centers @ STRETCH.T + shift, STRETCH @ here.shapes)
    apart = np.linalg.norm(mapped.centers[:, None] - there.centers, axis=2)
    size, other_size = (np.log(np.linalg.det(regions.shapes)) / 2 for regions in (mapped, there))
    apart += 20 * abs(size[:, None] - other_size)
    rows, partners = np.flatnonzero(apart.min(axis=1) < 4), apart.argmin(axis=1)
    assert len(rows) > 20
    first = Regions(here.centers[rows], here.shapes[rows])
    second = Regions(there.centers[partners[rows]], there.shapes[partners[rows]])
    return first, second, stretched


def differences_of_shape(shapes, others):
    """Logarithm of the ratio of the axes of an ellipse in the coordinates in which another is round."""
    squares = np.linalg.solve(others @ others.transpose(0, 2, 1), shapes @ shapes.transpose(0, 2, 1))
    return abs(np.diff(np.log(np.linalg.eigvals(squares).real), axis=1))


def test_affine_regions_follow_a_stretch_and_circles_do_not(large):
    found = {}
    for find in (harris_affine, harris_laplace):
        first, second, stretched = corresponding(find, large)
        differs = np.median(differences_of_shape(STRETCH @ first.shapes, second.shapes))
        same, other = distances(describe(large, first, upright=False), describe(stretched, second, upright=False))
        found[find] = differs, same / other
    assert found[harris_affine][0] < 0.4 * found[harris_laplace][0]
    assert found[harris_affine][1] < 0.35 < 0.5 < found[harris_laplace][1]


def test_affine_shapes_of_a_stretched_texture_are_its_stretch():
    # Gradients of a texture without direction are equally strong in all directions, in the coordinates it had before.
    noise = np.random.default_rng(0).standard_normal((600, 600))
    texture = cv2.GaussianBlur(noise, (0, 0), 3.0)
    texture = np.clip(128 + 50 * texture / texture.std(), 0, 255).astype(np.uint8)
    stretched, _ = warped(texture, np.diag([1.5, 0.75]))
    squares = [
        regions.shapes @ regions.shapes.transpose(0, 2, 1) for regions in map(harris_affine, (texture, stretched))
    ]
    ratios = [float(np.median(np.sqrt(square[:, 0, 0] / square[:, 1, 1]))) for square in squares]
    assert ratios[0] == pytest.approx(1.0, rel=0.15)
    assert ratios[1] == pytest.approx(2.0, rel=0.2)


def test_affine_shapes_keep_area_center_and_the_vertical(large):
    circles, ellipses = harris_laplace(large), harris_affine(large)
    assert 0 < len(ellipses) <= len(circles)
    assert np.all(ellipses.shapes[:, 0, 1] == 0)
    radii = {tuple(center): [] for center in circles.centers}
    for center, shape in zip(circles.centers, circles.shapes, strict=True):
        radii[tuple(center)].append(shape[0, 0])
    for center, shape in zip(ellipses.centers, ellipses.shapes, strict=True):
        assert np.min(abs(np.sqrt(np.linalg.det(shape)) / radii[tuple(center)] - 1)) < 1e-6
    singular = np.linalg.svd(ellipses.shapes, compute_uv=False)
    assert np.all(singular[:, 0] <= 6.001 * singular[:, 1])


@pytest.mark.parametrize("radius", [3.0, 20.0, 60.0, 110.0])
def test_samples_of_large_regions_are_not_shifted(radius):
    y, x = np.mgrid[:300, :300]
    ramp = (0.3 * y + 0.5 * x).astype(np.float32)
    shape = radius * np.array([[1.0, 0.2], [0.0, 0.9]])
    (window,) = sample(ramp, np.array([[150.5, 140.0]]), shape[None], 25)
    place = np.stack(np.meshgrid(*[np.linspace(-1, 1, 25)] * 2), axis=-1) @ shape.T + [150.5, 140.0]
    # OpenCV before 5 rounds places to 1/32 of a pixel, maybe one of a smaller picture; half of one would be 0.25.
    bound = 1e-3 if parse_version(cv2.__version__) >= parse_version("5") else 0.1
    assert np.allclose(window, 0.5 * place[..., 0] + 0.3 * place[..., 1], atol=bound)


def test_regions_of_all_sizes_and_numbers_are_described_one_by_one(large):
    regions = harris_laplace(large)
    many = Regions(np.tile(regions.centers, (5, 1)), np.tile(regions.shapes, (5, 1, 1)))
    assert len(many) > 256  # more than a sheet holds
    together = describe(large, many, upright=False)
    alone = [
        describe(large, Regions(many.centers[i : i + 1], many.shapes[i : i + 1]), upright=False)[0]
        for i in range(0, len(many), 29)
    ]
    assert np.array_equal(together[::29], alone)


def test_the_grid_covers_the_picture():
    for height, width in ((16, 16), (61, 100), (97, 33)):
        squares = grid(np.zeros((height, width), dtype=np.uint8))
        radii = squares.shapes[:, 0, 0]
        low, high = squares.centers - radii[:, None], squares.centers + radii[:, None]
        assert np.all(low >= 0)
        assert np.all(high <= [width, height])
        covered = np.zeros((height, width), dtype=bool)
        for (left, top), (right, bottom) in zip(low.astype(int), high.astype(int), strict=True):
            covered[top:bottom, left:right] = True
        assert covered[: height - height % 8, : width - width % 8].all()
        assert len(describe_grid(checks(0, 104)[:height, :width])) == len(squares)


def test_rootsift_is_the_square_root_of_shares():
    descriptors = np.random.default_rng(0).integers(0, 256, (20, 128), dtype=np.uint8)
    descriptors[3] = 0
    for row, given in zip(root(descriptors), descriptors.astype(float), strict=True):
        assert np.allclose(row, np.sqrt(given / max(given.sum(), 1)), atol=1e-6)
    lengths = np.linalg.norm(root(descriptors), axis=1)
    assert np.allclose(np.delete(lengths, 3), 1)
    assert lengths[3] == 0


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("shape", [(16, 16), (16, 200), (33, 17), (96, 96)])
def test_every_detector_takes_small_long_and_blank_pictures(detector, shape):
    noise = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    described = vision(detector=detector).describe([noise, np.full(shape, 7, dtype=np.uint8)])
    assert all(rows.dtype == np.uint8 and rows.shape[1] == 128 for rows in described)
    assert detector == "dense" or len(described[1]) == 0
    assert len(described[0]) > 0 or shape != (96, 96)


# Words and histograms


@pytest.mark.parametrize("descriptor", ["sift", "rootsift"])
@pytest.mark.parametrize("weighting", ["count", "sqrt", "share"])
def test_histograms_count_the_nearest_words(drawn, descriptor, weighting):
    model = vision(descriptor=descriptor, weighting=weighting).fit(drawn)
    histograms = model.transform(drawn)
    expected = np.zeros((len(drawn), 6))
    for counts, described in zip(expected, model.describe(drawn), strict=True):
        for row in root(described) if descriptor == "rootsift" else described:
            counts[np.argmin([np.linalg.norm(row.astype(float) - word) for word in model.words_])] += 1
    if weighting == "sqrt":
        expected = np.sqrt(expected)
    if weighting == "share":
        expected /= expected.sum(axis=1, keepdims=True)
    assert np.allclose(histograms, expected)
    assert model.n_descriptors_ == sum(map(len, model.describe(drawn)))
    assert histograms.shape == (6, 6)
    assert model.words_.shape == (6, 128)


def test_words_are_those_of_the_training_images_only(drawn):
    first = vision().fit(drawn[:4])
    kept = first.words_.copy()
    counts = first.transform(drawn[4:])
    assert np.array_equal(first.words_, kept)
    second = vision().fit(drawn[:4])
    assert np.array_equal(second.words_, kept)
    # Each row depends on its own image.
    assert np.array_equal(second.transform(drawn[5:]), counts[1:])
    assert not np.array_equal(vision().fit(drawn).words_, kept)


@pytest.mark.parametrize("detector", DETECTORS)
def test_fit_transform_is_fit_and_transform(drawn, detector):
    fitted = vision(detector=detector).fit(drawn)
    assert np.array_equal(vision(detector=detector).fit_transform(drawn), fitted.transform(drawn))
    upright = vision(detector=detector, upright=True).describe(drawn[:1])[0]
    same = np.array_equal(upright, vision(detector=detector).describe(drawn[:1])[0])
    assert same == (detector == "dense")


def test_words_are_of_a_sample_that_the_random_state_decides(drawn, monkeypatch):
    monkeypatch.setattr("boostmetric.vision.words._LEAST_SAMPLE", 100)
    monkeypatch.setattr("boostmetric.vision.words._DESCRIPTORS_PER_WORD", 1)
    seen = []

    class Watched(KMeans):
        def fit(self, X, y=None, sample_weight=None):
            seen.append(X)
            return super().fit(X)

    monkeypatch.setattr("boostmetric.vision.words.KMeans", Watched)
    first, same, other = (vision(detector="dense", random_state=seed).fit(drawn) for seed in (0, 0, 1))
    assert [len(rows) for rows in seen] == [100, 100, 100]
    assert np.array_equal(first.words_, same.words_)
    assert not np.array_equal(first.words_, other.words_)
    everything = [row.tobytes() for rows in first.describe(drawn) for row in rows.astype(np.float32)]
    places = [everything.index(row.tobytes()) for row in seen[0]]
    assert len(set(np.digitize(places, np.cumsum([len(rows) for rows in first.describe(drawn)])))) == len(drawn)


def test_two_processes_give_the_same(drawn):
    one, two = (vision(n_jobs=n_jobs).fit(drawn) for n_jobs in (1, 2))
    assert np.array_equal(one.words_, two.words_)
    assert np.array_equal(one.transform(drawn), two.transform(drawn))


def test_the_users_number_of_opencv_threads_stays(drawn):
    before = cv2.getNumThreads()
    try:
        cv2.setNumThreads(2)
        vision().describe(drawn[:1])
        assert cv2.getNumThreads() == 2
    finally:
        cv2.setNumThreads(before)


# What images can be


def test_paths_arrays_and_stacks_are_the_same_images(drawn, paths):
    expected = vision().fit_transform(drawn)
    stack = np.stack(drawn)
    colours = stack[..., None].repeat(3, axis=3)
    given = {
        "paths": paths,
        "text": [str(path) for path in paths],
        "tuple": tuple(drawn),
        "mixed": [*drawn[:3], *paths[3:]],
        "array of paths": np.array([str(path) for path in paths]),
        "series": pd.Series([str(path) for path in paths], index=list("abcdef")),
        "frame": pd.DataFrame({"path": [str(path) for path in paths]}),
        "stack": stack,
        "one channel": stack[..., None],
        "colours": colours,
        "with alpha": np.concatenate([colours, np.full_like(stack, 9)[..., None]], axis=3),
        "floats": stack / 255,
        "single": (stack / 255).astype(np.float32),
        "strided": np.asfortranarray(stack),
    }
    for name, images_ in given.items():
        assert np.array_equal(vision().fit_transform(images_), expected), name


def test_colours_are_turned_to_grey_as_the_eye_does(tmp_path):
    grey, red = checks(0), checks(1)
    colours = np.stack([red, grey, grey], axis=-1)
    picture = read(colours, b"", "", None)
    assert np.allclose(picture, 0.299 * red + 0.701 * grey, atol=1)
    (path,) = save(tmp_path, [colours])
    assert np.array_equal(read(path, path.read_bytes(), "", None), picture)


def test_long_sides_are_reduced_first(drawn, tmp_path):
    large = np.kron(drawn[0], np.ones((4, 2), dtype=np.uint8))
    for suffix in ("png", "jpg"):
        (path,) = save(tmp_path, [large], suffix)
        reduced = read(path, path.read_bytes(), "", 96)
        assert reduced.shape == (96, 48)
        assert np.corrcoef(reduced.ravel(), drawn[0][:, ::2].ravel())[0, 1] > 0.95
        assert read(path, path.read_bytes(), "", None).shape == large.shape


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a.png", "one path, 'a.png': put it into a list"),
        (np.zeros((30, 30)), r"Got \(30, 30\)\. Put a single image into a list"),
        (np.zeros((2, 30, 30, 3, 1)), r"Got \(2, 30, 30, 3, 1\)"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), r"one column\. Got an array of shape \(1, 2\)"),
        ((path for path in "ab"), "Got generator"),
        (None, "Got NoneType"),
        (["a.png", 3], "number 1 has type int"),
        ([], "There are no images"),
    ],
)
def test_what_is_no_list_of_images_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        vision().fit(given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_words": 0}, "n_words must be a whole number of at least 1. Got 0"),
        ({"n_words": 2.5}, "n_words must be a whole number"),
        ({"detector": "surf"}, "detector must be one of 'harris-affine', .*'dense'. Got 'surf'"),
        ({"descriptor": "hog"}, "descriptor must be one of 'sift', 'rootsift'. Got 'hog'"),
        ({"weighting": "tfidf"}, "weighting must be one of .* Got 'tfidf'"),
        ({"errors": "ignore"}, "errors must be one of 'warn', 'raise'. Got 'ignore'"),
        ({"max_side": 0}, "max_side must be a whole number of at least 1, or None. Got 0"),
        ({"n_jobs": 0}, "n_jobs must be a whole number"),
        ({"n_words": 100_000}, r"n_words=100000 words cannot be learned from the \d+ regions found in 6 images"),
    ],
)
def test_bad_parameters_are_named_with_their_value(drawn, options, message):
    model = vision(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(drawn)
    with pytest.raises(NotFittedError):
        model.transform(drawn)


def test_parameters_set_after_fit_are_checked(drawn):
    model = vision().fit(drawn)
    with pytest.raises(ValueError, match="weighting must be one of"):
        model.set_params(weighting="tfidf").transform(drawn)


# scikit-learn's contract


def test_clones_copies_and_names(drawn):
    model = vision(upright=True)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        model.transform(drawn)
    with pytest.raises(NotFittedError):
        model.get_feature_names_out()
    expected = model.fit_transform(drawn)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.transform(drawn), expected)
    assert list(model.get_feature_names_out()) == [f"visualwords{i}" for i in range(6)]
    assert not hasattr(clone(model), "words_")


def test_histograms_as_a_table(drawn, paths):
    series = pd.Series([str(path) for path in paths], index=list("uvwxyz"))
    table = vision().set_output(transform="pandas").fit_transform(series)
    assert list(table.columns) == [f"visualwords{i}" for i in range(6)]
    if parse_version(sklearn.__version__) >= parse_version("1.8"):  # those before lose the index of a series
        assert list(table.index) == list("uvwxyz")
    assert np.array_equal(table.to_numpy(), vision().fit_transform(drawn))


def test_a_pipeline_learns_from_a_list_of_paths(tmp_path):
    pictures = [draw(seed) for seed in range(8) for draw in (rectangles, checks)]
    labels = ["rectangles", "checks"] * 8
    paths = save(tmp_path / "pictures", pictures)
    words = vision(8, upright=True, cache_dir=tmp_path / "cache")
    pipeline = make_pipeline(words, BoostMetric.paper(n_neighbors=2, max_iter=20), KNeighborsClassifier(2))
    scores = cross_val_score(pipeline, paths, labels, cv=4, error_score="raise")
    assert scores.mean() >= 0.9


# Images that cannot be used


def png(width, height, data=b""):
    """A picture that claims a size, whatever is in it."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def whole_png():
    file = io.BytesIO()
    Image.fromarray(rectangles(9)).save(file, "png")
    return file.getvalue()


BROKEN = {
    "empty.png": (b"", "empty.png is an empty file"),
    "text.jpg": (b"no picture", "text.jpg cannot be read as a picture: its format is not known"),
    "cut.png": (whole_png()[:-300], "cut.png cannot be read as a picture: "),
    "small.png": (png(20, 15, b"\0" * 21 * 15), "small.png has 20 x 15 pixels; regions need 16 on each side"),
    "huge.png": (png(50_000, 50_000, b"\0" * 1000), "huge.png is too large: .* the limit is 100,000,000 pixels"),
    "large.png": (png(11_000, 10_000), "large.png is too large: 11,000 x 10,000 pixels; the limit is 100,000,000"),
    "short.png": (png(9_900, 10_000), "short.png cannot be read as a picture: "),  # under the limit, but ends early
    "long.png": (png(3000, 40, b"\0" * 3001 * 40), "long.png has 640 x 9 pixels after reduction to max_side=640"),
    "program.eps": (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\nshowpage\n%%EOF\n",
        "program.eps is not a picture but a program",
    ),
}


@pytest.mark.parametrize("name", [*BROKEN, "missing.png", "folder.png", "bad\0name.png"])
def test_an_unusable_file_is_named_and_its_row_is_zero(name, drawn, tmp_path):
    path, message = tmp_path / name, r"missing\.png cannot be read: No such file or directory"
    if name in BROKEN:
        path.write_bytes(BROKEN[name][0])
        message = BROKEN[name][1]
    if name == "folder.png":
        path.mkdir()
        message = r"folder\.png is not a file but a folder"
    if "\0" in name:
        message = "is not a valid path: embedded null"
    given = [drawn[0], path, drawn[1]]
    start = time.monotonic()
    with pytest.warns(UserWarning, match=f"1 of 3 images cannot be used. (?s:.*){message}.* Their rows are zeros"):
        model = vision().fit(given)
    assert time.monotonic() - start < 5
    assert list(model.skipped_) == [1]
    with pytest.warns(UserWarning, match=message):
        histograms = model.transform(given)
    assert np.array_equal(histograms, np.insert(vision().fit_transform(drawn[:2]), 1, 0, axis=0))
    with pytest.raises(UnusableImageError, match=message):
        vision(errors="raise").fit(given)
    with pytest.raises(UnusableImageError, match=f"1 of 1 images cannot be used. (?s:.*){message}"):
        vision().fit([path])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((30, 30, 2), dtype=np.uint8), r"image number 1 has shape \(30, 30, 2\)"),
        (np.zeros(30, dtype=np.uint8), r"image number 1 has shape \(30,\)"),
        (np.zeros((0, 30), dtype=np.uint8), r"image number 1 has shape \(0, 30\)"),
        (np.full((30, 30), 2.0), "image number 1 holds numbers outside 0 to 1"),
        (np.full((30, 30), np.nan), "image number 1 holds numbers outside 0 to 1"),
        (np.zeros((30, 30), dtype=np.int64), "image number 1 has dtype int64"),
        (np.zeros((30, 10), dtype=np.uint8), "image number 1 has 10 x 30 pixels"),
        (np.zeros((2, 30, 30), dtype=object), r"image number 1 has shape \(2, 30, 30\)"),
        (np.broadcast_to(np.uint8(0), (20_000, 20_000)), "image number 1 is too large: 20,000 x 20,000 pixels"),
    ],
)
def test_an_unusable_array_is_named_by_its_number(drawn, array, message, tmp_path):
    for options in ({}, {"cache_dir": tmp_path}):
        with pytest.warns(UserWarning, match=message):
            rows = vision(**options).fit_transform([drawn[0], array, drawn[1]])
        assert not rows[1].any()


def test_many_unusable_files_are_counted(drawn, tmp_path):
    missing = [tmp_path / f"missing{i}.png" for i in range(8)]
    with pytest.warns(UserWarning, match=r"8 of 14 images cannot be used\. .*missing4.* And 3 more\.") as caught:
        vision().fit([*drawn, *missing])
    assert "missing5" not in str(caught[0].message)
    assert caught[0].filename == __file__


def test_files_that_could_be_without_end_are_not_read(drawn, tmp_path, monkeypatch):
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    with pytest.raises(UnusableImageError, match=r"pipe\.png is not a file"):
        content_of(pipe, str(pipe))
    (path,) = save(tmp_path, drawn[:1])
    monkeypatch.setattr(images, "_MOST_BYTES", 100)
    with pytest.raises(UnusableImageError, match=r"is too large: [\d,]+ bytes; the limit is 100"):
        content_of(path, str(path))


# Formats


def test_a_photograph_is_turned_as_the_camera_was(tmp_path):
    picture = Image.fromarray(rectangles(0)[:, :60])
    exif = Image.Exif()
    exif[0x0112] = 6  # its right side is the top
    for suffix in ("jpg", "png"):
        path = tmp_path / f"turned.{suffix}"
        picture.save(path, exif=exif, **({"quality": 95} if suffix == "jpg" else {}))
        for max_side in (640, 48):
            found = read(path, path.read_bytes(), "", max_side).astype(float)
            small = Image.fromarray(np.rot90(np.asarray(picture), -1))
            small.thumbnail((max_side, max_side))
            assert found.shape == (small.height, small.width)
            assert abs(found - np.asarray(small)).mean() < 6


def test_sixteen_bits_and_floats_keep_their_shades(tmp_path):
    grey = rectangles(0)
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "a.png")
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "b.tif")
    (tmp_path / "c.pgm").write_bytes(b"P5 96 96 65535\n" + (grey.astype(">u2") * 257).tobytes())
    Image.fromarray(grey.astype(np.float32) / 255).save(tmp_path / "d.tif")
    for path in sorted(tmp_path.iterdir()):
        assert np.array_equal(read(path, path.read_bytes(), "", None), grey), path.name
    Image.fromarray(grey.astype(np.float32)).save(tmp_path / "e.tif")
    Image.fromarray(grey.astype(np.int32) * 1000).save(tmp_path / "f.tif")
    for name, message in (("e.tif", "outside 0 to 1"), ("f.tif", "outside 0 to 65,535")):
        with pytest.raises(UnusableImageError, match=message):
            read(tmp_path / name, (tmp_path / name).read_bytes(), "", None)


def test_other_kinds_of_files_are_read(tmp_path):
    grey = rectangles(0)
    picture = Image.fromarray(grey)
    picture.convert("P").save(tmp_path / "palette.png")
    picture.convert("P").save(tmp_path / "transparent.png", transparency=bytes(range(256)))
    picture.convert("LA").save(tmp_path / "alpha.png")
    picture.convert("RGBA").save(tmp_path / "alpha.webp", lossless=True)
    picture.convert("RGB").convert("CMYK").save(tmp_path / "print.jpg", quality=95)
    picture.save(tmp_path / "animated.gif", save_all=True, append_images=[Image.fromarray(checks(1))])
    picture.save(tmp_path / "pages.tif", save_all=True, append_images=[Image.fromarray(checks(1))])
    picture.save(tmp_path / "plain.bmp")
    found = sorted(tmp_path.iterdir())
    for path in found:
        assert abs(read(path, path.read_bytes(), "", 640).astype(float) - grey).mean() < 3, path.name
    (tmp_path / "bits.png").write_bytes(b"")
    picture.convert("1").save(tmp_path / "bits.png")
    assert set(np.unique(read(tmp_path / "bits.png", (tmp_path / "bits.png").read_bytes(), "", None))) == {0, 255}
    assert all(map(len, vision().describe(found)))


# The cache


@pytest.fixture
def no_reading(monkeypatch):
    """Call it, and images are not to be decoded any more."""

    def forbid():
        def fail(*_):
            raise AssertionError("an image was decoded")

        monkeypatch.setattr(extraction, "read", fail)

    return forbid


@pytest.mark.parametrize("form", ["paths", "arrays"])
def test_a_second_run_decodes_nothing(form, drawn, paths, tmp_path, no_reading):
    given = paths if form == "paths" else drawn
    first = vision(cache_dir=tmp_path / "cache").fit_transform(given)
    assert np.array_equal(first, vision().fit_transform(given))
    no_reading()
    moved = [path.rename(path.with_name(f"moved-{path.name}")) for path in paths] if form == "paths" else drawn
    assert np.array_equal(vision(cache_dir=str(tmp_path / "cache")).fit_transform(moved), first)
    # Words are not of the descriptors' settings.
    vision(3, cache_dir=tmp_path / "cache", descriptor="rootsift", weighting="share").fit(moved)


def test_changed_images_and_settings_are_described_again(drawn, paths, tmp_path, no_reading, monkeypatch):
    cache = tmp_path / "cache"
    vision(cache_dir=cache).describe(paths)
    n_kept = len(list(cache.rglob("*.npy")))
    assert n_kept == 6
    save(paths[0].parent, [checks(5)])
    (changed,) = vision(cache_dir=cache).describe(paths[:1])
    assert np.array_equal(changed, vision().describe([checks(5)])[0])
    no_reading()
    for other in ({"detector": "sift"}, {"upright": True}, {"max_side": 50}, {"max_side": None}):
        with pytest.raises(AssertionError, match="an image was decoded"):
            vision(cache_dir=cache, **other).describe(paths[1:])
    monkeypatch.setattr(extraction, "_VERSION", -1)
    with pytest.raises(AssertionError, match="an image was decoded"):
        vision(cache_dir=cache).describe(paths[1:])


def test_damaged_files_in_the_cache_are_replaced(drawn, tmp_path, no_reading):
    expected = vision(cache_dir=tmp_path).describe(drawn[:1])[0]
    (kept,) = tmp_path.rglob("*.npy")
    content = kept.read_bytes()
    other = io.BytesIO()
    np.save(other, expected.astype(float))
    huge = content.replace(str(expected.shape).encode(), b"(9999999999999, 128)"[: len(str(expected.shape)) + 12])
    damaged = [b"", b"x", content[:9], content[:-1], content[60:], other.getvalue(), huge, b"PK\3\4 and no archive"]
    damaged += [content[:i] + b"\xff('" + content[i + 3 :] for i in range(0, 128, 6)]
    for content_now in damaged:
        kept.write_bytes(content_now)
        found = vision(cache_dir=tmp_path).describe(drawn[:1])[0]
        assert np.array_equal(found, expected)
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    no_reading()
    assert np.array_equal(vision(cache_dir=tmp_path).describe(drawn[:1])[0], expected)


def test_a_cache_that_cannot_be_written_is_said_once(drawn, tmp_path):
    place = tmp_path / "cache"
    place.write_text("a file where the folder should be")
    expected = vision().fit_transform(drawn)
    with pytest.warns(
        UserWarning, match=r"cannot be saved in cache_dir='.*cache' \(.+\), so they are computed again"
    ) as all_:
        found = vision(cache_dir=place).fit_transform(drawn)
    assert len(all_) == 1
    assert np.array_equal(found, expected)


def test_two_processes_keep_the_same_image(drawn, tmp_path):
    found = vision(n_jobs=2, cache_dir=tmp_path).describe(drawn[:1] * 12)
    (expected,) = vision().describe(drawn[:1])
    assert all(np.array_equal(rows, expected) for rows in found)
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1
    assert np.array_equal(np.load(next(tmp_path.rglob("*.npy"))), expected)


def test_unusable_images_are_not_kept(drawn, tmp_path):
    with pytest.warns(UserWarning, match="cannot be used"):
        vision(cache_dir=tmp_path / "cache").describe([tmp_path / "later.png", *drawn])
    Image.fromarray(drawn[0]).save(tmp_path / "later.png")
    assert len(vision(cache_dir=tmp_path / "cache").describe([tmp_path / "later.png"])[0])


# Progress, and what is not installed


def test_progress_is_shown_if_asked_for(drawn, capsys):
    vision().fit(drawn)
    silent = capsys.readouterr()
    assert (silent.out, silent.err) == ("", "")
    vision(verbose=1).fit(drawn)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Describing images" in shown.err
    assert shown.err == f"Describing images: {len(drawn)} of {len(drawn)}\n"


def test_opencv_without_its_contributed_modules_is_said(drawn, monkeypatch):
    monkeypatch.delattr(cv2, "xfeatures2d")
    with pytest.raises(ImportError, match=r"contributed modules.*pip install 'boostmetric\[vision\]'.*detector='sift'"):
        vision().fit(drawn)
    assert vision(detector="sift").fit_transform(drawn).any()


def test_without_opencv_there_is_a_hint():
    program = """
import sys
sys.modules["cv2"] = None  # as if it was not installed
import numpy as np
import boostmetric
from boostmetric.paper import experiments
from boostmetric.vision import VisualWords
try:
    VisualWords(n_jobs=1).fit(np.zeros((3, 30, 30)))
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "needs the package cv2, which is not installed. Install it: pip install 'boostmetric[vision]'" in done.stdout
