"""Threads that do pieces of a job: order, jobs within jobs, errors; and products with points, done in pieces."""

from threading import Barrier, Event, get_ident

import numpy as np
import pytest

from boostmetric.oracles import point_rows
from boostmetric.oracles.point_rows import as_points
from boostmetric.parallel.crew import Crew

FEW = 10.0  # seconds, after which a test fails rather than hangs


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_answers_come_in_the_order_of_the_pieces(n_threads):
    with Crew(n_threads) as crew:
        assert crew.each(lambda x: x * x, list(range(100))) == [x * x for x in range(100)]
        assert crew.each(str, []) == []


def test_all_threads_are_at_work_at_once():
    together = Barrier(3)

    def meet(_):
        together.wait(FEW)
        return get_ident()

    with Crew(3) as crew:
        threads = crew.each(meet, [1, 2, 3])
    assert len(set(threads)) == 3
    assert get_ident() in threads


def test_idle_threads_help_with_a_job_within_a_job():
    together = Barrier(2)

    def inner(_):
        together.wait(FEW)

    with Crew(2) as crew:  # the piece of the outer job is done by this thread alone
        crew.each(lambda _: crew.each(inner, [1, 2]), ["one"])


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_jobs_within_jobs_on_threads_that_are_all_busy(n_threads):
    with Crew(n_threads) as crew:
        answers = crew.each(lambda x: sum(crew.each(lambda y: x + y, list(range(20)))), list(range(20)))
    assert answers == [20 * x + 190 for x in range(20)]


@pytest.mark.parametrize("wrong", [0, 7])
def test_an_error_ends_the_job_and_not_the_crew(wrong):
    def fail(x):
        if x == wrong:
            raise ValueError(f"piece {x}")
        return x

    with Crew(2) as crew:
        with pytest.raises(ValueError, match=f"piece {wrong}"):
            crew.each(fail, list(range(8)))
        assert crew.each(abs, [-1, -2]) == [1, 2]


def test_after_an_error_of_this_thread_pieces_that_wait_are_left():
    begun, done, this = Event(), [], get_ident()

    def work(x):
        if get_ident() == this:
            begun.wait(FEW)
            raise KeyboardInterrupt
        done.append(x)
        begun.set()
        Event().wait(0.05)

    with Crew(2) as crew, pytest.raises(KeyboardInterrupt):
        crew.each(work, list(range(50)))
    assert len(done) < 10


@pytest.mark.parametrize("n_points", [2, 40, 41])
def test_products_in_pieces(n_points, monkeypatch):
    """The same bits on any number of threads, and the sum that is meant."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((n_points, 5))
    pairs = np.array([(i, j) for i in range(n_points) for j in range(i + 1, n_points) if (i + j) % 3])
    c = rng.standard_normal(len(pairs))
    starts = np.searchsorted(pairs[:, 0], np.arange(n_points + 1))
    difference = points[pairs[:, 0]] - points[pairs[:, 1]]
    monkeypatch.setattr(point_rows, "_PIECE_COST", 10.0)
    found = []
    for n_threads in (1, 2, 3):
        with Crew(n_threads) as crew:
            rows = as_points(points, crew)
            assert len(rows._pieces(starts)) >= min(n_points, 30)
            found.append(rows.gram(starts, pairs[:, 1].astype(np.uint32), c))
    np.testing.assert_allclose(found[0], (c * difference.T) @ difference, rtol=0, atol=1e-12)
    assert all(np.array_equal(found[0], other) for other in found)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_a_total_is_added_up_in_the_order_of_the_pieces(n_threads):
    parts = np.random.default_rng(0).standard_normal((100, 3)) * 10.0 ** np.arange(100)[:, None] / 1e50
    expected = parts[0].copy()
    for part in parts[1:]:
        expected += part
    with Crew(n_threads) as crew:
        assert np.array_equal(crew.total(lambda i: parts[i].copy(), range(100)), expected)
