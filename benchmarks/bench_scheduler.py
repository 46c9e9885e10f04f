"""Measure pods per second through a real kube-scheduler: alone, with the plugin inside, and with three extenders.

The extenders are one in C that does no work, the suite's, and a naive one.

    python -m benchmarks.bench_scheduler                                                # 1,000 nodes, 3 minutes
    python -m benchmarks.bench_scheduler --nodes 100 1000 5000 --percent 0 100 --rounds 5      # about an hour

All take turns within each round, so that other load on the machine affects all of them. The results are in
docs/benchmarks/scheduler-cost.md.
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import statistics
import sys

from benchmarks import scheduling_rounds
from benchmarks.scheduling_rounds import Result
from e2e.support import koord_manager
from tools.localcluster import content_cache, progress, standalone_control_plane

NO_EXTENDER, C_EXTENDER = "no extender", "extender in C that does no work"
HEAD = (
    "| nodes | sampling | extender | pods/s | of C | of none | cycle mean, ms | of C | of none | p50 | p99 "
    "| scheduler CPU a pod, ms | extender CPU a pod, ms |\n" + "|---" * 13 + "|"
)


def measure(nodes: int, arguments: argparse.Namespace) -> list[str]:
    """Return the rows of one size."""
    variants: dict[str, scheduling_rounds.Variant] = {
        NO_EXTENDER: scheduling_rounds.without,
        C_EXTENDER: scheduling_rounds.doing_nothing,
        "plugin inside kube-scheduler": scheduling_rounds.inside,
        "scheduler plugin": functools.partial(scheduling_rounds.suite, source=arguments.source),
        "naive (http.server, json, a loop)": scheduling_rounds.naive,
    }
    if arguments.koordinator:
        variants["koord-scheduler, LoadAware alone"] = scheduling_rounds.koordinator
    if arguments.only:
        variants = {
            label: variant
            for label, variant in variants.items()
            if label in (NO_EXTENDER, C_EXTENDER) or any(word in label for word in arguments.only)
        }
    rows = []
    with standalone_control_plane.running() as plane:
        fleet = scheduling_rounds.prepare(plane, nodes)
        if arguments.koordinator:
            api = plane.connect()
            koord_manager.install_crds(api, but="nodemetrics.slo.koordinator.sh")
            rbac = {"apiGroup": "rbac.authorization.k8s.io"}
            role = {**rbac, "kind": "ClusterRole", "name": "cluster-admin"}
            user = {**rbac, "kind": "User", "name": "system:kube-scheduler"}
            binding = {"metadata": {"name": "koord-scheduler"}, "roleRef": role, "subjects": [user]}
            api.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        bound = scheduling_rounds.Bound(plane)
        for percent in arguments.percent:
            results: dict[str, list[Result]] = {label: [] for label in variants}
            for number in range(arguments.rounds):
                for index, (label, variant) in enumerate(variants.items()):
                    progress.report(f"{nodes} nodes, {sampling(percent)}, round {number + 1}: {label}")
                    names = [f"pod-{percent}-{number}-{index}-{each}" for each in range(arguments.pods)]
                    result = scheduling_rounds.play(plane, fleet, variant, percent=percent, bound=bound, names=names)
                    progress.report(f"{result.pods_per_second:.0f} pods/s, cycle {result.cycle_mean:.2f} ms")
                    results[label].append(result)
            rows += table(nodes, percent, results)
    return rows


def table(nodes: int, percent: int, results: dict[str, list[Result]]) -> list[str]:
    """Return the medians over the rounds; shares are medians of the shares within a round."""
    rows = []
    for label, rounds in results.items():
        shares = [
            statistics.median(measure_of(one, other) for one, other in zip(rounds, results[reference], strict=True))
            for measure_of in (
                lambda one, other: one.pods_per_second / other.pods_per_second,
                lambda one, other: other.cycle_mean / one.cycle_mean,
            )
            for reference in (C_EXTENDER, NO_EXTENDER)
        ]
        middle = Result(*(statistics.median(column) for column in zip(*rounds, strict=True)))
        of_c, of_none, cycle_of_c, cycle_of_none = (f"{share:.0%}" for share in shares)
        rows.append(
            f"| {nodes} | {sampling(percent)} | {label} | {middle.pods_per_second:.0f} | {of_c} | {of_none} "
            f"| {middle.cycle_mean:.2f} | {cycle_of_c} | {cycle_of_none} | {middle.cycle_p50:.2f} "
            f"| {middle.cycle_p99:.1f} | {middle.scheduler_cpu_ms:.2f} | {middle.extender_cpu_ms:.2f} |"
        )
    return rows


def sampling(percent: int) -> str:
    """Describe a percentage of nodes to score."""
    return f"{percent} %" if percent else "default"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000], help="default: 1000")
    parser.add_argument("--percent", type=int, nargs="+", default=[0], help="percentageOfNodesToScore; 0: the default")
    parser.add_argument("--rounds", type=int, default=2, help="default %(default)s")
    parser.add_argument("--only", nargs="+", help="labels that contain one of these words; default: all")
    parser.add_argument("--koordinator", action="store_true", help="koord-scheduler too, built the first time")
    parser.add_argument("--pods", type=int, default=1000, help="of each round (default %(default)s)")
    parser.add_argument(
        "--source", type=pathlib.Path, default=content_cache.REPOSITORY, help="checkout whose extender is measured"
    )
    arguments = parser.parse_args()
    rows = []
    for nodes in arguments.nodes:
        rows += measure(nodes, arguments)
        print(HEAD, *rows, sep="\n", flush=True)
    print(f"{arguments.rounds} rounds of {arguments.pods} pods; {os.cpu_count()} CPUs, load {os.getloadavg()[2]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
