"""The stage of a soak: all components, a second manager and a real kube-scheduler with a control plane of their own.

There is no kubelet: kube-scheduler binds the pods, the soak itself takes them or fails them as a
kubelet does, and makes the cgroups of those on the node of the real agent.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from e2e.soak.kubelet import Kubelet
from e2e.soak.pod_groups import PodGroups
from e2e.support import fake_fleet, host_components, slo_config, workloads
from e2e.support.apiserver_tcp_proxy import FlakyApiserverProxy
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_components import Account, Part
from e2e.support.names import MID_CPU, MID_MEMORY
from tests.fakes import agent_process
from tools.localcluster import go_binaries, standalone_control_plane
from tools.localcluster.standalone_control_plane import ControlPlane

NODE = "lone"
"""The node that the real agent reports on, with the usage of this machine."""
FAKE_NODES = [f"fake-{index}" for index in range(10)]
NAMESPACE = "default"
_SOON_FULL = ("--decision-record-mebibytes", 1)
"""Limit of the decision records; two hours of this churn do not fill the default of 16 MiB."""
_CLASSES = {"koord-prod": 9000, "koord-mid": 7000}
_INTERPRETER = {"PYTHONOPTIMIZE": "2"}  # as the image
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "koordlet": agent_process.CHART_ENVIRONMENT,
    "manager": {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "131072"},
    "scheduler_plugin": {"OPENBLAS_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "131072"},
}
"""Program -> the variables that the chart sets for it: huge pages and a heap for each thread would count as growth."""


class Stage(NamedTuple):
    """The running components and the client that changes their objects."""

    plane: ControlPlane
    cluster_client: ClusterClient
    account: Account
    parts: dict[str, Part]
    groups: PodGroups
    link: FlakyApiserverProxy | None
    """Connection of all components to the API server, where it can fail."""


@contextmanager
def stage(*, flaky_link: bool = False) -> Iterator[Stage]:
    """Run all components, and end them afterwards; with a `flaky_link` they reach the API server through a proxy."""
    with ExitStack() as stack:
        plane = stack.enter_context(standalone_control_plane.running())
        host_components.prepare(plane)
        cluster_client = stack.enter_context(closing(ClusterClient(plane.kubeconfig)))
        for name, value in _CLASSES.items():
            cluster_client.create("PriorityClass", {"metadata": {"name": name}, "value": value, **_priority_class()})
        for name in (NODE, *FAKE_NODES):
            host_components.add_node(cluster_client, name)
        host_components.configure(cluster_client, slo_config.BASE)
        link = _link(plane, stack) if flaky_link else None
        account = Account(plane, cluster_client, "parts", link.url if link else plane.places.addresses.apiserver)
        groups = stack.enter_context(closing(PodGroups(plane.places.state / "host")))
        agent = ("--node-name", NODE, "--host-root", groups.host_root, "--state-dir", plane.places.state)
        plugin = ("--plugin-socket", _socket(plane), "--debug-port", 0, *_SOON_FULL)
        programs: dict[str, tuple[str, *tuple[object, ...]]] = {
            "manager-1": ("manager", "run"),
            "manager-2": ("manager", "run"),
            "koordlet": ("koordlet", "run", *agent),
            "scheduler-plugin": ("scheduler_plugin", "run", *plugin),
        }
        parts = {
            name: Part(plane, name, account, program, *argv, environment=ENVIRONMENTS[program] | _INTERPRETER)
            for name, (program, *argv) in programs.items()
        }
        start_scheduler(plane)
        yield Stage(plane, cluster_client, account, parts, groups, link)


def _link(plane: ControlPlane, stack: ExitStack) -> FlakyApiserverProxy:
    made = FlakyApiserverProxy(plane.places.addresses.apiserver_port, plane.places.certificates / "ca.crt")
    stack.callback(made.close)
    return made


def _priority_class() -> dict[str, str]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}


def start_scheduler(plane: ControlPlane) -> None:
    """Start kube-scheduler with the plugin."""
    profile = {
        "schedulerName": workloads.SCHEDULER,
        "plugins": {"multiPoint": {"enabled": [{"name": "KoordSuite", "weight": 1}]}},
        "pluginConfig": [{"name": "KoordSuite", "args": {"socket": str(_socket(plane))}}],
    }
    plane.start_scheduler({"profiles": [profile]}, go_binaries.scheduler_with_plugin())


def _socket(plane: ControlPlane) -> Path:
    return plane.places.state / "plugin.sock"


def _is_mid(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("priorityClassName") == "koord-mid")


class Churn:
    """Creates and deletes pods, reports for fake nodes and changes the configuration, a little with every step."""

    def __init__(self, on: Stage, chance: random.Random, most_pods: int = 60) -> None:
        self._cluster_client = on.cluster_client
        self._groups = on.groups
        self._chance = chance
        self._most = most_pods
        self._kubelet = Kubelet(on.cluster_client, NAMESPACE, chance)
        self._made = 0
        self.edits = self.deleted = 0

    @property
    def refused(self) -> int:
        """Return the number of pods that the kubelet has failed so far."""
        return self._kubelet.refused

    @property
    def created(self) -> int:
        """Return the number of pods created so far."""
        return self._made

    def pods(self) -> None:
        """Create some, let those that are bound run, delete some."""
        for _ in range(3):
            self._create()
        known = self._cluster_client.list("Pod", NAMESPACE)
        running = self._kubelet.take(known)
        doomed = self._chance.sample(known, max(len(known) - self._most, min(2, len(known))))
        for pod in doomed:
            self._cluster_client.delete("Pod", pod["metadata"]["name"], NAMESPACE, grace_seconds=0)
            self.deleted += 1
        here = [pod for pod in running if pod not in doomed and pod["spec"].get("nodeName") == NODE]
        self._groups.follow({pod["metadata"]["uid"]: _is_mid(pod) for pod in here})

    def _create(self) -> None:
        self._made += 1
        name, cpu, memory = f"p{self._made}", self._chance.randint(50, 900), self._chance.randint(64, 1024)
        if self._chance.random() < 0.3:
            wanted = {MID_CPU: str(cpu), MID_MEMORY: f"{memory}Mi"}
            made = workloads.pod(name, "none", requests=wanted, limits=wanted, priority_class="koord-mid")
        else:
            made = workloads.pod(name, "none", requests={"cpu": f"{cpu}m", "memory": f"{memory}Mi"})
        made["spec"]["schedulerName"] = workloads.SCHEDULER
        self._cluster_client.create("Pod", made, NAMESPACE)

    def reports(self) -> None:
        """Write a new report for every fake node."""
        for name in FAKE_NODES:
            cpu = self._chance.randint(500, 6000)
            sound = fake_fleet.prod_status(
                cpu_millis=cpu, memory_mib=4 * cpu, prod_cpu_millis=cpu + 3000, prod_memory_mib=4 * cpu + 9000
            )
            fake_fleet.report(self._cluster_client, name, sound)

    def edit(self) -> None:
        """Change the Mid policy, the predict policy and the report interval."""
        self.edits += 1
        document = slo_config.changed(
            midReclaimRatioPercent=self._chance.randint(50, 100),
            midUnallocatedPercent=self._chance.randint(0, 50),
            metricReportIntervalSeconds=self._chance.choice([30, 31, 32]),
        )
        document["nodePredictPolicy"]["n"] = self._chance.choice([2, 3, 4])
        slo_config.write(self._cluster_client, document)
