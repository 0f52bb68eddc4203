"""Put a metric around the embeddings of LangChain and LlamaIndex."""

from __future__ import annotations

from typing import Any

from boostmetric.integrations.sides import AnyMetric, Side, Sides
from boostmetric.optional import require


def langchain_embeddings(embeddings: Any, metric: AnyMetric, side: Side = "both") -> Any:
    """Put a learned metric around any embeddings of LangChain.

    Parameters
    ----------
    embeddings : langchain_core.embeddings.Embeddings
        The embeddings that the metric was learned on.
    metric : MahalanobisMetric, fitted learner, or path of a model file
    side : {"both", "query"}, default="both"
        Whether documents are mapped too. With "both", the vector store compares by Euclidean distance, or by cosine if
        the metric scales points to unit length (`normalize`). "query" is for a store that cannot be rebuilt: documents
        stay as they are, and the store compares by inner product. That is an approximation, which may be worse than no
        metric: see the row "(query side)" of `boostmetric.evaluation.evaluate_rankings`.

    Returns
    -------
    langchain_core.embeddings.Embeddings

    Examples
    --------
    ::

        from langchain_core.vectorstores import InMemoryVectorStore
        from boostmetric.integrations import langchain_embeddings

        store = InMemoryVectorStore(langchain_embeddings(OpenAIEmbeddings(), "model.safetensors"))
    """
    require("langchain_core", "langchain", "langchain_embeddings")
    from boostmetric.integrations.langchain_class import LangChainEmbeddings

    return LangChainEmbeddings(embeddings, Sides(metric, side))


def llama_index_embedding(embedding: Any, metric: AnyMetric, side: Side = "both") -> Any:
    """Put a learned metric around any embedding of LlamaIndex.

    Parameters
    ----------
    embedding : llama_index.core.embeddings.BaseEmbedding
        The embedding that the metric was learned on.
    metric, side
        As in `langchain_embeddings`. The name of the model changes with the metric, so that caches of LlamaIndex keep
        the vectors of two metrics apart.

    Returns
    -------
    llama_index.core.embeddings.BaseEmbedding

    Examples
    --------
    ::

        from llama_index.core import Settings
        from boostmetric.integrations import llama_index_embedding

        Settings.embed_model = llama_index_embedding(OpenAIEmbedding(), "model.safetensors")
    """
    require("llama_index.core", "llama-index", "llama_index_embedding")
    from boostmetric.integrations.llama_index_class import LlamaIndexEmbedding

    return LlamaIndexEmbedding(embedding, Sides(metric, side))
