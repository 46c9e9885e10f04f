from __future__ import annotations

import pytest

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.records import Snapshot

NOW = 1_700_000_000


def stored(**ages: int) -> records.Windows:
    """Build windows with one snapshot each that ended so many seconds ago."""
    kept = records.Windows(greatest_age_seconds=300)
    for name, age in ages.items():
        kept.store(Snapshot(NOW - age, records.window_ending_at(name.strip("_"), NOW - age)))
    return kept


@pytest.mark.parametrize(
    ("ages", "requested", "served"),
    [
        ({"_15m": 10, "_10m": 10, "_5m": 10}, "15m", "15m"),
        ({"_10m": 10, "_5m": 10}, "15m", "10m"),
        ({"_5m": 10}, "15m", "5m"),
        ({"_5m": 10}, "10m", "5m"),
        ({"_15m": 10, "_5m": 10}, "5m", "5m"),
        ({"_15m": 301, "_10m": 400, "_5m": 300}, "15m", "5m"),
    ],
)
def test_b1_and_b2_serves_a_shorter_window_for_a_missing_or_old_one(
    ages: dict[str, int], requested: str, served: str
) -> None:
    assert stored(**ages).latest(requested, NOW).window.duration == served


def test_never_serves_a_longer_window_for_a_shorter_one() -> None:
    with pytest.raises(records.NoMetrics, match="no provider has answered for 5m yet"):
        stored(_15m=10, _10m=10).latest("5m", NOW)


def test_b2_rejects_old_data_with_its_age() -> None:
    with pytest.raises(records.NoMetrics, match=r"15m: 301 s old, 10m: 900 s old; at most 300 s"):
        stored(_15m=301, _10m=900).latest("15m", NOW)


def test_rejects_an_unknown_window_with_the_known_ones() -> None:
    with pytest.raises(records.NoMetrics, match="window is '1m', want one of 15m, 10m, 5m"):
        stored(_15m=10).latest("1m", NOW)


def test_keeps_the_last_five_snapshots_of_a_window() -> None:
    kept = records.Windows(greatest_age_seconds=300)
    for timestamp in range(7):
        kept.store(Snapshot(timestamp, records.window_ending_at("10m", NOW + timestamp)))
    assert [snapshot.timestamp for snapshot in kept.kept("10m")] == [2, 3, 4, 5, 6]
