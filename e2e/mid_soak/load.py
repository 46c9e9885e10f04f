"""The pods of the Mid soak: Prod pods whose load changes by chance, and a Deployment of Mid pods."""

from __future__ import annotations

import contextlib
import random
from typing import Any

from api_types.mid_pods import template
from e2e.support import oom_kills, workloads
from e2e.support.installed_stage import Stage
from tools.localcluster.errors import ClusterProblem

MID_NAME, MID_CPU_MILLIS, MID_MEMORY_MIB = "mid-worker", 60, 48
PROD_SLOTS, PROD_CPU = 3, "200m"
_BUSY_CORES, _QUIET_CORES = 1.0, 0.05
_APP = f"app={MID_NAME}"

Pod = dict[str, Any]


def mid_deployment(stage: Stage, replicas: int, cpu_millis: int = MID_CPU_MILLIS) -> dict[str, Any]:
    """Return a Deployment of Mid pods that use all the CPU they may, with the limits of the rules."""
    pod = workloads.mid_pod(
        MID_NAME,
        stage.suite.workload,
        cpu_millis=cpu_millis,
        memory_mib=MID_MEMORY_MIB,
        nodes=[stage.node],
        cores="1",
    )
    del pod["spec"]["priority"]
    body = template.limited({key: pod[key] for key in ("metadata", "spec")})
    body["metadata"].pop("name")
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": MID_NAME},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": MID_NAME}}, "template": body},
    }


class Load:
    """Changes the load of Prod and lets Mid pods misbehave, a little with every step."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self._stage = stage
        self._chance = chance
        self._prod: dict[int, str] = {}
        self._made = 0
        self.is_busy = False
        self.hogs = 0
        self.killed: list[str] = []
        """Prod pods of which the kernel killed a process."""

    @property
    def made(self) -> int:
        """Return the number of Prod pods created so far."""
        return self._made

    def create_mid(self, replicas: int) -> None:
        """Create the Deployment of Mid pods."""
        self._stage.cluster_client.create("Deployment", mid_deployment(self._stage, replicas), self._stage.namespace)

    def mid_pods(self) -> list[Pod]:
        """Return the Mid pods of the Deployment."""
        return self._stage.cluster_client.list("Pod", self._stage.namespace, label_selector=_APP)

    def lowered(self) -> dict[str, str]:
        """Return the CPU limits of Mid pods that are not the original, by pod."""
        found = {
            pod["metadata"]["name"]: pod["spec"]["containers"][0]["resources"]["limits"]["cpu"]
            for pod in self.mid_pods()
        }
        return {name: limit for name, limit in found.items() if limit != f"{MID_CPU_MILLIS}m"}

    def replace_prod(self) -> None:
        """Replace one Prod pod by another one with a random load of CPU and memory."""
        slot = len(self._prod) if len(self._prod) < PROD_SLOTS else self._chance.randrange(PROD_SLOTS)
        self._remove(slot)
        self._made += 1
        most = _BUSY_CORES if self.is_busy else _QUIET_CORES
        levels = ",".join(f"{self._chance.uniform(0, most):.2f}" for _ in range(3))
        memory_mib = self._chance.randint(16, 96)
        work = workloads.load(cores=levels, memory_mib=memory_mib, phase_seconds=self._chance.uniform(10, 40))
        requests = {"cpu": PROD_CPU, "memory": f"{memory_mib}Mi"}
        name = f"prod-{self._made}"
        pod = workloads.pod(name, self._stage.suite.workload, *work, requests=requests, nodes=[self._stage.node])
        self._stage.cluster_client.create("Pod", pod, self._stage.namespace)
        self._prod[slot] = name

    def hog(self) -> None:
        """Let a running Mid pod allocate twice its mid-memory; one that is just leaving is left alone."""
        running = [pod for pod in self.mid_pods() if pod["status"]["phase"] == "Running"]
        if not running:
            return
        name = self._chance.choice(running)["metadata"]["name"]
        with contextlib.suppress(ClusterProblem):
            workloads.take_memory(self._stage.cluster, self._stage.namespace, name, 2 * MID_MEMORY_MIB)
            self.hogs += 1

    def check_prod(self) -> None:
        """Record the Prod pods of which the kernel has killed a process."""
        for name in self._prod.values():
            pod = self._stage.cluster_client.get("Pod", name, self._stage.namespace)
            with contextlib.suppress(LookupError):  # it does not run yet
                if oom_kills.of_pod(pod):
                    self.killed.append(name)

    def _remove(self, slot: int) -> None:
        if slot in self._prod:
            self.check_prod()
            self._stage.cluster_client.delete("Pod", self._prod.pop(slot), self._stage.namespace, grace_seconds=1)
