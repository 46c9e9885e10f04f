"""Decision records of the scheduler plugin, from its debug page on loopback, reached by `kubectl port-forward`."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from api_types.kubernetes import pods
from apiserver_client import errors, objects, resources, session
from console.cluster.details import Records
from fleet import port_forward
from fleet.findings import SCHEDULER
from fleet.port_forward import Caller, CannotForward, PodPort
from manager import lease
from scheduler_plugin.settings import SchedulerPluginSettings

_MOST_NODES: Final = 50
_DEBUG_PORT: Final = int(SchedulerPluginSettings.model_fields["debug_port"].default)


NOT_IN_CLUSTER: Final = Records(
    missing="Each scheduler plugin keeps its decision records on its own loopback address, which this pod does not "
    "reach. For reasons node by node run koordctl console on your machine. The Events below are what the scheduler "
    "wrote to the cluster."
)


async def read(api: session.Session, namespace: str, caller: Caller, pod: str) -> Records:
    """Return the recent decisions, and those on `pod` where one is named; why there are none is a sentence.

    Raises errors.ApiServerError where the apiserver does not answer.
    """
    try:
        name = await _leader(api, namespace)
        if not name:
            return Records(missing=f"No pod of {SCHEDULER} runs in the namespace {namespace}.")
        async with port_forward.open_forward(PodPort(namespace, name, _DEBUG_PORT), caller) as forward:
            recent = _decoded(await forward.get("/debug/pods/"))
            records: Any = None
            if pod:
                records = _decoded(await forward.get(f"/debug/pods/{urllib.parse.quote(pod)}?nodes={_MOST_NODES}"))
    except (CannotForward, errors.StatusError) as error:
        return Records(missing=f"The decision records were not read: {error}.")
    decisions = _mappings(records.get("decisions")) if isinstance(records, dict) else []
    return Records(_mappings(recent), pod, decisions)


async def _leader(api: session.Session, namespace: str) -> str:
    """Return the running pod of the scheduler that leads; any other where the Lease names none of them."""
    listed = await objects.list_all(
        api,
        resources.PODS,
        namespace=namespace,
        label_selector=f"app.kubernetes.io/name={SCHEDULER}",
        decode=pods.Pod,
    )
    running = sorted(pod.metadata.name for pod in listed.items if pod.status.phase == "Running")
    try:
        record = await objects.get(api, resources.LEASES, SCHEDULER, namespace=namespace, decode=lease.Lease)
    except errors.StatusError:
        return next(iter(running), "")
    holder = (record.spec.holder_identity or "").partition("_")[0]
    return holder if holder in running else next(iter(running), "")


def _mappings(items: object) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _decoded(page: port_forward.ForwardedPage) -> Any:
    if page.status != HTTPStatus.OK:
        return None
    try:
        return json.loads(page.body)
    except (ValueError, RecursionError):
        return None
