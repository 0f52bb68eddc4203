"""Nobody needs what only some users need: every module can be imported without the packages of our extras."""

import subprocess
import sys

# What import-linter (`make lint`) cannot see: whether an import stands in a function.
PROGRAM = """
import importlib, pkgutil, sys

ABSENT = (
    *("cv2", "faiss", "matplotlib", "onnx", "onnxruntime", "pandas"),
    *("langchain_core", "llama_index", "pyarrow", "ray", "rich", "torch", "triton", "typer"),
)


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ABSENT:
            raise ModuleNotFoundError(name)

NEED_TORCH = ("boostmetric.gpu.", "boostmetric.neighbors.on_device", "boostmetric.parallel.device_memory")
NEED_TYPER = ("boostmetric.cli",)
NEED_FRAMEWORKS = ("boostmetric.integrations.langchain_class", "boostmetric.integrations.llama_index_class")
sys.meta_path.insert(0, Absent())
import boostmetric
names = [module.name for module in pkgutil.walk_packages(boostmetric.__path__, "boostmetric.")]
for name in names:
    if not name.startswith((*NEED_TORCH, *NEED_TYPER, *NEED_FRAMEWORKS)) and not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


COMMAND = """
import sys
sys.modules["typer"] = None  # as if it were not installed
from boostmetric.__main__ import main
main()
"""


def test_the_command_names_the_extra_it_needs():
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "The command boostmetric needs the package typer. Install it: pip install 'boostmetric[cli]'\n"
    )


def test_the_package_itself_imports_nothing():
    # Until it has, Ctrl-C shows a traceback.
    program = "import sys; before = set(sys.modules); import boostmetric; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__future__", "boostmetric"}


def test_modules_need_no_optional_package():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


def test_the_estimator_imports_nothing_that_only_some_fits_need():
    # numba and what reads files or evaluates; all callbacks of scikit-learn, with its scores and rich
    late = ("numba", "rich", "sklearn.callback", "sklearn.metrics", "sklearn.neighbors", "boostmetric.evaluation")
    program = (
        f"import sys; from boostmetric import BoostMetric; print(*(name for name in {late} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
