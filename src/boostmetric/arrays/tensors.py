"""Torch tensors where arrays are expected: mapped where they are, or copied to the host.

Who has a tensor has imported torch: without one, it is not imported here.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_tensor(x: object) -> bool:
    """Whether something is a torch tensor; if nobody has imported torch, it is not."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def as_numpy(x: Any) -> Any:
    """A tensor as an array on the host, float32 where NumPy has no such numbers or few bits; all else as it is.

    An array with masked entries is refused: as a plain array it would show what is under the mask.
    """
    if np.ma.is_masked(x):
        raise ValueError("The array has masked entries, which have no value. Fill them, or leave these rows out.")
    if not is_tensor(x):
        return x
    _refuse_sparse(x)
    return (x.float() if _is_short(x) else x).numpy(force=True)


def mapped(points: Any, components: NDArray[np.float64]) -> Any:
    """Points after a linear map, in their precision and where they are.

    Parameters
    ----------
    points : ndarray, csr_array or tensor of shape (..., n_features)
        Of float32 or float64.
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
    """What points were mapped to, or an error if some of it is not finite. Tensors are not looked at."""
    if not is_tensor(mapped) and not (good := np.isfinite(mapped)).all():
        row = int(np.argmin(good.reshape(-1, good.shape[-1]).all(axis=1))) if good.ndim else 0
        raise ValueError(
            f"Row {row} of the points is NaN or infinite, or becomes too large to hold under the metric. Repair it, "
            "leave it out, or rescale the points."
        )
    return mapped


def difference(a: Any, b: Any) -> Any:
    """Points of `a` less points of `b`, either of which may be a tensor: on its device, and in its precision."""
    try:
        np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    except ValueError:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ValueError(f"Points of shapes {shapes} cannot be paired row by row. Give as many of each.") from None
    if is_tensor(a) != is_tensor(b):
        a, b = (a, a.new_tensor(b)) if is_tensor(a) else (b.new_tensor(a), b)
    if a.shape != b.shape:  # which only dense points broadcast to
        a, b = (points.toarray() if hasattr(points, "toarray") else points for points in (a, b))
    with np.errstate(over="ignore", invalid="ignore"):  # see `finite`
        return a - b


def lengths(vectors: Any) -> Any:
    """Euclidean lengths, where the vectors are; of arrays, also where squares could not be held."""
    if is_tensor(vectors):
        import torch

        return torch.linalg.vector_norm(vectors, dim=-1)
    _, exponent = np.frexp(np.abs(vectors).max(axis=-1, initial=0.0))
    return np.ldexp(np.linalg.norm(np.ldexp(vectors, -exponent[..., None]), axis=-1), exponent)


def as_floats(x: Any) -> Any:
    """A tensor in a precision to compute in: shorter ones become float32, whole numbers float64."""
    _refuse_sparse(x)
    if x.is_complex():
        raise ValueError("Complex data not supported: the tensor holds complex numbers.")
    if x.is_floating_point():
        return x.float() if _is_short(x) else x
    return x.double()


def check_samples(x: Any) -> Any:
    """A tensor of samples as floats, or an error; what it says is what scikit-learn says of arrays."""
    if x.ndim != 2:
        raise ValueError(
            f"Expected 2D tensor, got {x.ndim}D tensor of shape {tuple(x.shape)} instead. Reshape it to (n_samples, "
            "n_features): x[None] is a single sample."
        )
    if x.shape[0] == 0:
        raise ValueError(f"Found tensor with 0 sample(s) (shape={tuple(x.shape)}) while a minimum of 1 is required.")
    return as_floats(x)


def check_finite(x: Any) -> None:
    """Refuse a tensor that holds NaN or infinity. Waits for the device."""
    if not x.isfinite().all():
        what = "NaN" if x.isnan().any() else "infinity"
        raise ValueError(f"Input X contains {what}. Remove or replace these samples.")


def _is_short(x: Any) -> bool:
    """Whether a tensor is of float16, bfloat16 or shorter numbers."""
    return bool(x.is_floating_point() and x.element_size() < 4)


def _refuse_sparse(x: Any) -> None:
    if str(x.layout) != "torch.strided":
        raise TypeError(
            f"The tensor has the layout {x.layout}; tensors must be dense. Give x.to_dense(), or a sparse matrix of "
            "SciPy."
        )
