"""Exported metrics: what other programs compute with them is the learned distance."""

import csv
import json
import os
import sqlite3
import stat
import sys

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_wine

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.baselines import RCA
from boostmetric.export import (
    largest_change,
    query_side,
    to_csv,
    to_faiss,
    to_json,
    to_numpy,
    to_onnx,
    to_query_side,
    to_sentence_transformers,
    to_sql,
)
from boostmetric.storage.files import new_folder


@pytest.fixture
def metric():
    """From 12 features to 5, with very different weights."""
    rng = np.random.default_rng(0)
    return MahalanobisMetric(rng.standard_normal((5, 12)) * np.array([[10.0], [3.0], [1.0], [0.3], [0.1]]))


def unit_vectors(n_vectors, n_features=12, seed=1):
    vectors = np.random.default_rng(seed).standard_normal((n_vectors, n_features))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def neighbors(metric, queries, documents, k=5):
    return np.argsort(cdist(metric.transform(queries), metric.transform(documents)), axis=1)[:, :k]


# NumPy, and precision


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numpy_matrix_transforms_rows(metric, tmp_path, dtype):
    path = to_numpy(metric, tmp_path / "metric.npy", dtype=dtype)
    M = np.load(path, allow_pickle=False)
    X = unit_vectors(20)
    assert path == tmp_path / "metric.npy"
    assert M.dtype == dtype
    assert M.shape == (12, 5)
    np.testing.assert_allclose(X @ M.astype(float), metric.transform(X), rtol=0, atol=20 * np.finfo(dtype).eps)


def test_a_fitted_learner_is_exported_as_its_metric(tmp_path):
    learner = RCA().fit(*load_wine(return_X_y=True))
    M = np.load(to_numpy(learner, tmp_path / "metric.npy", dtype="float64"))
    np.testing.assert_array_equal(M, learner.components_.T)


def test_what_is_no_metric_is_refused(tmp_path):
    with pytest.raises(
        TypeError, match=r"metric must be a fitted learner.*Got array.*MahalanobisMetric\(components\) makes a metric"
    ):
        to_numpy(np.eye(3), tmp_path / "metric.npy")
    with pytest.raises(ValueError, match="not fitted"):
        to_numpy(BoostMetric.paper(), tmp_path / "metric.npy")
    assert list(tmp_path.iterdir()) == []


def test_a_name_without_suffix_is_kept(metric, tmp_path):
    to_numpy(metric, str(tmp_path / "new" / "metric"))
    to_query_side(metric, tmp_path / "new" / "sides")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["metric", "sides"]


def test_types_are_checked(metric, tmp_path):
    with pytest.raises(ValueError, match=r"dtype must be one of 'float16', 'float32', 'float64'\. Got 'int8'"):
        to_numpy(metric, tmp_path / "metric.npy", dtype="int8")
    with pytest.raises(ValueError, match=r"dtype must be one of 'float16', 'float32'\. Got 'float64'"):
        to_sentence_transformers(metric, tmp_path / "dense", dtype="float64")


def test_too_large_for_float16_names_a_remedy_that_works(tmp_path):
    large = MahalanobisMetric(1e5 * np.eye(3))
    with pytest.raises(ValueError, match=r"length 1e\+05, but float16 ends at 65504") as error:
        to_numpy(large, tmp_path / "metric.npy", dtype="float16")
    assert "MahalanobisMetric(metric.components / 2.0**17)" in str(error.value)
    smaller = MahalanobisMetric(large.components / 2.0**17)
    M = np.load(to_numpy(smaller, tmp_path / "metric.npy", dtype="float16"))
    np.testing.assert_allclose(M, np.eye(3) * 1e5 / 2**17, rtol=1e-3)


def test_a_sum_that_float16_cannot_hold_is_refused(tmp_path):
    # Each number fits, but a unit vector along the diagonal becomes longer than 65504.
    with pytest.raises(ValueError, match=r"length 8e\+04, but float16"):
        to_numpy(MahalanobisMetric(np.full((1, 4), 4e4)), tmp_path / "metric.npy", dtype="float16")


def test_too_large_for_float32_does_not_recommend_float32(tmp_path):
    with pytest.raises(ValueError, match=r"float32 ends at 3\.4028e\+38") as error:
        to_numpy(MahalanobisMetric([[1e39]]), tmp_path / "metric.npy")
    assert "or use" not in str(error.value)


def test_too_small_for_float16_warns_with_a_remedy_that_works(metric, tmp_path):
    small = MahalanobisMetric(metric.components * 2.0**-26)
    with pytest.warns(UserWarning, match=r"Rounding the metric to float16.*components \* 2\.0\*\*21\)"):
        to_numpy(small, tmp_path / "metric.npy", dtype="float16")
    to_numpy(MahalanobisMetric(small.components * 2.0**21), tmp_path / "metric.npy", dtype="float16")


@hypothesis.given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(1e-2, 1e3))
def test_float16_changes_distances_by_less_than_its_rounding(seed, rank, scale):
    components = scale * np.random.default_rng(seed).standard_normal((rank, 6))
    # A number changes by 2^-11 of itself, so |Lv| by 2^-11 |L| |v|, in Frobenius's norm; its mean is |L| and |v| < 6.
    assert largest_change(MahalanobisMetric(components)) < 2.0**-11 * 8


def test_the_change_is_infinite_where_numbers_overflow():
    assert largest_change(MahalanobisMetric([[1e6, 0.0]])) == np.inf
    assert largest_change(MahalanobisMetric([[1e6, 0.0]]), "float32") < 1e-7


def test_the_zero_metric_is_exported(tmp_path):
    zero = MahalanobisMetric(np.zeros((1, 3)))
    assert not np.load(to_numpy(zero, tmp_path / "metric.npy", dtype="float16")).any()
    assert query_side(zero).scale == 1.0


# faiss


@pytest.mark.parametrize("description", ["Flat", "HNSW32", "SQfp16", "IVF8,Flat"])
def test_faiss_finds_the_learned_neighbors(metric, tmp_path, description):
    faiss = pytest.importorskip("faiss")
    documents, queries = unit_vectors(500), unit_vectors(20, seed=2)
    index = faiss.read_index(str(to_faiss(metric, tmp_path / "metric.faiss", description)))
    assert index.d == 12
    assert index.ntotal == 0
    if not index.is_trained:
        index.train(documents)
        faiss.extract_index_ivf(index).nprobe = 8
    index.add(documents)
    squared, found = index.search(queries, 5)
    expected = neighbors(metric, queries, documents)
    if description in ("Flat", "IVF8,Flat"):
        np.testing.assert_array_equal(found, expected)
        distance = metric.distance(queries[:, None], documents[found])
        np.testing.assert_allclose(squared, distance**2, rtol=1e-4, atol=1e-4)
    else:  # a graph may miss one, and float16 may exchange two
        assert np.mean([len(set(a) & set(b)) for a, b in zip(found, expected, strict=True)]) > 4.9


def test_faiss_compares_angles_and_keeps_ids(metric, tmp_path):
    faiss = pytest.importorskip("faiss")
    documents, queries = unit_vectors(200), unit_vectors(20, seed=2)
    index = faiss.read_index(str(to_faiss(metric, tmp_path / "metric.faiss", "L2norm,IDMap,Flat")))
    index.add_with_ids(documents, np.arange(200) + 1000)
    expected = cdist(metric.transform(queries), metric.transform(documents), "cosine").argmin(axis=1)
    np.testing.assert_array_equal(index.search(queries, 1)[1][:, 0], expected + 1000)


def test_faiss_descriptions_are_checked(metric, tmp_path):
    pytest.importorskip("faiss")
    with pytest.raises(ValueError, match="from index='Flatt': could not parse index string Flatt"):
        to_faiss(metric, tmp_path / "metric.faiss", "Flatt")
    with pytest.raises(TypeError, match="index must be a string"):
        to_faiss(metric, tmp_path / "metric.faiss", 32)
    assert list(tmp_path.iterdir()) == []


# ONNX


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_onnx_transforms_batches_of_any_size(metric, tmp_path, dtype):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(to_onnx(metric, tmp_path / "metric.onnx", dtype=dtype))
    (given,), (answered,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.shape) == ("vectors", ["batch", 12])
    assert (answered.name, answered.shape) == ("transformed", ["batch", 5])
    for n_vectors in (1, 7, 300):
        X = unit_vectors(n_vectors).astype(dtype)
        (transformed,) = session.run(None, {"vectors": X})
        assert transformed.dtype == dtype
        np.testing.assert_allclose(transformed, metric.transform(X), rtol=0, atol=40 * np.finfo(dtype).eps)


def test_onnx_model_is_one_product_that_old_runtimes_load(metric, tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(to_onnx(metric, tmp_path / "metric.onnx"))
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["MatMul"]
    assert model.ir_version <= 7
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 13)]
    assert model.producer_name == "boostmetric"


# sentence-transformers


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_dense_folder_has_the_documented_layout(metric, tmp_path, dtype):
    folder = to_sentence_transformers(metric, tmp_path / "3_Dense", dtype=dtype)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert json.loads((folder / "config.json").read_text()) == {
        "in_features": 12,
        "out_features": 5,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    weights = load_file(folder / "model.safetensors")
    assert list(weights) == ["linear.weight"]
    assert weights["linear.weight"].dtype == dtype
    np.testing.assert_array_equal(weights["linear.weight"], metric.components.astype(dtype))


@pytest.mark.filterwarnings("default")  # those of torch and transformers are not ours
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sentence_transformers_loads_the_folder(metric, tmp_path, dtype):
    pytest.importorskip("sentence_transformers")
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense

    module = Dense.load(str(to_sentence_transformers(metric, tmp_path / "3_Dense", dtype=dtype)))
    X = unit_vectors(20)
    with torch.no_grad():
        answer = module({"sentence_embedding": torch.from_numpy(X)})["sentence_embedding"].numpy()
    np.testing.assert_allclose(answer, metric.transform(X), rtol=0, atol=20 * np.finfo(dtype).eps)
    (tmp_path / "again").mkdir()
    module.save(str(tmp_path / "again"))
    saved = json.loads((tmp_path / "again" / "config.json").read_text())
    ours = json.loads((tmp_path / "3_Dense" / "config.json").read_text())
    assert ours.items() <= saved.items()
    assert sorted(p.name for p in (tmp_path / "again").iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.filterwarnings("default")
def test_a_sentence_transformer_ends_with_the_metric(metric, tmp_path):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "red": 1, "green": 2, "blue": 3}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    words = StaticEmbedding(tokenizer, embedding_weights=unit_vectors(4))
    base = SentenceTransformer(modules=[words, Normalize()], device="cpu")
    dense = Dense.load(str(to_sentence_transformers(metric, tmp_path / "dense")))
    model = SentenceTransformer(modules=[*base, dense], similarity_fn_name="euclidean", device="cpu")
    model.save_pretrained(str(tmp_path / "model"))
    model = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    texts = ["red green", "blue", "green green blue"]
    before, after = base.encode(texts), model.encode(texts)
    np.testing.assert_allclose(after, metric.transform(before), atol=1e-5)
    expected = -metric.distance(before[:, None], before[None])
    np.testing.assert_allclose(model.similarity(after, after).numpy(), expected, atol=1e-3)


def test_a_full_folder_is_not_replaced(metric, tmp_path):
    (tmp_path / "empty").mkdir()
    to_sentence_transformers(metric, tmp_path / "empty")
    with pytest.raises(FileExistsError, match=r"already exists\. Remove it, or name a new folder"):
        to_sentence_transformers(metric, tmp_path / "empty")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


def test_a_folder_is_whole_or_not_there(tmp_path):
    def half():
        with new_folder(tmp_path / "folder") as temporary:
            (temporary / "first").write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        half()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_others_may_read_a_folder(tmp_path):
    before = os.umask(0o022)
    try:
        with new_folder(tmp_path / "folder") as temporary:
            (temporary / "file").write_text("")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o755


# text


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_text_holds_the_matrix_of_numpy(metric, tmp_path, dtype):
    M = np.load(to_numpy(metric, tmp_path / "metric.npy", dtype=dtype))
    stored = json.loads(to_json(metric, tmp_path / "metric.json", dtype=dtype).read_text())
    assert np.array_equal(np.array(stored.pop("matrix"), dtype=dtype), M)
    assert stored == {"n_features": 12, "n_components": 5, "feature_names": None, "normalize": False}
    with to_csv(metric, tmp_path / "metric.csv", dtype=dtype).open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["feature", *(f"component_{number}" for number in range(5))]
    assert [row[0] for row in rows] == [str(number) for number in range(12)]
    assert np.array_equal(np.array([row[1:] for row in rows], dtype=dtype), M)
    database = sqlite3.connect(":memory:")
    database.executescript(to_sql(metric, tmp_path / "metric.sql", dtype=dtype).read_text())
    weights = database.execute("select feature, component, weight from metric").fetchall()
    assert len(weights) == M.size
    assert all(np.dtype(dtype).type(weight) == M[feature - 1, component - 1] for feature, component, weight in weights)


def test_the_comment_in_sql_maps_vectors(tmp_path):
    metric = MahalanobisMetric(np.random.default_rng(0).standard_normal((40, 30)))  # several statements
    script = to_sql(metric, tmp_path / "metric.sql", dtype="float64").read_text()
    assert script.count("insert into") == 3
    X = np.random.default_rng(1).standard_normal((4, 30))
    database = sqlite3.connect(":memory:")
    database.executescript(script)
    database.execute("create table vectors (id integer, feature integer, value real)")
    rows = [(id, feature + 1, value) for id, row in enumerate(X.tolist()) for feature, value in enumerate(row)]
    database.executemany("insert into vectors values (?, ?, ?)", rows)
    query = " ".join(line.removeprefix("--") for line in script.splitlines()[2:4])
    mapped = np.zeros((4, 40))
    for id, component, value in database.execute(query):
        mapped[id, component - 1] = value
    np.testing.assert_allclose(mapped, metric.transform(X))


def test_names_and_unit_length_are_in_the_text(tmp_path):
    metric = MahalanobisMetric([[1.0, 2.0]], feature_names=["width, in mm", 'the "other"'], normalize=True)
    stored = json.loads(to_json(metric, tmp_path / "metric.json").read_text())
    assert (stored["feature_names"], stored["normalize"]) == (metric.feature_names, True)
    with to_csv(metric, tmp_path / "metric.csv").open(newline="") as file:
        assert [row[0] for row in csv.reader(file)] == ["feature", *metric.feature_names]
    assert "compared by cosine." in to_sql(metric, tmp_path / "metric.sql").read_text()


# the query side


def test_query_side_scores_are_the_distances(metric):
    queries, documents = unit_vectors(20, seed=2), unit_vectors(100)
    side = query_side(metric)
    scores = side.transform_queries(queries) @ documents.T + side.document_numbers(documents)
    own = -2 * side.document_numbers(queries)[:, None]
    np.testing.assert_allclose(own - 2 * scores, metric.distance(queries[:, None], documents) ** 2, atol=1e-10)
    np.testing.assert_allclose(queries @ side.matrix, side.transform_queries(queries), atol=1e-10)
    extended = side.extended_queries(queries) @ side.extended_documents(documents).T
    np.testing.assert_allclose(extended, side.scale * scores, atol=1e-12)


@hypothesis.given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_the_appended_coordinate_is_small(seed, size, length):
    rng = np.random.default_rng(seed)
    metric, documents = MahalanobisMetric(size * rng.standard_normal((3, 4))), length * unit_vectors(20, 4, seed)
    side = query_side(metric, document_length=length)
    extended = side.extended_documents(documents)
    np.testing.assert_allclose(extended[:, :-1], documents)
    assert (np.abs(extended[:, -1]) <= 0.125 * length * (1 + 1e-6)).all()
    most = float(metric.eigenvalues[0]) * length**2 / 2 * side.scale
    assert most > 0.06 * length  # and no smaller than it need be


def test_a_graph_of_extended_documents_finds_neighbors(metric):
    faiss = pytest.importorskip("faiss")
    documents, queries = unit_vectors(2000), unit_vectors(200, seed=2)
    expected = neighbors(metric, queries, documents, 1)[:, 0]

    def found(side):
        index = faiss.index_factory(13, "HNSW32", faiss.METRIC_INNER_PRODUCT)
        index.add(side.extended_documents(documents).astype(np.float32))
        index.hnsw.efSearch = 128
        answer = index.search(side.extended_queries(queries).astype(np.float32), 1)[1][:, 0]
        return (answer == expected).mean()

    unscaled = query_side(metric)
    unscaled.scale = 1.0
    assert found(query_side(metric)) > 0.9
    assert found(unscaled) < 0.5  # what the scale is there for


def test_query_side_takes_single_and_sparse_vectors(metric):
    side, X = query_side(metric), sparse.random(6, 12, density=0.5, format="csr", random_state=0)
    for method in (side.transform_queries, side.document_numbers, side.extended_queries, side.extended_documents):
        np.testing.assert_allclose(method(X), method(X.toarray()), atol=1e-12)
        np.testing.assert_allclose(method(X.toarray()[0]), method(X.toarray())[0], atol=1e-12)


def test_query_side_parameters_are_checked(metric):
    with pytest.raises(ValueError, match=r"document_length must be a finite number above 0\. Got 0"):
        query_side(metric, document_length=0)
    with pytest.raises(ValueError, match="The metric has 12 features, but the points have shape"):
        query_side(metric).extended_documents(np.ones((2, 3)))
    assert repr(query_side(metric)).startswith("QuerySide(MahalanobisMetric(n_components=5")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_query_side_file_is_enough_to_rank(metric, tmp_path, dtype):
    queries, documents = unit_vectors(20, seed=2), unit_vectors(100)
    with np.load(to_query_side(metric, tmp_path / "sides.npz", dtype), allow_pickle=False) as file:
        arrays = dict(file)
    assert sorted(arrays) == ["documents", "queries", "scale"]
    assert arrays["queries"].dtype == arrays["documents"].dtype == dtype
    assert arrays["scale"] == query_side(metric).scale
    scores = queries @ arrays["queries"] @ documents.T - 0.5 * ((documents @ arrays["documents"]) ** 2).sum(axis=1)
    best = metric.distance(queries, documents[scores.argmax(axis=1)])
    nearest = metric.distance(queries[:, None], documents).min(axis=1)
    np.testing.assert_allclose(best, nearest, atol=0.1 if dtype == "float16" else 1e-3)


def test_query_side_file_refuses_what_float16_cannot_hold(tmp_path):
    # The components would fit; their square does not.
    with pytest.raises(ValueError, match=r"length 9e\+04, but float16"):
        to_query_side(MahalanobisMetric([[300.0]]), tmp_path / "sides.npz", dtype="float16")


# unit length


@pytest.fixture
def unit(metric):
    """The same map, and unit length after it."""
    return MahalanobisMetric(metric.components, normalize=True)


@pytest.fixture
def of_any_length():
    """Documents and queries whose lengths differ, so that the learned distance and cosine give different orders."""
    lengths = np.random.default_rng(3).uniform(0.2, 5, (520, 1)).astype(np.float32)
    vectors = unit_vectors(520) * lengths
    return vectors[:500], vectors[500:]


def by_cosine(metric, queries, documents, k=5):
    return np.argsort(cdist(queries @ metric.components.T, documents @ metric.components.T, "cosine"), axis=1)[:, :k]


def test_a_matrix_is_for_cosine(unit, of_any_length, tmp_path):
    documents, queries = of_any_length
    M = np.load(to_numpy(unit, tmp_path / "metric.npy"))
    found = np.argsort(cdist(queries @ M, documents @ M, "cosine"), axis=1)[:, :5]
    np.testing.assert_array_equal(found, neighbors(unit, queries, documents))
    np.testing.assert_array_equal(found, by_cosine(unit, queries, documents))


@pytest.mark.parametrize("description", ["Flat", "HNSW32", "IVF8,Flat"])
def test_faiss_ranks_at_unit_length(metric, unit, of_any_length, tmp_path, description):
    faiss = pytest.importorskip("faiss")
    documents, queries = of_any_length
    index = faiss.read_index(str(to_faiss(unit, tmp_path / "metric.faiss", description)))
    chain = [faiss.downcast_VectorTransform(index.chain.at(i)) for i in range(index.chain.size())]
    assert [type(one).__name__ for one in chain] == ["LinearTransform", "NormalizationTransform"]
    if not index.is_trained:
        index.train(documents)
        faiss.extract_index_ivf(index).nprobe = 8
    index.add(documents)
    squared, found = index.search(queries, 5)
    expected = neighbors(unit, queries, documents)
    assert np.mean([len(set(a) & set(b)) for a, b in zip(found, expected, strict=True)]) > 4.9
    if description != "HNSW32":
        np.testing.assert_array_equal(found, expected)
    assert (found != neighbors(metric, queries, documents)).any()
    np.testing.assert_allclose(squared, unit.distance(queries[:, None], documents[found]) ** 2, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_onnx_gives_unit_length(unit, of_any_length, tmp_path, dtype):
    onnxruntime = pytest.importorskip("onnxruntime")
    documents, queries = of_any_length
    # Longer than 256, so that squares do not fit in float16.
    large = MahalanobisMetric(unit.components * 64, normalize=True)
    session = onnxruntime.InferenceSession(to_onnx(large, tmp_path / "metric.onnx", dtype=dtype))

    def mapped(X):
        return session.run(["transformed"], {"vectors": X.astype(dtype)})[0]

    assert session.get_outputs()[0].shape == ["batch", 5]
    assert mapped(queries).dtype == dtype
    np.testing.assert_allclose(mapped(documents), unit.transform(documents), rtol=0, atol=8 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(mapped(np.zeros((2, 12))), np.zeros((2, 5)))
    if dtype == "float32":
        found = np.argsort(-mapped(queries) @ mapped(documents).T, axis=1)[:, :5]
        np.testing.assert_array_equal(found, by_cosine(unit, queries, documents))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_onnx_model_of_unit_length_is_one_that_old_runtimes_load(unit, tmp_path, dtype):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(to_onnx(unit, tmp_path / "metric.onnx", dtype=dtype))
    onnx.checker.check_model(model, full_check=True)
    nodes = ["MatMul", "ReduceL2", "Max", "Div"]
    if dtype == "float16":
        nodes = ["MatMul", "Cast", *nodes[1:], "Cast"]
    assert [node.op_type for node in model.graph.node] == nodes
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 13)]


def test_a_normalize_module_follows_the_dense_one(unit, of_any_length, tmp_path):
    documents, queries = of_any_length
    folder = to_sentence_transformers(unit, tmp_path / "modules")
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "0_Dense/config.json",
        "0_Dense/model.safetensors",
        "1_Normalize/config.json",
        "modules.json",
    ]
    assert [(entry["path"], entry["type"]) for entry in json.loads((folder / "modules.json").read_text())] == [
        ("0_Dense", "sentence_transformers.models.Dense"),
        ("1_Normalize", "sentence_transformers.models.Normalize"),
    ]
    assert json.loads((folder / "0_Dense" / "config.json").read_text())["out_features"] == 5
    L = load_file(folder / "0_Dense" / "model.safetensors")["linear.weight"]
    found = np.argsort(cdist(queries @ L.T, documents @ L.T, "cosine"), axis=1)[:, :5]  # what the two modules compute
    np.testing.assert_array_equal(found, neighbors(unit, queries, documents))


@pytest.mark.filterwarnings("default")  # those of torch and transformers are not ours
def test_sentence_transformers_loads_both_modules(unit, of_any_length, tmp_path):
    pytest.importorskip("sentence_transformers")
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    documents, _ = of_any_length
    folder = to_sentence_transformers(unit, tmp_path / "modules")
    modules = [Dense.load(str(folder / "0_Dense")), Normalize.load(str(folder / "1_Normalize"))]
    features = {"sentence_embedding": torch.from_numpy(documents)}
    with torch.no_grad():
        for module in modules:
            features = module(features)
    np.testing.assert_allclose(features["sentence_embedding"].numpy(), unit.transform(documents), atol=1e-6)


def test_query_side_scores_are_cosines(unit, of_any_length):
    documents, queries = of_any_length
    side = query_side(unit)
    scores = side.transform_queries(queries) @ documents.T * side.document_numbers(documents)
    np.testing.assert_allclose(scores, unit.transform(queries) @ unit.transform(documents).T, atol=1e-6)
    np.testing.assert_array_equal(np.argsort(-scores, axis=1)[:, :5], neighbors(unit, queries, documents))
    extended = side.extended_queries(queries) @ side.extended_documents(documents).T
    np.testing.assert_allclose(extended, scores, atol=1e-6)
    assert side.scale == 1.0
    # What would not do: the documents as they are, by inner product or by cosine.
    changed = side.transform_queries(queries)
    for metric in ("cosine", lambda q, d: -q @ d):
        found = np.argsort(cdist(changed, documents, metric), axis=1)[:, :5]
        assert (found != neighbors(unit, queries, documents)).any()


def test_query_side_at_unit_length_takes_single_sparse_and_zero_vectors(unit):
    side, X = query_side(unit), sparse.random(6, 12, density=0.5, format="csr", random_state=0)
    for method in (side.transform_queries, side.document_numbers, side.extended_queries, side.extended_documents):
        np.testing.assert_allclose(method(X), method(X.toarray()), atol=1e-12)
        np.testing.assert_allclose(method(X.toarray()[0]), method(X.toarray())[0], atol=1e-12)
        assert not method(np.zeros(12)).any()
    with pytest.raises(ValueError, match="overflows under the metric"):
        side.document_numbers(np.full(12, 1e-311))


def test_query_side_file_at_unit_length_is_enough_to_rank(metric, unit, of_any_length, tmp_path):
    documents, queries = of_any_length
    with np.load(to_query_side(unit, tmp_path / "sides.npz"), allow_pickle=False) as file:
        arrays = dict(file)
    assert sorted(arrays) == ["documents", "normalize", "queries", "scale"]
    assert arrays["normalize"]
    scores = queries @ arrays["queries"] @ documents.T / np.linalg.norm(documents @ arrays["documents"], axis=1)
    np.testing.assert_array_equal(np.argsort(-scores, axis=1)[:, :5], neighbors(unit, queries, documents))


def test_remedies_keep_the_unit_length(tmp_path):
    large = MahalanobisMetric(1e5 * np.eye(3), normalize=True)
    with pytest.raises(ValueError, match=r"MahalanobisMetric\(metric\.components / 2\.0\*\*17, normalize=True\)"):
        to_numpy(large, tmp_path / "metric.npy", dtype="float16")
    with pytest.warns(UserWarning, match=r"components \* 2\.0\*\*29, normalize=True\)"):
        to_numpy(MahalanobisMetric(1e-9 * np.eye(3), normalize=True), tmp_path / "metric.npy", dtype="float16")
    assert largest_change(MahalanobisMetric(1e-9 * np.eye(3), normalize=True)) > 0.5
    assert largest_change(MahalanobisMetric(np.eye(3), normalize=True)) == 0.0


# packages that are missing


@pytest.mark.parametrize(("write", "package"), [(to_faiss, "faiss"), (to_onnx, "onnx")])
def test_a_missing_package_is_named(metric, tmp_path, monkeypatch, write, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs the package {package}.*pip install 'boostmetric\[{package}\]'"):
        write(metric, tmp_path / "file")
