"""Refused pods are woken through the apiserver, and no sooner than it asks."""

import asyncio
import types

import pytest

from scheduler_plugin.queueing import tasks
from scheduler_plugin.queueing.refused_pods import Cause, Retry
from scheduler_plugin.state import pod_info
from tests.fakes import apiserver
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

POD = "/api/v1/namespaces/default/pods/web"
TOO_MANY = apiserver.Answer({"kind": "Status", "code": 429}, 429, (("Retry-After", "3"),))


class Refused:
    """One pod that every round wakes."""

    failed = 0

    def begins_round(self, monotonic):
        return True

    def choose(self, now, monotonic):
        yield Retry(pod_info.read(factories.pod("web"), factories.parts().estimator_args), Cause.COOLED)


async def test_wakes_nobody_before_the_time_that_the_apiserver_asks_for(monkeypatch):
    clock, patched_at = 100.0, []

    async def sleep(seconds):
        nonlocal clock
        clock += seconds
        patched_at.extend([clock] * (len(server.asked("PATCH")) - len(patched_at)))
        if len(patched_at) > 1:
            raise TimeoutError
        await asyncio.sleep(0)

    replaced = types.SimpleNamespace(sleep=sleep, gather=asyncio.gather, Semaphore=asyncio.Semaphore)
    monkeypatch.setattr(tasks, "asyncio", replaced)
    monkeypatch.setattr(tasks, "time", types.SimpleNamespace(monotonic=lambda: clock))
    async with apiserver.running() as server:
        server.on("PATCH", POD, TOO_MANY, apiserver.Answer({}))
        async with server.session() as api:
            waking = tasks.QueueingTasks(api, Refused(), None, lambda: NOW)
            with pytest.raises(TimeoutError):
                await waking.wake()
    assert patched_at[1] - patched_at[0] >= 3
