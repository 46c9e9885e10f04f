"""Measure how a burst of pods spreads: 200 pods in 10 s over 50 nodes with the same load, through kube-scheduler.

    python -m benchmarks.bench_scheduler_burst            # 3 minutes

No report comes meanwhile, so a scheduler that uses reported load alone does not see the pods of the burst. It runs with
all of kube-scheduler's own scores, and with none of them, so that the extender alone decides. The exit code is 1 if a
node gets more than twice its fair share from the scheduler plugin.
"""

from __future__ import annotations

import argparse
import collections
import functools
import pathlib
import sys
import time

from benchmarks import node_fleet, scheduling_rounds
from tools.localcluster import apiserver_requests, content_cache, progress, standalone_control_plane

MOST_SHARES = 2.0
SUITE = "scheduler plugin"


def pods_by_node(
    plane: standalone_control_plane.ControlPlane,
    fleet: node_fleet.Fleet,
    variant: scheduling_rounds.Variant,
    names: list[str],
    *,
    seconds: float,
    own_scores: bool,
) -> list[int]:
    """Return the number of pods of a burst on each node, most first."""
    bound = scheduling_rounds.Bound(plane)
    with variant(plane, fleet) as extender:
        plane.start_scheduler(scheduling_rounds.configuration(extender, 0, own_scores=own_scores))
        began = time.monotonic()

        def create(api: apiserver_requests.Connection, number: int) -> None:
            time.sleep(max(began + number * seconds / len(names) - time.monotonic(), 0))
            api.send("POST", scheduling_rounds.PODS, scheduling_rounds.pod(names[number]))

        try:
            apiserver_requests.in_parallel(plane.connect, range(len(names)), create)
            scheduling_rounds.until("every pod bound", lambda: bound.nodes.keys() >= set(names))
        finally:
            plane.stop("kube-scheduler")
            scheduling_rounds.delete_pods(plane)
    found = collections.Counter(bound.nodes[name] for name in names)
    return sorted((found[node] for node in fleet.names), reverse=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=50, help="default %(default)s")
    parser.add_argument("--pods", type=int, default=200, help="default %(default)s")
    parser.add_argument("--seconds", type=float, default=10.0, help="default %(default)s")
    parser.add_argument(
        "--source", type=pathlib.Path, default=content_cache.REPOSITORY, help="checkout whose extender is measured"
    )
    arguments = parser.parse_args()
    variants: dict[str, scheduling_rounds.Variant] = {
        "no extender": scheduling_rounds.without,
        SUITE: functools.partial(scheduling_rounds.suite, source=arguments.source),
        "naive: reported load alone, unequal": scheduling_rounds.naive,
    }
    fair = arguments.pods / arguments.nodes
    rows, worst = [], 0.0
    with standalone_control_plane.running() as plane:
        fleet = scheduling_rounds.prepare(plane, arguments.nodes, alike=True)
        for own_scores in (True, False):
            for index, (label, variant) in enumerate(variants.items()):
                progress.report(f"{label}, kube-scheduler's own scores {'on' if own_scores else 'off'}")
                names = [f"burst-{int(own_scores)}-{index}-{number}" for number in range(arguments.pods)]
                found = pods_by_node(plane, fleet, variant, names, seconds=arguments.seconds, own_scores=own_scores)
                if label == SUITE:
                    worst = max(worst, found[0] / fair)
                with_scores = "on" if own_scores else "off"
                rows.append(f"| {with_scores} | {label} | {found[0]} | {found[-1]} | {found[0] / fair:.1f} |")
    print("| own scores | extender | most pods on a node | fewest | most, in fair shares |", "|---" * 5 + "|", sep="\n")
    print(*rows, sep="\n")
    print(f"{arguments.pods} pods in {arguments.seconds:.0f} s over {arguments.nodes} nodes: a fair share is {fair:g}")
    return int(worst > MOST_SHARES)


if __name__ == "__main__":
    sys.exit(main())
