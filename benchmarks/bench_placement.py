"""How well each policy places real CPU traces, beside kube-scheduler alone.

    python -m benchmarks.bench_placement [--traces FOLDER] [--days N] [--nodes N] [--needed]

Pods come and go: each runs one series of the traces for an exponentially distributed time. They request
`--request-share` of the cores that the series was cut for, as workloads do that are packed by requests; the same
arrivals go to every contender. Printed are the share of node-time above 80 % CPU, the spread of utilisation over the
nodes, its 99th percentile, CPU that was wanted and not there, and with `--needed` the fewest nodes on which at most 1 %
of node-time is above 80 %.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.backtest import placement, traces
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.simulation.kube_scheduler_model import Weights
from scheduler_plugin.simulation.outcome import Summary, summary
from scheduler_plugin.simulation.replay import Replay
from scheduler_plugin.simulation.scenario import Scenario, from_series

EXCERPT = Path(__file__).parent / "backtest" / "data"
FILE = "azure_v1_vm_cpu_avg.csv.gz"
NODE_CPU_MILLIS, NODE_MEMORY_BYTES = 32_000, 128 * 2**30
MEMORY_PER_CORE_BYTES = 2 * 2**30
HOT_SHARE_ALLOWED = 0.01
MODEL = {"k0": 100.0, "k1": 20.0, "k2": 0.02}
NO_SPREADING = Weights(least=0, balanced=0)


class Contender(NamedTuple):
    """A configuration, and kube-scheduler's own weights beside it."""

    document: Mapping[str, Any] | None
    weights: Weights = Weights()


def scored_by(policy: str, **args: Any) -> dict[str, Any]:
    """That policy alone scores, and nothing of ours filters."""
    return {
        "plugins": {
            "filter": {"disabled": [{"name": "*"}]},
            "score": {"enabled": [{"name": policy}], "disabled": [{"name": "*"}]},
        },
        "pluginConfig": [{"name": policy, "args": args}] if args else [],
    }


def contenders(node_names: Sequence[str]) -> dict[str, Contender]:
    """By name in the table. TargetLoadPacking's profile switches spreading by requests off, as its design asks."""
    return {
        "kube-scheduler alone": Contender(None),
        "LoadAwareScheduling": Contender({}),
        "LoadAwareScheduling, score only": Contender(scored_by("LoadAwareScheduling")),
        "TargetLoadPacking 60": Contender(scored_by("TargetLoadPacking", targetUtilization=60), NO_SPREADING),
        "LoadVariationRiskBalancing": Contender(scored_by("LoadVariationRiskBalancing")),
        "LowRiskOverCommitment": Contender(scored_by("LowRiskOverCommitment")),
        "Peaks": Contender(scored_by("Peaks", nodePowerModel=dict.fromkeys(node_names, MODEL))),
    }


def scenario(found: traces.Traces, given: argparse.Namespace, node_count: int) -> Scenario:
    """The same pods whatever the number of nodes."""
    rng = random.Random(f"placement quality {given.seed}")
    series_count, trace_steps = found.shares.shape
    cores = placement.draw_requests(series_count, given.seed)
    steps = round(given.days * 86_400 / found.step_seconds)
    mean_life_seconds = given.life_hours * 3600.0
    arrivals = list(_arrivals(rng, given.days * 86_400, given.pods, mean_life_seconds))
    cpu, requests, lives = [], [], []
    for _at, life in arrivals:
        series = rng.randrange(series_count)
        begin = rng.randrange(trace_steps)
        length = max(1, min(steps, round(life / found.step_seconds)))
        own = np.take(found.shares[series], range(begin, begin + length), mode="wrap")
        cpu.append(np.nan_to_num(own) * cores[series] * 1000.0)
        requests.append(round(cores[series] * 1000 * given.request_share))
        lives.append(life)
    return from_series(
        node_count=node_count,
        node_cpu_millis=NODE_CPU_MILLIS,
        node_memory_bytes=NODE_MEMORY_BYTES,
        cpu_millis=cpu,
        request_cpu_millis=requests,
        request_memory_bytes=[request * MEMORY_PER_CORE_BYTES // 1000 for request in requests],
        step_seconds=found.step_seconds,
        steps=steps,
        at_seconds=[at for at, _life in arrivals],
        lifetime_seconds=lives,
    )


def _arrivals(
    rng: random.Random, seconds: float, running: int, mean_life_seconds: float
) -> Iterator[tuple[float, float]]:
    """As many as run on average at the beginning, within the first hour, then as many as leave."""
    for _pod in range(running):
        yield rng.uniform(0.0, 3600.0), rng.expovariate(1.0 / mean_life_seconds)
    at = 0.0
    while (at := at + rng.expovariate(running / mean_life_seconds)) < seconds:
        yield at, rng.expovariate(1.0 / mean_life_seconds)


def played(contender: Contender, what: Scenario) -> Summary:
    """From an empty cluster to the end."""
    parts = None
    if contender.document is not None:
        parts = assembly.Parts(loader.parse(contender.document), assumed_ttl_seconds=120.0)
    return summary(Replay(what, parts, weights=contender.weights).run())


def nodes_needed(contender: Contender, found: traces.Traces, given: argparse.Namespace) -> int:
    """Fewest nodes with little hot time and every pod placed, by halving."""
    low, high = given.nodes * 3 // 4, given.nodes * 3 // 2
    while low < high:
        middle = (low + high) // 2
        told = played(contender, scenario(found, given, middle))
        if told.hot_ratio <= HOT_SHARE_ALLOWED and not told.never_placed:
            high = middle
        else:
            low = middle + 1
    return low


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--traces", type=Path, default=None, help="folder with the traces; none: the project's excerpt")
    parser.add_argument("--days", type=float, default=1.0)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--pods", type=int, default=800, help="pods that run at a time, on average")
    parser.add_argument("--life-hours", type=float, default=12.0)
    parser.add_argument("--request-share", type=float, default=0.15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--needed", action="store_true", help="look for the fewest nodes too (many replays)")
    given = parser.parse_args()
    file = given.traces / FILE if given.traces else next(EXCERPT.glob("*.csv.gz"))
    found = traces.read(file)
    what = scenario(found, given, given.nodes)
    names = [each.node.metadata.name for each in what.nodes]
    print(
        f"{len(found.names)} series, {given.days:g} days, {given.nodes} nodes of {NODE_CPU_MILLIS // 1000} cores, "
        f"{len(what.pods)} pods, about {given.pods} at a time, requests {given.request_share:.0%} of their cores\n"
    )
    head = f"{'placed by':<32}{'hot node-time':>15}{'spread':>9}{'p99':>7}{'lacking':>9}{'nodes used':>12}{'waited':>8}"
    print(head + (f"{'nodes needed':>14}" if given.needed else ""), flush=True)
    for name, contender in contenders(names).items():
        told = played(contender, what)
        line = (
            f"{name:<32}{told.hot_ratio:>14.2%} {told.spread:>8.1%}{told.peak:>7.0%}{told.overload_ratio:>9.2%}"
            f"{told.nodes_used:>12.1f}{told.waited + told.never_placed:>8}"
        )
        print(line + (f"{nodes_needed(contender, found, given):>14}" if given.needed else ""), flush=True)


if __name__ == "__main__":
    main()
