"""Cost of an installation: size of the archives, the package and its dependencies, and import time."""

import subprocess
from pathlib import Path

from benchmarks import LeftOutError

_ROOT = Path(__file__).parents[1]
_TRIES = 5
_STATEMENTS = ("import boostmetric", "from boostmetric import MahalanobisMetric", "from boostmetric import BoostMetric")
_SCRIPT = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """Sizes of what ``make release-check`` built and installed, and import times (best of five new processes)."""
    del data_dir
    python = _ROOT / ".venv-release" / "bin" / "python"
    archives = sorted((_ROOT / "dist").glob("boostmetric-*"))
    if not python.exists() or not archives:
        raise LeftOutError("Nothing is built. Run make release-check first.")
    rows: list[dict[str, object]] = [{"what": _kind(path), "MB": path.stat().st_size / 1e6} for path in archives]
    everything = Path(_answer(python, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    ours = everything / "boostmetric"
    rows += [
        {"what": "installed", "MB": _size(ours)},
        {"what": "installed with all that it needs", "MB": _size(everything) - _size(everything / "pip")},
    ]
    for statement in _STATEMENTS:
        seconds = [float(_answer(python, _SCRIPT.format(statement))) for _ in range(_TRIES)]
        rows.append({"import": statement, "s": min(seconds)})
    return rows


def _kind(archive: Path) -> str:
    return "wheel" if archive.suffix == ".whl" else "source archive"


def _size(folder: Path) -> float:
    """Size in MB, without files that Python and numba compiled."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sum(path.stat().st_size for path in files) / 1e6


def _answer(python: Path, script: str) -> str:
    # Not in this folder, where `benchmarks` would be imported first.
    done = subprocess.run([python, "-c", script], cwd=python.parent, capture_output=True, text=True, check=True)
    return done.stdout.strip()
