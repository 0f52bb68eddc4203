"""Exponentials per second of a device."""

import torch
import triton
import triton.language as tl

ROUNDS = 1024
_BLOCK = 1024


@triton.jit
def _many(x, rounds: tl.constexpr, block: tl.constexpr):
    place = tl.program_id(0) * block + tl.arange(0, block)
    number = tl.load(x + place)
    for _ in range(rounds):
        number = tl.exp2(-number)
    tl.store(x + place, number)


def many(x: torch.Tensor) -> None:
    """Apply ROUNDS exponentials to each number, in place."""
    _many[(len(x) // _BLOCK,)](x, rounds=ROUNDS, block=_BLOCK)
