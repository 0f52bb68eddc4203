"""Export the matrix of a metric as text: JSON, CSV or SQL.

Numbers are written with as many digits as tell them from their neighbours in the given precision.
"""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from boostmetric.arrays.validation import check_choice
from boostmetric.export.matrix import Learned, metric_of, rounded
from boostmetric.metric import MahalanobisMetric
from boostmetric.storage.files import replacing

_DTYPES = ("float16", "float32", "float64")
_ROWS_OF_A_STATEMENT = 500  # some databases limit the length of a statement


def to_json(metric: MahalanobisMetric | Learned, path: str | os.PathLike[str], dtype: str = "float32") -> Path:
    """Write the linear map of a metric as JSON.

    An object with "n_features", "n_components", "feature_names" (or null), "normalize" and "matrix": M of `to_numpy`,
    as a list with one list of n_components numbers for each feature.

    Parameters
    ----------
    metric : MahalanobisMetric or fitted learner
    path : str or path
        An existing file is replaced.
    dtype : {"float16", "float32", "float64"}, default="float32"
        Precision of the numbers.

    Returns
    -------
    Path
        Path of the file.

    Examples
    --------
    >>> import json, tempfile
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.export import to_json
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = to_json(MahalanobisMetric([[2.0, 0.1]]), f"{folder}/metric.json").read_text()
    >>> json.loads(written)["matrix"]
    [[2.0], [0.1]]
    """
    learned, matrix = _checked(metric, dtype)
    n_features, n_components = matrix.shape
    content = {
        "n_features": n_features,
        "n_components": n_components,
        "feature_names": learned.feature_names,
        "normalize": learned.normalize,
        "matrix": [[float(number) for number in row] for row in _texts(matrix)],
    }
    return _written(path, json.dumps(content) + "\n")


def to_csv(metric: MahalanobisMetric | Learned, path: str | os.PathLike[str], dtype: str = "float32") -> Path:
    """Write the linear map of a metric as CSV, with one row for each feature.

    The first column, "feature", holds its name, or its number from 0; the others, "component_0" and so on, hold M of
    `to_numpy`.

    Parameters
    ----------
    metric, path, dtype
        As in `to_json`.

    Returns
    -------
    Path
        Path of the file.

    Examples
    --------
    >>> import tempfile
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.export import to_csv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(to_csv(MahalanobisMetric([[2.0, 0.1]]), f"{folder}/metric.csv").read_text().strip())
    feature,component_0
    0,2.0
    1,0.1
    """
    learned, matrix = _checked(metric, dtype)
    names = learned.feature_names or range(matrix.shape[0])
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["feature", *(f"component_{number}" for number in range(matrix.shape[1]))])
    rows.writerows([name, *row] for name, row in zip(names, _texts(matrix), strict=True))
    return _written(path, text.getvalue())


def to_sql(metric: MahalanobisMetric | Learned, path: str | os.PathLike[str], dtype: str = "float32") -> Path:
    """Write the linear map of a metric as SQL that creates and fills a table.

    The table ``metric`` has the columns ``component`` and ``feature``, both numbered from 1 as arrays of SQL are, and
    ``weight``. A comment in the file shows how to map vectors with it.

    Parameters
    ----------
    metric, path, dtype
        As in `to_json`.

    Returns
    -------
    Path
        Path of the file.

    Examples
    --------
    >>> import sqlite3, tempfile
    >>> from boostmetric import MahalanobisMetric
    >>> from boostmetric.export import to_sql
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     script = to_sql(MahalanobisMetric([[2.0, 0.1]]), f"{folder}/metric.sql").read_text()
    >>> database = sqlite3.connect(":memory:")
    >>> _ = database.executescript(script)
    >>> database.execute("select * from metric").fetchall()
    [(1, 1, 2.0), (1, 2, 0.1)]
    """
    learned, matrix = _checked(metric, dtype)
    n_features, n_components = matrix.shape
    by = "cosine" if learned.normalize else "Euclidean distance"
    rows = [
        f"({component}, {feature}, {weight})"
        for component, weights in enumerate(_texts(matrix.T), start=1)
        for feature, weight in enumerate(weights, start=1)
    ]
    parts = [rows[start : start + _ROWS_OF_A_STATEMENT] for start in range(0, len(rows), _ROWS_OF_A_STATEMENT)]
    statements = [
        f"-- A metric of boostmetric: {n_features} features to {n_components} dimensions, compared by {by}.",
        "-- To map the vectors of a table vectors (id, feature, value):",
        "--   select id, component, sum(value * weight) as value",
        "--   from vectors join metric using (feature) group by id, component",
        "create table metric (component integer not null, feature integer not null, weight double precision not null, "
        "primary key (component, feature));",
        *("insert into metric (component, feature, weight) values\n" + ",\n".join(part) + ";" for part in parts),
    ]
    return _written(path, "\n".join(statements) + "\n")


def _checked(metric: MahalanobisMetric | Learned, dtype: str) -> tuple[MahalanobisMetric, NDArray[Any]]:
    check_choice("dtype", dtype, _DTYPES)
    learned = metric_of(metric)
    return learned, rounded(learned, dtype)


def _texts(matrix: NDArray[Any]) -> list[list[str]]:
    """The shortest text of each number from which it can be read again."""
    return [[str(number) for number in row] for row in matrix]


def _written(path: str | os.PathLike[str], text: str) -> Path:
    path = Path(path)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
