"""Command `koordctl simulate`: as `python -m scheduler_plugin simulate`, with koordctl's connection and exit codes."""

from __future__ import annotations

import functools
from argparse import ArgumentParser, Namespace
from typing import Final

from koordctl.cli import command
from koordctl.cli.answer import FINE, INTERRUPTED, NOT_READ, WRONG_USAGE
from scheduler_plugin.cli import simulate

_CODES: Final = {0: FINE, 1: NOT_READ, 2: WRONG_USAGE}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of the command."""
    simulate.add_scenario_arguments(parser)
    command.add_connection_arguments(parser)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    try:
        return _CODES[simulate.run(options, functools.partial(command.connected, options))]
    except command.WrongUsage as error:
        return command.fail(str(error), WRONG_USAGE)
    except KeyboardInterrupt:
        return command.fail("interrupted", INTERRUPTED)
