"""The class behind `llama_index_embedding`; importing it needs llama-index-core."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding

from boostmetric.integrations.sides import Sides


class LlamaIndexEmbedding(BaseEmbedding):
    """Embedding of LlamaIndex, mapped by a metric."""

    # Names that begin with an underscore are no fields: they are not written into caches and configurations.
    _embedding: Any
    _sides: Any

    def __init__(self, embedding: BaseEmbedding, sides: Sides) -> None:
        if not isinstance(embedding, BaseEmbedding):
            raise TypeError(f"embedding must be a BaseEmbedding of LlamaIndex. Got {type(embedding).__name__}.")
        super().__init__(
            model_name=f"{embedding.model_name}+{sides.name}",
            embed_batch_size=embedding.embed_batch_size,
            num_workers=embedding.num_workers,
        )
        self._embedding, self._sides = embedding, sides

    @classmethod
    def class_name(cls) -> str:
        """Name under which LlamaIndex lists the class."""
        return "LlamaIndexEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        found: list[float] = self._sides.query(self._embedding.get_query_embedding(query))
        return found

    async def _aget_query_embedding(self, query: str) -> list[float]:
        found: list[float] = self._sides.query(await self._embedding.aget_query_embedding(query))
        return found

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        found: list[list[float]] = self._sides.documents(self._embedding.get_text_embedding_batch(texts))
        return found

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        found: list[list[float]] = self._sides.documents(await self._embedding.aget_text_embedding_batch(texts))
        return found
