"""The plugin inside kube-scheduler: what it refuses, when refused pods are bound, and what holds without Python."""

from __future__ import annotations

import collections
import time
from collections.abc import Iterator

import pytest

from e2e.support import lone_scheduler
from e2e.support.lone_scheduler import PLUGIN, PODS, LoneScheduler

HOT_PERCENT, COOL_PERCENT = 94, 6
NODES_OF_CASES = 5
WITHIN_SECONDS = 3.0
"""A refused pod is bound so soon after its node cooled, also on a busy machine; else it takes 0.1 s."""
ROOM = {COOL_PERCENT: 17, 54: 3}
"""Pods that fit on a node of 100 cores up to 65 %, by its usage in percent: by estimate each uses 3.4 cores."""
AWAY_PODS = 20
HALF_PERCENT, MOST_BESIDE_HALF = 47, 5  # by estimate a pod uses 3.4 of 100 cores; one more would be 67

pytestmark = pytest.mark.timeout(1200)  # the first build takes minutes


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneScheduler]:
    with lone_scheduler.running() as lone:
        for index in range(NODES_OF_CASES):
            lone.add_node(f"n{index}", used_percent=HOT_PERCENT)
        lone.start()
        yield lone


@pytest.fixture(autouse=True)
def hot(lone: LoneScheduler) -> Iterator[None]:
    """Begin with hot nodes, and end without pods."""
    for index in range(NODES_OF_CASES):
        lone.report(f"n{index}", HOT_PERCENT)
    time.sleep(1)  # until Python knows
    yield
    lone.api.send("DELETE", PODS)
    lone.until("no pod is left", lambda: not lone.pods())


def refusal(lone: LoneScheduler, name: str) -> str:
    """Wait until a pod is refused, and return why."""

    def text() -> str:
        conditions = lone.api.send("GET", f"{PODS}/{name}")["status"].get("conditions", ())
        return next((each.get("message", "bound") for each in conditions if each["type"] == "PodScheduled"), "")

    lone.until(f"{name} is refused", text)
    return text()


def test_a_refused_pod_is_bound_soon_after_its_node_cooled(lone: LoneScheduler) -> None:
    waited = []
    for index in range(8):
        name, node = f"waiting-{index}", f"n{index % NODES_OF_CASES}"
        lone.create_pod(name)
        assert f"{NODES_OF_CASES} node(s) cpu usage exceed threshold" in refusal(lone, name)
        attempts = lone.attempts()
        before = time.time()
        lone.report(node, COOL_PERCENT)
        waited.append(lone.wait_bound(name) - before)
        assert lone.pods()[name].node == node
        assert lone.attempts() == attempts + 1
        lone.report(node, HOT_PERCENT)
        time.sleep(1)  # until Python knows
    print(f"bound after {sorted(round(seconds, 3) for seconds in waited)} s")
    assert max(waited) <= WITHIN_SECONDS


@pytest.mark.parametrize(
    ("refused", "used_percent"), [(60, COOL_PERCENT), pytest.param(1000, 54, marks=pytest.mark.long)]
)
def test_refused_pods_are_tried_as_often_as_there_is_room(lone: LoneScheduler, refused: int, used_percent: int) -> None:
    room = ROOM[used_percent]
    for index in range(refused):
        lone.create_pod(f"many-{index}")
    lone.until("all are refused", lambda: lone.plugin_metric("refused_pods") == refused, within_seconds=600)
    attempts = lone.attempts()
    before = time.time()
    lone.report("n3", used_percent)
    lone.until("all that fit are bound", lambda: lone.nodes_of("many-").count("n3") == room)
    print(f"{room} of {refused} bound after {time.time() - before:.2f} s")
    time.sleep(6)  # longer than the time after which all refused pods are compared with the nodes again
    assert lone.nodes_of("many-").count("n3") == room
    print(f"{lone.attempts() - attempts} attempts")
    assert lone.attempts() - attempts <= 1.2 * room


def test_a_gang_that_prefers_one_node_fills_it_up_to_its_threshold(lone: LoneScheduler) -> None:
    names = [f"n{index}" for index in range(NODES_OF_CASES)]
    for name in names:
        lone.report(name, HALF_PERCENT)
    time.sleep(1)
    gang = [f"gang-{index:02d}" for index in range(20)]
    attempts = lone.attempts()
    for name in gang:
        lone.create_pod(name, preferred="n0")
    lone.wait_bound(*gang)
    counts = collections.Counter(lone.nodes_of("gang-"))
    assert counts.pop("n0") == MOST_BESIDE_HALF
    assert sorted(counts.values()) == [3, 4, 4, 4]
    assert lone.attempts() - attempts == len(gang)


def test_no_pod_is_evicted_from_nodes_that_would_refuse_the_next_one(lone: LoneScheduler) -> None:
    low = [f"low-{node}-{index}" for node in range(NODES_OF_CASES) for index in range(4)]
    for name in low:
        lone.create_pod(name, cpu="25", priority=100, node=f"n{name.split('-')[1]}")
    lone.create_pod("important", cpu="25", priority=9000)
    refusal(lone, "important")
    time.sleep(2)
    assert set(lone.pods()) == {*low, "important"}
    lone.report("n3", COOL_PERCENT, pods=[name for name in low if "-3-" in name])
    lone.wait_bound("important")
    assert lone.nodes_of("important") == ["n3"]
    assert len(lone.nodes_of("low-3-")) == 3
    assert len(lone.nodes_of("low-")) == len(low) - 1


def offer_mid(lone: LoneScheduler, node: str, *, cores: int) -> None:
    """Let a node have 16 cores of Mid in its status, and less by its newest report."""
    lone.state_mid(node, cores=16)
    lone.offer_mid(node, cores=cores)
    lone.report(node, COOL_PERCENT)


def test_a_mid_pod_waits_for_what_the_newest_report_offers(lone: LoneScheduler) -> None:
    offer_mid(lone, "n1", cores=4)
    lone.api.send("POST", PODS, lone_scheduler.mid_pod("mid", cores=8))
    assert "didn't have enough Mid resources left" in refusal(lone, "mid")
    before = time.time()
    offer_mid(lone, "n1", cores=12)
    print(f"bound after {lone.wait_bound('mid') - before:.3f} s")
    assert lone.nodes_of("mid") == ["n1"]


def test_a_changed_configuration_wakes_refused_pods(lone: LoneScheduler) -> None:
    """Of the manager while Python runs, and its own at its restart, at which Mid pods wait."""
    offer_mid(lone, "n1", cores=12)
    lone.configure({"enable": True, "midEmergency": "freeze"})
    time.sleep(1)  # until Python knows
    lone.api.send("POST", PODS, lone_scheduler.mid_pod("frozen", cores=1))
    assert "midEmergency" in refusal(lone, "frozen")
    attempts, before = lone.attempts(), time.time()
    lone.configure({"enable": True})
    waited = lone.wait_bound("frozen") - before
    print(f"bound {waited:.3f} s after the freeze ended")
    assert waited <= WITHIN_SECONDS
    assert lone.attempts() == attempts + 1

    lone.report("n1", HOT_PERCENT)
    time.sleep(1)
    lone.api.send("POST", PODS, lone_scheduler.mid_pod("hot", cores=1))
    assert "cpu usage exceed threshold" in refusal(lone, "hot")
    lone.plane.stop(PLUGIN)
    values = lone.values
    lone.values = {"plugin": {"pluginArgs": {"LoadAwareScheduling": {"usageThresholds": {"cpu": 99}}}}}
    try:
        lone.start_plugin()
        lone.wait_bound("hot")
    finally:
        lone.plane.stop(PLUGIN)
        lone.values = values
        lone.start_plugin()


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_without_python_only_mid_pods_wait(lone: LoneScheduler, how: str) -> None:
    offer_mid(lone, "n1", cores=12)
    lone.create_pod("hot-node-only", nodes=["n2"])
    refusal(lone, "hot-node-only")
    process = lone.plane.process(PLUGIN).process
    if how == "killed":
        process.kill()
        process.wait(10)
    else:
        process.suspend()
    names = [f"free-{index}" for index in range(AWAY_PODS)]
    before = time.time()
    for name in names:
        lone.create_pod(name)
    lone.api.send("POST", PODS, lone_scheduler.mid_pod("mid", cores=8))
    print(f"{how}: {AWAY_PODS} pods bound within {lone.wait_bound(*names) - before:.2f} s")
    assert "Mid pods need the scheduler plugin" in refusal(lone, "mid")
    lone.wait_bound("hot-node-only")
    before = time.time()
    if how == "killed":
        lone.start_plugin()
    else:
        process.resume()
    print(f"{how}: the Mid pod is bound {lone.wait_bound('mid') - before:.2f} s after Python came back")
    lone.create_pod("guarded", nodes=["n3"])
    assert "cpu usage exceed threshold" in refusal(lone, "guarded")
