"""Fields that the API server leaves out have the zero of the API."""

import msgspec
import pytest

from fleet import node_state, wire
from tests.fleet import cluster
from tests.fleet.test_reading import NOW


def test_a_priority_class_without_a_value_has_the_priority_zero():
    assert msgspec.convert({"metadata": {"name": "low"}}, wire.WirePriorityClass).value == 0


def test_a_prediction_without_counts_of_pods_has_none():
    report = cluster.metric(prediction={"predictor": "max"})
    state = node_state.combine("n", None, msgspec.convert(report, wire.WireNodeMetric), NOW)
    assert (state.predictor, state.warm_pods, state.cold_pods) == ("max", 0, 0)


@pytest.mark.parametrize(
    ("found", "wanted", "ready"),
    [
        ({}, 0, 0),  # a Deployment of no replicas: Kubernetes leaves out the zeros of its status
        ({"spec": {"replicas": 0}, "status": {"observedGeneration": 2}}, 0, 0),
        ({"spec": {"replicas": 3}, "status": {"replicas": 2}}, 3, 0),
        ({"status": {"replicas": 2, "readyReplicas": 2}}, 2, 2),
        ({"status": {"desiredNumberScheduled": 4, "numberReady": 3}}, 4, 3),
    ],
)
def test_counts_of_pods_that_are_left_out_of_a_status_are_zero(found, wanted, ready):
    workload = msgspec.convert(found, wire.WireWorkload)
    assert (workload.wanted, workload.ready) == (wanted, ready)
