"""What the agent does besides reporting: it trains when due, reports early, and closes the files it reads."""

import asyncio
import contextlib
import dataclasses
import time
import types
from pathlib import Path

import pytest

from koordlet import agent as program
from koordlet.collectors.snapshot import HostCollector
from koordlet.prediction.allocation import WholeAmounts
from koordlet.report import schedule
from koordlet.samples import UNRESERVED_SYSTEM, UsageSample
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import V1, V2, PlainHost
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod


async def test_it_trains_again_and_again_while_it_runs(agent, registry, monkeypatch):
    monkeypatch.setattr(program, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(program, "TRAIN_SECONDS", 0.02)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        ticking = group.create_task(agent._tick_until_stopped(None, group))
        while registry.get_sample_value("koordlet_trainings_total") < 2:
            await asyncio.sleep(0.005)
            assert not ticking.done()
        agent.stop.set()


async def test_it_trains_every_thirty_seconds_and_exports_at_every_tick(agent, monkeypatch):
    now = types.SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(program, "time", types.SimpleNamespace(monotonic=lambda: now.seconds))
    trained, exported = [], []

    def tick():
        now.seconds += 1.0  # the loop has nothing to wait for after a tick of a second
        if now.seconds == 1095.0:
            agent.stop.set()

    agent._tick, agent._train, agent._export = tick, lambda: trained.append(now.seconds), exported.append
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        await agent._tick_until_stopped(None, group)
    assert trained == [1030.0, 1060.0, 1090.0]
    assert exported == [float(second) for second in range(1001, 1096)]


def open_below(folder):
    """Return the open files of this process in a folder or below, and the folder itself if it is open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(descriptor.readlink())
    return [path for path in found if folder in (path, *path.parents)]


@pytest.mark.parametrize("version", [V1, V2])
def test_a_closed_collector_has_no_file_open(tmp_path, version):
    host, clock = PlainHost(tmp_path, version), Clock()
    collector = HostCollector(host.host_root, clock, measures_containers=True)
    for second in range(1, 4):
        clock.advance(1.0)
        host.set_node(100 * second, GIB)
        host.set_group(host.pod("a"), 0.5 * second, GIB)
        collector.collect(1000.0 + second)
    assert open_below(tmp_path)
    collector.close()
    assert open_below(tmp_path) == []


def test_what_a_node_reserves_is_capacity_less_allocatable(tmp_path):
    """Two cores and a GiB are reserved; system uses 3 cores and 4 GiB."""
    node = OneNode(tmp_path, StaticCluster())
    node.cluster.allocatable = WholeAmounts(14_000, 15 * GIB)
    node.node_cores, node.used_bytes = 3.0, 4 * GIB
    node.run(3)
    assert node.observer.newest[UNRESERVED_SYSTEM] == UsageSample(pytest.approx(1.0, abs=1e-9), 3.0 * GIB)
    node.observer.collector.close()


def test_usage_within_an_amplified_allocatable_is_all_unreserved(tmp_path):
    node = OneNode(tmp_path, StaticCluster())
    node.cluster.allocatable = WholeAmounts(32_000, 32 * GIB)
    node.node_cores, node.used_bytes = 3.0, 4 * GIB
    node.run(3)
    assert node.observer.newest[UNRESERVED_SYSTEM] == UsageSample(pytest.approx(3.0), 4.0 * GIB)
    node.observer.collector.close()


def test_pods_that_are_not_measured_yet_are_cold_also_without_a_cold_start_period(tmp_path):
    spec = {"predictPolicy": {"coldStartPeriodSeconds": 0}}
    node = OneNode(tmp_path, StaticCluster(bound_pod("a"), bound_pod("b"), spec=spec))
    node.pod_cores = {"a": 0.5}
    node.run(31)
    message = node.condition("WarmingUp")["message"]
    assert message.startswith("1 of 2 Prod pods have less than 0 s of recorded history")
    node.observer.collector.close()


@pytest.mark.parametrize(
    ("is_due", "moved_cpu_millis", "reports", "early"),
    [(True, 0, 1, 0), (True, 5000, 1, 0), (False, 0, 0, 0), (False, 5000, 1, 1)],
)
async def test_a_report_before_its_time_needs_a_peak_that_moved(
    agent, registry, sent, monkeypatch, is_due, moved_cpu_millis, reports, early
):
    view = agent.view
    view.resource_version = "9"
    view.pods.keep_only(())
    view.capacity = view.allocatable = WholeAmounts(16_000, 16 * GIB)
    agent._tick()
    agent.observer.newest_at_seconds = time.time()
    await agent._report_if_due(None, 1000.0)
    assert len(sent) == 1
    predict = agent.reports.predict

    def moved(*given):
        publishes = schedule.Published({"cpu": 1000 + moved_cpu_millis, "memory": GIB}, None)
        return dataclasses.replace(predict(*given), publishes=publishes)

    agent.reports.predict = moved
    agent._published = schedule.Published({"cpu": 1000, "memory": GIB}, None)
    monkeypatch.setattr(agent._schedule, "is_due", lambda _now: is_due)
    sent.clear()
    before = registry.get_sample_value("koordlet_early_reports_total")
    await agent._report_if_due(None, 1020.0)
    assert len(sent) == reports
    assert registry.get_sample_value("koordlet_early_reports_total") - before == early
