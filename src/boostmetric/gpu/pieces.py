"""Pieces of group members that share a point, for sums over the pairs of each point."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Pieces:
    """Pieces of similar lengths, one per row.

    Attributes
    ----------
    row : Tensor of shape (n_pieces,)
        The point that the members of a piece share.
    place : Tensor of shape (n_pieces, width)
        Places of the members; `nowhere` pads shorter pieces.
    """

    row: torch.Tensor
    place: torch.Tensor


def cut(point: torch.Tensor, place: torch.Tensor, longest: int, nowhere: int) -> list[Pieces]:
    """Cut members into pieces that share a point, of at most `longest`; a point with more members has several pieces.

    Parameters
    ----------
    point, place : Tensor of shape (n_members,)
        A point of each member, and its place.
    longest : int
        Maximum length of a piece.
    nowhere : int
        Place without a member, for padding.
    """
    order = torch.argsort(point, stable=True)
    shared, counts = torch.unique_consecutive(point[order], return_counts=True)
    ends = torch.cumsum(counts, 0)
    n_pieces = (counts + longest - 1) // longest
    owner = torch.repeat_interleave(torch.arange(len(shared), device=point.device), n_pieces)
    number = torch.arange(len(owner), device=point.device) - (torch.cumsum(n_pieces, 0) - n_pieces)[owner]
    begin = (ends - counts)[owner] + number * longest
    size = torch.minimum(ends[owner] - begin, torch.as_tensor(longest, device=point.device))
    # Grouped by powers of two, so that no piece is padded to more than twice its length.
    kind = torch.frexp((size - 1).double()).exponent
    pieces = []
    for k in torch.unique(kind).tolist():
        chosen = torch.nonzero(kind == k)[:, 0]
        width = int(size[chosen].max())
        column = torch.arange(width, device=point.device)
        position = begin[chosen, None] + column
        there = column < size[chosen, None]
        position[~there] = 0
        taken = torch.where(there, place[order[position]], nowhere)
        pieces.append(Pieces(shared[owner[chosen]], taken.to(torch.int32)))
    return pieces
