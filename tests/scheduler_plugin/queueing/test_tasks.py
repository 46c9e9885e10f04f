"""Refused pods are woken through the apiserver, no sooner than it asks, and claims of reserved pods are read there."""

import asyncio
import types

import pytest

from scheduler_plugin.queueing import tasks
from scheduler_plugin.queueing.refused_pods import Cause, Retry
from scheduler_plugin.state import pod_info
from tests.fakes import apiserver
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.queueing.test_reservations import Scene

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


def claim(node, volume=""):
    metadata = {"name": "c", "annotations": {"volume.kubernetes.io/selected-node": node}}
    return apiserver.Answer({"metadata": metadata, "spec": {"volumeName": volume}})


async def counted_after(monkeypatch, claims):
    """Return where the pod counts after its claims were read once; it is expected on node a."""
    scene = Scene(a=10, b=30)
    scene.schedule(claims=list(claims))
    scene.wait(1)
    turns = iter([None])

    async def sleep(_seconds):
        next(turns)

    monkeypatch.setattr(
        tasks, "asyncio", types.SimpleNamespace(sleep=sleep, gather=asyncio.gather, Semaphore=asyncio.Semaphore)
    )
    monkeypatch.setattr(tasks, "time", types.SimpleNamespace(monotonic=lambda: scene.monotonic))
    async with apiserver.running() as server:
        for name, answer in claims.items():
            server.on("GET", f"/api/v1/namespaces/default/persistentvolumeclaims/{name}", answer)
        async with server.session() as api:
            with pytest.raises(RuntimeError):
                await tasks.QueueingTasks(api, None, scene.parts.reservations, lambda: scene.now).follow_claims()
        assert len(server.asked("GET")) <= 16
    return scene.counted()


async def test_a_claim_that_is_bound_since_another_node_does_not_move_the_pod(monkeypatch):
    assert await counted_after(monkeypatch, {"old": claim("b", "pv-1"), "new": claim("a")}) == {"web": "a"}
    assert await counted_after(monkeypatch, {"new": claim("b"), "old": claim("a", "pv-1")}) == {"web": "b"}
    assert await counted_after(monkeypatch, {"old": claim("b", "pv-1")}) == {"web": "a"}


async def test_of_many_claims_a_few_are_read(monkeypatch):
    assert await counted_after(monkeypatch, {f"c{index}": claim("") for index in range(40)}) == {"web": "a"}
