"""
Short vectors for search
========================

Every dimension of a vector index costs memory and time. A learned metric sorts the dimensions by how useful they are.
If you keep only the first few, most of the quality remains.

The vectors in this example replace the embeddings of a neural network, which would need a download. They are a latent
semantic analysis of the documentation of SciPy's functions, as installed on this machine. Functions of one subpackage,
such as ``scipy.signal``, should find each other.
"""

import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from boostmetric import BoostMetric, MahalanobisMetric
from boostmetric.evaluation import LabelTask, scores_by_rank

# %%
# Vectors of texts
# ----------------
# We count words, weight rare ones higher, and keep 100 directions. This is a classic method. Like most embeddings,
# these vectors are made without knowing what we are going to search for.

texts, y = [], []
for subpackage in ("fft", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "special", "stats"):
    module = importlib.import_module(f"scipy.{subpackage}")
    documented = [inspect.getdoc(getattr(module, name)) or "" for name in sorted(module.__all__)]
    documented = [text for text in documented if len(text) > 200]
    texts += documented
    y += [subpackage] * len(documented)
embed = make_pipeline(
    TfidfVectorizer(sublinear_tf=True, min_df=3, stop_words="english", token_pattern="[a-z]{2,}"),
    TruncatedSVD(100, random_state=0),
    Normalizer(),
)
X, y = embed.fit_transform(texts), np.array(y)
print(f"{len(texts)} texts, {X.shape[1]} dimensions")

# %%
# Learning and cutting
# --------------------
# We fit once; ``scores_by_rank`` then cuts the metric to any number of dimensions. The paper's method adds one
# direction after the other and starts from none, so the longest directions are those that were learned. For
# comparison, we also cut the original vectors, in which latent semantic analysis puts the directions of largest
# variance first.

X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
metric = BoostMetric.paper(n_impostors=10, max_iter=200).fit(X_train, y_train)
task = LabelTask.of(X_test, y_test, reference=(X_train, y_train))
ranks = [1, 2, 4, 8, 16, 32, 64, 100]
learned = dict(scores_by_rank(metric, task, ranks=ranks, score="3-NN accuracy"))
plain = {}
for rank in ranks:
    first = MahalanobisMetric(np.eye(100)[:rank])
    plain |= scores_by_rank(first, task, ranks=[rank], score="3-NN accuracy")
for rank in ranks:
    print(f"{rank:3d} dimensions: {plain[rank]:.3f} as they are, {learned[rank]:.3f} learned")

# %%
# Also as a picture
# -----------------
# Two dimensions are too few for search, but enough for a picture.

figure, (curve, before, after) = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
curve.semilogx(ranks, list(plain.values()), "o-", color="0.6", label="cut as they are")
curve.semilogx(ranks, list(learned.values()), "o-", color="#3b6ea5", label="learned, then cut")
curve.set_xticks(ranks, ranks)
curve.minorticks_off()
curve.set(xlabel="dimensions", ylabel="3-NN accuracy on new texts", title="How short can they get?")
curve.legend(loc="lower right")
for panel, title, points in (
    (before, "two dimensions, as they are", X_test[:, :2]),
    (after, "two dimensions, learned", metric.get_metric().truncate(2).transform(X_test)),
):
    for number, subpackage in enumerate(np.unique(y)):
        panel.scatter(*points[y_test == subpackage].T, s=10, color=plt.cm.tab10(number), label=subpackage)
    panel.set(title=title, xticks=[], yticks=[])
after.legend(loc="center left", bbox_to_anchor=(1, 0.5), markerscale=2, frameon=False)
plt.show()
