"""The kernels in Triton, on a GPU or through its interpreter: what they compute is what the plain functions do."""

import os

import numpy as np
import pytest

from boostmetric import Comparisons
from boostmetric.engines.device import DeviceBackend
from boostmetric.oracles.losses import EXPONENTIAL
from boostmetric.solver.learn import learn
from conftest import device_name, import_torch, labelled

torch = import_torch()
pytest.importorskip("triton", reason="needs triton: make test-torch installs it")
DEVICE = device_name()
if DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1, which make test-torch sets", allow_module_level=True)
from boostmetric.gpu import device_shards, far, fused_far, fused_rows, rows  # noqa: E402  (need torch and triton)
from boostmetric.gpu.device_blocks import DeviceBlockShard  # noqa: E402
from boostmetric.gpu.device_lists import DeviceListShard  # noqa: E402
from boostmetric.gpu.device_points import DevicePoints  # noqa: E402
from boostmetric.gpu.device_shards import fused  # noqa: E402

pytestmark = pytest.mark.torch
# The interpreter takes each row by itself.
N_ROWS = 11 if DEVICE == "cpu" else 1000


@pytest.fixture(autouse=True)
def tensors_on_the_device():
    with torch.device(DEVICE):
        yield


def close(found, expected, tolerance):
    """Whether two arrays are equal to a tolerance, relative to the largest number."""
    found, expected = found.double(), expected.double()
    return bool((found - expected).abs().max() <= tolerance * expected.abs().max().clamp(min=1e-30))


def side(n, n_features, n_classes, seed, spread=1.0, sign=None):
    """Mapped points of some classes, and with the other sign along some features."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    p = spread * torch.randn(n, n_features, generator=generator) / n_features**0.5
    label = torch.randint(0, n_classes, (n,), generator=generator)
    sign = torch.ones(n_features) if sign is None else sign
    q = (0.5 * (p.double().square() @ sign.double())).float()
    return far.Side.of(p * sign, q, label), far.Side.of(p, q, label)


SIDES = [(100, 3, 2), (127, 16, 5), (300, 40, 3), (260, 64, 4), (150, 17, 2)]


@pytest.fixture(params=SIDES, ids=str)
def columns(request):
    return side(*request.param, seed=0)[1]


@pytest.mark.parametrize("n_near", [1, 3])
@pytest.mark.parametrize("n_rows", [1, 64, None])
def test_log_sums(columns, n_rows, n_near):
    taken = columns
    if n_rows is not None:  # of which the largest number may be smaller
        chosen = torch.full((far.PADDING,), columns.n)
        chosen[:n_rows] = torch.arange(n_rows) * 3 % columns.n
        taken = columns.take(chosen, n_rows)
    generator = torch.Generator(DEVICE).manual_seed(1)
    thresholds = torch.randn(taken.n, n_near, generator=generator).double()
    expected, found = (module.log_sums(taken, columns, thresholds) for module in (far, fused_far))
    assert (found[0] - expected[0]).abs().max() < 1e-5
    assert (found[1] - expected[1]).abs().max() < 1e-5
    assert (found[2] - expected[2]).abs().sum() <= 1  # a threshold may lie within rounding


@pytest.mark.parametrize("n_values", [3, 64, 70])
def test_products(columns, n_values):
    check_products(columns, columns, n_values)


@pytest.mark.parametrize("n_features", [6, 50])
def test_products_where_the_metric_is_not_positive(n_features):
    sign = torch.ones(n_features)
    sign[::3] = -1.0
    check_products(*side(200, n_features, 3, seed=0, sign=sign), 5)


def check_products(taken, columns, n_values):
    n, generator = columns.n, torch.Generator(DEVICE).manual_seed(2)
    log_sum, _, _ = far.log_sums(taken, columns, torch.zeros(n, 1).double())
    u, values = torch.rand(n, generator=generator).double(), torch.randn(n, n_values, generator=generator).double()
    u[::7] = 0.0  # of a point that is no anchor
    bias = (torch.log2(u) + columns.q[:n].double() - log_sum).clamp(min=-1e30)
    expected, found = (module.products(taken, columns, log_sum, bias, values) for module in (far, fused_far))
    assert close(found[0], expected[0], 1e-5)
    assert close(found[1], expected[1], 1e-5)


def test_products_in_several_parts():
    """Columns shared out among programs."""
    columns = side(700, 5, 3, seed=3)[1]
    block_rows, block_columns, _ = fused_far._TILE_OF_PRODUCTS
    assert fused_far._parts(len(columns.p) // block_rows, len(columns.p), block_columns)[0] > 1
    check_products(columns, columns, 2)
    thresholds = torch.zeros(700, 1).double()
    expected, found = (module.log_sums(columns, columns, thresholds) for module in (far, fused_far))
    assert (found[0] - expected[0]).abs().max() < 1e-5


@pytest.mark.parametrize("n_rows", [1, None])
def test_table(columns, n_rows):
    taken = columns if n_rows is None else columns.take(torch.tensor([0] + [columns.n] * (far.PADDING - 1)), n_rows)
    log_sum, _, _ = far.log_sums(taken, columns, torch.zeros(taken.n, 1).double())
    bounds = torch.tensor([0, far.PADDING, far.PADDING, 3 * far.PADDING], dtype=torch.int32)  # the middle one is empty
    source = torch.full((3 * far.PADDING,), columns.n)
    source[:90], source[far.PADDING : far.PADDING + columns.n - 90] = torch.arange(90), torch.arange(90, columns.n)
    basis = torch.randn(len(source), 16, generator=torch.Generator(DEVICE).manual_seed(4)).double()
    basis[source == columns.n] = 0.0
    bins = far.Bins(columns.take(source, len(source)), bounds, basis)
    expected, found = (module.table(taken, log_sum, bins) for module in (far, fused_far))
    assert close(found, expected, 1e-5)


def test_steps_from_a_table():
    generator = torch.Generator(DEVICE).manual_seed(5)
    numbers, own = torch.rand(70, 256, generator=generator), torch.rand(70, generator=generator).double()
    nodes, step = torch.linspace(0, 1, 256).double(), torch.tensor(3.0).double()
    expected, found = (module.table_sums(numbers, own, nodes, step) for module in (far, fused_far))
    for a, b in zip(found, expected, strict=True):
        assert close(a, b, 1e-5)


def test_numbers_in_halves():
    x = torch.randn(1000, generator=torch.Generator(DEVICE).manual_seed(0)) * torch.logspace(-3, 20, 1000)
    high, low, unit = far.halves(x)
    assert high.dtype == low.dtype == torch.float16
    assert close((high.double() + low.double()) * unit, x, 2**-21)


WIDTHS = pytest.mark.parametrize("width", [1, 3, 16, 97, 1500])
PRECISIONS = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])


def rows_of(width, dtype):
    generator = torch.Generator(DEVICE).manual_seed(width)
    d, h = (20 * torch.rand(N_ROWS, width, generator=generator).to(dtype) for _ in range(2))
    return d, h, generator


@pytest.mark.parametrize("sign", [1.0, -1.0])
@WIDTHS
@PRECISIONS
def test_sums_over_rows(width, sign, dtype, tolerance):
    d, h, generator = rows_of(width, dtype)
    d[3, width // 2 + 1 :] = -sign * 1e30  # nothing there
    h[3, width // 2 + 1 :] = 0.0
    step = torch.tensor(0.3, dtype=torch.float64)
    expected, found = (module.moments(d, h, step, sign) for module in (rows, fused_rows))
    for name in ("log", "mean"):
        assert close(getattr(found, name), getattr(expected, name), tolerance), name
    assert (found.variance - expected.variance).abs().max() < tolerance * h.max() ** 2
    expected, found = (module.distances(d, sign) for module in (rows, fused_rows))
    for name in ("log", "mean"):
        assert close(getattr(found, name), getattr(expected, name), tolerance), name
    log_factor = -sign * 20 * torch.rand(N_ROWS, generator=generator).double()
    expected, found = torch.empty_like(d), torch.empty_like(d)
    rows.coefficients(d, log_factor, sign, expected)
    fused_rows.coefficients(d, log_factor, sign, found)
    assert torch.allclose(found, expected, rtol=20 * tolerance, atol=0.0)


def test_one_group_of_many_pairs():
    """So wide that it is left to the plain functions, whose sums are in double precision."""
    width = fused_rows._WIDEST_ROW + 1
    d, h = torch.full((1, width), 1.0), torch.full((1, width), 0.1)
    found = fused_rows.moments(d, h, torch.tensor(0.0).double(), -1.0)
    assert found.log.item() == pytest.approx(np.log(width) - 1.0, abs=1e-6)
    assert found.mean.item() == pytest.approx(0.1, rel=1e-7)
    c = torch.empty_like(d)
    fused_rows.coefficients(d, -found.log, -1.0, c)
    assert c.double().sum().item() == pytest.approx(1.0, abs=1e-5)
    assert fused_rows.count_reached(torch.ones(1, 2), d).tolist() == [2 * width]


@WIDTHS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_violated_comparisons_are_counted(width, dtype):
    _, _, generator = rows_of(width, dtype)
    for n_near in (1, 3, fused_rows._FEW_NEAR + 1):
        near, distant = (torch.randint(0, 9, (N_ROWS, n), generator=generator).to(dtype) for n in (n_near, width))
        near[2, n_near // 2 + 1 :], distant[3, width // 2 + 1 :] = -1e30, 1e30  # nothing there
        assert torch.equal(fused_rows.count_reached(near, distant), rows.count_reached(near, distant))


@PRECISIONS
def test_growths(dtype, tolerance):
    generator = torch.Generator(DEVICE).manual_seed(0)
    z = torch.randn(40, generator=generator).double()
    first, second = torch.randint(0, 40, (2, 2500), generator=generator, dtype=torch.int32)
    grown, step = [], torch.tensor(0.7, dtype=torch.float64)
    for module in (rows, fused_rows):
        h, d = torch.empty(2500, dtype=dtype), torch.ones(2500, dtype=dtype)
        module.growths(z, first, second, h)
        module.grow(d, h, step)
        grown.append(torch.stack([h, d]))
    assert close(grown[1], grown[0], tolerance)


@pytest.mark.parametrize("n_directions", [1, 2, 32, 70])
@PRECISIONS
def test_several_directions(n_directions, dtype, tolerance):
    generator = torch.Generator(DEVICE).manual_seed(0)
    z = torch.randn(40, n_directions, generator=generator).to(dtype)
    factors = torch.randn(n_directions, generator=generator).double()
    n = fused_rows._MEMBERS * fused_rows._BLOCKS_IN_A_RUN + 1000  # more than one run
    first, second = torch.randint(0, 40, (2, n), generator=generator, dtype=torch.int32)
    c = torch.randn(n, generator=generator).to(dtype)
    found = []
    for module in (rows, fused_rows):
        h = torch.empty(n, dtype=dtype)
        module.growths_along(z, factors, first, second, h)
        found.append((h, module.gains(z, first, second, c)))
    assert close(found[1][0], found[0][0], tolerance)
    assert close(found[1][1], found[0][1], tolerance)


@WIDTHS
@PRECISIONS
def test_sums_over_members(width, dtype, tolerance):
    generator = torch.Generator(DEVICE).manual_seed(width)
    c = torch.randn(4000, generator=generator).to(dtype)
    c[-1] = 0.0
    for n_features in (2, 130):
        points = torch.randn(50, n_features, generator=generator).to(dtype)
        row = torch.randint(0, 50, (N_ROWS,), generator=generator, dtype=torch.int32)
        other = torch.randint(0, 50, (N_ROWS, width), generator=generator, dtype=torch.int32)
        place = torch.randint(0, 3999, (N_ROWS, width), generator=generator, dtype=torch.int32)
        place[2, width // 2 + 1 :] = 3999  # of no member
        expected, found = (m.half_laplacian(points, row, place, other, c) for m in (rows, fused_rows))
        assert close(found, expected, 10 * tolerance)
    assert close(fused_rows.add_up(c, place), rows.add_up(c, place), 10 * tolerance)


def test_the_kernels_are_chosen():
    for dtype, chosen in ((torch.float32, (fused_rows, fused_far)), (torch.float64, (fused_rows, far))):
        assert fused(DevicePoints(np.ones((2, 2)), DEVICE, dtype)) == chosen
    assert fused(DevicePoints(np.ones((2, 65)), DEVICE, torch.float32)) == (fused_rows, far)


def matrix(boosted):
    return (boosted.directions.T * boosted.step_sizes) @ boosted.directions


@pytest.mark.parametrize("loss", ["exponential", "logistic", "smooth-hinge"])
@pytest.mark.parametrize("n_impostors", [3, "all"])
def test_learning(n_impostors, loss, monkeypatch):
    monkeypatch.setattr(device_shards, "kernels", fused)
    X, y = labelled("iris")
    X = X.astype(np.float32)
    comparisons = Comparisons.from_labels(X, y, n_impostors=n_impostors)
    threads, device = (
        learn(X, comparisons, loss=loss, max_iter=3, **backend)
        for backend in ({}, {"backend": DeviceBackend(DEVICE, single=True)})
    )
    assert np.linalg.norm(matrix(device) - matrix(threads)) < 1e-5 * np.linalg.norm(matrix(threads))
    # Matrix units cut off where the interpreter rounds: on an H200 the logistic loss was 1.01e-6 from that of threads.
    bound = 1e-6 if DEVICE == "cpu" else 5e-6
    assert device.history[-1].loss == pytest.approx(threads.history[-1].loss, rel=bound)


@pytest.mark.parametrize("ratio", [1e-1, 1e-3, 1e-4])
def test_the_direction_of_pairs_that_are_short_beside_the_spread(ratio):
    """Sums of points cancel; what is left is of the size of differences."""
    rng = np.random.default_rng(0)
    points = np.repeat(rng.standard_normal((30, 2)), 4, axis=0)
    y = np.tile([0, 0, 1, 1], 30)
    points = (points + ratio * (rng.standard_normal(points.shape) + y[:, None])).astype(np.float32).astype(float)
    metric = np.eye(2), np.array([2.0, 1.0]) / ratio**2
    for n_impostors, kind, plain, kernels in (
        (1, DeviceListShard, rows, fused_rows),
        ("all", DeviceBlockShard, far, fused_far),
    ):
        comparisons = Comparisons.from_labels(points, y, 1, n_impostors)
        grams = []
        for dtype, module in ((torch.float64, plain), (torch.float32, kernels)):
            shard = kind(DevicePoints(points, DEVICE, dtype), comparisons, EXPONENTIAL, module)
            shard.rebuild(*metric)
            grams.append(shard.gram())
        assert np.abs(grams[1] - grams[0]).max() < 2e-3 * np.abs(grams[0]).max(), n_impostors
