"""``python -m boostmetric`` is the command ``boostmetric``."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line, which needs the extra ``cli``."""
    if find_spec("typer") is None:
        sys.exit("The command boostmetric needs the package typer. Install it: pip install 'boostmetric[cli]'")
    from boostmetric.cli import app

    app(prog_name="boostmetric")


if __name__ == "__main__":
    main()
