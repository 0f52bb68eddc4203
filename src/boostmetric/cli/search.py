"""``boostmetric search``: the nearest points under a model, or the nearest pictures in a folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from boostmetric.cli.output import Force, Json, Rank
from boostmetric.cli.points import Columns, Id, Ignore, Quiet, Reading, Text, Vector, Where

_POINTS, _IMAGES = "Search among points", "Search among pictures"


def search(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", show_default=False, help="Model file that boostmetric fit wrote.")
    ] = None,
    points: Annotated[
        list[str] | None,
        typer.Argument(metavar="POINTS", show_default=False, help="Files of the points to search among."),
    ] = None,
    queries: Annotated[
        list[str] | None, typer.Option(help="File of the points to search for.", rich_help_panel=_POINTS)
    ] = None,
    base: Annotated[
        bool,
        typer.Option("--base", help="Also show what the plain Euclidean distance finds.", rich_help_panel=_POINTS),
    ] = False,
    index: Annotated[
        Path | None,
        typer.Option(
            help="Index file: written if it is not there, else read in place of the points.", rich_help_panel=_POINTS
        ),
    ] = None,
    backend: Annotated[
        Literal["exact", "faiss-flat", "faiss-hnsw", "faiss-ivf"] | None,
        typer.Option(
            help="Search in an index in memory. Those of faiss may miss points; how many is measured.",
            rich_help_panel=_POINTS,
        ),
    ] = None,
    id: Id = None,
    text: Text = None,
    vector: Vector = None,
    columns: Columns = None,
    ignore: Ignore = None,
    where: Where = None,
    rank: Rank = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of pictures; its subfolders say which belong together.", rich_help_panel=_IMAGES),
    ] = None,
    query: Annotated[
        list[Path] | None,
        typer.Option(help="Picture to search for. Can be repeated.", rich_help_panel=_IMAGES),
    ] = None,
    words: Annotated[
        int | None, typer.Option(min=2, help="Number of visual words. Default: 200.", rich_help_panel=_IMAGES)
    ] = None,
    detector: Annotated[
        str | None,
        typer.Option(help="harris-affine (default), harris-laplace, sift or dense.", rich_help_panel=_IMAGES),
    ] = None,
    upright: Annotated[
        bool | None,
        typer.Option(
            "--upright/--turned", help="Whether pictures are always upright, or may be turned.", rich_help_panel=_IMAGES
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Random seed of the clustering into words. Default: 0.", rich_help_panel=_IMAGES),
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="How many to show. Default: 10 points or 8 pictures.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Points: file to write (.csv, .tsv, .jsonl, .parquet, .npz) instead of printing. "
            "Pictures: folder for the contact sheet and page. Default: search.",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Search with a learned metric: among points, or in a folder of pictures.

    boostmetric search MODEL POINTS... --queries FILE prints query, rank, id and distance of the nearest points, or
    writes them to a file. Points are read in blocks, so that the files may be larger than memory.

    boostmetric search --images DIR --query PICTURE learns from the subfolders of DIR, and writes a contact sheet and a
    page with the nearest pictures before and after. Queries in the folder are not learned from.
    """
    of_pictures: Mapping[str, object] = {"--words": words, "--detector": detector, "--upright": upright, "--seed": seed}
    of_points: dict[str, object] = {
        "--id": id,
        "--text": text,
        "--vector": vector,
        "--columns": columns,
        "--ignore": ignore,
    }
    of_points |= {"--where": where, "--rank": rank, "--base": base or None, "--index": index, "--backend": backend}
    if images is not None or query:
        if model is not None or points or queries:
            raise typer.BadParameter("Search among points (MODEL, POINTS, --queries) or pictures (--images, --query).")
        _refuse(of_points, "points")
        if images is None or not query:
            raise typer.BadParameter("A search among pictures needs both --images and --query.")
        if as_json:
            raise typer.BadParameter("The search among pictures writes a page and no JSON.", param_hint="--json")
        from boostmetric.cli.search_images import search_images

        how = (words or 200, detector or "harris-affine", upright is not False, seed or 0)
        search_images(images, query, output or Path("search"), k or 8, *how, force)
        return
    _refuse(of_pictures, "pictures")
    if model is None or not points or not queries:
        raise typer.BadParameter(
            "A search among points needs MODEL, POINTS and --queries; one among pictures --images and --query."
        )
    from boostmetric.cli.search_points import search_points

    reading = replace(Reading.of(id, None, vector, columns, ignore, where), text=text)
    search_points(model, points, queries, reading, k or 10, rank, base, index, backend, output, force, quiet, as_json)


def _refuse(options: Mapping[str, object], kind: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise typer.BadParameter(f"It goes with a search among {kind}.", param_hint=name)
