"""Run the scheduler plugin beside a kube-scheduler: `python -m scheduler_plugin run`, or without a command.

`main` is the console script `koord-scheduler-plugin`, and `python -m scheduler_plugin`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence

from apiserver_client import errors
from component_base import http_endpoint, logs, settings
from scheduler_plugin.app.extender_app import ExtenderApp
from scheduler_plugin.config import loader
from scheduler_plugin.extender.tls import UnusableCertificate
from scheduler_plugin.kube_scheduler.server import CannotServe
from scheduler_plugin.settings import ENV_PREFIX, SchedulerPluginSettings

log = logging.getLogger("scheduler_plugin")

_FAILED = 1
_WRONG_SETTINGS = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scheduler_plugin", description="Extender of kube-scheduler that places pods by real load."
    )
    commands = parser.add_subparsers(dest="command", metavar="{run}", required=True)
    run = commands.add_parser("run", help="serve a kube-scheduler (the default command)")
    settings.add_arguments(run, SchedulerPluginSettings, ENV_PREFIX)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the plugin and return the exit code: 2 for invalid settings or configuration, 1 for any other failure."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] not in ("run", "-h", "--help"):
        words.insert(0, "run")
    arguments = _parser().parse_args(words)
    try:
        chosen = settings.from_sources(SchedulerPluginSettings, arguments, os.environ, ENV_PREFIX)
        configurations = loader.load_all(chosen.config)
        app = ExtenderApp(chosen, configurations)
    except settings.SettingsError as error:  # or loader.InvalidConfiguration
        for problem in error.problems:
            print(f"scheduler_plugin: {problem}", file=sys.stderr)  # noqa: T201  # the log settings may be invalid
        return _WRONG_SETTINGS
    logs.configure(chosen.log_format, chosen.log_level)
    log.info("settings: %s", chosen.model_dump_json())
    log.info("configuration: %s", json.dumps(loader.effective_document(configurations)))
    try:
        asyncio.run(app.run())
    except (errors.NoCredentials, http_endpoint.CannotListen, UnusableCertificate, CannotServe) as error:
        log.error("%s", error)  # noqa: TRY400  # the message is complete, a traceback would hide it
        return _FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
