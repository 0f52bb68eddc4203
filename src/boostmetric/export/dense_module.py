"""Export a metric as a module of sentence-transformers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from boostmetric.arrays.validation import check_choice
from boostmetric.export.matrix import Learned, metric_of, rounded
from boostmetric.metric import MahalanobisMetric
from boostmetric.storage.files import new_folder


def to_sentence_transformers(
    metric: MahalanobisMetric | Learned, folder: str | os.PathLike[str], dtype: str = "float32"
) -> Path:
    """Write a metric as a ``Dense`` module of sentence-transformers.

    The folder holds config.json and model.safetensors, as sentence-transformers itself saves such a module. Append it
    to the model whose embeddings the metric was learned on, after all its modules, and compare by Euclidean distance::

        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Dense  # before version 6, .models

        model = SentenceTransformer("all-MiniLM-L6-v2")
        model = SentenceTransformer(modules=[*model, Dense.load(str(folder))], similarity_fn_name="euclidean")

    Parameters
    ----------
    metric : MahalanobisMetric or fitted learner
    folder : str or path
        Folder to write, new or empty.
    dtype : {"float16", "float32"}, default="float32"
        Precision of the file; the loaded module computes in the precision of the model.

    Returns
    -------
    Path
        Path of the folder.

    Examples
    --------
    >>> import json, tempfile
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.export import to_sentence_transformers
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     module = to_sentence_transformers(MahalanobisMetric([[2.0, 0.0]]), f"{folder}/3_Dense")
    ...     config = json.loads((module / "config.json").read_text())
    >>> config["in_features"], config["out_features"], config["bias"]
    (2, 1, False)
    """
    from safetensors.numpy import save_file

    check_choice("dtype", dtype, ("float16", "float32"))
    folder, matrix = Path(folder), rounded(metric_of(metric), dtype)
    n_features, n_components = matrix.shape
    # Only these keys: older versions pass every key to the constructor.
    config = {
        "in_features": n_features,
        "out_features": n_components,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    with new_folder(folder) as temporary:
        (temporary / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        weight = {"linear.weight": np.ascontiguousarray(matrix.T)}
        save_file(weight, temporary / "model.safetensors", metadata={"format": "pt"})
    return folder
