"""What clicks and positives teach, beside labels: simulated users of a search over sentence embeddings.

`run` takes some of `SETS`, `USERS`, `NOISE` and `LOGS`, too. Documents and queries are halves of a set's training rows;
a document is relevant to the queries of its class. Each session asks a random query, shows ten results and records
clicks. Scores are nDCG@10 of the test rows as queries, by the true labels.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from benchmarks.adapters import load
from boostmetric import ComparisonBoostMetric, Comparisons, MahalanobisMetric
from boostmetric.evaluation.ranking_scores import ndcg_at_k
from boostmetric.neighbors import nearest
from boostmetric.paper.datasets import MissingDataError

SETS = ("HWU64", "CLINC150")
NOISE = (0.0, 0.1, 0.2)
LOGS = ("base", "shuffled")
_MOST = 1500  # documents, and queries
_SESSIONS, _SHOWN, _ANSWERS = 20_000, 10, 5
_MOST_ITERATIONS = 60
# Chance to look at position r is r ** -_DECAY; after a click, to go on reading is _STAY.
_DECAY, _STAY = 0.6, 0.6

Flags = np.ndarray


def by_position(attracts: Flags, rng: np.random.Generator) -> Flags:
    """Users who look at each position with a chance of its own."""
    return attracts & (rng.random(attracts.shape) < np.arange(1.0, attracts.shape[1] + 1) ** -_DECAY)


def cascade(attracts: Flags, rng: np.random.Generator) -> Flags:
    """Users who read from the top and leave after the first click."""
    return attracts & (np.cumsum(attracts, axis=1) == 1)


def dependent(attracts: Flags, rng: np.random.Generator) -> Flags:
    """Users who read from the top and may leave after each click."""
    leaves = attracts & (rng.random(attracts.shape) > _STAY)
    return attracts & (np.cumsum(leaves, axis=1) - leaves == 0)


USERS: dict[str, Callable[[Flags, np.random.Generator], Flags]] = {
    "position": by_position,
    "cascade": cascade,
    "dependent": dependent,
}


class Corpus(NamedTuple):
    """Documents, queries to learn from, and queries to test on, with their labels."""

    documents: np.ndarray
    y: np.ndarray
    queries: np.ndarray
    y_queries: np.ndarray
    test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, name: str, data_dir: Path | None) -> "Corpus":
        """Halves of the training rows; test rows of classes without a document are left out."""
        split = load(name, data_dir)
        order = np.random.default_rng(0).permutation(len(split.y_train))
        half = min(len(order) // 2, _MOST)
        documents, queries = order[:half], order[half : 2 * half]
        X, y = split.X_train, split.y_train
        has_answer = np.isin(split.y_test, y[documents])
        return cls(
            X[documents], y[documents], X[queries], y[queries], split.X_test[has_answer], split.y_test[has_answer]
        )

    @property
    def points(self) -> np.ndarray:
        """The documents, then the queries."""
        return np.concatenate([self.documents, self.queries])

    def ndcg(self, metric: MahalanobisMetric | None) -> float:
        """Mean of nDCG@10 over the test queries."""
        documents, test = (X if metric is None else metric.transform(X) for X in (self.documents, self.test))
        found = nearest(documents, test, _SHOWN)
        relevant = (self.y[found] == self.y_test[:, None]).astype(np.float64)
        n_relevant = np.bincount(self.y, minlength=self.y_test.max() + 1)[self.y_test]
        best = (np.arange(_SHOWN) < n_relevant[:, None]).astype(np.float64)
        return float(np.mean(ndcg_at_k(relevant, best, _SHOWN)))


def run(
    data_dir: Path | None,
    sets: Iterable[str] = SETS,
    users: Iterable[str] = tuple(USERS),
    noise: Iterable[float] = NOISE,
    logs: Iterable[str] = LOGS,
) -> list[dict[str, object]]:
    """nDCG@10 on other queries: of the base, and learned from labels, from positives and from simulated clicks."""
    rows = []
    for row in measured(data_dir, sets, list(product(users, noise, logs))):
        rows.append(row)
        print("  " + "; ".join(f"{k}: {v:.4g}" if isinstance(v, float) else f"{v}" for k, v in row.items()), flush=True)
    return rows


def measured(
    data_dir: Path | None, sets: Iterable[str], cases: list[tuple[str, float, str]]
) -> Iterator[dict[str, object]]:
    for name in sets:
        try:
            corpus = Corpus.of(name, data_dir)
        except MissingDataError as missing:
            print(f"{name} left out. {missing}")
            continue
        base = corpus.ndcg(None)
        answers = [np.flatnonzero(corpus.y == label) for label in corpus.y_queries]
        labels, seconds = learned(corpus, from_answers(corpus, answers))
        yield row(name, "labels", "", "", base, labels, labels, seconds)
        rng = np.random.default_rng(0)
        few = [rng.permutation(documents)[:_ANSWERS] for documents in answers]
        positives, seconds = learned(corpus, from_answers(corpus, few))
        yield row(name, "positives", "", "", base, labels, positives, seconds)
        for users, noise, ranker in cases:
            found, seconds = learned(corpus, from_clicks(corpus, users, noise, ranker))
            yield row(name, users, noise, ranker, base, labels, found, seconds)


def row(
    name: str, taught: str, noise: float | str, ranker: str, base: float, labels: float, found: float, seconds: float
) -> dict[str, object]:
    return {
        "set": name,
        "taught by": taught,
        "noise": noise,
        "log of": ranker,
        "base": base,
        "labels": labels,
        "learned": found,
        "gain": found - base,
        "share of labels' gain": (found - base) / (labels - base),
        "seconds": seconds,
    }


def learned(corpus: Corpus, comparisons: Comparisons) -> tuple[float, float]:
    """nDCG@10 after learning from comparisons, and the seconds that took."""
    start = perf_counter()
    # Embeddings come in equal units, and all that is learned here is learned in far fewer iterations than 500.
    estimator = ComparisonBoostMetric.recommended(init="identity", max_iter=_MOST_ITERATIONS, random_state=0)
    estimator.fit(comparisons, points=corpus.points)
    seconds = perf_counter() - start
    return corpus.ndcg(estimator.get_metric()), seconds


def from_answers(corpus: Corpus, answers: list[np.ndarray]) -> Comparisons:
    n = len(corpus.documents)
    queries = n + np.repeat(np.arange(len(answers)), [len(documents) for documents in answers])
    return Comparisons.from_positives(queries, np.concatenate(answers), points=corpus.points, corpus=np.arange(n))


def from_clicks(corpus: Corpus, users: str, noise: float, ranker: str) -> Comparisons:
    """Comparisons from a simulated log, with propensities estimated by the model that fits the users."""
    rng = np.random.default_rng(0)
    query = rng.integers(len(corpus.queries), size=_SESSIONS)
    shown = nearest(corpus.documents, corpus.queries, _SHOWN)[query]
    if ranker == "shuffled":
        shown = rng.permuted(shown, axis=1)
    relevant = corpus.y[shown] == corpus.y_queries[query][:, None]
    # With noise, what is relevant is passed over, and what is not is clicked, with this chance.
    clicked = USERS[users](relevant ^ (rng.random(shown.shape) < noise), rng)
    n = len(corpus.documents)
    return Comparisons.from_clicks(
        n + np.repeat(query, _SHOWN),
        shown.ravel(),
        np.tile(np.arange(1, _SHOWN + 1), _SESSIONS),
        clicked.ravel(),
        sessions=np.repeat(np.arange(_SESSIONS), _SHOWN),
        model=users,  # type: ignore[arg-type]
        corpus=np.arange(n),
    )
