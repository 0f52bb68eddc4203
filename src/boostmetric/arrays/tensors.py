"""Torch tensors where arrays are expected: mapped on their device, or copied to the host.

Torch is never imported here for its own sake: whoever passes a tensor has already imported it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_tensor(x: object) -> bool:
    """Whether `x` is a torch tensor; False if torch has not been imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def as_numpy(x: Any) -> Any:
    """Copy a tensor to an array on the host, float16 and shorter as float32; return anything else unchanged.

    Arrays with masked entries are rejected, because a plain array would expose the values under the mask.
    """
    if np.ma.is_masked(x):
        raise ValueError("The array has masked entries, which have no value. Fill them, or drop these rows.")
    if not is_tensor(x):
        return x
    _refuse_sparse(x)
    return (x.float() if _is_short(x) else x).numpy(force=True)


def mapped(points: Any, components: NDArray[np.float64]) -> Any:
    """Apply a linear map to points, in their precision and on their device.

    Parameters
    ----------
    points : ndarray, csr_array or tensor of shape (..., n_features)
        Points of dtype float32 or float64.
    components : ndarray of shape (n_components, n_features)

    Returns
    -------
    ndarray or tensor of shape (..., n_components)
    """
    if is_tensor(points):
        return points @ points.new_tensor(components).T
    with np.errstate(over="ignore", invalid="ignore"):  # see `finite`
        fits = not components.size or np.abs(components).max() <= np.finfo(points.dtype).max
        answer = points @ components.T.astype(points.dtype if fits else np.float64, copy=False)
        return np.asarray(answer, dtype=points.dtype)


def finite(mapped: Any) -> Any:
    """Return mapped points, or raise an error if some are not finite. Tensors are not checked."""
    if not is_tensor(mapped) and not (good := np.isfinite(mapped)).all():
        row = int(np.argmin(good.reshape(-1, good.shape[-1]).all(axis=1))) if good.ndim else 0
        raise ValueError(
            f"Row {row} of the points is NaN or infinite, or overflows under the metric. Fix it, drop it, or rescale "
            "the points."
        )
    return mapped


def check_pairs(a: Any, b: Any) -> None:
    """Raise an error unless points `a` and `b` have equal shapes, or shapes that broadcast."""
    try:
        np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    except ValueError:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ValueError(
            f"Points of shapes {shapes} cannot be paired row by row. Give equal numbers of points."
        ) from None


def difference(a: Any, b: Any) -> Any:
    """Subtract points `b` from points `a`; if either is a tensor, on its device and in its precision."""
    check_pairs(a, b)
    if is_tensor(a) != is_tensor(b):
        a, b = (a, a.new_tensor(b)) if is_tensor(a) else (b.new_tensor(a), b)
    if a.shape != b.shape:  # only dense points broadcast
        a, b = (points.toarray() if hasattr(points, "toarray") else points for points in (a, b))
    with np.errstate(over="ignore", invalid="ignore"):  # see `finite`
        return a - b


def lengths(vectors: Any) -> Any:
    """Euclidean lengths of vectors, on their device; for arrays, even if squares would overflow or underflow."""
    if is_tensor(vectors):
        import torch

        return torch.linalg.vector_norm(vectors, dim=-1)
    _, exponent = np.frexp(np.abs(vectors).max(axis=-1, initial=0.0))
    return np.ldexp(np.linalg.norm(np.ldexp(vectors, -exponent[..., None]), axis=-1), exponent)


def unit_vectors(vectors: Any) -> Any:
    """Scale vectors to unit length, in their precision and on their device; zeros stay zeros.

    Parameters
    ----------
    vectors : ndarray or tensor of shape (..., n_dimensions)
        Rows that are not finite stay so.

    Returns
    -------
    ndarray or tensor of shape (..., n_dimensions)
    """
    # Scaled by the largest coordinate first: the squares of very large or very small ones overflow or vanish.
    if is_tensor(vectors):
        import torch

        largest = vectors.detach().abs().amax(dim=-1, keepdim=True)
        scaled = vectors / torch.where(largest > 0, largest, torch.ones_like(largest))
        length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
        return scaled / torch.where(length > 0, length, torch.ones_like(length))
    with np.errstate(invalid="ignore"):  # infinity divided by itself
        _, exponent = np.frexp(np.abs(vectors).max(axis=-1, keepdims=True, initial=0.0))
        scaled = np.ldexp(vectors, -exponent)
        length = np.linalg.norm(scaled, axis=-1, keepdims=True)
        return scaled / np.where(length > 0, length, np.ones_like(length))


def as_floats(x: Any) -> Any:
    """Convert a tensor to a precision to compute in: short floats become float32, integers float64."""
    _refuse_sparse(x)
    if x.is_complex():
        raise ValueError("Complex data not supported: the tensor holds complex numbers.")
    if x.is_floating_point():
        return x.float() if _is_short(x) else x
    return x.double()


def check_samples(x: Any) -> Any:
    """Convert a tensor of samples to floats, or raise an error worded like scikit-learn's for arrays."""
    if x.ndim != 2:
        raise ValueError(
            f"Expected 2D tensor, got {x.ndim}D tensor of shape {tuple(x.shape)} instead. Reshape it to (n_samples, "
            "n_features): x[None] is a single sample."
        )
    if x.shape[0] == 0:
        raise ValueError(f"Found tensor with 0 sample(s) (shape={tuple(x.shape)}) while a minimum of 1 is required.")
    return as_floats(x)


def check_finite(x: Any) -> None:
    """Raise an error if a tensor holds NaN or infinity. Synchronises with the device."""
    if not x.isfinite().all():
        what = "NaN" if x.isnan().any() else "infinity"
        raise ValueError(f"Input X contains {what}. Remove or replace these samples.")


def _is_short(x: Any) -> bool:
    """Whether a tensor has dtype float16, bfloat16 or shorter floats."""
    return bool(x.is_floating_point() and x.element_size() < 4)


def _refuse_sparse(x: Any) -> None:
    if str(x.layout) != "torch.strided":
        raise TypeError(
            f"The tensor has the layout {x.layout}; tensors must be dense. Give x.to_dense(), or a SciPy sparse matrix."
        )
