"""Nobody needs what only some users need: every module can be imported without the packages of our extras."""

import subprocess
import sys

# What import-linter (`make lint`) cannot see: whether an import stands in a function.
PROGRAM = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {"cv2", "faiss", "onnx", "onnxruntime", "pandas", "pyarrow", "ray", "torch", "triton"}:
            raise ModuleNotFoundError(name)

NEED_TORCH = ("boostmetric.gpu.", "boostmetric.neighbors.on_device", "boostmetric.parallel.device_memory")
sys.meta_path.insert(0, Absent())
import boostmetric
names = [module.name for module in pkgutil.walk_packages(boostmetric.__path__, "boostmetric.")]
for name in names:
    if not name.startswith(NEED_TORCH) and not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


def test_modules_need_no_optional_package():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200
