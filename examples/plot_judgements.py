"""
Colours as people see them
==========================

People cannot say how far apart two things are, but they can say which of two is more like a third: "is this olive more
like that green, or more like that brown?" From such answers, called triplets, a metric learns to see as they do.

The answers here are simulated. The judge follows CIELAB, a colour space designed to match human judgements, and is not
always sure. The metric does not know about CIELAB: it only gets the red, green and blue values of each colour.
"""

import matplotlib.pyplot as plt
import numpy as np

from boostmetric import ComparisonBoostMetric

# %%
# The judges
# ----------
# This converts red, green and blue values to CIELAB (sRGB primaries, daylight D65; IEC 61966-2-1 and CIE 15).


def lab(rgb):
    """Lightness, green to red, blue to yellow."""
    light = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = light @ np.array([[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192], [0.1805, 0.0722, 0.9505]])
    t = xyz / [0.9505, 1.0, 1.0890]
    f = np.where(t > 216 / 24389, np.cbrt(t), (24389 / 27 * t + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def judge(rng, colours, n, doubt=8.0):
    """Triplets (i, j, k): colour i is more like j than like k. The closer the call, the more often it is wrong."""
    i, j, k = np.array([rng.choice(len(colours), 3, replace=False) for _ in range(n)]).T
    seen = lab(colours)
    margin = np.linalg.norm(seen[i] - seen[k], axis=1) - np.linalg.norm(seen[i] - seen[j], axis=1)
    says_j = margin + rng.logistic(0, doubt, n) > 0
    return np.stack([i, np.where(says_j, j, k), np.where(says_j, k, j)], axis=1), says_j == (margin > 0)


rng = np.random.default_rng(0)
colours = rng.uniform(0, 1, (400, 3))
triplets, _ = judge(rng, colours, 1000)
new_triplets, sure = judge(rng, colours, 5000)
print(f"{1 - sure.mean():.1%} of the answers contradict the judge's own eyes")

# %%
# How many answers does it take?
# ------------------------------
# Nobody can predict what a judge says when in doubt. On new answers, the best a metric can do is to be right where the
# judge is sure. (Besides, a Mahalanobis metric can only learn a linear map of red, green and blue, and CIELAB is not
# one.) ``init="identity"`` starts from the Euclidean distance, so that few answers do no harm. The logistic loss
# tolerates wrong answers.

sizes = [3, 10, 30, 100, 300, 1000]
agreement = []
for n in sizes:
    metric = ComparisonBoostMetric(init="identity", loss="logistic").fit(triplets[:n], points=colours)
    agreement.append(metric.score(new_triplets))
    print(f"{n:5d} answers: agrees with {agreement[-1]:.1%} of new ones")
plain = np.linalg.norm(colours[new_triplets[:, [0, 0]]] - colours[new_triplets[:, 1:]], axis=2)
euclidean = np.mean(plain[:, 0] < plain[:, 1])
print(f"Euclidean distance of red, green and blue: {euclidean:.1%}")

# %%
# What it has learned
# -------------------
# We print the weights of red, green and blue. The palettes show, for the colour on the left, the nearest of 2,000
# colours, before (in RGB) and after learning.

weights = np.diag(metric.get_mahalanobis_matrix())
print("weights of red, green and blue:", (weights / weights.sum()).round(2))

figure, (curve, palette) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
curve.semilogx(sizes, agreement, "o-", color="#3b6ea5", label="learned")
curve.axhline(euclidean, color="0.6", label="Euclidean in RGB")
curve.axhline(sure.mean(), color="#d1762c", linestyle="--", label="best possible")
curve.set(xlabel="answers learned from", ylabel="agreement with new answers", title="Learning from judgements")
curve.legend(loc="lower right")

choice = rng.uniform(0, 1, (2000, 3))
for top, query in zip((0, -3, -6, -9), ([0.45, 0.42, 0.1], [0.1, 0.5, 0.8], [0.85, 0.45, 0.4], [0.5, 0.2, 0.6])):
    palette.imshow([[query]], extent=(0, 1.6, top - 2, top))
    distances = {
        "before": np.linalg.norm(choice - query, axis=1),
        "after": metric.get_metric().distance(choice, query),
    }
    for line, (name, distance) in enumerate(distances.items()):
        nearest = choice[np.argsort(distance)[:20]]
        palette.imshow([nearest], extent=(2, 12, top - line - 0.95, top - line))
        palette.text(12.3, top - line - 0.5, name, va="center")
palette.set(xlim=(0, 14), ylim=(-11.2, 0.2), title="The nearest colours, nearest first")
palette.axis("off")
plt.show()
