"""Python restarts, twice, under a stream of pods: no pod is lost, and no node is filled as if it were empty.

No report shows any of these pods: Python knows them only from kube-scheduler, which shows them again after a restart.
A node of 15.5 cores that uses 20 % has room for 8 pods of 0.85 cores each (a request of one core, times 85 %) below the
threshold of 65 %: without that knowledge there would be room for 8 more.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from e2e.support import fake_fleet, host_scheduler, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper
from tools.localcluster.access import Cluster

NODES, ROOM = 5, 8
PODS = NODES * ROOM + 15
EVERY_SECONDS = 0.1
KILLED_AFTER, ENDED_AFTER = 10, 24
WHILE_AWAY = 7
"""Pods that arrive until Python is back; it is not asked about them, and all earlier ones fit in any case."""


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[list[str]]:
    with fake_fleet.registered(cluster_client, [f"room-{index}" for index in range(NODES)]) as names:
        for name in names:
            fake_fleet.report(cluster_client, name, fake_fleet.load_status(cpu_percent=20))
        yield names


@pytest.fixture(scope="module")
def scheduler(cluster: Cluster, nodes: list[str]) -> Iterator[HostScheduler]:
    with host_scheduler.running(cluster, {"restart": {}}) as started:
        yield started["restart"]


def test_a_restart_under_a_stream_of_pods_loses_none_and_books_no_node_twice(
    scheduling: SchedulingHelper, nodes: list[str], scheduler: HostScheduler
) -> None:
    names = _stream(scheduling, nodes, scheduler)
    results = scheduling.results(names)
    on_each = collections.Counter(result.node for result in results.values())
    left_waiting = on_each.pop(None, 0)
    assert scheduler.unasked() > 0, "the stream went on while Python was away"
    assert set(on_each) == set(nodes)
    assert set(on_each.values()) == {ROOM}, on_each
    assert on_each.total() + left_waiting == PODS
    waiting.until("every notice is confirmed", lambda: scheduler.held("unconfirmed_pods"), lambda seen: seen == 0)

    scheduler.plugin_ends()
    assert len(scheduling.bound(names)) == PODS, "without it there is room for all"


def _stream(scheduling: SchedulingHelper, nodes: list[str], scheduler: HostScheduler) -> list[str]:
    names = []
    with ThreadPoolExecutor(1) as pool:
        back: Future[None] | None = None
        for index in range(PODS):
            names.append(scheduling.submit(f"stream-{index}", scheduler.name, nodes, cpu="1"))
            time.sleep(EVERY_SECONDS)
            if len(names) == KILLED_AFTER:
                scheduler.plugin_is_killed()
                back = pool.submit(scheduler.start_plugin)
            elif len(names) == ENDED_AFTER:
                scheduler.plugin_ends()
                back = pool.submit(scheduler.start_plugin)
            elif len(names) in {KILLED_AFTER + WHILE_AWAY, ENDED_AFTER + WHILE_AWAY} and back is not None:
                back.result()
    return names
