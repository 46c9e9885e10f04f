"""Make the documents of the cases. Times are seconds after the start; a node has 10 cores and 20,000 bytes."""

# ruff: noqa: E501  # a case is a line
# fmt: off
from __future__ import annotations

import datetime as dt
from typing import Any

from tests.corpora.mid.replay import START

Document = dict[str, Any]
CPU, MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"
CLASSES = ("prod", "mid", "batchAndFree", "system")
STATUS, EVICTION = "koordinator.sh/mid-resource-status", "koordinator.sh/mid-eviction"
ENABLED = {"enable": True, "degradeTimeMinutes": 3}


def moment(seconds: float) -> str:
    return (START + dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def native(cpu: str = "10", memory: str = "20k") -> Document:
    return {"cpu": cpu, "memory": memory}


def mid(cpu: Any = 0, memory: Any = 0) -> Document:
    return {CPU: str(cpu), MEMORY: str(memory)}


def node(
    name: str = "n1", *, capacity: Document | None = None, allocatable: Document | None = None,
    published: tuple[int, int] | None = None, spec: Document | None = None, uid: str = "", **metadata: Any,
) -> Document:
    capacity = native() if capacity is None else capacity
    allocatable = capacity if allocatable is None else allocatable
    own = mid(*published) if published else {}
    return {"metadata": {"name": name, "uid": uid or f"uid-{name}", "creationTimestamp": moment(-7200), **metadata}, "spec": spec or {}, "status": {"capacity": capacity | own, "allocatable": allocatable | own}}


def metric(name: str = "n1", status: Document | None = None, **metadata: Any) -> Document:
    born = {"creationTimestamp": moment(-7200)}
    item: Document = {"metadata": {"name": name, "uid": f"metric-{name}", **born, **metadata}, "spec": {}}
    return item | ({"status": status} if status else {})


def amounts(cpu: str, memory: str) -> Document:
    return {"resource": {"resources": native(cpu, memory)}}


def usage(**by_class: tuple[Any, Any]) -> Document:
    return {name: native(*map(str, by_class.get(name, (0, 0)))) for name in CLASSES}


def status(sample: float | None, *, peak: tuple[str, str] | None = ("2", "6k"), prod: tuple[str, str] | None = ("8", "16k"), held: tuple[Any, Any] | str = (0, 0), used: Document | None = None, **more: Any) -> Document:
    """Return the status of a NodeMetric; a key that is None is left out."""
    of_mid = held if isinstance(held, str) else mid(*held)
    found = {"updateTime": None if sample is None else moment(sample), "allocated": None if prod is None else {"prod": native(*prod), "mid": of_mid}, "prodPeakMetric": None if peak is None else amounts(*peak), "usage": usage() if used is None else used, **more}
    return {key: value for key, value in found.items() if value is not None}


def pod(
    name: str, cpu: Any = 500, memory: Any = 1000, *, on: str = "n1", namespace: str = "tenant", bound: float = -3600,
    priority: int | None = 7000, requests: Document | None = None, phase: str = "Running", spec: Document | None = None,
    **metadata: Any,
) -> Document:
    """Return a pod, by default one that requests Mid resources."""
    requests = mid(cpu, memory) if requests is None else requests
    bound_at = {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(bound)}
    state: Document = {"phase": phase, "conditions": [bound_at]}
    if phase != "Pending":
        state["startTime"] = moment(bound)
    priorities = {} if priority is None else {"priority": priority}
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **metadata}, "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": requests}}]} | priorities | (spec or {}), "status": state}


def prod_pod(name: str = "web", cpu: str = "4", memory: str = "8k", **more: Any) -> Document:
    owner = {"kind": "ReplicaSet", "name": "o", "uid": "o", "controller": True, "apiVersion": "apps/v1"}
    given = {"namespace": "shop", "priority": 9000, "ownerReferences": [owner], **more}
    return pod(name, requests=native(cpu, memory), **given)


def written(
    reason: str = "Calculated", at: float = -60, sample: float = -60, values: tuple[int, int] = (3000, 5000),
    lines: Document | None = None, **more: Any,
) -> Document:
    """Return a status annotation of an earlier leader."""
    state = "False" if reason in ("SampleTooOld", "NodeMetricMissing", "NeverReported", "ColocationDisabled") else "True"
    of_mid = {name: {"floor": 0, "published": value, "calculated": value} | (lines or {}) for name, value in zip((CPU, MEMORY), values, strict=True)}
    return {
        "time": moment(at), "reason": reason, "status": state, "text": "", "since": moment(at - 600),
        "sample": moment(sample), "prediction": moment(sample), "requestsFrom": "report", "resources": of_mid, **more,
    }


def case(name: str, config: Any = ENABLED, *, seconds: int | None = None, **keys: Any) -> Document:
    """Return a case with a node n1 and its NodeMetric, where nothing else is given."""
    steps = sorted(keys.pop("steps", []), key=lambda step: step[0])
    found = {"name": name, "config": config, "nodes": [node()], "nodemetrics": [metric()], **keys, "steps": steps}
    found["seconds"] = seconds if seconds is not None else (int(steps[-1][0]) if steps else 0) + 4
    return {key: value for key, value in found.items() if value is not None}


def reports(*given: Document, at: float = 0, every: float = 60, on: str = "n1") -> list[list[Any]]:
    """Return steps in which a node reports, each a few seconds after its sample; the samples are set here."""
    steps = []
    for position, keys in enumerate(given):
        arrives = at + position * every
        steps.append([arrives, "report", on, status(arrives - 3, **keys)])
    return steps
