"""``boostmetric export``: write a model in the format of an index or service."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from boostmetric.cli.output import Force, Json, Model, Rank, answer, check_new, check_writable, paragraph
from boostmetric.cli.tasks import load_model

_NEXT = {
    "numpy": "X @ M are the transformed vectors of the rows of X; compare them by Euclidean distance.",
    "json": "Its 'matrix' has a list for each feature; compare transformed vectors by Euclidean distance.",
    "csv": "It has a row for each feature; compare transformed vectors by Euclidean distance.",
    "sql": "It creates the table metric; a comment in it shows how to map vectors. Compare by Euclidean distance.",
    "faiss": "An empty index: read it with faiss.read_index, and add vectors as they are.",
    "onnx": "One MatMul from 'vectors' to 'transformed'; compare by Euclidean distance.",
    "sentence-transformers": "Append the Dense module after all modules of the model; compare by Euclidean distance.",
    "query-side": "Documents stay as they are, queries change, and each document gets one number: see docs/export.md.",
}
# For models that scale vectors to unit length.
_NEXT_OF_UNIT_LENGTH = {
    "numpy": "X @ M are the transformed vectors of the rows of X; compare them by cosine.",
    **{form: _NEXT[form].replace("Euclidean distance", "cosine") for form in ("json", "csv", "sql")},
    "faiss": _NEXT["faiss"] + " It scales them to unit length.",
    "onnx": "From 'vectors' to 'transformed', of unit length; compare by cosine or inner product.",
    "sentence-transformers": "Append Dense and Normalize after all modules of the model; compare by cosine.",
    "query-side": "Queries change, and inner products are multiplied by a number of each document: see docs/export.md.",
}


def export(
    model: Model,
    to: Annotated[
        Literal["numpy", "json", "csv", "sql", "faiss", "onnx", "sentence-transformers", "query-side"],
        typer.Option(help="Format to write.", show_default=False),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write (sentence-transformers: folder).", show_default=False),
    ],
    dtype: Annotated[
        Literal["float16", "float32", "float64"] | None,
        typer.Option(
            help="Type of the numbers: float16, float32 or, but for onnx and sentence-transformers, float64. "
            "Default: float32."
        ),
    ] = None,
    rank: Rank = None,
    index: Annotated[
        str | None, typer.Option(help="For faiss: description for index_factory, such as HNSW32. Default: Flat.")
    ] = None,
    document_length: Annotated[
        float | None,
        typer.Option(min=0, help="For query-side: typical length of a document's vector. Default: 1."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a model for NumPy, faiss, ONNX, sentence-transformers, an index that cannot be rebuilt, or as text."""
    for option, value, wanted in (("--index", index, "faiss"), ("--document-length", document_length, "query-side")):
        if value is not None and to != wanted:
            raise typer.BadParameter(f"{option} is for --to {wanted}. Leave it out.", param_hint=option)
    if to == "faiss" and dtype is not None:
        raise typer.BadParameter("faiss computes in float32; --index SQfp16 stores float16.", param_hint="--dtype")
    if to == "sentence-transformers":
        if output.is_file() or (output.is_dir() and any(output.iterdir())):
            raise typer.BadParameter(
                f"{output} exists already. A folder that is not empty is never replaced: name a new one.",
                param_hint="--output",
            )
        check_writable(output)
    else:
        check_new(output, force)

    from boostmetric import export as exports

    metric = load_model(model, rank)
    options: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
    if to == "faiss":
        exports.to_faiss(metric, output, index or "Flat")
    elif to == "query-side":
        exports.to_query_side(
            metric, output, **options, document_length=1.0 if document_length is None else document_length
        )
    else:
        writers = {
            "numpy": exports.to_numpy,
            "json": exports.to_json,
            "csv": exports.to_csv,
            "sql": exports.to_sql,
            "onnx": exports.to_onnx,
            "sentence-transformers": exports.to_sentence_transformers,
        }
        writers[to](metric, output, **options)
    n_components, n_features = metric.components.shape
    found: dict[str, Any] = {"output": str(output), "to": to, "n_features": n_features, "n_dimensions": n_components}
    found["normalize"] = metric.normalize
    shape = f"{n_features:,} features to {n_components:,} dimensions{', unit length' if metric.normalize else ''}"
    steps = _NEXT_OF_UNIT_LENGTH if metric.normalize else _NEXT
    answer(found, f"{to}, {shape}: {output}\n{paragraph(steps[to])}", as_json=as_json)
