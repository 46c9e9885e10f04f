"""The agent's patches on a lone API server: another agent reads back from the pod what they lowered."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec

from api_types.mid_pods import cpu_limits
from api_types.mid_pods.cpu_limits import MidContainer
from apiserver_client import session
from e2e.support.mid_pod_examples import MID_CPU
from koordlet.cluster import pods
from koordlet.mid_suppression import suppressor
from koordlet.mid_suppression.planner import Change
from koordlet.mid_suppression.suppressor import ResizeOutcome
from tools.localcluster.apiserver_requests import MERGE_PATCH, Connection
from tools.localcluster.standalone_control_plane import ControlPlane

NAMESPACE = "resize-writers"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def _container(name: str, cpu: str, mid: str, **more: Any) -> dict[str, Any]:
    requests = {"cpu": "0", "memory": "0", MID_CPU: mid}
    limits = {"cpu": cpu, "memory": "64Mi", MID_CPU: mid}
    return {"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}, **more}


def _read(api: Connection) -> pods.PodOnNode:
    return pods.describe(msgspec.json.decode(api.raw("GET", f"{PODS}/mid"), type=cpu_limits.WrittenPod), "n1")


def _create(api: Connection) -> None:
    spec = {
        "nodeName": "n1",
        "priorityClassName": "koord-mid",
        "initContainers": [_container("side", "1", "1000", restartPolicy="Always")],
        "containers": [_container("work", "1", "1000"), _container("strict", "200m", "1000")],
    }
    api.send("POST", PODS, {"metadata": {"name": "mid"}, "spec": spec})
    status = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
    api.send("PATCH", f"{PODS}/mid/status", status, content=MERGE_PATCH)


def _containers(api: Connection) -> dict[str, MidContainer]:
    mid = _read(api).mid
    assert mid is not None
    return {each.key: each for each in mid.containers}


def test_lowered_limits_are_read_back_and_restored(shared_plane: ControlPlane) -> None:
    with contextlib.closing(shared_plane.connect()) as api:
        api.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        api.send("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        _create(api)

        def send(pod: pods.PodOnNode, **limits: int) -> ResizeOutcome:
            async def once() -> ResizeOutcome:
                async with session.open_session(str(shared_plane.kubeconfig), user_agent="test/1") as connected:
                    return (await suppressor.send(connected, Change(pod, limits, is_lowering=True))).outcome

            return asyncio.run(once())

        before = _read(api)
        assert send(before, c0=300, c1=50, i0=100) is ResizeOutcome.PATCHED
        lowered = _containers(api)
        assert {key: (each.limit_millis, each.original_millis) for key, each in lowered.items()} == {
            "c0": (300, 1000),
            "c1": (50, 200),
            "i0": (100, 1000),
        }
        assert send(before, c0=100) is ResizeOutcome.CONFLICT, "the pod has changed since it was read"
        assert send(_read(api), c0=1000, c1=200, i0=1000) is ResizeOutcome.PATCHED
        assert all(each.limit_millis == each.original_millis for each in _containers(api).values())
        api.send("DELETE", f"{PODS}/mid?gracePeriodSeconds=0")
        assert send(before, c0=100) is ResizeOutcome.GONE
        _create(api)
        assert send(before, c0=100) is ResizeOutcome.CONFLICT, "another pod of the same name"
        assert _containers(api)["c0"].limit_millis == 1000
