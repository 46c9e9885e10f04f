"""`python -m scheduler_plugin.load_watcher`: serve the utilization of every node over REST, for any scheduler."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence

from apiserver_client import errors
from component_base import http_endpoint, logs, settings
from scheduler_plugin.load_watcher.analysers import analyser
from scheduler_plugin.load_watcher.app import LoadWatcherApp
from scheduler_plugin.load_watcher.settings import ENV_PREFIX, LoadWatcherSettings, provider_specs

log = logging.getLogger("load_watcher")

_WRONG_SETTINGS = 2
_UPSTREAMS_LEVELS = {"trace": "debug", "warn": "warning", "fatal": "error", "panic": "error"}
"""Log levels of upstream's watcher -> this project's."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scheduler_plugin.load_watcher",
        description="Serve the utilization of each node over the last 5, 10 and 15 minutes to schedulers.",
        epilog="Providers: METRICS_PROVIDER_NAME, _ADDRESS, _TOKEN, _TOKEN_FILE, _APP_KEY, _QUERIES, _ORG, _BUCKET.",
    )
    settings.add_arguments(parser, LoadWatcherSettings, ENV_PREFIX)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped and return the exit code: 2 for wrong settings, 1 for any other error."""
    environ = with_upstreams_names(os.environ)
    try:
        chosen = settings.from_sources(LoadWatcherSettings, _parser().parse_args(argv), environ, ENV_PREFIX)
        specs = provider_specs(chosen, environ)
    except settings.SettingsError as error:
        for problem in error.problems:
            print(f"load_watcher: {problem}", file=sys.stderr)  # noqa: T201  # the settings of the log may be wrong
        return _WRONG_SETTINGS
    logs.configure(chosen.log_format, chosen.log_level)
    log.info("settings: %s", chosen.model_dump_json())
    try:
        asyncio.run(LoadWatcherApp(chosen, specs).run())
    except analyser.AnalyserUnusable as error:
        log.error("--analysers: %s", error)  # noqa: TRY400  # the message is complete, a traceback would hide it
        return _WRONG_SETTINGS
    except (errors.NoCredentials, http_endpoint.CannotListen) as error:
        log.error("%s", error)  # noqa: TRY400  # the message is complete, a traceback would hide it
        return 1
    return 0


def with_upstreams_names(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with upstream's LOG_LEVEL and KUBE_CONFIG as defaults of this project's variables."""
    level = environ.get("LOG_LEVEL", "").lower()
    named = {
        f"{ENV_PREFIX}_LOG_LEVEL": _UPSTREAMS_LEVELS.get(level, level),
        f"{ENV_PREFIX}_KUBECONFIG": environ.get("KUBE_CONFIG", ""),
    }
    return {name: value for name, value in named.items() if value} | dict(environ)


if __name__ == "__main__":
    sys.exit(main())
