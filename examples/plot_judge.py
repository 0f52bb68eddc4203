"""
Teaching a distance by looking
==============================

``boostmetric judge`` opens a page in the browser that asks which objects are alike, and learns while people answer.
Here nobody has to look: a simulated judge answers the same questions, from the same file, as a person would. It shows
how far some hundred answers go, and that those who ask can tell.

The objects are ellipses. Each is described by its width and height, two colours and four numbers that mean nothing; the
judge sees only the shape (how much wider than high) and, faintly, the size.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse

from boostmetric.judge import AnswerFile, Questions, learn_again

# %%
# The objects, and what the judge sees of them
# --------------------------------------------
# Features are logarithms of width and height, two colours, and noise. The judge's eyes are not perfect: what is seen of
# an object differs from time to time.

rng = np.random.default_rng(0)
n = 80
width, height = rng.normal(0, 0.4, (2, n))
points = np.column_stack([width, height, rng.normal(0, 0.4, (n, 6))])
ids = np.array([f"ellipse {i}" for i in range(n)], dtype=object)
row_of = {name: row for row, name in enumerate(ids)}


def look(names):
    """Shape and size, as the judge sees them this time."""
    rows = [row_of[name] for name in names]
    seen = np.column_stack([3 * (width - height)[rows], (width + height)[rows]])
    return seen + rng.normal(0, 0.25, seen.shape)


def answer(question, mode):
    """The objects that the judge chooses."""
    choice = mode.favourites(look(question.shown)[None])[0]
    return [name for name, chosen in zip(question.shown[1:], choice) if chosen]


# %%
# A sitting
# ---------
# Questions are handed out and answers stored as the server does it. After every forty answers, a lesson is learned, as
# the process beside the server does it all the time.

folder = tempfile.TemporaryDirectory()
with AnswerFile(Path(folder.name) / "ellipses.judge", mode="triplet", seed=0) as file:
    judge, questions = file.judge("simulated"), Questions(file, ids, points)
    for number in range(240):
        (question,) = questions.ahead(judge, 1)
        file.answer(judge, question.number, answer(question, file.mode), key=str(number), seconds=2.0)
        if number % 40 == 39:
            learn_again(file, ids, points)
    _, lesson, _ = file.last_lesson()
folder.cleanup()

base, learned, ceiling = lesson["base"], lesson["learned"], lesson["ceiling"]
print(f"Tested on {lesson['n_held_out']} answers that were never learned from:")
print(f"  agreement of the base    {base['mean']:.0%} ({base['low']:.0%} to {base['high']:.0%})")
print(f"  agreement when learned   {learned['mean']:.0%} ({learned['low']:.0%} to {learned['high']:.0%})")
print(f"  ceiling, from {ceiling['n']} repeated questions: {ceiling['mean']:.0%}")

# %%
# What those who ask can see
# --------------------------
# The page shows this curve while people answer. The band is the interval of the last agreement, the dotted line what
# the judge's own consistency allows.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
answers = [place["n"] for place in lesson["curve"]]
left.axhspan(learned["low"], learned["high"], alpha=0.15)
left.plot(answers, [place["agreement"] for place in lesson["curve"]], marker="o", label="learned")
left.axhline(base["mean"], linestyle="--", color="grey", label="base")
left.axhline(ceiling["mean"], linestyle=":", color="green", label="ceiling")
left.set(xlabel="answers learned from", ylabel="agreement", title="Agreement with held-out answers")
left.legend(loc="lower right")

for place, row in enumerate(rng.choice(n, 24, replace=False)):
    x, y = place % 6, place // 6
    right.add_patch(Ellipse((x, y), 0.55 * np.exp(width[row]), 0.55 * np.exp(height[row]), alpha=0.7))
right.set(xlim=(-0.8, 5.8), ylim=(-0.8, 3.8), title="Some of the objects", xticks=[], yticks=[], aspect="equal")
plt.show()
