"""Export a metric as an ONNX model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from boostmetric import __version__
from boostmetric.arrays.validation import check_choice
from boostmetric.export.matrix import Learned, metric_of, rounded
from boostmetric.metric import MahalanobisMetric
from boostmetric.optional import require
from boostmetric.storage.files import replacing

# Both from 2020 (onnx 1.8, onnxruntime 1.6), so that old runtimes load the file; newer ones add nothing to MatMul.
_OPSET = 13
_IR_VERSION = 7


def to_onnx(metric: MahalanobisMetric | Learned, path: str | os.PathLike[str], dtype: str = "float32") -> Path:
    """Write a metric as an ONNX model with a single MatMul and, with `normalize`, a division by the length.

    Its input ``vectors`` has shape (batch, n_features), its output ``transformed`` shape (batch, n_components), for any
    batch size. The Euclidean distance between two rows of the output is the learned distance. If the metric scales
    points to unit length (`normalize`), so does the model, and the inner product of two rows is their cosine.

    Parameters
    ----------
    metric : MahalanobisMetric or fitted learner
    path : str or path
        Path of the .onnx file; an existing file is replaced.
    dtype : {"float16", "float32"}, default="float32"
        Type of the input, the matrix and the output. In float16, no vector may be longer than 65,504 after the MatMul.

    Returns
    -------
    Path
        Path of the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import onnxruntime
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.export import to_onnx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     session = onnxruntime.InferenceSession(to_onnx(MahalanobisMetric([[2.0, 0.0]]), f"{folder}/metric.onnx"))
    >>> session.run(None, {"vectors": np.array([[0.0, 0.0], [1.0, 5.0]], dtype=np.float32)})[0]
    array([[0.],
           [2.]], dtype=float32)
    """
    onnx = require("onnx", "onnx", "Writing an ONNX model")
    check_choice("dtype", dtype, ("float16", "float32"))
    path, learned = Path(path), metric_of(metric)
    matrix = rounded(learned, dtype)
    n_features, n_components = matrix.shape
    number = onnx.helper.np_dtype_to_tensor_dtype(matrix.dtype)
    nodes = [onnx.helper.make_node("MatMul", ["vectors", "matrix"], ["mapped" if learned.normalize else "transformed"])]
    constants = [onnx.numpy_helper.from_array(matrix, "matrix")]
    if learned.normalize:
        nodes += _to_unit_length(onnx, number)
        constants.append(onnx.numpy_helper.from_array(np.finfo(np.float32).tiny, "tiny"))
    graph = onnx.helper.make_graph(
        nodes,
        "metric",
        [onnx.helper.make_tensor_value_info("vectors", number, ["batch", n_features])],
        [onnx.helper.make_tensor_value_info("transformed", number, ["batch", n_components])],
        constants,
    )
    model = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="boostmetric",
        producer_version=__version__,
    )
    onnx.checker.check_model(model)
    with replacing(path) as temporary:
        temporary.write_bytes(model.SerializeToString())
    return path


def _to_unit_length(onnx: Any, number: int) -> list[Any]:
    """Nodes from ``mapped`` to ``transformed``.

    In float32, because squares overflow in float16. LpNormalization would be one node, but the standard does not say
    what it returns for zeros, which stay zeros here.
    """
    node, float32 = onnx.helper.make_node, onnx.TensorProto.FLOAT
    is_half = number != float32
    given, divided = ("mapped32", "transformed32") if is_half else ("mapped", "transformed")
    nodes = [
        node("ReduceL2", [given], ["length"], axes=[1], keepdims=1),
        node("Max", ["length", "tiny"], ["divisor"]),
        node("Div", [given, "divisor"], [divided]),
    ]
    if not is_half:
        return nodes
    return [node("Cast", ["mapped"], [given], to=float32), *nodes, node("Cast", [divided], ["transformed"], to=number)]
