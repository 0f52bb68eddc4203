"""``boostmetric paper datasets``: list the paper's data sets and where they are."""

from pathlib import Path


def list_datasets(data_dir: Path | None) -> None:
    """Print the paper's data sets: size, preprocessing, splits as used and as printed, and where each comes from.

    Nothing is downloaded here; what is missing is downloaded when it is first used.
    """
    import sys

    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from boostmetric.paper.listing import describe_datasets

    headers = ("set", "samples x features", "classes", "input", "train + test", "where it comes from")
    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for header in headers:
        # In a narrow terminal only cells with sentences are wrapped; paths are never cut.
        table.add_column(header, overflow="fold", no_wrap=header in ("set", "input", "train + test"))
    for row in describe_datasets(data_dir):
        split = f"{row.split}\nprinted {row.printed_split}" if row.printed_split else row.split
        cells = (row.name, row.size, str(row.n_classes), row.preprocessing, split, row.origin)
        # As text: brackets, as in [-1, 1] or the name of a folder, are not markup.
        table.add_row(*map(Text, cells), style=None if row.available else "dim")
    # A pipe has no width.
    Console(width=None if sys.stdout.isatty() else 1000).print(table)
