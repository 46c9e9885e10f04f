"""`python -m e2e.mid_soak [--minutes N]`: random Prod load beside Mid pods, with suppression and eviction on.

Needs root: it runs on the local cluster, whose node is this machine. All the time, one of three Prod pods is replaced
by one with another load; quiet and busy phases take turns. A Deployment keeps six Mid pods, and now and then one of
them allocates twice its memory. Every minute the latency of a Prod service is measured beside the Mid pods, and beside
an equal peer that fills the machine. At the end the suite is uninstalled.

Prints a table. Exit code 1 if a Prod pod was killed or restarted, a Mid pod came to a node that had evicted, an
eviction or a patch was too early, the service waited longer than 0.6 of what it waits beside the peer, anything was
left changed, or something of this never happened, so that the run does not show it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import random
import statistics
import sys
import time

from e2e.mid_soak import checks, records
from e2e.mid_soak.checks import Pair
from e2e.mid_soak.load import MID_NAME, Load
from e2e.mid_soak.records import EVICTION_ANNOTATION, Records
from e2e.soak import outcome
from e2e.support import contention, installed_stage, slo_config, waiting
from e2e.support.contention import Arena
from e2e.support.installed_stage import Stage
from e2e.support.names import STATUS_ANNOTATION
from tools.localcluster import progress
from tools.localcluster.errors import ClusterProblem

NAMESPACE = "mid-soak"
FLAGS = (
    "--set=koordlet.suppression.enabled=true",
    f"--set=manager.eviction.namespaces={{{NAMESPACE}}}",
    "--set=admission.mode=none",
)
REPLICAS = 6
SERVICE, PEER = "prod-burstable", "peer-burstable"
QUIET_SECONDS, BUSY_SECONDS = (400.0, 600.0), (90.0, 240.0)
"""How long phases last: after a busy one, the node is calm long enough to admit Mid pods again."""
VALID = "pairs of latencies, valid"
LEAST_PEER_MICROS = 5 * contention.WORK_MICROS
LEAST_PODS_SHARE = 0.65
"""Share of the machine that the pods get while the peer fills it, where no other program has a weight like theirs."""
CLOSED_SLACK_SECONDS = 1.0
"""Time stamps of the annotation are whole seconds."""


class MidSoak:
    """One run, with its problems."""

    def __init__(self, stage: Stage, arguments: argparse.Namespace) -> None:
        self._stage = stage
        self._arguments = arguments
        self._chance = random.Random(arguments.seed)
        self._load = Load(stage, self._chance)
        self._began = time.monotonic()
        self._began_at = dt.datetime.now(dt.UTC)
        self._next = {"phase": 0.0, "prod": 0.0, "pair": 60.0, "hog": 90.0}
        self._mid_running: list[int] = []
        self.lowered_seen = 0
        self.pairs: list[Pair] = []
        self._unmeasured = 0
        self.records: Records | None = None
        self.problems: list[str] = []

    def run(self) -> None:
        """Run to the end, uninstall the suite, and check."""
        cluster_client, node = self._stage.cluster_client, self._stage.node
        self._configure()
        cpus = contention.machine_cpus(cluster_client, node)
        arena = Arena(self._stage.cluster, cluster_client, self._stage.namespace, node, cpus)
        made = contention.pods(self._stage.suite.workload, node, cpus)
        arena.create({name: made[name] for name in (SERVICE, PEER)})
        self._load.create_mid(REPLICAS)
        self._began = time.monotonic()
        while (elapsed := time.monotonic() - self._began) < self._arguments.minutes * 60:
            self._step(elapsed, arena)
            time.sleep(1.0)
        self._load.check_prod()
        self._check_restarts()
        assert self._stage.cluster.audit_log is not None
        self.records = records.read(self._stage.cluster.audit_log, self._began_at, MID_NAME)
        self._uninstall()

    def _configure(self) -> None:
        """Switch eviction and suppression on."""
        rates = {"nodeIntervalSeconds": self._arguments.interval, "readmitSeconds": self._arguments.readmit}
        document = slo_config.changed(
            midSuppressThresholdPercent=self._arguments.threshold, midEviction={"mode": "evict", **rates}
        )
        slo_config.write(self._stage.cluster_client, document)

    def _is_due(self, what: str, elapsed: float, least: float, most: float) -> bool:
        if elapsed < self._next[what]:
            return False
        self._next[what] = elapsed + self._chance.uniform(least, most)
        return True

    def _step(self, elapsed: float, arena: Arena) -> None:
        if self._is_due("phase", elapsed, *(QUIET_SECONDS if self._load.is_busy else BUSY_SECONDS)):
            self._load.is_busy = not self._load.is_busy
            progress.report(
                f"{elapsed / 60:.0f} min: Prod is {'busy' if self._load.is_busy else 'quiet'}; {len(self.pairs)} pairs "
                f"of latencies and {self._unmeasured} not measured, {self._load.hogs} times too much memory, at most "
                f"{self.lowered_seen} limits lowered at once, {len(self.problems)} problems"
            )
        if self._is_due("prod", elapsed, 10, 30):
            self._load.replace_prod()
        if self._is_due("hog", elapsed, 60, 120):
            self._load.hog()
        if self._is_due("pair", elapsed, 60, 60):
            self._measure_pair(arena)
        self.lowered_seen = max(self.lowered_seen, len(self._load.lowered()))
        self._mid_running.append(sum(pod["status"]["phase"] == "Running" for pod in self._load.mid_pods()))

    def _measure_pair(self, arena: Arena) -> None:
        """Measure the service beside the Mid pods and beside the peer; the order changes each time."""
        antagonists = (None, PEER) if (len(self.pairs) + self._unmeasured) % 2 else (PEER, None)
        try:
            found = {antagonist: arena.measure(SERVICE, antagonist) for antagonist in antagonists}
        except contention.TooBusy as busy:
            self._count_unmeasured(str(busy))
            return
        cores, want = found[PEER].pods_cores, LEAST_PODS_SHARE * arena.machine_cpus
        if cores < want:
            self._count_unmeasured(f"all pods got {cores:.2f} cores, want {want:.2f}: other programs have the rest")
            return
        self.pairs.append(Pair(found[None].p99, found[PEER].p99))
        progress.report(
            f"p99 {found[None].p99 / 1e3:.1f} ms beside Mid, {found[PEER].p99 / 1e3:.1f} ms beside the peer, pods got "
            f"{found[None].pods_cores:.2f} and {cores:.2f} cores"
        )

    def _count_unmeasured(self, why: str) -> None:
        self._unmeasured += 1
        progress.report(f"a pair of latencies is not measured: {why}")

    def _check_restarts(self) -> None:
        for pod in self._stage.cluster_client.list("Pod"):
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if pod["metadata"]["name"].startswith(MID_NAME):
                continue
            for status in pod["status"].get("containerStatuses") or ():
                ended = (status.get("lastState") or {}).get("terminated") or {}
                if ended.get("reason") == "OOMKilled":
                    self.problems.append(f"{name} was killed for want of memory")
                elif status["restartCount"] and pod["metadata"]["namespace"] == NAMESPACE:
                    self.problems.append(f"{name} restarted: {ended}")

    def _uninstall(self) -> None:
        """Uninstall while suppression is on, and check what is left."""
        self._stage.suite.uninstall()
        if self._stage.cluster_client.mid(self._stage.node) is not None:
            self.problems.append("the node has Mid resources after the uninstallation")
        annotations = self._stage.cluster_client.get("Node", self._stage.node)["metadata"].get("annotations") or {}
        left = {EVICTION_ANNOTATION, STATUS_ANNOTATION} & annotations.keys()
        self.problems += [f"the node has the annotation {name} after the uninstallation" for name in left]
        self.problems += [f"{name} has a CPU limit of {limit}" for name, limit in self._load.lowered().items()]

    def check(self) -> None:
        """Add what the records show to the problems."""
        assert self.records is not None
        patches, evictions, bindings, closed = self.records
        readmit = self._arguments.readmit - CLOSED_SLACK_SECONDS
        self.problems += [f"the kernel killed a process of {name}" for name in self._load.killed]
        self.problems += checks.patch_problems(patches)
        self.problems += checks.rate_problems(evictions, self._arguments.interval - CLOSED_SLACK_SECONDS)
        self.problems += checks.loop_problems(evictions, closed, bindings, readmit)
        self.problems += checks.latency_problems(self.pairs, LEAST_PEER_MICROS)
        seen, most_pairs = self._seen(), len(self.pairs) + self._unmeasured
        self.problems += checks.void_problems(seen, dict.fromkeys(seen, 1) | {VALID: most_pairs // 4})

    def _seen(self) -> dict[str, int]:
        """Return the counts without which a run shows nothing."""
        assert self.records is not None
        return {
            "Mid pods that ran at once, at most": max(self._mid_running, default=0),
            "Mid pods that allocated twice their memory": self._load.hogs,
            "Mid pods with a lowered limit at once, at most": self.lowered_seen,
            "evictions": len(self.records.evictions),
            "times the node was closed, and admitted Mid pods again": sum(
                each.until < math.inf for each in self.records.closed
            ),
            VALID: len(checks.valid_pairs(self.pairs, LEAST_PEER_MICROS)),
        }

    def table(self) -> str:
        """Return the results as a table."""
        assert self.records is not None
        ratio = checks.ratio(self.pairs, LEAST_PEER_MICROS)
        rows = {
            "minutes": f"{self._arguments.minutes:g}",
            "Prod pods created": self._load.made,
            "Prod pods killed for want of memory": len(self._load.killed),
            "Mid pods bound": len(self.records.bindings),
            "Mid pods that ran at once, mean": f"{statistics.fmean(self._mid_running or [0]):.1f}",
            **self._seen(),
            "patches of CPU limits": len(self.records.patches),
            "patches within a minute, at most": checks.most_within(self.records.patches),
            "pairs of latencies, not measured on a busy machine": self._unmeasured,
            "p99 of Prod beside Mid to that beside a peer, median": "void" if ratio is None else f"{ratio:.2f}",
            "problems": len(self.problems),
        }
        return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def main() -> int:
    """Run, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m e2e.mid_soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn by chance (default: 1)")
    parser.add_argument("--threshold", type=int, default=65, help="midSuppressThresholdPercent (default: %(default)s)")
    parser.add_argument("--interval", type=int, default=120, help="nodeIntervalSeconds (default: %(default)s)")
    parser.add_argument("--readmit", type=int, default=300, help="readmitSeconds (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        with installed_stage.running(NAMESPACE, *FLAGS) as stage:
            soak = MidSoak(stage, arguments)
            soak.run()
            soak.check()
    except (ClusterProblem, waiting.TimeLimitExceeded) as broken_off:
        print(f"the soak broke off: {broken_off}", file=sys.stderr)
        return 1
    return outcome.show(soak.table(), soak.problems)


if __name__ == "__main__":
    sys.exit(main())
