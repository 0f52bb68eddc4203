"""Fuzz the readers of files with atheris: any bytes are a table, or what is stored, or are refused.

    python fuzz/files.py csv -max_total_time=300 corpus/csv

The first argument is a kind of file: csv, tsv, jsonl, npy, npz, parquet, model, index, tenants or checkpoint; the
others are libFuzzer's. See fuzz/README.md.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["boostmetric"]):
    import numpy as np

    from boostmetric.callbacks import Checkpoint
    from boostmetric.metric.mahalanobis import MahalanobisMetric
    from boostmetric.retrieval import MetricIndex
    from boostmetric.tables import PointTable, TableError, read_comparisons, read_points, read_positives, read_relevance
    from boostmetric.tenants import TenantMetrics

POINTS = PointTable(np.eye(4), ids=np.array(["a", "b", "c", "1"], dtype=object))
STORED = {
    "model": MahalanobisMetric.load,
    "index": MetricIndex.load,
    "tenants": TenantMetrics.load,
    "checkpoint": Checkpoint.load,
}


def main() -> None:
    """Hand libFuzzer's bytes to the readers; what is neither an answer nor a refusal ends it, with the bytes kept."""
    kind = sys.argv.pop(1)
    path = Path(tempfile.mkdtemp()) / f"file.{kind}"

    def check(error: ValueError) -> None:
        if str(path) not in str(error):
            raise AssertionError("the message does not name the file") from error

    def read_stored(content: bytes) -> None:
        path.write_bytes(content)
        try:
            STORED[kind](path)
        except ValueError as error:
            check(error)

    def read_table(content: bytes) -> None:
        path.write_bytes(content)
        for read in (
            lambda: read_points(path),
            lambda: read_points(path, id="id", label="label"),
            lambda: read_comparisons(path, POINTS),
            lambda: read_relevance(path, POINTS),
            lambda: read_positives(path, POINTS),
        ):
            try:
                read()
            except TableError as error:
                check(error)

    atheris.Setup(sys.argv, read_stored if kind in STORED else read_table)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
