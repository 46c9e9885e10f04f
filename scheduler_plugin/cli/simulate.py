"""Compare the placement of pods under several configurations: command `simulate`."""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import yaml

from api_types.kubernetes import quantities
from apiserver_client import errors, session
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.config.loader import Configuration
from scheduler_plugin.simulation import (
    kube_scheduler_model,
    recorded_cluster,
    recording,
    scheduling_queue,
    table,
    usage_file,
)
from scheduler_plugin.simulation.outcome import Outcome
from scheduler_plugin.simulation.recorded_cluster import Play, Recording
from scheduler_plugin.simulation.replay import Replay
from scheduler_plugin.simulation.scenario import Scenario

STOCK: Final = "stock"
"""Name that selects kube-scheduler alone, in place of a configuration."""

Connect = Callable[[], AbstractAsyncContextManager[session.Session]]

_USER_AGENT: Final = "koord-scheduler-plugin-simulate"
_FINE, _FAILED, _WRONG_INPUT = 0, 1, 2
_PROGRESS_PERCENT: Final = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_scenario_arguments(parser)
    parser.add_argument("--kubeconfig", metavar="FILE", help="with --live; none: the same file as kubectl")


def add_scenario_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of what is simulated, without those of the connection to a cluster."""
    play = Play()
    parser.add_argument("--pods", metavar="FILE", help="output of kubectl get pods -A -o json (or yaml)")
    parser.add_argument("--nodes", metavar="FILE", help="output of kubectl get nodes -o json")
    parser.add_argument(
        "--metrics", metavar="FILE", help="output of kubectl get nodemetrics -o json; none: agents report immediately"
    )
    parser.add_argument(
        "--live", action="store_true", help="read pods, nodes and NodeMetrics from the apiserver instead"
    )
    parser.add_argument(
        "--config",
        metavar="CONFIG",
        action="append",
        help=f"configuration file, or {STOCK}: kube-scheduler alone; repeat to compare (default: {STOCK})",
    )
    parser.add_argument("--usage", metavar="FILE", help="usage of pods over time: CSV of pod,seconds,cpu,memory")
    numbers: dict[str, tuple[float, str]] = {
        "hours": (play.hours, "simulated time"),
        "step-seconds": (play.step_seconds, "time step with constant usage"),
        "arrival-interval-seconds": (play.arrival_interval_seconds, "interval of pods without an arrival time"),
        "usage-percent": (play.usage_percent, "usage of a pod without usage data, in percent of its requests"),
    }
    for name, (default, meaning) in numbers.items():
        parser.add_argument(f"--{name}", type=_positive, default=default, help=f"{meaning} (default: {default:g})")
    parser.add_argument("--everything", action="store_true", help="place all pods again, not only those without a node")
    parser.add_argument("--seed", type=int, default=1, help="seed of the choice among equal scores (default: 1)")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "text", "json"),
        default="table",
        help="format; text is another name of table (default: table)",
    )


def run(arguments: argparse.Namespace, connect: Connect | None = None) -> int:
    """Simulate and print the result; return the exit code. `connect` opens the session of --live."""
    try:
        wanted = {name: _configuration(name) for name in arguments.config or [STOCK]}  # before the cluster is read
        scenario = recorded_cluster.scenario_of(_recording(arguments, connect), _play(arguments))
        outcomes = {name: _outcome(scenario, name, wanted[name], arguments.seed) for name in wanted}
    except (
        recorded_cluster.BadRecording,
        usage_file.BadUsage,
        loader.InvalidConfiguration,
        kube_scheduler_model.CannotModel,
        quantities.InvalidQuantity,
    ) as error:
        sys.stderr.write(f"{error}\n")
        return _WRONG_INPUT
    except errors.ApiServerError as error:
        sys.stderr.write(f"{error}\n")
        return _FAILED
    if arguments.output == "json":
        sys.stdout.write(json.dumps(table.document(outcomes), indent=2) + "\n")
    else:
        sys.stdout.write(table.text(outcomes))
    return _FINE


def _recording(arguments: argparse.Namespace, connect: Connect | None) -> Recording:
    if arguments.live:
        opened = functools.partial(session.open_session, arguments.kubeconfig, user_agent=_USER_AGENT)
        return asyncio.run(_live(connect or opened))
    if not arguments.pods or not arguments.nodes:
        raise recorded_cluster.BadRecording("want --pods and --nodes (and --metrics, if available), or --live")
    return recording.from_files(arguments.pods, arguments.nodes, arguments.metrics)


async def _live(connect: Connect) -> Recording:
    async with connect() as api:
        return await recording.from_cluster(api)


def _play(arguments: argparse.Namespace) -> Play:
    usage: Any = {}
    if arguments.usage:
        try:
            usage = usage_file.series(Path(arguments.usage).read_text(encoding="utf-8"), arguments.step_seconds)
        except (OSError, UnicodeDecodeError, usage_file.BadUsage) as error:
            raise usage_file.BadUsage(f"{arguments.usage}: {error}") from error
    return Play(
        hours=arguments.hours,
        step_seconds=arguments.step_seconds,
        everything=arguments.everything,
        arrival_interval_seconds=arguments.arrival_interval_seconds,
        usage_percent=arguments.usage_percent,
        usage=usage,
    )


def _configuration(name: str) -> Configuration | None:
    return None if name == STOCK else loader.load(name)


def _outcome(scenario: Scenario, config: str, loaded: Configuration | None, seed: int) -> Outcome:
    if loaded is None:
        return Replay(scenario, seed=seed).run(_progress(config))
    parts = assembly.Parts(loaded, assumed_ttl_seconds=120.0)
    document = yaml.safe_load(Path(config).read_text(encoding="utf-8")) or {}
    weights, backoff = kube_scheduler_model.weights_of(document), scheduling_queue.backoff_of(document)
    return Replay(scenario, parts, weights=weights, backoff=backoff, seed=seed).run(_progress(config))


def _progress(name: str) -> Callable[[float], None]:
    last_percent = -1

    def report(share: float) -> None:
        nonlocal last_percent
        percent = int(100 * share) // _PROGRESS_PERCENT * _PROGRESS_PERCENT
        if percent > last_percent:
            last_percent = percent
            sys.stderr.write(f"{name}: {percent} %\n")

    return report


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"got {text}, want a number above 0")
    return value
