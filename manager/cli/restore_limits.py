"""`python -m manager restore-limits`: restore the CPU limits of Mid pods where agents may no longer do so.

The chart runs it after the upgrade that takes the right from the agents. Where agents still lower limits, set
`midSuppressThresholdPercent` to 0 first: they then restore the limits themselves, step by step.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Any, Final

import pydantic

from apiserver_client import connection, session
from component_base import clock, logs, settings
from manager.cli import lowered_limits, start
from manager.cli.lowered_limits import LoweredLimits
from manager.cli.steps import Steps

log = logging.getLogger(__name__)

ENV_PREFIX: Final = "RESTORE_LIMITS"
DONE: Final = 0
LEFT_OVER: Final = 1


class RestoreSettings(settings.Settings):
    """Settings of the command, validated once at start, frozen."""

    timeout_seconds: float = pydantic.Field(240.0, gt=0, le=86400)
    """Timeout of the whole command."""
    kubeconfig: str = ""
    """Kubeconfig file; empty means KUBECONFIG, then the pod's service account, then ~/.kube/config."""
    log_format: logs.LogFormat = logs.LogFormat.TEXT
    """Format of log lines: text or json."""
    log_level: logs.LogLevel = logs.LogLevel.INFO
    """Lowest level that is logged: debug, info, warning or error."""


def main(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command; return the exit code."""
    if (loaded := start.load(RestoreSettings, arguments, environ, ENV_PREFIX)) is None:
        return start.WRONG_SETTINGS
    chosen, to = loaded
    logs.configure(chosen.log_format, chosen.log_level)
    return asyncio.run(restore(to, chosen))


async def restore(to: connection.Connection, chosen: RestoreSettings) -> int:
    """Restore all limits within the timeout; return the exit code."""
    steps = Steps()
    async with session.connect(to, user_agent="koord-manager/restore-limits") as api:
        try:
            async with asyncio.timeout(chosen.timeout_seconds):
                await lowered_limits.restore(LoweredLimits(api, clock.utc_now), steps)
        except TimeoutError:
            log.error(  # noqa: TRY400  # the message is complete
                "not finished after %g s: %s; where agents still lower limits, set midSuppressThresholdPercent to 0",
                chosen.timeout_seconds,
                steps.obstacle,
            )
            return LEFT_OVER
    return DONE


def add_arguments(parser: Any) -> None:
    """Add the flags of the settings."""
    settings.add_arguments(parser, RestoreSettings, ENV_PREFIX)
