"""The same machine with and without Mid pods, over days and nights of Prod load: what it does, and what that costs.

    python -m benchmarks.bench_mid_utilisation [--minutes 30] [--days 3]

Needs root: it runs on the local cluster, whose node is this machine. Prod pods follow a day of 24 hours, sped up:
little at night, half of their requests by day. Days without and with Mid pods take turns, so other load of the machine
affects both. With Mid, a Deployment wants more Mid pods than fit; suppression and eviction are on. CPU is that of the
pods, by the kernel's accounting.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import math
import statistics
import time
from dataclasses import dataclass, field

from e2e.mid_soak import load, records
from e2e.support import (
    cgroup_accounting,
    contention,
    control_groups,
    installed_stage,
    oom_kills,
    slo_config,
    waiting,
    workloads,
)
from e2e.support.contention import Arena, Latency
from e2e.support.installed_stage import Stage

NAMESPACE = "mid-utilisation"
FLAGS = (
    "--set=koordlet.suppression.enabled=true",
    f"--set=manager.eviction.namespaces={{{NAMESPACE}}}",
    "--set=admission.mode=none",
)
PROD_PODS, PROD_REQUEST_CORES = 2, 0.4
NIGHT, DAY = 0.05, 0.5
"""Usage of Prod at its lowest and its highest, as a share of its request."""
UNALLOCATED_PERCENT = 100
"""Programs outside of pods count with Prod, and use much of a small machine: its reclaimable share alone is small."""
SERVICE = "prod-burstable"
MID_REPLICAS, MID_CPU_MILLIS = 12, 100
SAMPLE_SECONDS, PROBE_SECONDS = 15.0, 2.0


@dataclass
class Days:
    """What was measured on the days of one kind."""

    seconds: float = 0.0
    prod_cpu_seconds: float = 0.0
    mid_cpu_seconds: float = 0.0
    latencies: list[Latency] = field(default_factory=list)
    unmeasured: int = 0
    """Probes that did not start in time."""
    spans: list[tuple[float, float]] = field(default_factory=list)
    """Begin and end of each day, in seconds since 1970."""


def hours(request_cores: float) -> list[float]:
    """Return the usage of a Prod pod in each hour of a day, in cores; the day begins at midnight."""
    mean, swing = (DAY + NIGHT) / 2, (DAY - NIGHT) / 2
    return [request_cores * (mean - swing * math.cos(2 * math.pi * hour / 24)) for hour in range(24)]


class Machine:
    """The pods of the comparison."""

    def __init__(self, stage: Stage, day_seconds: float) -> None:
        self._stage = stage
        self._cpu_seconds: dict[str, float] = {}
        """UID of a pod -> CPU time when it was read last."""
        cpus = contention.machine_cpus(stage.cluster_client, stage.node)
        self.cpus = cpus
        self.arena = Arena(stage.cluster, stage.cluster_client, stage.namespace, stage.node, cpus)
        made = contention.pods(stage.suite.workload, stage.node, cpus)
        self.arena.create({SERVICE: made[SERVICE]})
        levels = ",".join(f"{cores:.3f}" for cores in hours(PROD_REQUEST_CORES))
        work = workloads.load(cores=levels, memory_mib=32, phase_seconds=day_seconds / 24)
        requests = {"cpu": f"{PROD_REQUEST_CORES * 1000:.0f}m", "memory": "64Mi"}
        self.prod = [f"prod-{index}" for index in range(PROD_PODS)]
        for name in self.prod:
            pod = workloads.pod(name, stage.suite.workload, *work, requests=requests, nodes=[stage.node])
            stage.cluster_client.create("Pod", pod, stage.namespace)
        stage.cluster_client.wait_running(stage.namespace, *self.prod)
        deployment = load.mid_deployment(stage, 0, MID_CPU_MILLIS)
        stage.cluster_client.create("Deployment", deployment, stage.namespace)

    def scale_mid(self, replicas: int) -> None:
        """Offer so many Mid pods; wait for the end of those that leave."""
        change = {"spec": {"replicas": replicas}}
        self._stage.cluster_client.patch("Deployment", load.MID_NAME, change, self._stage.namespace)
        if not replicas:
            waiting.until("no Mid pod is left", self._mid, lambda seen: not seen, within_seconds=60)

    def account(self, days: Days) -> None:
        """Add the CPU time of all pods since they were read last."""
        listed = self._stage.cluster_client.list("Pod", self._stage.namespace)
        for pod in listed:
            uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
            with contextlib.suppress(LookupError):  # it does not run yet
                now = cgroup_accounting.cpu_seconds(control_groups.of_pod(pod))
                used = now - self._cpu_seconds.get(uid, 0.0 if name.startswith(load.MID_NAME) else now)
                self._cpu_seconds[uid] = now
                if name.startswith(load.MID_NAME):
                    days.mid_cpu_seconds += used
                else:
                    days.prod_cpu_seconds += used

    def prod_kills(self) -> int:
        """Return the processes of Prod pods that the kernel killed, and their restarts."""
        pods = [self._stage.cluster_client.get("Pod", name, NAMESPACE) for name in (*self.prod, SERVICE)]
        restarts = sum(each["restartCount"] for pod in pods for each in pod["status"]["containerStatuses"])
        return restarts + sum(oom_kills.of_pod(pod) for pod in pods)

    def _mid(self) -> list[dict]:
        return self._stage.cluster_client.list("Pod", self._stage.namespace, label_selector=f"app={load.MID_NAME}")


def run_day(machine: Machine, seconds: float, replicas: int, days: Days) -> None:
    """Measure one day."""
    machine.scale_mid(replicas)
    machine.account(Days())
    began, began_at = time.monotonic(), time.time()
    next_probe = 0.0
    while (elapsed := time.monotonic() - began) < seconds:
        if elapsed >= next_probe:
            next_probe = elapsed + SAMPLE_SECONDS
            try:
                days.latencies.append(machine.arena.measure(SERVICE, None, PROBE_SECONDS))
            except contention.TooBusy:
                days.unmeasured += 1
        machine.account(days)
        time.sleep(1.0)
    machine.account(days)
    days.seconds += time.monotonic() - began
    days.spans.append((began_at, time.time()))


def table(without: Days, with_mid: Days, cpus: int, log: records.Records, kills: int) -> str:
    """Return the table in Markdown."""

    def row(name: str, *values: float, digits: int = 1) -> str:
        return f"| {name} | " + " | ".join(f"{value:.{digits}f}" for value in values) + " |"

    def within(times: list[float]) -> int:
        return sum(begin <= at <= end for begin, end in with_mid.spans for at in times)

    both = (without, with_mid)
    used = [100 * (each.prod_cpu_seconds + each.mid_cpu_seconds) / each.seconds / cpus for each in both]
    rows = [
        "| | without Mid | with Mid |",
        "|---|---|---|",
        row("minutes measured", *(each.seconds / 60 for each in both)),
        row("CPU that pods use, % of the machine", *used),
        row("of it Prod", *(100 * each.prod_cpu_seconds / each.seconds / cpus for each in both)),
        row("of it Mid", *(100 * each.mid_cpu_seconds / each.seconds / cpus for each in both)),
        row("Mid work, CPU minutes in an hour", *(60 * each.mid_cpu_seconds / each.seconds for each in both)),
    ]
    for name in ("p50", "p99"):
        medians = [statistics.median(getattr(each, name) for each in days.latencies) / 1000 for days in both]
        rows.append(
            row(f"{name} of the Prod service, ms, median of {len(with_mid.latencies)} probes", *medians, digits=2)
        )
    rows += [
        f"| probes that did not start in time | {without.unmeasured} | {with_mid.unmeasured} |",
        f"| evictions of Mid pods | | {within(list(log.evictions))} |",
        f"| changes of CPU limits (suppression) | | {within(list(log.patches))} |",
        f"| Prod pods killed or restarted | {kills} in all | |",
    ]
    return "\n".join(rows)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_mid_utilisation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="of all days together")
    parser.add_argument("--days", type=int, default=3, help="days of each kind")
    parser.add_argument("--threshold", type=int, default=65, help="midSuppressThresholdPercent")
    chosen = parser.parse_args()
    day_seconds = chosen.minutes * 60 / chosen.days / 2
    with installed_stage.running(NAMESPACE, *FLAGS) as stage:
        eviction = {"mode": "evict", "nodeIntervalSeconds": 30, "readmitSeconds": 30}
        document = slo_config.changed(
            midSuppressThresholdPercent=chosen.threshold,
            midUnallocatedPercent=UNALLOCATED_PERCENT,
            midEviction=eviction,
        )
        slo_config.write(stage.cluster_client, document)
        began_at = dt.datetime.fromtimestamp(time.time(), dt.UTC)
        machine = Machine(stage, day_seconds)
        without, with_mid = Days(), Days()
        for day in range(chosen.days):
            for days, replicas in ((without, 0), (with_mid, MID_REPLICAS)):
                run_day(machine, day_seconds, replicas, days)
                print(f"day {day + 1}, {replicas} Mid pods: Mid used {days.mid_cpu_seconds:.0f} CPU s", flush=True)
        kills = machine.prod_kills()
        assert stage.cluster.audit_log is not None
        log = records.read(stage.cluster.audit_log, began_at, load.MID_NAME)
    print(table(without, with_mid, machine.cpus, log, kills))


if __name__ == "__main__":
    main()
