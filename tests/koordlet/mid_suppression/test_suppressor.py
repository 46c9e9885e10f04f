"""The suppressor against answers of an API server, second by second, without waiting."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import logging
import types

import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.node_metric.types import NodeMetricSpec
from apiserver_client.watching import WatchState
from koordlet.cluster.pods import PodTable
from koordlet.collectors import pod_pressure
from koordlet.collectors.interface import MeasuredValue
from koordlet.mid_suppression import suppressor
from koordlet.mid_suppression.planner import Change
from koordlet.mid_suppression.suppressor import Suppressor
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import NODE, SYSTEM, SeriesKey, SeriesKind, UsageSample, pod_key
from tests.fakes import apiserver
from tests.koordlet.mid_suppression.suppressed_node import limited, patched

RESIZE = "/api/v1/namespaces/shop/pods/a/resize"
EVENTS = "/api/v1/namespaces/shop/events"
TAKEN = apiserver.Answer({"metadata": {"name": "a", "resourceVersion": "2"}})
RBAC = apiserver.status(403, "Forbidden", 'pods "a" is forbidden: User "x" cannot patch resource "pods/resize" in API')
QUOTA = apiserver.status(403, "Forbidden", 'pods "a" is forbidden: exceeded quota: team-b, requested: limits.cpu=400m')
FENCE = apiserver.status(403, "Forbidden", "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no")
UID = apiserver.status(422, "Invalid", "immutable", name="a", causes=[{"field": "metadata.uid"}])


class Node:
    """A node of ten cores, its observer and its view of the cluster."""

    def __init__(self, *pods, threshold=65, is_enabled=True):
        self.now = 1000.0
        table = PodTable()
        for pod in pods:
            table.put(pod)
        table.keep_only([(pod.namespace, pod.name) for pod in pods])
        self.view = types.SimpleNamespace(
            pods=table,
            watches={"node_metric": WatchState()},
            resource_version="1",
            capacity=WholeAmounts(10_000, 1),
            allocatable=WholeAmounts(9_500, 1),
            spec=None,
        )
        self.view.watches["node_metric"].synced = True
        self.switch(threshold)
        self.observer = types.SimpleNamespace(
            newest={}, newest_at_seconds=None, pods_by_uid={}, collector=types.SimpleNamespace(collectors=())
        )
        self.suppressor = Suppressor(
            self.observer,
            self.view,
            lambda: self.now,
            lambda: dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            is_enabled=is_enabled,
        )
        self.use(9.0)

    def switch(self, threshold, enable=True):
        policy = {"enable": enable, "midSuppressThresholdPercent": threshold}
        self.view.spec = NodeMetricSpec.model_validate({"midColocationPolicy": policy})

    def use(self, prod, pods=types.MappingProxyType({})):
        cores = {NODE: prod + 0.5 + sum(pods.values()), SYSTEM: 0.5}
        cores |= {SeriesKey(SeriesKind.CLASS, PriorityClass.PROD): prod, **{pod_key(uid): pods[uid] for uid in pods}}
        self.observer.newest = {key: UsageSample(used, 0.0) for key, used in cores.items()}

    def plan(self, seconds=1):
        planned = []
        for _ in range(seconds):
            self.now += 1
            self.observer.newest_at_seconds = self.now
            planned += self.suppressor.plan()
        return planned

    async def run(self, server, seconds):
        async with server.session() as api:
            for _ in range(seconds):
                await self.suppressor.send(api, self.plan())


@pytest.fixture
async def server():
    async with apiserver.running() as running:
        yield running


def patches(server):
    return [each for each in server.requests if each.path == RESIZE]


async def test_a_patch_states_limit_uid_version_and_the_writer(server):
    server.on("PATCH", RESIZE, TAKEN)
    node = Node(limited("a", 4000, 1000, originals=(4000, 300)))
    await node.run(server, 6)
    (sent,) = patches(server)
    assert sent.headers["content-type"] == "application/strategic-merge-patch+json"
    assert sent.query == {"fieldManager": "koordlet,c1=300"}
    assert sent.document == {
        "metadata": {"uid": "a", "resourceVersion": "1"},
        "spec": {
            "containers": [
                {"name": "c0", "resources": {"limits": {"cpu": "10m"}}},
                {"name": "c1", "resources": {"limits": {"cpu": "10m"}}},
            ]
        },
    }
    assert node.suppressor.problems() == []


async def test_without_the_right_one_patch_in_five_minutes_and_a_condition(server, caplog):
    server.on("PATCH", RESIZE, RBAC)
    server.on("PATCH", RESIZE.replace("/a/", "/b/"), RBAC)
    node = Node(limited("a", 4000), limited("b", 4000))
    await node.run(server, 304)
    assert len(server.requests) == 1
    assert node.suppressor.problems()[0][0] == "NotPermitted"
    assert [each.levelno for each in caplog.records] == [logging.WARNING]
    await node.run(server, 10)
    assert len(server.requests) == 2
    node.switch(0)
    assert node.suppressor.problems() is None


async def test_a_quota_is_named_in_condition_and_event_and_tried_again_after_growing_pauses(server):
    pod = limited("a", 4000)
    lowered = dataclasses.replace(pod.mid.containers[0], limit_millis=1000)
    server.on("PATCH", RESIZE, QUOTA)
    server.on("POST", EVENTS, TAKEN)
    node = Node(dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, containers=(lowered,))))
    node.use(1.0)
    await node.run(server, 1200)
    assert 4 <= len(patches(server)) <= 12
    ((reason, message),) = node.suppressor.problems()
    assert reason == "QuotaExceeded"
    assert "ResourceQuota shop/team-b" in message
    event = server.asked("POST", EVENTS)[0].document
    assert event["involvedObject"]["uid"] == "a"
    assert "NotIn [koord-mid]" in event["message"]


async def test_events_that_may_not_be_written_cost_nothing(server):
    pod = limited("a", 4000)
    lowered = dataclasses.replace(pod.mid.containers[0], limit_millis=1000)
    server.on("PATCH", RESIZE, QUOTA, TAKEN)
    server.on("POST", EVENTS, RBAC)
    node = Node(dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, containers=(lowered,))))
    node.use(1.0)
    await node.run(server, 100)
    assert len(patches(server)) == 2
    assert node.suppressor.problems() == []


async def test_an_autoscaler_that_sets_cpu_too_is_named_once_with_advice_and_suppression_goes_on(server):
    server.on("PATCH", RESIZE, TAKEN)
    server.on("POST", EVENTS, TAKEN)
    pod = limited("a", 4000)
    node = Node(dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, autoscaler="VerticalPodAutoscaler shop/web")))
    await node.run(server, 6)
    raised = dataclasses.replace(pod.mid, autoscaler="VerticalPodAutoscaler shop/web", resource_version="9")
    node.view.pods.put(dataclasses.replace(pod, mid=raised))
    await node.run(server, 20)
    assert len(patches(server)) == 2, "the autoscaler has set the limit again"
    (event,) = (each.document for each in server.asked("POST", EVENTS))
    assert (event["reason"], event["involvedObject"]["uid"]) == ("CPUAutoscaled", "a")
    assert "VerticalPodAutoscaler shop/web" in event["message"]
    assert "controlledResources [memory]" in event["message"]
    assert node.suppressor.problems() == [
        ("CPUAutoscaled", "an autoscaler sets CPU of Mid pods too: shop/a (VerticalPodAutoscaler shop/web)")
    ]


@pytest.mark.parametrize("answer", [FENCE, apiserver.status(422, "Invalid", "QOS class may not change", name="a")])
async def test_a_refusal_of_one_pod_does_not_hold_up_the_others(server, answer):
    server.on("PATCH", RESIZE, answer)
    server.on("PATCH", "/api/v1/namespaces/shop/pods/b/resize", TAKEN)
    node = Node(limited("a", 4000), limited("b", 4000))
    await node.run(server, 10)
    assert len(server.requests) == 2
    ((reason, message),) = node.suppressor.problems()
    assert reason == "ResizeRefused"
    assert message.startswith("shop/a: ")


@pytest.mark.parametrize(
    "answer",
    [
        apiserver.status(409, "Conflict", "modified", name="a"),
        apiserver.status(404, "NotFound", "gone", name="a"),
        UID,
    ],
)
async def test_a_pod_that_changed_or_went_is_no_problem_until_it_happens_each_time(server, answer, caplog):
    server.on("PATCH", RESIZE, answer)
    node = Node(limited("a", 4000))
    await node.run(server, 34)
    assert len(patches(server)) == 2, "after 10 s"
    assert node.suppressor.problems() == []
    await node.run(server, 600)
    assert len(patches(server)) == 7, "after 20, 40, 80, 160 and 300 s"
    ((reason, message),) = node.suppressor.problems()
    assert reason == "ResizeRefused"
    assert message.startswith("shop/a: the pod changes before each patch of it arrives: ")
    assert len(caplog.records) == 1


async def test_an_api_server_that_fails_is_left_alone_for_as_long_as_it_asks(server):
    server.on("PATCH", RESIZE, apiserver.status(429, "TooManyRequests", "busy", retry_after="30"), TAKEN)
    node = Node(limited("a", 4000))
    await node.run(server, 33)
    assert len(patches(server)) == 1
    await node.run(server, 10)
    assert len(patches(server)) == 2


async def test_after_an_api_server_was_busy_patches_go_on_at_half_the_pace(monkeypatch):
    seconds, answers = [], [suppressor.SentResize(suppressor.ResizeOutcome.UNREACHABLE, "429", retry_after_seconds=20)]

    async def send(_api, change):
        seconds.append(node.now)
        node.view.pods.put(patched(change.pod, change))
        return answers.pop() if answers else suppressor.SentResize(suppressor.ResizeOutcome.PATCHED)

    monkeypatch.setattr(suppressor, "send", send)
    node = Node(*(limited(f"p{index:02}", 200) for index in range(40)))
    for _ in range(60):
        await node.suppressor.send(None, node.plan())
    assert seconds[1] - seconds[0] >= 20
    assert [seconds.count(second) for second in sorted(set(seconds))][1:] == [5] * 7 + [4]


async def test_while_a_plan_is_sent_samples_count_and_nothing_else_is_planned(monkeypatch):
    """An API server that answers late must not make one second of load count for all of that time."""
    answered = asyncio.Event()

    async def late(api, change):
        await answered.wait()
        return suppressor.SentResize(suppressor.ResizeOutcome.PATCHED)

    monkeypatch.setattr(suppressor, "send", late)
    node = Node(limited("a", 4000), limited("b", 2000))
    sending = asyncio.create_task(node.suppressor.send(None, node.plan(5)[:1]))
    await asyncio.sleep(0)
    node.use(1.0)
    assert node.plan(9) == []
    answered.set()
    await sending
    node.use(9.0)
    assert node.plan(1) == []
    assert len(node.plan(5)) > 0


def test_switched_off_a_tick_plans_nothing_and_looks_at_no_sample():
    node = Node(limited("a", 4000), threshold=0)
    node.observer.newest = None
    assert node.plan(60) == []
    assert node.suppressor.problems() is None


@pytest.mark.parametrize("way", ["threshold", "enable", "deleted"])
def test_switched_off_lowered_limits_rise(way):
    pod = limited("a", 4000)
    lowered = dataclasses.replace(pod.mid.containers[0], limit_millis=1000)
    node = Node(dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, containers=(lowered,))))
    if way == "deleted":
        node.view.resource_version = None
    else:
        node.switch(65 * (way == "enable"), enable=way == "threshold")
    changes = node.plan(40)
    assert changes[0].limits == {"c0": 1400}


def half_lowered():
    pod = limited("a", 4000)
    lowered = dataclasses.replace(pod.mid.containers[0], limit_millis=1000)
    return dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, containers=(lowered,)))


def test_without_the_setting_a_busy_node_is_no_problem_and_nothing_is_sent():
    node = Node(limited("a", 4000), is_enabled=False)
    assert (node.plan(60), node.suppressor.problems(), node.suppressor.threshold_percent()) == ([], None, 0)


async def test_limits_that_it_may_not_restore_are_stated_while_suppression_is_off(server):
    """The right was taken away, by an upgrade without its hook."""
    server.on("PATCH", RESIZE, RBAC)
    node = Node(half_lowered(), threshold=0)
    await node.run(server, 40)
    assert [reason for reason, _ in node.suppressor.problems()] == ["NotPermitted"]
    node.view.pods.put(limited("a", 4000))
    await node.run(server, 1)
    assert node.suppressor.problems() is None


async def test_of_a_plan_that_is_under_way_nothing_is_lowered_once_suppression_is_off(server):
    """An uninstallation deletes the NodeMetric, and restores limits a moment later."""
    server.on("PATCH", RESIZE, TAKEN)
    node = Node(limited("a", 4000), limited("b", 2000))
    changes = node.plan(5)
    assert len(changes) == 2
    node.view.resource_version = None
    async with server.session() as api:
        await node.suppressor.send(api, changes)
    assert server.requests == []


def test_switched_on_usage_has_to_be_above_the_threshold_for_five_seconds():
    """Nothing was sampled while it was off: the newest sample is that of one second."""
    node = Node(limited("a", 4000), threshold=0)
    node.use(1.0)
    assert node.plan(60) == []
    node.switch(65)
    node.use(9.0)
    assert node.plan(3) == []
    assert [each.limits for each in node.plan(3)] == [{"c0": 10}]


@pytest.mark.parametrize("unknown", ["pods", "node_metric"])
def test_before_the_cluster_is_known_nothing_changes(unknown):
    node = Node(limited("a", 4000))
    if unknown == "pods":
        node.view.pods.synced = False
    else:
        node.view.watches["node_metric"].synced = False
    assert node.plan(60) == []


def test_short_pods_one_after_the_other_do_not_switch_suppression_off():
    """While one is new, or has just ended, neither the system nor the sum of its class is measured."""
    node = Node(limited("a", 4000))
    cores = {NODE: 9.5, pod_key("web"): 8.0, pod_key("a"): 1.0}
    node.observer.newest = {key: UsageSample(used, 0.0) for key, used in cores.items()}
    assert [each.limits for each in node.plan(5)] == [{"c0": 10}]
    assert node.suppressor.problems() == []


class PodWaits:
    """The counter of one pod that waits for a CPU all the time, read once a minute."""

    name, metrics = "waits", (pod_pressure.WAITED_SECONDS,)

    def __init__(self, node, uid):
        self.node, self.uid = node, uid

    def measurements(self, metric):
        return [MeasuredValue(self.node.now // 60 * 60, ("cpu", kind), self.uid) for kind in ("some", "full")]


@pytest.mark.parametrize(("priority_class", "is_lowered"), [(PriorityClass.PROD, True), (PriorityClass.MID, False)])
def test_a_prod_pod_that_waits_for_a_cpu_lowers_limits_below_the_threshold(priority_class, is_lowered):
    node = Node(limited("a", 4000))
    node.use(4.0)
    assert node.plan(200) == []
    node.observer.pods_by_uid = {"web": dataclasses.replace(limited("web"), priority_class=priority_class, mid=None)}
    node.observer.collector.collectors = (PodWaits(node, "web"),)
    assert bool(node.plan(200)) is is_lowered


def test_a_clock_that_is_set_changes_nothing():
    """Samples have wall time, plans have monotonic time."""
    node = Node(limited("a", 4000))
    node.plan(2)
    for step in (-86400, 86400, 0):
        node.now += 1
        node.observer.newest_at_seconds = node.now + step
        changes = node.suppressor.plan()
    assert [each.limits for each in changes] == [{"c0": 10}]


@pytest.mark.parametrize("problem", ["Infeasible", "Deferred", "Error"])
async def test_a_resize_that_the_kubelet_does_not_do_is_stated_logged_once_and_exempts_from_nothing(
    server, caplog, problem
):
    server.on("PATCH", RESIZE, TAKEN)
    pod = limited("a", 4000)
    node = Node(dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, resize_problem=problem)))
    await node.run(server, 20)
    node.view.pods.version += 1
    node.plan(1)
    assert len(patches(server)) == 1
    assert node.suppressor.problems() == [
        ("ResizeNotDone", f"the kubelet does not do the resize of shop/a ({problem})")
    ]
    assert len(caplog.records) == 1


def without_limits(why):
    pod = limited("stubborn")
    return dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, unlimited=why))


STUBBORN = {
    "BestEffort": (without_limits("BestEffort"), apiserver.Answer({})),
    "Infeasible": (limited("stubborn", 3000), TAKEN),
    "its limits do not hold": (limited("stubborn", 3000), FENCE),
}


@pytest.mark.parametrize("why", STUBBORN)
async def test_other_mid_pods_pay_for_usage_that_cannot_be_lowered_and_its_pod_is_named(server, monkeypatch, why):
    """Of 6.5 cores Prod uses 1, the system half a core, and one Mid pod 3, whatever is done: 2 are left."""
    stubborn, answer = STUBBORN[why]

    async def send(_api, change):
        if change.pod.name == "a" or answer is TAKEN:
            after = patched(node.view.pods.by_uid()[change.pod.uid], change)
            problem = why if change.pod.name == "stubborn" else ""
            node.view.pods.put(dataclasses.replace(after, mid=dataclasses.replace(after.mid, resize_problem=problem)))
        refused = change.pod.name != "a" and answer is FENCE
        return suppressor.SentResize(suppressor.ResizeOutcome[("PATCHED", "REFUSED")[refused]], "no")

    monkeypatch.setattr(suppressor, "send", send)
    node = Node(limited("a", 4000), stubborn)
    for _ in range(200):
        limit = node.view.pods.by_uid()["a"].mid.containers[0].limit_millis / 1000
        node.use(1.0, {"a": limit, "stubborn": 3.0})
        await node.suppressor.send(None, node.plan())
    assert 1600 <= node.view.pods.by_uid()["a"].mid.containers[0].limit_millis <= 2400, "2000 and the dead band"
    (message,) = (text for reason, text in node.suppressor.problems() if reason == "UsageBeyondLimits")
    assert "shop/stubborn (" in message
    assert why in message
    assert "shop/a" not in message


def test_a_pod_whose_native_request_holds_its_limit_up_is_named():
    pod = limited("a", 4000, floor=2001)
    mid = dataclasses.replace(pod.mid, unlimited="native requests of cpu")
    node = Node(patched(dataclasses.replace(pod, mid=mid), Change(pod, {"c0": 2001}, is_lowering=True)))
    node.plan(10)
    ((reason, message),) = node.suppressor.problems()
    assert reason == "UsageBeyondLimits"
    assert message.endswith("shop/a (2 cores: native requests of cpu)")


def test_a_limit_that_was_just_lowered_is_not_taken_for_one_that_does_not_hold():
    """The mean of the last seconds is above it, and the kubelet may need a moment."""
    node = Node(limited("a", 4000), limited("b", 2000))
    node.use(1.0, {"a": 4.0, "b": 2.0})
    first = node.plan(6)
    for change in first:
        node.suppressor.planner.sent(node.now, change)
        node.suppressor.planner.done(change)
        node.view.pods.put(patched(change.pod, change))
    node.plan(5)
    assert node.suppressor.planner.usage.beyond_limits == 0.0
    node.plan(10)
    assert node.suppressor.planner.usage.beyond_limits > 0.5


async def test_nothing_is_kept_of_a_pod_that_is_gone(server, caplog):
    server.on("PATCH", RESIZE, FENCE)
    node = Node(limited("a", 4000))
    await node.run(server, 10)
    assert [reason for reason, _ in node.suppressor.problems()] == ["ResizeRefused"]
    node.view.pods.drop("shop", "a")
    await node.run(server, 1)
    assert node.suppressor.problems() == []
    node.view.pods.put(limited("a", 4000))
    await node.run(server, 1)
    assert len(caplog.records) == 2, "it is another pod of that name"


def test_what_the_node_reserves_is_left_to_the_system():
    """Of 6.5 cores Prod uses 3 and the system reserves 2: 1.5 are left."""
    node = Node(limited("a", 4000))
    node.view.allocatable = node.view.allocatable._replace(cpu_millis=8_000)
    node.use(3.0)
    node.plan(10)
    assert node.suppressor.planner.allowed_millis == 1500


@pytest.mark.parametrize("outcome", [suppressor.ResizeOutcome.CONFLICT, suppressor.ResizeOutcome.PATCHED])
async def test_pods_that_change_at_once_leave_the_budget_to_the_others(monkeypatch, outcome):
    """Their authors write an annotation before each patch, or raise the limit after it."""

    async def send(_api, change):
        is_greedy = change.pod.name.startswith("g")
        raised = dataclasses.replace(change.pod.mid, resource_version=str(int(change.pod.mid.resource_version) + 1))
        node.view.pods.put(dataclasses.replace(change.pod, mid=raised) if is_greedy else patched(change.pod, change))
        return suppressor.SentResize(outcome if is_greedy else suppressor.ResizeOutcome.PATCHED)

    monkeypatch.setattr(suppressor, "send", send)
    greedy_pods = [limited(f"g{index:02}", 4000) for index in range(40)]
    node = Node(*greedy_pods, *(limited(f"o{index}", 500) for index in range(8)))
    for _ in range(240):
        await node.suppressor.send(None, node.plan())
    limits = {pod.mid.containers[0].limit_millis for pod in node.view.pods.active() if pod.name.startswith("o")}
    assert limits == {10}


async def test_the_rest_of_a_plan_that_took_ten_seconds_is_dropped(monkeypatch):
    pods = []

    async def send_slowly(_api, change):
        pods.append(change.pod.name)
        node.now += 10
        return suppressor.SentResize(suppressor.ResizeOutcome.PATCHED)

    monkeypatch.setattr(suppressor, "send", send_slowly)
    node = Node(limited("a", 4000), limited("b", 2000))
    await node.suppressor.send(None, node.plan(5))
    assert pods == ["a"]
