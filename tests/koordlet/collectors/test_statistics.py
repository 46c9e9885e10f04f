"""Counts and times of sources."""

from __future__ import annotations

import dataclasses
import types

import pytest

from koordlet.collectors import statistics as module
from koordlet.collectors.statistics import CollectStatistics, SourceStatistics


@pytest.fixture
def statistics():
    return CollectStatistics()


@pytest.fixture
def clock(monkeypatch):
    clock = types.SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(module, "time", types.SimpleNamespace(perf_counter=lambda: clock.seconds))
    return clock


def test_the_time_of_each_read_is_counted_and_that_of_the_last_one_is_known(statistics, clock):
    for seconds in (0.5, 0.25):
        with statistics.timed("a source"):
            clock.seconds += seconds
    assert statistics.source("a source") == SourceStatistics(reads=2, last_seconds=0.25, total_seconds=0.75)


def test_a_read_that_fails_is_counted_with_its_time(statistics, clock):
    def read():
        with statistics.timed("a source"):
            clock.seconds += 0.5
            raise OSError("no")

    with pytest.raises(OSError, match="no"):
        read()
    assert statistics.source("a source") == SourceStatistics(reads=1, last_seconds=0.5, total_seconds=0.5)


def test_failures_are_counted_one_by_one_or_together(statistics):
    statistics.failed("a source")
    statistics.failed("a source", 3)
    statistics.failed("another source", 0)
    assert statistics.source("a source").failures == 4
    assert statistics.source("another source").failures == 0


def test_everything_begins_at_0_and_a_source_is_supported(statistics):
    assert dataclasses.asdict(statistics.source("a source")) == {
        "reads": 0,
        "failures": 0,
        "last_seconds": 0.0,
        "total_seconds": 0.0,
        "supported": True,
    }
    gauges = statistics.groups, statistics.pods_in_system, statistics.orphan_groups, statistics.open_files
    assert gauges == (0, 0, 0, 0)
