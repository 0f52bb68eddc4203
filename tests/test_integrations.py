"""A metric around the embeddings of LangChain and LlamaIndex, with the real packages where they are installed."""

import asyncio
import pickle

import numpy as np
import pytest

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.export import query_side
from boostmetric.integrations import langchain_embeddings, llama_index_embedding
from boostmetric.integrations.sides import Sides

TEXTS = ["red", "green", "blue", "a much longer text"]


def vector(text):
    return np.random.default_rng(list(text.encode())).standard_normal(6).tolist()


@pytest.fixture(params=[False, True], ids=["plain", "unit"])
def metric(request):
    return MahalanobisMetric(np.random.default_rng(0).standard_normal((3, 6)), normalize=request.param)


def expected(metric, side):
    """Vectors of the texts as documents, and as queries."""
    given = np.array([vector(text) for text in TEXTS])
    if side == "both":
        return metric.transform(given), metric.transform(given)
    return given, query_side(metric).transform_queries(given)


def embeddings_of_langchain():
    core = pytest.importorskip("langchain_core.embeddings")

    class Words(core.Embeddings):
        def embed_documents(self, texts):
            return [vector(text) for text in texts]

        def embed_query(self, text):
            return vector(text)

    return Words()


def embedding_of_llama_index():
    core = pytest.importorskip("llama_index.core.embeddings")

    class Words(core.BaseEmbedding):
        def _get_query_embedding(self, query):
            return vector(query)

        async def _aget_query_embedding(self, query):
            return vector(query)

        def _get_text_embedding(self, text):
            return vector(text)

    return Words(model_name="words", embed_batch_size=2)


@pytest.mark.filterwarnings("default")  # those of the frameworks are not ours
@pytest.mark.parametrize("side", ["both", "query"])
def test_langchain(metric, side, tmp_path):
    words = embeddings_of_langchain()
    metric.save(tmp_path / "model.safetensors")
    documents, queries = expected(metric, side)
    for given in (metric, tmp_path / "model.safetensors", str(tmp_path / "model.safetensors")):
        wrapped = langchain_embeddings(words, given, side)
        np.testing.assert_allclose(wrapped.embed_documents(TEXTS), documents)
        np.testing.assert_allclose(wrapped.embed_query("red"), queries[0])
    np.testing.assert_allclose(asyncio.run(wrapped.aembed_documents(TEXTS)), documents)
    np.testing.assert_allclose(asyncio.run(wrapped.aembed_query("red")), queries[0])
    assert wrapped.embed_documents([]) == []
    assert all(type(number) is float for number in (*wrapped.embed_query("red"), *wrapped.embed_documents(TEXTS)[0]))


@pytest.mark.filterwarnings("default")
def test_a_vector_store_of_langchain_finds_the_learned_neighbors():
    words = embeddings_of_langchain()
    from langchain_core.vectorstores import InMemoryVectorStore

    metric = MahalanobisMetric(np.random.default_rng(0).standard_normal((3, 6)), normalize=True)
    store = InMemoryVectorStore(langchain_embeddings(words, metric))
    names = [f"document {number}" for number in range(50)]
    store.add_texts(names)
    found = [document.page_content for document in store.similarity_search("a question", k=5)]
    nearest = np.argsort(metric.distance(vector("a question"), [vector(name) for name in names]))[:5]
    assert found == [names[number] for number in nearest]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("side", ["both", "query"])
def test_llama_index(metric, side):
    wrapped = llama_index_embedding(embedding_of_llama_index(), metric, side)
    documents, queries = expected(metric, side)
    np.testing.assert_allclose(wrapped.get_text_embedding_batch(TEXTS), documents)
    np.testing.assert_allclose(wrapped.get_text_embedding("red"), documents[0])
    np.testing.assert_allclose(wrapped.get_query_embedding("red"), queries[0])
    np.testing.assert_allclose(asyncio.run(wrapped.aget_text_embedding_batch(TEXTS)), documents)
    np.testing.assert_allclose(asyncio.run(wrapped.aget_text_embedding("red")), documents[0])
    np.testing.assert_allclose(asyncio.run(wrapped.aget_query_embedding("red")), queries[0])
    assert wrapped.embed_batch_size == 2


@pytest.mark.filterwarnings("default")
def test_llama_index_embeds_nodes_and_keeps_caches_apart():
    words = embedding_of_llama_index()
    from llama_index.core.schema import TextNode

    one, other = (MahalanobisMetric(scale * np.eye(3, 6)) for scale in (1.0, 2.0))
    wrapped = llama_index_embedding(words, one)
    (node,) = wrapped([TextNode(text="red")])
    np.testing.assert_allclose(node.embedding, vector("red")[:3])
    names = [llama_index_embedding(words, *given).model_name for given in ((one,), (other,), (one, "query"))]
    assert len({*names}) == 3
    assert names[0] == wrapped.model_name
    assert names[0].startswith("words+boostmetric-")
    assert wrapped.to_dict()["model_name"] == names[0]


@pytest.mark.filterwarnings("default")
def test_wrapped_embeddings_can_be_pickled():
    core = pytest.importorskip("langchain_core.embeddings")
    base = core.DeterministicFakeEmbedding(size=6)
    wrapped = langchain_embeddings(base, MahalanobisMetric(np.eye(3, 6)))
    assert pickle.loads(pickle.dumps(wrapped)).embed_query("red") == wrapped.embed_query("red")
    core = pytest.importorskip("llama_index.core.embeddings")
    wrapped = llama_index_embedding(core.MockEmbedding(embed_dim=6), MahalanobisMetric(np.eye(3, 6)))
    assert pickle.loads(pickle.dumps(wrapped)).get_query_embedding("red") == wrapped.get_query_embedding("red")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("wrap", "package"), [(langchain_embeddings, "langchain_core"), (llama_index_embedding, "llama_index.core")]
)
def test_what_is_no_embedding_is_refused(wrap, package):
    pytest.importorskip(package)
    with pytest.raises(TypeError, match=r"Got list\."):
        wrap([], MahalanobisMetric([[1.0]]))


@pytest.mark.parametrize(
    ("wrap", "package", "extra"),
    [(langchain_embeddings, "langchain_core", "langchain"), (llama_index_embedding, "llama_index", "llama-index")],
)
def test_a_missing_framework_is_named(wrap, package, extra, monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs the package {package}.*boostmetric\[{extra}\]"):
        wrap(None, MahalanobisMetric([[1.0]]))


def test_sides_take_what_exports_take():
    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2
    learner = BoostMetric.paper(max_iter=3).fit(X, y)
    assert Sides(learner, "both").query(X[0].tolist()) == learner.transform(X[:1])[0].tolist()
    with pytest.raises(ValueError, match="side must be one of 'both', 'query'"):
        Sides(learner, "documents")
    with pytest.raises(FileNotFoundError, match="There is no model file"):
        Sides("nothing.safetensors", "both")
    with pytest.raises(TypeError, match="There is no metric to export"):
        Sides(None, "both")
