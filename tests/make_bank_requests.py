"""Makes the data of ``boostmetric demo`` from CLINC150; see src/boostmetric/cli/bank_requests/README.md.

    python tests/make_bank_requests.py data_full.json domains.json clinc150_minilm.npz

The first two are files of clinc/oos-eval. The third has the embeddings X of all sentences, with y, labels and split,
where those of each split are in the order of data_full.json.
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "src" / "boostmetric" / "cli" / "bank_requests"
DOMAINS = ("banking", "credit_cards")
PARTS = {"train": 35, "test": 15}  # the first so many of each intent, in the source's order
STEP = 0.01  # a fifth of the standard deviation of a coordinate


def chosen(full, domains):
    """Part, intent, sentence, and place in the part, of each row."""
    intents = sorted(intent for domain in DOMAINS for intent in domains[domain])
    for part, most in PARTS.items():
        for intent in intents:
            places = [place for place, (_, label) in enumerate(full[part]) if label == intent]
            yield from ((part, intent, full[part][place][0], place) for place in places[:most])


def rounded(X):
    """Whole numbers of steps: few enough to pack well."""
    return np.round(X.astype(np.float64) / STEP).astype(np.int8)


def main(full, domains, embeddings):
    rows = list(chosen(json.loads(Path(full).read_text()), json.loads(Path(domains).read_text())))
    with np.load(embeddings) as arrays:
        X, split, names = arrays["X"], arrays["split"], arrays["labels"][arrays["y"]]
    starts = {"train": np.flatnonzero(split == 0)[0], "test": np.flatnonzero(split == 2)[0]}
    places = [starts[part] + place for part, _, _, place in rows]
    assert [names[place] for place in places] == [intent for _, intent, _, _ in rows]
    with (FOLDER / "requests.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["part", "intent", "sentence"])
        writer.writerows(row[:3] for row in rows)
    np.savez_compressed(FOLDER / "vectors.npz", X=rounded(X[places]), step=np.float32(STEP))


if __name__ == "__main__":
    main(*sys.argv[1:])
