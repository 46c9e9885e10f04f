"""The stage beside an autoscaler: control plane, scheduler with the extender, manager, agents, Karpenter and kwok.

Real are etcd, kube-apiserver, kube-controller-manager, kube-scheduler, Karpenter, and of the suite the manager, the
extender and what the agents report. kwok and `agents` replace the machines.
"""

from __future__ import annotations

import collections
import contextlib
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from api_types.mid_pods import template
from e2e.autoscaler import karpenter
from e2e.autoscaler.agents import STEP_SECONDS, Agents
from e2e.support import lone_scheduler, workloads
from e2e.support.lone_manager import LoneManager
from e2e.support.lone_scheduler import LoneScheduler
from koordlet.cluster.pods import PodOnNode
from koordlet.samples import UsageSample
from tools.localcluster import control_plane, standalone_control_plane
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODES, Connection, RequestError
from tools.localcluster.host import processes
from tools.localcluster.host.processes import Program
from tools.localcluster.standalone_control_plane import ControlPlane

NAMESPACE: Final = "work"
DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
GRACE_SECONDS: Final = 1
"""Time in which a pod may end: the usual 30 s are less in a day of 20 minutes."""
_SYSTEM: Final = UsageSample(0.1, 2**30)
_SOFT_AFTER_SECONDS: Final = 60
"""softAfterSeconds that the chart sets with `autoscaling: karpenter`."""
_CONFIG: Final[Mapping[str, Any]] = {
    "metricReportIntervalSeconds": STEP_SECONDS,
    "metricAggregateDurationSeconds": 60,
    # A compressed day: history of minutes in place of hours.
    "nodePredictPolicy": {
        "coldStartPeriodSeconds": 0, "n": 3, "checkIntervalSeconds": STEP_SECONDS,
        "cpuHalfLifeSeconds": 60, "memoryHalfLifeSeconds": 60,
    },
}  # fmt: skip


def _prod_usage(_: str, pod: PodOnNode, seconds: float) -> UsageSample:
    """Return 0.2 to 0.5 of the request, by the name of the pod, with a slow wave of its own."""
    seed = zlib.crc32(pod.name.encode())
    phase = seed % 628 / 100
    share = 0.25 + seed % 150 / 1000 + 0.05 * (1 + math.sin(seconds / 60 + phase))
    return UsageSample(pod.cpu_request_millis / 1000 * share, pod.memory_request_bytes * share)


class Stage:
    """Running programs, and the Deployments of one namespace."""

    def __init__(self, plane: ControlPlane, manager: LoneManager, scheduler: LoneScheduler, agents: Agents) -> None:
        self.plane = plane
        self.manager = manager
        self.scheduler = scheduler
        self.agents = agents
        self.api: Connection = plane.connect()

    # workloads

    def create_prod(self, name: str, *, cores: float, replicas: int) -> None:
        """Create a Deployment of Prod pods that request that many cores, and 2 GiB for each."""
        requests = {"cpu": f"{cores * 1000:.0f}m", "memory": f"{cores * 2048:.0f}Mi"}
        pod = workloads.pod(name, "none", requests=requests, scheduler=lone_scheduler.SCHEDULER)
        pod["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
        self._create(name, pod, replicas)

    def create_mid(
        self, name: str, *, cpu_millis: int, replicas: int, pod_changes: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Create a Deployment of Mid pods under the rules; `pod_changes` are merged into their metadata and spec."""
        pod = workloads.mid_pod(name, "none", cpu_millis=cpu_millis, memory_mib=cpu_millis)
        del pod["spec"]["priority"]
        pod = template.limited(pod)
        pod["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
        for part, changes in (pod_changes or {}).items():
            pod[part] |= changes
        self._create(name, pod, replicas)

    def _create(self, name: str, pod: dict[str, Any], replicas: int) -> None:
        of_pod = {"metadata": {**pod["metadata"]}, "spec": pod["spec"]}
        del of_pod["metadata"]["name"]
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": of_pod}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
        self.api.send("POST", DEPLOYMENTS, body)

    def scale(self, name: str, replicas: int) -> None:
        """Set the replicas of a Deployment."""
        self.api.send("PATCH", f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}}, content=MERGE_PATCH)

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create any object."""
        return dict(self.api.send("POST", path, body))

    # what there is

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes."""
        return list(self.api.send("GET", f"{NODES}?resourceVersion=0")["items"])

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods of the namespace."""
        return list(self.api.send("GET", f"{PODS}?resourceVersion=0")["items"])

    def node_claims(self) -> list[dict[str, Any]]:
        """Return Karpenter's claims."""
        return list(self.api.send("GET", karpenter.NODE_CLAIMS)["items"])

    def events(self, reason: str) -> list[dict[str, Any]]:
        """Return the Events with a reason, of all namespaces."""
        return list(self.api.send("GET", f"/api/v1/events?fieldSelector=reason={reason}")["items"])

    def messages(self, reason: str, *, without: str) -> collections.Counter[str]:
        """Return the messages of Events with a reason, without what the pattern matches, and how often each came."""
        found: collections.Counter[str] = collections.Counter()
        for event in self.events(reason):
            found[re.sub(without, "", event["message"])] += event.get("count") or 1
        return found


def is_mid(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod of the stage is a Mid pod."""
    return bool(pod["spec"].get("priorityClassName") == "koord-mid")


@contextlib.contextmanager
def running(
    *,
    configuration: Mapping[str, Any] | None = None,
    consolidate_after_seconds: int = 15,
    karpenter_settings: Mapping[str, str] | None = None,
    **apiserver_flags: object,
) -> Iterator[Stage]:
    """Start everything with no node and no pod; end it afterwards. `configuration` has more keys of the manager's."""
    with standalone_control_plane.running(**apiserver_flags) as plane, contextlib.ExitStack() as stack:
        manager = LoneManager(plane, {})
        stack.callback(manager.api.close)
        _prepare(manager, configuration or {})
        karpenter.install(plane, manager.api, consolidate_after_seconds=consolidate_after_seconds)
        arguments = {"LoadAwareScheduling": {"softAfterSeconds": _SOFT_AFTER_SECONDS}}
        scheduler = LoneScheduler(plane, {"plugin": {"pluginArgs": arguments}})
        stack.callback(scheduler.api.close)
        scheduler.start()
        _start_controller_manager(plane)
        manager.start(kubeconfig=manager.kubeconfig(), autoscaling="karpenter", **_PATIENT)
        karpenter.start(plane, **(karpenter_settings or {}))
        agents = Agents(plane, _prod_usage, lambda _: _SYSTEM)
        agents.start()
        stack.callback(agents.stop)
        stage = Stage(plane, manager, scheduler, agents)
        stack.callback(stage.api.close)
        yield stage


_PATIENT: Final = {"lease_duration_seconds": 60, "renew_deadline_seconds": 40, "retry_period_seconds": 2}
"""Lease of the manager: on a machine with more work than cores one of seconds is lost."""


def _start_controller_manager(plane: ControlPlane) -> None:
    """Start it so that it takes no node for dead whose heartbeat is late: the machine may be busy with other work."""
    program = control_plane.kube_controller_manager(plane.places, plane.binaries)
    patient = Program(program.name, [*program.argv, "--node-monitor-grace-period=15m"], program.environment)
    processes.start(patient, plane.places.processes)


def _prepare(manager: LoneManager, configuration: Mapping[str, Any]) -> None:
    """Create the namespace of the pods, the manager's right to evict there, and its configuration."""
    manager.add_namespace(NAMESPACE)
    manager.create(*manager.right_to_evict(NAMESPACE))
    for namespace in ("kube-node-lease", "kube-system"):
        with contextlib.suppress(RequestError):  # the API server creates them by itself, sooner or later
            manager.add_namespace(namespace)
    manager.configure(**{**_CONFIG, **configuration})
