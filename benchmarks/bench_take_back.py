"""Prod doubles on a whole fleet within five minutes: how fast Mid is taken back, and how fast a freeze acts.

    python -m benchmarks.bench_take_back [--nodes 3000]

The take-back runs the manager's own controllers on a virtual clock (`take_back`). The freeze runs a real API server,
manager and extender: all nodes report, midEmergency becomes `freeze`, and from then on a filter call for a Mid pod is
repeated over all nodes. No cluster is needed. The results are in docs/benchmarks/take-back.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time
from http import HTTPStatus

from benchmarks import node_fleet, synthetic_cluster, take_back
from e2e.support import lone_manager, waiting
from e2e.support.lone_manager import LoneManager
from tools.localcluster.apiserver_requests import NODES, RequestError

FILLS = ((0.5, 1.0), (0.7, 1.0), (0.9, 1.0))
"""Requests of the Mid pods of a node before the rise, as a share of what is calculated then: a range, evenly spread."""
WANTED_PERCENT = 99
SECONDS, MORE_SECONDS = 900, 2400
STATUS = "koordinator.sh/mid-resource-status"


async def taken_back(nodes: int, fill: tuple[float, float]) -> str:
    """Return a row of the table."""
    fleet = take_back.fleet(nodes, fill)
    rows = {}
    async for seen in fleet.run(MORE_SECONDS):
        rows[seen.second] = seen
        is_back = seen.second > take_back.RISE_SECONDS and seen.fits >= WANTED_PERCENT
        if is_back and seen.second >= SECONDS:
            break
    back = next((at for at, seen in rows.items() if at > take_back.RISE_SECONDS and seen.fits >= WANTED_PERCENT), 0)
    worst, then = min(seen.fits for seen in rows.values()), rows[SECONDS]
    cells = (
        f"{100 * fill[0]:.0f} to {100 * fill[1]:.0f} %",
        f"{worst:.1f} %",
        f"**{then.fits:.1f} %**",
        f"{then.gone:.1f} %",
        f"{back / 60:.0f} min" if back else f"more than {MORE_SECONDS / 60:.0f} min",
        then.evicted,
        f"{fleet.most_within_a_minute()} of {fleet.permitted_within_a_minute()}",
        fleet.beyond_budget(),
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def frozen_nodes(lone: LoneManager) -> int:
    """Return the number of nodes whose status annotation states that they are closed."""
    count, token = 0, ""
    while True:
        page = lone.api.send("GET", f"{NODES}?limit=500&continue={token}")
        for node in page["items"]:
            text = (node["metadata"].get("annotations") or {}).get(STATUS)
            count += bool(text) and json.loads(text).get("closed") == "Frozen"
        token = page["metadata"].get("continue", "")
        if not token:
            return count


def freeze(nodes: int) -> tuple[float, float]:
    """Return the seconds from the freeze until no node admits a Mid pod, and until every node is written."""
    names = synthetic_cluster.node_names(nodes)
    with lone_manager.running() as lone:
        lone.configure(metricReportIntervalSeconds=60, updateTimeThresholdSeconds=300)
        fleet = node_fleet.Fleet(lone.plane, names, pods_each=10)
        fleet.create_nodes()
        lone.start()
        within_seconds = 60 + nodes / 5
        waiting.until("NodeMetrics", lambda: _reported(fleet), within_seconds=within_seconds, every_seconds=5.0)
        passing = lone.start_extender()
        waiting.until(
            "every node admits", lambda: len(passing(names)) == nodes, within_seconds=within_seconds, every_seconds=2.0
        )
        begun = time.monotonic()
        lone.configure(metricReportIntervalSeconds=60, updateTimeThresholdSeconds=300, midEmergency="freeze")
        waiting.until("no node admits", lambda: not passing(names), within_seconds=120, every_seconds=0.1)
        guarded = time.monotonic() - begun
        waiting.until(
            "every node is written", lambda: frozen_nodes(lone) == nodes, within_seconds=600, every_seconds=1.0
        )
        return guarded, time.monotonic() - begun


def _reported(fleet: node_fleet.Fleet) -> bool:
    """Report for all nodes; return whether the manager had created the NodeMetric of each."""
    try:
        fleet.report_all()
    except RequestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3000)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # each eviction is one
    print(
        "| Mid pods request, of Calculated | fewest nodes that fit | fit after 15 min | with pods that terminate | "
        f"{WANTED_PERCENT} % fit after | evictions in 15 min | most in a minute | beyond a budget |"
    )
    print("|---" * 8 + "|")
    for fill in FILLS:
        print(asyncio.run(taken_back(options.nodes, fill)), flush=True)
    guarded, written = freeze(options.nodes)
    print(
        f"\nfreeze of {options.nodes} nodes: no node admits a Mid pod after {guarded:.1f} s, "
        f"every node is written after {written:.1f} s"
    )


if __name__ == "__main__":
    main()
