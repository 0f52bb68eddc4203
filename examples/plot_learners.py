"""
Metric learners side by side
============================

Every learner in this example finds a linear map from labelled samples, and each has a different idea of a good one. All
are scikit-learn transformers, so one loop can try them all. We use three data sets with very different results.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from boostmetric import BoostMetric
from boostmetric.baselines import LMNN, MMC, NCA, RCA

# %%
# The sets
# --------
# Wines of three growers form three clusters. For circles in eight dimensions of noise, every class surrounds the next.
# Five of the handwritten digits have 64 pixels, for which two dimensions are few.

rng = np.random.default_rng(0)
circle, angle = np.arange(800) % 4, rng.uniform(0, 2 * np.pi, 800)
ring = (circle + 1)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
wines, growers = load_wine(return_X_y=True)
sets = {
    "wines": (StandardScaler().fit_transform(wines), growers),
    "circles": (np.hstack([ring, rng.normal(0, 2, (800, 8))]), circle),
    "digits": load_digits(n_class=5, return_X_y=True),
}

# %%
# The learners
# ------------
# PCA does not use labels. LDA, RCA and MMC look at classes as a whole: RCA at the variation within them, MMC at the
# distances between them. NCA, LMNN and BoostMetric look at neighbours. We run BoostMetric with the paper's setting,
# ``BoostMetric.paper``, and with its default setting, in up to ten passes, each of which finds the neighbours again
# under the current metric. With ``init="zero"`` it starts from no metric, as the paper does. The default start has all
# dimensions, and two of these would say little.

learners = {
    "PCA": PCA(2),
    "LDA": LinearDiscriminantAnalysis(n_components=2),
    "RCA": RCA(2),
    "MMC": MMC(2),
    "NCA": NCA(2, max_iter=200),
    "LMNN": LMNN(2),
    "BoostMetric": BoostMetric.paper(n_components=2),
    "in passes": BoostMetric(2, init="zero", random_state=0),
}

# %%
# We train on half of each set. The panels show the other half, and the error of a 3-nearest-neighbour classifier in
# these two dimensions. The better the learner's idea matches the shape of the classes, the tidier the panel.

figure, panels = plt.subplots(3, 8, figsize=(14, 5.8), layout="constrained")
for line, (name, (X, y)) in zip(panels, sets.items()):
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    print(f"{name}:", end="")
    for panel, (learner_name, learner) in zip(line, learners.items()):
        learner.fit(X_train, y_train)
        knn = KNeighborsClassifier(3).fit(learner.transform(X_train), y_train)
        points = learner.transform(X_test)
        error = 1 - knn.score(points, y_test)
        print(f" {learner_name} {error:.1%}", end="")
        panel.scatter(*points.T, c=y_test, s=5, cmap="viridis")
        panel.set(xticks=[], yticks=[])
        panel.set_title(f"{learner_name}: {error:.0%} error", fontsize="medium")
    line[0].set_ylabel(name)
    print()
plt.show()

# %%
# Classes that form clusters are easy for all learners. If classes surround each other, only learners that look at
# neighbours can separate them.
#
# In practice you would rarely cut a metric to two dimensions. NCA and LMNN *learn* exactly as many dimensions as you
# ask for. BoostMetric learns a metric and then *keeps* its most important dimensions. A few more make up for it:

metric = BoostMetric(init="zero", random_state=0).fit(X_train, y_train).get_metric()
for n_components in (2, 4, 8):
    cut = metric.truncate(n_components)
    knn = KNeighborsClassifier(3).fit(cut.transform(X_train), y_train)
    print(f"digits, BoostMetric, {n_components} dimensions: {1 - knn.score(cut.transform(X_test), y_test):.1%} error")
