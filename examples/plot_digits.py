"""
Digits under changing light
===========================

Two photographs of the same object differ if the light differs. Pixel by pixel, this difference can be larger than the
difference between two objects. A learned metric finds out by itself what to ignore.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier

from boostmetric import BoostMetric
from boostmetric.evaluation import evaluate
from boostmetric.retrieval import MetricIndex

# %%
# The data
# --------
# scikit-learn's handwritten digits, with eight by eight pixels, are easy for nearest neighbours:

X, y = load_digits(return_X_y=True)
print(f"3-NN accuracy without a lamp: {cross_val_score(KNeighborsClassifier(3), X, y).mean():.3f}")

# %%
# So we turn on a lamp. Every picture gets a random brightness and a random gradient of light.

rng = np.random.default_rng(0)
row, column = np.mgrid[-1:1:8j, -1:1:8j].reshape(2, -1)
lamp = rng.normal(0, 8, (len(X), 3)) @ np.stack([np.ones(64), row, column])
X = X + lamp
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=900, stratify=y, random_state=0)

# %%
# Learning
# --------
# The metric knows nothing about lamps. It sees 900 pictures and their labels, and learns from comparisons: the nearest
# pictures of the same digit should be closer than the nearest pictures of other digits.

metric = BoostMetric(random_state=0).fit(X_train, y_train)
result = evaluate(metric, X_test, y_test, reference=(X_train, y_train))
print(result)

# %%
# Before and after
# ----------------
# The figure shows search results for pictures that the Euclidean distance (*before*) gets wrong. Results with a blue
# frame show the right digit. Before, the results have the same light as the query; after, the light no longer matters.

searches = {"before": MetricIndex(), "after": MetricIndex(metric)}
for index in searches.values():
    index.add(X_train)
found = {name: index.search(X_test, 5)[0] for name, index in searches.items()}
wrong = np.flatnonzero((y_train[found["before"]] != y_test[:, None]).sum(axis=1) >= 3)
queries = [wrong[y_test[wrong] == digit][0] for digit in (2, 3, 5, 8, 9)]

figure, panels = plt.subplots(5, 12, figsize=(10, 4.6), gridspec_kw={"width_ratios": [1] + [1] * 5 + [0.4] + [1] * 5})
figure.subplots_adjust(left=0.02, right=0.98, top=0.92, bottom=0.02)
for panel in panels.flat:
    panel.set(xticks=[], yticks=[])
    panel.spines[:].set_visible(False)


def show(panel, picture, frame):
    """A picture with a coloured frame."""
    panel.imshow(picture.reshape(8, 8), cmap="gray_r")
    panel.spines[:].set(visible=True, color=frame, linewidth=2.5)


for line, query in zip(panels, queries):
    show(line[0], X_test[query], "black")
    for name, first in (("before", 1), ("after", 7)):
        for place, neighbour in enumerate(found[name][query]):
            right = y_train[neighbour] == y_test[query]
            show(line[first + place], X_train[neighbour], "#3b6ea5" if right else "#d1762c")
panels[0, 0].set_title("query")
panels[0, 3].set_title(f"before: {result['3-NN accuracy'].base:.0%} right by 3-NN")
panels[0, 9].set_title(f"after: {result['3-NN accuracy'].learned:.0%} right by 3-NN")
plt.show()
