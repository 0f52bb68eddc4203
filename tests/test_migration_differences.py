"""The differences that docs/migration.md lists, learner by learner.

Numbers and matrices that are written out are those of metric-learn 0.7.0 with scikit-learn 1.4.2.
"""

import warnings

import numpy as np
import pytest
from benchmarks.same_interface import lmnn as lmnn_objective
from benchmarks.same_interface import nca as nca_objective
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

import boostmetric.metric_learn as metric_learn
from boostmetric import BoostMetric, Comparisons, baselines

X, Y = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
ROWS = np.array([RNG.permutation(150)[:2] for _ in range(100)])
KINDS = np.where(Y[ROWS[:, 0]] == Y[ROWS[:, 1]], 1, -1)
NEAR, FAR = ROWS[KINDS == 1], ROWS[KINDS == -1]
CHUNKS = np.where(np.arange(150) % 5 == 4, -1, Y)


def matrix(learner, *data, **options):
    return learner.fit(*data, **options).get_mahalanobis_matrix()


def squares(M, rows):
    differences = X[rows[:, 0]] - X[rows[:, 1]]
    return np.einsum("ij,jk,ik->i", differences, M, differences)


def test_sdml_is_theirs():
    theirs = [
        [1.4162039958, -0.0637998533, 0.3989562351, 0.3961694182],
        [-0.0637998533, 1.219071904, -0.1460070359, -0.1267148055],
        [0.3989562351, -0.1460070359, 1.5442753859, 0.4925569477],
        [0.3961694182, -0.1267148055, 0.4925569477, 1.5588258726],
    ]
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    sdml = metric_learn.SDML(balance_param=1e-3, sparsity_param=0.05)
    np.testing.assert_allclose(matrix(sdml, scaled[ROWS], KINDS), theirs, atol=1e-3)


def test_mmc_is_the_maximum_from_any_start():
    from_identity, from_covariance = (
        matrix(metric_learn.MMC(init=init), X[ROWS], KINDS) for init in ("identity", "covariance")
    )
    np.testing.assert_array_equal(from_identity, from_covariance)
    reached = np.sqrt(squares(from_identity, FAR)).sum() / np.sqrt(squares(from_identity, NEAR).sum())
    assert reached > 141.4093 > 141.3757  # theirs, from the identity and from the covariance
    for option in ({"max_proj": 1}, {"diagonal_c": 9.0}):
        np.testing.assert_array_equal(matrix(metric_learn.MMC(**option), X[ROWS], KINDS), from_identity)


def test_parameters_without_effect():
    triplets = X[metric_learn.Constraints(Y).generate_knntriplets(X, 2, 2)]
    scml = matrix(metric_learn.SCML(n_basis=40, random_state=0), triplets)
    for option in ({"gamma": 0.1}, {"output_iter": 3}, {"batch_size": 50}):
        np.testing.assert_array_equal(matrix(metric_learn.SCML(n_basis=40, random_state=0, **option), triplets), scml)
    lmnn = matrix(metric_learn.LMNN(), X, Y)
    for option in ({"learn_rate": 1e-3}, {"min_iter": 1}):
        np.testing.assert_array_equal(matrix(metric_learn.LMNN(**option), X, Y), lmnn)


def test_lmnn_ends_lower():
    wine = dict(zip(("X", "y"), load_wine(return_X_y=True), strict=True))
    assert lmnn_objective(metric_learn.LMNN().fit(*wine.values()).components_, wine) < 259 < 1044
    # On Iris theirs is within half a per cent.
    assert lmnn_objective(metric_learn.LMNN().fit(X, Y).components_, {"X": X, "y": Y}) == pytest.approx(
        226.838, rel=0.005
    )


def test_lmnn_finds_targets_under_its_start():
    narrow = np.diag([1e-3, 1.0, 1.0, 1.0])
    assert not np.allclose(matrix(metric_learn.LMNN(init=narrow), X, Y), matrix(metric_learn.LMNN(), X, Y), rtol=0.01)


def test_nca_takes_their_steps():
    wine = dict(zip(("X", "y"), load_wine(return_X_y=True), strict=True))
    nca = metric_learn.NCA(max_iter=200).fit(*wine.values())
    assert nca_objective(nca.components_, wine) == pytest.approx(-0.8202247071, abs=1e-6)


def test_lfda_has_the_affinities_of_the_paper():
    lfda = metric_learn.LFDA(k=2, embedding_type="plain").fit(X, Y)
    within = np.zeros((4, 4))
    for label in range(3):
        members = X[label == Y]
        distances = cdist(members, members)
        reach = np.sort(distances, axis=1)[:, 2]  # of the second nearest of each sample, not of one for all
        with np.errstate(invalid="ignore", divide="ignore"):
            affinity = np.exp(-(distances**2) / np.outer(reach, reach))
        affinity[np.outer(reach, reach) == 0] = distances[np.outer(reach, reach) == 0] == 0
        for a, row in zip(members, affinity, strict=True):
            within += (row[:, None] * (a - members)).T @ (a - members) / (2 * len(members))
    np.testing.assert_allclose(lfda.components_ @ within @ lfda.components_.T, np.eye(4), atol=1e-8)


def test_rca_of_few_dimensions_in_chunks():
    chunks = np.full(150, -1)
    chunks[:4] = [0, 0, 1, 1]  # theirs is NaN
    with pytest.warns(UserWarning, match="inner covariance matrix is not invertible"):
        few = metric_learn.RCA().fit(X, chunks)
    assert few.components_.shape == (4, 4)
    assert np.linalg.matrix_rank(few.components_) == 2


def test_rca_compares_directions_with_the_spread_of_all_samples():
    moved = X.copy()
    moved[CHUNKS < 0] *= 3
    ours = [matrix(metric_learn.RCA(n_components=2), points, CHUNKS) for points in (X, moved)]
    assert not np.allclose(*ours, rtol=0.05)  # theirs does not change
    whole = [matrix(metric_learn.RCA(), points, CHUNKS) for points in (X, moved)]
    np.testing.assert_allclose(*whole, rtol=1e-8)


@pytest.mark.parametrize(
    "learner",
    [metric_learn.LMNN(), metric_learn.NCA(n_components=3), metric_learn.MLKR(n_components=2, max_iter=30)],
    ids=lambda learner: type(learner).__name__,
)
def test_rows_are_orthogonal_longest_first(learner):
    rows = learner.fit(X, Y.astype(float) if isinstance(learner, metric_learn.MLKR) else Y).components_
    lengths = np.linalg.norm(rows, axis=1)
    assert (np.diff(lengths) <= 0).all()
    products = rows @ rows.T
    np.testing.assert_allclose(products, np.diag(np.diagonal(products)), atol=1e-8 * lengths[0] ** 2)


def test_constraints_draw_without_repetition():
    constraints = metric_learn.Constraints(np.repeat([0, 1], 4))
    a, b, c, d = constraints.positive_negative_pairs(12, random_state=0)
    for first, second in ((a, b), (c, d)):
        assert len({frozenset(pair) for pair in zip(first, second, strict=True)}) == 12  # theirs: 9 and 10
    partial = np.where(np.arange(150) % 2, Y, -1)
    i, j, k = metric_learn.Constraints(partial).generate_knntriplets(X, 2, 2).T
    assert max(i.max(), j.max(), k.max()) > 75  # theirs are numbers among the known
    assert (partial[np.concatenate([i, j, k])] >= 0).all()


@pytest.mark.parametrize(
    ("name", "old"),
    [
        ("LMNN", "k"),
        ("ITML_Supervised", "num_constraints"),
        ("ITML", "convergence_threshold"),
        ("RCA_Supervised", "num_chunks"),
    ],
)
def test_renamed_parameters_are_gone(name, old):
    with pytest.raises(TypeError, match=old):
        getattr(metric_learn, name)(**{old: 3})


def test_our_names_of_classes():
    rows = np.concatenate([NEAR[:20], FAR[:20]], axis=1)
    triplets = Comparisons.from_labels(X, Y, n_neighbors=2, n_impostors=3)
    same = [
        (baselines.Covariance().fit(X), metric_learn.Covariance().fit(X)),
        (baselines.RCA().fit(X, chunklets=CHUNKS), metric_learn.RCA().fit(X, CHUNKS)),
        (
            baselines.LSML(prior="identity", tol=1e-6).fit(X, comparisons=rows),
            metric_learn.LSML(tol=1e-6).fit(X[rows]),
        ),
        (
            baselines.ITML(prior="identity", bounds=np.sqrt([0.5, 4.0]), tol=1e-6).fit(X, similar=NEAR, dissimilar=FAR),
            metric_learn.ITML(tol=1e-3).fit(X[ROWS], KINDS, bounds=[0.5, 4.0]),
        ),
        (
            baselines.SDML(prior="identity", balance=1e-4 * len(ROWS), tol=1e-8).fit(X, similar=NEAR, dissimilar=FAR),
            metric_learn.SDML(balance_param=1e-4).fit(X[ROWS], KINDS),
        ),
        (
            baselines.LFDA(n_neighbors=3, lengths="plain").fit(X, Y),
            metric_learn.LFDA(k=3, embedding_type="plain").fit(X, Y),
        ),
        (baselines.LMNN(push=0.3).fit(X, Y), metric_learn.LMNN(regularization=0.7).fit(X, Y)),
    ]
    for ours, theirs in same:
        expected = theirs.get_mahalanobis_matrix()
        np.testing.assert_allclose(ours.get_mahalanobis_matrix(), expected, atol=2e-2 * np.abs(expected).max())
    assert triplets.n_comparisons == len(metric_learn.Constraints(Y).generate_knntriplets(X, 2, 3))
    np.testing.assert_array_equal(matrix(baselines.RCA(), X, Y), matrix(baselines.RCA(), X, Y))  # nothing is random
    for name, learner in {
        "n_comparisons": baselines.LSML,
        "n_pairs": baselines.ITML,
        "balance": baselines.SDML,
    }.items():
        assert name in learner().get_params()


def test_our_nca_warns_where_theirs_is_silent():
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        baselines.NCA(max_iter=3).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metric_learn.NCA(max_iter=3).fit(X, Y).n_iter_ == 3
    assert baselines.NCA().max_iter == 50
    assert metric_learn.NCA().max_iter == 100


def test_metrics_as_functions_and_maps():
    theirs = metric_learn.Covariance().fit(X).get_metric()
    assert theirs(X[0], X[60], squared=True) == pytest.approx(theirs(X[0], X[60]) ** 2)
    metric = baselines.Covariance().fit(X)
    assert metric.get_metric()(X[0], X[60]) == pytest.approx(theirs(X[0], X[60]))
    with pytest.raises(TypeError, match="squared"):
        metric.get_metric()(X[0], X[60], squared=True)
    assert list(metric.get_feature_names_out()) == [f"covariance{i}" for i in range(4)]
    few = baselines.Covariance().fit(X @ np.diag([1.0, 1, 1, 0]))
    assert few.transform(X).shape == (150, 3)


def test_thresholds_are_of_squared_distances():
    theirs = metric_learn.ITML().fit(X[ROWS], KINDS)
    ours = baselines.ITML(prior="identity").fit(X, similar=NEAR, dissimilar=FAR)
    for metric in (theirs, ours):
        metric.calibrate_threshold(X[ROWS], KINDS)
    assert np.mean(theirs.predict(X[ROWS]) == KINDS) == pytest.approx(np.mean(ours.predict(X[ROWS]) == KINDS), abs=0.05)
    distances = ours.pair_distance(X[ROWS])
    np.testing.assert_array_equal(ours.predict(X[ROWS]), np.where(distances**2 < ours.threshold_, 1, -1))
    np.testing.assert_allclose(ours.decision_function(X[ROWS]), ours.threshold_ - distances**2)
    ours.set_threshold(0.7)
    np.testing.assert_array_equal(ours.predict(X[ROWS]), np.where(distances < 0.7, 1, -1))


def test_ties_are_minus_one():
    tied = np.array([[0, 1, 0, 60], [0, 1, 0, 1]])
    rows = np.concatenate([NEAR[:20], FAR[:20]], axis=1)
    assert metric_learn.LSML(preprocessor=X).fit(rows).predict(tied).tolist() == [1, -1]  # theirs: [1, 0]
    assert baselines.LSML().fit(X, comparisons=rows).predict(X[tied]).tolist() == [1, -1]


def test_small_classes():
    points, labels = np.vstack([X, X[:2] + 0.1]), np.append(Y, [7, 7])
    with pytest.raises(ValueError, match="not enough class labels for specified k"):
        metric_learn.LMNN(n_neighbors=3).fit(points, labels)
    with pytest.warns(UserWarning, match="class 7 has 2"):
        baselines.LMNN(n_neighbors=3).fit(points, labels)


def test_unlabelled_samples_of_our_names():
    partial = np.where(np.arange(150) % 2, Y, -1)
    known = partial >= 0
    left_out = BoostMetric.paper(max_iter=20, unlabelled=True).fit(X, partial)
    assert np.allclose(matrix(BoostMetric.paper(max_iter=20), X[known], Y[known]), left_out.get_mahalanobis_matrix())
