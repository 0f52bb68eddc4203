"""Tenants: directions of their own where these help, on the query side, and one file for all."""

import subprocess
import sys

import numpy as np
import pytest
from benchmarks import tenants as benchmark
from safetensors.numpy import load_file

from boostmetric import MahalanobisMetric
from boostmetric.evaluation import RankingTask
from boostmetric.storage.tensor_file import write_tensors
from boostmetric.tenants import TenantDirections, TenantMetrics


def corpus(seed=0, n=400, n_features=16):
    """Documents and queries of four kinds, which the first two numbers tell apart, and what is relevant."""
    rng = np.random.default_rng(seed)
    kind, points = rng.integers(2, size=(n, 2)), rng.standard_normal((n, n_features))
    points[:, :2] += 3 * kind
    same = (kind[300:, None] == kind[:300]).all(axis=2)
    return points[300:], points[:300], np.column_stack([np.argwhere(same), np.ones(same.sum())])


def ndcg(queries, documents, relevance):
    task = RankingTask.of(queries, documents, relevance, k=10)
    (sample,) = task.measure((queries, documents))
    return sample.mean[task.names.index(task.headline)]


@pytest.fixture(scope="module")
def fitted():
    tenants = TenantMetrics(MahalanobisMetric(np.eye(16)))
    queries, documents, relevance = corpus()
    fit = tenants.fit("picky", queries, documents, relevance)
    rng = np.random.default_rng(1)
    nothing = np.column_stack([np.repeat(np.arange(100), 3), rng.integers(300, size=(100, 3)).ravel(), np.ones(300)])
    return tenants, fit, tenants.fit("at random", queries, documents, np.unique(nothing, axis=0))


def test_a_tenant_with_a_notion_of_its_own_gets_directions(fitted):
    tenants, fit, _ = fitted
    assert tenants.n_directions("picky") == fit.n_directions > 0
    assert fit.low > 0
    assert fit.n_queries == 100
    queries, documents, relevance = corpus(seed=5)  # others of the same kinds
    index = tenants.transform_documents(documents)
    shared, own = (ndcg(tenants.transform_queries(queries, who), index, relevance) for who in (None, "picky"))
    assert own > shared + 0.05


def test_a_tenant_without_a_pattern_keeps_the_shared_metric(fitted):
    tenants, _, fit = fitted
    assert fit.n_directions == tenants.n_directions("at random") == 0
    assert fit.low <= 0
    queries, *_ = corpus()
    assert np.array_equal(tenants.transform_queries(queries, "at random"), queries)


def test_few_queries_are_too_few_to_choose_by():
    queries, documents, relevance = corpus()
    tenants = TenantMetrics(MahalanobisMetric(np.eye(16)))
    fit = tenants.fit("new", queries[:19], documents, relevance[relevance[:, 0] < 19])
    assert (fit.n_queries, fit.n_directions, fit.base, fit.low) == (19, 0, None, None)
    assert "new" in tenants


def test_the_query_moves_as_the_distance_with_these_directions_says():
    # Where all documents are equally far from the centre along U, nothing is approximated.
    rng = np.random.default_rng(0)
    z, documents, U = rng.standard_normal(3), rng.standard_normal((50, 3)), np.array([[0.0, 0.5, 0.0]])
    documents[:, 1] = np.where(np.arange(50) % 2, 2.0, -2.0) + 1.0
    centre = np.array([0.5])  # U times a point with 1 in the middle
    asked = TenantDirections(U, centre).move(z[None])[0]
    exact = ((documents - z) ** 2).sum(axis=1) + ((documents - z) @ U.T)[:, 0] ** 2
    assert np.array_equal(np.argsort(((documents - asked) ** 2).sum(axis=1)), np.argsort(exact))


def test_directions_are_those_after_the_shared_metric(fitted):
    tenants, *_ = fitted
    queries, documents, relevance = corpus()
    scaled = TenantMetrics(MahalanobisMetric(4 * np.eye(16)))
    scaled.fit("picky", queries / 4, documents / 4, relevance)
    assert np.allclose(scaled.transform_queries(queries / 4, "picky"), tenants.transform_queries(queries, "picky"))


def test_one_file_holds_all(fitted, tmp_path):
    tenants, *_ = fitted
    path = tmp_path / "tenants.safetensors"
    tenants.save(path)
    again = TenantMetrics.load(path)
    assert again.names == ["picky", "at random"]
    assert len(again) == 2
    queries, *_ = corpus()
    for who in (None, *again.names):
        assert np.allclose(again.transform_queries(queries, who), tenants.transform_queries(queries, who), atol=1e-5)
    again.remove("picky")
    again.save(path)
    assert TenantMetrics.load(path).names == ["at random"]
    assert repr(again) == (
        "TenantMetrics(1 tenants, 0 with directions of their own, "
        "shared=MahalanobisMetric(n_components=16, n_features=16))"
    )


def test_names_and_unit_length_of_the_shared_metric_are_kept(tmp_path):
    shared = MahalanobisMetric(np.eye(2), feature_names=["a", "b"], normalize=True)
    TenantMetrics(shared).save(tmp_path / "none")
    again = TenantMetrics.load(tmp_path / "none")
    assert again.shared.feature_names == ["a", "b"]
    assert again.transform_documents([[3.0, 4.0]]).tolist() == [[0.6, 0.8]]
    assert len(again) == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tenant_bounds": np.array([0, 2, 1])}, "do not follow one another"),
        ({"tenant_bounds": np.array([0, 1])}, "tensor 'tenant_bounds' has shape"),
        ({"tenant_centres": np.zeros(3, np.float32)}, "tensor 'tenant_centres' has shape"),
        ({"tenants": ["a", "a"]}, "not a list of different names"),
        ({"tenants": [1, 2]}, "not a list of different names"),
    ],
)
def test_a_file_that_does_not_fit_together_is_refused(tmp_path, changed, message):
    path = tmp_path / "bad"
    TenantMetrics(MahalanobisMetric(np.eye(2))).save(path)
    tensors = {
        **load_file(path),
        "tenant_directions": np.ones((2, 2), np.float32),
        "tenant_centres": np.ones(2, np.float32),
        "tenant_bounds": np.array([0, 1, 2]),
    }
    about = {"metric": {"feature_names": None, "about": {}}, "tenants": ["a", "b"]}
    write_tensors(path, "tenants", 1, tensors, about)
    assert TenantMetrics.load(path).names == ["a", "b"]
    tensors |= {name: value for name, value in changed.items() if name in tensors}
    write_tensors(path, "tenants", 1, tensors, about | {k: v for k, v in changed.items() if k in about})
    with pytest.raises(ValueError, match=message):
        TenantMetrics.load(path)


def test_messages(fitted, tmp_path):
    tenants, *_ = fitted
    with pytest.raises(KeyError, match="There is no tenant 'pikcy' among 2"):
        tenants.transform_queries([[0.0] * 16], "pikcy")
    with pytest.raises(TypeError, match="tenant must be a string"):
        tenants.fit(7, [[0.0] * 16], [[0.0] * 16], [[0, 0, 1]])
    with pytest.raises(TypeError, match="shared must be a fitted learner"):
        TenantMetrics(None)
    with pytest.raises(ValueError, match="max_directions"):
        tenants.fit("a", *corpus(), max_directions=0)
    tenants.shared.save(tmp_path / "model")
    with pytest.raises(ValueError, match="it is of kind 'model', which"):
        TenantMetrics.load(tmp_path / "model")


def test_loading_needs_no_scikit_learn(fitted, tmp_path):
    fitted[0].save(tmp_path / "tenants")
    program = (
        "import sys; sys.modules['sklearn'] = sys.modules['scipy'] = None\n"
        "from boostmetric.tenants import TenantMetrics\n"
        f"print(TenantMetrics.load({str(tmp_path / 'tenants')!r}).transform_queries([[0.0] * 16], 'picky').shape)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "(1, 16)\n", done.stderr


def test_the_benchmark_counts_tenants_by_topic(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.array(["alarm_set", "alarm_query", "news_query"])
    y = np.arange(600) % 3
    X = rng.standard_normal((600, 8)) + np.eye(8)[y]
    np.savez(tmp_path / "hwu64_minilm.npz", X=X, y=y, labels=labels, split=np.repeat([0, 1, 2], 200))
    data = benchmark.Data.read("hwu64_minilm", benchmark.scenarios, tmp_path)
    assert np.unique(data.topic).tolist() == ["", "alarm"]
    alarm, mean = benchmark.by_tenant("HWU64", data, n_components=4, n_passes=1, max_iter=2)
    assert (alarm["tenant"], alarm["queries"]) == ("alarm", int((y[200:400] < 2).sum()))
    assert mean["tenants"] == 1
    assert benchmark.loading(3)["tenants loaded"] == 3
    assert len({intent for intents in benchmark._CLINC_DOMAINS.values() for intent in intents.split()}) == 150
