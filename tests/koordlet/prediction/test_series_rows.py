import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.prediction.series_rows import SeriesRows
from koordlet.samples import NODE, SYSTEM, SeriesKey, SeriesKind

KEYS = [SeriesKey(SeriesKind.POD, str(number)) for number in range(6)]


def test_a_series_keeps_its_row():
    rows = SeriesRows()
    first = rows.take([NODE, SYSTEM]).tolist()
    assert sorted(first) == [0, 1]
    assert rows.take([SYSTEM, NODE]).tolist() == first[::-1]
    assert rows.of([NODE]).tolist() == first[:1]


def test_a_released_row_is_reused():
    rows = SeriesRows()
    rows.take(KEYS[:3])
    (released,) = rows.release([KEYS[1]])
    assert rows.take([KEYS[5]]).tolist() == [released]
    assert rows.needed == 3


def test_an_unknown_series_is_a_mistake_of_the_caller():
    with pytest.raises(KeyError):
        SeriesRows().of([NODE])
    with pytest.raises(KeyError):
        SeriesRows().release([NODE])


@given(st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from(KEYS)))))
def test_no_two_series_ever_share_a_row_and_rows_stay_few(steps):
    rows, present, most = SeriesRows(), set(), 0
    for is_coming, keys in steps:
        if is_coming:
            rows.take(sorted(keys))
            present |= keys
        else:
            rows.release(sorted(keys & present))
            present -= keys
        most = max(most, len(present))
        assert set(rows) == present
        assert rows.missing(KEYS) == [key for key in KEYS if key not in present]
        taken = rows.of(sorted(present)).tolist()
        assert len(set(taken)) == len(present) == len(rows)
        assert all(row < rows.needed <= most for row in taken)
