"""A pod whose managed fields are as deep as the API server reads: every part lists and watches it, and goes on."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pytest

from api_types.mid_pods import cpu_limits
from e2e.soak.stage import NAMESPACE, NODE, Stage, stage
from e2e.support import waiting, workloads
from e2e.support.cluster_client import moment
from tools.localcluster.apiserver_requests import MERGE_PATCH

LEVELS = 9_000
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEEP_KEY = 'k:{"name":' + "[" * LEVELS + "]" * LEVELS + "}"
"""Key of a container: a text in the document of the pod, and JSON to those who read the name in it."""
_PLACE = '"here"'

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def on() -> Iterator[Stage]:
    with stage() as running:
        yield running


def _deep_pod() -> bytes:
    """Return a pod on the node whose writer claims a field that no pod has; nested, json.dumps would end as well."""
    made = workloads.pod("deep", "none")
    made["spec"]["nodeName"] = NODE
    writer = {"manager": "x", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
    made["metadata"]["managedFields"] = [{**writer, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": "here"}}]
    nested = '{"f:schedulerName":' + '{"f:a":' * LEVELS + "{}" + "}" * LEVELS + "}"
    return json.dumps({"apiVersion": "v1", "kind": "Pod", **made}).replace(_PLACE, nested).encode()


def _pod_with_a_deep_key() -> dict[str, Any]:
    """Return a Mid pod on the node whose writer, with the name of the agent, claims a container with a deep key."""
    made = workloads.pod("deep-key", "none", priority_class="koord-mid")
    made["spec"]["nodeName"] = NODE
    limited: dict[str, Any] = {DEEP_KEY: {"f:resources": {"f:limits": {"f:cpu": {}}}}}
    writer = {"manager": cpu_limits.FIELD_MANAGER, "operation": "Update", "apiVersion": "v1", "subresource": "resize"}
    fields = {"fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:containers": limited}}}
    made["metadata"]["managedFields"] = [{**writer, **fields, "time": "2026-01-01T00:00:00Z"}]
    return made


def _check_work(on: Stage, name: str) -> None:
    """Wait for a report, for Mid that the manager has calculated from it, and for a pod that the scheduler binds."""
    began = dt.datetime.now(dt.UTC)
    on.cluster_client.wait_report(NODE, began, within_seconds=120)
    waiting.until(
        "Mid of the newest sample",
        lambda: on.cluster_client.mid_status(NODE),
        lambda seen: seen and moment(seen["sample"]) >= began,
        within_seconds=60,
    )
    on.cluster_client.create("Pod", workloads.pod(name, "none", scheduler=workloads.SCHEDULER), NAMESPACE)
    waiting.until(
        f"{name} is bound",
        lambda: on.cluster_client.get("Pod", name, NAMESPACE)["spec"].get("nodeName"),
        within_seconds=60,
    )


def test_no_part_ends_or_stops_to_work(on: Stage) -> None:
    running = {name: part.ensure_running().process for name, part in on.parts.items()}
    _check_work(on, "before")
    with contextlib.closing(on.plane.connect()) as api:
        api.raw("POST", PODS, _deep_pod())
        assert api.raw("GET", f"{PODS}/deep").count(b'"f:a"') == LEVELS, "the API server keeps all levels"
        api.send("POST", PODS, _pod_with_a_deep_key())
        running_since = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
        api.send("PATCH", f"{PODS}/deep-key/status", running_since, content=MERGE_PATCH)
        assert b"[" * LEVELS in api.raw("GET", f"{PODS}/deep-key"), "the API server keeps the key"
    _check_work(on, "watched")
    assert all(process.is_running() for process in running.values())
    for name, part in on.parts.items():
        running[name].kill()
        running[name].wait(10)
        running[name] = part.ensure_running().process
    for part in on.parts.values():
        on.plane.wait_for_page(part.ensure_running(), part.port, "/readyz", 60)
    _check_work(on, "listed")
    assert all(process.is_running() for process in running.values())
