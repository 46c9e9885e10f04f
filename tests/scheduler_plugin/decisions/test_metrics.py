"""Metrics of decisions, and of nodes by the age of their reports."""

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from scheduler_plugin.decisions import metrics as decision_metrics
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, pod_document, request


def cluster(**updated):
    """Create nodes with the time of their report after NOW; None: a report without a time, ...: no report."""
    parts = factories.parts()
    for name, moment in updated.items():
        parts.cluster.node_changed(factories.node(name))
        if moment is not ...:
            parts.cluster.metric_changed(factories.metric(name, usage={"cpu": "1", "memory": "1"}, updated=moment))
    return parts


@pytest.mark.parametrize(
    ("age", "counted"),
    [(-5, "60"), (60, "60"), (60.5, "120"), (180, "180"), (181, "300"), (3600, "3600"), (3601, "inf")],
)
def test_a_report_counts_once_in_the_smallest_fitting_bucket(age, counted):
    counts = decision_metrics.counts_by_age(np.array([NOW - age]), NOW)
    assert {bound: count for bound, count in counts.items() if count} == {counted: 1}


def test_filter_calls_are_counted_by_outcome():
    parts = cluster(a=0, b=0, stale=-1000)
    for nodes in (["a", "b"], ["a", "stale"], ["stale"], ["a"]):
        parts.extender.filter(request(pod_document("p"), nodes), NOW)
    registry = CollectorRegistry()
    for collector in parts.collectors():
        registry.register(collector)

    def value(name, **labels):
        return registry.get_sample_value(f"koord_scheduler_plugin_{name}", labels)

    outcomes = {each: value("filtered_pods_total", outcome=each) for each in parts.counts.outcomes}
    assert outcomes == {"all_passed": 2, "some_rejected": 1, "none_passed": 1}
    expired = {"plugin": "LoadAwareScheduling", "reason": "node(s) nodeMetric expired"}
    assert value("rejected_nodes_total", **expired) == 2


def test_nodes_whose_inputs_are_ignored_or_missing_are_counted():
    aggregated = {"usageThresholds": {"cpu": 50}, "usageAggregationType": "p95", "usageAggregatedDuration": "10m"}
    parts = factories.parts({"aggregated": aggregated})
    window = {"duration": "10m0s", "usage": {"p95": {"resources": {"cpu": "1", "memory": "1Gi"}}}}
    reported = {"whole": [window], "short": [{**window, "duration": "5m0s"}], "bare": []}
    for name, windows in reported.items():
        annotations = {"scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds": {"cpu": "30"}}'}
        parts.cluster.node_changed(factories.node(name, annotations=annotations if name == "bare" else None))
        metric = factories.metric(name, usage={"cpu": "1", "memory": "1Gi"}, aggregated=windows)
        parts.cluster.metric_changed(metric)
    registry = CollectorRegistry()
    for collector in parts.collectors():
        registry.register(collector)
    counted = {
        kind: registry.get_sample_value(
            "koord_scheduler_plugin_node_problems", {"plugin": "LoadAwareScheduling", "kind": kind}
        )
        for kind in ("malformed_thresholds", "missing_window")
    }
    assert counted == {"malformed_thresholds": 1, "missing_window": 2}
