"""`python -m console`: serve the pages in the cluster, on the loopback of the pod."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence

from apiserver_client import errors
from component_base import http_endpoint, logs, settings
from console import program
from console.settings import ENV_PREFIX, ConsoleSettings

log = logging.getLogger("console")
_WRONG_SETTINGS = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m console", description="Serve the pages about the cluster on the loopback address of the pod."
    )
    settings.add_arguments(parser, ConsoleSettings, ENV_PREFIX)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped and return the exit code: 2 for wrong settings, 1 for any other error."""
    try:
        chosen = settings.from_sources(ConsoleSettings, _parser().parse_args(argv), os.environ, ENV_PREFIX)
    except settings.SettingsError as error:
        sys.stderr.writelines(f"console: {problem}\n" for problem in error.problems)
        return _WRONG_SETTINGS
    logs.configure(chosen.log_format, chosen.log_level)
    log.info("settings: %s", chosen.model_dump_json())
    try:
        asyncio.run(program.run(chosen))
    except (errors.NoCredentials, http_endpoint.CannotListen) as error:
        log.error("%s", error)  # noqa: TRY400  # the message is complete, a traceback would hide it
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
