"""What is kept of a pod has a bounded size. Expected values are summed by hand."""

import msgspec
import pytest

from api_types.kubernetes import pods
from scheduler_plugin.plugins.trimaran import target_load_packing
from scheduler_plugin.state import pod_resources


def demand(key, *containers):
    more = {"restartPolicy": "Always"} if key == "initContainers" else {}
    listed = [{"name": "c", "resources": each, **more} for each in containers]
    return pod_resources.read(msgspec.convert({key: listed}, type=pods.PodSpec))


@pytest.mark.parametrize("key", ["containers", "initContainers"])
def test_thousands_of_containers_are_kept_as_a_few_with_the_same_prediction(key):
    limited = [{"requests": {"cpu": "1m"}, "limits": {"cpu": f"{index}m"}} for index in range(1, 1001)]
    requesting = [{"requests": {"cpu": f"{2 * index}m"}} for index in range(1, 1001)]
    found = demand(key, *limited, *requesting, {}, {})
    assert len(found.containers) + len(found.sidecars) <= 66
    predicted = target_load_packing.predicted_millis(found, 1.5, 1000, with_sidecars=True)
    assert predicted == 500_500 + 1_501_500 + 2 * 1000
