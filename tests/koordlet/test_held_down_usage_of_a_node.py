"""Which usage a calibration takes as held down: that of Prod pods that are measured and throttled."""

from __future__ import annotations

import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.samples import Resource, UsageSample
from tests.koordlet.collectors.test_capped_usage import throttled
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import GIB, StaticCluster, bound_pod

USAGE = UsageSample(1.0, float(GIB))


@pytest.mark.parametrize(
    ("ratios", "capped"),
    [({}, set()), ({"a": 0.5}, {Resource.CPU}), ({"mid": 0.5}, set()), ({"late": 0.5}, set()), ({"gone": 0.5}, set())],
)
def test_only_prod_pods_that_are_measured_hold_usage_down(ratios, capped):
    pods = bound_pod("a"), bound_pod("late"), bound_pod("mid", PriorityClass.MID)
    node = FedNode(StaticCluster(*pods))
    node.observer.collector.collectors = (throttled(**ratios),)
    seen = []
    node.observer.server.calibrate = lambda *_given, capped, **_more: seen.append(capped)
    node.sample({"a": USAGE, "mid": USAGE}, USAGE)
    node.train()
    assert seen == [capped]


def test_pods_that_cannot_be_measured_are_named_to_the_calibration():
    node = FedNode(StaticCluster(bound_pod("a"), bound_pod("b")))
    seen = []
    node.observer.server.calibrate = lambda *_given, unmeasured, **_more: seen.append(unmeasured)
    node.sample({"a": USAGE}, USAGE)
    node.observer.pods_in_system = frozenset({"b"})
    node.train()
    assert seen == [{"b"}]
