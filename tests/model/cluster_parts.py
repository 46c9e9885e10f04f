"""What Kubernetes does to the pods of the node: kube-scheduler binds them, the kubelet admits or rejects them."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from tests.model import world
from tests.model.memory_session import Server
from tests.model.virtual_time import START
from tests.model.world import CPU, MEMORY, MID, Pod, World
from tests.scheduler_plugin import factories

NODE = "n1"
NODE_UID = "uid-of-the-node"
NAMESPACES = ("default", "aaa", "zzz")
FORMS = (*["{}"] * 12, "{:065d}", "{}e0", "{}e0003", "{:065d}e0")
"""How authors write amounts; `e0003` makes a thousand times as much."""


def moment(at: float) -> str:
    return dt.datetime.fromtimestamp(START + at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def on_the_wire(requests: dict[str, int], form: str = "{}") -> dict[str, str]:
    return {name: form.format(amount) + "m" * (name == CPU and "e" not in form) for name, amount in requests.items()}


def document(pod: Pod) -> dict[str, Any]:
    """Return a new pod as the API server stores it."""
    wire = on_the_wire(pod.requests, pod.form)
    limits = {name: requested for name, requested in wire.items() if name in MID.values()}
    if pod.cpu_limit is not None:
        limits[CPU] = f"{pod.cpu_limit}m"
    return {
        "metadata": {"name": pod.name, "uid": pod.uid, **pod.metadata},
        "spec": {
            "nodeName": pod.node_name,
            "priority": world.PRIORITIES[pod.kind],
            "containers": [{"name": "c", "resources": {"requests": wire, "limits": limits}}],
        },
        "status": {"phase": "Pending"},
    }


def node_document(uid: str) -> dict[str, Any]:
    return {
        "metadata": {"name": NODE, "uid": uid},
        "status": {"capacity": on_the_wire(world.CAPACITY), "allocatable": on_the_wire(world.ALLOCATABLE)},
    }


def published(server: Server) -> dict[str, int]:
    """Return the Mid resources that the node offers, by native name; a missing one is absent."""
    node = server.view("nodes", NODE)
    offered = (node or {"status": {}})["status"].get("allocatable") or {}
    return {native: int(offered[mid]) for native, mid in MID.items() if mid in offered}


TERMINATION_SECONDS = 10
_KEPT_SECONDS = 60
"""Time for which an ended pod stays in the API server."""


class Kubelet:
    """The kubelet of the node."""

    def __init__(self, server: Server, of: World) -> None:
        self.server = server
        self.world = of
        self.is_away = False
        self.evicted: list[Pod] = []
        """Pods that have ended because they were evicted, until another one takes their place."""

    def work(self, now: float) -> None:
        """Admit or reject the pods that arrived."""
        if self.is_away or self.server.view("nodes", NODE) is None:
            return
        for pod in sorted(self.world.pods.values(), key=lambda each: (each.created, each.name)):
            is_foreign = not pod.cgroup and "kubernetes.io/config.mirror" in pod.metadata.get("annotations", {})
            if "deletionTimestamp" in self.server.get("pods", pod.name, pod.namespace)["metadata"]:
                self._terminate(pod, now)
            elif pod.holds() and pod.admitted_at is None and not is_foreign:  # it has no such static pod
                if self._fits(pod, self.world.running()):
                    pod.admitted_at = now
                    if not pod.by_scheduler:
                        pod.bound_at = now
                    self._report(pod, "Running", moment(now), moment(pod.bound_at or now))
                else:
                    self.end(pod, now, "Failed")

    def _terminate(self, pod: Pod, now: float) -> None:
        """Let a pod that was evicted end in a while."""
        pod.leaving_at = now if pod.leaving_at is None else pod.leaving_at
        if now - pod.leaving_at >= TERMINATION_SECONDS:
            pod.ended_at = pod.ended_at or now
            self.world.forget(pod)
            self.server.remove("pods", pod.name, pod.namespace)
            self.evicted.append(pod)

    def collect_garbage(self, now: float) -> None:
        """Delete the pods that ended a while ago."""
        for pod in list(self.world.pods.values()):
            if pod.ended_at is not None and pod.ended_at < now - _KEPT_SECONDS:
                self.world.forget(pod)
                self.server.remove("pods", pod.name, pod.namespace)

    def restart(self, now: float) -> list[Pod]:
        """Admit all running pods again, the oldest first; return those that it rejects."""
        kept: list[Pod] = []
        rejected = []
        for pod in sorted(self.world.running(), key=lambda each: (each.created, each.name)):
            if self._fits(pod, kept):
                kept.append(pod)
            else:
                rejected.append(pod)
                self.end(pod, now, "Failed")
        self.is_away = False
        return rejected

    def end(self, pod: Pod, now: float, phase: str) -> None:
        pod.ended_at = now
        start = None if pod.admitted_at is None else moment(pod.admitted_at)
        self._report(pod, phase, start, None)

    def _fits(self, pod: Pod, among: list[Pod]) -> bool:
        offered = published(self.server)
        return all(
            pod.mid(native) == 0 or sum(each.mid(native) for each in among) + pod.mid(native) <= offered.get(native, 0)
            for native in MID
        ) and fits_natively(pod, among)

    def _report(self, pod: Pod, phase: str, start: str | None, scheduled: str | None) -> None:
        status: dict[str, Any] = {"phase": phase, "startTime": start}
        if scheduled is not None:
            status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}]
        self.server.patch("pods", pod.name, {"status": status}, pod.namespace)


def fits_natively(pod: Pod, among: list[Pod]) -> bool:
    return all(
        pod.requests.get(native, 0) + sum(each.requests.get(native, 0) for each in among) <= world.ALLOCATABLE[native]
        for native in (CPU, MEMORY)
        if pod.requests.get(native, 0)
    )


class KubeScheduler:
    """A kube-scheduler; `extender` is None where Mid pods are placed without the guard."""

    def __init__(self, server: Server, of: World, extender: Any) -> None:
        self.server = server
        self.world = of
        self.extender = extender

    def bind_one(self, now: float, wall: float) -> Pod | None:
        """Bind the oldest pending pod that fits; return it."""
        pending = [pod for pod in self.world.pods.values() if not pod.node_name and pod.ended_at is None]
        if self.server.view("nodes", NODE) is None:
            return None
        held = [pod for pod in self.world.pods.values() if pod.holds()]
        for pod in sorted(pending, key=lambda each: (each.created, each.name)):
            if self._passes(pod, held, wall):
                self._bind(pod, now, wall)
                return pod
        return None

    def _passes(self, pod: Pod, held: list[Pod], wall: float) -> bool:
        offered = published(self.server)
        for native in MID:
            wanted = pod.mid(native)
            if wanted and wanted + sum(each.mid(native) for each in held) > offered.get(native, 0):
                return False
        if not fits_natively(pod, held):
            return False
        if self.extender is None:
            return True
        body = factories.request(self.server.get("pods", pod.name, pod.namespace), [NODE])
        return NODE in (json.loads(self.extender.filter(body, wall)).get("NodeNames") or ())

    def _bind(self, pod: Pod, now: float, wall: float) -> None:
        pod.node_name, pod.bound_at, pod.by_scheduler = NODE, now, True
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(now)}
        self.server.patch(
            "pods", pod.name, {"spec": {"nodeName": NODE}, "status": {"conditions": [scheduled]}}, pod.namespace
        )


class Neighbours:
    """Other nodes, short for ever: of each, two Mid pods of `aaa` and one of `zzz`, whose end would help."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.since: dict[str, float] = {}
        """Name of a node -> since when it is short."""

    def add(self, count: int, now: float) -> None:
        for number in range(count):
            name = f"m{number}"
            self.server.add("nodes", {**node_document(f"uid-{name}"), "metadata": {"name": name}})
            for namespace, suffix in (("aaa", "a"), ("aaa", "b"), ("zzz", "c")):
                pod = Pod(f"{name}-{suffix}", f"uid-{name}-{suffix}", "mid", {MID[CPU]: 500}, now, lambda _: 0, (0, 0))
                pod.node_name = name
                self.server.add("pods", document(pod), namespace)
                status = {"phase": "Running", "startTime": moment(now)}
                self.server.patch("pods", pod.name, {"status": status}, namespace)
            self.since[name] = now

    def report(self, now: float) -> None:
        """Write the NodeMetric of each: nothing is for Mid."""
        prod = {"resource": {"resources": {CPU: "15", MEMORY: "1Gi"}}}
        usage = {kind: {CPU: "0", MEMORY: "0"} for kind in ("prod", "mid", "batchAndFree", "system")}
        for name in self.since:
            held = [pod for pod in self.server.all("pods") if pod["spec"].get("nodeName") == name]
            for pod in held:
                if "deletionTimestamp" in pod["metadata"]:
                    self.server.remove("pods", pod["metadata"]["name"], pod["metadata"]["namespace"])
            mid = {MID[CPU]: str(500 * len(held)), MID[MEMORY]: "0"}
            allocated = {"prod": {CPU: "15", MEMORY: "1Gi"}, "mid": mid}
            status = {"updateTime": moment(now), "allocated": allocated, "prodPeakMetric": prod, "usage": usage}
            if self.server.view("nodemetrics", name) is not None:
                self.server.patch("nodemetrics", name, {"status": status})
