"""``boostmetric search``: the nearest pictures of a folder, before and after learning."""

from pathlib import Path
from typing import Annotated

import typer


def search(
    images: Annotated[Path, typer.Option(help="Folder of pictures; its subfolders say which belong together.")],
    query: Annotated[list[Path], typer.Option(help="Picture to look for; give it again for more.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for contact sheet and page.")] = Path("search"),
    k: Annotated[int, typer.Option("-k", min=1, help="Nearest pictures to show.")] = 8,
    words: Annotated[int, typer.Option(min=2, help="Visual words.")] = 200,
    detector: Annotated[str, typer.Option(help="harris-affine, harris-laplace, sift or dense.")] = "harris-affine",
    upright: Annotated[bool, typer.Option(help="Pictures are never turned.")] = True,
    seed: Annotated[int, typer.Option(help="Of the clustering into words.")] = 0,
) -> None:
    """Search in a folder of pictures, before and after a metric is learned from its subfolders.

    Writes a contact sheet (contact-sheet.png) and a page (search.html) with the nearest pictures to each query.
    Queries that lie in the folder are left out of all that is learned.
    """
    from rich.console import Console

    from boostmetric.cli.arguments import make_folder
    from boostmetric.files import replacing
    from boostmetric.paper.download import cache_folder
    from boostmetric.vision.extraction import DETECTORS
    from boostmetric.vision.folders import find
    from boostmetric.vision.folders import search as search_folder
    from boostmetric.vision.sheets import contact_sheet, write_sheet_page
    from boostmetric.vision.words import VisualWords

    if not images.is_dir():
        raise typer.BadParameter(f"{images} is not a folder.", param_hint="--images")
    if detector not in DETECTORS:
        raise typer.BadParameter(f"{detector!r} is not one of {', '.join(DETECTORS)}.", param_hint="--detector")
    for path in query:
        if not path.is_file():
            raise typer.BadParameter(f"There is no file {path}.", param_hint="--query")
    make_folder(output)
    console = Console(stderr=True)
    vision = VisualWords(
        words,
        detector=detector,
        upright=upright,
        weighting="sqrt",
        cache_dir=cache_folder() / "descriptors",
        random_state=seed,
        verbose=1,
    )
    try:
        pictures = find(images)
        answers = search_folder(pictures, query, k, vision, say=console.print)
    except (ValueError, ImportError) as error:
        console.print(f"Error: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    sheet, page = output / "contact-sheet.png", output / "search.html"
    with replacing(sheet) as temporary:
        contact_sheet(answers).savefig(temporary)
    facts = (
        f"{len(pictures):,} pictures of {images}, as counts of {words} visual words ({detector} regions). The metric "
        f"was learned from their folders, without the {'query' if len(query) == 1 else 'queries'}."
    )
    write_sheet_page(page, answers, facts)
    shown = Console()
    for answer in answers:
        before, after = answer.hits(answer.before), answer.hits(answer.after)
        right = "" if before is None else f": {before} of {k} right before learning, {after} after"
        shown.print(f"{answer.query.path.name}{right}", markup=False, soft_wrap=True)
    shown.print(f"Contact sheet: {sheet}\nPage:          {page}", markup=False, soft_wrap=True)
