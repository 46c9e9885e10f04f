import pytest

from scheduler_plugin.state import node_report
from tests.scheduler_plugin import factories

RESOURCES = ("cpu", "memory")
GI = 1024**3


def read(**metric):
    return node_report.read(factories.metric(**metric), RESOURCES)


def usage(**resources):
    return {"resources": resources}


def test_a_report_without_node_metric_has_no_usage_rather_than_zero():
    assert read(usage=None).node_usage is None


@pytest.mark.parametrize("cpu", ["lots", "-1", "1e18", "", "1e999"])
def test_an_impossible_usage_is_not_reported(cpu):
    assert read(usage={"cpu": cpu}).node_usage is None


def predicted(**peak):
    status = {"prediction": {"predictor": "n-sigma-v2", "node": {"peak": peak}, "prod": {"peak": {}}}}
    return read(usage={"cpu": "1", "memory": "1Gi"}, status=status).predicted_usage


def test_without_a_prediction_the_peak_is_absent_and_not_zero():
    assert read(usage={"cpu": "1"}).predicted_usage is None
    assert predicted() is None
    assert predicted(cpu="-1") is None


def test_a_resource_without_a_prediction_is_as_reported():
    assert predicted(cpu="2500m") == (2500, GI)


def test_window_zero_is_the_longest_window_with_data():
    aggregated = [
        {"duration": "5m0s", "usage": {"p95": usage(cpu="5")}},
        {"duration": "30m", "usage": {"p95": {}}},
        {"duration": "10m", "usage": {"p95": usage(cpu="10"), "avg": usage(cpu="1")}},
        {"duration": "soon", "usage": {"p95": usage(cpu="99")}},
    ]
    report = read(usage={}, aggregated=aggregated)
    assert report.aggregated["p95", 0] == (10_000, 0)
    assert report.aggregated["p95", 300 * 10**9] == (5_000, 0)
    assert ("p95", 1800 * 10**9) not in report.aggregated


def test_pods_without_usage_are_not_reported_and_the_last_of_two_entries_counts():
    items = [
        factories.reported("a", "1", "1Gi"),
        {"namespace": "default", "name": "b", "podUsage": {}},
        None,
        factories.reported("a", "2", "1Gi", priority="koord-mid"),
        {"namespace": "default", "name": "c", "podUsage": usage(**{"nvidia.com/gpu": "1"})},
    ]
    report = read(usage={}, pods_metric=items)
    assert report.pods == {"default/a": (2000, GI, 1), "default/c": (0, 0, 0)}
    assert report.pods.find("default/c") == (0, 0, 0)
    assert report.pods.find("default/b") is None
