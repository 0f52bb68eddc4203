"""Selection of the device by name."""

from __future__ import annotations

import re
from typing import Any

from scipy import sparse

from boostmetric.optional import require

_NAMES = 'must be "cpu", "cuda", "cuda:0" (or another number), or "auto"'


def check_device(device: object) -> None:
    """Raise an error if `device` is not a device name, or names a device that does not exist."""
    if not isinstance(device, str) or not re.fullmatch(r"cpu|auto|cuda(:\d+)?|torch:cpu", device):
        raise ValueError(f"device {_NAMES}. Got {device!r}.")
    if device in ("cpu", "auto"):
        return
    require("torch", "gpu", f"device={device!r}")
    n_gpus = _n_gpus()
    if device != "torch:cpu" and int(device.partition(":")[2] or 0) >= n_gpus:
        there = "torch sees none" if n_gpus == 0 else f"torch sees {n_gpus}, numbered from 0"
        raise ValueError(f"device={device!r}: there is no such GPU; {there}. Use device='auto' or 'cpu'.")


def torch_device(device: str, points: Any) -> str | None:
    """Torch's name for the device to use, or None for our own kernels on the CPU.

    Parameters
    ----------
    device : str
        "cpu" selects our own kernels. "cuda" selects a GPU, which must exist. "auto" selects a GPU if there is one and
        the points are dense, else "cpu". "torch:cpu" runs the GPU code on the CPU, slowly, to test it.
    points : ndarray or sparse matrix
        Points to work on; GPUs take dense points only.
    """
    if device == "cpu":
        return None
    if device == "auto":
        return "cuda" if not sparse.issparse(points) and _n_gpus() > 0 else None
    check_device(device)
    if sparse.issparse(points):
        raise TypeError(
            f"device={device!r} takes dense points, but these are sparse. Use device='cpu', which keeps them sparse, "
            "or give X.toarray()."
        )
    return "cpu" if device == "torch:cpu" else device


def _n_gpus() -> int:
    """Number of GPUs that torch can use; 0 if torch is not installed."""
    try:
        import torch
    except ImportError:
        return 0
    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
