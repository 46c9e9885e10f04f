"""A control plane with a manager, kube-scheduler, and a fleet whose reports are written in place of agents.

Everything that the pages read comes from a real kube-apiserver: the manager calculates the Mid, and kube-scheduler
writes the Events about pods that fit nowhere. The numbers of the reports are made up, always the same.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

from e2e.support import chart_rendering, lone_manager
from e2e.support.lone_manager import GIB, MID, LoneManager
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODE_METRICS, NODES, RequestError

NODE_COUNT = 24
NAMESPACES = ("checkout", "search", "recommendations", "reports")
_CORES, _MEMORY_GIB = 16, 64
_REPORT_SECONDS = 5
_WITHIN_SECONDS = 400
"""Time limit of each step, on a busy machine."""
_SILENT, _WITHOUT_PREDICTION, _BUSY = 5, 11, 9
"""Nodes in trouble."""
_PREDICTORS = (("n-sigma-v2", 0.4, 38), ("max", 0.2, 33), ("calibrated", 0.7, 47), ("borg-default", 2.6, 55))


class Stage:
    """A fleet that reports until the end of the block in which it was made."""

    def __init__(self, lone: LoneManager, count: int) -> None:
        self.lone = lone
        self.names = [f"worker-{number:02}" for number in range(1, count + 1)]
        self._random = random.Random(18)
        self._load = {name: self._load_of(number) for number, name in enumerate(self.names, start=1)}
        self._ended = threading.Event()
        self._reports = threading.Thread(target=self._report_on, daemon=True)
        self._has_reported = False

    def _load_of(self, number: int) -> dict[str, Any]:
        """Return requests, usage and peak of the Prod pods, in milli-cores and GiB, and the number of Mid pods."""
        requests = self._random.randrange(8_500, 14_500, 250)
        prod = int(requests * self._random.uniform(0.15, 0.55))
        return {
            "requests": requests,
            "prod": 11_800 if number == _BUSY else prod,
            "peak": min(int(prod * self._random.uniform(1.2, 1.6)), requests),
            "memory": self._random.uniform(20, 44),
            "mid_pods": 0 if number == _BUSY else self._random.randrange(0, 5),
        }

    def build(self) -> None:
        """Create the thresholds of the scheduler, namespaces, nodes and pods, and let all nodes report once."""
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
            self._add_pods(name)
        self.report_all()

    def _metrics(self) -> int:
        with contextlib.suppress(RequestError):
            return len(self.lone.api.send("GET", NODE_METRICS)["items"])
        return 0

    def _add_pods(self, node: str) -> None:
        load = self._load[node]
        for number in range(4):
            namespace = NAMESPACES[number]
            cpu = load["requests"] // 4
            self._add_pod(f"{namespace}-{node[-2:]}", namespace, node, 9000, {"cpu": f"{cpu}m", "memory": "6Gi"})
        for number in range(load["mid_pods"]):
            amounts = {MID[0]: "1000", MID[1]: str(GIB)}
            self._add_pod(f"nightly-{node[-2:]}-{number}", "reports", node, 7000, amounts)

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

    def report_all(self) -> None:
        """Write a report of each node, with a little movement."""
        for number, name in enumerate(self.names, start=1):
            if number == _SILENT and self._has_reported:
                continue
            body = {"status": self._status(number, name)}
            self.lone.api.send("PATCH", f"{NODE_METRICS}/{name}/status", body, content=MERGE_PATCH)
        self._has_reported = True

    def _status(self, number: int, name: str) -> dict[str, Any]:
        load, moved = self._load[name], self._random.uniform(0.93, 1.07)
        prod, mid = int(load["prod"] * moved), int(load["mid_pods"] * 1000 * self._random.uniform(0.6, 0.9))
        system, memory, mid_pod = 420, load["memory"], _amounts(750, 1)
        node = _amounts(prod + mid + system, memory)
        statistics = {key: {"resources": _amounts(int((prod + mid + system) * factor), memory)} for key, factor in
                      (("avg", 1.0), ("p50", 0.98), ("p90", 1.12), ("p95", 1.2), ("p99", 1.31))}  # fmt: skip
        windows = [{"duration": window, "usage": statistics} for window in ("5m0s", "10m0s", "30m0s")]
        mid_requests = {MID[0]: str(1000 * load["mid_pods"]), MID[1]: str(GIB * load["mid_pods"])}
        status: dict[str, Any] = {
            "updateTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "nodeMetric": {"nodeUsage": {"resources": node}, "aggregatedNodeUsages": windows},
            "podsMetric": [
                {"name": f"{each}-{name[-2:]}", "namespace": each, "podUsage": {"resources": _amounts(prod // 4, 4)}}
                for each in NAMESPACES
            ]
            + [
                {"name": f"nightly-{name[-2:]}-{each}", "namespace": "reports", "podUsage": {"resources": mid_pod}}
                for each in range(load["mid_pods"])
            ],
            "allocated": {"prod": {"cpu": f"{load['requests']}m", "memory": "24Gi"}, "mid": mid_requests},
            "usage": {
                "prod": _amounts(prod, memory - 4), "mid": _amounts(mid, 1.5), "batchAndFree": _amounts(0, 0),
                "system": _amounts(system, 2.5),
            },
        }  # fmt: skip
        if number == _WITHOUT_PREDICTION and self._has_reported:
            return {**status, "prodPeakMetric": None, "prediction": None}
        peak = _amounts(load["peak"], 18)
        status["prodPeakMetric"] = {"resource": {"resources": peak}}
        status["prediction"] = self._prediction(peak)
        return status

    def _prediction(self, peak: dict[str, str]) -> dict[str, Any]:
        def scores(violations: float, savings: float) -> dict[str, float]:
            return {
                "forecasts": round(self._random.uniform(90, 220), 1),
                "violationPercent": round(max(self._random.gauss(violations, 0.2), 0), 2),
                "savingsPercent": round(self._random.gauss(savings, 4), 1),
            }

        return {
            "predictor": "n-sigma-v2",
            "parameters": {"predictor": "n-sigma-v2"},
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "since": "2026-11-20T07:30:00Z",
            "warmPods": 4,
            "coldPods": 0,
            "prod": {"peak": peak, "classPeak": peak, "coldRequests": _amounts(0, 0)},
            "evaluation": [
                {"predictor": name, "horizonSeconds": 3600, "cpu": scores(risk, saved), "memory": scores(risk / 4, 20)}
                for name, risk, saved in _PREDICTORS
            ],
        }

    def begin(self) -> None:
        """Report every few seconds, until the end."""
        self._reports.start()

    def _report_on(self) -> None:
        while not self._ended.wait(_REPORT_SECONDS):
            self.report_all()

    def end(self) -> None:
        """End the reports, before the control plane ends."""
        self._ended.set()
        self._reports.join()


def _amounts(millis: int, gib: float) -> dict[str, str]:
    return {"cpu": f"{millis}m", "memory": f"{int(gib * 1024)}Mi"}


@contextlib.contextmanager
def running(count: int = NODE_COUNT) -> Iterator[Stage]:
    """Start everything, wait until the Mid is written, and end everything afterwards."""
    with lone_manager.running() as lone:
        lone.configure(metricReportIntervalSeconds=_REPORT_SECONDS)
        lone.start()
        lone.plane.start_scheduler({})
        stage = Stage(lone, count)
        stage.build()
        stage.add_waiting_pods()
        lone.until("the Mid is written", lambda: lone.mid_cores(stage.names[0]) > 0, _WITHIN_SECONDS)
        stage.begin()
        try:
            yield stage
        finally:
            stage.end()
