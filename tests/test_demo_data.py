"""The requests of the demo are what their README says."""

import os
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.make_bank_requests import PARTS, STEP, rounded

from boostmetric.cli.demo_data import FOLDER, bank_requests


def test_every_intent_is_in_both_parts():
    train, test = bank_requests()
    for part, size in ((train, PARTS["train"]), (test, PARTS["test"])):
        intents, counts = np.unique(part.intents, return_counts=True)
        assert len(intents) == 30
        assert set(counts) == {size}
        assert part.vectors.dtype == np.float32
        assert np.linalg.norm(part.vectors, axis=1) == pytest.approx(1, abs=0.02)  # before they were rounded, 1
    assert not set(train.sentences) & set(test.sentences)


def test_the_terms_ask_for_a_name_and_a_link():
    said = (FOLDER / "README.md").read_text(encoding="utf-8")
    for needed in ("Stefan Larson", "Creative Commons Attribution 3.0 Unported", "clinc/oos-eval", "Changes:"):
        assert needed in said
    assert "Attribution 3.0 Unported" in (FOLDER / "LICENSE").read_text(encoding="utf-8")


def test_a_wheel_grows_little():
    packed = sum(len(zlib.compress(path.read_bytes())) for path in FOLDER.iterdir())
    assert packed < 400_000


def test_vectors_are_the_rounded_embeddings():
    path = Path(os.environ.get("BOOSTMETRIC_DATA") or ".") / "clinc150_minilm.npz"
    if not path.exists():
        pytest.skip("needs the embeddings of CLINC150")
    with np.load(path) as arrays:
        X, split, names = arrays["X"], arrays["split"], arrays["labels"][arrays["y"]]
    for part, number, most in zip(bank_requests(), (0, 2), PARTS.values(), strict=True):
        for intent in np.unique(part.intents):
            theirs = rounded(X[(names == intent) & (split == number)][:most])
            ours = part.vectors[part.intents == intent]
            np.testing.assert_allclose(ours, theirs * np.float32(STEP))
