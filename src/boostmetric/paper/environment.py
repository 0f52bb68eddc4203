"""Description of the machine that measurements were made on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from boostmetric import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def machine() -> dict[str, str]:
    """Processor, number of cores, and versions of Python and the numerical packages."""
    return {
        "cpu": _processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "boostmetric": __version__,
        **{package: version(package) for package in _PACKAGES},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
