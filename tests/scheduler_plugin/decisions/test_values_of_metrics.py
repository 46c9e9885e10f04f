"""Values of the metrics of decisions, of waiting pods, and of Mid quotas."""

import json
import types

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from scheduler_plugin.decisions import metrics
from scheduler_plugin.queueing.refused_pods import Cause
from scheduler_plugin.state.mid_quotas import MidQuotas
from scheduler_plugin.state.pod_info import AssignedPod
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, pod_document, request

PREFIX = "koord_scheduler_plugin_"


def reader(*collectors):
    """Return a function that reads a sample; None without one."""
    registry = CollectorRegistry()
    for each in collectors:
        registry.register(each)
    return lambda name, **labels: registry.get_sample_value(f"{PREFIX}{name}", labels)


class Sized(types.SimpleNamespace):
    """Counts, and a number of pods."""

    def __len__(self):
        return self.size


def test_each_count_of_waiting_pods_has_its_metric():
    refused = Sized(size=3, woken=dict(zip(Cause, (4, 5, 6), strict=True)), evicted=7, failed=8)
    reservations, waits = Sized(size=9, begun=10, moved=11), Sized(size=12, placed=13)
    value = reader(metrics.QueueingCollector(refused, reservations, waits, {"kept": 14, "removed": 15}))
    causes = {each: value("retried_pods_total", cause=each) for each in ("cooled", "not-named", "waited")}
    assert causes == {"cooled": 4, "not-named": 5, "waited": 6}
    assert (value("refused_pods_evicted_total"), value("failed_retries_total")) == (7, 8)
    assert (value("reservations_total"), value("moved_reservations_total")) == (10, 11)
    assert value("placements_despite_load_total") == 13
    assert (value("refused_pods"), value("reserved_pods"), value("pods_refused_for_load")) == (3, 9, 12)
    assert value("preemption_candidates_total", outcome="kept") == 14
    assert value("preemption_candidates_total", outcome="removed") == 15


def holding(name, cpu_millis, memory_bytes):
    return AssignedPod(name, f"{name}/pod", False, None, cpu_millis, memory_bytes, 0.0, None, 0, True)


def test_held_resources_are_in_cores_and_bytes_beside_the_quota_of_each_resource(monkeypatch):
    monkeypatch.setattr(metrics, "MOST_NAMESPACES", 3)
    quotas = MidQuotas()
    for name, cpu, memory in (("shop", 2500, 7), ("lab", 4000, 1), ("few", 1, 1), ("least", 1, 0)):
        quotas.assigned(holding(name, cpu, memory))
    quotas.namespace_changed("shop", '{"cpu": "20"}')
    quotas.namespace_changed("lab", '{"memory": "1Ki"}')
    quotas.namespace_changed("broken", "{")
    value = reader(metrics.MidQuotaCollector(quotas))
    held = {name: value("namespace_mid_held_cpu_cores", namespace=name) for name in ("shop", "lab", "few", "least")}
    assert held == {"shop": 2.5, "lab": 4, "few": 0.001, "least": None}
    assert value("namespace_mid_held_memory_bytes", namespace="shop") == 7
    assert value("namespace_mid_quota_cpu_cores", namespace="shop") == 20
    assert value("namespace_mid_quota_memory_bytes", namespace="shop") is None
    assert value("namespace_mid_quota_cpu_cores", namespace="lab") is None
    assert value("namespace_mid_quota_memory_bytes", namespace="lab") == 1024
    assert (value("malformed_mid_quotas"), value("namespaces_without_mid_metrics")) == (1, 2)


def test_bound_pods_and_recorded_decisions_are_counted():
    parts = factories.parts()
    for name in ("a", "b"):
        parts.cluster.node_changed(factories.node(name))
    value = reader(*parts.collectors())
    assert (value("recorded_decisions"), value("recorded_decision_bytes")) == (0, 0)
    parts.extender.filter(request(pod_document("web"), ["a", "b"]), NOW)
    binding = {"PodName": "web", "PodNamespace": "default", "PodUID": "uid-web", "Node": "a"}
    parts.extender.bind(json.dumps(binding).encode(), NOW)
    parts.extender.prepare()
    assert value("recorded_decisions") == 1
    assert value("recorded_decision_bytes") == parts.records.bytes > 0
    choices = {each.value: value("bound_pods_total", choice=each.value) for each in parts.records.choices}
    assert sum(choices.values()) == 1


@pytest.mark.parametrize("bound", metrics.AGES_SECONDS)
def test_a_report_as_old_as_a_bound_is_within_it_and_an_older_one_is_not(bound):
    labels = [*map(str, (60, 120, 180, 300, 900, 3600)), "inf", "none"]
    at = labels.index(str(bound))
    counts = metrics.counts_by_age(np.array([NOW - bound, NOW - bound - 0.5, np.nan, np.nan]), NOW)
    assert list(counts) == labels
    assert {name: count for name, count in counts.items() if count} == {labels[at]: 1, labels[at + 1]: 1, "none": 2}
