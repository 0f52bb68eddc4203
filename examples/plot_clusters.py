"""
Clusters as you mean them
=========================

Data can be grouped in more than one way. k-means follows the largest distances, whatever they mean. A few pairs marked
as "belong together" or "do not belong together" tell which grouping you want. This was the first use of metric learning
(Xing et al., 2002).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from boostmetric import ComparisonBoostMetric

# %%
# Two ways to group
# -----------------
# The points form three stripes, which are the groups we want. Along the stripes they form two clusters that are far
# apart, which we do not care about.

rng = np.random.default_rng(0)
stripe, heap = np.arange(300) % 3, rng.integers(2, size=300)
X = np.stack([10 * heap + rng.normal(0, 1.5, 300), 2 * stripe + rng.normal(0, 0.3, 300)], axis=1)
X = X @ np.array([[0.9, 0.4], [-0.4, 0.9]])

# %%
# Twenty pairs
# ------------
# Someone labels twenty random pairs of points: 1 for the same stripe, -1 for different stripes. The metric makes the
# former closer than the latter.

pairs = np.array([rng.choice(300, 2, replace=False) for _ in range(20)])
together = np.where(stripe[pairs[:, 0]] == stripe[pairs[:, 1]], 1, -1)
metric = ComparisonBoostMetric().fit(pairs, together, points=X)

groups = {}
for name, points in (("k-means", X), ("k-means after metric learning", metric.transform(X))):
    groups[name] = KMeans(3, n_init=10, random_state=0).fit_predict(points)
    print(f"{name}: agreement with the stripes {adjusted_rand_score(stripe, groups[name]):.2f}")

# %%
# The groups
# ----------
# The left panel also shows the labelled pairs: blue lines join points that belong together, orange lines points that do
# not.

figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for panel, (name, group) in zip(panels, groups.items()):
    panel.scatter(*X.T, c=group, s=16, cmap="viridis", vmax=2.4)
    panel.set(title=f"{name}: agreement {adjusted_rand_score(stripe, group):.2f}", xticks=[], yticks=[])
    panel.set_aspect("equal")
for pair, same in zip(pairs, together == 1):
    panels[0].plot(*X[pair].T, color="#3b6ea5" if same else "#d1762c", linewidth=2 if same else 1)
plt.show()
