"""What a closed node publishes between two reports: nothing of what its evicted pods requested."""

import copy
import json

import pytest

from tests.fakes import cluster
from tests.manager.conftest import amounts
from tests.manager.evictions import ANNOTATION, EVICT
from tests.manager.mid_resource.eviction.test_emptying import PLENTY, start_of_emptying

COUNT = 6
NO_PREDICTION = {"prodPeakMetric": None}


async def draining(short, **document):
    """Drain a node with six pods, right after a report."""
    await short.start({**EVICT, **document})
    for number in range(COUNT):
        short.add_pod(f"m{number}")
    await short.minutes(1, **PLENTY)
    await short.report(**PLENTY)
    short.world.configure({**EVICT, **document, "midEmergency": "drain"})
    await short.world.config.refresh()
    await short.world.settle()


async def seconds(short, count):
    """Yield after each second of evictions, without a report; pods end at once."""
    for _ in range(count):
        await short.round()
        short.end_pods()
        short.pass_seconds(1)
        await short.world.settle()
        yield short.requested("n1")[0]


@pytest.mark.parametrize("begin", [draining, start_of_emptying])
async def test_a_closed_node_publishes_what_the_pods_that_stay_request(short, begin):
    await begin(short)
    async for requested in seconds(short, 50):
        assert short.world.mid_of() == (requested, requested)
    assert requested < COUNT * 1000 / 2


async def test_also_without_a_floor(short):
    await draining(short, midFloor="none")
    async for requested in seconds(short, 50):
        assert short.world.mid_of() == (requested, requested)


async def test_no_pod_returns_to_a_drained_node_whose_agent_is_silent(short):
    await draining(short)
    returned = 0
    async for requested in seconds(short, 240):
        if returned < len(short.evicted) and requested + 1000 <= short.world.mid_of()[0]:  # as kube-scheduler checks
            returned += 1
            short.add_pod(f"r{returned}")
    assert (len(short.evicted), returned, short.world.mid_of()) == (COUNT, 0, (0, 0))


@pytest.mark.parametrize("answer", ["accepted, and the lists are late", "lost"])
async def test_no_pod_returns_where_the_apiserver_does_not_show_an_eviction_at_once(short, answer):
    await draining(short)
    listed, evict = short.server._list, short.server._evict

    def late(plural, *of):
        found = copy.deepcopy(listed(plural, *of))
        for each in found["items"] if plural == "pods" else ():
            each["metadata"].pop("deletionTimestamp", None)
        return found

    def lost(*of):
        evict(*of)
        raise cluster.Refusal(504, "Timeout", message="request timed out")

    if answer == "lost":
        short.server._evict = lost
    else:
        short.server._list = late
    returned = 0
    async for requested in seconds(short, 240):
        if returned < len(short.evicted) and requested + 1000 <= short.world.mid_of()[0]:
            returned += 1
            short.add_pod(f"r{returned}")
    assert (len(short.evicted), returned, short.world.mid_of()) == (COUNT, 0, (0, 0))


async def test_kept_values_shrink_with_the_pods_and_cost_no_write_without_an_eviction(short):
    await draining(short)
    await short.report(**PLENTY, **NO_PREDICTION)
    async for requested in seconds(short, 20):
        assert short.world.mid_of() == (requested, requested)
    assert short.world.mid_status()["reason"] == "NoPrediction"
    writes, lists = len(short.server.writes), len(short.server.requests)
    for _ in range(5):
        await short.world.settle()
    assert (len(short.server.writes), len(short.server.requests)) == (writes, lists)


async def test_a_pod_that_was_bound_after_the_last_list_counts_when_the_node_is_closed(short):
    """Koordinator's agent reports no requests: the pods of a sample are listed when it comes."""
    await short.start(EVICT)
    short.add_pod("before")
    await short.report(allocated=None, prodPeakMetric=None, prodReclaimableMetric=amounts("8", "16k"))
    short.pass_seconds(20)
    bound = short.world.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    short.add_pod("after")
    scheduled = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}]
    short.server.patch("pods", "after", {"status": {"conditions": scheduled}}, "tenant")
    short.pass_seconds(20)
    record = {"time": bound, "since": bound, "trigger": "MidOnlyNode"}
    short.server.patch("nodes", "n1", {"metadata": {"annotations": {ANNOTATION: json.dumps(record)}}})
    await short.world.settle()
    assert short.world.mid_of() == (2000, 2000)
