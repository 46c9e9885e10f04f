"""Conclusions of a soak from samples of resident memory."""

import pytest

from e2e.soak import memory
from e2e.soak.memory import Sample


def life(mebibytes, *, pid=1, since=0.0, seconds=1000.0, name="manager", leads=False):
    count = int(seconds // 10)
    return [Sample(name, pid, since + 10.0 * index, mebibytes(index / count), leads) for index in range(count + 1)]


def test_growth_is_counted_from_the_end_of_the_warm_up():
    (row,) = memory.rows(life(lambda share: 50.0 if share < 0.1 else 80.0))
    assert (row.first_mebibytes, row.last_mebibytes, row.growth) == (80.0, 80.0, 0.0)


def test_steady_growth_is_more_than_allowed():
    (row,) = memory.rows(life(lambda share: 60.0 + 30.0 * share))
    assert row.growth == pytest.approx(0.125, abs=0.02)
    assert row.growth > memory.MOST_GROWTH


def test_one_peak_is_reported_and_is_not_growth():
    (row,) = memory.rows(life(lambda share: 90.0 if share == 0.5 else 70.0))
    assert (row.growth, row.most_mebibytes) == (0.0, 90.0)


def test_the_longest_of_several_lives_counts():
    (row,) = memory.rows(
        life(lambda _: 70.0, seconds=400.0)
        + life(lambda share: 70.0 + 70.0 * share, pid=2, since=400.0, seconds=1200.0)
    )
    assert (row.processes, row.longest_life_seconds) == (2, 1200.0)
    assert row.growth > memory.MOST_GROWTH


def test_a_short_life_has_no_growth():
    (row,) = memory.rows(life(lambda share: 60.0 + 60.0 * share, seconds=200.0))
    assert row.growth is None


def test_parts_are_separate_and_sorted_by_name():
    rows = memory.rows(life(lambda _: 70.0) + life(lambda _: 60.0, pid=7, name="koordlet"))
    assert [row.name for row in rows] == ["koordlet", "manager"]


def test_a_life_that_nobody_ended_is_a_restart():
    samples = [
        *life(lambda _: 70.0),
        *life(lambda _: 70.0, pid=2, since=1000.0),
        *life(lambda _: 70.0, pid=3, since=2000.0),
        *life(lambda _: 60.0, pid=9, name="koordlet"),
    ]
    assert memory.restarts(samples, {"manager": 1}) == {"manager": 1}
    assert memory.restarts(samples, {"manager": 2}) == {}


def test_memory_that_a_new_leader_takes_is_no_growth_and_no_restart():
    samples = [*life(lambda _: 70.0), *life(lambda _: 90.0, since=1000.0, leads=True)]
    (row,) = memory.rows(samples)
    assert (row.processes, row.growth) == (1, 0.0)
    assert memory.restarts(samples, {}) == {}


def test_growth_of_a_leader_is_growth():
    (row,) = memory.rows(
        [*life(lambda _: 70.0), *life(lambda share: 80.0 + 30.0 * share, since=1000.0, seconds=1200.0, leads=True)]
    )
    assert row.growth > memory.MOST_GROWTH
