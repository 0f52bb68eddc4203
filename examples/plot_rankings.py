"""
Ranking flats by similarity
===========================

"More like this": a site for flats wants to show similar ones. What is similar? People were given a flat and ranked
eight others, the most similar first. From such rankings a metric learns how much a room counts compared with a minute
on foot.

Flats and people are simulated, so we know what the people had in mind and can compare.
"""

import matplotlib.pyplot as plt
import numpy as np

from boostmetric import ComparisonBoostMetric, Comparisons, MahalanobisMetric
from boostmetric.evaluation import evaluate_rankings

# %%
# Flats and people
# ----------------
# Features are standardized, as after ``StandardScaler``. People look at rent, rooms and minutes to the station, hardly
# at size (which goes with the rooms), and not at floor and year. Their rankings are somewhat random.

names = ["rent", "size", "rooms", "floor", "minutes", "year"]
importance = np.array([4.0, 0.5, 2.0, 0.0, 3.0, 0.0])
rng = np.random.default_rng(0)


def flats(n):
    """Rent and rooms go with size; the other features are independent."""
    size, rest = rng.standard_normal((n, 1)), rng.standard_normal((n, 5))
    rest[:, :2] = 0.8 * size + 0.6 * rest[:, :2]
    return np.hstack([rest[:, :1], size, rest[:, 1:]])


def unlikeness(a, b):
    """What people have in mind: weighted squared differences, with some randomness."""
    squared = (importance * (a - b) ** 2).sum(axis=-1)
    return squared * rng.lognormal(0, 0.5, squared.shape)


points = flats(600)
queries = np.arange(100)
shown = np.array([rng.choice(np.arange(100, 600), 8, replace=False) for _ in queries])
order = np.argsort(unlikeness(points[queries, None], points[shown]), axis=1)
rankings = np.take_along_axis(shown, order, axis=1)
print("flat 0 is most like", rankings[0, 0], "and least like", rankings[0, -1])

# %%
# Learning
# --------
# A ranking says that each result is more like the query than all results below it. The logistic loss tolerates the
# randomness. For the test, new people look for flats among 300 new ones and grade each: 2 for the ten best, 1 for the
# next twenty. nDCG@10 is 1 if the ten best come first, and falls as good ones come later.

asked, offers = flats(200), flats(300)
place = np.argsort(np.argsort(unlikeness(asked[:, None], offers), axis=1), axis=1)
grades = 1 * (place < 10) + 1 * (place < 30)
wanted = np.stack([*np.nonzero(grades), grades[np.nonzero(grades)]], axis=1)

sizes, scores = [1, 3, 10, 30, 100], []
for n in sizes:
    comparisons = Comparisons.from_rankings(queries[:n], rankings[:n])
    metric = ComparisonBoostMetric(loss="logistic").fit(comparisons, points=points)
    result = evaluate_rankings(metric, asked, offers, wanted)
    scores.append(result["nDCG@10"].learned)
    print(f"{n:3d} rankings: nDCG@10 {scores[-1]:.3f}")
base = result["nDCG@10"].base
minds = MahalanobisMetric(np.diag(np.sqrt(importance)))
best = evaluate_rankings(minds, asked, offers, wanted)["nDCG@10"].learned
print(f" no rankings: nDCG@10 {base:.3f}")
print(f" with the weights in people's minds, but not their whims: {best:.3f}")

# %%
# What people look at
# -------------------
# The figure shows the metric's weights next to those that the people had in mind.

weight = np.diag(metric.get_mahalanobis_matrix())
figure, (curve, bars) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
curve.semilogx(sizes, scores, "o-", color="#3b6ea5", label="learned")
curve.axhline(base, color="0.6", label="Euclidean")
curve.axhline(best, color="#d1762c", linestyle="--", label="people's weights")
curve.set(xlabel="rankings learned from", ylabel="nDCG@10 on new flats", title="How many rankings does it take?")
curve.set_xticks(sizes, sizes)
curve.minorticks_off()
curve.legend(loc="lower right")
bars.bar(np.arange(6) - 0.2, importance / importance.sum(), 0.4, color="#d1762c", label="in people's minds")
bars.bar(np.arange(6) + 0.2, weight / weight.sum(), 0.4, color="#3b6ea5", label="learned")
bars.set_xticks(range(6), names)
bars.set(ylabel="share of the weight", title="What counts")
bars.legend()
plt.show()
