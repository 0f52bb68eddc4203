"""The result of a choice: what was chosen, learned again from all samples, or refined on them in large data.

In large data the trials have followed their recipes for many passes, on three quarters of the samples. To learn all of
that again would take most of the time of a fit. Instead the best recipe goes on from the mean of their metrics, for a
few passes among all samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from boostmetric.arrays.types import FloatArray
from boostmetric.estimators.candidates import Candidate
from boostmetric.estimators.decision import Decision
from boostmetric.solver.sources import DrawnAnchors, Labelled

# Each pass compares this share of the samples, drawn again, or all of so many: more of them take time and memory, for
# no fewer errors, and half of them were worse. The seed is always the same, so that a resumed fit draws the same.
_SHARE_OF_ANCHORS, _FEW_ANCHORS, _SEED = 2 / 3, 10_000, 0
# Passes, and how many samples they compare together before there are fewer of them. On embeddings, to learn each recipe
# by itself before the mean is taken was no better, and one pass fewer was worse.
_FEWEST_PASSES, _MOST_PASSES, _COMPARED = 3, 5, 36_000


def learned_again(source: Labelled, chosen: Sequence[Candidate], max_iter: int) -> Decision:
    """Decide to learn candidates from their starts, and to average them.

    Parameters
    ----------
    source : Labelled
        All samples.
    chosen : sequence of Candidate
        The best first.
    max_iter : int
        Most single iterations of a pass.
    """
    best, *others = [
        Decision(
            candidate.recipe.to_learn(bag, candidate.n_passes),
            candidate.recipe.init,
            candidate.recipe.solver,
            candidate.recipe.block_size,
            candidate.recipe.learning_rate,
            candidate.recipe.max_iter(max_iter, candidate.n_passes),
            candidate.normalize,
            is_validated=True,
            n_bags=len(bags),
        )
        for candidate in chosen
        for bags in [candidate.recipe.bags(source)]
        for bag in bags
    ]
    return replace(best, beside=tuple(others))


def passes_of_result(n_passes: int, n_samples: int) -> int:
    """How many of `n_passes` are kept for the result; those before are the trials'. 0 if there are too few."""
    wanted = _COMPARED // _n_anchors(n_samples)
    return min(max(wanted, _FEWEST_PASSES), _MOST_PASSES, n_passes // 2)


def _n_anchors(n_samples: int) -> int:
    return min(n_samples, max(_FEW_ANCHORS, round(_SHARE_OF_ANCHORS * n_samples)))


def refined(
    source: Labelled, best: Candidate, n_passes: int, max_iter: int, learned: FloatArray | None = None
) -> Decision:
    """Decide to go on with a recipe, from what was learned.

    Parameters
    ----------
    source : Labelled
        All samples.
    best : Candidate
        With the recipe.
    n_passes : int
        Most passes, with those of the trial.
    max_iter : int
        Most single iterations of a pass.
    learned : ndarray of shape (n_rows, n_features), optional
        Linear map of what was learned; not needed to continue a fit.
    """
    decision = learned_again(source, [replace(best, n_passes=passes_of_result(n_passes, len(source.y)))], max_iter)
    sample = DrawnAnchors(_n_anchors(len(source.y)), _SEED)
    compared = replace(best.recipe.applied_to(source), sample=sample)
    return replace(decision, source=compared, learned=learned, passes_before=best.n_passes)


def mean_map(maps: Sequence[FloatArray | None], scatter: FloatArray) -> FloatArray | None:
    """Linear map of the mean of several metrics, each in units of its mean squared distance.

    Parameters
    ----------
    maps : sequence of ndarray of shape (n_rows, n_features) or None
        None is left out.
    scatter : ndarray of shape (n_features, n_features)
        Covariance of the points, up to a factor.

    Returns
    -------
    ndarray of shape (n_rows, n_features) or None
        None if all metrics are zero.
    """
    known = [rows for rows in maps if rows is not None]
    sizes = [float(np.vdot(rows @ scatter, rows)) for rows in known]
    scaled = [rows / np.sqrt(size) for rows, size in zip(known, sizes, strict=True) if size > 0]
    if not scaled:
        return None
    rows = np.concatenate(scaled)
    return rows if len(rows) <= rows.shape[1] else np.asarray(np.linalg.qr(rows, mode="r"))
