"""A stream of small batches compared with one fit to everything."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from boostmetric import ComparisonBoostMetric
from boostmetric.storage.files import replacing

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "stream.png"
_BATCHES, _SIZE = 200, 50
_AT = (1, 2, 5, 10, 20, 50, 100, 200)


def run(data_dir: Path | None) -> list[dict[str, object]]:
    """200 batches of 50 triplets, one answer in ten wrong: held-out comparisons satisfied, mean of five streams."""
    del data_dir
    scores = np.array([one_stream(seed) for seed in range(5)])  # stream, batch by batch; one big fit; Euclidean
    stream, big, plain = scores[:, :_BATCHES], scores[:, _BATCHES].mean(), scores[:, _BATCHES + 1].mean()
    with replacing(FIGURE) as temporary:
        draw(stream, big, plain).savefig(temporary)
    return [
        {
            "batches": k,
            "partial_fit": float(stream[:, k - 1].mean()),
            "one fit to all 200": float(big),
            "Euclidean": float(plain),
        }
        for k in _AT
    ]


def one_stream(seed: int, n_features: int = 10) -> list[float]:
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((2000, n_features))
    seen = points @ np.linalg.qr(rng.standard_normal((n_features, n_features)))[0] * np.linspace(2, 0, n_features)

    def triplets(n: int) -> np.ndarray:
        t = np.array([rng.choice(len(points), 3, replace=False) for _ in range(n)])
        near, far = (np.linalg.norm(seen[t[:, 0]] - seen[t[:, c]], axis=1) for c in (1, 2))
        swap = (near > far) ^ (rng.random(n) < 0.1)
        t[swap] = t[swap][:, [0, 2, 1]]
        return t

    batches, test = [triplets(_SIZE) for _ in range(_BATCHES)], triplets(5000)
    metric = ComparisonBoostMetric()
    scores = [metric.partial_fit(batch, points=points).score(test, points=points) for batch in batches]
    big = ComparisonBoostMetric().fit(np.concatenate(batches), points=points)
    a, b, c = points[test].transpose(1, 0, 2)
    plain = np.mean(np.linalg.norm(a - b, axis=1) < np.linalg.norm(a - c, axis=1))
    return [*scores, big.score(test), float(plain)]


def draw(stream: np.ndarray, big: float, plain: float) -> Figure:
    figure = Figure(figsize=(6.4, 3.6), layout="constrained", dpi=150)
    axes = figure.subplots()
    batches = np.arange(1, _BATCHES + 1)
    axes.fill_between(batches, stream.min(axis=0), stream.max(axis=0), color="0.85", label="range of five streams")
    axes.plot(batches, stream.mean(axis=0), color="black", label="partial_fit, batch by batch")
    axes.axhline(big, color="0.35", linestyle="--", label="one fit to all 10,000 triplets")
    axes.axhline(plain, color="0.35", linestyle=":", label="Euclidean distance")
    axes.set_xlabel("batches of 50 triplets")
    axes.set_ylabel("held-out comparisons satisfied")
    axes.set_xlim(0, _BATCHES)
    axes.legend(frameon=False, loc="center right")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
