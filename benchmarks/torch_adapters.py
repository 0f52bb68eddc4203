"""Linear maps of embeddings as users of torch learn them: NCA, SupCon, batch-hard triplets, and proxies."""

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from torch import Tensor, nn
from torch.nn import functional

from boostmetric.evaluation.knn import vote

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LEARNING_RATES, BATCH_SIZES = (1e-3, 1e-2), (256, 2048)
N_EPOCHS = 40
_TEMPERATURE = 0.07
_PROXY_SCALE = 16
_FAR = 1e9
_QUERIES_AT_ONCE = 1024


class Loss(nn.Module):
    """Loss of a batch of mapped points with classes 0 to n_classes - 1, and whether its maps end at unit length."""

    unit_length = False

    def __init__(self, n_classes: int, n_features: int) -> None:
        super().__init__()


class NCA(Loss):
    """Minus the logarithm of the probability of a neighbour in the same class."""

    def forward(self, x: Tensor, classes: Tensor) -> Tensor:
        """Implement the loss of neighbourhood components analysis."""
        same, itself = _masks(classes)
        chosen = torch.softmax((-(torch.cdist(x, x) ** 2)).masked_fill(itself, -_FAR), dim=1)
        return -torch.log((chosen * same).sum(dim=1) + 1e-9).mean()


class SupCon(Loss):
    """Supervised contrastive loss (Khosla et al., 2020)."""

    unit_length = True

    def forward(self, x: Tensor, classes: Tensor) -> Tensor:
        """Average the log-probabilities of all others in the same class."""
        same, itself = _masks(classes)
        z = functional.normalize(x, dim=1)
        logits = (z @ z.T / _TEMPERATURE).masked_fill(itself, -_FAR)
        positive = same & ~itself
        means = (torch.log_softmax(logits, dim=1) * positive).sum(dim=1) / positive.sum(dim=1).clamp(min=1)
        return -means.mean()


class Triplets(Loss):
    """Farthest point of the same class against the nearest of another, in each batch, with a soft margin."""

    def forward(self, x: Tensor, classes: Tensor) -> Tensor:
        """Average over points that have both in the batch."""
        same, itself = _masks(classes)
        distances = torch.cdist(x, x) + 1e-9
        farthest = distances.masked_fill(~same | itself, -_FAR).amax(dim=1)
        nearest = distances.masked_fill(same, _FAR).amin(dim=1)
        usable = (farthest > -_FAR / 10) & (nearest < _FAR / 10)
        return functional.softplus(farthest - nearest)[usable].sum() / usable.sum().clamp(min=1)


class Proxies(Loss):
    """Cross-entropy of cosines with one learned proxy per class."""

    unit_length = True

    def __init__(self, n_classes: int, n_features: int) -> None:
        super().__init__(n_classes, n_features)
        self.proxies = nn.Parameter(0.1 * torch.randn(n_classes, n_features, device=DEVICE))

    def forward(self, x: Tensor, classes: Tensor) -> Tensor:
        """Classify by scaled cosines."""
        cosines = functional.normalize(x, dim=1) @ functional.normalize(self.proxies, dim=1).T
        return functional.cross_entropy(_PROXY_SCALE * cosines, classes)


LOSSES: dict[str, type[Loss]] = {"NCA": NCA, "SupCon": SupCon, "triplets": Triplets, "proxies": Proxies}


def fit(loss: str, X: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Learn one map per setting and return the best on a quarter of the rows, which none of them learned from."""
    learned = [_fit(LOSSES[loss], X, y, *setting) for setting in product(LEARNING_RATES, BATCH_SIZES)]
    return min(learned, key=lambda candidate: candidate[0])[1]


def _fit(
    kind: type[Loss], X: np.ndarray, y: np.ndarray, learning_rate: float, batch_size: int
) -> tuple[float, Callable[[np.ndarray], np.ndarray]]:
    """Number of validation errors and map of the best epoch of one setting."""
    torch.manual_seed(0)
    learned, held_out, y_learned, y_held_out = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    mean, scale = learned.mean(axis=0), learned.std() + 1e-9
    points, queries = (torch.as_tensor((part - mean) / scale, device=DEVICE) for part in (learned, held_out))
    classes = torch.as_tensor(y_learned, device=DEVICE)
    n_features = X.shape[1]
    L = torch.eye(n_features, device=DEVICE, requires_grad=True)
    loss = kind(int(y_learned.max()) + 1, n_features)
    optimizer = torch.optim.Adam([L, *loss.parameters()], lr=learning_rate)
    fewest, best = np.inf, np.eye(n_features, dtype=np.float32)
    for epoch in range(N_EPOCHS):
        for batch in torch.randperm(len(points), device=DEVICE).split(batch_size):
            optimizer.zero_grad()
            loss(points[batch] @ L.T, classes[batch]).backward()
            optimizer.step()
        if epoch % 2 == 0:
            continue
        with torch.no_grad():
            mapped = [part @ L.T for part in (points, queries)]
        if kind.unit_length:
            mapped = [functional.normalize(part, dim=1) for part in mapped]
        n_errors = _n_errors(*mapped, y_learned, y_held_out)
        if n_errors < fewest:
            fewest, best = n_errors, L.detach().cpu().numpy().copy()

    def transform(points: np.ndarray) -> np.ndarray:
        mapped = (points - mean) / scale @ best.T
        return normalize(mapped) if kind.unit_length else mapped

    return fewest, transform


def _masks(classes: Tensor) -> tuple[Tensor, Tensor]:
    """Which pairs of a batch have the same class, and which are a point with itself."""
    return classes[:, None] == classes, torch.eye(len(classes), dtype=torch.bool, device=classes.device)


def _n_errors(points: Tensor, queries: Tensor, y_points: np.ndarray, y_queries: np.ndarray) -> int:
    """Number of errors of 1-, 3- and 5-NN together: whole, so that equal ones are equal."""
    found = [
        torch.cdist(part, points.double()).topk(5, largest=False).indices
        for part in queries.double().split(_QUERIES_AT_ONCE)
    ]
    labels = y_points[torch.cat(found).cpu().numpy()]
    return sum(int(np.sum(vote(labels[:, :k]) != y_queries)) for k in (1, 3, 5))
