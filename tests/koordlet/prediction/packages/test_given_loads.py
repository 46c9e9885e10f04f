"""What a package is given: the units, the statistics, and copies that cannot be written."""

from __future__ import annotations

import numpy as np
import pytest

from koordlet.prediction.packages.guard import GuardedPredictor
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.samples import UsageSample
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import GIB, StaticCluster, bound_pod
from tests.koordlet.prediction.packages.test_learning import Learning

POLICY = {
    "predictor": "v/learning",
    "coldStartPeriodSeconds": 0,
    "horizonSeconds": 1800,
    "violationTargetPercent": 2.5,
}


@pytest.fixture
def given():
    """Return what is given for each resource after half a minute of 0.25 cores and one of a whole core."""
    learning = Learning()
    package = GuardedPredictor("v/learning", lambda: learning, lambda: 0.0, lambda _text: None)
    pods = bound_pod("a", cpu_request_millis=1500, memory_request_bytes=3 * GIB, cpu_limit_millis=2000), bound_pod("b")
    node = FedNode(StaticCluster(*pods, spec={"predictPolicy": POLICY}), packages=LoadedPredictors("n1", [package]))

    def usage(step):
        cores = 0.25 if step < 3 else 1.0
        return {"a": UsageSample(cores, GIB), "b": UsageSample(0.125, GIB)}, UsageSample(0.75, GIB)

    for _ in node.run(60, usage):
        pass
    return {load.resource: load for load in learning.observed}


def by_pod(load, values):
    return dict(zip(load.pod_uids, values.tolist(), strict=True))


def test_requests_and_limits_are_in_cores_and_bytes(given):
    cpu, memory = given["cpu"], given["memory"]
    assert by_pod(cpu, cpu.pod_requests) == {"a": 1.5, "b": 1.0}
    assert by_pod(memory, memory.pod_requests) == {"a": 3.0 * GIB, "b": GIB}
    assert by_pod(cpu, cpu.pod_limits) == {"a": 2.0, "b": np.inf}
    assert by_pod(memory, memory.pod_limits) == {"a": np.inf, "b": np.inf}


def test_the_policy_and_the_capacity_are_given(given):
    load = given["cpu"]
    assert (load.horizon_seconds, load.violation_target_percent, load.capacity) == (1800.0, 2.5, 16.0)
    assert (given["memory"].capacity, load.cold_requests) == (16.0 * GIB, 0.0)


def test_the_newest_sample_and_the_day_ring_are_given(given):
    load = given["cpu"]
    assert by_pod(load, load.pods.newest) == pytest.approx({"a": 1.0, "b": 0.125})
    assert load.pods.ring.shape == (2, 288)
    assert np.nanmax(load.pods.ring, axis=1).tolist() == pytest.approx(list(load.pods.newest))
    assert load.unreserved_system.newest.tolist() == pytest.approx([0.25])  # half a core is reserved


def test_percentiles_are_from_0_to_100(given):
    """Of two samples the newer one counts a little more than half."""
    load = given["cpu"]
    found = load.pods.percentiles(10, 49, 50, 100)
    assert found.shape == (2, 4)
    row = found[load.pod_uids.index("a")].tolist()
    assert row == pytest.approx([0.25, 0.25, 1.0, 1.0], rel=0.1)


def test_no_array_can_be_written(given):
    load = given["cpu"]
    arrays = [load.pod_requests, load.pod_limits, load.pods.percentiles(50)]
    for series in (load.pods, load.unreserved_system):
        arrays += [series.mean, series.stdev, series.newest, series.ring]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7.0
