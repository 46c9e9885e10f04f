"""An uninstallation restores what agents have lowered: its own token and rights, a lone API server, no kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from api_types.mid_pods import cpu_limits
from apiserver_client import session
from e2e.support import chart_rendering, command_lines, lone_manager
from e2e.support.lone_manager import LoneManager
from e2e.support.mid_pod_examples import MID_CPU
from koordlet.cluster import pods
from koordlet.mid_suppression import suppressor
from koordlet.mid_suppression.planner import Change
from tools.localcluster.apiserver_requests import MERGE_PATCH

HOOK = "koord-suite-uninstall"
VALUES = {"koordlet": {"suppression": {"enabled": True}}}
TEMPLATES = ("koordlet/suppression-policy", "koordlet/rbac", "manager/uninstall-hook")
PODS = "/api/v1/namespaces/{}/pods"


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneManager]:
    with lone_manager.running() as made:
        made.create(*chart_rendering.rendered(made.plane.binaries, VALUES, *TEMPLATES))
        lone_manager.create_node(made.api, "n1")
        for namespace in ("shop", "full"):
            made.add_namespace(namespace)
            made.until(f"accounts in {namespace}", lambda namespace=namespace: _account(made, namespace))
        yield made


def _account(lone: LoneManager, namespace: str) -> object:
    return lone.api.send("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})


def _container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    requests = {"cpu": "0", "memory": "0", MID_CPU: "1000"}
    limits = {"cpu": cpu, "memory": "64Mi", MID_CPU: "1000"}
    return {"name": name, "image": "none", "resources": {"requests": requests, "limits": limits}, **more}


def _add(lone: LoneManager, name: str, namespace: str, priority: str = "koord-mid") -> None:
    spec = {
        "nodeName": "n1",
        "priorityClassName": priority,
        "tolerations": [{"operator": "Exists"}],
        "initContainers": [_container("side", "1", restartPolicy="Always")],
        "containers": [_container("work", "1"), _container("strict", "200m")],
    }
    path = PODS.format(namespace)
    lone.api.send("POST", path, {"metadata": {"name": name}, "spec": spec})
    status = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
    lone.api.send("PATCH", f"{path}/{name}/status", status, content=MERGE_PATCH)


def _lower(lone: LoneManager, name: str, namespace: str) -> None:
    """Lower the limits as an agent does."""
    raw = lone.api.raw("GET", f"{PODS.format(namespace)}/{name}")
    pod = pods.describe(msgspec.json.decode(raw, type=cpu_limits.WrittenPod), "n1")

    async def once() -> suppressor.ResizeOutcome:
        async with session.open_session(str(lone.plane.kubeconfig), user_agent="test/1") as connected:
            change = Change(pod, {"c0": 300, "c1": 20, "i0": 10}, is_lowering=True)
            return (await suppressor.send(connected, change)).outcome

    assert asyncio.run(once()) is suppressor.ResizeOutcome.PATCHED


def _limits(lone: LoneManager, name: str, namespace: str) -> list[str]:
    spec = lone.api.send("GET", f"{PODS.format(namespace)}/{name}")["spec"]
    return [each["resources"]["limits"]["cpu"] for each in (*spec["containers"], *spec["initContainers"])]


ORIGINAL, LOWERED = ["1", "200m", "1"], ["300m", "20m", "10m"]


def test_the_hook_restores_the_limits_of_every_author_and_a_full_quota_does_not_hold_it_up(lone: LoneManager) -> None:
    _add(lone, "work", "shop")
    _add(lone, "strict-by-hand", "shop")
    _add(lone, "crowded", "full")
    _lower(lone, "work", "shop")
    _lower(lone, "crowded", "full")
    by_hand = {"spec": {"containers": [{"name": "work", "resources": {"limits": {"cpu": "100m"}}}]}}
    lone.api.send(
        "PATCH",
        f"{PODS.format('shop')}/strict-by-hand/resize",
        by_hand,
        content="application/strategic-merge-patch+json",
    )
    _fill(lone, "full")
    assert _limits(lone, "work", "shop") == _limits(lone, "crowded", "full") == LOWERED

    words = ("manager", "uninstall", f"--kubeconfig={lone.kubeconfig(HOOK)}", "--restore-limits")
    output = command_lines.run(*words, within_seconds=120)

    assert output.code == 0, output.text
    assert _limits(lone, "work", "shop") == ORIGINAL
    assert _limits(lone, "strict-by-hand", "shop") == ["100m", "200m", "1"]
    assert _limits(lone, "crowded", "full") == LOWERED
    assert output.line_with("full/crowded", "keeps a lowered CPU limit", "ResourceQuota full/tight", "NotIn")
    (message,) = lone.events(cpu_limits.NOT_RESTORED, "crowded")
    assert "ResourceQuota full/tight" in message


def test_what_was_given_up_is_restored_later_by_the_command(lone: LoneManager) -> None:
    """After the test above: the quota has room, and the suite is gone."""
    lone.api.send("DELETE", "/api/v1/namespaces/full/resourcequotas/tight")
    words = ("manager", "restore-limits", f"--kubeconfig={lone.kubeconfig(HOOK)}")
    output = command_lines.run(*words, within_seconds=120)
    assert output.code == 0, output.text
    assert _limits(lone, "crowded", "full") == ORIGINAL


def _fill(lone: LoneManager, namespace: str) -> None:
    """Create a ResourceQuota without room; its status is written as the controller would."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    amounts = {"limits.cpu": "330m"}
    lone.api.send("POST", path, {"metadata": {"name": "tight"}, "spec": {"hard": amounts}})
    status = {"status": {"hard": amounts, "used": amounts}}
    lone.api.send("PATCH", f"{path}/tight/status", status, content=MERGE_PATCH)
