"""Problems that several tests solve."""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit

# numba does not see when a file that a kernel imports has changed (see `kernels.lanes`). A cache named after what is in
# them all is never stale.
_kernels = Path(find_spec("boostmetric").origin).parent / "kernels"
_contents = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_kernels.glob("*.py")))).hexdigest()[:16]
_user = os.getuid() if hasattr(os, "getuid") else "own"  # on Windows the folder is the user's own already
_cache = Path(tempfile.gettempdir()) / f"boostmetric-kernels-{_user}-{_contents}"
os.environ.setdefault("NUMBA_CACHE_DIR", str(_cache))
# The date in model files, so that they can be compared byte by byte.
os.environ["SOURCE_DATE_EPOCH"] = "1800000000"

import hypothesis
import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from boostmetric import Comparisons
from boostmetric.arrays.frame import Frame
from boostmetric.engines.device import DeviceBackend
from boostmetric.engines.threads import ONE_THREAD, ThreadBackend
from boostmetric.oracles import cpu, pair_shard
from boostmetric.oracles.losses import EXPONENTIAL
from boostmetric.paper import download
from boostmetric.paper.datasets import load

# On a busy machine any example may take long.
hypothesis.settings.register_profile("boostmetric", deadline=None)
hypothesis.settings.load_profile("boostmetric")


@dataclass
class Problem:
    """Points with comparisons, and the same comparisons as quadruplets for the reference."""

    points: np.ndarray
    comparisons: Comparisons

    @property
    def quadruplets(self):
        """Each comparison as often as its weight, a whole number, says."""
        c = self.comparisons
        near, far = c.side_sizes
        weights = np.repeat(c.weights, near * far).astype(int)
        return [q for q, weight in zip(c.quadruplets(), weights, strict=True) for _ in range(weight)]


def flat(comparisons):
    """The same comparisons, each a group of its own."""
    near, far = [], []
    for g in range(comparisons.n_groups):
        low, middle, high = comparisons.bounds[2 * g : 2 * g + 3]
        for p in comparisons.members[low:middle]:
            near += [p] * (high - middle)
            far += comparisons.members[middle:high].tolist()
    members = np.stack([near, far], axis=1).ravel().astype(np.int32)
    anchors = -1 - np.arange(len(near))
    return Comparisons(comparisons.pairs, members, np.arange(len(members) + 1), np.ones(len(near)), anchors)


def shards_of(points, comparisons, backend=ONE_THREAD):
    """Shards of a problem; of threads, on this one, because the others end with the pool."""
    backend = ONE_THREAD if isinstance(backend, ThreadBackend) else backend
    with backend.pool(Frame.of(points).points, comparisons, EXPONENTIAL) as pool:
        return pool.shards


def random_triplets(seed, n_points=60, n_features=5, n_triplets=2000):
    """Triplets that a hidden metric answers, with some of the answers wrong."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n_points, n_features))
    hidden = points * np.linspace(2, 0, n_features)
    triplets = np.array([rng.choice(n_points, 3, replace=False) for _ in range(n_triplets)])
    near, far = (np.linalg.norm(hidden[triplets[:, 0]] - hidden[triplets[:, c]], axis=1) for c in (1, 2))
    swap = (near > far) ^ (rng.random(n_triplets) < 0.1)
    triplets[swap] = triplets[swap][:, [0, 2, 1]]
    return Problem(points, Comparisons.from_triplets(triplets))


def corruptions(content, n, seed):
    """Some bytes, damaged in so many ways: bits flipped, the end or a part cut off, bytes put in or overwritten."""
    rng = np.random.default_rng(seed)
    # Half of the damage is done to the header, which is short and says how to read the rest.
    header = 8 + int.from_bytes(content[:8], "little")
    for number in range(n):
        place = int(rng.integers(header if number % 2 else len(content)))
        size = int(rng.integers(1, 9))
        flipped = bytes([content[place] ^ 1 << int(rng.integers(8))])
        yield [
            content[:place] + flipped + content[place + 1 :],
            content[:place],
            content[:place] + content[place + size :],
            content[:place] + rng.bytes(size) + content[place:],
            content[:place] + rng.bytes(size) + content[place + size :],
        ][number // 2 % 5]


def labelled(name):
    if name == "balance":
        return load("balance")
    return {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)


def device_name():
    """A GPU if there is one, else the CPU, as torch calls them."""
    return "cuda" if import_torch().cuda.is_available() else "cpu"


def import_torch():
    """Torch, or the test, or the file of tests, is skipped."""
    torch = pytest.importorskip("torch", reason="needs torch: make test-torch installs it")
    torch.set_num_threads(1)  # several of each of pytest's workers would wait for each other: six times slower
    return torch


PROBLEMS = ["iris", "wine", "balance", "iris-flat", "wine-flat", "balance-flat", "balance-all", "triplets", "mixed"]


def make_problem(name):
    if name == "triplets":
        return random_triplets(0)
    if name == "mixed":  # groups and single comparisons together
        full = [[0, j, k] for j in (1, 2) for k in (3, 4, 5)]
        rng = np.random.default_rng(2)
        more = np.array([rng.choice(np.arange(1, 60), 3, replace=False) for _ in range(300)])
        points = rng.standard_normal((60, 5))
        return Problem(points, Comparisons.from_triplets(np.concatenate([full, more])))
    name, _, form = name.partition("-")
    X, y = labelled(name)
    if form == "all":  # every impostor, of every ninth point
        return Problem(X[::9], Comparisons.from_labels(X[::9], y[::9], n_impostors="all"))
    comparisons = Comparisons.from_labels(X, y)
    return Problem(X, flat(comparisons) if form else comparisons)


@pytest.fixture(scope="session", params=PROBLEMS)
def problem(request):
    return make_problem(request.param)


@pytest.fixture(scope="session", params=["threads", pytest.param("device", marks=pytest.mark.torch)])
def backend(request):
    """Where to work: a test that asks for it judges every oracle, of which all must be exact to double precision."""
    if request.param == "threads":
        return ThreadBackend(2)
    import_torch()
    return DeviceBackend(device_name(), single=False)


@pytest.fixture
def small_shards(monkeypatch):
    """Cut even small problems into several shards, and their work into several pieces."""
    monkeypatch.setattr(pair_shard, "_PAIRS_PER_PIECE", 20)
    monkeypatch.setattr(cpu, "_MEMBERS_PER_SHARD", 100)
    monkeypatch.setattr(cpu, "_ROWS_PER_SHARD", 10)
    monkeypatch.setattr(cpu, "_MOST_ON_POINTS", np.inf)


@pytest.fixture(scope="session", autouse=True)
def only_this_machine(tmp_path_factory):
    """No test reads the user's cache or asks another machine for data; both would make it pass or fail by chance."""
    ask = download.open_url

    def ask_here(url):
        if urlsplit(url).hostname != "127.0.0.1":
            raise URLError("tests do not use the network")
        return ask(url)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOOSTMETRIC_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(download, "open_url", ask_here)
        yield


@pytest.fixture
def data_dir():
    folder = Path(os.environ.get("BOOSTMETRIC_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not (folder / "letters.npz").exists():
        pytest.skip("needs the paper's data sets: set BOOSTMETRIC_DATA to their folder")
    return folder
