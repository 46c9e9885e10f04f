"""Latency of a Prod service beside an antagonist that fills the machine, in pods of a real kubelet.

The pods wait. A measurement runs a program of the workload image in two of them at the same time, so all of them meet
on the same CPUs, and the rows of a comparison can take turns within seconds.
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from e2e.support import cgroup_accounting, control_groups, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.control_groups import Group
from e2e.support.names import MID_CPU, MID_MEMORY
from tools.localcluster import running
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

WORK_MICROS: Final = 400
MID_MIB: Final = 64
PERIOD_MILLIS: Final = 1.25
"""Time between two requests of a worker: the service uses a third of the machine."""
SECONDS: Final = 3.0
_LEAD_SECONDS = (3.0, 6.0, 12.0)
"""Time to start both programs, longer after each start that was late."""
_HEAD_SECONDS = 0.5
"""Time before the first request from which other programs have less weight: those that start the pair need theirs."""
_LOST = "`kubectl exec` ended without output, as it does at times on a machine without an idle CPU"
_MOST_WEIGHT = {"cpu.shares": 262144, "cpu.weight": 10000}


class TooBusy(ClusterProblem):
    """The machine is too busy to start the programs of a measurement in time."""


class Latency(NamedTuple):
    """Latency of the service in microseconds, and CPU that the antagonist and all pods got, in cores."""

    p50: float
    p90: float
    p99: float
    longest: float
    antagonist_cores: float
    pods_cores: float = math.nan


def medians(rounds: Iterable[Latency]) -> Latency:
    """Return the median of each column."""
    return Latency(*map(statistics.median, zip(*rounds, strict=True)))


def pods(image: str, node: str, machine_cpus: int) -> dict[str, dict[str, Any]]:
    """Return the pods by name: Prod in each QoS class, its equal peers, Mid with and without the limits of the rules.

    The native CPU limit of the Mid pod is the machine, so that nothing but its weight limits it: an antagonist that
    cannot fill the machine cannot be compared. Guaranteed pods have a CPU limit by definition, so none of them can; the
    control beside a Guaranteed Prod pod is the Burstable peer.
    """
    burstable = {"cpu": "250m", "memory": "32Mi"}
    guaranteed = {"cpu": "1", "memory": "64Mi"}
    mid = {MID_CPU: "20", MID_MEMORY: f"{MID_MIB}Mi"}
    limited = {
        "requests": {**mid, "cpu": "0", "memory": "0"},
        "limits": {**mid, "cpu": str(machine_cpus), "memory": f"{MID_MIB}Mi"},
    }
    made = {
        "prod-besteffort": workloads.pod("prod-besteffort", image, nodes=[node]),
        "prod-burstable": workloads.pod("prod-burstable", image, requests=burstable, nodes=[node]),
        "prod-guaranteed": workloads.pod("prod-guaranteed", image, limits=guaranteed, nodes=[node]),
        "peer-besteffort": workloads.pod("peer-besteffort", image, nodes=[node]),
        "peer-burstable": workloads.pod("peer-burstable", image, requests=burstable, nodes=[node]),
        **{
            name: workloads.mid_pod(name, image, cpu_millis=20, memory_mib=MID_MIB, nodes=[node])
            for name in ("mid-limited", "mid-besteffort")
        },
    }
    made["mid-limited"]["spec"]["containers"][0]["resources"] = limited
    return made


@dataclass
class Arena:
    """The pods of a comparison on one node, and the work of a request on it."""

    cluster: Cluster
    cluster_client: ClusterClient
    namespace: str
    node: str
    machine_cpus: int
    iterations: int = 0

    def create(self, made: Mapping[str, dict[str, Any]]) -> None:
        """Create the pods, wait until they run, and measure how many iterations the work of a request takes."""
        for each in made.values():
            self.cluster_client.create("Pod", each, self.namespace)
        self.cluster_client.wait_running(self.namespace, *made, within_seconds=180)
        found = [self._run(next(iter(made)), "calibrate", f"--work-micros={WORK_MICROS}") for _ in range(3)]
        self.iterations = int(min(each["iterations"] for each in found))

    def measure(self, service: str, antagonist: str | None, seconds: float = SECONDS) -> Latency:
        """Return the latency of the service in one pod, beside an antagonist in another one or alone.

        Raises TooBusy when they do not start in time, and ClusterProblem when a program fails.
        """
        late = ""
        for lead_seconds in _LEAD_SECONDS:
            try:
                return self._measure(service, antagonist, seconds, lead_seconds)
            except ClusterProblem as problem:
                late = str(problem)
                if "late: " not in late and _LOST not in late:
                    raise
        raise TooBusy(late)

    def _measure(self, service: str, antagonist: str | None, seconds: float, lead_seconds: float) -> Latency:
        at = time.time() + lead_seconds
        common = (f"--at={at}", f"--seconds={seconds}")
        work = (f"--period-millis={PERIOD_MILLIS}", f"--iterations={self.iterations}", f"--workers={self.machine_cpus}")
        with ThreadPoolExecutor(2) as both:
            served = both.submit(self._run, service, "serve", *common, *work)
            many = f"--workers={2 * self.machine_cpus}"
            filled = both.submit(self._run, antagonist, "fill", *common, many) if antagonist else None
            time.sleep(max(at - _HEAD_SECONDS - time.time(), 0.0))
            all_pods = control_groups.of_all_pods(self.node)
            with _pods_before_other_programs(all_pods):
                used = cgroup_accounting.cpu_seconds(all_pods)  # before the first request: they use nothing until then
                found = served.result()
                cores = filled.result()["cpu_seconds"] / seconds if filled else 0.0
                of_pods = (cgroup_accounting.cpu_seconds(all_pods) - used) / seconds
        return Latency(found["p50"], found["p90"], found["p99"], found["longest"], cores, of_pods)

    def _run(self, pod: str, *words: str) -> dict[str, float]:
        where = (pod, "--namespace", self.namespace, "--container=work")
        text = self.cluster.run("exec", *where, "--", "python3", "/contention.py", *words)
        if not text:
            raise ClusterProblem(f"{pod}: {_LOST}")
        return dict(json.loads(text))


def machine_cpus(cluster_client: ClusterClient, node: str) -> int:
    """Return the CPUs of a node."""
    return int(cluster_client.get("Node", node)["status"]["capacity"]["cpu"])


def weights(node: str) -> dict[str, int]:
    """Return the CPU weight of each QoS group and Guaranteed pod of a node, as its kernel counts them."""
    files = control_groups.of_all_pods(node).files(*(f"*/{name}" for name in _MOST_WEIGHT))
    return {path.parent.name: int(line) for path, (line,) in files.items()}


@contextlib.contextmanager
def _pods_before_other_programs(all_pods: Group) -> Iterator[None]:
    """Give all pods of a node the largest weight, so that its other programs are no part of a comparison.

    Weights between pods stay as they are.
    """
    before = {path: int(line) for path, (line,) in all_pods.files(*_MOST_WEIGHT).items()}
    _write(all_pods.node, {path: _MOST_WEIGHT[path.name] for path in before})
    try:
        yield
    finally:
        _write(all_pods.node, before)


def _write(node: str, numbers: Mapping[PurePosixPath, int]) -> None:
    running.provider().shell(node, "\n".join(f"echo {number} >{path}" for path, number in numbers.items()))
