"""Import, compile, first fit."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_WARM_PROCESSES = 7
# Each process prints seconds by the clock and by the processor.
_CLOCK = """
import json, time
def now():
    return time.perf_counter(), time.process_time()
def since(before):
    return [after - start for after, start in zip(now(), before)]
start = now()
"""
_FIT = (
    _CLOCK
    + """
import boostmetric
light = since(start)
start = now()
from boostmetric import BoostMetric
imported = since(start)
from sklearn.datasets import load_wine
X, y = load_wine(return_X_y=True)
start = now()
BoostMetric(random_state=0).fit(X, y)
first = since(start)
start = now()
BoostMetric(random_state=0).fit(X, y)
second = since(start)
print(json.dumps({"import boostmetric": light, "import BoostMetric": imported, "first fit": first,
    "import and first fit": [sum(each) for each in zip(light, imported, first)], "second fit": second}))
"""
)
_SKLEARN = (
    _CLOCK
    + """
import joblib, sklearn.base, sklearn.utils.multiclass, sklearn.utils.validation
print(json.dumps({"import of scikit-learn alone": since(start)}))
"""
)
# With what the estimator has imported by then; the first compiled function is also the first that is loaded.
_NUMBA = (
    """
from boostmetric import BoostMetric
"""
    + _CLOCK
    + """
import numba
imported = since(start)
import numpy
from boostmetric.kernels import pairs
start = now()
pairs.gather(numpy.zeros(8), numpy.zeros(8, dtype=numpy.uint32), numpy.zeros(8))
first = since(start)
start = now()
pairs.spread(numpy.zeros(8), numpy.zeros(8, dtype=numpy.uint32), numpy.zeros(8))
print(json.dumps({"import of numba": imported, "its first kernel": first, "its second kernel": since(start)}))
"""
)


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """In new processes: import, compile (or load cached kernels), first fit of BoostMetric() on Wine; least of 7."""
    del data_dir
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        rows += _least("cold", [_measured(_FIT, environment)])
        for script in (_FIT, _SKLEARN, _NUMBA):
            _measured(script, environment)  # fills the cache
            rows += _least("warm", [_measured(script, environment) for _ in range(_WARM_PROCESSES)])
    return rows


def _measured(script: str, environment: dict[str, str]) -> dict[str, list[float]]:
    answer = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    found: dict[str, list[float]] = json.loads(answer.stdout)
    return found


def _least(state: str, found: list[dict[str, list[float]]]) -> list[dict[str, object]]:
    """Rows with the least seconds of several processes, by the clock and by the processor."""
    return [
        {
            "kernel cache": state,
            "what": what,
            "clock, s": min(each[what][0] for each in found),
            "CPU, s": min(each[what][1] for each in found),
        }
        for what in found[0]
    ]
