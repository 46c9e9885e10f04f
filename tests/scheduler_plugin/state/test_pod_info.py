"""Facts of pods, also of those that tenants make as large as the API server takes them."""

import json

import msgspec

from api_types.kubernetes import pods
from scheduler_plugin.state import pod_info
from scheduler_plugin.state.estimator import EstimatorArgs
from tests.scheduler_plugin import factories

ARGS = EstimatorArgs(("cpu", "memory"), {"cpu": 85, "memory": 70}, with_demand=True)
MANY = 500


def large(name, last_cpu):
    document = factories.pod_document(name)
    amounts = [{"requests": {"cpu": "2m", "memory": "1Mi"}, "limits": {"cpu": "3m"}}] * (MANY - 1)
    amounts.append({"requests": {"cpu": last_cpu}})
    document["spec"]["containers"] = [{"name": f"c{i}", "resources": one} for i, one in enumerate(amounts)]
    return msgspec.json.decode(json.dumps(document), type=pods.Pod)


def test_large_pods_are_told_apart_and_each_has_its_own_identity():
    first, second, other = (pod_info.read(large(*which), ARGS) for which in (("a", "5m"), ("b", "5m"), ("a", "6m")))
    assert (first.uid, first.key) == ("uid-a", "default/a")
    assert msgspec.structs.replace(second, uid="uid-a", key="default/a") == first
    assert first.demand.request == pod_info.PodAmounts(2 * (MANY - 1) + 5, (MANY - 1) << 20)
    assert first.demand.shipped_limit == pod_info.PodAmounts(3 * (MANY - 1), 0)
    assert other.demand.request.cpu_millis == first.demand.request.cpu_millis + 1
