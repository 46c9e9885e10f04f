"""Objects as the apiserver sends them, valid by default; override the fields that matter."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import msgspec

from api_types.kubernetes import pods
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.state.node_report import NodeMetric

NOW = 1_700_000_000.0


def moment(offset: float) -> str:
    """Return NOW + offset seconds as RFC 3339 text."""
    return dt.datetime.fromtimestamp(NOW + offset, dt.UTC).isoformat().replace("+00:00", "Z")


def pod_document(
    name: str = "web-1",
    *,
    uid: str | None = None,
    namespace: str = "default",
    node: str = "",
    priority: int | None = 9500,
    requests: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    owner_kind: str | None = None,
    scheduled: float | None = None,
    initialized: float | None = None,
    phase: str = "Pending",
) -> dict[str, Any]:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": moment(offset)}
        for kind, offset in (("PodScheduled", scheduled), ("Initialized", initialized))
        if offset is not None
    ]
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}" if uid is None else uid,
            "annotations": annotations or {},
            "labels": labels or {},
            "ownerReferences": [{"kind": owner_kind, "name": "owner", "uid": "u"}] if owner_kind else [],
        },
        "spec": {
            "priority": priority,
            "nodeName": node,
            "containers": [{"name": "main", "resources": resources}],
        },
        "status": {"phase": phase, "conditions": conditions},
    }


def pod(*args: Any, **overrides: Any) -> pods.Pod:
    return msgspec.json.decode(json.dumps(pod_document(*args, **overrides)), type=pods.Pod)


def node(
    name: str = "n1",
    *,
    cpu: str = "100",
    memory: str = "100Gi",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **more: str,
) -> pods.Node:
    allocatable = {"cpu": cpu, "memory": memory, **more}
    document = {
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }
    return msgspec.json.decode(json.dumps(document), type=pods.Node)


def metric(
    name: str = "n1",
    *,
    usage: dict[str, str] | None = None,
    updated: float | None = 0,
    interval: int | None = 60,
    pods_metric: list[Any] | None = None,
    system: dict[str, str] | None = None,
    aggregated: list[Any] | None = None,
    status: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
) -> NodeMetric:
    """Build a NodeMetric; usage None omits `status.nodeMetric`."""
    full = {
        "updateTime": None if updated is None else moment(updated),
        "podsMetric": pods_metric or [],
        **(status or {}),
    }
    if usage is not None:
        full["nodeMetric"] = {
            "nodeUsage": {"resources": usage},
            "systemUsage": {"resources": system or {}},
            "aggregatedNodeUsages": aggregated or [],
        }
    document = {
        "metadata": {"name": name},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": interval}, **(spec or {})},
        "status": full,
    }
    return msgspec.json.decode(json.dumps(document), type=NodeMetric)


def reported(name: str, cpu: str, memory: str, priority: str = "koord-prod", namespace: str = "default") -> Any:
    usage = {"resources": {"cpu": cpu, "memory": memory}}
    return {"namespace": namespace, "name": name, "podUsage": usage, "priority": priority}


class Clock:
    """A monotonic clock that a test sets."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def parts(
    load_aware: dict[str, Any] | None = None,
    *,
    plugins: dict[str, Any] | None = None,
    monotonic: Callable[[], float] | None = None,
) -> assembly.Parts:
    """Build the product's parts with LoadAwareScheduling's arguments, and the plugins that `plugins` selects."""
    entries = [{"name": "LoadAwareScheduling", "args": load_aware or {}}]
    return assembly.Parts(
        loader.parse({"pluginConfig": entries, "plugins": plugins}),
        monotonic=monotonic or Clock(),
    )


def request(pod_: dict[str, Any], names: list[str]) -> bytes:
    """Return the body of filter and prioritize as Go writes it."""
    return json.dumps({"Pod": pod_, "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode()
