"""Agents of nodes without a machine: given usage goes through the product's own observer, predictor and report code.

Replaced are the files of a host. The Mid pods of a node use most of what they request; what a Prod pod uses is given.
Reports are written as merge patches of the status.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from api_types import names
from api_types.kubernetes import pods as api_pods
from api_types.kubernetes import quantities
from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.node_metric import types as node_metric
from koordlet.cluster import pods as pods_on_node
from koordlet.cluster.pods import PodOnNode
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import UsageSample
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import StaticCluster
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODE_METRICS, NODES, Connection, RequestError
from tools.localcluster.standalone_control_plane import ControlPlane

STEP_SECONDS: Final = 3
TRAIN_EVERY_STEPS: Final = 5
_HISTORY_STEP_SECONDS: Final = 300
_MID_SHARE: Final = 0.8

UsageOfProd = Callable[[str, PodOnNode, float], UsageSample]
"""Usage of a Prod pod, by the name of its node, and the time in seconds since 1970."""
UsageOfSystem = Callable[[str], UsageSample | None]
"""Usage outside of pods, by the name of the node; None where a pod of it cannot be measured."""


class Agents:
    """One agent for each node that is Ready and has a NodeMetric; `start` runs them in a thread.

    An agent that starts has seen `history_seconds` of its node already. Nodes in `silent` report no more.
    """

    def __init__(self, plane: ControlPlane, prod: UsageOfProd, system: UsageOfSystem, history_seconds: int = 0) -> None:
        self._plane = plane
        self._prod = prod
        self._system = system
        self._history_seconds = history_seconds
        self.silent: set[str] = set()
        self._agents: dict[str, FedNode] = {}
        self._steps = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.slowest_step_seconds = 0.0

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.closing(self._plane.connect()) as api:
            began = time.monotonic()
            while not self._ends.wait(max(began + self._steps * STEP_SECONDS - time.monotonic(), 0.0)):
                step_began = time.monotonic()
                with contextlib.suppress(RequestError, OSError, http.client.HTTPException):
                    self._step(api)
                self._steps += 1
                self.slowest_step_seconds = max(self.slowest_step_seconds, time.monotonic() - step_began)

    def _step(self, api: Connection) -> None:
        nodes = {each["metadata"]["name"]: each for each in _listed(api, NODES)}
        metrics = {each["metadata"]["name"]: each for each in _listed(api, NODE_METRICS)}
        bound: dict[str, list[api_pods.Pod]] = {}
        for item in _listed(api, "/api/v1/pods"):
            if node := item["spec"].get("nodeName"):
                bound.setdefault(node, []).append(msgspec.convert(item, type=api_pods.Pod))
        self._agents = {name: agent for name, agent in self._agents.items() if name in nodes}
        for name in nodes.keys() & metrics.keys():
            if _is_ready(nodes[name]) and name not in self.silent:
                self._report(api, nodes[name], metrics[name], bound.get(name, []))

    def _report(self, api: Connection, node: dict[str, Any], metric: dict[str, Any], bound: list[api_pods.Pod]) -> None:
        name, now = node["metadata"]["name"], time.time()
        agent = self._agents.get(name)
        is_new = agent is None
        if agent is None:
            agent = self._agents[name] = FedNode(StaticCluster(), STEP_SECONDS)
        cluster = agent.cluster
        cluster.capacity, cluster.allocatable = _amounts(node, "capacity"), _amounts(node, "allocatable")
        cluster.spec = node_metric.NodeMetricSpec.model_validate(metric.get("spec") or {})
        cluster.generation = metric["metadata"].get("generation", 1)
        found = [pods_on_node.describe(each, name) for each in bound]
        for pod in found:
            cluster.pods.put(pod)
        cluster.pods.keep_only([(pod.namespace, pod.name) for pod in found])
        if is_new:
            agent.step_seconds = _HISTORY_STEP_SECONDS
            for before in range(self._history_seconds, 0, -_HISTORY_STEP_SECONDS):
                self._sample(name, agent, now - before)
                agent.train()
            agent.step_seconds = STEP_SECONDS
        self._sample(name, agent, now)
        if self._steps % TRAIN_EVERY_STEPS == 0:
            agent.train()
        status = {"status": agent.report()}
        api.send("PATCH", f"{NODE_METRICS}/{name}/status", status, content=MERGE_PATCH)

    def _sample(self, name: str, agent: FedNode, at: float) -> None:
        agent.now = agent.boot_seconds = at - agent.step_seconds
        pods = [pod for pod in agent.cluster.pods.active() if pod.is_admitted]
        agent.sample({pod.uid: self._usage(name, pod, at) for pod in pods}, self._system(name))

    def _usage(self, node: str, pod: PodOnNode, at: float) -> UsageSample:
        if pod.priority_class is not PriorityClass.MID:
            return self._prod(node, pod, at)
        return UsageSample(pod.mid_cpu_request_millis / 1000 * _MID_SHARE, pod.mid_memory_request_bytes * _MID_SHARE)


def _listed(api: Connection, path: str) -> list[dict[str, Any]]:
    return list(api.send("GET", f"{path}?resourceVersion=0")["items"])


def _is_ready(node: dict[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))


def _amounts(node: dict[str, Any], field: str) -> WholeAmounts:
    amounts = node["status"][field]
    return WholeAmounts(*(quantities.resource_units(name, amounts[name]) for name in (names.CPU, names.MEMORY)))
