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
        ("1µs", 1000),
        ("0", 0),
        ("+1s", 10**9),
    ],
)
def test_a_go_duration_is_whole_nanoseconds(text, nanos):
    assert times.duration_nanos(text) == nanos


@pytest.mark.parametrize("text", ["", "5", "5 m", "m", "1d", "--1s", "1s ", "5m0"])
def test_what_go_refuses_as_a_duration_is_refused(text):
    with pytest.raises(ValueError, match="is not a duration"):
        times.duration_nanos(text)


def test_a_duration_is_at_most_what_go_can_hold():
    assert times.duration_nanos("2562047h47m16.854775807s") == 2**63 - 1
    with pytest.raises(ValueError, match="longer than a duration can be"):
        times.duration_nanos("2562047h47m16.854775808s")


def test_a_moment_without_a_zone_is_no_moment():
    assert times.moment_or_none("2023-11-14T22:13:20") is None


def test_an_absent_moment_is_none_not_zero():
    assert times.moment_or_none(None) is None
    assert times.moment_or_none("yesterday") is None


def test_a_moment_is_seconds_since_the_epoch():
    assert times.moment_or_none("2023-11-14T22:13:20Z") == 1_700_000_000
    assert times.moment_or_none("2023-11-15T00:13:20+02:00") == 1_700_000_000
