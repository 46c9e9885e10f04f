"""Stage of the cases of suppression: a Mid pod with limits, its quota in the kernel, a step of load, and who saw it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from e2e.support import cgroup_accounting, contention, node_sampler, slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient, cpu_millis
from e2e.support.installation import Suite
from e2e.support.node_sampler import NodeSampler

MID_MILLIS, MEMORY_MIB = 200, 48
PERMITTED = "--set=koordlet.suppression.enabled=true"
_STEP_SHARE = 0.7
_MARGIN_PERCENT, _HIGHEST_PERCENT = 12, 80
_WATCHED_SECONDS = 15.0


class MachineLoad:
    """Share of a node's CPU that is used, read from its kernel until it is closed. Times are of the node's clock."""

    def __init__(self, node: str) -> None:
        self._sampler = NodeSampler(node, ("/proc/stat", "cpu "))

    def close(self) -> None:
        """Stop reading."""
        self._sampler.close()

    def percents(self, since: float, window_seconds: float) -> list[tuple[float, float]]:
        """Return the time of each sample since a moment, and the mean usage of the seconds before it."""
        samples = [(at_seconds, *_ticks(line)) for at_seconds, (line,) in self._sampler.samples()]
        percents, first = [], 0
        for at_seconds, busy_ticks, all_ticks in samples:
            while samples[first + 1][0] <= at_seconds - window_seconds:
                first += 1
            _, busy_before, all_before = samples[first]
            if at_seconds >= since and all_ticks > all_before:
                percents.append((at_seconds, 100 * (busy_ticks - busy_before) / (all_ticks - all_before)))
        return percents

    def quiet_threshold(self) -> int:
        """Wait until the machine leaves room for a step of load; return a threshold below the step, above the rest."""

        def highest() -> float:
            percents = self.percents(0, 5.0)
            return max(percent for at_seconds, percent in percents if at_seconds >= percents[-1][0] - _WATCHED_SECONDS)

        time.sleep(_WATCHED_SECONDS)
        most = waiting.until(
            "the machine is calm enough", highest, lambda seen: seen + _MARGIN_PERCENT <= _HIGHEST_PERCENT,
            within_seconds=300, every_seconds=2,
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


def _ticks(line: str) -> tuple[int, int]:
    """Return the ticks of a line of /proc/stat that were used, and all of them."""
    user, nice, system, idle, waiting_, *others = (int(word) for word in line.split()[1:9])
    busy = user + nice + system + sum(others)
    return busy, busy + idle + waiting_


class Stage:
    """A Mid pod on a node, and a Prod pod that may take the CPU."""

    def __init__(self, cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> None:
        self.cluster_client, self.suite, self.node, self.namespace = cluster_client, suite, node, namespace
        self.load = MachineLoad(node)
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
        return cgroup_accounting.quota(self.pod()).millis

    def pod(self) -> dict[str, Any]:
        """Return the Mid pod."""
        return dict(self.cluster_client.get("Pod", "mid", self.namespace))

    @contextlib.contextmanager
    def step_of_prod(self) -> Iterator[float]:
        """Let a Prod pod use most of the node; yield the time of its creation by the node's clock."""
        cores = f"{_STEP_SHARE * contention.machine_cpus(self.cluster_client, self.node):.1f}"
        made = workloads.pod("step", self.suite.workload, *workloads.load(cores=cores), nodes=[self.node])
        begin = node_sampler.now(self.node)
        self.cluster_client.create("Pod", made, self.namespace)
        try:
            yield begin
        finally:
            self.cluster_client.delete("Pod", "step", self.namespace, grace_seconds=1)
            waiting.until("it is gone", lambda: self.cluster_client.find("Pod", "step", self.namespace) is None)

    def until_quota(self, what: str, accept: Callable[[int], object], within_seconds: float) -> float:
        """Wait for a quota in the kernel; return the time from which it was there, by the node's clock."""

        def newest_or_accepted() -> tuple[float, int | None]:
            quotas = [(at, cgroup_accounting.quota_millis(" ".join(lines))) for at, lines in sampler.samples()]
            return next((quota for quota in quotas if is_accepted(quota)), quotas[-1])

        def is_accepted(quota: tuple[float, int | None]) -> bool:
            return quota[1] is not None and bool(accept(quota[1]))

        files = cgroup_accounting.quota(self.pod()).files
        with contextlib.closing(NodeSampler(self.node, *((file, "") for file in files))) as sampler:
            return waiting.until(what, newest_or_accepted, is_accepted, within_seconds=within_seconds, every_seconds=1)[
                0
            ]


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
