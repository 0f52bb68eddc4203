"""Run metric-learn's own tests with `boostmetric.metric_learn` in its place: ``make metric-learn``.

The tests come from its source archive in the package index, unchanged. They need a pytest older than 8, which refuses
``pytest.warns(None)``. Prints how many passed and failed; the exit status is 1 if one failed, or if some are missing.
"""

import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

SOURCE = "metric-learn==0.7.0"
N_TESTS = 1965
# In place of metric-learn: every module of ours under its name.
CONFTEST = """
import importlib
import pkgutil
import sys

import boostmetric.metric_learn

sys.modules["metric_learn"] = boostmetric.metric_learn
for module in pkgutil.iter_modules(boostmetric.metric_learn.__path__):
    ours = importlib.import_module(f"boostmetric.metric_learn.{module.name}")
    sys.modules[f"metric_learn.{module.name}"] = ours
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = run(unpack(Path(folder)))
        cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [name(case) for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    for test in failed:
        print(f"failed: {test}")
    passed = len(cases) - len(failed) - skipped
    libraries = ", ".join(f"{package} {version(package)}" for package in ("scikit-learn", "numpy", "scipy"))
    print(f"metric-learn's own tests: {passed} passed, {len(failed)} failed, {skipped} skipped ({libraries})")
    sys.exit(bool(failed) or passed < N_TESTS)


def unpack(folder: Path) -> Path:
    """Put the tests into a folder, with a conftest.py that names ours metric_learn."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps"]
    subprocess.run([*download, "--dest", str(folder), SOURCE], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    suite = folder / "suite"
    suite.mkdir()
    (unpacked / "test").rename(suite / "test")
    (suite / "test" / "__init__.py").touch()
    (suite / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    return suite


def run(suite: Path) -> Path:
    """Run the tests; return the report."""
    report = suite / "report.xml"
    options = ["-q", "-n", "2", "-p", "no:cacheprovider", "-W", "ignore", "--junitxml", str(report), "--no-header"]
    command = [sys.executable, "-m", "pytest", *options, "test"]
    finished = subprocess.run(command, cwd=suite, capture_output=True, text=True)
    if not report.exists():
        sys.exit(finished.stdout + finished.stderr)
    return report


def name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


if __name__ == "__main__":
    main()
