"""Comparisons from click logs: propensities, weights, and what learning from a biased log does to a good distance."""

from functools import partial

import numpy as np
import pytest

from boostmetric import ComparisonBoostMetric, Comparisons
from boostmetric.comparisons import click_graph
from boostmetric.comparisons.click_evidence import evidence
from boostmetric.comparisons.clicks import _log
from boostmetric.comparisons.examination import PROPENSITIES, continuation
from boostmetric.solver.problem import Problem, satisfied
from test_builders import of_query, weighted


def flat(lists):
    """Rows (query, document, position, clicked, session) of lists (query, documents, clicks)."""
    rows = [
        (query, document, place + 1, click, session)
        for session, (query, documents, clicks) in enumerate(lists)
        for place, (document, click) in enumerate(zip(documents, clicks, strict=True))
    ]
    return [np.array(column) for column in zip(*rows, strict=True)]


def shuffled(rows, seed=0):
    order = np.random.default_rng(seed).permutation(len(rows[0]))
    return [column[order] for column in rows]


def propensities(rows, model):
    """Propensity of each row under a model, in the order of the rows."""
    order, log = _log(*rows)
    found = np.empty(len(order))
    found[order] = PROPENSITIES[model](log)
    return found


# --- weights ----------------------------------------------------------------------------------------------------------


def test_a_click_outweighs_all_else_in_its_list_by_the_inverse_of_its_propensity():
    lists = [(0, [4, 7, 5], [0, 1, 1]), (1, [5, 4], [1, 0]), (0, [7, 4], [0, 0]), (0, [5, 7, 4], [1, 0, 0])]
    by_place = np.array([1.0, 0.5, 0.1])
    rows = shuffled(flat(lists))
    chance = by_place[rows[2] - 1]
    found = Comparisons.from_clicks(
        *rows[:4],
        sessions=rows[4],
        propensities=chance,
        weights=np.where(rows[0] == 1, 3, 1),
        n_unseen=0,
        pooled=False,
    )
    expected = {}
    for query, documents, clicks in lists:
        for place, (near, click) in enumerate(zip(documents, clicks, strict=True)):
            if click:
                weight = (3 if query == 1 else 1) / by_place[place]
                pairs = [(near, far, weight) for far in documents if far != near]
                for key, value in of_query(query, pairs).items():
                    expected[key] = expected.get(key, 0.0) + value
    assert weighted(found) == pytest.approx(expected)
    # Lists of the same documents are merged: 5 and 7 of the first and the last, and 5 of query 1.
    assert (found.n_groups, sorted(found.weights)) == (3, [2.0, 3.0, 11.0])


def test_what_was_hardly_looked_at_counts_as_not_shown():
    rows = flat([(0, [4, 7, 5], [0, 1, 1]), (0, [7, 4, 5], [1, 0, 0])])
    by_list = partial(Comparisons.from_clicks, *rows[:4], sessions=rows[4], pooled=False)
    found = by_list(propensities=[1, 0.5, 0.05, 0.25, 0.2, 0.2], min_propensity=0.2, n_unseen=0)
    assert weighted(found) == pytest.approx(of_query(0, [(7, 4, 2 + 4), (7, 5, 4)]))
    # But it is not drawn as one of those that were never shown.
    chance = [1, 0.5, 0.05, 0.25, 0.2, 0.05]
    found = by_list(propensities=chance, corpus=range(4, 9), n_unseen=9)
    assert weighted(found) == pytest.approx(of_query(0, [(7, far, 6) for far in (4, 6, 8)]))


def test_documents_never_shown_for_a_query_are_drawn():
    rows = flat([(0, [4, 7], [0, 1]), (0, [8, 4], [1, 0]), (1, [5, 4], [1, 0])])
    found = Comparisons.from_clicks(*rows[:4], sessions=rows[4], corpus=np.arange(12), n_unseen=500, pooled=False)
    far = {query: set() for query in (0, 1)}
    for i, j, k, l in found.quadruplets():  # noqa: E741
        far[min(i, j)] |= {k, l}
    assert far == {0: {0, 1, 2, 3, 4, 5, 6, 9, 10, 11}, 1: {0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11}}
    some = [Comparisons.from_clicks(*rows[:4], sessions=rows[4], n_unseen=1, random_state=seed) for seed in (0, 0, 1)]
    assert np.array_equal(some[0].pairs, some[1].pairs)
    assert all(set(c.pairs[:, 1]) <= {1, 4, 5, 7, 8} for c in some)  # without a corpus, documents of the log


def test_popular_queries_are_limited():
    rows = flat([(0, [4, 7], [0, 1])] * 8 + [(1, [5, 4], [1, 0])])
    found = Comparisons.from_clicks(
        *rows[:4], sessions=rows[4], propensities=np.ones(len(rows[0])), max_per_query=2, n_unseen=0, pooled=False
    )
    assert dict(zip(found.anchors.tolist(), found.weights.tolist(), strict=True)) == {0: 2.0, 1: 1.0}


def test_comparisons_are_unbiased_for_the_relevance_behind_the_clicks():
    """With the right propensities, mean weights tend to those of the relevant documents, whatever the positions."""
    rng = np.random.default_rng(0)
    relevant, chance, n = np.array([0.9, 0.9, 0.1]), np.array([1.0, 0.5, 0.25]), 40_000
    shown = np.tile([1, 2, 3], (n, 1))
    clicked = rng.random((n, 3)) < (relevant * chance)
    rows = np.zeros(3 * n, dtype=int), shown.ravel(), np.tile([1, 2, 3], n), clicked.ravel()
    found = Comparisons.from_clicks(
        *rows, sessions=np.repeat(np.arange(n), 3), propensities=np.tile(chance, n), n_unseen=0, pooled=False
    )
    weight = {(near[1], far[1]): total / n for (near, far), total in weighted(found).items()}
    for near in (1, 2, 3):
        for far in {1, 2, 3} - {near}:
            assert weight[near, far] == pytest.approx(relevant[near - 1], abs=0.03)


# --- pooled clicks ----------------------------------------------------------------------------------------------------


def sides(comparisons, last_query=9):
    """Sets of documents that are near and far, by query; and sets of queries, by document."""
    of_queries, of_documents = {}, {}
    for i, j, k, l in comparisons.quadruplets():  # noqa: E741
        (anchor,) = {i, j} & {k, l}
        near, far = (of_queries if anchor <= last_query else of_documents).setdefault(anchor, (set(), set()))
        near.add(i + j - anchor)
        far.add(k + l - anchor)
    return of_queries, of_documents


def test_clicks_count_for_queries_that_were_clicked_on_the_same_document():
    lists = [(0, [10, 11], [1, 0]), (1, [10, 12, 13], [1, 1, 0]), (2, [14, 15], [1, 0])] * 4
    rows = flat(lists)
    chance = np.ones(len(rows[0]))
    found = Comparisons.from_clicks(*rows[:4], sessions=rows[4], propensities=chance, n_unseen=0)
    of_queries, of_documents = sides(found)
    assert of_queries == {
        0: ({10, 12}, {10, 11, 12, 13}),
        1: ({10, 12}, {10, 11, 12, 13}),
        2: ({14}, {15}),
    }
    assert of_documents == {10: ({0, 1}, {0, 1}), 12: ({0, 1}, {0, 1})}
    assert (found.weights == 1).all()


def test_documents_are_compared_with_queries_that_they_were_never_shown_for():
    rows = flat([(0, [10, 11], [1, 0]), (1, [12, 13], [1, 0]), (2, [14, 15], [0, 1])] * 4)
    found = Comparisons.from_clicks(*rows[:4], sessions=rows[4], propensities=np.ones(len(rows[0])), n_unseen=9)
    _, of_documents = sides(found)
    assert of_documents == {10: ({0}, {1, 2}), 12: ({1}, {0, 2}), 15: ({2}, {0, 1})}


@pytest.mark.parametrize("chances", [(0.9, 0.1), (0.5, 0.1), (0.2, 0.02)])
def test_chances_of_clicks_are_those_of_users_who_err(chances):
    rng = np.random.default_rng(0)
    relevant = rng.random((300, 10)) < 0.4
    lists, looked = [], []
    for query in np.repeat(np.arange(300), 30).tolist():
        place = np.arange(1, 11) ** -0.5
        looked.append(place)
        lists.append((query, 300 + np.arange(10), rng.random(10) < place * np.where(relevant[query], *chances)))
    _, log = _log(*flat(lists))
    found = evidence(log, np.concatenate(looked), np.ones(len(log.clicked)))
    assert found.chances == pytest.approx(chances, rel=0.1)
    assert np.mean((found.relevant > 0.5) == relevant.ravel()) > 0.88
    doubtful = (found.relevant > 0.3) & (found.relevant < 0.7)
    assert np.abs(found.evidence[doubtful]).max() < 1.5 < np.abs(found.evidence[~doubtful]).mean()


def test_a_click_speaks_for_a_result_even_where_all_are_clicked_alike():
    rng = np.random.default_rng(0)
    rows = flat([(query, [10, 11, 12], rng.random(3) < 0.5) for query in range(10) for _ in range(20)])
    _, log = _log(*rows)
    found = evidence(log, np.ones(len(log.clicked)), np.ones(len(log.clicked)))
    yes, no = found.chances
    assert yes >= 3 * no > 0
    assert np.isfinite(found.evidence).all()


def test_a_query_that_is_a_document_of_queries_alike_is_left_out():
    rows = flat([(0, [10, 11], [1, 0]), (1, [10, 0, 12], [1, 1, 0]), (2, [10, 0], [1, 0])])
    found = Comparisons.from_clicks(*rows[:4], propensities=np.ones(len(rows[0])), n_unseen=0)
    assert (found.pairs[:, 0] != found.pairs[:, 1]).all()
    assert set(found.anchors.tolist()) >= {0, 1, 2}


def test_pooling_is_a_step_on_the_click_graph(monkeypatch):
    """Near and far, literally; some queries at once give the same."""
    rng = np.random.default_rng(0)
    shown = [(query, 20 + 10 * (query % 4) + rng.permutation(12)[:5]) for query in rng.integers(20, size=150).tolist()]
    lists = [(query, documents, rng.random(5) < 0.4 * (documents % 3)) for query, documents in shown]
    rows = flat(lists)
    chance, weight = rng.uniform(0.2, 1.0, len(rows[0])), rng.uniform(0.5, 2.0, len(rows[0]))
    build = partial(
        Comparisons.from_clicks, *rows[:4], sessions=rows[4], propensities=chance, weights=weight, n_unseen=0
    )
    clicked, seen, shape = rows[3].astype(bool), np.zeros((20, 70), dtype=bool), (20, 70)
    seen[rows[0], rows[1]] = True
    mean = weight[clicked].sum() / (weight @ chance)
    yes, no, share = min(1.5 * mean, 0.9), 0.3 * mean, 0.4
    for _ in range(50):  # expectation maximisation: which results are relevant, and how often each kind is clicked
        row_odds = weight * np.where(clicked, np.log(yes / no), np.log((1 - yes * chance) / (1 - no * chance)))
        odds = np.zeros(shape)
        np.add.at(odds, (rows[0], rows[1]), row_odds)
        relevant = 1 / (1 + np.exp(-odds) * (1 - share) / share)
        share = relevant[seen].mean()
        is_relevant = relevant[rows[0], rows[1]]
        rates = []
        for so_far, is_so in ((yes, is_relevant), (no, 1 - is_relevant)):
            looked = np.where(clicked, 1.0, chance * (1 - so_far) / (1 - so_far * chance))
            rates.append(((weight * is_so)[clicked].sum() + 0.5) / ((weight * is_so) @ looked + 1))
        yes, no = rates[0], min(rates[1], rates[0] / 3)
    own = np.clip(odds, -4, 4)
    links = np.where(seen & (odds > 0) & (relevant >= 0.5), relevant, 0)
    to_document = links / np.maximum(links.sum(axis=1, keepdims=True), 1)
    step = to_document @ (links / np.maximum(links.sum(axis=0), 1)).T
    total = own + step @ own + step @ step @ own
    assert np.abs(total[seen] - 1).min() > 1e-3 < np.abs(total[seen] + 0.3).min()  # none is at the limits
    expected = both_sides(total >= 1, total <= -0.3)
    assert sides(build(), 19) == expected
    of_queries, _ = expected
    assert any(
        good - set(rows[1][rows[0] == query]) for query, (good, _) in of_queries.items()
    )  # shown for others only
    monkeypatch.setattr(click_graph, "_QUERIES_AT_ONCE", 7)
    assert sides(build(), 19) == expected


def both_sides(near, far):
    """Expected sides of queries (rows) and of documents (columns)."""
    found = []
    for good_of, bad_of in ((near, far), (near.T, far.T)):
        rows = {}
        for row in np.flatnonzero(good_of.any(axis=1)).tolist():
            good, bad = (set(np.flatnonzero(side[row]).tolist()) for side in (good_of, bad_of))
            if bad or len(good) > 1:
                rows[row] = good, bad | good if len(good) > 1 else bad
        found.append(rows)
    return tuple(found)


def test_a_popular_document_connects_no_more_than_can_be_listed():
    lists = [(query, [100, 101 + query], [1, 0]) for query in range(90)]
    lists.append((99, np.arange(300, 450), np.arange(150) % 3 == 0))
    rows = flat(lists)
    found = Comparisons.from_clicks(*rows[:4], sessions=rows[4], propensities=np.ones(len(rows[0])), n_unseen=0)
    of_queries, of_documents = sides(found, 99)
    near, far = of_documents[100]
    assert len(near) == 30
    near, far = of_queries[99]
    assert (len(near), len(far - near)) == (30, 60)


def test_popular_queries_are_limited_among_queries_alike():
    """Query 0 was asked a hundred times; with a limit, its rows count for less, as if by their weights."""
    rows = flat([(0, [10, 11], [1, 0])] * 100 + [(1, [10, 12], [1, 0]), (2, [10, 11], [1, 1])])
    chance = np.where(rows[2] == 1, 1.0, 0.2)
    build = partial(Comparisons.from_clicks, *rows[:4], sessions=rows[4], propensities=chance, n_unseen=0)
    limited = sides(build(max_per_query=2))
    assert limited == sides(build(weights=np.where(rows[0] == 0, 0.02, 1.0))) != sides(build())


# --- propensities -----------------------------------------------------------------------------------------------------


def test_positions_are_compared_by_documents_that_moved():
    rng = np.random.default_rng(0)
    chance, relevant = np.array([1.0, 0.5, 0.3, 0.2]), np.linspace(0.1, 0.9, 8)
    lists = []
    for query in range(4000):
        documents = rng.permutation(8)[:4]
        lists.append((100 + query % 20, documents, rng.random(4) < chance * relevant[documents]))
    rows = shuffled(flat(lists))
    found = propensities(rows, "position")
    assert [found[rows[2] == place][0] for place in (1, 2, 3, 4)] == pytest.approx(chance, rel=0.12)


def test_positions_of_a_fixed_ranking_get_the_mean_of_what_the_log_allows():
    rows = flat([(9, [1, 2, 3], [1, 1, 0])] * 40 + [(9, [1, 2, 3], [1, 0, 1])] * 10 + [(9, [1, 2, 3], [1, 0, 0])] * 50)
    rate = np.array([100.5, 40.5, 10.5]) / 101
    found = propensities(rows, "position")
    assert [found[rows[2] == place][0] for place in (1, 2, 3)] == pytest.approx(np.sqrt(rate / rate[0]))


def test_readers_who_leave_after_a_click():
    """Cascade: the chance that nothing above was clicked, literally."""
    lists = [(9, [1, 2, 3], [1, 0, 0]), (9, [2, 1, 3], [0, 1, 0]), (8, [1, 2, 3], [0, 0, 0])]
    rows = flat(lists)
    examined = [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    n_looks = sum(map(sum, examined))
    mean = 2.5 / (n_looks + 1)
    attraction = {}
    for query, document in {(query, document) for query, documents, _ in lists for document in documents}:
        looks = clicks = 0
        for (asked, documents, clicked), seen in zip(lists, examined, strict=True):
            if asked == query:
                place = documents.index(document)
                looks, clicks = looks + seen[place], clicks + clicked[place]
        attraction[query, document] = (clicks + mean) / (looks + 1)
    expected = []
    for query, documents, _ in lists:
        reached = 1.0
        for document in documents:
            expected.append(reached)
            reached *= 1 - attraction[query, document]
    assert propensities(rows, "cascade") == pytest.approx(expected)


def simulated_reading(stay, relevant, n, seed):
    rng = np.random.default_rng(seed)
    lists = []
    for session in range(n):
        documents = rng.permutation(len(relevant))[:4]
        clicks, there = [], True
        for place, document in enumerate(documents):
            clicks.append(bool(there and rng.random() < relevant[document]))
            there = there and not (clicks[-1] and rng.random() > stay[place])
        lists.append((100 + session % 5, documents, clicks))
    return lists


def test_readers_who_may_go_on():
    stay, relevant = np.array([0.8, 0.5, 0.3, 0.5]), np.linspace(0.3, 0.7, 6)
    lists = simulated_reading(stay, relevant, 8000, seed=0)
    rows = flat(lists)
    _, log = _log(*rows)
    assert continuation(log)[0][:3] == pytest.approx(stay[:3], abs=0.05)
    found = propensities(rows, "dependent")
    expected = []
    for _, documents, _ in lists:
        reached = 1.0
        for place, document in enumerate(documents):
            expected.append(reached)
            reached *= 1 - relevant[document] * (1 - stay[place])
    assert np.abs(found - expected).max() < 0.08


def test_readers_of_a_ranking_that_never_changes():
    """Each query has its own relevant documents, which are clicked whenever they are looked at."""
    rng = np.random.default_rng(0)
    relevant = rng.random((100, 10)) < 0.6
    lists = []
    for query in np.repeat(np.arange(100), 13).tolist():
        leaves = relevant[query] & (rng.random(10) > 0.6)
        lists.append((100 + query, np.arange(10), relevant[query] & (np.cumsum(leaves) - leaves == 0)))
    rows = flat(lists)
    expected = (0.6 ** (np.cumsum(relevant, axis=1) - relevant))[rows[0] - 100, rows[2] - 1]
    assert np.abs(propensities(rows, "dependent") - expected).mean() < 0.06


# --- learning ---------------------------------------------------------------------------------------------------------


def accuracy(metric, X, y):
    """3-NN accuracy of the second half, searched in the first."""
    from sklearn.neighbors import KNeighborsClassifier

    half = len(X) // 2
    mapped = X if metric is None else metric.transform(X)
    return KNeighborsClassifier(3).fit(mapped[:half], y[:half]).score(mapped[half:], y[half:])


@pytest.mark.parametrize("shuffle", [False, True])
def test_clicks_on_the_ranking_of_a_good_distance_do_not_destroy_it(shuffle):
    """1,500 documents in 20 classes, ranked by the distance; users look at position r with probability r ** -0.6."""
    rng = np.random.default_rng(0)
    y = np.arange(1500) % 20
    X = 1.4 * rng.standard_normal((20, 16))[y] + rng.standard_normal((1500, 16))
    lists = []
    for query in range(0, 1500, 5):
        ranked = np.argsort(np.square(X - X[query]).sum(axis=1))[1:11]
        for _ in range(4):
            shown = rng.permutation(ranked) if shuffle else ranked
            looked = rng.random(10) < np.arange(1.0, 11.0) ** -0.6
            lists.append((query, shown, looked & (y[shown] == y[query])))
    rows = flat(lists)
    other = np.setdiff1d(np.arange(1500), np.arange(0, 1500, 5))
    before = accuracy(None, X[other], y[other])
    clicks = Comparisons.from_clicks(*rows[:4], sessions=rows[4])
    learn = ComparisonBoostMetric(loss="logistic", init="identity", max_iter=40)
    assert accuracy(learn.fit(clicks, points=X), X[other], y[other]) > before - 0.005
    # The same log as clicked over skipped above contradicts the distance that made it.
    skipped = Comparisons.from_rankings(*lists_of(lists, 0, 1), clicks=lists_of(lists, 2)[0])
    if not shuffle:
        assert satisfied(Problem(X, skipped), np.eye(16)) == 0
        assert accuracy(learn.fit(skipped, points=X), X[other], y[other]) < before - 0.1


def lists_of(lists, *columns):
    return [[entry[column] for entry in lists] for column in columns]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clicked": [0, 0, 0]}, "Nothing was clicked"),
        ({"clicked": [0, 2, 0]}, "clicked must be True or False, or 1 or 0. Got 2"),
        ({"positions": [1, np.nan, 2]}, "positions must be finite numbers. Got nan"),
        ({"positions": [1, 2]}, "positions must hold one value for each of the 3 rows"),
        ({"documents": [4, 0, 5]}, "results of query 0 contain the query itself"),
        (
            {"positions": [1, 2, 2]},
            "Query 0 has position 2 twice in a list. If the query was asked several times, give",
        ),
        ({"documents": [4, 4, 5], "sessions": ["a"] * 3}, "Query 0 has document 4 twice in a list. Keep one"),
        ({"propensities": [1, 0, 1]}, r"propensities\[1\] is 0: the chance .* Give the chance, not its inverse"),
        ({"propensities": [1, 1, 1], "model": "cascade"}, "Both propensities and model='cascade'"),
        ({"model": "eyes"}, "model must be one of 'position', 'cascade', 'dependent'"),
        (
            {"clicked": [1, 1, 0], "model": "cascade"},
            '1 of 1 lists have more than one click.*Use the model "dependent"',
        ),
        ({"propensities": [1, 0.05, 1]}, "No click has a propensity of at least 0.1 and a positive weight"),
        ({"weights": [1, 0, 1]}, "or give clicks a positive weight"),
        ({"min_propensity": 0}, "min_propensity must be a finite number above 0 and at most 1"),
        ({"n_unseen": -1}, "n_unseen must be a whole number of at least 1, or 0"),
        ({"documents": [4], "queries": [0], "positions": [1], "clicked": [1]}, "No click can be compared"),
    ],
)
def test_refusals(changes, message):
    columns = {"queries": [0, 0, 0], "documents": [4, 7, 5], "positions": [1, 2, 3], "clicked": [0, 1, 0], **changes}
    with pytest.raises(ValueError, match=message):
        Comparisons.from_clicks(**columns)
