"""`python -m e2e.console.stage`: a control plane with a manager, kube-scheduler, and a fleet of simulated nodes.

Everything that the pages read comes from a real kube-apiserver: the manager calculates the Mid, and kube-scheduler
writes the Events about pods that fit nowhere. The reports are of the agent's own code (`e2e.autoscaler.agents`), fed
with CPU of real virtual machines (benchmarks/backtest/data), each pod with one of them; the memory is made up.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import gzip
import io
import random
import signal
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

from e2e.autoscaler.agents import STEP_SECONDS, Agents
from e2e.support import chart_rendering, lone_manager
from e2e.support.lone_manager import GIB, MID, LoneManager
from e2e.support.names import SUITE_NAMESPACE
from koordlet.cluster.pods import PodOnNode
from koordlet.samples import UsageSample
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODE_METRICS, NODES, RequestError
from tools.localcluster.content_cache import REPOSITORY

NODE_COUNT: Final = 24
NAMESPACES: Final = ("checkout", "search", "recommendations", "reports")
DAY_SECONDS: Final = 86_400
WHAT: Final = (
    "24 simulated nodes: kube-apiserver, manager and kube-scheduler are real, and the agent's code is fed with CPU "
    "traces of real virtual machines"
)
"""What the stage is, for readers of its pictures and samples."""
_TRACES: Final = REPOSITORY / "benchmarks" / "backtest" / "data" / "azure_v1_vm_cpu_avg_excerpt.csv.gz"
_TRACE_SECONDS: Final = 300
_STEPS_A_DAY: Final = DAY_SECONDS // _TRACE_SECONDS
_HALF_PERCENTS: Final = 200
_CORES, _MEMORY_GIB = 16, 64
_SYSTEM: Final = UsageSample(0.42, 2.5 * GIB)
_WITHIN_SECONDS: Final = 400
"""Time limit of each step, on a busy machine."""
_SILENT, _WITHOUT_PREDICTION, _BUSY = "worker-05", "worker-11", "worker-09"
"""Nodes in trouble: the agent ends, cannot measure a pod; Prod pods use most of what they request."""
_BUSY_SHARE: Final = 0.85
_MID_SHARE: Final = 0.6
"""Share of the Mid resources that Mid pods request."""


@functools.cache
def _traces() -> Sequence[Sequence[float]]:
    """Return the used share of each virtual machine, every 5 minutes for 5 days."""
    with gzip.open(_TRACES) as file:
        rows = list(csv.reader(io.TextIOWrapper(file, "ascii")))[1:]
    return [[int(value) / _HALF_PERCENTS for value in column] for column in list(zip(*rows, strict=True))[1:]]


def _prod_usage(node: str, pod: PodOnNode, at: float) -> UsageSample:
    """Return what its virtual machine used, on the hour of the day and some day of the trace; memory hardly moves."""
    seed, traces = zlib.crc32(pod.name.encode()), _traces()
    trace = traces[seed % len(traces)]
    share = trace[(int(at / _TRACE_SECONDS) + seed % 5 * _STEPS_A_DAY) % len(trace)]
    if node == _BUSY:
        share = max(share, _BUSY_SHARE)
    wave = random.Random(seed + int(at / _TRACE_SECONDS)).uniform(0.97, 1.03)
    memory = pod.memory_request_bytes * (0.3 + seed % 40 / 100) * wave
    return UsageSample(pod.cpu_request_millis / 1000 * share, memory)


def _system_usage(node: str) -> UsageSample | None:
    return None if node == _WITHOUT_PREDICTION else _SYSTEM


class Stage:
    """A fleet that reports until the end of the block in which it was made."""

    def __init__(self, lone: LoneManager, count: int, days: float) -> None:
        self.lone = lone
        self.names = [f"worker-{number:02}" for number in range(1, count + 1)]
        self._random = random.Random(18)
        self._agents = Agents(lone.plane, _prod_usage, _system_usage, int(days * DAY_SECONDS))

    def build(self) -> None:
        """Create the thresholds of the scheduler, namespaces, nodes and pods; agents report until there is Mid."""
        self.lone.create(*chart_rendering.rendered(self.lone.plane.binaries, {}, "scheduler/config"))
        for namespace in NAMESPACES:
            self.lone.add_namespace(namespace)
        amounts = {"cpu": str(_CORES), "memory": f"{_MEMORY_GIB}Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
        for name in self.names:
            status = {**dict.fromkeys(("capacity", "allocatable"), amounts), "conditions": [ready]}
            self.lone.api.send("POST", NODES, {"metadata": {"name": name}, "status": status})
        self.lone.until("the NodeMetrics are there", lambda: self._metrics() >= len(self.names), _WITHIN_SECONDS)
        for name in self.names:
            cpu = self._random.randrange(8_500, 14_500, 250) // len(NAMESPACES)
            for namespace in NAMESPACES:
                self._add_pod(f"{namespace}-{name[-2:]}", namespace, name, 9000, {"cpu": f"{cpu}m", "memory": "6Gi"})
        self._agents.start()
        measured = [name for name in self.names if name not in (_WITHOUT_PREDICTION, _BUSY)]
        self.lone.until(
            "the Mid is written", lambda: all(self.lone.mid_cores(name) > 0 for name in measured), _WITHIN_SECONDS
        )
        self._agents.silent.add(_SILENT)
        self._add_parts(len(self.names))
        self._add_usage()
        for name in measured:
            for number in range(int(self.lone.mid_cores(name) * _MID_SHARE)):
                requests = {MID[0]: "1000", MID[1]: str(GIB)}
                self._add_pod(f"nightly-{name[-2:]}-{number}", "reports", name, 7000, requests)

    def _add_parts(self, agents: int) -> None:
        """Create the workloads of the suite, ready: here they are programs, and no pods."""
        template = {"metadata": {"labels": {"app": "suite"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
        spec = {"selector": {"matchLabels": {"app": "suite"}}, "template": template}
        for kind, name, status in (
            ("daemonsets", "koordlet", {"desiredNumberScheduled": agents, "numberReady": agents}),
            ("deployments", "koord-manager", {"replicas": 1, "readyReplicas": 1}),
            ("deployments", "koord-scheduler", {"replicas": 1, "readyReplicas": 1}),
        ):
            path = f"/apis/apps/v1/namespaces/{SUITE_NAMESPACE}/{kind}"
            labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/version": "0.1.0"}
            self.lone.api.send("POST", path, {"metadata": {"name": name, "labels": labels}, "spec": spec})
            zero = {"currentNumberScheduled": 0, "numberMisscheduled": 0} if kind == "daemonsets" else {}
            self.lone.api.send("PATCH", f"{path}/{name}/status", {"status": status | zero}, content=MERGE_PATCH)

    def _add_usage(self) -> None:
        """Serve what metrics-server would: the usage of each node, as it is when the fleet is built."""
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        spec = {
            "group": "metrics.k8s.io",
            "scope": "Cluster",
            "names": {"plural": "nodes", "singular": "node", "kind": "NodeMetrics"},
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": schema}],
        }
        approval = {"api-approved.kubernetes.io": "unapproved: of a simulated fleet"}
        definition = {"metadata": {"name": "nodes.metrics.k8s.io", "annotations": approval}, "spec": spec}
        self.lone.api.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        for name in self.names:
            self.lone.until("its usage is served", functools.partial(self._post_usage, name), _WITHIN_SECONDS)

    def _post_usage(self, node: str) -> bool:
        with contextlib.suppress(RequestError, KeyError):
            report = self.lone.api.send("GET", f"{NODE_METRICS}/{node}")["status"]
            usage = report["nodeMetric"]["nodeUsage"]["resources"]
            body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": {"name": node}}
            return bool(self.lone.api.send("POST", "/apis/metrics.k8s.io/v1beta1/nodes", {**body, "usage": usage}))
        return False

    def _metrics(self) -> int:
        with contextlib.suppress(RequestError):
            return len(self.lone.api.send("GET", NODE_METRICS)["items"])
        return 0

    def _add_pod(self, name: str, namespace: str, node: str, priority: int, amounts: dict[str, str]) -> None:
        band = "koord-mid" if priority == 7000 else "koord-prod"
        container = {"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
        spec = {"nodeName": node, "priorityClassName": band, "containers": [container]}
        spec["tolerations"] = [{"operator": "Exists"}]
        path = f"/api/v1/namespaces/{namespace}/pods"
        self.lone.api.send("POST", path, {"metadata": {"name": name}, "spec": spec})
        status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        self.lone.api.send("PATCH", f"{path}/{name}/status", {"status": status}, content=MERGE_PATCH)

    def add_waiting_pods(self) -> None:
        """Create pods that fit nowhere: kube-scheduler writes why."""
        for number in range(3):
            self._add_waiting(f"train-{number}", {"cpu": "40"}, {})
        self._add_waiting("gpu-render", {"cpu": "1"}, {"accelerator": "gpu"})

    def _add_waiting(self, name: str, requests: dict[str, str], selector: dict[str, str]) -> None:
        container = {"name": "c", "image": "none", "resources": {"requests": requests}}
        spec = {"priorityClassName": "koord-prod", "nodeSelector": selector, "containers": [container]}
        self.lone.api.send("POST", "/api/v1/namespaces/search/pods", {"metadata": {"name": name}, "spec": spec})

    def until_scheduler_has_refused(self) -> None:
        """Wait until kube-scheduler has written why the waiting pods fit nowhere."""
        path = "/api/v1/namespaces/search/events?fieldSelector=reason=FailedScheduling"
        self.lone.until(
            "the Events of the scheduler", lambda: len(self.lone.api.send("GET", path)["items"]) >= 4, _WITHIN_SECONDS
        )

    def end(self) -> None:
        """End the reports, before the control plane ends."""
        self._agents.stop()


@contextlib.contextmanager
def running(count: int = NODE_COUNT, days: float = 3) -> Iterator[Stage]:
    """Start everything, with agents that have seen some days, wait for the Mid; end everything afterwards."""
    with lone_manager.running() as lone:
        lone.configure(metricReportIntervalSeconds=STEP_SECONDS)
        lone.start()
        lone.plane.start_scheduler({})
        stage = Stage(lone, count, days)
        try:
            stage.build()
            stage.add_waiting_pods()
            yield stage
        finally:
            stage.end()


def main() -> None:
    """Print the kubeconfig of a running stage, and keep it until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m e2e.console.stage", description=f"Run {WHAT}.")
    parser.add_argument("--days", type=float, default=3, help="what the agents have seen when they begin (default: 3)")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), running(days=chosen.days) as stage:
        print(stage.lone.plane.kubeconfig, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
