"""Compare the placement of real CPU traces by each plugin and by kube-scheduler alone.

    python -m benchmarks.bench_placement [--traces FOLDER] [--days N] [--nodes N] [--needed]

Each pod runs one series of the traces for an exponentially distributed time, and requests `--request-share` of the
cores of its series, as in a cluster that is packed by requests. Every contender gets the same arrivals. The output has
the share of node-time above 80 % CPU, the spread of utilization over the nodes, its 99th percentile, the CPU demand
above capacity, and with `--needed` the smallest number of nodes with at most 1 % of node-time above 80 %.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.series_scenario import from_series
from koordctl.backtest import node_history, sources
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.simulation.kube_scheduler_model import Weights
from scheduler_plugin.simulation.outcome import OutcomeSummary, summary
from scheduler_plugin.simulation.replay import Replay
from scheduler_plugin.simulation.scenario import Scenario

EXCERPT = Path(__file__).parent / "backtest" / "data"
FILE = "azure_v1_vm_cpu_avg.csv.gz"
NODE_CPU_MILLIS, NODE_MEMORY_BYTES = 32_000, 128 * 2**30
MEMORY_PER_CORE_BYTES = 2 * 2**30
HOT_SHARE_ALLOWED = 0.01
MODEL = {"k0": 100.0, "k1": 20.0, "k2": 0.02}
NO_SPREADING = Weights(least=0, balanced=0)


class Contender(NamedTuple):
    """Configuration of the extender, and kube-scheduler's own weights."""

    document: Mapping[str, Any] | None
    weights: Weights = Weights()


def scored_by(plugin: str, **args: Any) -> dict[str, Any]:
    """Return a configuration with one score plugin and without filters."""
    return {
        "plugins": {
            "filter": {"disabled": [{"name": "*"}]},
            "score": {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]},
        },
        "pluginConfig": [{"name": plugin, "args": args}] if args else [],
    }


def contenders(node_names: Sequence[str]) -> dict[str, Contender]:
    """Return the contenders by name. TargetLoadPacking's profile turns off spreading by requests, as KEP-61 wants."""
    return {
        "kube-scheduler alone": Contender(None),
        "LoadAwareScheduling": Contender({}),
        "LoadAwareScheduling, score only": Contender(scored_by("LoadAwareScheduling")),
        "TargetLoadPacking 60": Contender(scored_by("TargetLoadPacking", targetUtilization=60), NO_SPREADING),
        "LoadVariationRiskBalancing": Contender(scored_by("LoadVariationRiskBalancing")),
        "LowRiskOverCommitment": Contender(scored_by("LowRiskOverCommitment")),
        "Peaks": Contender(scored_by("Peaks", nodePowerModel=dict.fromkeys(node_names, MODEL))),
    }


def scenario(found: sources.Traces, given: argparse.Namespace, node_count: int) -> Scenario:
    """Build the scenario; its pods do not depend on the number of nodes."""
    rng = random.Random(f"placement quality {given.seed}")
    series_count, trace_steps = found.shares.shape
    cores = node_history.draw_requests(series_count, given.seed)
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
    """Yield (arrival, lifetime): the mean number of running pods in the first hour, then one for each that ends."""
    for _pod in range(running):
        yield rng.uniform(0.0, 3600.0), rng.expovariate(1.0 / mean_life_seconds)
    at = 0.0
    while (at := at + rng.expovariate(running / mean_life_seconds)) < seconds:
        yield at, rng.expovariate(1.0 / mean_life_seconds)


def played(contender: Contender, what: Scenario) -> OutcomeSummary:
    """Replay the scenario from an empty cluster and return the summary."""
    parts = None
    if contender.document is not None:
        parts = assembly.Parts(loader.parse(contender.document), record_bytes=0)
    return summary(Replay(what, parts, weights=contender.weights).run())


def nodes_needed(contender: Contender, found: sources.Traces, given: argparse.Namespace) -> int:
    """Find the smallest number of nodes with little hot time and every pod placed, by bisection."""
    low, high = given.nodes * 3 // 4, given.nodes * 3 // 2
    while low < high:
        middle = (low + high) // 2
        result = played(contender, scenario(found, given, middle))
        if result.hot_ratio <= HOT_SHARE_ALLOWED and not result.never_placed:
            high = middle
        else:
            low = middle + 1
    return low


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--traces", type=Path, default=None, help="folder with the traces; default: an excerpt")
    parser.add_argument("--days", type=float, default=1.0)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--pods", type=int, default=800, help="mean number of running pods")
    parser.add_argument("--life-hours", type=float, default=12.0)
    parser.add_argument("--request-share", type=float, default=0.15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--needed", action="store_true", help="also find the smallest number of nodes (many replays)")
    given = parser.parse_args()
    file = given.traces / FILE if given.traces else next(EXCERPT.glob("*.csv.gz"))
    found = sources.read_trace(file)
    what = scenario(found, given, given.nodes)
    names = [each.node.metadata.name for each in what.nodes]
    print(
        f"{len(found.names)} series, {given.days:g} days, {given.nodes} nodes of {NODE_CPU_MILLIS // 1000} cores, "
        f"{len(what.pods)} pods, about {given.pods} at a time, requests {given.request_share:.0%} of their cores\n"
    )
    head = f"{'placed by':<32}{'hot node-time':>15}{'spread':>9}{'p99':>7}{'lacking':>9}{'nodes used':>12}{'waited':>8}"
    print(head + (f"{'nodes needed':>14}" if given.needed else ""), flush=True)
    for name, contender in contenders(names).items():
        result = played(contender, what)
        line = (
            f"{name:<32}{result.hot_ratio:>14.2%} {result.spread:>8.1%}{result.peak:>7.0%}{result.overload_ratio:>9.2%}"
            f"{result.nodes_used:>12.1f}{result.waited + result.never_placed:>8}"
        )
        print(line + (f"{nodes_needed(contender, found, given):>14}" if given.needed else ""), flush=True)


if __name__ == "__main__":
    main()
