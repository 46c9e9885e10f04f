"""A clock of the manager that ran an hour ahead and is set right: no pause, rate or grace lasts for that hour."""

import datetime as dt

from tests.manager.evictions import EVICT, TENANT
from tests.manager.mid_resource.eviction.test_emptying import PLENTY, start_of_emptying

LEAVES = {"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}
HOUR = dt.timedelta(hours=1)


def set_back(short):
    short.world.now -= HOUR
    short.server.now -= HOUR


async def seconds(short, count):
    for _ in range(count):
        await short.round()
        short.pass_seconds(1)


async def test_the_pods_of_a_node_that_leaves_go_within_a_minute_of_it(short):
    await short.start()
    for index in range(10):
        short.add_pod(f"m{index}")
    await short.report(calculated=(10_000, 16_000))
    short.server.patch("nodes", "n1", LEAVES)
    await short.world.settle()
    await seconds(short, 20)
    before = len(short.evicted)
    assert before < 10
    set_back(short)
    await short.world.settle()
    await seconds(short, 61)
    assert len(short.evicted) == 10


async def test_the_rate_of_the_cluster_holds_and_opens_again_after_a_minute(short):
    nodes = [f"n{number}" for number in range(12)]
    await short.start({**EVICT, "midEmergency": "drain", "midEviction": {"mode": "evict", "clusterPerMinute": 1}},
                      nodes=nodes)  # fmt: skip
    for node in nodes:
        short.add_pod(f"{node}-a", node=node)
        await short.world.settle(node)
    await short.round()
    assert len(short.evicted) == 10
    set_back(short)
    await seconds(short, 59)
    assert len(short.evicted) == 10, "it counts as of the time to which the clock was set"
    await seconds(short, 2)
    assert len(short.evicted) == 12


async def test_a_node_that_prod_came_back_to_opens(short):
    await start_of_emptying(short)
    await short.minutes(2, **PLENTY)
    short.end_pods()
    set_back(short)
    await short.minutes(1, **PLENTY)
    assert short.closed() == "MidOnly"
    short.add_prod_pod()
    await short.minutes(3, **PLENTY)
    assert short.closed() == ""


async def test_a_pod_that_is_bound_afterwards_is_not_in_the_floor(short):
    short.server.now -= 2 * HOUR  # the node is older than its reports
    await short.start({"enable": True})
    short.server.now += 2 * HOUR
    for name in "abc":
        short.add_pod(name)
    await short.minutes(3, calculated=(2000, 10_000))
    assert short.world.mid_of()[0] == 3000
    set_back(short)
    await short.minutes(1, calculated=(2000, 10_000))
    short.server.remove("pods", "a", TENANT)
    short.add_pod("late")
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"{short.world.now:%Y-%m-%dT%H:%M:%SZ}"}
    short.server.patch("pods", "late", {"status": {"conditions": [bound]}}, TENANT)
    await short.minutes(2, calculated=(2000, 10_000))
    assert short.world.mid_of()[0] == 2000
