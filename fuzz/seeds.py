"""Write files to begin with, a folder of them for each kind: ``python fuzz/seeds.py corpus``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from boostmetric import BoostMetric
from boostmetric.callbacks import Checkpoint
from boostmetric.retrieval import MetricIndex
from boostmetric.tenants import TenantMetrics

TABLES = {
    "points": "id,label,x,y\na,p,0.5,1\nb,q,1.5,-2e3\n",
    "triplets": "anchor,near,far,weight\na,b,c,1\nb,c,a,2\n",
    "quadruplets": "a,b,c,d\na,b,b,c\n",
    "pairs": "a,b,similar\na,b,1\nb,c,-1\n",
    "grades": "query,document,grade\na,b,2\na,c,0\n",
    "clicks": "query,document,position,clicked\na,b,1,0\na,c,2,1\n",
}


def main(folder: Path) -> None:
    """Small files of each kind."""
    for name, text in TABLES.items():
        rows = [line.split(",") for line in text.splitlines()]
        _write(folder / "csv" / name, text.encode())
        _write(folder / "tsv" / name, text.replace(",", "\t").encode())
        lines = ["{" + ", ".join(f'"{k}": "{v}"' for k, v in zip(rows[0], row, strict=True)) + "}" for row in rows[1:]]
        _write(folder / "jsonl" / name, "\n".join(lines).encode())
    y = np.arange(12) % 2
    X = np.random.default_rng(0).standard_normal((12, 2)) + 2.0 * y[:, None]
    for kind in ("npy", "npz", "parquet", "model", "index", "tenants", "checkpoint"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    with (folder / "npy" / "points").open("wb") as file:
        np.save(file, X)
    with (folder / "npz" / "points").open("wb") as file:
        np.savez(file, X=X, label=y, id=np.arange(12).astype(str))
    try:
        from pyarrow import parquet, table
    except ImportError:
        pass
    else:
        parquet.write_table(
            table({"id": ["a", "b"], "x": [0.5, 1.5], "v": [[1.0], [2.0]]}), folder / "parquet" / "points"
        )
    model = BoostMetric.paper(max_iter=3, callbacks=[Checkpoint(folder / "checkpoint" / "fit")]).fit(X, y)
    model.save(folder / "model" / "boosted")
    MetricIndex(model).add(X, ids=[f"é{i}" for i in range(12)]).save(folder / "index" / "text")
    MetricIndex().add(X).save(folder / "index" / "numbers")
    tenants = TenantMetrics(model)
    tenants.fit("few queries", X[:2], X[2:], [[0, 1, 1], [1, 2, 1]])
    tenants.save(folder / "tenants" / "one")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
