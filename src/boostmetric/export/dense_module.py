"""Export a metric as a module of sentence-transformers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from boostmetric.arrays.validation import check_choice
from boostmetric.export.matrix import Learned, metric_of, rounded
from boostmetric.metric import MahalanobisMetric
from boostmetric.storage.files import new_folder


def to_sentence_transformers(
    metric: MahalanobisMetric | Learned, folder: str | os.PathLike[str], dtype: str = "float32"
) -> Path:
    """Write a metric as a ``Dense`` module of sentence-transformers; with `normalize`, and a ``Normalize`` module.

    The folder holds config.json and model.safetensors, as sentence-transformers itself saves such a module. Append it
    to the model whose embeddings the metric was learned on, after all its modules, and compare by Euclidean distance::

        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Dense  # before version 6, .models

        model = SentenceTransformer("all-MiniLM-L6-v2")
        model = SentenceTransformer(modules=[*model, Dense.load(str(folder))], similarity_fn_name="euclidean")

    If the metric scales points to unit length (`normalize`), the folder holds the two modules in folders of their own,
    ``0_Dense`` and ``1_Normalize``, and modules.json, which lists them. Append both, and compare by cosine::

        modules = [Dense.load(f"{folder}/0_Dense"), Normalize()]
        model = SentenceTransformer(modules=[*model, *modules], similarity_fn_name="cosine")

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
    folder, learned = Path(folder), metric_of(metric)
    matrix = rounded(learned, dtype)
    n_features, n_components = matrix.shape
    # Only these keys: older versions pass every key to the constructor.
    config = {
        "in_features": n_features,
        "out_features": n_components,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    with new_folder(folder) as temporary:
        dense = temporary
        if learned.normalize:
            dense, unit = temporary / "0_Dense", temporary / "1_Normalize"
            dense.mkdir()
            unit.mkdir()
            _write_json(unit / "config.json", {})  # its defaults; versions before 6 read no file
            _write_json(temporary / "modules.json", [_listed(0, dense.name), _listed(1, unit.name)])
        _write_json(dense / "config.json", config)
        weight = {"linear.weight": np.ascontiguousarray(matrix.T)}
        save_file(weight, dense / "model.safetensors", metadata={"format": "pt"})
    return folder


def _listed(number: int, folder: str) -> dict[str, Any]:
    """Entry of modules.json; the names of the classes are those of the first versions, which all versions know."""
    name = folder.partition("_")[2]
    return {"idx": number, "name": str(number), "path": folder, "type": f"sentence_transformers.models.{name}"}


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
