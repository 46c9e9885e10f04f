from __future__ import annotations

import pytest

from scheduler_plugin.load_watcher import records, windows
from scheduler_plugin.load_watcher.records import Snapshot

NOW = 1_700_000_000


def stored(**ages: int) -> windows.Windows:
    """Windows with one snapshot each, ending that many seconds ago."""
    kept = windows.Windows(greatest_age_seconds=300)
    for name, age in ages.items():
        kept.store(Snapshot(NOW - age, records.window_ending_at(name.strip("_"), NOW - age)))
    return kept


@pytest.mark.parametrize(
    ("ages", "asked", "answered"),
    [
        ({"_15m": 10, "_10m": 10, "_5m": 10}, "15m", "15m"),
        ({"_10m": 10, "_5m": 10}, "15m", "10m"),
        ({"_5m": 10}, "15m", "5m"),
        ({"_5m": 10}, "10m", "5m"),
        ({"_15m": 10, "_5m": 10}, "5m", "5m"),
        ({"_15m": 301, "_10m": 400, "_5m": 300}, "15m", "5m"),
    ],
)
def test_b1_and_b2_a_shorter_window_answers_for_a_missing_or_old_one(
    ages: dict[str, int], asked: str, answered: str
) -> None:
    assert stored(**ages).latest(asked, NOW).window.duration == answered


def test_a_longer_window_never_answers_for_a_shorter_one() -> None:
    with pytest.raises(windows.NoMetrics, match="no provider has answered for 5m yet"):
        stored(_15m=10, _10m=10).latest("5m", NOW)


def test_b2_data_that_is_too_old_is_not_served_and_its_age_is_told() -> None:
    with pytest.raises(windows.NoMetrics, match=r"15m: 301 s old, 10m: 900 s old; at most 300 s"):
        stored(_15m=301, _10m=900).latest("15m", NOW)


def test_an_unknown_window_is_refused_with_those_that_are_kept() -> None:
    with pytest.raises(windows.NoMetrics, match="'1m' is not kept, wanted one of 15m, 10m, 5m"):
        stored(_15m=10).latest("1m", NOW)


def test_only_the_last_five_snapshots_of_a_window_are_kept() -> None:
    kept = windows.Windows(greatest_age_seconds=300)
    for timestamp in range(7):
        kept.store(Snapshot(timestamp, records.window_ending_at("10m", NOW + timestamp)))
    assert [snapshot.timestamp for snapshot in kept.kept("10m")] == [2, 3, 4, 5, 6]
