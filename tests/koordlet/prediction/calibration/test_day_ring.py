"""The base of a forecast from a day of usage, by the formula at the head of the module."""

import numpy as np
import pytest

from koordlet.prediction.calibration.day_ring import LEAST_BASE, SLOT_SECONDS, SLOTS, DayRing

BEGIN = 1.7e9
ROWS = np.array([0, 1])


def ring_of(usage):
    """Return a ring with the usage of two rows in given slots, and the time of the last slot."""
    ring = DayRing()
    ring.ensure_rows(2)
    for slot, shares in sorted(usage.items()):
        for row, share in enumerate(shares):
            if share is not None:
                ring.record(BEGIN + SLOT_SECONDS * slot, np.array([row]), np.array([share]))
    return ring, BEGIN + SLOT_SECONDS * max(usage)


def base(ring, now, mean=(0.0, 0.0), stdev=(0.0, 0.0), oldest=BEGIN):
    return ring.base(ROWS, np.array(mean), np.array(stdev), oldest, now)


def test_the_base_is_the_mean_of_four_bounds():
    """0.5 a day ago, 0.25 in the last 6 hours, 0.125 in the last 3; in every other slot nothing is used."""
    usage = dict.fromkeys(range(SLOTS), (0.0, 0.0))
    usage |= {0: (0.25, 0.25), SLOTS - 72: (0.125, 0.125), SLOTS - 36: (0.125, 0.0), SLOTS - 1: (0.0, 0.0625)}
    ring, now = ring_of(usage)
    expected = (0.5 + 0.25 + (0.125 + 0.0625) + (0.0625 + 3 * 0.03125)) / 4
    assert base(ring, now, (0.03125, 0.03125), (0.015625, 0.015625)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("slots_back", "six_hours", "three_hours"), [(35, 1, 1), (36, 1, 0), (71, 1, 0), (72, 0, 0)])
def test_the_last_hours_are_those_of_36_and_of_72_slots(slots_back, six_hours, three_hours):
    usage = dict.fromkeys(range(SLOTS), (0.0, 0.0))
    usage[SLOTS - 1 - slots_back] = (0.5, 0.0)
    ring, now = ring_of(usage)
    assert base(ring, now) == 0.5 * (1 + six_hours + three_hours) / 4


def test_where_a_series_has_no_value_its_mean_and_one_deviation_count():
    """The second series has a value in the newest slot only: one slot back it is taken for 0.25 + 0.125."""
    ring, now = ring_of({0: (0.5, None), 1: (0.0, 0.0)})
    total = 0.5 + (0.25 + 0.125)
    assert base(ring, now, (0.0, 0.25), (0.0, 0.125)) == (2 * total + 0.5 + (0.25 + 3 * 0.125)) / 4


def test_slots_of_before_the_history_do_not_count():
    usage = {0: (0.5, 0.0), **dict.fromkeys(range(1, 100), (0.0, 0.0))}
    ring, now = ring_of(usage)
    assert base(ring, now) == 0.5 / 4
    assert base(ring, now, oldest=BEGIN + SLOT_SECONDS) == LEAST_BASE


def test_without_series_the_base_is_the_least_one():
    ring, now = ring_of({0: (0.5, 0.5)})
    assert ring.base(np.array([], int), np.array([]), np.array([]), BEGIN, now) == LEAST_BASE


def test_a_slot_holds_the_largest_usage_of_its_five_minutes_and_passed_ones_nothing():
    ring = DayRing()
    ring.ensure_rows(1)
    row = np.array([0])
    for seconds, share in ((0, 0.25), (299, 0.5), (299.9, 0.125), (300, 0.0625), (900, 0.75), (600, 0.875)):
        ring.record(BEGIN + seconds, row, np.array([share]))
    newest = ring.newest_first(row)[0]
    assert newest[[0, 2, 3]].tolist() == [0.875, 0.0625, 0.5]  # a clock that goes back stays in the newest slot
    assert np.isnan(newest[[1, *range(4, SLOTS)]]).all()


@pytest.mark.parametrize(("slots", "kept"), [(287, 1), (288, 0), (289, 0), (1000, 0)])
def test_after_a_pause_of_a_day_nothing_is_left(slots, kept):
    ring = DayRing()
    ring.ensure_rows(1)
    row = np.array([0])
    ring.record(BEGIN, row, np.array([0.5]))
    ring.record(BEGIN + slots * SLOT_SECONDS, row, np.array([0.25]))
    newest = ring.newest_first(row)[0]
    assert newest[0] == 0.25
    assert [value for value in newest[1:] if not np.isnan(value)] == [0.5] * kept


def test_new_rows_are_empty_and_older_ones_keep_their_usage():
    ring = DayRing()
    ring.ensure_rows(1)
    ring.record(BEGIN, np.array([0]), np.array([0.5]))
    ring.ensure_rows(200)
    assert len(ring.values) >= 200
    assert ring.newest_first(np.array([0]))[0][0] == 0.5
    assert np.isnan(ring.newest_first(np.arange(1, 200))).all()
