import datetime as dt

import pytest

from api_types.kubernetes import times


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("5m0s", 300 * 10**9),
        ("5m", 300 * 10**9),
        ("1h30m", 5400 * 10**9),
        ("1.5h", 5400 * 10**9),
        (".5s", 5 * 10**8),
        ("-300ms", -3 * 10**8),
        ("2us3ns", 2003),
        ("1µs", 1000),  # micro sign
        ("1\u03bcs", 1000),  # Greek letter
        ("3us", 3000),
        ("0", 0),
        ("+1s", 10**9),
        ("90000ms", 90 * 10**9),
        ("1.s", 10**9),
        ("-9223372036854775808ns", -(2**63)),
    ],
)
def test_parses_a_go_duration_to_whole_nanoseconds(text, nanos):
    assert times.duration_nanos(text) == nanos


@pytest.mark.parametrize("text", ["", "5", "5 m", "m", "1d", "--1s", "1s ", "5m0", ".", ".s", "1e3s"])
def test_rejects_a_duration_that_go_rejects(text):
    with pytest.raises(ValueError, match="is not a duration"):
        times.duration_nanos(text)


@pytest.mark.parametrize("text", ["0s" * 33, "1" * 65])
def test_rejects_a_long_duration_unread_because_its_author_may_be_hostile(text):
    """A megabyte took half a minute where it was a duration, and hours where it was none."""
    with pytest.raises(ValueError, match=f"has {len(text)} characters, want a duration of at most 64"):
        times.duration_nanos(text)


def test_rejects_a_duration_beyond_64_bits():
    assert times.duration_nanos("2562047h47m16.854775807s") == 2**63 - 1
    with pytest.raises(ValueError, match="longer than a duration can be"):
        times.duration_nanos("2562047h47m16.854775808s")


@pytest.mark.parametrize(("seconds", "text"), [(300, "5m0s"), (5400, "1h30m0s"), (45, "45s"), (0, "0s")])
def test_formats_a_duration_as_go_does(seconds, text):
    assert times.format_duration(seconds) == text
    assert times.duration_seconds(text) == seconds


NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize("text", [None, "", "yesterday", "2026-11-21T12:00:00", "9999-12-31T23:59:59-23:00"])
def test_an_absent_or_malformed_or_zoneless_time_is_none(text):
    assert times.parse_rfc3339_or_none(text) is None


def test_parses_a_time_of_another_zone():
    assert times.parse_rfc3339_or_none("2026-11-21T13:00:00+01:00") == NOON
    assert times.parse_rfc3339("2026-11-21T13:00:00.25+01:00") == NOON + dt.timedelta(milliseconds=250)


def test_rejects_a_time_without_a_zone():
    with pytest.raises(ValueError, match="no time zone"):
        times.parse_rfc3339("2026-11-21T12:00:00")
    with pytest.raises(ValueError, match="no time zone"):
        times.epoch_seconds("2026-11-21T12:00:00")
    for format_time in (times.format_rfc3339, times.format_micro_time):
        with pytest.raises(ValueError, match="no time zone"):
            format_time(dt.datetime(2026, 11, 21))


def test_formats_a_time_in_whole_seconds_of_utc():
    east = dt.datetime(2026, 11, 21, 14, 0, 0, 999_999, dt.timezone(dt.timedelta(hours=2)))
    assert times.format_rfc3339(east) == "2026-11-21T12:00:00Z"
    assert times.format_epoch(1_700_000_000.999) == "2023-11-14T22:13:20Z"


def test_an_absent_epoch_is_none_not_zero():
    assert times.epoch_seconds_or_none(None) is None
    assert times.epoch_seconds_or_none("yesterday") is None
    assert times.epoch_seconds_or_none("2023-11-14T22:13:20") is None


@pytest.mark.parametrize(
    ("seconds", "count", "unit"),
    [
        (-1, 0, "s"),
        (119.9, 119, "s"),
        (120, 2, "m"),
        (7_199, 119, "m"),
        (7_200, 2, "h"),
        (172_799, 47, "h"),
        (172_800, 2, "d"),
    ],
)
def test_an_age_has_at_least_two_of_its_unit(seconds, count, unit):
    assert times.rounded_age(seconds) == (count, unit)
