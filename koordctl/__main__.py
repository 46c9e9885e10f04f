"""Command line of `koordctl`; kubectl finds it as `kubectl koord`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from api_types.mid_pods import policy, template
from koordctl.backtest import command as backtest
from koordctl.cli import command as cluster
from koordctl.convert import command as convert


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="koordctl", description="Answers questions of the operator of a cluster.")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_backtest(
        commands.add_parser("backtest", help="compare predictors on recorded usage: which one, at which risk")
    )
    _add_convert(commands.add_parser("convert", help="write the limits of Mid pods into manifests"))
    cluster.add_status(
        commands.add_parser("status", help="what runs, what is measured, what Mid there is, and what is wrong")
    )
    cluster.add_top(
        commands.add_parser("top", help="usage, requests, predicted peak and Mid of nodes, pods or namespaces")
    )
    return parser


def _add_convert(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="YAML or JSON: Pods, workloads, ClusterColocationProfiles; - is standard input")  # fmt: skip  # noqa: E501
    how = parser.add_mutually_exclusive_group()
    how.add_argument("-i", "--in-place", action="store_true", help="write the result to the files")
    how.add_argument("--diff", action="store_true", help="print the changes only")
    add("--scheduler", default="", metavar="NAME", help="scheduler of Mid pods that name none (default: as it is)")
    add("--mid-class", action="append", default=list(template.MID_CLASSES), metavar="NAME", help="another PriorityClass of Mid pods")  # fmt: skip  # noqa: E501
    add("--policy-version", choices=policy.VERSIONS, default="v1", help="API version of the policy of a profile (default: v1)")  # fmt: skip  # noqa: E501


def _add_backtest(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("action", nargs="?", choices=("run", "merge"), default="run", help="merge: combine JSON results of shards")
    add("files", nargs="*", default=[], metavar="FILE", help="results to merge")
    add("--prometheus", metavar="URL", help="Prometheus with series of cAdvisor and kube-state-metrics")
    add("--traces", type=Path, metavar="FOLDER", help="folder of CSV traces, in place of a Prometheus")
    add("--token-file", type=Path, metavar="FILE", help="bearer token for Prometheus")
    add("--ca-file", type=Path, metavar="FILE", help="certificate authorities of Prometheus")
    add("--timeout", type=float, default=120.0, metavar="SECONDS", help="limit of one query (default: 120)")
    add(
        "--from",
        dest="start",
        default="14d",
        metavar="TIME",
        help="first time, or a duration before now (default: 14d)",
    )
    add("--to", dest="end", default="now", metavar="TIME", help="last time, or a duration before now (default: now)")
    add("--step", default="5m", metavar="DURATION", help="time between samples, and window of the rate (default: 5m)")
    add("--selector", default="", metavar="MATCHERS", help="label matchers of all series, such as cluster='a'")
    add("--nodes", default=".*", metavar="REGEX", help="names of the nodes to read (default: all)")
    add(
        "--node-label", default="node", metavar="LABEL", help="label of cAdvisor's series with the node (default: node)"
    )
    add("--metric", action="append", default=[], metavar="KIND=NAME", help="another name of a metric: cpu, memory, pods, requests, capacity, allocatable")  # fmt: skip  # noqa: E501
    add("--priority-class", action="append", default=[], metavar="NAME=CLASS", help="class (prod, mid, batch) of a Kubernetes PriorityClass")  # fmt: skip  # noqa: E501
    add("--horizon", default="1h", metavar="DURATION", help="time that a forecast has to hold for (default: 1h)")
    add("--interval", default="1h", metavar="DURATION", help="time between forecasts (default: 1h)")
    add("--target", type=float, default=1.0, metavar="PERCENT", help="violations that the recommendation allows (default: 1)")  # fmt: skip  # noqa: E501
    add("--cache", type=Path, metavar="FOLDER", help="keep downloaded series there, to resume")
    add("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes, one node each at a time")
    add("--shard", metavar="I/N", help="part I (from 0) of N; /N takes I from JOB_COMPLETION_INDEX")
    add("--machines", type=int, default=24, metavar="N", help="machines of a trace (default: 24)")
    add("--pods", type=int, default=16, metavar="N", help="pods on a machine of a trace (default: 16)")
    add("--life-days", type=float, default=10.0, metavar="DAYS", help="mean lifetime of a pod of a trace (default: 10)")
    add("--seed", type=int, default=1, metavar="N", help="of the placement of traces (default: 1)")
    add("-o", "--output", choices=("table", "json", "csv"), default="table", help="format")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return 0 if fine, 1 if the answer is no, 2 for wrong usage, 3 if a source cannot be read."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.command == "convert":
        return convert.run(options)
    if options.command in ("status", "top"):
        return cluster.run(options)
    if options.action == "merge":
        if not options.files:
            parser.error("merge: want the JSON results of shards")
    elif bool(options.prometheus) == bool(options.traces):
        parser.error("backtest: want one of --prometheus and --traces")
    if options.workers < 1:
        parser.error(f"--workers {options.workers}: want at least 1")
    return backtest.run(options)


if __name__ == "__main__":
    sys.exit(main())
