"""Model files: everything comes back, nothing that was changed does, and NumPy and safetensors are enough."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.datasets import load_wine

from boostmetric import BoostMetric, ComparisonBoostMetric, MahalanobisMetric, __version__
from boostmetric.baselines import LMNN, MMC, NCA, RCA, Euclidean, PSDBoost
from boostmetric.callbacks import EarlyStopping
from boostmetric.storage.tensor_file import _checksum, read_tensors, write_tensors
from conftest import corruptions, random_triplets

X, Y = load_wine(return_X_y=True)
FIXTURE = Path(__file__).parent / "data" / "model-v1.safetensors"


@pytest.fixture(scope="module")
def fitted():
    frame = load_wine(as_frame=True).data
    return BoostMetric.paper(max_iter=6, n_components=4, random_state=0).fit(frame, Y)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "model.safetensors"


def arrays(metric):
    """Everything of a metric, to be compared exactly."""
    numbers = [None if a is None else (a.dtype, a.shape, a.tobytes()) for a in (metric.directions, metric.step_sizes)]
    return metric.components.tobytes(), numbers, metric.feature_names, metric.about, metric.normalize


# --- round trips ------------------------------------------------------------------------------------------------------


def test_everything_comes_back_again_and_again(fitted, path):
    fitted.save(path)
    loaded = MahalanobisMetric.load(path)
    assert loaded.components.tobytes() == fitted.components_.tobytes()
    assert loaded.directions.tobytes() == fitted.directions_.tobytes()
    assert loaded.step_sizes.tobytes() == fitted.step_sizes_.tobytes()
    assert loaded.feature_names == load_wine().feature_names
    assert loaded.about == fitted.get_metric().about
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first
    assert arrays(MahalanobisMetric.load(path)) == arrays(loaded)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_file_says_what_was_done(fitted, path):
    fitted.save(path)
    about = MahalanobisMetric.load(path).about
    assert about["estimator"]["name"] == "BoostMetric"
    how_it_ran = {"n_jobs": None, "verbose": 0}
    assert about["estimator"]["parameters"] | how_it_ran == fitted.get_params()
    assert not about["estimator"]["parameters"].keys() & how_it_ran
    assert about["library"] == __version__
    training = about["training"]
    assert training["n_iter"] == 6
    assert training["stop_reason"] == str(fitted.stop_reason_)
    assert training["duality_gap"] == fitted.duality_gap_
    assert training["loss"] == fitted.history_[-1].loss
    assert training["satisfied"] == 1 - fitted.history_[-1].violated
    assert "held_out" not in training
    assert training["history"]["iteration"] == [1, 2, 3, 4, 5, 6]
    assert training["history"]["loss"] == pytest.approx([record.loss for record in fitted.history_], rel=1e-5)
    assert "held_out" not in training["history"]


def test_a_long_history_is_thinned():
    metric = BoostMetric.paper(max_iter=450).fit(X, Y)
    history = metric.get_metric().about["training"]["history"]
    number = history["iteration"]
    assert len(number) == 200
    assert (number[0], number[-1]) == (1, 450)
    assert set(np.diff(number)) == {2, 3}
    assert history["loss"] == pytest.approx([metric.history_[i - 1].loss for i in number], rel=1e-5)


def test_held_out_score_and_what_is_not_known():
    metric = BoostMetric.paper(max_iter=5, early_stopping=True, random_state=0).fit(X, Y)
    training = metric.get_metric().about["training"]
    assert training["held_out"] == metric.history_[-1].held_out
    assert training["history"]["held_out"] == pytest.approx([record.held_out for record in metric.history_], rel=1e-5)
    metric.partial_fit(X, Y)  # whose duality gap is NaN, and which keeps no history
    training = metric.get_metric().about["training"]
    assert training["n_batches"] == metric.n_batches_
    assert not {"duality_gap", "loss", "held_out"} & set(training)


def test_parameters_that_are_not_json_become_text(path):
    init, callbacks, seed = np.eye(13), [EarlyStopping(3)], np.random.RandomState(0)
    metric = BoostMetric.paper(
        init=init, callbacks=callbacks, random_state=seed, early_stopping=True, max_iter=np.int64(2)
    )
    metric.fit(X, Y).save(path)
    parameters = MahalanobisMetric.load(path).about["estimator"]["parameters"]
    assert parameters["init"] == "array of shape (13, 13)"
    assert parameters["callbacks"] == ["EarlyStopping"]
    assert parameters["random_state"] == "RandomState"
    assert parameters["max_iter"] == 2
    metric.set_params(init=MahalanobisMetric(init), callbacks=None, tol=float("inf"))
    parameters = metric.get_metric().about["estimator"]["parameters"]
    assert parameters["init"] == "MahalanobisMetric(n_components=13, n_features=13)"
    assert parameters["tol"] == "inf"


@pytest.mark.parametrize(
    "learner",
    [Euclidean(), MMC(), RCA(), NCA(max_iter=5, tol=0.5), LMNN(max_iter=20, tol=0.5), PSDBoost(n_impostors=1)],
)
def test_every_learner_saves(learner, path):
    learner.fit(X, Y).save(path)
    loaded = MahalanobisMetric.load(path)
    assert loaded.transform(X).tobytes() == learner.get_metric().transform(X).tobytes()
    assert loaded.about["estimator"]["name"] == type(learner).__name__
    assert loaded.about["training"]["stop_reason"] == str(learner.stop_reason_)
    assert (loaded.directions is not None) == isinstance(learner, PSDBoost)
    assert loaded.feature_names is None


def test_comparisons_and_a_metric_with_no_direction_at_all(path):
    problem = random_triplets(0)
    metric = ComparisonBoostMetric(max_iter=3).fit(problem.comparisons, points=problem.points)
    metric.save(path)
    assert arrays(MahalanobisMetric.load(path)) == arrays(metric.get_metric())
    with pytest.warns(UserWarning, match="Nothing was learned"):
        metric = BoostMetric.paper(regularization=1e9).fit(X, Y)
    metric.save(path)
    assert MahalanobisMetric.load(path).directions.shape == (0, 13)


def test_pairs_keep_their_threshold(path):
    pairs, y = np.array([[0, 1], [2, 3], [0, 100], [2, 150]]), [1, 1, -1, -1]
    metric = ComparisonBoostMetric(max_iter=2).fit(pairs, y, points=X)
    metric.save(path)
    assert MahalanobisMetric.load(path).about["training"]["threshold"] == metric.threshold_


def test_a_metric_of_ones_own(path):
    metric = MahalanobisMetric(np.arange(6.0).reshape(3, 2).T, about={"why": ["a", {"b": None}, 1.5, True, "ä\ud800"]})
    metric.save(str(path))
    assert arrays(MahalanobisMetric.load(str(path))) == arrays(metric)
    with pytest.raises(ValueError, match=r"cannot be written to .*model\.safetensors.* as JSON"):
        MahalanobisMetric([[1.0]], about={"x": np.eye(2)}).save(path)
    with pytest.raises(ValueError, match="as JSON"):
        MahalanobisMetric([[1.0]], about={"x": float("nan")}).save(path)
    assert arrays(MahalanobisMetric.load(path)) == arrays(metric)  # the old file is untouched


def test_numbers_as_keys_become_text(path):
    MahalanobisMetric([[1.0]], about={10: "a", 9: "b"}).save(path)
    assert MahalanobisMetric.load(path).about == {"10": "a", "9": "b"}


def test_truncated_metrics_keep_names_and_origin(fitted):
    metric = fitted.get_metric()
    short = metric.truncate(2)
    assert short.components.shape == (2, 13)
    assert (short.feature_names, short.about, short.directions) == (metric.feature_names, metric.about, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_shorter_numbers_are_read(path, dtype):
    components = np.array([[1.5, -2.0], [0.25, 3.0]])
    said = {"feature_names": None, "about": {}}
    write_tensors(path, "model", 1, {"components": components.astype(dtype)}, said)
    loaded = MahalanobisMetric.load(path).components
    assert loaded.dtype == np.float64
    assert np.array_equal(loaded, components)


# --- tables with other columns ----------------------------------------------------------------------------------------


def test_a_table_must_have_the_features_of_the_metric():
    metric = MahalanobisMetric([[1.0, 2.0]], feature_names=["a", "b"])
    table = pd.DataFrame({"a": [1.0], "b": [3.0]})
    assert metric.transform(table).tolist() == [[7.0]]
    assert metric.transform(table.to_numpy()).tolist() == [[7.0]]
    with pytest.raises(ValueError, match="found 'b' instead of 'a'"):
        metric.transform(table[["b", "a"]])
    with pytest.raises(ValueError, match="there are 3"):
        metric.transform(table.assign(c=1.0))
    assert metric.transform(table[["b", "a"]].set_axis([0, 1], axis=1)).tolist() == [[5.0]]  # columns without names


def test_features_may_come_in_another_order():
    metric = MahalanobisMetric(
        [[1.0, 2.0, 3.0]], feature_names=["a", "b", "c"], directions=[[1.0, 2.0, 3.0]], step_sizes=[1.0], normalize=True
    )
    other = metric.reorder(["c", "a", "b"])
    X = np.random.default_rng(0).random((4, 3))
    np.testing.assert_array_equal(other.transform(X[:, [2, 0, 1]]), metric.transform(X))
    np.testing.assert_array_equal(other.directions, [[3.0, 1.0, 2.0]])
    with pytest.raises(ValueError, match="'b' is missing"):
        metric.reorder(["a", "x", "c"])
    with pytest.raises(ValueError, match="the metric has no names"):
        MahalanobisMetric([[1.0]]).reorder(["a"])
    with pytest.raises(ValueError, match="have the same name"):
        MahalanobisMetric([[1.0, 2.0]], feature_names=["a", "a"]).reorder(["a", "a"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"feature_names": ["a"]}, "There are 1 feature_names, but the metric has 2"),
        ({"feature_names": "ab"}, "must be a list of strings"),
        ({"feature_names": [1, 2]}, "must be a list of strings"),
        ({"directions": [[1.0, 0.0]]}, "belong together"),
        ({"directions": [[1.0, 0.0]], "step_sizes": [1.0, 2.0]}, r"Got \(1, 2\) and \(2,\)"),
        ({"directions": [[1.0, 0.0]], "step_sizes": [-1.0]}, "not negative"),
        ({"directions": [[1.0, np.inf]], "step_sizes": [1.0]}, "must be finite"),
        ({"about": ["a"]}, "about must be a dictionary"),
    ],
)
def test_wrong_descriptions(given, message):
    with pytest.raises(ValueError, match=message):
        MahalanobisMetric([[1.0, 2.0]], **given)


# --- what loading needs -----------------------------------------------------------------------------------------------

_ALONE = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed:
            raise ImportError(f"{name} is not allowed")
allowed = {"boostmetric", "numpy", "safetensors", *sys.stdlib_module_names}
sys.meta_path.insert(0, Block())
from boostmetric import MahalanobisMetric
metric = MahalanobisMetric.load(sys.argv[1])
print(metric.distance([[1.0, 2.0, 3.0]], [[0.0, 0.0, 0.0]]).tolist())
metric.truncate(1).save(sys.argv[2])
"""


def test_numpy_and_safetensors_are_enough(tmp_path):
    command = [sys.executable, "-W", "error", "-c", _ALONE, str(FIXTURE), str(tmp_path / "again.safetensors")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [np.hypot(5.0, 1.5)]
    assert MahalanobisMetric.load(tmp_path / "again.safetensors").components.shape == (1, 3)


def test_a_file_of_the_first_version_loads_for_ever():
    metric = MahalanobisMetric.load(FIXTURE)
    assert metric.components.tolist() == [[1.0, 2.0, 0.0], [0.0, 0.0, 0.5]]
    assert metric.directions.tolist() == [[0.6, 0.8, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    assert metric.step_sizes.tolist() == [2.5, 0.25, 0.1]
    assert metric.feature_names == ["height", "width", "Tiefe in µm"]
    assert metric.about["estimator"] == {"name": "BoostMetric", "parameters": {"max_iter": 3, "init": "zero"}}
    assert metric.about["training"] == {"n_iter": 3, "stop_reason": "The iteration limit max_iter was reached."}
    assert metric.about["library"] == "0.1.0"
    assert FIXTURE.stat().st_size < 4096


def test_unit_length_comes_back_and_older_readers_refuse_it(path):
    metric = MahalanobisMetric([[1.0, 2.0]], feature_names=["a", "b"], about={"why": 1}, normalize=True)
    metric.save(path)
    assert arrays(MahalanobisMetric.load(path)) == arrays(metric)
    head = json.loads(_metadata(path))
    assert (head["version"], head["about"]["normalize"]) == (2, True)
    with pytest.raises(ValueError, match=r"version 2, but boostmetric .* reads version 1\. Install a newer"):
        read_tensors(path, "model", 1)  # as a reader that knows no `normalize` does
    BoostMetric.paper(max_iter=2, normalize=True).fit(X, Y).save(path)
    assert MahalanobisMetric.load(path).normalize
    assert "normalize" not in MahalanobisMetric.load(path).about["training"]


def test_other_files_are_as_they_were(path):
    assert not MahalanobisMetric.load(FIXTURE).normalize
    MahalanobisMetric.load(FIXTURE).save(path)
    before, after = (json.loads(_metadata(file)) for file in (FIXTURE, path))
    assert after == before | {"written_by": __version__, "sha256": after["sha256"]}
    if __version__ == before["written_by"]:
        assert path.read_bytes() == FIXTURE.read_bytes()


def test_a_file_of_the_second_version_loads_for_ever():
    metric = MahalanobisMetric.load(FIXTURE.with_name("model-v2.safetensors"))
    assert metric.normalize
    assert metric.feature_names == ["height", "width"]
    assert metric.transform([[3.0, 2.0]]).tolist() == [[0.6, 0.8]]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a complete safetensors file"),
        (b"\x93NUMPY\x01\x00v\x00", "not a complete safetensors file"),
        (b"\x80\x04\x95 a pickle, by its first bytes", "not a complete safetensors file"),
        (FIXTURE.read_bytes()[:-1], "not a complete safetensors file"),
        (FIXTURE.read_bytes() + b"\0", "not a complete safetensors file"),
        (struct.pack("<Q", 2) + b"{}", "no entry 'boostmetric'"),
    ],
)
def test_other_files_are_named_and_refused(tmp_path, content, message):
    path = tmp_path / "odd.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"odd\.safetensors' cannot be read as a model file .*{message}"):
        MahalanobisMetric.load(path)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model file .*none\.safetensors"):
        MahalanobisMetric.load(tmp_path / "none.safetensors")
    with pytest.raises(ValueError, match="is a folder"):
        MahalanobisMetric.load(tmp_path)


def _write(path, *, kind="model", version=1, said=None, **tensors):
    said = {"feature_names": None, "about": {}} if said is None else said
    write_tensors(path, kind, version, {name: np.asarray(array) for name, array in tensors.items()}, said)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"version": 3}, r"its format has version 3, but boostmetric .* reads versions 1 to 2\. Install a newer"),
        ({"version": 0}, "version 0"),
        ({"version": True}, "version True"),
        ({"kind": "index"}, r"it is of kind 'index', which boostmetric\.retrieval\.MetricIndex\.load reads"),
        ({"kind": "cake"}, "it is of kind 'cake'"),
        ({}, "it has no tensor 'components', only none"),
        ({"matrix": np.eye(2)}, "it has no tensor 'components', only matrix"),
        ({"components": np.eye(2, dtype=int)}, "'components' has dtype int64, not float64 or float32 or float16"),
        ({"components": np.ones(2)}, r"'components' has shape \(2,\), not \(any, any\)"),
        ({"components": np.empty((0, 2))}, "both positive"),
        ({"components": [[np.nan]]}, "'components' has NaN or infinite values"),
        ({"components": np.eye(2), "directions": np.eye(2)}, "no tensor 'step_sizes'"),
        ({"components": np.eye(2), "step_sizes": np.ones(2)}, "no tensor 'directions'"),
        (
            {"components": np.eye(2), "directions": np.eye(2), "step_sizes": np.ones(3)},
            r"'directions' has shape \(2, 2\), not \(3, 2\)",
        ),
        ({"components": np.eye(2), "directions": np.eye(2), "step_sizes": -np.ones(2)}, "not negative"),
        ({"components": np.eye(2), "said": {}}, "does not describe a metric"),
        ({"components": np.eye(2), "said": {"feature_names": ["a"], "about": {}}}, "1 feature_names"),
        ({"components": np.eye(2), "said": {"feature_names": 3, "about": {}}}, "does not describe a metric"),
        ({"components": np.eye(2), "said": {"feature_names": None, "about": "x"}}, "about must be a dictionary"),
        (
            {"components": np.eye(2), "said": {"feature_names": None, "about": {}, "normalize": "yes"}},
            r"normalize must be True or False\. Got 'yes'",
        ),
    ],
)
def test_whole_files_that_are_not_models(path, content, message):
    _write(path, **content)
    with pytest.raises(ValueError, match=rf"model\.safetensors' cannot be read as a model file .*{message}"):
        MahalanobisMetric.load(path)


def test_changed_numbers_and_changed_words_have_another_checksum(path):
    head = json.loads(_metadata(FIXTURE))
    tensors = load_file(FIXTURE)
    for change in [
        lambda t, h: t["components"].__setitem__((0, 0), 1.0000000000000002),
        lambda t, h: t.update(components=t["components"][::-1].copy()),
        lambda t, h: t.update(other=np.zeros(1)),
        lambda t, h: t.pop("step_sizes"),
        lambda t, h: h["about"]["about"]["training"].update(n_iter=4),
        lambda t, h: h["about"]["feature_names"].reverse(),
        lambda t, h: h["about"]["about"].update(more=float("nan")),
        lambda t, h: h.update(sha256="0" * 64),
        lambda t, h: h.pop("sha256"),
        lambda t, h: h.pop("written_by"),
    ]:
        changed, words = {name: array.copy() for name, array in tensors.items()}, json.loads(json.dumps(head))
        change(changed, words)
        save_file(changed, _made(path), {"boostmetric": json.dumps(words)})
        with pytest.raises(ValueError, match="does not match its checksum"):
            MahalanobisMetric.load(path)
    save_file(tensors, path, {"boostmetric": json.dumps(head, indent=1), "format": "np"})  # spaces do not matter
    assert arrays(MahalanobisMetric.load(path)) == arrays(MahalanobisMetric.load(FIXTURE))


@pytest.mark.parametrize("text", ["", "[]", "nothing", "[" * 100_000, '{"kind": ["model"]}', "null"])
def test_metadata_that_make_no_sense(path, text):
    save_file({"components": np.eye(2)}, _made(path), {"boostmetric": text})
    with pytest.raises(ValueError, match="cannot be read as a model file"):
        MahalanobisMetric.load(path)


@pytest.mark.parametrize("head", [{"about": {}}, {"about": [], "written_by": "1"}, {"about": {}, "written_by": 1}])
def test_metadata_with_a_right_checksum_that_say_too_little(path, head):
    tensors, head = {"components": np.eye(2)}, {"kind": "model", "version": 1, **head}
    words = json.dumps({**head, "sha256": _checksum(head, tensors)})
    save_file(tensors, _made(path), {"boostmetric": words})
    with pytest.raises(ValueError, match="lack a valid 'about' or 'written_by'"):
        MahalanobisMetric.load(path)


def test_types_that_numpy_does_not_have(path):
    header = b'{"components":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]}}'
    _made(path).write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0")
    with pytest.raises(ValueError, match="cannot be read as a model file"):
        MahalanobisMetric.load(path)


def test_random_damage_is_refused_or_does_no_harm(fitted, path):
    fitted.save(path)
    whole = MahalanobisMetric.load(path)
    refused = 0
    for damaged in corruptions(path.read_bytes(), 200, seed=0):
        path.write_bytes(damaged)
        try:
            loaded = MahalanobisMetric.load(path)
        except ValueError:
            refused += 1
        else:
            assert arrays(loaded) == arrays(whole)
    assert refused > 180


def test_reading_tells_who_wrote(path):
    _write(path, components=np.eye(2))
    assert read_tensors(path, "model", 1).written_by == __version__


def _metadata(path):
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size])["__metadata__"]["boostmetric"]


def _made(path):
    path.parent.mkdir(exist_ok=True)
    return path
