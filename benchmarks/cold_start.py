"""Import, compile, first fit."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_SCRIPT = """
import json, time
start = time.perf_counter()
import boostmetric
light = time.perf_counter()
from boostmetric import BoostMetric
imported = time.perf_counter()
from sklearn.datasets import load_wine
X, y = load_wine(return_X_y=True)
before = time.perf_counter()
metric = BoostMetric.paper(max_iter=100).fit(X, y)
first = time.perf_counter()
BoostMetric.paper(max_iter=100).fit(X, y)
second = time.perf_counter()
print(json.dumps({
    "import boostmetric, s": light - start,
    "import BoostMetric, s": imported - light,
    "first fit, s": first - before,
    "import + first fit, s": (imported - start) + (first - before),
    "second fit, s": second - first,
    "violated %": 100 * metric.history_[-1].violated,
}))
"""


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """In a new process: import, compile (or load cached kernels), first fit on Wine with 100 iterations."""
    del data_dir
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        for state in ("cold", "warm", "warm"):
            answer = subprocess.run([sys.executable, "-c", _SCRIPT], env=environment, capture_output=True, check=True)
            rows.append({"kernel cache": state, **json.loads(answer.stdout)})
    return rows
