"""A calibration whose ticks lack a sample of the system: pods that begin in such a tick are read like any other."""

import math

import pytest

from koordlet.samples import Resource, UsageSample
from tests.koordlet.prediction.pods import Pod
from tests.koordlet.prediction.test_calibrated_server import ALLOCATABLE, GIB, PODS, SYSTEM, Node

UNKNOWN = [None, UsageSample(math.nan, SYSTEM.memory_bytes), UsageSample(SYSTEM.cpu_cores, math.nan)]


def many(count):
    return [*PODS, *(Pod(f"p{number}", cpu_request_millis=10, memory_request_bytes=GIB) for number in range(count))]


@pytest.mark.parametrize("system", UNKNOWN)
def test_a_pod_that_starts_again_after_a_first_tick_without_the_system_is_forgotten(system):
    node = Node().step(system=system)
    node.server.starts.waiting = frozenset({"a"})
    node.step(system=system)
    assert set(node.server.calibration.labels().values()) == {0}


@pytest.mark.parametrize("system", UNKNOWN)
def test_more_pods_than_before_may_begin_while_the_system_is_unknown(system):
    node = Node().step()
    node.step(pods=many(70), system=system)
    node.server.starts.waiting = frozenset({"p69"})
    node.step(pods=many(70))
    keys = [key for key in node.server.calibration.export().keys if key.identity == "p69"]
    assert node.server.calibration.last_day(Resource.CPU, keys).shape == (1, 288)


@pytest.mark.parametrize("system", UNKNOWN[1:])
def test_there_is_a_peak_after_a_warm_pod_came_in_a_tick_without_the_system(system):
    node, pods = Node(), many(70)
    node.run(60)
    node.is_calibrated = False
    node.run(30, pods=pods)
    node.is_calibrated = True
    node.step(pods=pods, system=system)
    predicted = node.server.predict(node.now, pods, ALLOCATABLE)
    assert all(predicted.prod_peak)
