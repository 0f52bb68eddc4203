"""Files that the workers of a Ray cluster read: the same answers, and clear ends where a file is broken."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, MahalanobisMetric
from boostmetric.callbacks import Checkpoint
from boostmetric.engines.ray import RayEngine
from boostmetric.estimators.file_evaluation import evaluate_files
from boostmetric.tables import ComparisonFiles, TableError, TableNotFoundError
from boostmetric.tables.formats import ParquetTable
from clustered import processes
from conftest import labelled
from filed import triplets_by_metric, write_points, write_rows, write_triplets

ray = pytest.importorskip("ray", reason="needs ray: make test-ray installs it")
# Ray's own code warns of what it will change.
pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]
X, TRIPLETS = triplets_by_metric()
TEXTS = [f"sku-{number}" for number in range(len(X))]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with RayEngine(n_workers=8).connected():
        yield


@pytest.fixture
def files(tmp_path):
    points = write_points(tmp_path / "points", X, TEXTS)
    return ComparisonFiles(points, write_triplets(tmp_path / "triplets", TRIPLETS, TEXTS), id="id")


def difference(one, other):
    a, b = one.get_mahalanobis_matrix(), other.get_mahalanobis_matrix()
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def refuse_rows(self, names):
    raise AssertionError("The driver must not read rows.")


def apart(n_processes):
    """So many processes of one worker each."""
    return RayEngine(n_workers=n_processes, workers_per_process=1)


@pytest.mark.parametrize("engine", [apart(1), apart(4), RayEngine(n_workers=4, workers_per_process=2)], ids=str)
def test_same_metric_as_in_one_process_and_the_driver_reads_no_rows(files, engine, monkeypatch):
    options = {"max_iter": 20, "loss": "exponential" if engine.n_workers % 2 else "logistic"}
    one = ComparisonBoostMetric(**options).fit(Comparisons.from_triplets(TRIPLETS, grouped=False), points=X)
    monkeypatch.setattr(ParquetTable, "chunks", refuse_rows)  # of this process alone
    many = ComparisonBoostMetric(**options, engine=engine).fit(files)
    assert difference(many, one) < 1e-9
    assert many.stop_reason_ == one.stop_reason_
    assert many.score(files) == pytest.approx(one.score(TRIPLETS), abs=1e-12)
    assert many.n_features_in_ == 4


def test_named_features_and_what_is_held_out(tmp_path, files):
    named = ComparisonFiles(write_points(tmp_path / "named", X, TEXTS, columns=True), files.comparisons, id="id")
    options = {"max_iter": 30, "engine": apart(3)}
    metric = ComparisonBoostMetric(**options, early_stopping=True, random_state=0).fit(named)
    assert metric.feature_names_in_.tolist() == ["f0", "f1", "f2", "f3"]
    assert metric.history_[-1].held_out > 0.7
    watched = ComparisonBoostMetric(**options).fit(named, eval_set=files)
    assert watched.history_[-1].held_out == pytest.approx(watched.score(files), abs=0.02)


def test_workers_score_at_unit_length(files, monkeypatch):
    options = {"max_iter": 20, "normalize": True}
    one = ComparisonBoostMetric(**options).fit(Comparisons.from_triplets(TRIPLETS, grouped=False), points=X)
    monkeypatch.setattr(ParquetTable, "chunks", refuse_rows)
    many = ComparisonBoostMetric(**options, engine=apart(3)).fit(files)
    assert many.score(files) == pytest.approx(one.score(TRIPLETS), abs=1e-12)
    evaluation = evaluate_files(many.get_metric(), files.opened(), apart(3))
    assert evaluation.learned == pytest.approx(one.score(TRIPLETS), abs=1e-12)
    plain = MahalanobisMetric(many.components_)
    near, far = (plain.distance(X[TRIPLETS[:, 0]], X[TRIPLETS[:, column]]) for column in (1, 2))
    assert evaluate_files(plain, files.opened(), apart(3)).learned == pytest.approx((near < far).mean(), abs=1e-12)
    assert evaluation.learned != (near < far).mean()


def test_groups(tmp_path):
    """One group an anchor, as graded results: the same as from labels."""
    samples, y = labelled("iris")
    one = BoostMetric.paper(n_neighbors=2, n_impostors=4, max_iter=15).fit(samples, y)
    mined = one_group_an_anchor(samples, y, 2, 4)
    files = ComparisonFiles(write_points(tmp_path / "points", samples), write_rows(tmp_path / "grades", **mined))
    many = ComparisonBoostMetric(max_iter=15, engine=apart(3)).fit(files)
    assert difference(many, one) < 1e-9


def one_group_an_anchor(samples, y, n_near, n_far):
    comparisons = Comparisons.from_labels(samples, y, n_near, n_far)
    rows = {"query": [], "document": [], "grade": []}
    for group, anchor in enumerate(comparisons.anchors.tolist()):
        low, middle, high = comparisons.bounds[2 * group : 2 * group + 3]
        for member in range(low, high):
            pair = comparisons.pairs[comparisons.members[member]].tolist()
            rows["query"].append(anchor)
            rows["document"].append(pair[0] if pair[1] == anchor else pair[1])
            rows["grade"].append(int(member < middle))
    # All rows of a query in one file: three files of as many queries.
    assert comparisons.n_groups % 3 == 0
    return rows


class At:
    """Does something after an iteration."""

    def __init__(self, number, work):
        self.number, self.work = number, work

    def on_iteration(self, record):
        if record.number == self.number:
            self.work()


def kill_a_worker():
    os.kill(processes("Worker")[0], signal.SIGKILL)


def test_a_worker_that_is_killed_reads_its_share_again(files):
    options = {"max_iter": 12, "engine": apart(3)}
    undisturbed = ComparisonBoostMetric(**options).fit(files)
    disturbed = ComparisonBoostMetric(**options, callbacks=[At(3, kill_a_worker), At(7, kill_a_worker)]).fit(files)
    assert disturbed.components_.tobytes() == undisturbed.components_.tobytes()


@pytest.mark.parametrize("damage", ["missing", "cut off", "other bytes"])
def test_a_part_that_is_broken_ends_the_fit_with_its_name_and_the_checkpoint_stays(files, tmp_path, damage):
    part, checkpoint = tmp_path / "triplets" / "part-1.parquet", tmp_path / "fit.npz"
    whole = part.read_bytes()

    def break_it():
        if damage == "missing":
            part.unlink()
        else:
            part.write_bytes(whole[:-40] if damage == "cut off" else whole[:4] + bytes(200) + whole[204:])
        for pid in processes("Worker"):
            os.kill(pid, signal.SIGKILL)

    options = {"max_iter": 10, "engine": apart(1)}
    undisturbed = ComparisonBoostMetric(**options).fit(files)
    options["engine"] = apart(3)
    broken = ComparisonBoostMetric(**options, callbacks=[Checkpoint(checkpoint), At(4, break_it)])
    error = TableNotFoundError if damage == "missing" else TableError
    with pytest.raises(error, match=r"part-1\.parquet: (not a whole Parquet file|there is no such file)"):
        broken.fit(files)
    part.write_bytes(whole)
    resumed = ComparisonBoostMetric(**{**options, "engine": RayEngine(n_workers=2)}).fit(files, resume_from=checkpoint)
    assert resumed.n_iter_ == 10
    assert difference(resumed, undisturbed) < 1e-6


def test_a_checkpoint_of_other_files_is_refused(files, tmp_path):
    checkpoint = tmp_path / "fit.npz"
    options = {"max_iter": 3, "engine": RayEngine(n_workers=2)}
    ComparisonBoostMetric(**options, callbacks=[Checkpoint(checkpoint)]).fit(files)
    write_triplets(tmp_path / "triplets", TRIPLETS[::-1], TEXTS)
    with pytest.raises(ValueError, match="The checkpoint belongs to another fit"):
        ComparisonBoostMetric(**options).fit(files, resume_from=checkpoint)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": "standardized"}, r"Standardize the points before they are written, or set init=.identity."),
        ({"n_components": 9}, "n_components"),
    ],
)
def test_what_files_on_a_cluster_do_not_allow(files, options, message):
    with pytest.raises(ValueError, match=message):
        ComparisonBoostMetric(engine="ray", **options).fit(files)


def test_the_command(files, tmp_path):
    program = Path(sys.executable).with_name("boostmetric")
    command = [program, "fit", "--engine", "ray", "--points", files.points, "--comparisons", files.comparisons]
    command += ["--id", "id", "--workers", "2", "--max-iter", "25", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Comparisons held out that are satisfied: Euclidean" in done.stdout
    assert MahalanobisMetric.load(tmp_path / "model.safetensors").components.shape[1] == 4
    refused = subprocess.run([*command, "--force", "--where", "id=3"], cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "leave it out" in refused.stderr
