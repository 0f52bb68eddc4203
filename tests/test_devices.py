"""Names of devices, and what is said where there is no torch."""

import sys

import pytest
from sklearn.datasets import load_iris

from boostmetric import BoostMetric, ComparisonBoostMetric

X, Y = load_iris(return_X_y=True)
TRIPLETS = [[0, 1, 60], [70, 71, 2]]


@pytest.mark.parametrize("name", ["gpu", "CUDA", "cuda:", "cuda:one", "mps", "", None, 0])
def test_names_must_be_known(name):
    message = rf'device must be "cpu", "cuda", "cuda:0" \(or another number\), or "auto"\. Got {name!r}\.'
    with pytest.raises(ValueError, match=message):
        BoostMetric.paper(device=name).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        ComparisonBoostMetric(device=name).fit(TRIPLETS, points=X)
    with pytest.raises(ValueError, match=message):
        BoostMetric.paper(device=name).partial_fit(X, Y)


@pytest.fixture
def no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it fails


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "torch:cpu"])
def test_without_torch_it_says_what_to_install(device, no_torch):
    message = rf"device='{device}' needs the package torch, which is not installed.*pip install 'boostmetric\[gpu\]'"
    with pytest.raises(ImportError, match=message):
        BoostMetric.paper(device=device).fit(X, Y)
    with pytest.raises(ImportError, match=message):
        ComparisonBoostMetric(device=device).fit(TRIPLETS, points=X)


def test_auto_does_without_torch(no_torch):
    plain, auto = (BoostMetric.paper(device=device, max_iter=3).fit(X, Y) for device in ("cpu", "auto"))
    assert auto.components_.tobytes() == plain.components_.tobytes()
