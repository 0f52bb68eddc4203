"""Learning from a stream of batches."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons
from boostmetric.engines.threads import ThreadBackend
from boostmetric.solver.direction import LARGEST_DENSE
from boostmetric.solver.online import Stream
from boostmetric.solver.problem import Problem
from boostmetric.solver.result import StopReason

X, Y = load_wine(return_X_y=True)


class World:
    """Points whose comparisons a hidden metric answers, one answer in ten being wrong."""

    def __init__(self, n_features=10, wrong=0.1, seed=0):
        self.rng = np.random.default_rng(seed)
        self.points = self.rng.standard_normal((2000, n_features))
        rotation = np.linalg.qr(self.rng.standard_normal((n_features, n_features)))[0]
        self.hidden = self.points @ rotation * np.linspace(2, 0, n_features)
        self.wrong = wrong

    def triplets(self, n):
        t = np.array([self.rng.choice(2000, 3, replace=False) for _ in range(n)])
        near, far = (np.linalg.norm(self.hidden[t[:, 0]] - self.hidden[t[:, c]], axis=1) for c in (1, 2))
        swap = (near > far) ^ (self.rng.random(n) < self.wrong)
        t[swap] = t[swap][:, [0, 2, 1]]
        return t


def test_a_stream_of_200_batches_approaches_one_big_fit():
    """Within 0.02 of the comparison accuracy of a fit to all of them at once; a first batch is 0.1 away from it."""
    world = World()
    batches, test = [world.triplets(50) for _ in range(200)], world.triplets(5000)
    big = ComparisonBoostMetric(max_iter=200).fit(np.concatenate(batches), points=world.points)
    stream = ComparisonBoostMetric()
    scores = [stream.partial_fit(batch, points=world.points).score(test, points=world.points) for batch in batches]
    goal = big.score(test)
    assert scores[-1] > goal - 0.02
    assert scores[0] < goal - 0.08
    assert scores[20] < scores[-1]
    assert stream.n_batches_ == 200


def test_memory_does_not_grow_with_the_batches():
    world = World()
    stream = ComparisonBoostMetric()
    sizes = []
    for _ in range(30):
        stream.partial_fit(world.triplets(30), points=world.points)
        sizes.append(len(pickle.dumps(stream)))
    assert max(sizes[10:]) - min(sizes[10:]) < 100
    assert stream.components_.shape == (10, 10)
    assert stream.directions_.shape == (10, 10)


def test_a_round_goes_along_the_gradient_and_stays_a_metric(monkeypatch):
    """The first round of the first batch, written out."""
    monkeypatch.setattr("boostmetric.solver.online._ROUNDS", 1)
    triplets = np.array([np.random.default_rng(i).choice(40, 3, replace=False) for i in range(60)])
    points = World(n_features=4).points[:40] * [1, 2, 3, 4]
    stream = Stream.begin(np.zeros((1, 4)), 0).after(
        Problem(points, Comparisons.from_triplets(triplets)),
        regularization=1e-7,
        backend=ThreadBackend(),
        rng=np.random.RandomState(0),
    )
    unit = np.sqrt(points.std(axis=0))
    i, j, k = (points / unit)[triplets].transpose(1, 0, 2)
    A = np.einsum("ni,nj->nij", i - k, i - k) - np.einsum("ni,nj->nij", i - j, i - j)
    gradient = A.mean(axis=0) - 1e-7 * np.eye(4)
    change = np.einsum("nij,ij->n", A, gradient)
    values, vectors = np.linalg.eigh(0.3 * gradient / np.sqrt(np.mean(change**2)))
    expected = (vectors * np.maximum(values, 0)) @ vectors.T / np.outer(unit, unit)
    assert stream.current.T @ stream.current == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert stream.average.T @ stream.average == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    world = World(n_features=4)
    batches = [world.triplets(30) for _ in range(5)]
    plain, scaled = ComparisonBoostMetric(regularization=0.0), ComparisonBoostMetric(regularization=0.0)
    for batch in batches:
        plain.partial_fit(batch, points=world.points)
        scaled.partial_fit(batch, points=scale * world.points)
    assert scaled.transform(scale * world.points) == pytest.approx(plain.transform(world.points), rel=1e-6, abs=1e-9)


def test_labelled_batches():
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    train, test = order[:130], order[130:]
    metric = BoostMetric.paper()
    for _ in range(40):
        batch = rng.choice(train, 40, replace=False)
        assert metric.partial_fit(X[batch], Y[batch]) is metric
    held = Comparisons.from_labels(X[test], Y[test])
    judge = ComparisonBoostMetric(max_iter=1).fit(held, points=X[test])
    judge.components_ = metric.components_
    learned = judge.score(held)
    judge.components_ = np.eye(13)
    assert learned > judge.score(held) + 0.1
    assert metric.transform(X).shape == (len(X), metric.components_.shape[0])
    assert metric.stop_reason_ is StopReason.BATCH
    assert len(list(metric.staged_transform(X[:3]))) == len(metric.step_sizes_)


def test_a_batch_after_a_fit_starts_from_its_metric():
    world = World()
    fitted = ComparisonBoostMetric(max_iter=50).fit(world.triplets(3000), points=world.points)
    test = world.triplets(3000)
    before = fitted.score(test)
    fitted.partial_fit(world.triplets(200), points=world.points)
    assert fitted.score(test, points=world.points) > before - 0.05
    assert fitted.n_batches_ == 2
    fitted.fit(world.triplets(100), points=world.points)
    assert not hasattr(fitted, "n_batches_")


def test_the_rank_is_limited():
    metric = BoostMetric.paper(n_components=2).partial_fit(X, Y).partial_fit(X, Y)
    assert metric.transform(X).shape == (len(X), 2)


def test_batches_with_fewer_points_than_features():
    rng = np.random.default_rng(0)
    metric = BoostMetric.paper(n_neighbors=1, n_impostors=1)
    for _ in range(3):
        points = rng.standard_normal((10, 25))
        metric.partial_fit(points, np.arange(10) % 2)
    assert np.isfinite(metric.components_).all()
    assert 20 < metric.components_.shape[0] <= 25


def test_bad_batches_leave_the_metric_as_it_was():
    metric = BoostMetric.paper().partial_fit(X, Y)
    before = metric.components_.copy()
    with pytest.raises(ValueError, match="comparisons need at least 2 classes"):
        metric.partial_fit(X[:30], Y[:30])
    with pytest.raises(ValueError, match="X has 5 features, but BoostMetric is expecting 13"):
        metric.partial_fit(X[:, :5], Y)
    assert metric.components_.tobytes() == before.tobytes()
    assert metric.n_batches_ == 1


@pytest.mark.parametrize(
    ("n_features", "value", "form"),
    [
        *itertools.product([13], [0.0, 1.0], [np.asarray, sparse.csr_array]),
        (LARGEST_DENSE + 1, 0.0, sparse.csr_array),
        (LARGEST_DENSE + 1, 1.0, np.asarray),
    ],
)
def test_a_batch_without_information_changes_nothing(n_features, value, form):
    points = np.pad(X, [(0, 0), (0, n_features - 13)])
    metric = BoostMetric.paper(n_neighbors=1, random_state=0).partial_fit(form(points), Y)
    before = metric.get_mahalanobis_matrix()
    metric.partial_fit(form(np.full((6, n_features), value)), [0, 0, 0, 1, 1, 1])
    assert metric.get_mahalanobis_matrix() == pytest.approx(before, rel=1e-9, abs=1e-12 * before.max())


def test_a_batch_out_of_range_is_refused_as_in_a_fit():
    metric = BoostMetric.paper().partial_fit(X, Y)
    with pytest.raises(ValueError, match="spread over about 1e20"):
        metric.partial_fit(1e200 * X, Y)
    assert metric.n_batches_ == 1


def test_a_metric_of_zero_is_said():
    with pytest.warns(UserWarning, match="Nothing was learned"):
        BoostMetric.paper(regularization=1e9).partial_fit(X, Y)


def test_a_truncated_fit_goes_on_with_what_it_learned():
    whole, small = (BoostMetric.paper(max_iter=20, n_components=n).fit(X, Y).partial_fit(X, Y) for n in (None, 2))
    assert np.allclose(small.components_, whole.components_[:2], atol=1e-9 * np.abs(whole.components_).max())
