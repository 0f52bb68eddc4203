"""
Circles hidden in noise
=======================

Four concentric circles lie in two dimensions. Eight more dimensions contain only noise, which is stronger than the
signal. Which two dimensions matter? Neither the directions of largest variance (PCA) nor the best linear separation of
the classes (LDA) can tell. Comparing *neighbours* can. This is the illustration of section 3.1 of the paper.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from boostmetric import BoostMetric

# %%
# The data
# --------
# The class of a point is its circle. We generate one set for training and another for testing.


def circles_in_noise(rng, n=1000):
    """Points on circles of radius 1 to 4, and eight dimensions of noise."""
    y = np.arange(n) % 4
    angle, radius = rng.uniform(0, 2 * np.pi, n), y + 1 + rng.normal(0, 0.05, n)
    circle = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return np.hstack([circle, rng.normal(0, 2.5, (n, 8))]), y


rng = np.random.default_rng(0)
X, y = circles_in_noise(rng)
X_new, y_new = circles_in_noise(rng)

# %%
# Learning
# --------
# For each point, ``BoostMetric`` moves the three nearest points of its own circle closer than the three nearest points
# of other circles, with the setting of the paper. ``n_components=2`` keeps the two most important directions.

projections = {
    "PCA": PCA(2).fit(X),
    "LDA": LinearDiscriminantAnalysis(n_components=2).fit(X, y),
    "BoostMetric": BoostMetric.paper(n_components=2).fit(X, y),
}
metric = projections["BoostMetric"]
print("What the metric looks at, in units of the most important direction:")
print(np.abs(metric.components_ / np.abs(metric.components_).max()).round(2))

# %%
# The first two columns are the circles and the others are noise: the metric has found the circles.
#
# New points
# ----------
# The metric also works for new points. The figure shows them, with the error of a 3-nearest-neighbour classifier that
# sees only two dimensions.

figure, panels = plt.subplots(1, 3, figsize=(11, 4.2), layout="constrained")
for panel, (name, projection) in zip(panels, projections.items()):
    knn = KNeighborsClassifier(3).fit(projection.transform(X), y)
    error = 1 - knn.score(projection.transform(X_new), y_new)
    print(f"{name}: {error:.1%} error")
    panel.scatter(*projection.transform(X_new).T, c=y_new, s=8, cmap="viridis")
    panel.set(title=f"{name}: {error:.0%} error", xticks=[], yticks=[])
    panel.set_aspect("equal", adjustable="datalim")
plt.show()
