"""
Learning from a stream
======================

Answers arrive all day: someone picks this result and not that one. ``partial_fit`` learns from a batch of answers and
does not store it. The metric can be used at any time, and memory does not grow.
"""

import matplotlib.pyplot as plt
import numpy as np

from boostmetric import ComparisonBoostMetric

# %%
# The stream
# ----------
# A simulated judge sees points with six features. The judge looks at the first two, mainly at their sum, a little
# at the third, and not at the others. One answer in ten is wrong.

rng = np.random.default_rng(0)
L = np.array([[2.0, 1.5, 0, 0, 0, 0], [0, 0.7, 0, 0, 0, 0], [0, 0, 0.5, 0, 0, 0]])


def batch(n=20, wrong=0.1):
    """New points, and triplets (i, j, k) of them: i is more like j than like k."""
    points = rng.standard_normal((3 * n, 6))
    triplets = np.arange(3 * n).reshape(n, 3)
    near, far = (np.linalg.norm((points[triplets[:, 0]] - points[triplets[:, c]]) @ L.T, axis=1) for c in (1, 2))
    swap = (near > far) ^ (rng.uniform(size=n) < wrong)
    return np.where(swap[:, None], triplets[:, [0, 2, 1]], triplets), points


# %%
# Batch by batch
# --------------
# After each batch we test the metric on 2,000 new comparisons (without wrong answers).

test, test_points = batch(2000, wrong=0)
batches = [batch() for _ in range(200)]
metric, scores, snapshots = ComparisonBoostMetric(), [], {}
for number, (triplets, points) in enumerate(batches, start=1):
    metric.partial_fit(triplets, points=points)
    scores.append(metric.score(test, points=test_points))
    if number in (1, 10, 200):
        snapshots[number] = metric.get_mahalanobis_matrix()
        print(f"after batch {number:3d}: {scores[-1]:.1%} right")

# %%
# For comparison, we fit once to the whole stream. With the logistic loss, wrong answers do little harm.

everything = np.vstack([60 * number + triplets for number, (triplets, _) in enumerate(batches)])
at_once = ComparisonBoostMetric(loss="logistic").fit(everything, points=np.vstack([points for _, points in batches]))
together = at_once.score(test, points=test_points)
print(f"one fit to all:  {together:.1%} right")

# %%
# How the metric moves
# --------------------
# The right panel shows all points at the same distance from the centre under the metric, in the first two features. The
# ellipse is short in directions that matter to the judge. Metrics are scaled so that all ellipses have the same area.

figure, (curve, ellipses) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
curve.plot(range(1, 201), scores, color="#3b6ea5", label="partial_fit")
curve.axhline(together, color="#d1762c", linestyle="--", label="one fit to all")
curve.set(xlabel="batches of 20 answers", ylabel="new comparisons right", title="The metric so far")
curve.legend(loc="lower right")

angle = np.linspace(0, 2 * np.pi, 200)
circle = np.stack([np.cos(angle), np.sin(angle)])
lines = [
    (f"batch {number}", matrix, shade, "-")
    for (number, matrix), shade in zip(snapshots.items(), ("#c5d5e4", "#7aa6c2", "#3b6ea5"))
]
for name, matrix, colour, style in [*lines, ("the judge", L.T @ L, "#d1762c", "--")]:
    plane = matrix[:2, :2] / np.sqrt(np.linalg.det(matrix[:2, :2]))
    radius = 1 / np.sqrt((circle * (plane @ circle)).sum(axis=0))
    ellipses.plot(*(radius * circle), color=colour, linestyle=style, label=name)
ellipses.set(xlabel="first feature", ylabel="second feature", title="Points at the same distance")
ellipses.set_aspect("equal")
ellipses.legend(loc="lower left", bbox_to_anchor=(1, 0), frameon=False)
plt.show()
