"""The class behind `langchain_embeddings`; importing it needs langchain-core."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from boostmetric.integrations.sides import Sides


class LangChainEmbeddings(Embeddings):
    """Embeddings of LangChain, mapped by a metric."""

    def __init__(self, embeddings: Embeddings, sides: Sides) -> None:
        if not isinstance(embeddings, Embeddings):
            raise TypeError(f"embeddings must be Embeddings of LangChain. Got {type(embeddings).__name__}.")
        self.embeddings = embeddings
        self.sides = sides

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed documents and, unless only queries are mapped, map them."""
        return self.sides.documents(self.embeddings.embed_documents(texts))

    def embed_query(self, text: str) -> list[float]:
        """Embed and map a query."""
        return self.sides.query(self.embeddings.embed_query(text))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed and map documents; the embedding is asynchronous."""
        return self.sides.documents(await self.embeddings.aembed_documents(texts))

    async def aembed_query(self, text: str) -> list[float]:
        """Embed and map a query; the embedding is asynchronous."""
        return self.sides.query(await self.embeddings.aembed_query(text))
