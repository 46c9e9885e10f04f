"""Command line of `koordctl`; kubectl finds it as `kubectl koord`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from koordctl.commands import COMMANDS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="koordctl", description="Answers questions of the operator of a cluster.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        added = commands.add_parser(command.name, help=command.help)
        command.add_arguments(added)
        added.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return 0 if fine, 1 if the answer is no, 2 for wrong usage, 3 if a source cannot be read."""
    options = _parser().parse_args(argv)
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
