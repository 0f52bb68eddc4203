"""``python -m boostmetric`` is the command ``boostmetric``."""

from boostmetric.cli import app

app(prog_name="boostmetric")
