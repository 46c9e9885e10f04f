"""Command line of the agent: `koordlet run` on a node, `koordlet preview` anywhere."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from api_types.kubernetes import times
from apiserver_client import errors, session
from component_base import http_endpoint, logs, settings
from koordlet import node_observer, preview
from koordlet.agent import Agent
from koordlet.metrics import debug_pages
from koordlet.prediction.packages import installed
from koordlet.prediction.predictors import registry as predictor_registry
from koordlet.settings import ENV_PREFIX, KoordletSettings

log = logging.getLogger("koordlet")

_WRONG_SETTINGS = 2


def _seconds(text: str) -> float:
    try:
        seconds = times.duration_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if seconds < preview.LEAST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is too short, want at least {preview.LEAST_SECONDS:g}s")
    return seconds


def _parser(package_predictors: Sequence[str] = ()) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="koordlet", description="Measure and predict the usage of a node.")
    commands = parser.add_subparsers(dest="command", metavar="{run,preview}", required=True)
    run = commands.add_parser("run", help="run as the agent of a cluster node")
    settings.add_arguments(run, KoordletSettings, ENV_PREFIX)
    show = commands.add_parser("preview", help="print the NodeMetric status of this machine, without a cluster")
    show.add_argument("--for", dest="seconds", type=_seconds, default=60.0, metavar="DURATION", help="default: 1m")
    show.add_argument(
        "--predictor",
        choices=(*predictor_registry.PREDICTORS, *package_predictors, preview.ALL),
        help="print a table of the predictions of this predictor (also one of a package), or of all, in place of "
        "the status",
    )
    settings.add_arguments(show, KoordletSettings, ENV_PREFIX)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return 0 on success, 2 for wrong settings and 1 for any other failure."""
    arguments = _parser(installed.names()).parse_args(argv)
    try:
        chosen = settings.from_sources(KoordletSettings, arguments, os.environ, ENV_PREFIX)
    except settings.SettingsError as error:
        return _refuse(error.problems)
    logs.configure(chosen.log_format, chosen.log_level)
    if arguments.command == "preview":
        return preview.show(chosen, arguments.seconds, arguments.predictor)
    if problems := chosen.required_for_run():
        return _refuse(problems)
    try:
        asyncio.run(_run(chosen))
    except (errors.NoCredentials, http_endpoint.CannotListen) as error:
        log.error("%s", error)  # noqa: TRY400  # the message is complete, a traceback would hide it
        return 1
    return 0


def _refuse(problems: Sequence[str]) -> int:
    for problem in problems:
        print(f"koordlet: {problem}", file=sys.stderr)  # noqa: T201  # the log settings themselves may be wrong
    return _WRONG_SETTINGS


async def _run(chosen: KoordletSettings) -> None:
    log.info("settings: %s", chosen.model_dump_json())
    registry = CollectorRegistry()
    for default in (ProcessCollector, PlatformCollector, GCCollector):
        default(registry=registry)
    observer = node_observer.NodeObserver(
        Path(chosen.host_root),
        chosen.max_series,
        packages=installed.load(chosen.node_name),
    )
    agent = Agent(chosen, observer, registry)
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, agent.stop.set)
    endpoint = http_endpoint.HttpEndpoint(
        chosen.http_address,
        chosen.http_port,
        health=agent.health,
        ready=agent.ready,
        registry=registry,
        debug_port=chosen.debug_port,
        debug_routes=debug_pages.routes(agent.reports, loop) if chosen.enable_debug_pages else None,
    )
    endpoint.start()
    try:
        async with session.open_session(chosen.kubeconfig or None, user_agent="koordlet") as api:
            gc.freeze()  # excludes the objects of the start-up, so that a full collection costs microseconds
            await agent.run(api)
    finally:
        endpoint.stop()


if __name__ == "__main__":
    sys.exit(main())
