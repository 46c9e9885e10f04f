"""Answers for nodes whose pods differ in age, and for the smallest nodes."""

from __future__ import annotations

import pytest

from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import MeasuredCluster, metrics, pod


@pytest.mark.parametrize(
    ("ages_seconds", "level"),
    [
        ((), FallbackLevel.PREDICTED),
        ((10,), FallbackLevel.PREDICTED),
        ((300, 10), FallbackLevel.PREDICTED),
        ((301, 10), FallbackLevel.UNKNOWN),
        ((10, 301), FallbackLevel.UNKNOWN),
    ],
)
def test_an_unmeasured_node_is_new_while_its_oldest_pod_is(ages_seconds: tuple[int, ...], level: FallbackLevel) -> None:
    cluster = MeasuredCluster("TargetLoadPacking")
    cluster.node("measured")
    cluster.node("unmeasured")
    for age in ages_seconds:
        cluster.place("unmeasured", pod("100m"), age_seconds=age)
    cluster.measure({"measured": metrics(20, 20)})
    assert cluster.fallback_levels(["measured", "unmeasured"]) == [FallbackLevel.MEASURED, level]


def test_a_node_of_one_millicore_is_scored_like_any_other() -> None:
    cluster = MeasuredCluster("TargetLoadPacking")
    for name, cpu in (("large", "4"), ("small", "1m")):
        cluster.node(name, capacity={"cpu": cpu, "memory": "8Gi"})
    cluster.measure({"large": metrics(20), "small": metrics(20)})
    assert cluster.scores(pod(limit_cpu="0"), ["large", "small"]) == [70, 70]  # 60 * 20 / 40 + 40
