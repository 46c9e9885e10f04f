"""`python -m e2e.autoscaler`: days and nights of Prod beside Karpenter, with and without Mid.

The same schedule of Prod runs several times, each time on a stage of its own: alone, and with a backlog of Mid pods on
top that never ends, once for each lever: with no node emptied (`none`), or with nodes emptied that only Mid pods keep
(`emptied`, the default). Prints a table; exit code 1 where the last lever costs nodes, lets Prod wait for load, or does
no work.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from api_types import names
from e2e.autoscaler import day, karpenter, levers, stage
from e2e.autoscaler.accounting import Accounts, Seen
from e2e.autoscaler.levers import LEVERS, Lever
from e2e.autoscaler.stage import Stage
from e2e.support import waiting
from tools.localcluster import progress
from tools.localcluster.apiserver_requests import RequestError
from tools.localcluster.errors import ClusterProblem

MOST_RATIO: Final = 1.08
"""Node-hours with Mid, of those without."""
ALONE: Final = "without-mid"
DEFAULT: Final = ("emptied",)
MID_MILLIS: Final = 2000
"""CPU of a Mid pod: the manager evicts one pod of a node a second, which is more than a minute of the day, so there are
few to a node."""
MID_SHARE: Final = 0.5
"""Mid pods in all, of the cores: some always wait, and few, because each attempt to place one costs CPU."""
OBSERVE_SECONDS: Final = 2.0
PROGRESS_STEPS: Final = 2
CONSOLIDATE_AFTER_SECONDS: Final = 0
"""Karpenter's own default: in a day of 20 minutes, 15 s would be 18 minutes."""
START_SECONDS: Final = 420.0
CONFIGURATION: Final = {"midEviction": {"mode": "evict"}}


class Plan(NamedTuple):
    """One run."""

    nodes: int
    days: float
    day_seconds: float
    seed: int
    configuration: dict[str, object]


class Result(NamedTuple):
    """Outcome of one run."""

    accounts: Accounts
    manager_evictions: int
    emptied_nodes: int
    slowest_step_seconds: float


def run(plan: Plan, lever: Lever) -> Result:
    """Run the days once, with Mid pods if the lever has them."""
    waves = day.waves(plan.nodes, plan.seed)
    with levers.pulled(
        lever, configuration=plan.configuration, consolidate_after_seconds=CONSOLIDATE_AFTER_SECONDS
    ) as on:
        for wave in waves:
            on.create_prod(wave.name, cores=wave.cores, replicas=day.replicas(wave, 0, plan.seed))
        waiting.until("Prod of midnight runs", lambda: _all_run(on), within_seconds=START_SECONDS)
        if lever.has_mid:
            replicas = round(plan.nodes * karpenter.NODE_CORES * MID_SHARE * 1000 / MID_MILLIS)
            on.create_mid(levers.BATCH, cpu_millis=MID_MILLIS, replicas=replicas, pod_changes=lever.pod_changes)
        accounts, slowest = Accounts(), 0.0
        began, step = time.monotonic(), 0
        while (elapsed := time.monotonic() - began) < plan.days * plan.day_seconds:
            seen = _seen(on)
            accounts.observe(seen, time.monotonic())
            if elapsed >= step * plan.day_seconds / day.STEPS:
                if step % PROGRESS_STEPS == 0:
                    progress.report(_progress(seen, step))
                for wave in waves:
                    on.scale(wave.name, day.replicas(wave, step, plan.seed))
                step += 1
            slowest = max(slowest, time.monotonic() - began - elapsed)
            time.sleep(OBSERVE_SECONDS)
        evictions = int(on.manager.metric("koord_manager_mid_evictions_total", outcome="evicted"))
        emptied = len(on.events("MidOnlyNodeClosed"))
        for text, count in on.messages("MidOnlyNodeReopened", without=r"\S+/\S+ ").most_common():
            progress.report(f"{count} nodes opened again: {text}")
        return Result(accounts, evictions, emptied, max(slowest, on.agents.slowest_step_seconds))


def _all_run(on: Stage) -> bool:
    pods = on.pods()
    return bool(pods) and all(pod["status"]["phase"] == "Running" for pod in pods)


def _seen(on: Stage) -> Seen:
    pods = on.pods()
    mid, prod = [pod for pod in pods if stage.is_mid(pod)], [pod for pod in pods if not stage.is_mid(pod)]
    return Seen(on.nodes(), mid, prod, on.node_claims())


def _progress(seen: Seen, step: int) -> str:
    closed = sum(names.ANNOTATION_MID_EVICTION in node["metadata"].get("annotations", {}) for node in seen.nodes)
    mid, prod = (sum("nodeName" in pod["spec"] for pod in pods) for pods in (seen.mid_pods, seen.prod_pods))
    return (
        f"hour {step * 24 / day.STEPS:g}: {len(seen.nodes)} nodes, {closed} of them closed; {prod} Prod pods run and "
        f"{len(seen.prod_pods) - prod} wait; {mid} Mid pods run"
    )


def table(plan: Plan, results: Mapping[str, Result]) -> str:
    """Return a table in Markdown, in hours of the simulated days; the first column is Prod alone."""
    hours = 24 / plan.day_seconds
    found = [result.accounts for result in results.values()]
    least = found[0].node_seconds
    rows: dict[str, list[str]] = {
        "node-hours": [f"{each.node_seconds * hours:.0f} ({each.node_seconds / least:.3f}x)" for each in found],
        "most nodes at a time": [str(each.most_nodes) for each in found],
        "nodes launched": [str(len(each.claims)) for each in found],
        "nodes removed": [str(each.endings.removed_nodes) for each in found],
        "nodes launched for Mid": [str(sum(each.claims.values())) for each in found],
        "Prod pods Pending for load > 2 min": [str(each.long_waits()[True]) for each in found],
        "Prod pods Pending for other reasons > 2 min": [str(each.long_waits()[False]) for each in found],
        "longest wait of a Prod pod, real s": [f"{each.longest_wait():.0f}" for each in found],
        "Mid work, core-hours": [f"{each.mid_core_seconds * hours:.0f}" for each in found],
        "nodes that were emptied of Mid": [str(each.emptied_nodes) for each in results.values()],
        "Mid pods evicted by the manager": [str(each.manager_evictions) for each in results.values()],
        "Mid pods of removed nodes, deleted before": [str(each.endings.counts()[0]) for each in found],
        "Mid pods of removed nodes, gone with the node": [str(each.endings.counts()[1]) for each in found],
        "slowest step of the simulation, real s": [f"{each.slowest_step_seconds:.1f}" for each in results.values()],
    }
    head = [
        f"{plan.nodes} nodes at midday, {plan.days:g} days of {plan.day_seconds / 60:g} minutes, seed {plan.seed}",
        "",
        f"| | {' | '.join(results)} |",
        f"|---|{'---|' * len(results)}",
    ]
    return "\n".join([*head, *(f"| {name} | {' | '.join(values)} |" for name, values in rows.items())])


def problems(name: str, alone: Result, beside: Result) -> list[str]:
    """Return what is not as it should be with Mid."""
    ratio = beside.accounts.node_seconds / alone.accounts.node_seconds
    for_mid, waits = sum(beside.accounts.claims.values()), beside.accounts.long_waits()[True]
    found = [
        (ratio > MOST_RATIO, f"node-hours are {ratio:.3f}x of those without Mid; want at most {MOST_RATIO}x"),
        (for_mid > 0, f"{for_mid} nodes were launched for Mid; want none"),
        (waits > 0, f"{waits} Prod pods were Pending for load for more than 2 minutes; want none"),
        (beside.accounts.mid_core_seconds == 0, "Mid did no work"),
    ]
    return [f"{name}: {text}" for is_wrong, text in found if is_wrong]


def main() -> int:
    """Run Prod alone and with each lever, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m e2e.autoscaler", description=__doc__)
    parser.add_argument("--nodes", type=int, default=50, help="nodes that Prod fills at midday (default: %(default)s)")
    parser.add_argument("--days", type=float, default=2.0, help="default: %(default)s")
    parser.add_argument("--day-minutes", type=float, default=20.0, help="length of a day (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the schedule of Prod (default: %(default)s)")
    tried = [name for name, lever in LEVERS.items() if lever.has_mid]
    parser.add_argument(
        "--lever", choices=tried, nargs="+", default=list(DEFAULT), help=f"of Mid pods (default: {' '.join(DEFAULT)})"
    )
    chosen = parser.parse_args()
    plan = Plan(chosen.nodes, chosen.days, chosen.day_minutes * 60, chosen.seed, dict(CONFIGURATION))
    results: dict[str, Result] = {}
    try:
        for name in (ALONE, *chosen.lever):
            with progress.step(f"run {name}"):
                results[name] = run(plan, LEVERS[name])
            print(table(plan, results), flush=True)
    except (ClusterProblem, RequestError, waiting.TimeLimitExceeded) as broken_off:
        print(f"the run broke off: {broken_off}", file=sys.stderr)
        return 1
    last = chosen.lever[-1]
    found = problems(last, results[ALONE], results[last])
    for problem in found:
        print(f"PROBLEM: {problem}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
