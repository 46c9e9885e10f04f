"""Aggregated usage is decoded on the first read, without loss. Expected values are Go's: 1 Ki = 1024."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.state import node_report
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


GI = 1024**3


def read_report(**metric):
    return node_report.read(factories.metric(**metric), RESOURCES)


def node_usage(**resources):
    return {"resources": resources}


def test_a_report_without_node_metric_has_no_usage_rather_than_zero():
    assert read_report(usage=None).node_usage is None


@pytest.mark.parametrize("cpu", ["lots", "-1", "1e18", "", "1e999"])
def test_an_impossible_usage_is_not_reported(cpu):
    assert read_report(usage={"cpu": cpu}).node_usage is None


def predicted(**peak):
    status = {"prediction": {"predictor": "n-sigma-v2", "node": {"peak": peak}, "prod": {"peak": {}}}}
    return read_report(usage={"cpu": "1", "memory": "1Gi"}, status=status).predicted_usage


def test_without_a_prediction_the_peak_is_absent_and_not_zero():
    assert read_report(usage={"cpu": "1"}).predicted_usage is None
    assert predicted() is None
    assert predicted(cpu="-1") is None


def test_a_resource_without_a_prediction_is_as_reported():
    assert predicted(cpu="2500m") == (2500, GI)


def test_window_zero_is_the_longest_window_with_data():
    aggregated = [
        {"duration": "5m0s", "usage": {"p95": node_usage(cpu="5")}},
        {"duration": "30m", "usage": {"p95": {}}},
        {"duration": "10m", "usage": {"p95": node_usage(cpu="10"), "avg": node_usage(cpu="1")}},
        {"duration": "soon", "usage": {"p95": node_usage(cpu="99")}},
    ]
    report = read_report(usage={}, aggregated=aggregated)
    assert report.aggregated["p95", 0] == (10_000, 0)
    assert report.aggregated["p95", 300 * 10**9] == (5_000, 0)
    assert ("p95", 1800 * 10**9) not in report.aggregated


def test_pods_without_usage_are_not_reported_and_the_last_of_two_entries_counts():
    items = [
        factories.reported("a", "1", "1Gi"),
        {"namespace": "default", "name": "b", "podUsage": {}},
        None,
        factories.reported("a", "2", "1Gi", priority="koord-mid"),
        {"namespace": "default", "name": "c", "podUsage": node_usage(**{"nvidia.com/gpu": "1"})},
    ]
    report = read_report(usage={}, pods_metric=items)
    assert report.pods == {"default/a": (2000, GI, 1), "default/c": (0, 0, 0)}
    assert report.pods.find("default/c") == (0, 0, 0)
    assert report.pods.find("default/b") is None
