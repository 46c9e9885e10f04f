"""Nodes that a backlog of Mid pods fills up to what is offered: what nothing needs back evicts no pod."""

import random

import pytest

from tests.manager.evictions import ANNOTATION, EVICT, TENANT


async def fill(short, minutes, report, *, amounts, runs_for):
    """Let pods of these amounts come whenever they fit into what is offered, and end; `report` makes each report."""
    ends = {}
    for minute in range(minutes):
        for name in [name for name, end in ends.items() if end <= minute]:
            del ends[name]
            if name not in short.evicted:
                short.server.remove("pods", name, TENANT)
        short.end_pods()
        offered = short.world.mid_of() or (0, 0)
        while short.annotation() is None and all(
            used + more <= most for used, more, most in zip(short.requested("n1"), amounts, offered, strict=True)
        ):
            short.add_pod(name := f"m{minute}-{len(ends)}", *amounts)
            ends[name] = minute + runs_for
        await short.minutes(1, per_round=30, **report(minute))


@pytest.mark.parametrize(
    ("keys", "prod", "used"),
    [
        ({"midEviction": {"mode": "evict", "memoryThresholdPercent": 90}}, 6000, 16_000),
        ({"midEviction": {"mode": "advise"}}, 6000, 16_000),
        ({"midEviction": {"mode": "evict"}, "metricMemoryCollectPolicy": "usageWithPageCache"}, 6000, 16_000),
    ],
)
async def test_the_use_of_the_memory_that_was_offered_evicts_no_pod(short, keys, prod, used):
    """Prod requests 16,000 of 20,000 bytes and uses 6,000; each Mid pod uses what it requests."""
    await short.start({"enable": True, **keys})
    most = 0

    def report(_):
        nonlocal most
        mid = short.requested("n1")[1]
        most = max(most, prod + mid)
        usage = [
            {"name": pod["metadata"]["name"], "namespace": TENANT, "podUsage": {"resources": {"memory": "1000"}}}
            for pod in short.pods_on("n1")
        ]
        return {"calculated": (6000, 10_000), "memory": (prod, mid), "podsMetric": usage}

    await fill(short, 45, report, amounts=(100, 1000), runs_for=20)
    assert (short.evicted, most) == ([], used)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("preset", ["aggressive", pytest.param("balanced", marks=pytest.mark.long)])
async def test_a_week_in_which_nothing_grows_evicts_no_pod(short, preset):
    """Pods fill what is offered and use what they request; measurements and predictions differ by 2 % at most."""
    await short.start({"enable": True, "preset": preset})
    draw, most, count = random.Random(1), 0, 0

    def near(amount):
        return round(amount * (1 + draw.uniform(-0.02, 0.02)))

    def report(minute):
        nonlocal most, count
        short.server.changes.clear()  # a watch would begin there
        here = [pod["metadata"]["name"] for pod in short.pods_on("n1")]
        used = [{"name": name, "namespace": TENANT, "podUsage": {"resources": {"memory": "2300"}}} for name in here]
        memory, most, count = (near(6000), 2300 * len(here)), max(most, len(here)), count + len(here)
        return {"calculated": (near(6000), near(10_000)), "memory": memory, "podsMetric": used}

    await fill(short, minutes := 7 * 24 * 60, report, amounts=(900, 2300), runs_for=45)
    assert (short.evicted, most) == ([], 3)
    assert count > 2.9 * minutes, "the node is full"


@pytest.mark.parametrize(("noise", "tolerance", "evicts"), [(0.02, 10, False), (0.02, 0, True), (0.15, 10, True)])
async def test_noise_below_the_tolerance_evicts_no_pod(short, noise, tolerance, evicts):
    await short.start({"enable": True, "midEviction": {"mode": "evict", "shortageTolerancePercent": tolerance}})
    draw = random.Random(1)

    def report(_):
        return {"calculated": (int(5000 * (1 + draw.uniform(-noise, noise))), 10_000)}

    await fill(short, 120, report, amounts=(250, 10), runs_for=30)
    assert bool(short.evicted) is evicts


@pytest.mark.parametrize(("calculated", "evicted"), [(3600, 0), (3599, 1), (2900, 2)])
async def test_beyond_the_tolerance_pods_leave_until_nothing_is_short(short, calculated, evicted):
    await short.start(EVICT)
    for name in "abcd":
        short.add_pod(name)
    for _ in range(12):
        await short.minutes(1, calculated=(calculated, 10_000))
        short.end_pods()
    assert len(short.evicted) == evicted


async def test_an_offer_that_shrinks_because_prod_uses_more_memory_evicts_no_pod_below_the_threshold(short):
    """Pods that do not use what they request have nothing to give back."""
    await short.start()
    for name in "ab":
        short.add_pod(name, 100, 4000)
    await short.minutes(8, calculated=(6000, 10_000), memory=(9000, 1200))
    assert short.world.mid_status()["resources"]["kubernetes.io/mid-memory"]["usable"] == 4000
    assert short.evicted == []


async def test_a_pod_without_mid_requests_that_comes_back_to_the_closed_node_is_not_evicted_again(short):
    await short.start()
    for minute in range(20):
        short.end_pods()
        if not short.pods_on("n1"):  # the next pod of the ReplicaSet, placed by another scheduler
            short.add_pod(f"m{minute}", 0, 0)
        (name,) = [pod["metadata"]["name"] for pod in short.pods_on("n1")]
        usage = [{"name": name, "namespace": TENANT, "podUsage": {"resources": {"memory": "4000"}}}]
        await short.minutes(1, calculated=(2000, 0), memory=(11_000, 4_000), podsMetric=usage)
    assert short.evicted == ["m0"]
    assert "MidEvictionWithoutPod" in short.reasons()


async def test_a_node_whose_annotation_another_client_removes_stays_closed_and_the_client_is_named(short):
    await short.start()
    for name in "abc":
        short.add_pod(name)
    for minute in range(30):
        calculated = (2000 if minute % 8 < 5 else 3500, 10_000)  # a peak that flaps
        await short.minutes(1, calculated=calculated)
        short.end_pods()
        manager = {"manager": "gitops", "time": "2026-11-21T12:00:00Z"}
        removed = {"annotations": {ANNOTATION: None}, "managedFields": [manager]}
        short.server.patch("nodes", "n1", {"metadata": removed})
        await short.report(calculated=calculated)
        if short.world.mid_of()[0] - short.requested("n1")[0] >= 1000:
            short.add_pod(f"again-{minute}")
    assert len(short.evicted) == 1
    assert any("(last writer: gitops)" in event["message"] for event in short.server.all("events"))
    short.pass_seconds(60)
    await short.round()
    assert short.annotation()["pod"] == "tenant/a"
