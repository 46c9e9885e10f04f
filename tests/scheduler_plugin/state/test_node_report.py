"""Aggregated usage is decoded on the first read, without loss. Expected values are Go's: 1 Ki = 1024."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.state.node_report import NO_STATISTICS, StatisticsByWindow
from tests.scheduler_plugin import factories

RESOURCES = ("cpu", "memory")
MINUTE = 60 * 10**9


def statistics(windows):
    return StatisticsByWindow(msgspec.Raw(msgspec.json.encode(windows)), RESOURCES)


def usage(cpu, memory):
    return {"resources": {"cpu": cpu, "memory": memory}}


def test_each_statistic_has_its_windows_and_its_longest_one():
    read = statistics(
        [
            {"duration": "5m0s", "usage": {"avg": usage("1500m", "1Ki"), "p95": usage("2", "7")}},
            {"duration": "15m", "usage": {"avg": usage("1", "2")}},
        ]
    )
    assert dict(read) == {
        ("avg", 5 * MINUTE): (1500, 1024),
        ("p95", 5 * MINUTE): (2000, 7),
        ("avg", 15 * MINUTE): (1000, 2),
        ("avg", 0): (1000, 2),
        ("p95", 0): (2000, 7),
    }
    assert read.get(("p99", 0)) is None


@pytest.mark.parametrize(
    "windows",
    [
        None,
        [],
        {},
        [7],
        [{"duration": "soon", "usage": {"avg": usage("1", "1")}}],
        [{"duration": 5}],
        [{"duration": "5m", "usage": {"avg": usage("lots", "1"), "p95": usage("-1", "1"), "p99": {}}}],
    ],
)
def test_malformed_statistics_are_no_data(windows):
    assert dict(statistics(windows)) == {}
    assert dict(StatisticsByWindow(NO_STATISTICS, RESOURCES)) == {}


@given(st.dictionaries(st.sampled_from(["avg", "p95"]), st.tuples(st.integers(0, 2**53), st.integers(0, 2**53))))
def test_nodes_share_the_keys_and_not_the_numbers(by_statistic):
    windows = [{"duration": "5m", "usage": {kind: usage(f"{c}m", str(m)) for kind, (c, m) in by_statistic.items()}}]
    first, second = statistics(windows), statistics(windows)
    other = statistics([{"duration": "5m", "usage": dict.fromkeys(by_statistic, usage("1m", "2"))}])
    assert first == second
    assert {kind: first[kind, 5 * MINUTE] for kind in by_statistic} == by_statistic
    assert set(other.values()) <= {(1, 2)}
    assert first._table._positions is second._table._positions is other._table._positions or not by_statistic


def test_a_report_does_not_decode_its_statistics():
    cluster = factories.parts().cluster
    windows = [{"duration": "5m", "usage": {"p95": usage("3", "1")}}]
    cluster.metric_changed(factories.metric("n1", usage={"cpu": "1", "memory": "1"}, aggregated=windows))
    load = cluster.entries["n1"].load
    assert load.report.aggregated._table is None
    assert load.aggregated("p95", 0) == (3000, 1)
