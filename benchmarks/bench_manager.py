"""Measure the cost and the latency of the manager on a real etcd and kube-apiserver, beside kopf with empty handlers.

    python -m benchmarks.bench_manager                                            # 200 nodes, 6 minutes
    python -m benchmarks.bench_manager --nodes 200 1000 5000 --seconds 120        # 40 minutes

The manager is the real program, with a second one as standby. Nodes report every 60 s, or as often as the apiserver
accepts the reports. The results are in docs/reference/manager-cost.md.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys

from benchmarks import manager_experiments
from benchmarks.manager_experiments import PHASE_HEAD, Bench, Phase
from tools.localcluster import content_cache, standalone_control_plane

MOVING_SHARES = (0.0, 0.2, 1.0)
"""Share of the reports that change the published values. Quiet nodes are like 0.2: a report a minute, and a write every
300 s (updateTimeThresholdSeconds) that confirms the values.
"""


def measure(nodes: int, arguments: argparse.Namespace) -> tuple[list[Phase], list[str]]:
    """Run every experiment on one size."""
    with standalone_control_plane.running() as plane:
        bench = Bench(plane, nodes, arguments.python, arguments.source)
        bench.first_start()
        leader, floor = bench.start_again("manager-1"), bench.start_floor()
        idle = bench.idle(leader, floor)
        phases = [bench.steady(leader, floor, idle, arguments.seconds, share) for share in MOVING_SHARES]
        bench.stop(floor.name)
        bench.change_every_spec(leader)
        bench.take_over("manager-1", standby="manager-2", kill=False)
        bench.take_over("manager-2", standby="manager-3", kill=True)
        return phases, bench.rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, nargs="+", default=[200], help="default: 200")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each of three phases (default %(default)s)")
    parser.add_argument("--python", nargs="*", default=[], metavar="FLAG", help="of the manager's interpreter: -OO")
    parser.add_argument(
        "--source", type=pathlib.Path, default=content_cache.REPOSITORY, help="checkout whose manager is measured"
    )
    arguments = parser.parse_args()
    phases, rows = [], []
    for nodes in arguments.nodes:
        of_size, more = measure(nodes, arguments)
        phases += of_size
        rows += more
        print(PHASE_HEAD, *(phase.row() for phase in phases), sep="\n", flush=True)
        print("| nodes | what | value |\n|---|---|---|", *rows, sep="\n", flush=True)
    load = os.getloadavg()[2]
    print(f"{os.cpu_count()} CPUs, load {load:.1f} over 15 minutes; {manager_experiments.PODS_EACH} pods a node")
    return 0


if __name__ == "__main__":
    sys.exit(main())
