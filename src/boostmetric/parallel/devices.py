"""Which device to work on, by its name."""

from __future__ import annotations

import re
from typing import Any

from scipy import sparse

from boostmetric.optional import require

_NAMES = 'must be "cpu", "cuda", "cuda:0" (or another number), or "auto"'


def check_device(device: object) -> None:
    """Refuse what is no name of a device, and a device that is not there."""
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
    """Torch's name of the device to work on, or None for our own kernels on the CPU.

    Parameters
    ----------
    device : str
        "cpu" are our own kernels. "cuda" is a GPU, which must be there. "auto" is a GPU if there is one for these
        points, else "cpu". "torch:cpu" runs the code for GPUs on the CPU, slowly: for tests of that code.
    points : ndarray or sparse matrix
        What to work on: a GPU takes dense points only.
    """
    if device == "cpu":
        return None
    if device == "auto":
        return "cuda" if not sparse.issparse(points) and _n_gpus() > 0 else None
    check_device(device)
    if sparse.issparse(points):
        raise TypeError(
            f"device={device!r} takes dense points, and these are sparse. Use device='cpu', which keeps them sparse, "
            "or give X.toarray()."
        )
    return "cpu" if device == "torch:cpu" else device


def _n_gpus() -> int:
    """GPUs that torch, if it is installed, can use."""
    try:
        import torch
    except ImportError:
        return 0
    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
