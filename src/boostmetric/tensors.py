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
    """A tensor as an array on the host, float32 where NumPy has no such numbers or few bits; all else as it is."""
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
    return np.asarray(points @ components.T.astype(points.dtype, copy=False))


def difference(a: Any, b: Any) -> Any:
    """Points of `a` less points of `b`, either of which may be a tensor: on its device, and in its precision."""
    if is_tensor(a) != is_tensor(b):
        a, b = (a, a.new_tensor(b)) if is_tensor(a) else (b.new_tensor(a), b)
    return a - b


def lengths(vectors: Any) -> Any:
    """Euclidean lengths, where the vectors are."""
    if is_tensor(vectors):
        import torch

        return torch.linalg.vector_norm(vectors, dim=-1)
    return np.asarray(np.linalg.norm(vectors, axis=-1))


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
