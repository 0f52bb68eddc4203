"""Same seed, same bits: for any number of threads, of this library and of BLAS, and in every process."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons
from boostmetric.baselines import LMNN, MMC, NCA, RCA, PSDBoost
from boostmetric.evaluation import evaluate
from boostmetric.mining import mine_from_labels
from boostmetric.retrieval import MetricIndex

n_jobs = int(sys.argv[1])
rng = np.random.default_rng(0)
y = np.arange(600) % 3
X = rng.standard_normal((600, 70)) + 2 * np.eye(3, 70)[y]
names = np.array(["b", "a", "é"])[y]
t = np.array([rng.permutation(600)[:3] for _ in range(3000)])
few = slice(0, 120)
wide = rng.standard_normal((300, 200)) + np.eye(3, 200)[y[:300]]  # enough for BLAS to use its threads


def bits(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()[:16]


def boosted(**parameters):
    metric = BoostMetric.paper(n_jobs=n_jobs, random_state=0, **{"max_iter": 10, **parameters}).fit(X, names)
    return bits(metric.components_, metric.step_sizes_, [record.loss for record in metric.history_])


print("boosted", boosted())
print("all impostors", boosted(n_impostors="all", max_iter=4))
print("corrective", boosted(solver="corrective", max_iter=2))
print("rca", boosted(init="rca", early_stopping=True))
print("passes", boosted(n_passes=2, loss="logistic", init="standardized", max_iter=4))
metric = ComparisonBoostMetric(n_jobs=n_jobs, max_iter=10).fit(t, points=X)
print("triplets", bits(metric.components_, metric.transform(X)))
print("more than 512 dimensions", bits(ComparisonBoostMetric(n_jobs=n_jobs, max_iter=3, random_state=0).fit(
    t[:900], points=rng.standard_normal((600, 530))).components_))
print("float32", bits(BoostMetric.paper(n_jobs=n_jobs, max_iter=5).fit(X.astype(np.float32), y).components_))
stream = BoostMetric.paper(n_jobs=n_jobs).partial_fit(X[::2], y[::2])
print("stream", bits(stream.partial_fit(X[1::2], y[1::2]).components_))
blocks = BoostMetric.paper(n_jobs=n_jobs, block_size=3, max_iter=5, loss="logistic").fit(X, y)
print("blocks", bits(blocks.components_))
auto = BoostMetric.recommended(random_state=0, n_jobs=n_jobs, max_iter=3, n_passes=1)
print("auto", bits(auto.fit(X[few, :4], y[few]).components_))
for learner in (LMNN(max_iter=5), PSDBoost(max_iter=3)):
    print(type(learner).__name__, bits(learner.fit(X[few, :12], y[few]).components_))
for learner in (RCA(), MMC(max_iter=1, random_state=0), NCA(max_iter=1, random_state=0)):
    print(type(learner).__name__, bits(learner.fit(wide, y[:300]).components_))
print("wide", bits(BoostMetric.paper(max_iter=2, init="standardized-rca").fit(wide, y[:300]).components_))
print("mined", bits(mine_from_labels(X, names, metric=metric, choice="random", random_state=0).triplets))
print("scores", repr(evaluate(metric, X[few], names[few], random_state=0).as_dict()))
print("search", bits(*MetricIndex(metric).add(X).search(X, 5)))
"""


def answers(n_jobs=1, **environment):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(n_jobs)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def first():
    return answers(PYTHONHASHSEED="1", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")


def test_another_process_gives_the_same_bits(first):
    """With other hashes, other numbers of threads of BLAS and OpenMP, and other numbers of threads of our own."""
    assert answers(3, PYTHONHASHSEED="2", OPENBLAS_NUM_THREADS="4", OMP_NUM_THREADS="3", MKL_NUM_THREADS="4") == first
