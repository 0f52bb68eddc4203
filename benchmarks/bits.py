"""``python -m benchmarks.bits record FILE``, then ``compare FILE``: fits whose bits a refactoring must keep.

Everything is recorded as arrays: metrics, histories, mined comparisons, model files and exports. Bits depend on the
processor and on the versions of NumPy, SciPy and numba, so a recording is only valid on the machine that made it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from tests.filed import triplets_by_metric

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, MahalanobisMetric, baselines, export
from boostmetric.callbacks import Checkpoint
from boostmetric.tables import ComparisonFiles

Arrays = dict[str, np.ndarray]


def fitted(learner) -> Arrays:
    """Result and history of a fit."""
    arrays = {"components": learner.components_}
    for name in ("directions_", "step_sizes_", "duality_gap_", "n_iter_", "n_passes_", "threshold_"):
        if hasattr(learner, name):
            arrays[name.removesuffix("_")] = np.asarray(getattr(learner, name))
    for name in ("loss", "eigenvalue", "step_size", "violated"):
        arrays[f"history {name}"] = np.array([getattr(record, name) for record in getattr(learner, "history_", [])])
    return arrays


def wide(n: int = 200, n_features: int = 600) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 4
    return rng.standard_normal((n, n_features)) + y[:, None] * (np.arange(n_features) < 5), y


def from_labels() -> Iterator[tuple[str, Callable[[], Arrays]]]:
    wine, digits, iris = (load(return_X_y=True) for load in (load_wine, load_digits, load_iris))
    digits = digits[0][:600], digits[1][:600]
    single = digits[0].astype(np.float32), digits[1]
    scattered = sparse.csr_array(digits[0]), digits[1]
    settings = {
        "exponential": {},
        "logistic": {"loss": "logistic"},
        "corrective": {"solver": "corrective", "max_iter": 10},
        "corrective logistic": {"solver": "corrective", "loss": "logistic", "max_iter": 10, "tol": 1e-4},
        "bisection": {"line_search": "bisection"},
        "all impostors": {"n_impostors": "all"},
        "all impostors logistic": {"n_impostors": "all", "loss": "logistic"},
        "passes": {"n_passes": 3, "init": "identity", "random_state": 0},
        "passes logistic": {"n_passes": 4, "init": "standardized", "loss": "logistic", "random_state": 1},
        "early stopping": {"early_stopping": True, "random_state": 0},
        "rca": {"init": "rca"},
        "standardized rca": {"init": "standardized-rca"},
        "short": {"n_components": 2, "regularization": 1e-3},
        "threads": {"n_jobs": 2},
    }
    for name, (X, y) in {"wine": wine, "digits": digits, "iris": iris}.items():
        for setting, options in settings.items():
            learner = BoostMetric.paper(**{"max_iter": 40, **options})
            yield f"{name} {setting}", lambda learner=learner, X=X, y=y: fitted(learner.fit(X, y))
    for name, (X, y) in {"single": single, "sparse": scattered, "wide": wide()}.items():
        for loss in ("exponential", "logistic"):
            learner = BoostMetric.paper(max_iter=20, loss=loss, random_state=0)
            yield f"{name} {loss}", lambda learner=learner, X=X, y=y: fitted(learner.fit(X, y))
    for name, (X, y) in {"wine": wine, "digits": digits, "iris": iris, "wide": wide()}.items():
        auto = BoostMetric.recommended(random_state=0)
        yield f"{name} recommended", lambda learner=auto, X=X, y=y: fitted(learner.fit(X, y))
    X, y = wine
    kept = np.arange(len(y)) % 3 > 0
    held_out = X[~kept], y[~kept]
    for name, learner in {
        "eval set": BoostMetric.paper(max_iter=60),
        "auto eval set": BoostMetric.recommended(random_state=0),
        "passes eval set": BoostMetric.paper(max_iter=20, n_passes=3, init="identity"),
    }.items():
        yield name, lambda learner=learner: fitted(learner.fit(X[kept], y[kept], eval_set=held_out))
    weights = 1.0 + np.arange(len(y)) % 5
    yield "weights", lambda: fitted(BoostMetric.paper(max_iter=30).fit(X, y, sample_weight=weights))
    yield (
        "metric to begin with",
        lambda: fitted(BoostMetric.paper(max_iter=20, init=MahalanobisMetric(np.diag(1 / X.std(axis=0)))).fit(X, y)),
    )

    def stream() -> Arrays:
        learner = BoostMetric.paper()
        for rows in np.array_split(np.random.RandomState(0).permutation(len(y)), 4):
            learner.partial_fit(X[rows], y[rows])
        return fitted(learner)

    def warm() -> Arrays:
        learner = BoostMetric.paper(max_iter=15, warm_start=True).fit(X, y)
        return fitted(learner.set_params(max_iter=30).fit(X, y))

    def resumed(**options) -> Arrays:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "part.npz"
            BoostMetric.paper(max_iter=8, callbacks=[Checkpoint(path)], **options).fit(X, y)
            return fitted(BoostMetric.paper(max_iter=20, **options).fit(X, y, resume_from=path))

    yield "stream", stream
    yield "warm start", warm
    yield "resumed", resumed
    yield "resumed logistic", lambda: resumed(loss="logistic", init="identity")
    yield "resumed corrective", lambda: resumed(solver="corrective")
    yield "resumed passes", lambda: resumed(n_passes=3, init="identity", random_state=0)
    if find_spec("torch"):
        for loss in ("exponential", "logistic"):
            for n_impostors in (3, "all"):
                options = {"max_iter": 10, "loss": loss, "n_impostors": n_impostors, "device": "torch:cpu"}
                yield (
                    f"torch {loss} {n_impostors}",
                    lambda options=options: fitted(BoostMetric.paper(**options).fit(*iris)),
                )
    for name in baselines.__all__:
        learner = getattr(baselines, name)()
        yield name, lambda learner=learner: fitted(learner.fit(X / X.std(axis=0), y))


def from_comparisons() -> Iterator[tuple[str, Callable[[], Arrays]]]:
    points, triplets = triplets_by_metric()
    rng = np.random.default_rng(1)
    quadruplets = np.array([rng.choice(len(points), 4, replace=False) for _ in range(300)])
    pairs = np.array([rng.choice(len(points), 2, replace=False) for _ in range(200)])
    sign = np.where(np.abs(points[pairs[:, 0], 0] - points[pairs[:, 1], 0]) < 1, 1, -1)
    queries, documents = np.repeat(np.arange(20), 8), np.tile(np.arange(20, 28), 20)
    grades, clicked = rng.integers(0, 3, 160), rng.integers(0, 2, 160)
    kinds = {
        "triplets": Comparisons.from_triplets(triplets),
        "single triplets": Comparisons.from_triplets(triplets, grouped=False),
        "quadruplets": Comparisons.from_quadruplets(quadruplets),
        "pairs": Comparisons.from_pairs(pairs[sign == 1], pairs[sign == -1]),
        "grades": Comparisons.from_rankings(queries, documents, grades),
        "clicks": Comparisons.from_rankings(queries, documents, clicks=clicked),
        "groups": Comparisons.from_groups(np.split(pairs[:80], 20), np.split(pairs[80:160], 20)),
    }
    for kind, comparisons in kinds.items():
        yield (
            f"{kind}, mined",
            lambda c=comparisons: {n: getattr(c, n) for n in ("pairs", "members", "bounds", "weights")},
        )
        for loss in ("exponential", "logistic"):
            for solver in ("stagewise", "corrective"):
                learner = ComparisonBoostMetric(max_iter=12, loss=loss, solver=solver)
                yield (
                    f"{kind} {loss} {solver}",
                    lambda learner=learner, c=comparisons: fitted(learner.fit(c, points=points)),
                )
    yield "signed pairs", lambda: fitted(ComparisonBoostMetric(max_iter=20).fit(pairs, sign, points=points))
    yield "tuples", lambda: fitted(ComparisonBoostMetric(max_iter=20).fit(points[triplets]))
    yield (
        "stopped early",
        lambda: fitted(
            ComparisonBoostMetric(max_iter=60, early_stopping=True, init="identity", random_state=0).fit(
                triplets, points=points
            )
        ),
    )

    def stream() -> Arrays:
        learner = ComparisonBoostMetric()
        for part in np.array_split(triplets, 5):
            learner.partial_fit(part, points=points)
        return fitted(learner)

    yield "stream of triplets", stream
    for engine in (None, "ray") if find_spec("ray") else (None,):
        yield f"files, engine {engine}", lambda engine=engine: _from_files(points, triplets, engine)
        yield (
            f"memory, engine {engine}",
            lambda engine=engine: fitted(
                ComparisonBoostMetric(max_iter=12, engine=engine, loss="logistic").fit(triplets, points=points)
            ),
        )


def _write(folder: Path, points: np.ndarray, triplets: np.ndarray) -> tuple[Path, Path]:
    import pyarrow
    from pyarrow import parquet

    columns = {"id": np.arange(len(points)), **{f"f{k}": column for k, column in enumerate(points.T)}}
    parquet.write_table(pyarrow.table(columns), folder / "points.parquet")
    rows = dict(zip(("anchor", "near", "far"), triplets.T, strict=True))
    parquet.write_table(pyarrow.table(rows), folder / "triplets.parquet", row_group_size=100)
    return folder / "points.parquet", folder / "triplets.parquet"


def _from_files(points: np.ndarray, triplets: np.ndarray, engine: str | None) -> Arrays:
    with tempfile.TemporaryDirectory() as folder:
        files = ComparisonFiles(*_write(Path(folder), points, triplets), id="id")
        learner = ComparisonBoostMetric(max_iter=12, engine=engine, early_stopping=True, random_state=0)
        return fitted(learner.fit(files))


def files() -> Iterator[tuple[str, Callable[[], Arrays]]]:
    X, y = load_wine(return_X_y=True)
    metric = BoostMetric.paper(max_iter=20).fit(X, y).get_metric()

    def written(write: Callable[[Path], object]) -> Arrays:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            write(path)
            paths = sorted(found for found in path.rglob("*") if found.is_file()) if path.is_dir() else [path]
            return {str(found.relative_to(folder)): np.frombuffer(found.read_bytes(), np.uint8) for found in paths}

    exports = {
        "numpy": export.to_numpy,
        "faiss": export.to_faiss,
        "onnx": export.to_onnx,
        "sentence-transformers": export.to_sentence_transformers,
        "query-side": export.to_query_side,
    }
    for name, write in exports.items():
        yield f"export {name}", lambda write=write: written(lambda path: write(metric, path))

    def model() -> Arrays:
        with tempfile.TemporaryDirectory() as folder:
            metric.save(Path(folder) / "model.safetensors")
            loaded = MahalanobisMetric.load(Path(folder) / "model.safetensors")
            return {
                "components": loaded.components,
                "directions": loaded.directions,
                "transformed": loaded.transform(X),
            }

    yield "model file", model
    for setting in ("recommended", "paper"):
        for suffix in (".csv", ".jsonl", ".npz", ".parquet"):
            yield f"fit {setting} {suffix}", lambda setting=setting, suffix=suffix: _command(X, y, setting, suffix)
        for options in (["--validation-fraction", "0.3"], ["--passes", "2", "--init", "identity", "--seed", "3"]):
            yield (
                f"fit {setting} {' '.join(options)}",
                lambda setting=setting, options=options: _command(X, y, setting, ".csv", *options),
            )
        yield f"fit {setting} comparisons", lambda setting=setting: _command_on_comparisons(setting)


def _command(X: np.ndarray, y: np.ndarray, setting: str, suffix: str, *options: str) -> Arrays:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"points{suffix}"
        header = ["kind", *(f"f{k}" for k in range(X.shape[1]))]
        if suffix == ".csv":
            rows = [",".join(map(repr, [int(label), *map(float, row)])) for row, label in zip(X, y, strict=True)]
            path.write_text("\n".join([",".join(header), *rows]) + "\n")
        elif suffix == ".jsonl":
            rows = [
                json.dumps(dict(zip(header, [int(b), *a.tolist()], strict=True))) for a, b in zip(X, y, strict=True)
            ]
            path.write_text("\n".join(rows) + "\n")
        elif suffix == ".npz":
            np.savez(path, kind=y, X=X)
        else:
            import pyarrow
            from pyarrow import parquet

            parquet.write_table(pyarrow.table(dict(zip(header, [y, *X.T], strict=True))), path)
        return _fit(path, "--label", "kind", "--setting", setting, *options)


def _command_on_comparisons(setting: str) -> Arrays:
    with tempfile.TemporaryDirectory() as name:
        points, rows = _write(Path(name), *triplets_by_metric())
        return _fit(points, "--id", "id", "--comparisons", str(rows), "--setting", setting)


def _fit(points: Path, *options: str) -> Arrays:
    """Model and numbers that ``boostmetric fit`` reports."""
    model = points.with_name("model.safetensors")
    command = [sys.executable, "-m", "boostmetric", "fit", str(points), *options, "-o", str(model), "--json"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found = {"components": MahalanobisMetric.load(model).components, "iterations": np.array(said["n_iterations"])}
    found["is base"] = np.array(said["is_base"])
    if said["evaluation"] is not None:
        rows = said["evaluation"].get("scores", [])
        found["scores"] = np.array([[row["base"] or 0, row["learned"] or 0] for row in rows], dtype=float)
    return found


def record() -> Arrays:
    """All arrays, by case and name."""
    found: Arrays = {}
    for cases in (from_labels, from_comparisons, files):
        for name, make in cases():
            if sys.stderr.isatty():
                print(f"\r{name:50}", end="", file=sys.stderr)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found |= {f"{name}: {key}": np.asarray(value) for key, value in make().items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bits", description=__doc__)
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "record":
        np.savez(arguments.file, **record())
        return
    with np.load(arguments.file) as known:
        before = dict(known)
    after = record()
    differ = [name for name in sorted({*before, *after}) if not _same(before.get(name), after.get(name))]
    for name in differ:
        a, b = before.get(name), after.get(name)
        shapes = a is not None and b is not None and a.shape == b.shape and a.dtype.kind in "fi"
        print(f"{name}: {np.abs(a - b).max() if shapes else 'not alike'}")
    print(f"{len(before) - len(differ)} of {len(before)} arrays have the same bits.")
    sys.exit(bool(differ))


def _same(before: np.ndarray | None, after: np.ndarray | None) -> bool:
    if before is None or after is None:
        return False
    return before.dtype == after.dtype and before.shape == after.shape and before.tobytes() == after.tobytes()


if __name__ == "__main__":
    main()
