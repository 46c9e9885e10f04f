"""The product as kube-scheduler and the API server meet it: requests in JSON, watch events, patches; simulated time."""

from __future__ import annotations

import contextlib
import json
import types
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import msgspec
from prometheus_client import CollectorRegistry

from api_types.kubernetes import pods
from scheduler_plugin import assembly
from scheduler_plugin.extender import dispatcher, metrics, verbs
from scheduler_plugin.queueing import refused_pods
from scheduler_plugin.state.waiting_pods import WaitingPod
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.in_process.kube_scheduler import RESOLVABLE, UNRESOLVABLE, Answer
from tests.scheduler_plugin.in_process.scripted_cluster import (
    EXPIRATION_SECONDS,
    REPORT_STEPS,
    STEP_SECONDS,
    Report,
    Script,
    ScriptedPod,
)

TURN_SECONDS = 0.002
"""Time between two things that kube-scheduler does."""
WAKING_SECONDS = 0.25
_MONOTONIC = 5000.0


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())


class Extender:
    """The product's parts behind its dispatcher."""

    def __init__(self, script: Script) -> None:
        self._seconds = 0.0
        self.parts = factories.parts(
            {"nodeMetricExpirationSeconds": EXPIRATION_SECONDS, **script.args},
            monotonic=lambda: _MONOTONIC + self._seconds,
        )
        counted = metrics.RequestMetrics(CollectorRegistry())
        self._dispatch = dispatcher.Dispatcher(self.parts.extender, counted, list, lambda: NOW + self._seconds)
        self._selected: dict[str, str] = {}
        """Node that the claims of a pod carry, by pod."""
        self._pods = {pod.name: pod for pod in script.pods}
        self.requests = 0
        self.wrong_guesses: list[int] = []
        """Steps in which a pod with a claim did not count on the node that kube-scheduler chose."""
        for node in script.nodes:
            self.parts.cluster.node_changed(
                factories.node(node.name, cpu=f"{node.cpu_millis}m", memory=f"{node.memory_mib}Mi")
            )

    @contextlib.contextmanager
    def simulated_time(self) -> Iterator[None]:
        """Let the product read the simulated time."""
        clock = types.SimpleNamespace(
            time=lambda: NOW + self._seconds,
            monotonic=lambda: _MONOTONIC + self._seconds,
            perf_counter=lambda: _MONOTONIC + self._seconds,
        )
        with contextlib.ExitStack() as patches:
            for module in (assembly, dispatcher):
                patches.enter_context(mock.patch.object(module, "time", clock))
            for module in (refused_pods, verbs):  # the built-in one differs from process to process
                patches.enter_context(mock.patch.object(module, "hash", _hash, create=True))
            yield

    def _call(self, verb: str, body: bytes) -> Any:
        self._seconds += TURN_SECONDS
        self.requests += 1
        response = self._dispatch("POST", f"/{verb}", body)
        assert response.status == 200, response
        assert response.then is not None
        response.then()
        return json.loads(response.body)

    # calls of kube-scheduler

    def passes_inside(self, pod: ScriptedPod, node: str) -> bool:
        return True

    def call_filter(self, pod: ScriptedPod, nodes: Sequence[str], nominated: str) -> Answer:
        answer = self._call("filter", factories.request(pod.document(nominated=nominated), list(nodes)))
        resolvable = dict.fromkeys(answer.get("FailedNodes") or {}, RESOLVABLE)
        unresolvable = dict.fromkeys(answer.get("FailedAndUnresolvableNodes") or {}, UNRESOLVABLE)
        self._last_nominated = nominated
        return Answer(answer["NodeNames"] or [], {**resolvable, **unresolvable})

    def scores(self, pod: ScriptedPod, nodes: Sequence[str]) -> Mapping[str, int]:
        answer = self._call("prioritize", factories.request(pod.document(nominated=self._last_nominated), list(nodes)))
        return {each["Host"]: each["Score"] for each in answer}

    def call_preempt(self, pod: ScriptedPod, victims: Mapping[str, Sequence[ScriptedPod]]) -> Iterable[str]:
        meta = {
            node: {"Pods": [{"UID": f"uid-{each.name}"} for each in pods_], "NumPDBViolations": 0}
            for node, pods_ in victims.items()
        }
        request = {"Pod": pod.document(), "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}
        return list(self._call("preempt", json.dumps(request).encode())["NodeNameToMetaVictims"])

    def call_bind(self, pod: ScriptedPod, node: str) -> None:
        binding = {"PodName": pod.name, "PodNamespace": "default", "PodUID": f"uid-{pod.name}", "Node": node}
        assert self._call("bind", json.dumps(binding).encode())["Error"]

    def reserve(self, pod: ScriptedPod, node: str) -> None: ...

    def unreserve(self, pod: ScriptedPod) -> None:
        self._selected.pop(pod.name, None)

    # the API server

    def clock_moved(self, seconds: float) -> None:
        """Run the tasks that follow the time, once a second, until then."""
        while self._seconds < seconds:
            self._seconds = min(int(self._seconds) + 1.0, seconds)
            now, monotonic = NOW + self._seconds, _MONOTONIC + self._seconds
            for due in self.parts.reservations.due(monotonic):
                name = due.pod.metadata.name
                self.parts.reservations.checked(due, self._selected.get(name), now, monotonic)
            self.parts.cluster.expire_assumed()
            self.parts.check_blindness(0.0, now)

    def report_changed(self, report: Report) -> None:
        cpu, memory = report.usage
        self.parts.cluster.metric_changed(
            factories.metric(
                report.node,
                usage={"cpu": f"{cpu}m", "memory": f"{memory}Mi"},
                updated=report.at,
                interval=REPORT_STEPS * STEP_SECONDS,
                pods_metric=[
                    factories.reported(name, f"{used[0]}m", f"{used[1]}Mi") for name, used in report.pods.items()
                ],
            )
        )

    def pod_waits(self, pod: ScriptedPod, nominated: str, reason: str = "", message: str = "") -> None:
        self._seconds += TURN_SECONDS
        document = pod.document(nominated=nominated)
        if reason:
            condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
            document["status"]["conditions"] = [condition]
        self.parts.waiting.changed(msgspec.json.decode(json.dumps(document), type=WaitingPod))

    def volume_begun(self, pod: ScriptedPod, node: str) -> None:
        self._selected[pod.name] = node
        counted = self.parts.cluster.find_pod(msgspec.json.decode(json.dumps(pod.document()), type=pods.Pod))
        if counted is None or counted[0] != node:
            self.wrong_guesses.append(int(self._seconds // STEP_SECONDS))

    def pod_bound(self, pod: ScriptedPod, node: str, at: float) -> None:
        self._seconds += TURN_SECONDS
        self._selected.pop(pod.name, None)
        self.parts.waiting.gone("default", pod.name)
        shown = msgspec.json.decode(json.dumps(pod.document(node, bound_at=at)), type=pods.Pod)
        self.parts.cluster.pod_changed(shown, NOW + self._seconds)

    def pod_gone(self, pod: ScriptedPod) -> None:
        self._selected.pop(pod.name, None)
        self.parts.waiting.gone("default", pod.name)
        self.parts.cluster.pod_deleted("default", pod.name, f"uid-{pod.name}")

    def hint(self, node: str, waiting: Sequence[ScriptedPod]) -> Iterable[ScriptedPod]:
        return ()

    def woken(self) -> Iterable[str]:
        self._seconds += WAKING_SECONDS
        chosen = self.parts.refused.choose(NOW + self._seconds, _MONOTONIC + self._seconds)
        return [retry.pod.key.removeprefix("default/") for retry in chosen if retry is not None]
