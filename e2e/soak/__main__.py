"""`python -m e2e.soak [--minutes N]`: churn, edits and kills for hours. Prints a table; exit code 1 after a failure.

Every step: pods are created and deleted, and a hostile tenant plays a trick. Every half minute: fake nodes report.
Every minute: the configuration is edited, and Mid of every node is compared with the formula for its newest report.
Tokens are valid for ten minutes and are rotated. Every few minutes colocation is switched off and on again, and every
minute 3,000 slow clients connect to one of the suite's ports. Every few minutes, for the first two thirds of the time,
one of the suite's processes is killed. In the last third nothing is killed: memory growth is measured over the longest
life.

With `--double-faults`, every few minutes of the first two thirds two different faults begin at the same time and last
for up to a minute: processes killed or frozen, the API server or etcd restarted, tokens revoked, the connection silent,
and more (`e2e/soak/faults.py`). An edit just before must be in force afterwards, or a withdrawal done, within minutes;
a new pod must be bound, every part must work again, and Mid of every node must be that of the formula.
"""

from __future__ import annotations

import argparse
import functools
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from e2e.soak import faults, memory, outcome, pairs, recovery, slow_clients, withdrawal
from e2e.soak.faults import Faults
from e2e.soak.memory import Sample
from e2e.soak.stage import FAKE_NODES, NAMESPACE, NODE, Churn, Stage, stage
from e2e.soak.tenant import Tenant
from e2e.support import host_components, mid_formula, waiting
from tools.localcluster import progress
from tools.localcluster.errors import ClusterProblem

STEP_SECONDS = 4.5
"""From step to step, also on a fast machine: what runs for hours is the same load everywhere."""
REPORT_SECONDS = 30.0
EDIT_SECONDS = 60.0
SAMPLE_SECONDS = 5.0
TOKEN_SECONDS = host_components.TOKEN_SECONDS * 0.8  # when the kubelet rotates one
OFF_EVERY_SECONDS = 420.0
OFF_SECONDS = 60.0
"""Time for which colocation stays off once it is withdrawn."""
FLOOD_SECONDS = 60.0
FLOODS_FIRST = 2
"""Every life of a part has its first floods in its warm-up: each of them costs 2 MiB that stay, a third one nothing."""
SETTLE_SECONDS = 100.0
"""A killed manager's Lease ends after 15 s, an agent needs half a minute for its first prediction."""
START_SECONDS = 300.0
"""To the first Mid: a first prediction and, on a machine that is still starting things, the report after it."""
OFF_CHANCE = 0.33
"""Share of the double faults that colocation is switched off for, in place of an edit."""


class Soak:
    """One run, with its problems."""

    def __init__(self, on: Stage, seconds: float, seed: int, curve: TextIO | None = None) -> None:
        """Take where to write each sample of memory as a line of CSV; None writes none."""
        self._on = on
        self._curve = curve
        self._seconds = seconds
        self._chance = random.Random(seed)
        self._churn = Churn(on, self._chance)
        self._began = time.monotonic()
        self._tenant = Tenant(on.cluster_client, NAMESPACE, (NODE, *FAKE_NODES), self._chance)
        self._next = dict.fromkeys(("report", "edit", "sample", "token"), 0.0)
        self._next |= {"off": self._chance.uniform(120, 240), "flood": self._chance.uniform(60, 120)}
        self._on_again_at: float | None = None
        self._protected: set[str] = set()
        self._floods: list[tuple[str, Future[slow_clients.Outcome]]] = []
        self._flooded: Counter[int] = Counter()
        """Process of a part -> its floods."""
        self._pool = ThreadPoolExecutor(1)
        self._kill_at = self._chance.uniform(60, 120)
        self._faults = Faults(on, on.link, self._chance) if on.link else None
        self._double_at = self._chance.uniform(20, 40)
        self._doubles: list[pairs.Result] = []
        self.samples: list[Sample] = []
        self.problems: list[str] = []
        self.kills: Counter[str] = Counter()
        self.compared = self.withdrawals = 0

    def run(self) -> None:
        """Run to the end. Raises waiting.TimeLimitExceeded when no Mid is published at the begin."""
        self._begin()
        self._began = time.monotonic()
        while (elapsed := time.monotonic() - self._began) < self._seconds:
            self._step(elapsed)
            time.sleep(max(STEP_SECONDS - (time.monotonic() - self._began - elapsed), 0.0))
        if self._on_again_at is not None:
            self._switch_on()
        self._compare()
        self._pool.shutdown()
        self._check_floods()

    def _begin(self) -> None:
        """Create and delete pods until their node has Mid: without pods there is nothing to predict."""
        while not self._offers_mid():
            self._churn.pods()

    def _offers_mid(self) -> bool:
        try:
            mid_formula.wait_published(self._on.cluster_client, NODE, within_seconds=STEP_SECONDS)
        except waiting.TimeLimitExceeded:
            if time.monotonic() - self._began > START_SECONDS:
                raise
            return False
        return True

    def _is_due(self, what: str, every_seconds: float, elapsed: float) -> bool:
        if elapsed < self._next[what]:
            return False
        self._next[what] = elapsed + every_seconds
        return True

    def _step(self, elapsed: float) -> None:
        if self._is_due("sample", SAMPLE_SECONDS, elapsed):
            self._sample(elapsed)
        if self._is_due("token", TOKEN_SECONDS, elapsed):
            self._on.account.rotate()
        self._churn.pods()
        if self._is_due("report", REPORT_SECONDS, elapsed):
            self._churn.reports()
        self._tenant.act()
        if self._is_due("flood", FLOOD_SECONDS, elapsed):
            self._flood()
        self._check_floods()
        if self._on_again_at is not None:
            if elapsed >= self._on_again_at:
                self._switch_on()
        elif self._is_due("off", OFF_EVERY_SECONDS, elapsed):
            self._switch_off()
        elif self._is_due("edit", EDIT_SECONDS, elapsed):
            self._compare()
            self._churn.edit()
        if self._kill_at < elapsed < self._seconds * 2 / 3:
            self._kill_at = elapsed + self._chance.uniform(90, 240)
            self._kill()
        if self._faults and self._on_again_at is None and self._double_at < elapsed < self._seconds * 2 / 3:
            self._double_fault(self._faults)
            self._double_at = time.monotonic() - self._began + self._chance.uniform(60, 180)

    def _sample(self, elapsed: float) -> None:
        for name, part in self._on.parts.items():
            running = part.ensure_running()  # started again where it has ended, as the kubelet would
            leads = name.startswith("manager") and part.leads()
            sample = Sample(name, running.process.pid, elapsed, running.rss_mebibytes(), leads)
            self.samples.append(sample)
            if self._curve:
                self._curve.write(",".join(map(str, sample)) + "\n")
                self._curve.flush()

    def _kill(self) -> None:
        name = self._chance.choice(sorted(self._on.parts))
        process = self._on.parts[name].ensure_running().process
        process.kill()
        process.wait(10)
        self.kills[name] += 1
        progress.report(f"killed {name}")

    def _double_fault(self, between: Faults) -> None:
        """Change the configuration, let two faults happen at once, and check that nothing is lost."""
        for _, flood in self._floods:
            flood.result()  # a frozen part would keep its slow clients
        self._check_floods()
        self._on.account.rotate()
        self._next["token"] = time.monotonic() - self._began + TOKEN_SECONDS
        pair = pairs.choose(faults.KINDS, self._doubles, self._chance)
        switches_off = self._chance.random() < OFF_CHANCE
        if switches_off:
            withdrawal.switch_off(self._on.cluster_client)
        else:
            self._churn.edit()
        before = len(self.problems)
        seconds = None
        try:
            between.both(pair)
            seconds = recovery.wait(self._on, between, f"after-double-fault-{len(self._doubles)}")
            if switches_off:
                self._withdraw()
                self._churn.edit()
            self._churn.reports()
        except (ClusterProblem, waiting.TimeLimitExceeded) as stuck:
            self._problem(f"after {' + '.join(sorted(pairs.names(pair)))}: {stuck}")
        self._compare()
        problems = len(self.problems) - before
        self._doubles.append(pairs.Result(pairs.names(pair), seconds, switches_off, problems))
        progress.report(pairs.table(self._doubles[-1:])[-1])

    def _switch_off(self) -> None:
        withdrawal.switch_off(self._on.cluster_client)
        self._withdraw()
        self._on_again_at = time.monotonic() - self._began + OFF_SECONDS

    def _withdraw(self) -> None:
        """Expect that every node gives Mid back, but for pods that are bound by now."""
        time.sleep(withdrawal.BOUND_SECONDS)
        self._protected = withdrawal.holders(self._on.cluster_client, NAMESPACE)
        self._expect_withdrawn()
        self.withdrawals += 1

    def _switch_on(self) -> None:
        self._expect_withdrawn()
        self._churn.edit()
        self._on_again_at = None

    def _expect_withdrawn(self) -> None:
        try:
            withdrawal.wait_withdrawn(self._on.cluster_client, (NODE, *FAKE_NODES), NAMESPACE, self._protected)
        except waiting.TimeLimitExceeded as kept:
            self._problem(f"not withdrawn: {kept}")

    def _flood(self) -> None:
        """Connect slow clients to the port of one part, beside everything else: first of one that has had too few."""
        parts = {name: part.ensure_running() for name, part in sorted(self._on.parts.items())}
        spared = [name for name, running in parts.items() if self._flooded[running.process.pid] < FLOODS_FIRST]
        name = self._chance.choice(spared or sorted(parts))
        self._flooded[parts[name].process.pid] += 1
        self._floods.append((name, self._pool.submit(slow_clients.flood, self._on.parts[name].port)))

    def _check_floods(self) -> None:
        for name, flood in [each for each in self._floods if each[1].done()]:
            self._floods.remove((name, flood))
            if flood.result().left_open:
                self._problem(f"{name} keeps slow clients: {flood.result()}")

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        progress.report(text)

    def _compare(self) -> None:
        """Compare Mid of each node with the formula, and the scheduler's state; a difference that lasts is drift."""
        for name in (NODE, *FAKE_NODES):
            if "updateTime" not in (self._on.cluster_client.find("NodeMetric", name) or {}).get("status", {}):
                continue
            self._sample(time.monotonic() - self._began)
            self._settles(functools.partial(mid_formula.wait_published, self._on.cluster_client, name))
        what = "the scheduler plugin knows what exists"
        self._settles(functools.partial(waiting.until, what, self._tracked, lambda counts: counts[0] == counts[1]))

    def _settles(self, wait: Callable[..., object]) -> None:
        try:
            wait(within_seconds=SETTLE_SECONDS)
        except waiting.TimeLimitExceeded as drift:
            self._problem(f"drift: {drift}")
        self.compared += 1

    def _tracked(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return how many nodes, reports and running pods the scheduler plugin has in memory, and how many exist."""
        plugin, api = self._on.parts["scheduler-plugin"], self._on.cluster_client
        metric = "koord_scheduler_plugin_tracked_objects"
        tracked = {kind: int(plugin.metric(metric, kind=kind)) for kind in ("nodes", "node_metrics", "pods")}
        running = [
            pod
            for pod in api.list("Pod")
            if pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]
        exist = {"nodes": len(api.list("Node")), "node_metrics": len(api.list("NodeMetric")), "pods": len(running)}
        return tracked, exist

    def table(self) -> str:
        """Return the results as a table."""
        churn = self._churn
        lines = [
            f"{self._seconds / 60:.0f} minutes: {churn.created} pods created, {churn.deleted} deleted,",
            f"{churn.refused} failed by the kubelet, {churn.edits} edits of the configuration,",
            f"{self.kills.total()} kills, {self.compared} comparisons, {self.withdrawals} withdrawals,",
            f"{self._tenant.played()}, {len(self.problems)} problems",
            "",
            "| part | processes | longest life | RSS once warm | at its end | growth | most |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in memory.rows(self.samples):
            memory_text = "too short | |"
            if row.growth is not None:
                memory_text = f"{row.first_mebibytes:.1f} MiB | {row.last_mebibytes:.1f} MiB | {row.growth:+.1%}"
            life = f"{row.longest_life_seconds / 60:.1f} min"
            lines.append(f"| {row.name} | {row.processes} | {life} | {memory_text} | {row.most_mebibytes:.1f} MiB |")
        if self._faults:
            ended = ", ".join(f"{name} {count}" for name, count in sorted(self._faults.ended.items()))
            lines += ["", f"{pairs.summary(faults.KINDS, self._doubles)}; processes that ended in them: {ended or 0}"]
            lines += ["", *pairs.table(self._doubles)]
        return "\n".join(lines)

    def check(self) -> None:
        """Add memory that grows, and processes that ended by themselves, to the problems."""
        expected = self.kills + (self._faults.ended if self._faults else Counter())
        for name, count in memory.restarts(self.samples, expected).items():
            self.problems.append(f"{name} began again {count} times without having been killed")
        for row in memory.rows(self.samples):
            if row.growth is not None and row.growth > memory.MOST_GROWTH:
                self.problems.append(f"{row.name} grew by {row.growth:.0%} in {row.longest_life_seconds / 60:.0f} min")


def main() -> int:
    """Run, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m e2e.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn by chance (default: 1)")
    parser.add_argument("--double-faults", action="store_true", help="let two faults happen at once every few minutes")
    parser.add_argument("--curve", type=Path, help="write the memory of each process over time to this CSV file")
    arguments = parser.parse_args()
    try:
        with ExitStack() as stack:
            curve = stack.enter_context(arguments.curve.open("w")) if arguments.curve else None
            on = stack.enter_context(stage(flaky_link=arguments.double_faults))
            soak = Soak(on, arguments.minutes * 60, arguments.seed, curve)
            soak.run()
            soak.check()
    except (ClusterProblem, waiting.TimeLimitExceeded) as broken_off:
        print(f"the soak broke off: {broken_off}", file=sys.stderr)
        return 1
    return outcome.show(soak.table(), soak.problems)


if __name__ == "__main__":
    sys.exit(main())
