"""Command `koordctl simulate`: compare the placement of pods under several configurations of the scheduler."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from click import BadParameter, Choice, Option

from api_types.kubernetes import quantities
from apiserver_client import errors
from koordctl.cli import command, flags
from koordctl.cli.answer import FINE, INTERRUPTED, NOT_READ, WRONG_USAGE
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.config.loader import PluginConfiguration
from scheduler_plugin.simulation import kube_scheduler_model, outcome, recorded_cluster
from scheduler_plugin.simulation.outcome import ReplayOutcome
from scheduler_plugin.simulation.recorded_cluster import Play, Recording
from scheduler_plugin.simulation.replay import Replay
from scheduler_plugin.simulation.scenario import Scenario

STOCK: Final = "stock"
"""Name that selects kube-scheduler alone, in place of a configuration."""

_PROGRESS_PERCENT: Final = 10


def positive(text: str) -> float:
    """Return a finite number above 0. Raises BadParameter."""
    value = float(text)
    if not 0 < value < math.inf:
        raise BadParameter(f"seen {text}, want a number above 0")
    return value


def _file(name: str, text: str) -> Option:
    return Option([f"--{name}"], type=click.Path(), metavar="FILE", help=text)


_PLAY: Final = Play()
PARAMETERS: Final = (
    _file("pods", "output of kubectl get pods -A -o json (or yaml)"),
    _file("nodes", "output of kubectl get nodes -o json"),
    _file("metrics", "output of kubectl get nodemetrics -o json; none: agents report immediately"),
    Option(["--live"], is_flag=True, help="read pods, nodes and NodeMetrics from the apiserver instead"),
    Option(
        ["--config"],
        type=click.Path(),
        multiple=True,
        default=(STOCK,),
        metavar="CONFIG",
        help=f"configuration file, or {STOCK}: kube-scheduler alone; repeat to compare",
    ),
    _file("usage", "usage of pods over time: CSV of pod,seconds,cpu,memory"),
    *(
        Option([f"--{name}"], type=positive, default=f"{default:g}", metavar="NUMBER", help=text)
        for name, default, text in (
            ("hours", _PLAY.hours, "simulated time"),
            ("step-seconds", _PLAY.step_seconds, "time step with constant usage"),
            ("arrival-interval-seconds", _PLAY.arrival_interval_seconds, "interval of pods without an arrival time"),
            ("usage-percent", _PLAY.usage_percent, "usage of a pod without usage data, in percent of its requests"),
        )
    ),
    Option(["--everything"], is_flag=True, help="place all pods again, not only those without a node"),
    Option(["--seed"], type=int, default=1, help="seed of the choice among equal scores"),
    Option(
        ["-o", "--output"],
        type=Choice(("table", "text", "json")),
        default="table",
        help="format; text is another name of table",
    ),
    *flags.CONNECTION,
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    try:
        configurations = {
            name: None if name == STOCK else loader.load(name) for name in options.config
        }  # before the cluster is read
        scenario = recorded_cluster.to_scenario(_recording(options), _play(options))
        outcomes = {name: _outcome(scenario, name, loaded, options.seed) for name, loaded in configurations.items()}
    except (
        recorded_cluster.BadRecording,
        loader.InvalidConfiguration,
        kube_scheduler_model.CannotModel,
        quantities.InvalidQuantity,
    ) as error:
        return command.fail(str(error), WRONG_USAGE)
    except errors.ApiServerError as error:
        return command.fail(str(error), NOT_READ)
    except KeyboardInterrupt:
        return command.fail("interrupted", INTERRUPTED)
    if options.output == "json":
        sys.stdout.write(json.dumps(outcome.document(outcomes), indent=2) + "\n")
    else:
        sys.stdout.write(outcome.text(outcomes))
    return FINE


def _recording(options: Namespace) -> Recording:
    if options.live:
        return asyncio.run(_live(options))
    if not options.pods or not options.nodes:
        raise recorded_cluster.BadRecording("want --pods and --nodes (and --metrics, if available), or --live")
    return recorded_cluster.from_files(options.pods, options.nodes, options.metrics)


async def _live(options: Namespace) -> Recording:
    async with command.connected(options) as api:
        return await recorded_cluster.from_cluster(api)


def _play(options: Namespace) -> Play:
    usage: Any = {}
    if options.usage:
        try:
            usage = recorded_cluster.usage_series(Path(options.usage).read_text(encoding="utf-8"), options.step_seconds)
        except (OSError, UnicodeDecodeError, recorded_cluster.BadRecording) as error:
            raise recorded_cluster.BadRecording(f"{options.usage}: {error}") from error
    return Play(
        hours=options.hours,
        step_seconds=options.step_seconds,
        everything=options.everything,
        arrival_interval_seconds=options.arrival_interval_seconds,
        usage_percent=options.usage_percent,
        usage=usage,
    )


def _outcome(scenario: Scenario, config: str, loaded: PluginConfiguration | None, seed: int) -> ReplayOutcome:
    if loaded is None:
        return Replay(scenario, seed=seed).run(_progress(config))
    parts = assembly.Parts(loaded, record_bytes=0)
    weights = kube_scheduler_model.read_weights(loader.read(config))
    return Replay(scenario, parts, weights=weights, seed=seed).run(_progress(config))


def _progress(name: str) -> Callable[[float], None]:
    last_percent = -1

    def report(share: float) -> None:
        nonlocal last_percent
        percent = int(100 * share) // _PROGRESS_PERCENT * _PROGRESS_PERCENT
        if percent > last_percent:
            last_percent = percent
            sys.stderr.write(f"{name}: {percent} %\n")

    return report
