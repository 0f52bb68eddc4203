"""Torch tensors as input: mapped where they are, and learned from like arrays."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.datasets import load_iris

from boostmetric import BoostMetric, ComparisonBoostMetric, Comparisons, MahalanobisMetric, Points
from boostmetric.arrays.tensors import as_numpy, unit_vectors
from boostmetric.baselines import RCA, Euclidean
from conftest import import_torch

torch = import_torch()
pytestmark = pytest.mark.torch

X, Y = load_iris(return_X_y=True)
TRIPLETS = np.array([[i, (i + 1) % 50, 50 + i] for i in range(50)])
DTYPES = {
    torch.float64: torch.float64,
    torch.float32: torch.float32,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.int64: torch.float64,
    torch.uint8: torch.float64,
    torch.bool: torch.float64,
}


@pytest.fixture(scope="module")
def fitted():
    return BoostMetric.paper(max_iter=5).fit(X, Y)


def tensor(array, dtype=None):
    return torch.from_numpy(np.array(array)).to(dtype=dtype)


@pytest.mark.parametrize("given", DTYPES)
def test_transform_of_a_tensor(given, fitted):
    samples = tensor(X, given)
    metric = fitted.get_metric()
    expected = fitted.transform(samples.double().numpy())
    rel = 1e-12 if DTYPES[given] == torch.float64 else 1e-4
    for answer in (fitted.transform(samples), metric.transform(samples)):
        assert isinstance(answer, torch.Tensor)
        assert answer.dtype == DTYPES[given]
        assert answer.device == samples.device
        assert answer.numpy() == pytest.approx(expected, rel=rel, abs=rel)
    pairs = torch.stack([samples[:50], samples[50:100]], dim=1)
    expected = metric.distance(pairs[:, 0].double().numpy(), pairs[:, 1].double().numpy())
    for answer in (fitted.pair_distance(pairs), metric.distance(pairs[:, 0], pairs[:, 1])):
        assert answer.dtype == DTYPES[given]
        assert answer.numpy() == pytest.approx(expected, rel=rel, abs=rel)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_unit_length_on_the_device(dtype):
    metric = BoostMetric.paper(max_iter=5, normalize=True).fit(X, Y).get_metric()
    abs_ = 1e-12 if dtype == torch.float64 else 1e-5
    samples = tensor(X, dtype).requires_grad_()
    answer = metric.transform(samples)
    assert answer.dtype == dtype
    assert answer.detach().numpy() == pytest.approx(metric.transform(X), abs=abs_)
    (answer * torch.arange(answer.shape[1])).sum().backward()
    assert (samples.grad * samples).sum(dim=1).detach().numpy() == pytest.approx(np.zeros(len(X)), abs=10 * abs_)
    for other in (samples[50:100], X[50:100]):  # an array beside a tensor
        distance = metric.distance(samples[:50], other).detach().numpy()
        assert distance == pytest.approx(metric.distance(X[:50], X[50:100]), abs=abs_)


def test_zeros_and_small_tensors_at_unit_length():
    rows = torch.tensor([[0.0, 0.0], [3e-30, 4e-30], [3e30, 4e30]], requires_grad=True)
    answer = unit_vectors(rows)
    assert answer.detach().numpy() == pytest.approx(np.array([[0, 0], [0.6, 0.8], [0.6, 0.8]]))
    answer.sum().backward()
    assert rows.grad.isfinite().all()


def test_all_learners_transform_tensors():
    for learner in (Euclidean().fit(X), RCA().fit(X, Y)):
        assert torch.allclose(learner.transform(tensor(X)), tensor(learner.transform(X)))


def test_staged_transform_of_a_tensor(fitted):
    stages = list(fitted.staged_transform(tensor(X)))
    assert len(stages) == 5
    assert torch.equal(stages[-1], fitted.transform(tensor(X)))


def test_nothing_is_copied_to_the_host(fitted, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("copied")

    for name in ("cpu", "numpy", "__array__", "tolist"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    fitted.transform(tensor(X))
    fitted.get_metric().distance(tensor(X), tensor(X)[0])


def test_gradients_flow(fitted):
    metric = fitted.get_metric()
    samples = tensor(X[:4]).requires_grad_()
    for function in (fitted.transform, metric.transform, lambda x: metric.distance(x, x[[1, 2, 3, 0]])):
        assert torch.autograd.gradcheck(function, samples)
    metric.distance(samples, samples.detach()).sum().backward()  # equal points: no direction to go
    assert torch.equal(samples.grad, torch.zeros_like(samples))


def test_shapes_of_a_metric():
    metric = MahalanobisMetric([[2.0, 0.0], [0.0, 1.0]])
    assert metric.transform(torch.ones(5, 3, 2)).shape == (5, 3, 2)
    assert metric.transform(torch.tensor([1, 1])).tolist() == [2.0, 1.0]
    answer = metric.distance(torch.zeros(3, 2), [1.0, 0.0])  # an array beside a tensor follows it
    assert answer.dtype == torch.float32
    assert answer.tolist() == [2.0, 2.0, 2.0]
    assert metric.distance(np.array([1.5, 0.0]), torch.zeros(2, dtype=torch.int64)).item() == 3.0
    assert metric(torch.zeros(2), torch.tensor([1.0, 0.0])) == 2.0
    with pytest.raises(ValueError, match=r"2 features, but the points have shape \(4, 3\)"):
        metric.transform(torch.zeros(4, 3))


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        (torch.zeros(3, 5), ValueError, "X has 5 features, but BoostMetric is expecting 4 features"),
        (torch.zeros(4), ValueError, r"Expected 2D tensor, got 1D tensor of shape \(4,\)"),
        (torch.zeros(0, 4), ValueError, "0 sample"),
        (torch.full((2, 4), torch.nan), ValueError, "X contains NaN"),
        (torch.full((2, 4), -torch.inf), ValueError, "X contains infinity"),
        (torch.zeros(2, 4, dtype=torch.complex64), ValueError, "Complex data not supported"),
        (torch.zeros(2, 4).to_sparse(), TypeError, "must be dense"),
    ],
)
def test_errors(samples, error, message, fitted):
    with pytest.raises(error, match=message):
        fitted.transform(samples)


def test_finiteness_may_be_assumed(fitted):
    with sklearn.config_context(assume_finite=True):
        assert fitted.transform(torch.full((2, 4), torch.nan)).isnan().all()


def test_names_of_features_are_missed():
    learner = Euclidean().fit(pd.DataFrame(X, columns=list("abcd")))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        learner.transform(tensor(X))


def test_set_output_of_arrays():
    learner = Euclidean().set_output(transform="pandas").fit(X)
    assert list(learner.transform(X).columns) == [f"euclidean{i}" for i in range(4)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_fit_to_tensors(dtype):
    samples, labels = tensor(X, dtype), tensor(Y)
    array = as_numpy(samples)
    assert array.dtype == (np.float64 if dtype == torch.float64 else np.float32)
    weights = np.linspace(1, 2, len(Y))
    expected = BoostMetric.paper(max_iter=5).fit(array, Y, weights, eval_set=(array[::3], Y[::3]))
    learner = BoostMetric.paper(max_iter=5)
    held_out = (samples[::3], labels[::3])
    assert learner.fit(samples.requires_grad_(), labels, tensor(weights), eval_set=held_out) is learner
    assert np.array_equal(learner.components_, expected.components_)
    assert isinstance(learner.components_, np.ndarray)
    assert isinstance(learner.fit_transform(samples, labels), torch.Tensor)
    learner.partial_fit(samples, labels, tensor(weights))
    assert np.array_equal(learner.components_, expected.fit(array, Y).partial_fit(array, Y, weights).components_)


def test_fit_to_comparisons_in_tensors():
    weights = np.linspace(1, 2, len(TRIPLETS))
    expected = ComparisonBoostMetric(max_iter=5).fit(TRIPLETS, points=X, sample_weight=weights, eval_set=TRIPLETS[::5])
    for points in (tensor(X), Points(tensor(X))):
        learner = ComparisonBoostMetric(max_iter=5)
        learner.fit(tensor(TRIPLETS), points=points, sample_weight=tensor(weights), eval_set=tensor(TRIPLETS[::5]))
        assert np.array_equal(learner.components_, expected.components_)
        assert learner.score(tensor(TRIPLETS)) == expected.score(TRIPLETS)
        assert learner.score(tensor(TRIPLETS), points=points) == expected.score(TRIPLETS)
    tuples = X[TRIPLETS]
    assert np.array_equal(
        ComparisonBoostMetric(max_iter=5).fit(tensor(tuples)).components_,
        ComparisonBoostMetric(max_iter=5).fit(tuples).components_,
    )
    assert isinstance(learner.fit_transform(tensor(TRIPLETS), points=tensor(X)), torch.Tensor)


def test_fit_to_pairs_in_tensors():
    pairs = np.concatenate([TRIPLETS[:, :2], TRIPLETS[:, ::2]])
    sign = np.repeat([1, -1], 50)
    expected = ComparisonBoostMetric(max_iter=5).fit(pairs, sign, points=X, eval_set=(pairs[::3], sign[::3]))
    learner = ComparisonBoostMetric(max_iter=5)
    held_out = (tensor(pairs[::3]), tensor(sign[::3]))
    learner.fit(tensor(pairs), tensor(sign), points=tensor(X), eval_set=held_out)
    assert learner.threshold_ == expected.threshold_
    assert np.array_equal(learner.predict(tensor(pairs)), expected.predict(pairs))
    assert learner.score(tensor(pairs), tensor(sign)) == expected.score(pairs, sign)
    learner.partial_fit(tensor(pairs), tensor(sign), points=tensor(X))
    assert np.array_equal(learner.components_, expected.partial_fit(pairs, sign, points=X).components_)


def test_comparisons_from_tensors():
    weights = np.linspace(1, 2, len(Y))
    found = Comparisons.from_labels(tensor(X), tensor(Y), sample_weight=tensor(weights))
    expected = Comparisons.from_labels(X, Y, sample_weight=weights)
    assert np.array_equal(found.pairs, expected.pairs)
    assert np.array_equal(found.weights, expected.weights)
    assert Comparisons.from_triplets(tensor(TRIPLETS)).n_comparisons == 50


def test_baselines_fit_to_tensors():
    assert np.array_equal(RCA().fit(tensor(X), tensor(Y)).components_, RCA().fit(X, Y).components_)


def test_what_is_no_tensor_is_left_alone():
    for given in (None, [1, 2], X, sparse.csr_array(X)):
        assert as_numpy(given) is given
    with pytest.raises(TypeError, match="must be dense"):
        BoostMetric.paper().fit(tensor(X).to_sparse(), Y)
