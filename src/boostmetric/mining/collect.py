"""Turn the candidates of all queries into triplets: apply the guards, and choose negatives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from boostmetric.arrays.types import FloatArray, IntArray
from boostmetric.arrays.validation import check_choice, check_count, warn
from boostmetric.mining.guards import REASONS, Guards, chosen
from boostmetric.mining.mined import Mined
from boostmetric.mining.space import Space
from boostmetric.mining.window import Candidates

Random = int | np.random.RandomState | None


class Cap(NamedTuple):
    """How many of the remaining candidates to choose, and how."""

    n_negatives: int | None
    per_query: int | None
    random: np.random.RandomState | None

    @classmethod
    def of(cls, n_negatives: int | None, per_query: int | None, choice: str, random_state: Random) -> Cap:
        """Check the parameters and create a cap."""
        for name, cap in (("n_negatives", n_negatives), ("per_query", per_query)):
            if cap is not None:
                check_count(name, cap, alternative=", or None")
        check_choice("choice", choice, ("nearest", "random"))
        return cls(n_negatives, per_query, check_random_state(random_state) if choice == "random" else None)


def collect(
    space: Space, pairs: IntArray, found: Iterable[Candidates], ranks: tuple[int, int], guards: Guards, cap: Cap
) -> Mined:
    """Collect triplets from the candidates of all queries; `pairs` are rows (query, positive), sorted by query."""
    n_queries = space.queries.shape[0]
    bounds = np.searchsorted(pairs[:, 0], np.arange(n_queries + 1))
    counts = np.zeros(len(REASONS), dtype=np.int64)
    n_candidates = 0
    numbers, distances = [np.empty((0, 3), dtype=np.int64)], [np.empty((0, 2))]  # pair, negative, rank
    for part in found:
        sizes = bounds[part.queries + 1] - bounds[part.queries]
        row = np.repeat(np.arange(len(sizes)), sizes)
        pair = np.arange(len(row)) + np.repeat(bounds[part.queries] - np.cumsum(sizes) + sizes, sizes)
        there = part.documents[row] >= 0
        apart = space.of_pairs(pairs[pair, 0], pairs[pair, 1])
        off = space.to_documents(part.queries, part.documents)
        reason = guards.reasons(space, part, off, row, pairs[pair, 1], apart)
        kept = there & (reason < 0)
        taken = chosen(kept, pairs[pair, 0], *cap)
        reason[kept & ~taken] = REASONS.index("over the cap")
        counts += np.bincount(reason[there & ~taken], minlength=len(REASONS))
        n_candidates += int(there.sum())
        p, column = np.nonzero(taken)
        numbers.append(np.stack([pair[p], part.documents[row[p], column], ranks[0] + column], axis=1))
        distances.append(np.stack([apart[p], off[row[p], column]], axis=1))
    return _result(space, pairs, np.concatenate(numbers), np.concatenate(distances), n_candidates, counts)


def _result(
    space: Space, pairs: IntArray, numbers: IntArray, distances: FloatArray, n_candidates: int, counts: IntArray
) -> Mined:
    order = np.lexsort((numbers[:, 2], numbers[:, 0]))
    pair, negative, rank = numbers[order].T
    n_queries = space.queries.shape[0]
    first = 0 if space.is_one_set else n_queries
    triplets = np.stack([pairs[pair, 0], first + pairs[pair, 1], first + negative], axis=1)
    removed = dict(zip(REASONS, counts.tolist(), strict=True))
    if not len(triplets):
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in removed.items() if count)
        warn(
            f"None of the {n_candidates:,} candidates is left as a negative ({reasons or 'there are none'}). Look at "
            "more ranks, or relax the guards."
        )
    asked = np.unique(pairs[:, 0])
    return Mined(
        triplets=triplets,
        distances=np.ldexp(distances[order], space.exponent),
        ranks=rank,
        n_queries=n_queries,
        n_documents=None if space.is_one_set else space.documents.shape[0],
        n_positives=len(pairs),
        n_candidates=n_candidates,
        removed=removed,
        without_positive=np.setdiff1d(np.arange(n_queries), asked),
        without_negative=np.setdiff1d(asked, triplets[:, 0]),
    )
