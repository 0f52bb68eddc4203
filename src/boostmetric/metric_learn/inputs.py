"""Checks of points and tuples, and the preprocessor that forms them from indicators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_X_y

from boostmetric.metric_learn.exceptions import PreprocessorError

Preprocessor = Callable[[NDArray[Any]], Any]


class _Kind(NamedTuple):
    """What inputs must look like."""

    n_dimensions: int
    formed: str
    either: str


_KINDS = {
    "classic": _Kind(2, "2D array of formed points", "1D array of indicators or 2D array of formed points"),
    "tuples": _Kind(3, "3D array of formed tuples", "2D array of indicators or 3D array of formed tuples"),
}


def make_name(estimator: Any) -> str | None:
    """Name of an estimator; a string is its own name."""
    return estimator if estimator is None or isinstance(estimator, str) else type(estimator).__name__


def make_context(estimator: Any) -> str:
    """Words for messages: by which estimator."""
    name = make_name(estimator)
    return "" if name is None else f" by {name}"


class ArrayIndexer:
    """Preprocessor that looks indicators up in an array."""

    def __init__(self, X: Any) -> None:
        self.X = _as_array(X)

    def __call__(self, indices: NDArray[Any]) -> Any:
        """Rows of the array."""
        return self.X[indices]


def check_input(
    input_data: Any,
    y: Any = None,
    preprocessor: Preprocessor | None = None,
    type_of_inputs: str = "classic",
    tuple_size: int | None = None,
    accept_sparse: bool = False,
    dtype: Any = "numeric",
    order: str | None = None,
    copy: bool = False,
    force_all_finite: bool | str = True,
    multi_output: bool = False,
    ensure_min_samples: int = 1,
    ensure_min_features: int = 1,
    y_numeric: bool = False,
    estimator: Any = None,
) -> Any:
    """Check points or tuples, and form them by the preprocessor if they are indicators.

    Parameters are those of scikit-learn's `check_X_y`, and ``type_of_inputs``, "classic" or "tuples".
    """
    is_array_of_numbers = isinstance(input_data, np.ndarray) and input_data.dtype.kind in "biuf"
    given = input_data if is_array_of_numbers else _as_array(input_data)
    if type_of_inputs not in ("classic", "tuples") or not isinstance(type_of_inputs, str):
        raise ValueError(f"Unknown value {type_of_inputs} for type_of_inputs. Valid values are 'classic' or 'tuples'.")
    kind, context = _KINDS[type_of_inputs], make_context(estimator)
    form = preprocess_points if type_of_inputs == "classic" else preprocess_tuples
    indicators = given.ndim == kind.n_dimensions - 1 and preprocessor is not None
    if indicators:
        assert preprocessor is not None
        given = form(given, preprocessor)
    elif given.ndim != kind.n_dimensions:
        _refuse_shape(given, kind, context, preprocessor)
    least = (ensure_min_samples, *[1] * (kind.n_dimensions - 2), ensure_min_features)
    if order is None and not copy and dtype == "numeric" and _needs_no_check(given, y, least):
        if type_of_inputs == "tuples":
            _check_tuples(given, tuple_size, ensure_min_features, context)
            if y is not None and given.shape[1] == 2:
                check_y_valid_values_for_pairs(y)
        return given if y is None else (given, y)
    checks: dict[str, Any] = {
        "allow_nd": True,
        "ensure_2d": False,
        "accept_sparse": accept_sparse,
        "dtype": dtype,
        "order": order,
        "copy": copy,
        "ensure_all_finite": force_all_finite,
        "ensure_min_samples": ensure_min_samples,
        "ensure_min_features": ensure_min_features,
        "estimator": estimator,
    }
    if y is None:
        checked = check_array(given, **checks)
    else:
        checked, y = check_X_y(given, y, multi_output=multi_output, y_numeric=y_numeric, **checks)
    if checked.ndim != kind.n_dimensions:
        _refuse_formed(checked, kind, context)
    if type_of_inputs == "tuples":
        _check_tuples(checked, tuple_size, ensure_min_features, context)
        if y is not None and checked.shape[1] == 2:
            check_y_valid_values_for_pairs(y)
    return checked if y is None else (checked, y)


def _needs_no_check(given: Any, y: Any, least: tuple[int, ...]) -> bool:
    """Whether arrays are what scikit-learn's checks would return as they are: plain, finite and large enough.

    The checks first look for data frames of many kinds, which takes longer than some learners do.
    """
    if type(given) is not np.ndarray or given.dtype not in (np.float64, np.float32) or given.ndim != len(least):
        return False
    if any(n < m for n, m in zip(given.shape, least, strict=True)):
        return False
    if y is not None and (type(y) is not np.ndarray or y.dtype.kind not in "iu" or y.shape != given.shape[:1]):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(given.sum()))  # a sum that overflows is left to the checks


def check_tuple_size(tuples: NDArray[Any], tuple_size: int | None, context: str) -> None:
    """Raise an error unless tuples have the given number of points."""
    if tuple_size is not None and tuples.shape[1] != tuple_size:
        raise ValueError(
            f"Tuples of {tuple_size} element(s) expected{context}. Got tuples of {tuples.shape[1]} element(s) instead "
            f"(shape={tuples.shape}):\ninput={tuples}.\n"
        )


def check_y_valid_values_for_pairs(y: Any) -> None:
    """Raise an error unless all labels are 1 or -1."""
    given = np.asarray(y)
    if not (np.abs(given) == 1 if given.dtype.kind in "biuf" else np.isin(given, (-1, 1))).all():
        raise ValueError(
            "When training on pairs, the labels (y) should contain only values in [-1, 1]. Found an incorrect value."
        )


def check_collapsed_pairs(pairs: NDArray[Any]) -> None:
    """Raise an error if the two points of a pair are equal."""
    collapsed = int((np.linalg.norm(pairs[:, 0] - pairs[:, 1], axis=1) < 1e-9).sum())
    if collapsed:
        raise ValueError(
            f"{collapsed} collapsed pairs found (where the left element is the same as the right element), out of "
            f"{len(pairs)} pairs in total."
        )


def preprocess_tuples(tuples: NDArray[Any], preprocessor: Preprocessor) -> NDArray[Any]:
    """Form tuples of points, one element after the other."""
    try:
        return np.stack([np.asarray(preprocessor(tuples[:, i])) for i in range(tuples.shape[1])], axis=1)
    except Exception as error:
        raise PreprocessorError(error) from error


def preprocess_points(points: NDArray[Any], preprocessor: Preprocessor) -> Any:
    """Form points."""
    try:
        return preprocessor(points)
    except Exception as error:
        raise PreprocessorError(error) from error


def validate_vector(u: Any, dtype: Any = None) -> NDArray[Any]:
    """One point; a number is a point of one feature."""
    vector = np.atleast_1d(np.asarray(u, dtype=dtype).squeeze())
    if vector.ndim > 1:
        raise ValueError("Input vector should be 1-D.")
    return vector


def _as_array(X: Any) -> Any:
    return check_array(
        X,
        accept_sparse=True,
        dtype=None,
        ensure_all_finite=False,
        ensure_2d=False,
        allow_nd=True,
        ensure_min_samples=0,
        ensure_min_features=0,
    )


def _check_tuples(tuples: NDArray[Any], tuple_size: int | None, n_features: int, context: str) -> None:
    if tuples.shape[2] < n_features:
        raise ValueError(
            f"Found array with {tuples.shape[2]} feature(s) (shape={tuples.shape}) while a minimum of {n_features} is "
            f"required{context}."
        )
    check_tuple_size(tuples, tuple_size, context)


def _refuse_shape(given: Any, kind: _Kind, context: str, preprocessor: Preprocessor | None) -> NoReturn:
    one_less = given.ndim == kind.n_dimensions - 1
    expected = kind.formed if preprocessor is None else kind.either
    using = "" if preprocessor is None else " when using a preprocessor"
    remedy = " and/or use a preprocessor" if one_less else ""
    raise ValueError(
        f"{expected} expected{context}{using}. Found {given.ndim}D array instead:\ninput={given}. Reshape your "
        f"data{remedy}.\n"
    )


def _refuse_formed(formed: Any, kind: _Kind, context: str) -> NoReturn:
    raise ValueError(
        f"{kind.formed} expected{context} after the preprocessor has been applied. Found {formed.ndim}D array instead:"
        f"\ninput={formed}. Reshape your data and/or use a preprocessor.\n"
    )
