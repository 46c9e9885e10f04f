"""Model of the parts of kube-scheduler (v1.34) that count requests, by its default profile, and queue pods. Pure.

    fits      requests of the node's pods + the pod's <= allocatable, for each resource it requests; one pod more fits
    least     mean over cpu and memory of (allocatable - requested) * 100 // allocatable        NodeResourcesFit
    balanced  trunc((1 - |cpu share - memory share| / 2) * 100)                NodeResourcesBalancedAllocation

For `least` a pod without a request counts 100 milli-cores, 200 MiB; a pod that requests neither has no `balanced`
(kubernetes issue 129138). All other plugins are assumed to treat every node equally: no taints, affinities, topology
spread, volumes or images. Sampling is the default: in a large cluster only some of the nodes that fit are scored.

A pod that no node accepted

    waits for     a departure of a pod, where its requests do not fit on a node, and then until its backoff is over:
                  2 ** (attempts - 1) seconds after the attempt, at most 10
    or for        the scheduler plugin, which has it tried at once
    or for        300 s, checked every 30 s

Pods that are due at the same moment are tried in the order of their priority, then of their arrival.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from api_types import names
from api_types.kubernetes import pods
from scheduler_plugin.config import kube_scheduler
from scheduler_plugin.plugins.load_aware.plugin import least_used_score
from scheduler_plugin.state.node_columns import Bools, Floats, Ints, Rows

_SCORED: Final = (names.CPU, names.MEMORY)
_UNREQUESTED: Final = (100, 200 * 1024**2)
_PODS: Final = "pods"
_FIT: Final = "NodeResourcesFit"
_BALANCED: Final = "NodeResourcesBalancedAllocation"
_MIN_SCORED: Final = 100
_EXTENDER_FACTOR: Final = 10
"""kube-scheduler multiplies the scores of an extender (MaxNodeScore / MaxExtenderPriority)."""


class CannotModel(Exception):
    """The configuration of kube-scheduler uses something that this model does not support."""


class Weights(NamedTuple):
    """Weights of the scores of nodes that fit. The defaults are those of this project's chart."""

    least: int = 1
    balanced: int = 1
    product: int = 1


def read_weights(document: Mapping[str, Any]) -> Weights:
    """Read the weights of a KubeSchedulerConfiguration; any other document gets the defaults. Raises CannotModel."""
    if not kube_scheduler.is_configuration(document):
        return Weights()
    profiles = document.get("profiles") or [{}]
    strategies = [
        ((entry.get("args") or {}).get("scoringStrategy") or {}).get("type", "LeastAllocated")
        for entry in profiles[0].get("pluginConfig") or ()
        if entry.get("name") == _FIT
    ]
    if strategies not in ([], ["LeastAllocated"]):
        raise CannotModel(f"{_FIT} scores by {strategies[0]}; only LeastAllocated is simulated")
    plugins = profiles[0].get("plugins") or {}
    product = _plugin_weight(plugins, kube_scheduler.PLUGIN)
    if extenders := document.get("extenders"):
        product = _EXTENDER_FACTOR * int(extenders[0].get("weight") or 1)
    return Weights(_plugin_weight(plugins, _FIT), _plugin_weight(plugins, _BALANCED), product)


def _plugin_weight(plugins: Mapping[str, Any], name: str) -> int:
    weight = 1
    for point in ("multiPoint", "score"):
        lists = plugins.get(point) or {}
        if any(entry.get("name") in (name, "*") for entry in lists.get("disabled") or ()):
            weight = 0
        weight = next((int(e.get("weight") or 1) for e in lists.get("enabled") or () if e.get("name") == name), weight)
    return weight


class KubeSchedulerModel:
    """Requests of every node while pods are added and removed; nodes by their index."""

    def __init__(self, nodes: Sequence[pods.Node]) -> None:
        """Read the allocatable resources of nodes. Raises quantities.InvalidQuantity."""
        allocatable = [pods.units(node.status.allocatable) for node in nodes]
        self._resources = sorted({*_SCORED, *(name for node in allocatable for name in node if name != _PODS)})
        self._allocatable: Ints = np.array(
            [[node.get(name, 0) for node in allocatable] for name in self._resources], dtype=np.int64
        )
        self._requested: Ints = np.zeros_like(self._allocatable)
        self._scored_rows = [self._resources.index(name) for name in _SCORED]
        self._scored: Ints = np.zeros((len(_SCORED), len(nodes)), dtype=np.int64)
        self._most_pods: Ints = np.array([node.get(_PODS, 110) for node in allocatable], dtype=np.int64)
        self._pods: Ints = np.zeros(len(nodes), dtype=np.int64)
        self._next_start = 0

    def add(self, node: int, requests: pods.Resources, sign: int = 1) -> None:
        """Count a pod on a node; sign -1 removes it."""
        self._requested[:, node] += sign * np.array([requests.get(name, 0) for name in self._resources])
        self._scored[:, node] += sign * np.array(_counted(requests))
        self._pods[node] += sign

    def misfits(self, requests: pods.Resources) -> dict[str, Bools]:
        """Return the nodes that a pod does not fit on, by kube-scheduler's reason."""
        reasons: dict[str, Bools] = {"Too many pods": self._pods >= self._most_pods}
        for name, amount in requests.items():
            if not amount:
                continue
            if name not in self._resources:
                reasons[f"Insufficient {name}"] = np.ones(len(self._pods), dtype=np.bool_)
                continue
            row = self._resources.index(name)
            reasons[f"Insufficient {name}"] = self._requested[row] + amount > self._allocatable[row]
        return {reason: nodes for reason, nodes in reasons.items() if nodes.any()}

    def sample(self, fits: Bools) -> Rows:
        """Return the nodes to score: all that fit in a small cluster, else a limited number of the next ones."""
        count = len(fits)
        percent = max(5, 50 - count // 125)
        most = count if count < _MIN_SCORED else max(_MIN_SCORED, count * percent // 100)
        order = (self._next_start + np.arange(count)) % count
        feasible: Rows = np.flatnonzero(fits[order])
        if len(feasible) > most:
            feasible = feasible[:most]
            self._next_start = (self._next_start + int(feasible[-1]) + 1) % count
        return order[feasible]

    def scores(self, requests: pods.Resources, candidates: Rows, weights: Weights) -> Ints:
        """Compute the weighted sum of `least` and `balanced`."""
        capacity = self._allocatable[self._scored_rows][:, candidates]
        counted = np.array(_counted(requests))[:, np.newaxis]
        least: Ints = least_used_score(self._scored[:, candidates] + counted, capacity).sum(axis=0) // len(_SCORED)
        requested = np.array([requests.get(name, 0) for name in _SCORED])[:, np.newaxis]
        if not requested.any():
            return weights.least * least
        return weights.least * least + weights.balanced * _balanced(
            self._requested[self._scored_rows][:, candidates] + requested, capacity
        )


def _counted(requests: pods.Resources) -> list[int]:
    return [requests.get(name) or least for name, least in zip(_SCORED, _UNREQUESTED, strict=True)]


def _balanced(requested: Ints, capacity: Ints) -> Ints:
    shares: Floats = np.minimum(np.divide(requested, capacity, out=np.ones(capacity.shape), where=capacity > 0), 1.0)
    deviation = np.where((capacity > 0).all(axis=0), np.abs(shares[0] - shares[1]) / 2, 0.0)
    return ((1 - deviation) * 100).astype(np.int64)


_LONGEST_SECONDS: Final = 300.0
_FLUSH_SECONDS: Final = 30.0
_FIRST_BACKOFF_SECONDS: Final = 1.0
_LONGEST_BACKOFF_SECONDS: Final = 10.0


class Due(NamedTuple):
    """A pod to try again, and the time."""

    pod: int
    at: float


class _WaitingPod(NamedTuple):
    ready_at: float
    """End of the backoff."""
    flush_at: float
    lacks_room: bool


class SchedulingQueue:
    """Pods that wait for an event, by their index. Every pod that is due leaves the queue."""

    def __init__(self) -> None:
        self._waiting: dict[int, _WaitingPod] = {}

    def refused(self, pod: int, attempt: int, at: float, *, lacks_room: bool) -> float:
        """Add a pod after its attempt number `attempt` (1, 2 ...); return when it is tried without any event."""
        pause = min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(attempt - 1, 32), _LONGEST_BACKOFF_SECONDS)
        flush_at = math.ceil((at + _LONGEST_SECONDS) / _FLUSH_SECONDS) * _FLUSH_SECONDS
        self._waiting[pod] = _WaitingPod(at + pause, flush_at, lacks_room)
        return flush_at

    def pod_left(self, at: float) -> Iterator[Due]:
        """Yield the pods that the departure of a pod wakes: those whose requests do not fit on some node."""
        for pod in [pod for pod, waiting in self._waiting.items() if waiting.lacks_room]:
            yield Due(pod, max(at, self._waiting.pop(pod).ready_at))

    def flushed(self, pod: int, at: float) -> bool:
        """Return whether a pod has waited until its time without events, and remove it then."""
        waiting = self._waiting.get(pod)
        return waiting is not None and waiting.flush_at <= at and self.remove(pod)

    def remove(self, pod: int) -> bool:
        """Remove a pod; return whether it waited."""
        return self._waiting.pop(pod, None) is not None
