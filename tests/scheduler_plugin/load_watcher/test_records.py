from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.records import Data, Metric, NodeMetrics, Snapshot, Window

WIRE = {
    "timestamp": 1556987522,
    "window": {"duration": "15m", "start": 1556984522, "end": 1556985422},
    "source": "NodeMetric",
    "data": {
        "NodeMetricsMap": {
            "node-1": {
                "metrics": [{"name": "", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 12.5}],
                "tags": {},
                "metadata": {"dataCenter": "", "pool": ""},
            }
        }
    },
}


SNAPSHOT = Snapshot(
    1556987522,
    Window("15m", 1556984522, 1556985422),
    "NodeMetric",
    Data({"node-1": NodeMetrics([Metric(type="CPU", operator="AVG", rollup="15m", value=12.5)])}),
)


def test_encodes_every_key_of_upstream_also_empty_ones() -> None:
    assert json.loads(records.encode(SNAPSHOT)) == WIRE


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_b3_encode_rejects_nan_and_infinite_values(value: float) -> None:
    broken = Snapshot(data=Data({"bad": NodeMetrics([Metric(type="CPU", operator="AVG", value=value)])}))
    with pytest.raises(ValueError, match="node bad: CPU AVG is"):
        records.encode(broken)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"timestamp": None, "window": None, "source": None, "data": None},
        {"data": {"NodeMetricsMap": None}},
        {"data": {"node-1": {"metrics": [{"type": "CPU", "value": 20}]}}},
        {"tomorrow": 1, "data": {"NodeMetricsMap": {}, "other": 2}},
    ],
)
def test_decodes_documents_that_upstreams_client_accepts_as_empty(document: object) -> None:
    assert records.decode(json.dumps(document).encode()).data.nodes == {}


@given(st.floats(min_value=0.0, max_value=105.0) | st.sampled_from([4.4e-16, 1e-5, 9.99e-6, 1e-300]))
def test_encodes_no_exponents(value: float) -> None:
    window = records.window_ending_at("15m", 1000)
    node = NodeMetrics([Metric(type="CPU", operator="STD", value=value)])
    body = records.encode(Snapshot(1000, window, "test", Data({"n": node})))
    written = re.search(rb'"value":([^}]*)}', body)
    assert written
    assert re.fullmatch(rb"\d+\.\d+", written[1])
    assert float(written[1]) == pytest.approx(value, abs=1e-5)


def test_a_snapshot_has_the_window_of_its_newest_node_and_the_others_keep_their_own() -> None:
    requested = records.window_ending_at("15m", 1000)
    old, new = records.window_ending_at("15m", 900), records.window_ending_at("15m", 950)
    nodes = {"old": NodeMetrics(window=old), "new": NodeMetrics(window=new)}
    snapshot = records.joined(records.dated(nodes, requested), requested, "NodeMetric")
    assert snapshot.window == new
    assert snapshot.data.nodes == {"old": NodeMetrics(window=old), "new": NodeMetrics()}
    assert records.decode(records.encode(snapshot)) == snapshot
    assert b'"new":{"metrics":[],"tags":{},"metadata":{"dataCenter":"","pool":""}}' in records.encode(snapshot)


@pytest.mark.parametrize("at", [-(10**400), -1, 10**400])
def test_an_absurd_window_of_a_node_is_cut_to_what_a_database_and_a_float_hold(at: int) -> None:
    requested = records.window_ending_at("5m", 1_700_000_000)
    node = NodeMetrics(metrics=[], window=Window("5m", at, at))
    (found,) = records.dated({"n": node}, requested).values()
    assert isinstance(found.window, Window)
    assert 0 <= found.window.start <= found.window.end <= requested.end


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
