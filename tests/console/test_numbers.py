"""Amounts are short, what is not known is a dash, and the points of a column are below one another."""

import pytest

from console.pages import shown

GIB = 2**30


@pytest.mark.parametrize(
    ("millis", "text"),
    [(None, shown.UNKNOWN), (0, "0.00"), (54, "0.05"), (9994, "9.99"), (15500, "15.5"), (1_234_567, "1,235")],
)
def test_cores(millis, text):
    assert shown.cores(millis) == text


@pytest.mark.parametrize(
    ("count", "text"), [(None, shown.UNKNOWN), (0, "0.0"), (1.5 * GIB, "1.5"), (5000 * GIB, "5,000")]
)
def test_gib(count, text):
    assert shown.gib(count) == text


@pytest.mark.parametrize(
    ("millis", "wanted"),
    [
        ([3940, 10115, None], ["3.9", "10.1", shown.UNKNOWN]),
        ([267_000, 57_000, 0], ["267", "57", "0"]),
        ([54, 999], ["0.05", "1.00"]),
        ([-12_000, 1000], ["-12.0", "1.0"]),
        ([None, None], [shown.UNKNOWN, shown.UNKNOWN]),
        ([], []),
    ],
)
def test_a_column_has_as_many_digits_as_its_largest_amount(millis, wanted):
    assert shown.column(millis) == wanted


def test_a_column_keeps_the_digits_that_it_needs():
    assert shown.column([120_000, 50], least_digits=2) == ["120.00", "0.05"]
