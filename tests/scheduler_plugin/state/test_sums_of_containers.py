"""Sums of the containers of a pod, as Kubernetes and as the shipped Trimaran plugins form them; added up by hand."""

import msgspec
import pytest

from api_types.kubernetes import pods, quantities
from scheduler_plugin.state import pod_resources
from scheduler_plugin.state.pod_resources import Amounts, ContainerCpu

BIG = {"requests": {"cpu": "1", "memory": "10"}, "limits": {"cpu": "2", "memory": "30"}}
SMALL = {"requests": {"cpu": "500m", "memory": "5"}, "limits": {"cpu": "1"}}
FIRST = {"requests": {"cpu": "3", "memory": "1"}, "limits": {"cpu": "4"}}


def read(*containers, init=(), sidecars=(), overhead=None):
    def listed(several, **more):
        return [{"name": "c", "resources": each, **more} for each in several]

    document = {
        "containers": listed(containers),
        "initContainers": [*listed(init), *listed(sidecars, restartPolicy="Always")],
        "overhead": overhead,
    }
    return pod_resources.read(msgspec.convert(document, type=pods.PodSpec))


def test_a_pod_that_declares_nothing_has_nothing():
    found = read({})
    assert {found.request, found.limit, found.shipped_request, found.shipped_limit} == {Amounts(0, 0)}
    assert (found.containers, found.sidecars, found.overhead_cpu_millis) == ((ContainerCpu(None, None),), (), 0)
    assert Amounts(0, 0) == pod_resources.NOTHING


def test_containers_are_added_up():
    found = read(BIG, SMALL)
    assert found.request == found.shipped_request == Amounts(1500, 15)
    assert found.limit == found.shipped_limit == Amounts(3000, 30)
    assert found.containers == (ContainerCpu(1000, 2000), ContainerCpu(500, 1000))


def test_a_resource_that_no_container_declares_is_zero():
    found = read({"requests": {"cpu": "1"}, "limits": {"memory": "7"}})
    assert (found.request, found.limit) == (Amounts(1000, 0), Amounts(0, 7))
    assert found.containers == (ContainerCpu(1000, None),)


def test_a_larger_init_container_counts_in_place_of_the_sum_for_each_resource():
    found = read(BIG, SMALL, init=[FIRST, SMALL])
    assert found.shipped_request == found.request == Amounts(3000, 15)
    assert found.shipped_limit == found.limit == Amounts(4000, 30)
    assert found.sidecars == ()


def test_a_sidecar_counts_beside_the_containers_and_for_the_shipped_plugins_as_an_init_container():
    found = read(BIG, sidecars=[SMALL])
    assert (found.request, found.limit) == (Amounts(1500, 15), Amounts(3000, 30))
    assert (found.shipped_request, found.shipped_limit) == (Amounts(1000, 10), Amounts(2000, 30))
    assert found.sidecars == (ContainerCpu(500, 1000),)


def test_the_overhead_is_added_to_requests_and_for_the_shipped_plugins_to_limits_too():
    found = read(BIG, init=[FIRST], overhead={"cpu": "100m", "memory": "7"})
    assert found.request == found.shipped_request == Amounts(3100, 17)
    assert found.shipped_limit == Amounts(4100, 37)
    assert found.overhead_cpu_millis == 100
    assert read({}, overhead={"cpu": "100m"}).shipped_limit == Amounts(100, 0)


def test_limits_are_raised_to_the_requests_for_each_resource():
    assert pod_resources.raised(Amounts(1, 20), Amounts(10, 2)) == Amounts(10, 20)
    assert pod_resources.raised(Amounts(10, 2), Amounts(1, 20)) == Amounts(10, 20)


@pytest.mark.parametrize("amounts", [{"requests": {"cpu": "lots"}}, {"limits": {"memory": "much"}}])
def test_an_amount_that_cannot_be_parsed_is_an_error(amounts):
    with pytest.raises(quantities.InvalidQuantity):
        read(BIG, amounts)


def test_of_too_many_containers_the_sums_and_a_few_without_an_amount_are_kept():
    limited = [{"requests": {"cpu": "1"}, "limits": {"cpu": "3m"}}] * 40
    requesting = [{"requests": {"cpu": "5m"}}] * 30
    found = read(*limited, *requesting, *[{}] * 70)
    assert found.containers[:2] == (ContainerCpu(None, 120), ContainerCpu(150, None))
    assert found.containers[2:] == (ContainerCpu(None, None),) * 64
    assert read(*[{"requests": {"cpu": "5m"}}] * 64).containers == (ContainerCpu(5, None),) * 64
