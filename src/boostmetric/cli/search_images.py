"""``boostmetric search --images``: the nearest pictures in a folder, before and after learning."""

from collections.abc import Sequence
from pathlib import Path

import typer


def search_images(
    images: Path,
    query: Sequence[Path],
    output: Path,
    k: int,
    words: int,
    detector: str,
    upright: bool,
    seed: int,
    force: bool,
) -> None:
    """Search in a folder of pictures; see `boostmetric.cli.search`."""
    from rich.console import Console

    from boostmetric.cli.arguments import make_folder
    from boostmetric.cli.output import check_new
    from boostmetric.paper.download import cache_folder
    from boostmetric.storage.files import replacing
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
    sheet, page = output / "contact-sheet.png", output / "search.html"
    for path in (sheet, page):
        check_new(path, force)
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
    pictures = find(images)
    answers = search_folder(pictures, list(query), k, vision, say=console.print)
    make_folder(output)
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
