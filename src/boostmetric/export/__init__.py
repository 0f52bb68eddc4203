"""Export a learned metric to the formats of other programs.

Every export is the same linear map, from points to vectors whose Euclidean distance is the learned distance: as an
array (`to_numpy`) or text (`to_json`, `to_csv`, `to_sql`), in front of an index (`to_faiss`), or as a layer of a
network (`to_onnx`, `to_sentence_transformers`). For an index whose vectors cannot change, the query changes instead
(`query_side`).

If the metric scales points to unit length (`normalize`), so does the export; an array alone cannot, and its vectors are
compared by cosine.
"""

from boostmetric.export.dense_module import to_sentence_transformers
from boostmetric.export.faiss_index import to_faiss
from boostmetric.export.matrix import Learned, largest_change, to_numpy
from boostmetric.export.onnx_model import to_onnx
from boostmetric.export.query_side import QuerySide, query_side, to_query_side
from boostmetric.export.text import to_csv, to_json, to_sql

__all__ = [
    "Learned",
    "QuerySide",
    "largest_change",
    "query_side",
    "to_csv",
    "to_faiss",
    "to_json",
    "to_numpy",
    "to_onnx",
    "to_query_side",
    "to_sentence_transformers",
    "to_sql",
]
