"""``python -m boostmetric`` is the command ``boostmetric``."""

import os
import signal
import sys


def main() -> None:
    """Run the command line, which needs the extra ``cli``."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not in the background, where it is ignored
        signal.signal(signal.SIGINT, _end)  # until a command begins: imports would show a traceback
    from importlib.util import find_spec

    if find_spec("typer") is None:
        sys.exit("The command boostmetric needs the package typer. Install it: pip install 'boostmetric[cli]'")
    from boostmetric.cli import app

    app(prog_name="boostmetric")


def _end(number: int, frame: object) -> None:
    os.write(2, b"Interrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
