"""The requests to a bank of ``boostmetric demo``: a part of CLINC150; bank_requests/README.md says where it is from."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "bank_requests"


class Requests(NamedTuple):
    """Sentences with their intents and embeddings.

    Attributes
    ----------
    vectors : ndarray of shape (n_requests, 384)
        float32.
    intents, sentences : ndarray of str, of shape (n_requests,)
    """

    vectors: NDArray[np.float32]
    intents: NDArray[Any]
    sentences: NDArray[Any]


def bank_requests() -> tuple[Requests, Requests]:
    """Requests to learn from, and others to test on.

    Examples
    --------
    >>> from boostmetric.cli.demo_data import bank_requests
    >>> train, test = bank_requests()
    >>> train.vectors.shape, len(test.sentences)
    ((1050, 384), 450)
    >>> print(train.intents[0], "|", train.sentences[0])
    account_blocked | why is there a hold on my american saving bank account
    """
    with (FOLDER / "requests.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with np.load(FOLDER / "vectors.npz") as arrays:
        vectors = arrays["X"].astype(np.float32) * arrays["step"]
    part = np.array([row["part"] for row in rows])
    intents, sentences = (np.array([row[name] for row in rows]) for name in ("intent", "sentence"))
    train, test = (Requests(vectors[part == name], intents[part == name], sentences[part == name]) for name in PARTS)
    return train, test


PARTS = ("train", "test")
"""Values of the column part."""
