"""An extender that is dead, frozen, slow or returns nonsense: pods are placed without it, kube-scheduler logs it.

A hot node, which takes no pod, shows that the extender is called: before each fault, and again after it.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from e2e.support import fake_fleet, host_scheduler, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.flaky_extender_proxy import FlakyExtenderProxy
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper
from tools.localcluster import progress
from tools.localcluster.access import Cluster

HOT = "node(s) cpu usage exceed threshold"
TOO_LATE = "Client.Timeout exceeded"
IN_TIME, SLOW_SECONDS = "300ms", 0.5  # the former is the chart's httpTimeout
STREAM = 6
PAGE = b"<html><body>It works!</body></html>"
GARBAGE = {
    "no-json": ((200, PAGE), "invalid character '<'"),
    "cut-off": ((200, b'{"NodeNames":["fake-h'), "unexpected EOF"),
    "wrong-type": ((200, b'{"NodeNames":{"fake-hot":true}}'), "cannot unmarshal"),
    "unasked-node": ((200, b'{"NodeNames":["elsewhere"]}'), "not found in the input node list"),
    "own-error": ((200, b'{"Error":"out of order"}'), "out of order"),
    "status-500": ((500, PAGE), "code 500"),
}


class Stage(NamedTuple):
    """A hot node, a cool one, and a scheduler that calls its extender directly or through a proxy."""

    hot: str
    cool: str
    direct: HostScheduler
    through_line: HostScheduler
    line: FlakyExtenderProxy


@pytest.fixture(scope="module")
def stage(cluster: Cluster, cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[Stage]:
    with (
        fake_fleet.registered(cluster_client, ["hot", "cool"]) as (hot, cool),
        contextlib.closing(FlakyExtenderProxy()) as line,
    ):
        fake_fleet.report(cluster_client, hot, fake_fleet.load_status(cpu_percent=80))
        fake_fleet.report(cluster_client, cool, fake_fleet.load_status(cpu_percent=30))
        direct = HostScheduler(cluster, "case-direct", {"httpTimeout": IN_TIME})
        through_line = HostScheduler(cluster, "case-through-line", {"httpTimeout": IN_TIME}, address=line.address)
        line.extender_address = through_line.extender_address
        with host_scheduler.started(direct, through_line):
            yield Stage(hot, cool, direct, through_line, line)


def _is_called(scheduling: SchedulingHelper, stage: Stage, scheduler: HostScheduler, when: str) -> None:
    began = time.monotonic()
    assert scheduling.is_refused_soon(when, scheduler.name, stage.hot, HOT)
    progress.report(f"{when}: kube-scheduler calls the extender, seen after {time.monotonic() - began:.1f} s")


def _is_done_without(scheduling: SchedulingHelper, stage: Stage, scheduler: HostScheduler, name: str, why: str) -> None:
    """Check that no pod is refused or lost, not even on the hot node, and that each failed call is logged."""
    before = len(scheduler.ignored_errors())
    scheduled, errors = scheduler.attempts("scheduled"), scheduler.attempts("error")
    there = scheduling.submit(f"{name}-there", scheduler.name, [stage.hot])
    pods = [scheduling.submit(f"{name}-{index}", scheduler.name, [stage.hot, stage.cool]) for index in range(STREAM)]
    assert scheduling.bound([there]) == [stage.hot]
    assert set(scheduling.bound(pods)) <= {stage.hot, stage.cool}
    assert [scheduling.cluster_client.events_of(each, scheduling.namespace, "FailedScheduling") for each in pods] == [
        []
    ] * STREAM
    assert scheduler.attempts("scheduled") - scheduled > STREAM
    assert scheduler.attempts("error") == errors
    errors_logged = scheduler.ignored_errors()[before:]
    assert len(errors_logged) > STREAM
    others = [line for line in errors_logged if not re.search(why, line)]
    assert len(others) < len(errors_logged)
    assert [line for line in others if TOO_LATE not in line] == []  # which a busy machine makes of anything


@pytest.fixture
def whole_again(stage: Stage) -> Iterator[None]:
    """Restore the extender after each test."""
    yield
    stage.line.recover()
    stage.direct.extender_thaws()
    stage.direct.start_extender()


@pytest.mark.usefixtures("whole_again")
def test_a_dead_extender(scheduling: SchedulingHelper, stage: Stage) -> None:
    _is_called(scheduling, stage, stage.direct, "before-death")
    stage.direct.extender_is_killed()
    _is_done_without(scheduling, stage, stage.direct, "dead", "connection refused|connection reset|EOF")
    stage.direct.start_extender()
    _is_called(scheduling, stage, stage.direct, "after-death")


@pytest.mark.usefixtures("whole_again")
def test_a_frozen_extender(scheduling: SchedulingHelper, stage: Stage) -> None:
    _is_called(scheduling, stage, stage.direct, "before-frost")
    stage.direct.extender_freezes()
    _is_done_without(scheduling, stage, stage.direct, "frozen", TOO_LATE)
    stage.direct.extender_thaws()
    _is_called(scheduling, stage, stage.direct, "after-frost")
    waiting.until("what arrived meanwhile is sorted out", lambda: stage.direct.held("unconfirmed_pods") == 0)


@pytest.mark.usefixtures("whole_again")
def test_a_slow_extender(scheduling: SchedulingHelper, stage: Stage) -> None:
    scheduler = stage.through_line
    _is_called(scheduling, stage, scheduler, "before-delay")
    calls = scheduler.calls_counted("filter")
    stage.line.delay_seconds = SLOW_SECONDS
    _is_done_without(scheduling, stage, scheduler, "slow", TOO_LATE)
    assert scheduler.calls_counted("filter") > calls + STREAM, "it did answer, but too late"
    stage.line.recover()
    _is_called(scheduling, stage, scheduler, "after-delay")


@pytest.mark.usefixtures("whole_again")
@pytest.mark.parametrize("kind", GARBAGE)
def test_an_extender_that_returns_garbage(scheduling: SchedulingHelper, stage: Stage, kind: str) -> None:
    answer, why = GARBAGE[kind]
    # Not bind: to it, an object without "Error" is a success, and kube-scheduler then treats the pod as bound.
    stage.line.answers = {"filter": answer, "prioritize": answer, "bind": (200, PAGE)}
    _is_done_without(scheduling, stage, stage.through_line, kind, why)
    stage.line.recover()
    _is_called(scheduling, stage, stage.through_line, f"after-{kind}")
