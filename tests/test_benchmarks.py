"""Benchmarks on small made-up sets: what they read, leave out and count."""

import json
import sys

import joblib
import numpy as np
import pytest
from benchmarks import __main__ as command
from benchmarks import adapters, clicks, embeddings, growth, judge, pydml
from sklearn.datasets import load_iris

from boostmetric.paper.datasets import MissingDataError
from boostmetric.paper.protocol import TrainTestSplit
from conftest import import_torch


@pytest.fixture
def intents(tmp_path):
    """A file like that of CLINC150: two classes and requests out of scope, with a split into three."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.standard_normal((90, 4)).astype(np.float16)
    labels = np.array(["balance", "weather", "oos"])
    np.savez(tmp_path / "clinc150_minilm.npz", X=X, y=y.astype(np.int16), labels=labels, split=np.repeat([0, 1, 2], 30))
    return tmp_path, X, y


def test_a_set_with_a_split_keeps_it_and_drops_what_is_out_of_scope(intents):
    folder, X, y = intents
    split = adapters.load("CLINC150", folder)
    train, test = (np.flatnonzero(y[part] != 2) + part.start for part in (slice(0, 30), slice(60, 90)))
    assert np.array_equal(split.X_train, X[train])
    assert np.array_equal(split.X_test, X[test])
    assert np.array_equal(split.y_train, y[train])
    assert np.array_equal(split.y_test, y[test])
    assert split.X_train.dtype == np.float32


def test_other_sets_are_split_by_class():
    split = adapters.load("Digits")
    assert (split.X_train.shape, split.X_test.shape) == ((1257, 64), (540, 64))
    assert np.ptp(np.bincount(split.y_test)) <= 3


def test_errors_of_votes_and_of_the_ten_nearest():
    X_train = np.arange(12, dtype=np.float32)[:, None]
    y_train = np.array([1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    split = TrainTestSplit(X_train, y_train, np.array([[-1.0]], dtype=np.float32), np.array([1]))
    found = adapters.errors(split, lambda points: points)
    assert found == {"1-NN": 0, "3-NN": 100, "5-NN": 0, "mean": pytest.approx(100 / 3), "others among 10": 20}


def test_fits_are_measured_by_searches_and_products():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 60)
    X = (rng.standard_normal((3, 40))[y] + rng.standard_normal((180, 40))).astype(np.float32)
    plain, recommended = embeddings.fits("made up", TrainTestSplit(X[::2], y[::2], X[1::2], y[1::2]), max_iter=2)
    assert (plain["fit"], recommended["fit"]) == ("plain", "recommended")
    assert plain["over the search"] == plain["CPU, s"] / plain["search, CPU, s"] > 0
    assert 0 <= recommended["mean"] < 30
    row = embeddings.all_impostors("made up", X, y)
    assert row["over the products"] == row["an iteration, CPU, s"] / row["two products, CPU, s"] > 0


def test_sets_without_a_file_are_left_out(tmp_path, monkeypatch, capsys):
    assert adapters.run(tmp_path, sets=["HWU64"], methods=["Euclidean"]) == []
    path = tmp_path / "hwu64_minilm.npz"
    assert capsys.readouterr().out == (
        f"HWU64 left out. It is read from hwu64_minilm.npz, but there is no file {path}. Name the folder by --data-dir "
        "or in BOOSTMETRIC_DATA.\n"
    )
    monkeypatch.delenv("BOOSTMETRIC_DATA", raising=False)
    with pytest.raises(MissingDataError, match="but no data folder was given"):
        adapters.load("HWU64")


def test_methods_without_their_package_are_left_out(intents, monkeypatch, capsys):
    monkeypatch.setattr(adapters, "find_spec", lambda name: None)
    rows = adapters.run(intents[0], sets=["CLINC150"], methods=["cosine", "torch NCA", "LDA"])
    assert [(row["set"], row["method"]) for row in rows] == [("CLINC150", "cosine"), ("CLINC150", "LDA")]
    assert "torch NCA left out: torch is not installed.\n" in capsys.readouterr().out


@pytest.mark.torch
@pytest.mark.parametrize("loss", ["NCA", "SupCon", "triplets", "proxies"])
def test_maps_of_torch_find_the_features_that_matter(loss, monkeypatch):
    import_torch()
    from benchmarks import torch_adapters

    monkeypatch.setattr(torch_adapters, "BATCH_SIZES", (32,))  # 225 points to learn from
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    X = np.hstack([np.eye(4)[y] + 0.2 * rng.standard_normal((400, 4)), rng.standard_normal((400, 8))])
    split = adapters.of_parts(X[:300], X[300:], y[:300], y[300:])
    before = adapters.errors(split, lambda points: points)["mean"]
    after = adapters.errors(split, torch_adapters.fit(loss, split.X_train, split.y_train))["mean"]
    assert after < before / 2


@pytest.mark.torch
def test_losses_of_torch_are_their_formulas():
    torch = import_torch()
    from benchmarks import torch_adapters

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((9, 3)), np.array([0, 0, 0, 1, 1, 1, 2, 2, 3])  # 3: nobody else in its class
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    nca, supcon, triplets = [], [], []
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        same = others & (y == y[i])
        distances = np.linalg.norm(x - x[i], axis=1)
        p = np.exp(-(distances**2)) * others
        nca.append(-np.log(p[same].sum() / p.sum() + 1e-9))
        q = np.exp(unit @ unit[i] / 0.07) * others
        supcon.append(-np.log(q[same] / q.sum()).mean() if same.any() else 0.0)
        if same.any():
            triplets.append(np.log1p(np.exp(distances[same].max() - distances[y != y[i]].min())))
    for name, expected in {"NCA": nca, "SupCon": supcon, "triplets": triplets}.items():
        loss = torch_adapters.LOSSES[name](4, 3)(torch.as_tensor(x), torch.as_tensor(y))
        assert loss.item() == pytest.approx(np.mean(expected), rel=1e-6)
    proxies = torch_adapters.LOSSES["proxies"](4, 3).double()
    centres = proxies.proxies.detach().numpy()
    scores = np.exp(16 * unit @ (centres / np.linalg.norm(centres, axis=1, keepdims=True)).T)
    expected = -np.log(scores[np.arange(9), y] / scores.sum(axis=1)).mean()
    assert proxies(torch.as_tensor(x), torch.as_tensor(y)).item() == pytest.approx(expected, rel=1e-6)


@pytest.fixture
def tables(tmp_path):
    """Two tables with ten folds, and printed accuracies of twelve learners, one of them missing."""
    folder = tmp_path / "pydml34"
    folder.mkdir()
    X, y = load_iris(return_X_y=True)
    for name, scale in (("iris", 1.0), ("wide", 1000.0)):
        np.savez(folder / f"{name}.npz", X=X * [scale, 1, 1, 1], y=y, fold=np.arange(150) % 10)
    lines = [
        ",Euclidean," + ",".join("abcdefghijk"),
        "iris,0.9,1.0,," + ",".join(9 * ["0.5"]),
        "wide,0.99" + 11 * ",0.99",
        "AVG SCORE" + 12 * ",0.9",
    ]
    (folder / "printed-3nn.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_printed_accuracies_are_read_and_ranked(tables):
    printed = pydml.read_printed(pydml.find(tables))
    assert list(printed) == ["iris", "wide"]
    assert printed["iris"].tolist() == [0.9, 1.0, -1.0, *9 * [0.5]]
    assert pydml.compare({"iris": 0.897, "wide": 0.984}, printed) == {
        "average rank of 13": (3 + 13) / 2,
        "mean accuracy": pytest.approx((0.897 + 0.984) / 2),
        "sets below Euclidean": 1,
        "which": "wide",
    }
    assert pydml.compare({"wide": 0.99}, printed)["average rank of 13"] == 7


def test_features_are_scaled_and_folds_averaged(tables):
    with joblib.parallel_config(backend="threading"):
        *ours, iris, wide = pydml.run(tables, learners=["Euclidean", "plain"])
    assert [row["learner"] for row in ours] == ["Euclidean", "plain"]
    assert (iris["set"], wide["set"]) == ("iris", "wide")
    assert iris["Euclidean"] == wide["Euclidean"] == pytest.approx(0.95, abs=0.02)
    assert ours[1]["mean accuracy"] == pytest.approx((iris["plain"] + wide["plain"]) / 2)
    with joblib.parallel_config(backend="threading"):
        _, row = pydml.run(tables, sets=["wide"], learners=["Euclidean"], folds=[3])
    assert row["Euclidean"] == pydml.score(tables / "pydml34" / "wide.npz", "Euclidean", 3)[0]


def test_without_tables_the_command_keeps_earlier_results(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "pydml", "--data-dir", str(tmp_path)])
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    command.main()
    assert "Left out. The tables are read from the folder pydml34, but there is no" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_tables_and_keeps_rows(tables, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "pydml", "--data-dir", str(tables)])
    monkeypatch.setattr(command, "RESULTS", tables)
    monkeypatch.setitem(command.BENCHMARKS, "pydml", lambda data_dir: pydml.run(data_dir, learners=["Euclidean"]))
    with joblib.parallel_config(backend="threading"):
        command.main()
    rows = json.loads((tables / "pydml.json").read_text())["rows"]
    assert [row.get("learner", row.get("set")) for row in rows] == ["Euclidean", "iris", "wide"]
    assert "average rank of 13" in capsys.readouterr().out


def test_simulated_users_read_as_their_model_says():
    n = 20_000
    attracts = np.tile([True, False, True, True], (n, 1))
    by_users = {name: users(attracts, np.random.default_rng(0)) for name, users in clicks.USERS.items()}
    rates = {name: clicked.mean(axis=0) for name, clicked in by_users.items()}
    assert rates["position"] == pytest.approx([1, 0, 3**-0.6, 4**-0.6], abs=0.02)
    assert rates["cascade"].tolist() == [1, 0, 0, 0]
    assert rates["dependent"] == pytest.approx([1, 0, 0.6, 0.36], abs=0.02)


def test_clicks_are_set_beside_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(clicks, "_SESSIONS", 300)
    monkeypatch.setattr(clicks, "_MOST_ITERATIONS", 10)
    rng = np.random.default_rng(0)
    y = np.arange(360) % 12
    X = np.hstack(
        [rng.standard_normal((12, 4))[y] + 0.4 * rng.standard_normal((360, 4)), rng.standard_normal((360, 6))]
    )
    split = (rng.random(360) < 0.3).astype(np.int8)
    np.savez(tmp_path / "hwu64_minilm.npz", X=X, y=y, labels=np.array(list("abcdefghijkl")), split=split)
    rows = clicks.run(tmp_path, sets=["HWU64", "CLINC150"], users=["dependent"], noise=[0.1], logs=["shuffled"])
    assert [row["taught by"] for row in rows] == ["labels", "positives", "dependent"]
    assert all(row["base"] == rows[0]["base"] for row in rows)
    assert rows[0]["labels"] > rows[0]["base"] + 0.05
    assert rows[2]["share of labels' gain"] == pytest.approx(
        (rows[2]["learned"] - rows[2]["base"]) / (rows[0]["learned"] - rows[0]["base"])
    )


def test_rules_of_what_to_ask_do_not_see_answers(monkeypatch):
    """Questions come with their two options in random order, and each is asked once."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((30, 3))
    rows = np.array([rng.permutation(30)[:3] for _ in range(400)])
    far = abs(points[rows[:, 0], 0] - points[rows[:, 1], 0]) > abs(points[rows[:, 0], 0] - points[rows[:, 2], 0])
    rows[far] = rows[far][:, [0, 2, 1]]
    seen, first = [], []

    def watching(sight):
        seen.append(sight.known.tolist())
        answered = {tuple(row) for row in rows.tolist()}
        first.extend(tuple(row) in answered for row in sight.pool.tolist())
        return np.arange(len(sight.pool))

    monkeypatch.setattr(judge, "_N_ANSWERS", (20, 60))
    monkeypatch.setattr(judge, "RULES", {"random": watching, "half": judge.RULES["half"]})
    found = judge.replay(judge.Judged("made up", points, rows[:300], rows[300:]), 0)
    assert 0.4 < np.mean(first) < 0.6
    assert [len(known) for known in seen] == [20, 40]
    assert len({tuple(row) for row in seen[1]}) == 40
    assert found["random"][20] == found["half"][20]  # all begin with the same answers
    assert {name: sorted(agreement) for name, agreement in found.items()} == {"random": [20, 60], "half": [20, 60]}
    with pytest.raises(MissingDataError):
        judge.run(None)


def test_growth_is_followed_until_a_fit_takes_too_long(tmp_path, monkeypatch, capsys):
    def fitted(learner, device, n_points, n_features):
        seconds = 1e-8 * n_points**2 * n_features
        known = {"clock, s": 2 * seconds, "CPU, s": seconds, "memory over points": 4.0, "3-NN error %": 10.0}
        return known if seconds < 1000 else dict.fromkeys(known, growth._OVER)

    monkeypatch.setattr(growth, "_fitted", fitted)
    monkeypatch.setattr(growth, "_LEARNERS", ("plain",))
    monkeypatch.setattr(growth, "_RESULTS", tmp_path)
    monkeypatch.setattr(growth, "_FIGURE", tmp_path / "growth.png")
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    for device in ("cpu", "cuda"):  # the second is drawn with the first
        monkeypatch.setattr(sys, "argv", ["benchmarks", "growth", "--device", device])
        command.main()
        found = json.loads((tmp_path / f"growth_{device}.json").read_text())["rows"]
        assert [row["points"] for row in found if row.get("grows") == "points" and "points" in row][-1] == 30_000
        assert [row["power of CPU, s"] for row in found if "fits" in row] == pytest.approx([2.0, 1.0])
    assert (tmp_path / "growth.png").stat().st_size > 10_000
    assert "30000" in capsys.readouterr().out


def test_a_fit_of_the_growth_benchmark_is_measured():
    found = growth.fit_one("plain", "cpu", 800, 6)
    assert 0 < found["CPU, s"] < growth._TIME_LIMIT
    assert found["3-NN error %"] < 90
