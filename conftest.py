"""Examples that need a package which is not installed are not run."""

from importlib.util import find_spec

_NEEDS = {
    "src/boostmetric/export/faiss_index.py": "faiss",
    "src/boostmetric/export/onnx_model.py": "onnxruntime",
    "src/boostmetric/vision/words.py": "cv2",
}
collect_ignore = [path for path, package in _NEEDS.items() if find_spec(package) is None]
