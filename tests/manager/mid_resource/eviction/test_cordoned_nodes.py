"""A cordoned node keeps its Mid pods while Prod leaves it: only high memory, a departure or a drain evicts there."""

import pytest

from tests.manager.evictions import EVICT, TENANT
from tests.manager.mid_resource.eviction.test_leaving_nodes import DISRUPTED, change, start, status

CORDONED = {"spec": {"unschedulable": True}}
WITHOUT_PROD = {"calculated": (0, 0)}


async def start_cordoned(short, **given):
    await start(short, **given)
    await change(short, CORDONED)
    assert status(short)[0] == "Cordoned"


@pytest.mark.parametrize("document", [EVICT, {"enable": True}])
async def test_a_shortage_evicts_none_and_is_no_reason_for_advice_until_the_node_is_uncordoned(short, document):
    """`kubectl drain` moves Prod away, and next to nothing is calculated for a node without Prod."""
    await start_cordoned(short, document=document)
    await short.minutes(10, **WITHOUT_PROD)
    assert (short.evicted, short.annotation()) == ([], None)
    assert not {"MidPodEvicted", "MidEvictionAdvised"} & short.reasons()
    await change(short, {"spec": {"unschedulable": None}})
    await short.minutes(2, **WITHOUT_PROD)
    assert {"MidPodEvicted", "MidEvictionAdvised"} & short.reasons()


async def test_a_shortage_that_began_before_evicts_no_further_pod(short):
    await start(short)
    await short.minutes(3, **WITHOUT_PROD)
    assert len(short.evicted) == 1
    await change(short, CORDONED)
    await short.minutes(10, **WITHOUT_PROD)
    assert len(short.evicted) == 1


async def test_high_memory_evicts_because_prod_that_grows_there_needs_it(short):
    await start_cordoned(short)
    of_pod = {"podUsage": {"resources": {"memory": "1000"}}, "namespace": TENANT}
    used = [{"name": f"m{index}", **of_pod} for index in range(4)]
    await short.minutes(4, memory=(11_000, 4_000), podsMetric=used, **WITHOUT_PROD)
    assert len(short.evicted) == 1
    assert short.annotation()["trigger"] == "NodeMemoryHigh"


@pytest.mark.parametrize("cause", ["leaves", "drain"])
async def test_a_departure_and_a_drain_evict_every_mid_pod(short, cause):
    await start_cordoned(short)
    if cause == "leaves":
        await change(short, DISRUPTED)
    else:
        short.world.configure({**EVICT, "midEmergency": "drain"})
        await short.world.config.refresh()
        await short.world.settle()
    await short.minutes(2)
    assert len(short.evicted) == 4
