"""Stage of the cases of suppression: a Mid pod with limits, its quota in the kernel, a step of load, and who saw it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from e2e.support import cgroup_accounting, slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient, cpu_millis
from e2e.support.installation import Suite

MID_MILLIS, MEMORY_MIB = 200, 48
PERMITTED = "--set=koordlet.suppression.enabled=true"
_STEP_SHARE = 0.7
_MARGIN_PERCENT, _HIGHEST_PERCENT = 12, 80
_WATCHED_SECONDS = 15.0


class _Sample(NamedTuple):
    at_seconds: float
    busy_ticks: int
    all_ticks: int


class MachineLoad:
    """Share of the machine's CPU that is used, read from the kernel until it is closed."""

    def __init__(self) -> None:
        self._samples = [_read_ticks()]
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read_on, daemon=True)
        self._thread.start()

    def _read_on(self) -> None:
        while not self._closed.wait(0.25):
            self._samples.append(_read_ticks())

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()
        self._thread.join()

    def percents(self, since: float, window_seconds: float) -> list[tuple[float, float]]:
        """Return the time of each sample since a moment, and the mean usage of the seconds before it."""
        samples, found, first = list(self._samples), [], 0
        for last in samples:
            while samples[first + 1].at_seconds <= last.at_seconds - window_seconds:
                first += 1
            before = samples[first]
            if last.at_seconds >= since and last.all_ticks > before.all_ticks:
                used = (last.busy_ticks - before.busy_ticks) / (last.all_ticks - before.all_ticks)
                found.append((last.at_seconds, 100 * used))
        return found

    def quiet_threshold(self) -> int:
        """Wait until the machine leaves room for a step of load; return a threshold below the step, above the rest."""

        def highest() -> float:
            return max(percent for _, percent in self.percents(time.monotonic() - _WATCHED_SECONDS, 5.0))

        time.sleep(_WATCHED_SECONDS)
        most = waiting.until(
            "the machine is calm enough", highest, lambda seen: seen + _MARGIN_PERCENT <= _HIGHEST_PERCENT,
            within_seconds=300,
        )  # fmt: skip
        return int(most + _MARGIN_PERCENT)

    def passed(self, threshold_percent: float, since: float) -> float:
        """Return the time from which usage stayed above a threshold."""
        passed = None
        for at_seconds, percent in self.percents(since, 1.0):
            if percent <= threshold_percent:
                passed = None
            elif passed is None:
                passed = at_seconds
        if passed is None:
            raise AssertionError(f"usage of the machine is not above {threshold_percent} %: want a busy machine")
        return passed


def _read_ticks() -> _Sample:
    first, *_ = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    user, nice, system, idle, waiting_, *others = (int(word) for word in first.split()[1:9])
    busy = user + nice + system + sum(others)
    return _Sample(time.monotonic(), busy, busy + idle + waiting_)


class Stage:
    """A Mid pod on a node, and a Prod pod that may take the CPU."""

    def __init__(self, cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> None:
        self.cluster_client, self.suite, self.node, self.namespace = cluster_client, suite, node, namespace
        self.load = MachineLoad()
        self.threshold_percent = 0

    def start(self) -> None:
        """Start the Mid pod, and let the agent follow a threshold that only the step of load passes."""
        self.configure(0)
        waiting.until(
            f"at least {MID_MILLIS}m of Mid CPU on the node", lambda: self.cluster_client.mid(self.node),
            lambda mid: mid and mid[0] >= MID_MILLIS, within_seconds=180,
        )  # fmt: skip
        made = workloads.mid_pod(
            "mid", self.suite.workload, cpu_millis=MID_MILLIS, memory_mib=MEMORY_MIB, nodes=[self.node], cores="0.02"
        )
        resources = made["spec"]["containers"][0]["resources"]
        resources["requests"] |= {"cpu": "0", "memory": "0"}
        resources["limits"] |= {"cpu": f"{MID_MILLIS}m", "memory": f"{MEMORY_MIB}Mi"}
        self.cluster_client.create("Pod", made, self.namespace)
        self.cluster_client.wait_running(self.namespace, "mid")
        self.threshold_percent = self.load.quiet_threshold()
        self.configure(self.threshold_percent)

    def configure(self, threshold_percent: int) -> None:
        """Set the threshold, and wait until it reaches the agent."""
        keys = {**slo_config.STATIC, "midSuppressThresholdPercent": threshold_percent}
        slo_config.write(self.cluster_client, slo_config.changed(**keys))
        waiting.until("the threshold of the node", self._threshold, lambda seen: seen == threshold_percent)

    def _threshold(self) -> int:
        policy = self.cluster_client.node_metric(self.node)["spec"].get("midColocationPolicy") or {}
        return int(policy.get("midSuppressThresholdPercent") or 0)

    def limit_millis(self) -> int:
        """Return the CPU limit of the Mid pod in the API server."""
        return cpu_millis(self.pod()["spec"]["containers"][0]["resources"]["limits"]["cpu"])

    def quota_millis(self) -> int:
        """Return the CPU limit of the Mid pod in the kernel."""
        return cgroup_accounting.quota_millis(self.pod()["metadata"]["uid"])

    def pod(self) -> dict[str, Any]:
        """Return the Mid pod."""
        return dict(self.cluster_client.get("Pod", "mid", self.namespace))

    @contextlib.contextmanager
    def step_of_prod(self) -> Iterator[float]:
        """Let a Prod pod use most of the machine; yield the time of its creation."""
        cores = f"{_STEP_SHARE * (os.cpu_count() or 1):.1f}"
        made = workloads.pod("step", self.suite.workload, *workloads.load(cores=cores), nodes=[self.node])
        begin = time.monotonic()
        self.cluster_client.create("Pod", made, self.namespace)
        try:
            yield begin
        finally:
            self.cluster_client.delete("Pod", "step", self.namespace, grace_seconds=1)
            waiting.until("it is gone", lambda: self.cluster_client.find("Pod", "step", self.namespace) is None)

    def until_quota(
        self, what: str, accept: Callable[[int], object], within_seconds: float, every_seconds: float = 0.2
    ) -> float:
        """Wait for a quota in the kernel; return the time at which it was seen."""
        waiting.until(
            what, self.quota_millis, accept, within_seconds=within_seconds, every_seconds=every_seconds
        )  # fmt: skip
        return time.monotonic()


@contextlib.contextmanager
def staged(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> Iterator[Stage]:
    """Permit suppression and set the stage; switch suppression off, and take the right away, at the end."""
    suite.install(PERMITTED)
    stage = Stage(cluster_client, suite, node, namespace)
    try:
        stage.start()
        yield stage
    finally:
        stage.load.close()
        slo_config.write(cluster_client, slo_config.BASE)
        suite.install()
