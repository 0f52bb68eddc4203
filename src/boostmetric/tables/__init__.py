"""Points, ids, labels and comparisons from files: CSV, TSV, JSON lines, Parquet, npy and npz.

`opening` finds the files. `text`, `parquet` and `arrays` read their columns in chunks (`reading`), which `values`
converts to numbers, vectors and ids. `point_table` and `comparison_table` put these together. `complaints` collects
the errors.
"""

from boostmetric.tables.comparison_files import ComparisonFiles
from boostmetric.tables.comparison_table import ComparisonTable, read_comparisons, read_positives, read_relevance
from boostmetric.tables.complaints import TableError, TableNotFoundError
from boostmetric.tables.point_table import PointTable, read_points

__all__ = [
    "ComparisonFiles",
    "ComparisonTable",
    "PointTable",
    "TableError",
    "TableNotFoundError",
    "read_comparisons",
    "read_points",
    "read_positives",
    "read_relevance",
]
