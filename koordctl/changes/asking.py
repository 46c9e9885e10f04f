"""The question before a change, on a terminal; elsewhere `--yes` is the answer."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from click import Option

from koordctl.cli import command
from koordctl.cli.output import printable

PARAMETERS = (
    Option(["--dry-run"], is_flag=True, help="show what would be changed, and change nothing"),
    Option(["--yes"], is_flag=True, help="do not ask"),
)


def check(options: Namespace) -> None:
    """Raise WrongUsage where the question could not be asked; before anything is read."""
    if not (options.dry_run or options.yes or sys.stdin.isatty()):
        raise command.WrongUsage("standard input is no terminal: want --yes, or --dry-run to change nothing")


def is_agreed(options: Namespace, plan: Sequence[str]) -> bool:
    """Show the plan and ask; anything but yes is no."""
    if options.yes:
        return True
    sys.stderr.writelines(f"{printable(line, 2_000)}\n" for line in plan)
    sys.stderr.write("continue? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
