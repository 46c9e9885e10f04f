"""Fields that the API server leaves out have the zero of the API."""

import msgspec
import pytest

from fleet import wire


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
