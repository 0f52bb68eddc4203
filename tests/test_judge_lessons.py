"""What is learned from few answers, what is said about it, and that it is safe."""

import json
from itertools import pairwise

import numpy as np
import pytest

from boostmetric.judge import MODES, AnswerFile
from boostmetric.judge.learning import Answers, choose, fitted, learn
from boostmetric.judge.lesson import Record, packed, teach, unpacked
from boostmetric.judge.measures import Measured, ceiling, consistency, difference, is_enough, share
from boostmetric.judge.modes import share_right
from boostmetric.judge.questions import COMMITTEE, HELD_OUT, RANDOM, REPEAT
from boostmetric.judge.worker import learn_again, started
from judged import IDS, POINTS, TRUTH, simulate

TRIPLET = MODES["triplet"]


N_FEATURES = 12


def world(seed, scale, n, n_test=400, noise=0.2):
    """Points, answers to learn from, and answers to test on, of a judge who sees features in another scale."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((60, N_FEATURES))
    shown = np.array([rng.permutation(60)[:3] for _ in range(n + n_test)])
    seen = (points * scale)[shown] + rng.normal(0.0, noise, (n + n_test, 3, N_FEATURES))
    favourite = TRIPLET.favourites(seen)
    chosen = [[int(row[1:][which][0])] for row, which in zip(shown, favourite, strict=True)]
    answers = Answers(TRIPLET, shown, chosen)
    return points, answers.take(slice(0, n)), answers.take(slice(n, None))


EVEN, FEW = np.ones(N_FEATURES), np.array([2.0, 1.0] + [0.0] * (N_FEATURES - 2))


def gains(scale, n, n_runs, learned=lambda *given: learn(*given).components):
    """Agreement of what was learned minus that of the base, in runs with different points and answers."""
    found = []
    for seed in range(n_runs):
        points, answers, test = world(seed, scale, n)
        found.append(float((test.right(points @ learned(answers, points).T) - test.right(points)).mean()))
    return np.array(found)


@pytest.mark.parametrize("n", [20, 60])
def test_never_worse_than_the_base_by_more_than_chance(n):
    """Where the base is the truth, nothing can be gained: what is lost is within two standard errors of nothing."""
    found = gains(EVEN, n, 10)
    assert found.mean() + 2 * found.std() / np.sqrt(10) >= 0
    assert found.mean() > -0.02
    always = gains(EVEN, n, 10, lambda answers, points: fitted(answers, points, 20))
    assert always.mean() + 2 * always.std() / np.sqrt(10) < 0  # without the choice, the same answers lose more, surely


def test_better_than_the_base_where_there_is_something_to_learn():
    found = gains(FEW, 60, 8)
    assert found.mean() > 0.08
    assert found.min() >= 0


def test_too_few_answers_keep_the_base():
    points, answers, _ = world(0, FEW, 9)
    assert choose(answers, points) == 0
    np.testing.assert_array_equal(learn(answers, points).components, np.eye(N_FEATURES))


@pytest.mark.parametrize("mode", MODES)
def test_shares_that_are_right(mode):
    """Literally: of the comparisons of an answer, those with the near object nearer."""
    rng = np.random.default_rng(0)
    shown = np.array([rng.permutation(24)[: MODES[mode].n_shown] for _ in range(40)])
    options = shown[:, 1:] if MODES[mode].has_head else shown
    chosen = [rng.choice(row, MODES[mode].n_chosen, replace=False).tolist() for row in options]
    found = Answers(MODES[mode], shown, chosen).right(POINTS)
    for row, some, value in zip(shown.tolist(), chosen, found, strict=True):
        rows = MODES[mode].comparisons(row, some)
        right = [np.linalg.norm(POINTS[a] - POINTS[n]) < np.linalg.norm(POINTS[a] - POINTS[f]) for a, n, f in rows]
        assert value == pytest.approx(np.mean(right))
    assert len(share_right([], POINTS)) == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_lesson_measures_on_what_was_held_out(tmp_path, mode):
    with AnswerFile(tmp_path / "a.judge", mode=mode, seed=0) as file:
        for part in range(2):
            simulate(file, 70, noise=0.2, seed=part, start=70 * part)
            learn_again(file, IDS, POINTS)
        record = Record(file, IDS)
        _, result, members = file.last_lesson()
        json.dumps(result, allow_nan=False)
        assert result["n_answers"] == 140
        assert result["n_held_out"] == 28
        assert result["n_learned"] + result["n_held_out"] <= 140  # repeated ones of those that are held out: neither
        # Never learned from: no question of the one is a question of the other.
        asked = [file.mode.same(one.question.shown) for one in record.judged]
        assert not {asked[i] for i in record.learned} & {asked[i] for i in record.held_out}
        assert {record.purposes[i] for i in record.learned} <= {RANDOM, COMMITTEE, REPEAT}
        assert {record.purposes[i] for i in record.held_out} == {HELD_OUT}
        # Measured again, literally.
        (components,) = unpacked(file.earlier_maps()[-1][1])
        for name, mapped in (("base", POINTS), ("learned", POINTS @ components.T)):
            right = [
                np.mean([np.linalg.norm(a - n) < np.linalg.norm(a - f) for a, n, f in mapped[rows]])
                for rows in (comparisons_of(record, i) for i in record.held_out)
            ]
            assert result[name]["mean"] == pytest.approx(np.mean(right))
        assert result["learned"]["mean"] > result["base"]["mean"] + 0.1
        assert [place["n"] for place in result["curve"]] == [n for n, _ in file.earlier_maps()]
        assert len(unpacked(members)) == 8
        assert result["halves"]["n"] >= 15
        assert result["consistency"]["n"] >= 5


def comparisons_of(record, number):
    answers = record.answers(np.array([number]))
    return np.array(record.mode.comparisons(answers.shown[0].tolist(), answers.chosen[0]))


def test_the_same_answers_give_the_same_lesson(tmp_path):
    with AnswerFile(tmp_path / "a.judge", mode="triplet", seed=0) as file:
        simulate(file, 50)
        lessons = [teach(Record(file, IDS), POINTS) for _ in range(2)]
    assert lessons[0].result == lessons[1].result
    np.testing.assert_array_equal(lessons[0].learned.components, lessons[1].learned.components)


def test_judges_apart_and_left_out(tmp_path):
    """One judge sees what another does not; left out, a careless one does no harm."""
    with AnswerFile(tmp_path / "a.judge", mode="triplet", seed=0) as file:
        simulate(file, 90, judge=file.judge("anna"), noise=0.1)
        simulate(file, 90, judge=file.judge("ben"), noise=50.0, seed=1)
        both = teach(Record(file, IDS), POINTS).result
        anna, ben = both["judges"]
        assert (anna["n"], ben["n"]) == (90, 90)
        assert anna["agreement"]["mean"] > ben["agreement"]["mean"]
        assert anna["consistency"]["n"] + ben["consistency"]["n"] == both["consistency"]["n"]
        file.leave_out(["ben"])
        alone = teach(Record(file, IDS), POINTS).result
        assert alone["n_answers"] == 90
        assert alone["judges"][1] == {**ben, "left_out": True, "n": 0, "seconds": None} | dict.fromkeys(
            ["agreement", "consistency", "ceiling"]
        )
        assert alone["learned"]["mean"] > both["learned"]["mean"] + 0.1


def test_objects_that_are_gone_do_not_count(tmp_path):
    with AnswerFile(tmp_path / "a.judge", mode="triplet", seed=0) as file:
        simulate(file, 40)
        record = Record(file, IDS[:-1])
        gone = [one for one in file.judged() if IDS[-1] in one.question.shown]
        assert gone
        assert record.n_unknown == len(gone)
        assert teach(record, POINTS[:-1]).result["n_answers"] == 40 - len(gone)


def test_no_answers_at_all(tmp_path):
    with AnswerFile(tmp_path / "a.judge", mode="choice", seed=0) as file:
        file.judge("anna")
        learn_again(file, IDS, POINTS)
        _, result, members = file.last_lesson()
        assert result["n_answers"] == 0
        assert result["learned"] is None
        assert unpacked(members) == []


def test_a_process_follows_the_answers(tmp_path):
    path = tmp_path / "a.judge"
    with AnswerFile(path, mode="triplet", seed=0) as file:
        process = started(path, IDS, POINTS)
        try:
            simulate(file, 30)
            for _ in range(600):
                lesson = file.last_lesson()
                if lesson is not None and lesson[1]["n_answers"] == 30:
                    break
                process.join(0.1)
                assert process.is_alive()
            assert lesson[1]["n_answers"] == 30
            assert lesson[1] == teach(Record(file, IDS), POINTS, stored(file)).result
        finally:
            process.terminate()
            process.join(10)
        assert process.exitcode is not None


def stored(file):
    return [(n, components) for n, map in file.earlier_maps() for components in unpacked(map)]


def test_curves_stay_short(tmp_path):
    with AnswerFile(tmp_path / "a.judge", mode="triplet", seed=0) as file:
        for n in range(10, 1000, 3):
            file.add_lesson(n, {}, packed([np.eye(2) * n]), b"")
        kept = [n for n, _ in file.earlier_maps()]
        assert len(kept) < 50
        assert kept[0] == 10
        assert kept[-1] == 997
        assert all(after <= 1.2 * before + 3 for before, after in pairwise(kept))
        assert [unpacked(map)[0][0, 0] for _, map in file.earlier_maps()] == kept


def test_intervals_cover():
    rng = np.random.default_rng(0)
    for n, p in ((15, 0.6), (60, 0.9)):
        draws = rng.random((2000, n)) < p
        inside = [found.low <= p <= found.high for found in map(share, draws.astype(float))]
        assert 0.92 < np.mean(inside) < 0.99
    for n in (12, 60):
        better = rng.choice([-1, 0, 1], size=(2000, n), p=[0.1, 0.7, 0.2])
        inside = [found.low <= 0.1 <= found.high for found in map(difference, better)]
        assert 0.93 < np.mean(inside) <= 1.0
    assert share([]) is None
    assert difference([]) is None


def test_the_ceiling_is_what_the_best_metric_reaches():
    """A judge who errs in a tenth of the answers repeats 82 % of them, and nothing agrees with more than 90 %."""
    rng = np.random.default_rng(0)
    errs = rng.random((2, 20_000)) < 0.1
    same = np.mean(errs[0] == errs[1])
    assert ceiling(same) == pytest.approx(np.mean(~errs[0]), abs=0.01)
    assert ceiling(0.3) == 0.5


@pytest.mark.parametrize("mode", MODES)
def test_consistency_compares_comparisons(mode):
    mode = MODES[mode]
    shown = list("habcdefgi")[: mode.n_shown]
    options = shown[1:] if mode.has_head else shown
    first = mode.comparisons(shown, options[: mode.n_chosen])
    other = mode.comparisons(shown, options[-mode.n_chosen :])
    assert consistency([(first, first)]).mean == 1.0
    assert consistency([(first, other)]).mean == 0.0
    assert consistency([(first, [])]) is None  # "cannot say" the second time
    assert consistency([(first, first), (first, other)]).mean == 0.5


def test_enough():
    assert is_enough(Measured(0.005, -0.03, 0.04, 80))
    assert not is_enough(Measured(0.005, -0.1, 0.1, 20))  # perhaps, but one cannot know
    assert not is_enough(Measured(0.03, 0.01, 0.05, 80))
    assert not is_enough(None)


def test_the_committee_switches_itself_off(tmp_path):
    """Where its questions teach less, it asks no more; where it is not known, it goes on."""
    with AnswerFile(tmp_path / "a.judge", mode="triplet", seed=0) as file:
        judge = file.judge("anna")
        rng = np.random.default_rng(0)
        for number in range(150):  # answers to the committee's questions are the opposite of the truth
            purpose = [HELD_OUT, RANDOM, COMMITTEE][number % 3]
            shown = tuple(IDS[rng.permutation(24)[:3]])
            question = file.ask(judge, purpose, shown)
            rows = [IDS.tolist().index(name) for name in shown]
            near = 1 + int(TRIPLET.favourites(TRUTH[[rows]])[0].argmax())
            chosen = shown[near if purpose != COMMITTEE else 3 - near]
            file.answer(judge, question.number, [chosen], key=str(number), seconds=1)
        halves = teach(Record(file, IDS), POINTS).result["halves"]
        assert halves["difference"]["high"] < 0
        assert halves["on"] is False
