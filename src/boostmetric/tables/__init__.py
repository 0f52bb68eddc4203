"""Points, ids, labels and comparisons from files: CSV, TSV, JSON lines, Parquet, npy and npz.

`formats` finds, opens and reads the files, in chunks whose columns `reading` converts to numbers, vectors and ids.
`point_table` makes points of them, `building` and `comparing` comparisons. `complaints` collects the errors.
"""

from boostmetric.tables.comparison_files import ComparisonFiles
from boostmetric.tables.comparison_table import ComparisonTable, read_comparisons, read_positives, read_relevance
from boostmetric.tables.complaints import TableError, TableNotFoundError
from boostmetric.tables.file_points import open_points
from boostmetric.tables.point_table import PointTable, read_points

__all__ = [
    "ComparisonFiles",
    "ComparisonTable",
    "PointTable",
    "TableError",
    "TableNotFoundError",
    "open_points",
    "read_comparisons",
    "read_points",
    "read_positives",
    "read_relevance",
]
