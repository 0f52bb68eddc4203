"""Problems in Parquet files, for tests of what reads them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def triplets_by_metric(n=120, n_features=4, n_triplets=600, seed=0):
    """Points, and triplets that a metric of different weights satisfies but for some noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features)) + 3.0
    weights = np.linspace(0.1, 2.0, n_features)
    triplets = np.array([rng.permutation(n)[:3] for _ in range(n_triplets)])
    near, far = (((X[triplets[:, 0]] - X[triplets[:, k]]) ** 2) @ weights for k in (1, 2))
    wrong = near * rng.uniform(0.7, 1.4, n_triplets) > far
    triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    return X, triplets


def write_points(folder, X, ids=None, n_files=3, row_group_size=17, columns=False):
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(len(X)), n_files)):
        table = {f"f{k}": X[part, k] for k in range(X.shape[1])} if columns else {"vector": list(X[part])}
        if ids is not None:
            table["id"] = [ids[i] for i in part]
        pq.write_table(pa.table(table), folder / f"part-{number}.parquet", row_group_size=row_group_size)
    return str(folder / "*.parquet")


def write_rows(folder, n_files=3, row_group_size=50, **columns):
    folder.mkdir(parents=True, exist_ok=True)
    n = len(next(iter(columns.values())))
    for number, part in enumerate(np.array_split(np.arange(n), n_files)):
        table = {name: [values[i] for i in part] for name, values in columns.items()}
        pq.write_table(pa.table(table), folder / f"part-{number}.parquet", row_group_size=row_group_size)
    return str(folder / "*.parquet")


def write_triplets(folder, triplets, ids=None, **options):
    names = np.asarray(triplets) if ids is None else np.asarray(ids, dtype=object)[triplets]
    columns = {role: names[:, k].tolist() for k, role in enumerate(("anchor", "near", "far"))}
    return write_rows(folder, **options, **columns)
