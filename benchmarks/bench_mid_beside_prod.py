"""What a Mid pod that fills the machine does to the latency of a Prod service, compared with an equal peer.

    python -m benchmarks.bench_mid_beside_prod [--rounds 7] [--svg FILE] [--json FILE]

Needs a cluster with a shell in its nodes, or root to start one. Service and antagonist are pods of a real kubelet; the
service does 400 us of work a request, 800 requests a second on each CPU, in an open loop. The rows take turns, and a
row is the median of the rounds. A comparison is void where the 99th percentile beside the peer is less than five times
the work: then the antagonists do not fill the machine.

The other programs of the node get less weight than all pods during a measurement, so that they are no part of it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import bar_picture
from e2e.support import contention, installed_stage
from e2e.support.contention import Arena, Latency
from e2e.support.installed_stage import Stage

MOST_RATIO = 0.6
PICTURE_TITLE = "99th percentile of the latency of a Prod service, milliseconds"
NAMES = {
    None: "nothing",
    "peer-besteffort": "peer of equal weight",
    "peer-burstable": "peer of equal weight",
    "mid-limited": "Mid with limits (Burstable)",
    "mid-besteffort": "Mid without (BestEffort)",
}
PEERS = {
    "prod-burstable": "peer-burstable",
    "prod-guaranteed": "peer-burstable",
    "prod-besteffort": "peer-besteffort",
}
ANTAGONISTS = ("mid-limited", "mid-besteffort")
PROTECTED = (
    ("prod-burstable", "mid-limited"),
    ("prod-burstable", "mid-besteffort"),
    ("prod-guaranteed", "mid-besteffort"),
)
"""Pairs for which the target holds."""


class Row(NamedTuple):
    """One line of the table: a service, what runs beside it, and its latency."""

    service: str
    antagonist: str | None
    latency: Latency
    ratio: float | None
    """Of the 99th percentile to that beside the peer; None for the peer itself, and alone."""
    is_void: bool


def rows_of(rounds: dict[tuple[str, str | None], list[Latency]]) -> list[Row]:
    """Return the lines of the table from the latencies of all rounds."""
    found = []
    of = {pair: contention.medians(latencies) for pair, latencies in rounds.items()}
    for (service, antagonist), latency in of.items():
        peer = of[service, PEERS[service]].p99
        ratio = latency.p99 / peer if antagonist in ANTAGONISTS else None
        found.append(Row(service, antagonist, latency, ratio, peer < 5 * contention.WORK_MICROS))
    return found


def table(rows: list[Row]) -> str:
    """Return a table in Markdown, with times in milliseconds."""
    lines = [
        "| Prod is | beside | p50 ms | p90 ms | p99 ms | longest ms | p99 to peer's | antagonist's CPU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = " | ".join(f"{value / 1000:.2f}" for value in row.latency[:4])
        ratio = "" if row.ratio is None else "void" if row.is_void else f"**{row.ratio:.2f}**"
        cores = f"{row.latency.antagonist_cores:.2f}"
        lines.append(f"| {row.service.removeprefix('prod-')} | {NAMES[row.antagonist]} | {times} | {ratio} | {cores} |")
    return "\n".join(lines)


def measure(stage: Stage, count: int) -> dict[tuple[str, str | None], list[Latency]]:
    """Return the latencies of all rounds, by service and antagonist."""
    cpus = contention.machine_cpus(stage.cluster_client, stage.node)
    arena = Arena(stage.cluster, stage.cluster_client, stage.namespace, stage.node, cpus)
    arena.create(contention.pods(stage.suite.workload, stage.node, cpus))
    weights = contention.weights(stage.node)
    print(f"{arena.iterations} iterations a request, {cpus} CPUs, weights of the QoS groups: {weights}")
    rounds: dict[tuple[str, str | None], list[Latency]] = defaultdict(list)
    for index in range(count):
        for service, peer in PEERS.items():
            for antagonist in (None, peer, *ANTAGONISTS):
                rounds[service, antagonist].append(arena.measure(service, antagonist))
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        print(f"round {index + 1} of {count}; load of the machine {load}", flush=True)
    return rounds


def main() -> int:
    """Measure, print the table, draw the picture; 1 where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_mid_beside_prod", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each row")
    parser.add_argument("--svg", type=Path, help="file for the picture")
    parser.add_argument("--json", type=Path, help="file for the latencies of every round")
    chosen = parser.parse_args()
    with installed_stage.running("mid-beside-prod") as stage:
        rounds = measure(stage, chosen.rounds)
    rows = rows_of(rounds)
    print(table(rows))
    if chosen.json:
        chosen.json.write_text(json.dumps(_as_json(rounds), indent=1))
    if chosen.svg:
        chosen.svg.write_text(bar_picture.svg(bars(rows), PICTURE_TITLE))
    missed = [
        f"{row.service} beside {row.antagonist}: {'void' if row.is_void else f'{row.ratio:.2f}'}"
        for row in rows
        if (row.service, row.antagonist) in PROTECTED and (row.is_void or (row.ratio or 0.0) > MOST_RATIO)
    ]
    print("\n".join(["target missed:", *missed]) if missed else f"each protected pair is within {MOST_RATIO}")
    return 1 if missed else 0


def _as_json(rounds: dict[tuple[str, str | None], list[Latency]]) -> dict[str, Any]:
    return {
        f"{service} beside {antagonist}": [each._asdict() for each in found]
        for (service, antagonist), found in rounds.items()
    }


def bars(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Return the 99th percentiles in milliseconds by service and antagonist."""
    bars: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        bars[f"{row.service.removeprefix('prod-').capitalize()} Prod"][NAMES[row.antagonist]] = row.latency.p99 / 1000
    return bars


if __name__ == "__main__":
    raise SystemExit(main())
