"""Pods that have ended count for nothing, wherever they are in the list."""

import msgspec
import pytest

from api_types.kubernetes import pods
from manager.mid_resource.target import summed


def pod(name, cpu, phase):
    containers = [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]
    item = {
        "metadata": {"name": name},
        "spec": {"priority": 9000, "nodeName": "n1", "containers": containers},
        "status": {"phase": phase},
    }
    return msgspec.convert(item, pods.Pod)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_requests_of_pods_after_an_ended_one_are_summed(phase):
    bound = [pod("a", "1", "Running"), pod("ended", "4", phase), pod("b", "2", "Pending")]
    assert summed(bound).prod["cpu"] == 3000
    assert summed(reversed(bound)).prod["cpu"] == 3000
