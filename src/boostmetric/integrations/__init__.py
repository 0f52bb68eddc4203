"""A learned metric inside other people's frameworks: around the embeddings that they already use."""

from boostmetric.integrations.wrapping import langchain_embeddings, llama_index_embedding

__all__ = ["langchain_embeddings", "llama_index_embedding"]
