"""What a soak concludes from looks at resident memory."""

import pytest

from e2e.soak import memory
from e2e.soak.memory import Sample


def life(mebibytes, *, pid=1, since=0.0, seconds=1000.0, name="manager"):
    looks = int(seconds // 10)
    return [Sample(name, pid, since + 10.0 * look, mebibytes(look / looks)) for look in range(looks + 1)]


def test_growth_is_counted_from_when_a_process_is_warm():
    (row,) = memory.rows(life(lambda share: 50.0 if share < 0.1 else 80.0))
    assert (row.first_mebibytes, row.last_mebibytes, row.growth) == (80.0, 80.0, 0.0)


def test_memory_that_goes_on_growing_is_more_than_flat():
    (row,) = memory.rows(life(lambda share: 60.0 + 30.0 * share))
    assert row.growth == pytest.approx(0.327, abs=0.05)
    assert row.growth > memory.MOST_GROWTH


def test_one_peak_is_told_and_is_no_growth():
    (row,) = memory.rows(life(lambda share: 90.0 if share == 0.5 else 70.0))
    assert (row.growth, row.most_mebibytes) == (0.0, 90.0)


def test_the_longest_of_several_lives_counts():
    (row,) = memory.rows(
        life(lambda _: 70.0, seconds=400.0)
        + life(lambda share: 70.0 + 70.0 * share, pid=2, since=400.0, seconds=1200.0)
    )
    assert (row.lives, row.longest_life_seconds) == (2, 1200.0)
    assert row.growth > memory.MOST_GROWTH


def test_of_a_short_life_nothing_is_concluded():
    (row,) = memory.rows(life(lambda share: 60.0 + 60.0 * share, seconds=200.0))
    assert row.growth is None


def test_parts_are_told_apart_and_by_name():
    rows = memory.rows(life(lambda _: 70.0) + life(lambda _: 60.0, pid=7, name="koordlet"))
    assert [row.name for row in rows] == ["koordlet", "manager"]
