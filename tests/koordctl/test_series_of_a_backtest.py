"""Series of `koordctl backtest`: short gaps, and pods of a trace that follow one another on a machine."""

import itertools
import random

import numpy as np
import pytest

from koordctl.backtest import gaps, placement

NAN = np.nan


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, [NAN, 1, NAN, NAN, 2, 2, 3, NAN, NAN, NAN, 4, NAN]),
        (2, [NAN, 1, 1, 1, 2, 2, 3, NAN, NAN, NAN, 4, NAN]),
        (3, [NAN, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4, NAN]),
    ],
)
def test_a_short_gap_has_the_value_before_it_and_an_end_is_no_gap(most, expected):
    given = np.array([[NAN, 1, NAN, NAN, 2, NAN, 3, NAN, NAN, NAN, 4, NAN], [NAN] * 12])
    found = gaps.without_short_gaps(given, most)
    np.testing.assert_array_equal(found, [expected, [NAN] * 12])


def placed(known, slots, mean_life, seed=3):
    return placement.place(np.array(known, bool), slots, mean_life, random.Random(seed))


def test_a_series_that_leaves_does_not_come_back_at_once():
    pods = placed(np.ones((2, 300)), 1, 10.0)
    assert all(one.series != other.series and one.end == other.start for one, other in itertools.pairwise(pods))


def test_a_slot_without_a_series_stays_empty_until_one_has_values():
    known = np.zeros((2, 100), bool)
    known[1, 40:] = True
    pods = placed(known, 1, 1_000.0)
    assert [pod.series for pod in pods] == [1]
    assert 40 <= pods[0].start < 60
