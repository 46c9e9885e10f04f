"""Command `koordctl simulate`: as `python -m scheduler_plugin simulate`, with the exit codes of koordctl."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final

from koordctl.cli.answer import FINE, NOT_READ, WRONG_USAGE
from scheduler_plugin.cli import simulate

_CODES: Final = {0: FINE, 1: NOT_READ, 2: WRONG_USAGE}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of the command."""
    simulate.add_arguments(parser)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    return _CODES[simulate.run(options)]
