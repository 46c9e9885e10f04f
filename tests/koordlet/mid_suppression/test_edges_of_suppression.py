"""Edges of the suppressor: what it counts and logs, usage at the threshold, a node of unknown size, equal times."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster.pods import PodTable
from koordlet.metric_cache import series
from koordlet.mid_suppression import node_usage, suppressor
from koordlet.mid_suppression.node_usage import Members, NodeUsage, RecentUsage
from koordlet.mid_suppression.prod_waits import CpuWaits
from koordlet.mid_suppression.resize import Outcome
from koordlet.samples import NODE, SYSTEM, UsageSample, pod_key
from tests.fakes import apiserver
from tests.koordlet.mid_suppression.suppressed_node import limited
from tests.koordlet.mid_suppression.test_suppressor import (
    EVENTS,
    FENCE,
    QUOTA,
    RBAC,
    RESIZE,
    TAKEN,
    Node,
    PodWaits,
    half_lowered,
)


@pytest.fixture
async def server():
    async with apiserver.running() as running:
        yield running


def counted(node):
    return {key: count for key, count in node.suppressor.counts.patches.items() if count}


@pytest.mark.parametrize(("answer", "seconds"), [(RBAC, 310), (FENCE, 20)])
async def test_a_missing_right_and_a_refusal_are_logged_once_although_the_pods_change(server, caplog, answer, seconds):
    server.on("PATCH", RESIZE, answer)
    node = Node(limited("a", 4000))
    await node.run(server, 10)
    node.view.pods.put(limited("b", 10))
    await node.run(server, seconds)
    assert len(server.requests) >= 2
    assert len(caplog.records) == 1


async def test_nothing_is_kept_of_a_pod_that_is_gone(server, caplog):
    server.on("PATCH", RESIZE, FENCE)
    node = Node(limited("a", 4000))
    await node.run(server, 10)
    assert [reason for reason, _ in node.suppressor.problems()] == ["ResizeRefused"]
    node.view.pods.drop("shop", "a")
    await node.run(server, 1)
    assert node.suppressor.problems() == []
    assert (node.suppressor._refusals, node.suppressor._logged) == ({}, set())
    node.view.pods.put(limited("a", 4000))
    await node.run(server, 1)
    assert len(caplog.records) == 2, "it is another pod of that name"


async def test_every_patch_is_counted_by_its_direction_and_outcome(server):
    server.on("PATCH", RESIZE, apiserver.status(409, "Conflict", "modified", name="a"), TAKEN)
    node = Node(limited("a", 4000))
    await node.run(server, 20)
    assert counted(node) == {("down", Outcome.CONFLICT): 1, ("down", Outcome.PATCHED): 1}


async def test_a_patch_that_raises_a_limit_is_counted_as_up(server):
    server.on("PATCH", RESIZE, TAKEN)
    node = Node(half_lowered(), threshold=0)
    await node.run(server, 40)
    assert counted(node) == {("up", Outcome.PATCHED): 1}


def test_switched_off_the_limits_of_one_pod_rise_beside_pods_that_are_not_lowered():
    node = Node(half_lowered(), limited("b", 4000), dataclasses.replace(limited("web"), mid=None), threshold=0)
    assert [change.pod.name for change in node.plan(31)] == ["a"]


def test_pods_with_a_limit_below_their_original_are_counted():
    node = Node(half_lowered(), limited("b", 4000))
    assert (node.suppressor.lowered_pods, node.suppressor.mid_pods) == (0, ()), "before the first plan"
    node.plan()
    assert node.suppressor.lowered_pods == 1
    assert [pod.name for pod in node.suppressor.mid_pods] == ["a", "b"]


@pytest.mark.parametrize("unknown", ["capacity", "allocatable"])
def test_nothing_is_planned_while_the_size_of_the_node_is_unknown(unknown):
    node = Node(limited("a", 4000))
    known = getattr(node.view, unknown)
    setattr(node.view, unknown, None)
    assert node.plan(20) == []
    assert [reason for reason, _ in node.suppressor.problems()] == ["NoData"]
    setattr(node.view, unknown, known)
    assert node.plan(5) == [], "the time without a size counts as unknown, and 5 s of usage are wanted"
    assert node.plan(5)


@pytest.mark.parametrize(("prod", "is_lowered"), [(6.0, False), (6.01, True)])
def test_usage_at_the_threshold_is_not_above_it(prod, is_lowered):
    """Of ten cores, 65 % are 6.5, and the system uses 0.5."""
    node = Node(limited("a", 4000))
    node.use(prod)
    assert bool(node.plan(20)) is is_lowered


def test_what_the_node_reserves_is_left_to_the_system():
    """Of 6.5 cores Prod uses 3 and the system reserves 2: 1.5 are left."""
    node = Node(limited("a", 4000))
    node.view.allocatable = node.view.allocatable._replace(cpu_millis=8_000)
    node.use(3.0)
    node.plan(10)
    assert node.suppressor.planner.allowed_millis == 1500


def test_a_node_that_allocates_more_than_its_capacity_reserves_nothing():
    """Of 6.5 cores Prod uses 3 and the system none: 3.5 are left."""
    node = Node(limited("a", 4000))
    node.view.allocatable = node.view.allocatable._replace(cpu_millis=20_000)
    node.use(3.0)
    node.observer.newest |= {NODE: UsageSample(3.0, 0.0), SYSTEM: UsageSample(0.0, 0.0)}
    node.plan(10)
    assert node.suppressor.planner.allowed_millis == 3500


def test_a_sample_without_the_usage_of_the_node_is_no_data():
    node = Node(limited("a", 4000))
    del node.observer.newest[NODE]
    assert node.plan(10) == []
    assert [reason for reason, _ in node.suppressor.problems()] == ["NoData"]


def test_waits_of_pods_are_read_every_five_seconds():
    """The first plan reads them, at second 1; then those of second 6, 11 and 16."""
    node = Node(limited("a", 4000))
    read = []

    class Counting(PodWaits):
        def measurements(self, metric):
            read.append(self.node.now - 1000.0)
            return super().measurements(metric)

    node.observer.collector.collectors = (Counting(node, "web"),)
    node.plan(20)
    assert sorted(set(read)) == [1.0, 6.0, 11.0, 16.0]


@pytest.mark.parametrize(("reason", "lines"), [("AlreadyExists", 0), ("Forbidden", 1)])
async def test_an_event_that_exists_is_not_logged_and_a_refused_one_is_for_debugging(server, caplog, reason, lines):
    caplog.set_level(logging.DEBUG, logger=suppressor.log.name)
    status = 409 if reason == "AlreadyExists" else 403
    server.on("PATCH", RESIZE, QUOTA)
    server.on("POST", EVENTS, apiserver.status(status, reason, "no", name="a"))
    node = Node(half_lowered(), threshold=0)
    await node.run(server, 35)
    assert len(server.asked("POST", EVENTS)) == 1
    debug = [each.getMessage() for each in caplog.records if each.levelno == logging.DEBUG]
    assert [text.partition(": ")[0] for text in debug] == ["Event on pod shop/a is not recorded"] * lines


def test_after_a_time_without_the_cluster_earlier_samples_do_not_count():
    node = Node(limited("a", 4000))
    node.use(1.0)
    node.plan(20)
    node.view.pods.synced = False
    node.use(9.0)
    node.plan(3)
    node.view.pods.synced = True
    assert node.plan(5) == []
    assert len(node.plan(1)) == 1, "five samples since then, after one whose time is unknown"


async def test_the_pause_after_an_answer_of_no_server_is_ten_seconds(server):
    server.on("PATCH", RESIZE, apiserver.status(500, "InternalError", "no"), TAKEN)
    node = Node(limited("a", 4000))
    await node.run(server, 14)
    assert len(server.requests) == 1
    await node.run(server, 2)
    assert len(server.requests) == 2


async def test_a_limit_that_is_set_again_is_lowered_ten_seconds_after_the_last_patch(server):
    server.on("PATCH", RESIZE, TAKEN)
    node = Node(limited("a", 4000))
    await node.run(server, 6)
    assert len(server.requests) == 1
    again = limited("a", 4000)
    node.view.pods.put(dataclasses.replace(again, mid=dataclasses.replace(again.mid, resource_version="9")))
    await node.run(server, 6)
    assert len(server.requests) == 1
    await node.run(server, 6)
    assert len(server.requests) == 2


async def test_a_plan_of_ten_seconds_ago_is_dropped(server):
    server.on("PATCH", RESIZE, TAKEN)
    node = Node(limited("a", 4000), limited("b", 2000))
    changes = node.plan(5)
    times = iter((0.0, 0.0, 5.0, 5.0, 10.0))
    node.suppressor._monotonic = lambda: next(times)
    async with server.session() as api:
        await node.suppressor.send(api, changes)
    assert len(server.requests) == 1


async def test_without_the_server_the_rest_of_a_plan_is_not_sent(server):
    server.on("PATCH", RESIZE, apiserver.status(503, "ServiceUnavailable", "no"), TAKEN)
    node = Node(limited("a", 4000), limited("b", 2000))
    await node.run(server, 10)
    assert len(server.requests) == 1


def test_two_readings_at_one_time_are_no_waiting():
    waits = CpuWaits()
    assert waits.waiting(60.0, {"a": 10.0}) == frozenset()
    assert waits.waiting(60.0, {"a": 40.0}) == frozenset()
    assert waits.waiting(120.0, {"a": 55.0}) == {"a"}


def test_waiting_ends_150_s_after_the_last_change_of_the_counter():
    waits = CpuWaits()
    waits.waiting(0.0, {"a": 0.0})
    assert waits.waiting(60.0, {"a": 60.0}) == {"a"}
    assert waits.waiting(209.0, {"a": 60.0}) == {"a"}
    assert waits.waiting(210.0, {"a": 60.0}) == frozenset()


def test_a_sample_without_a_length_of_time_is_no_busy_one():
    recent = RecentUsage()
    recent.add(0.0, 0.0, NodeUsage(9.0, 0.0, 0.0), 6.5)
    assert not recent.is_busy(20.0)


def test_prod_never_uses_less_than_nothing():
    """A Mid pod that labels itself Prod is measured a moment later than its class."""
    hidden = dataclasses.replace(limited("hidden", 1000), priority_class=PriorityClass.PROD)
    cores = {NODE: 8.0, SYSTEM: 1.0, series.PROD: 3.0, pod_key("hidden"): 3.5}
    newest = {key: UsageSample(used, 0.0) for key, used in cores.items()}
    table = PodTable()
    table.put(hidden)
    assert node_usage.of_samples(newest, Members.of(table)) == NodeUsage(8.0, 0.0, 1.0)
