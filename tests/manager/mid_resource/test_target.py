"""Floor of a withdrawal, and while less is calculated than Mid pods request: it protects pods and admits none."""

import datetime as dt

import msgspec
import pytest

from api_types.kubernetes import pods
from manager.mid_resource import target
from tests.fakes import cluster
from tests.manager.conftest import MID, NAMESPACE, World, allocated, amounts, mid_pod, used

HOUR_AGO, SOON = "2026-11-21T11:00:00Z", "2026-11-21T12:00:30Z"


async def started(world, **document):
    world.configure({"enable": True, **document})
    await world.config.start()
    world.add_node()
    await world.settle()


async def reported(world, peak="2", memory="6k", mid=0, **more):
    """Report after a minute that Mid pods request so many milli-cores and as many bytes."""
    world.now += dt.timedelta(seconds=60)
    held = allocated(mid_cpu=mid, mid_memory=mid)
    world.report(**{"allocated": held, "prodPeakMetric": amounts(peak, memory), **more})
    return await world.settle()


async def configure(world, **document):
    world.configure({"enable": True, **document})
    await world.config.refresh()


def add(world, name, cpu=1_000, **more):
    world.server.add("pods", mid_pod(name, cpu, cpu, **more), NAMESPACE)


def pod_lists(world):
    return [each for each in world.server.requests if each.path.endswith("/pods") and each.method == "GET"]


def new_leader(world):
    later = World(world.server, world.api)
    later.now, later.config = world.now, world.config
    return later


async def test_memory_that_a_best_effort_pod_uses_is_not_offered(world):
    await started(world)
    busy = used(prod=("2", "10k"), batch_and_free=("5", "9k"), system=("0", "500"))
    await reported(world, memory="10k", usage=busy)
    assert world.mid_of() == (6_000, 500)
    line = world.mid_status()["resources"][MID[1]]
    assert (line["reclaimable"], line["unused"], line["calculated"]) == (6_000, 500, 500)


async def test_the_unallocated_share_is_offered_without_a_prediction(world):
    await started(world, midUnallocatedPercent=50)
    await reported(world, prodPeakMetric=None)
    assert world.mid_of() == (1_000, 2_000)
    assert world.mid_status()["reason"] == "CalculatedWithoutPrediction"
    assert world.mid_status()["resources"][MID[0]]["source"] == "none"


async def test_a_share_without_prediction_is_not_kept_as_if_it_were_predicted(world):
    await started(world, midUnallocatedPercent=50)
    await reported(world, prodPeakMetric=None)
    await reported(world, prodPeakMetric=None, allocated=allocated(prod_cpu="9"))
    assert world.mid_of() == (500, 2_000)
    later = new_leader(world)
    await reported(later, prodPeakMetric=None, allocated=allocated(prod_cpu="10"))
    assert later.mid_of() == (0, 2_000)


async def test_a_pod_bound_by_its_author_does_not_make_a_node_publish_more_than_it_has(world):
    await started(world, midCPUThresholdPercent=50)
    await reported(world)
    add(world, "greedy", 10**9, admitted=False)
    world.now += dt.timedelta(minutes=20)
    await world.settle()
    assert world.mid_of() == ()
    await reported(world, mid=10**9)  # an agent that counted it all the same
    assert world.mid_of() == (5_000, 10_000)


async def test_an_absurd_request_in_a_report_is_clamped_to_the_capacity(world):
    await started(world, midCPUThresholdPercent=50)
    await reported(world, mid=10**9)
    assert world.mid_of() == (10_000, 20_000)
    line = world.mid_status()["resources"][MID[0]]
    assert (line["allocatedMid"], line["floor"], line["calculated"]) == (10**9, 10_000, 5_000)


async def test_a_withdrawal_counts_a_pod_that_was_bound_after_the_last_list(world):
    await started(world)
    await reported(world, allocated=None)  # of an agent that reports no requests: the pods are listed
    assert len(pod_lists(world)) == 1
    add(world, "just-bound", 300)
    world.now += dt.timedelta(seconds=1)
    await configure(world, enable=False)
    await world.settle()
    assert world.mid_of() == (300, 300)
    world.now += dt.timedelta(seconds=1)
    await world.settle()
    assert len(pod_lists(world)) == 2


async def test_a_withdrawal_counts_only_pods_that_were_bound_before_it(world):
    await started(world)
    await reported(world)
    add(world, "old")
    add(world, "slipped-in", 2_000, bound_at="2026-11-21T12:05:00Z")
    await configure(world, enable=False)
    await world.settle()
    assert world.mid_of() == (1_000, 1_000)
    status = world.mid_status()
    assert status["floorBefore"] == "2026-11-21T12:01:00Z"
    assert status["resources"][MID[0]]["allocatedMid"] == 3_000


async def test_the_start_of_a_withdrawal_survives_a_change_of_the_leader_and_of_the_reason(world):
    await started(world)
    await reported(world)
    add(world, "old")
    await configure(world, enable=False)
    await world.settle()
    later = new_leader(world)
    later.now += dt.timedelta(minutes=20)
    add(later, "slipped-in", bound_at="2026-11-21T12:02:00Z")
    await configure(later)
    await later.settle()
    status = later.mid_status()
    assert (status["reason"], status["floorBefore"]) == ("SampleTooOld", "2026-11-21T12:01:00Z")
    assert later.mid_of() == (1_000, 1_000)


async def test_a_failing_pod_list_delays_no_withdrawal(world):
    await started(world)
    await reported(world, mid=700)
    world.server.refuse["GET", "pods"] = cluster.Refusal(403, "Forbidden")
    await configure(world, enable=False)
    await world.settle()
    assert world.mid_of() == (700, 700)  # of the last snapshot
    later = new_leader(world)
    later.now += dt.timedelta(minutes=20)
    await later.settle()
    assert later.mid_of() == (700, 700)  # of the annotation
    del world.server.refuse["GET", "pods"]
    later.now += dt.timedelta(seconds=31)
    await later.settle()
    assert later.mid_of() == ()


async def test_a_failing_pod_list_leaves_the_floor_of_the_annotation_with_upstreams_agent(world):
    await started(world)
    add(world, "p", 700)
    upstream = {"allocated": None, "prodPeakMetric": None}
    await reported(world, **upstream, prodReclaimableMetric=amounts("6", "6k"))
    world.server.refuse["GET", "pods"] = cluster.Refusal(403, "Forbidden")
    later = new_leader(world)
    await reported(later, **upstream, prodReclaimableMetric=amounts("0", "0"))
    assert later.mid_of() == (700, 700)


async def test_one_short_sample_costs_neither_a_list_nor_a_write(world):
    await started(world)
    await reported(world, mid=6_000)
    writes = len(world.server.writes)
    await reported(world, peak="2100m", mid=6_000)  # 5900: noise
    assert (len(pod_lists(world)), len(world.server.writes)) == (0, writes)
    await reported(world, mid=6_000)
    await reported(world, peak="2100m", mid=6_000)
    assert (len(pod_lists(world)), len(world.server.writes)) == (0, writes)


async def test_while_less_is_calculated_than_requested_a_new_pod_is_not_in_the_floor(world):
    await started(world)
    await reported(world, mid=5_000)
    for index in range(5):
        add(world, f"p{index}", bound_at=HOUR_AGO)
    await reported(world, peak="8", memory="16k", mid=5_000)
    assert world.mid_of() == (5_000, 5_000)
    world.server.remove("pods", "p0", NAMESPACE)
    add(world, "slipped-in", bound_at="2026-11-21T12:02:30Z")
    await reported(world, peak="8", memory="16k", mid=5_000)
    assert world.mid_of() == (4_000, 4_000)
    status = world.mid_status()
    assert status["floorBefore"] == "2026-11-21T12:02:00Z"
    assert (status["status"], status["resources"][MID[0]]["boundBefore"]) == ("True", 4_000)
    for floor, offered in (("none", (0, 0)), ("allocated", (4_000, 4_000))):  # it begins no other time
        await configure(world, midFloor=floor)
        await reported(world, peak="8", memory="16k", mid=5_000)
        assert world.mid_of() == offered
    later = new_leader(world)
    await reported(later, peak="8", memory="16k", mid=5_000)
    assert (later.mid_of(), later.mid_status()["floorBefore"]) == ((4_000, 4_000), "2026-11-21T12:02:00Z")
    await reported(later, mid=5_000)  # enough again
    assert later.mid_of() == (6_000, 10_000)
    assert "floorBefore" not in later.mid_status()


async def test_pods_are_listed_once_a_sample_or_30_seconds_in_every_state(world):
    await started(world)
    await reported(world)
    add(world, "p")
    await configure(world, enable=False)
    for beat in range(10):
        world.server.patch("nodes", "n1", {"status": {"heartbeat": str(beat)}})
        await world.settle()
    assert len(pod_lists(world)) == 1
    for _ in range(10):
        world.now += dt.timedelta(seconds=10)
        await world.settle()
    assert len(pod_lists(world)) == 1 + 3
    assert pod_lists(world)[-1].query == {"fieldSelector": "spec.nodeName=n1", "resourceVersion": "0"}
    await configure(world)
    for count in (1, 2, 3):
        await reported(world, peak="8", memory="16k", mid=1_000)
        for _ in range(5):
            await world.settle()
        assert len(pod_lists(world)) == 4 + count


async def test_a_node_that_takes_no_part_costs_no_pod_list(world):
    await started(world)
    world.now += dt.timedelta(minutes=20)
    await world.settle()
    assert world.mid_status()["reason"] == "NeverReported"
    for beat in range(10):
        world.now += dt.timedelta(seconds=60)
        world.server.patch("nodes", "n1", {"status": {"heartbeat": str(beat)}})
        await world.settle()
    assert pod_lists(world) == []


async def test_a_key_that_another_client_removes_in_a_withdrawal_returns_to_the_floor(world):
    await started(world)
    await reported(world)
    add(world, "p")
    await configure(world, enable=False)
    await world.settle()
    gone = dict.fromkeys(MID)
    world.server.patch("nodes", "n1", {"status": {"capacity": gone, "allocatable": gone}})
    await world.settle()
    assert world.mid_of() == (1_000, 1_000)


@pytest.mark.parametrize(("peak", "taints"), [("8", []), ("2", [{"key": "karpenter.sh/disrupted"}])])
async def test_a_node_shrinks_where_one_resource_is_short_or_requested_alone(world, peak, taints):
    await started(world)
    world.server.add("pods", mid_pod("p", 1_000, 0, bound_at=HOUR_AGO), NAMESPACE)
    held = allocated(mid_cpu=1_000, mid_memory=0)
    await reported(world, allocated=held)
    world.server.patch("nodes", "n1", {"spec": {"taints": taints}})
    began = world.now + dt.timedelta(seconds=60)
    for _ in range(2):
        await reported(world, peak=peak, allocated=held)
    assert world.mid_status()["floorBefore"] == f"{began:%Y-%m-%dT%H:%M:%SZ}"
    assert world.mid_of()[0] == 1_000


async def test_a_large_fall_is_an_event_and_a_small_one_is_not(world):
    await started(world)
    await reported(world)
    await reported(world, peak="3", memory="8k")  # a tenth of the node
    reduced = ("n1", "Normal", "MidResourceReduced")
    assert reduced not in world.events()
    await reported(world, peak="4001m", memory="8k", mid=300)
    assert reduced in world.events()
    (event,) = [each for each in world.server.all("events") if each["reason"] == "MidResourceReduced"]
    assert (
        "kubernetes.io/mid-cpu from 5 cores to 3.999 cores of 10 cores (Mid pods request 0.3 cores)" in event["message"]
    )
    assert "memory" not in event["message"]


async def test_the_gauges_show_what_is_published_beside_the_target_and_its_terms(world):
    await started(world, resourceDiffThreshold=0.5, updateTimeThresholdSeconds=86_400)
    await reported(world)
    await reported(world, peak="4500m", mid=200)
    assert world.mid_of()[0] == 6_000
    value = world.telemetry.registry.get_sample_value
    node = {"node": "n1"}
    assert value("koord_manager_node_mid_cpu_cores", node) == 6.0
    assert value("koord_manager_node_mid_cpu_target_cores", node) == 3.5
    assert value("koord_manager_node_mid_memory_target_bytes", node) == 10_000
    for term, amount in (("reclaimable", 3.5), ("unused", 10), ("calculated", 3.5), ("allocated", 0.2), ("floor", 0.2)):
        assert value("koord_manager_node_mid_cpu_term_cores", {**node, "term": term}) == amount
    world.mid.forget("n1")
    assert value("koord_manager_node_mid_cpu_target_cores", node) is None


def node_writes(world):
    return [path for _, path, _ in world.server.writes if "/nodes/" in path]


async def test_shadow_calculates_and_exports_and_writes_nothing_to_the_node(world):
    await started(world, midPublish="shadow", midMaxIncreasePercent=10)
    before = world.server.get("nodes", "n1")
    await reported(world)
    await reported(world, peak="3")
    world.now += dt.timedelta(minutes=20)
    await world.settle()
    await configure(world, enable=False, midPublish="shadow")
    await world.settle()
    assert node_writes(world) == []
    assert world.server.get("nodes", "n1") == before
    await configure(world, midPublish="shadow")
    await reported(world, peak="3")
    value = world.telemetry.registry.get_sample_value
    assert value("koord_manager_node_mid_cpu_target_cores", {"node": "n1"}) == 5.0
    assert value("koord_manager_node_mid_cpu_cores", {"node": "n1"}) is None


async def test_shadow_leaves_the_keys_of_another_manager_alone(world):
    await started(world, midPublish="shadow")
    theirs = {MID[0]: "123", MID[1]: "456"}
    world.server.patch("nodes", "n1", {"status": {"capacity": theirs, "allocatable": theirs}})
    await reported(world)
    world.now += dt.timedelta(minutes=20)
    await world.settle()
    assert node_writes(world) == []
    assert pod_lists(world) == []


async def test_a_node_that_publishes_is_withdrawn_once_when_it_is_switched_to_shadow(world):
    await started(world)
    await reported(world)
    add(world, "p")
    await configure(world, midPublish="shadow")
    await world.settle()
    assert (world.mid_of(), world.mid_status()["reason"]) == ((1_000, 1_000), "Shadow")
    world.server.remove("pods", "p", NAMESPACE)
    world.now += dt.timedelta(seconds=31)
    await world.settle()
    assert (world.mid_of(), world.mid_status()) == ((), None)
    writes = len(node_writes(world))
    await reported(world)
    assert len(node_writes(world)) == writes


def tenant_pod(name, requests, **more):
    containers = [{"name": "c", "resources": {"requests": requests}}]
    pod = mid_pod(name)
    return {**pod, "spec": {**pod["spec"], "containers": containers, **more}}


@pytest.mark.parametrize("text", ["1".zfill(65), "1e0003", "1e9999", "18446744073709551616"])
async def test_no_text_of_a_tenant_delays_the_withdrawal(world, text):
    await started(world)
    await reported(world, mid=500)
    add(world, "m", 500)
    world.server.add("pods", tenant_pod("odd", {"memory": text}, priority=0), "any-tenant")
    await configure(world, enable=False)
    await world.settle()
    assert world.mid_of() == (500, 500)


async def test_mid_pods_with_an_unknown_amount_keep_what_is_left_of_the_last_floor(world):
    readable, *unknown = [
        msgspec.convert(tenant_pod(name, {MID[0]: cpu, MID[1]: "100"}), type=pods.Pod)
        for name, cpu in (("a", "300"), ("b", "1e30"), ("c", "x"))
    ]
    assert target.summed([readable, *unknown], (), {MID[0]: 1000, MID[1]: 50}).requests().mid == {
        MID[0]: 1000,
        MID[1]: 300,
    }
    assert target.summed([readable, *unknown], (), {MID[0]: 200}).requests().mid == {MID[0]: 300, MID[1]: 300}


async def test_an_unknown_amount_of_a_prod_pod_leaves_nothing_unallocated(world):
    await started(world, midUnallocatedPercent=50)
    world.server.add("pods", tenant_pod("odd", {"memory": "1e30"}, priority=9000), "any-tenant")
    await reported(world, allocated=None, prodReclaimableMetric=amounts("1", "1k"), prodPeakMetric=None)
    assert world.mid_of() == (6_000, 1_000)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": f"c{index}"} for index in range(3000)]},
        {"containers": [{"name": "c", "resources": {"requests": {f"a.b/{index}": "1" for index in range(9000)}}}]},
    ],
    ids=["containers", "resources"],
)
async def test_a_list_keeps_of_a_huge_pod_what_decides(world, spec):
    pod = tenant_pod("huge", {MID[0]: "1.0e3"})
    pod["spec"]["containers"] += spec["containers"]
    world.server.add("pods", pod, NAMESPACE)
    (result,) = await target.bound_pods(world.api, "n1", pods.Pod)
    assert pods.requests(result.spec) == {MID[0]: 1000}
    assert len(msgspec.json.encode(result)) < 1000
