"""Error types of metric-learn."""

from __future__ import annotations

from numpy.linalg import LinAlgError


class PreprocessorError(Exception):
    """The preprocessor raised an error."""

    def __init__(self, original_error: Exception) -> None:
        super().__init__(f"An error occurred when trying to use the preprocessor: {original_error!r}")


class NonPSDError(LinAlgError):
    """A matrix has a negative eigenvalue."""

    def __init__(self) -> None:
        super().__init__("Matrix is not positive semidefinite (PSD).")
