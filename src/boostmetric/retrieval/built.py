"""What faiss builds beside the points, as plain arrays, which are saved with an index.

faiss's own files are not safe to read from untrusted sources. These arrays are checked before faiss sees them: a number
out of range would make it read memory that is not its own.

- Cells of IVF: their centres, ``cells`` of shape (n_cells, n_dimensions) in float32, and the number of the cell of each
  point, ``cell_of``.
- Graph of HNSW: the number of layers of each point, ``layers``; its ``links``, layer by layer, point after point, with
  -1 where there is none; and ``entry``, the point where a search begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


def cells_as_arrays(faiss: Any, index: Any) -> dict[str, NDArray[Any]]:
    """Cells of an index of all points 0, 1, ..."""
    cell_of = np.empty(index.ntotal, dtype=np.int32)
    for cell in range(index.nlist):
        size = index.invlists.list_size(cell)
        if size:
            cell_of[faiss.rev_swig_ptr(index.invlists.get_ids(cell), size)] = cell
    return {"cells": index.quantizer.reconstruct_n(0, index.nlist), "cell_of": cell_of}


def index_of_cells(faiss: Any, arrays: Arrays, blocks: Iterable[NDArray[np.float32]]) -> Any:
    """Index with these cells of the points, which come in blocks.

    Raises
    ------
    ValueError
        If the arrays do not fit together.
    """
    cells, cell_of = arrays["cells"], arrays["cell_of"]
    _check(bool(len(cells)) and ((cell_of >= 0) & (cell_of < len(cells))).all(), "a cell that does not exist")
    quantizer = faiss.IndexFlatL2(cells.shape[1])
    quantizer.add(cells)
    index, first = faiss.IndexIVFFlat(quantizer, cells.shape[1], len(cells)), 0
    index.is_trained = True
    for block in blocks:
        of_block = np.ascontiguousarray(cell_of[first : first + len(block)], dtype=np.int64)
        index.add_core(len(block), faiss.swig_ptr(block), None, faiss.swig_ptr(of_block))
        first += len(block)
    return index


def graph_as_arrays(faiss: Any, index: Any) -> dict[str, NDArray[Any]]:
    """Graph of an index."""
    graph = index.hnsw
    return {
        "layers": faiss.vector_to_array(graph.levels),
        "links": faiss.vector_to_array(graph.neighbors),
        "entry": np.array([graph.entry_point], dtype=np.int32),
    }


def index_of_graph(faiss: Any, empty: Any, arrays: Arrays, blocks: Iterable[NDArray[np.float32]]) -> Any:
    """Fill an empty index with the points, which come in blocks, and this graph of them.

    Raises
    ------
    ValueError
        If the arrays do not fit together.
    """
    graph, layers, links, entry = empty.hnsw, arrays["layers"], arrays["links"], int(arrays["entry"][0])
    before = faiss.vector_to_array(graph.cum_nneighbor_per_level).astype(np.int64)  # links of a point below a layer
    n = len(layers)
    _check(bool(n) and ((layers >= 1) & (layers < len(before))).all(), "a number of layers that cannot be")
    offsets = np.concatenate([[0], np.cumsum(before[layers])])
    _check(len(links) == offsets[-1], "too few or too many links")
    _check(((links >= -1) & (links < n)).all(), "a link to a point that does not exist")
    _check(0 <= entry < n and layers[entry] == layers.max(), "an entry that is not in the highest layer")
    for layer in range(1, int(layers.max())):
        points = np.flatnonzero(layers > layer)
        slots = offsets[points][:, None] + np.arange(before[layer], before[layer + 1])
        linked = links[slots]
        _check((layers[linked[linked >= 0]] > layer).all(), "a link to a point that is not in its layer")
    storage = faiss.downcast_index(empty.storage)
    for block in blocks:
        storage.add(block)
    faiss.copy_array_to_vector(layers, graph.levels)
    faiss.copy_array_to_vector(offsets.astype(np.uint64), graph.offsets)
    graph.neighbors.resize(len(links))
    faiss.memcpy(graph.neighbors.data(), faiss.swig_ptr(links), links.nbytes)
    graph.entry_point, graph.max_level, empty.ntotal = entry, int(layers.max()) - 1, n
    return empty


def _check(holds: Any, otherwise: str) -> None:
    if not holds:
        raise ValueError(f"What faiss built cannot be used: it has {otherwise}. Make the index again.")
