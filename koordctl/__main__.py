"""Command line of `koordctl`; kubectl finds it as `kubectl koord`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

import click

from koordctl import commands, completion
from koordctl.cli.answer import INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return 0 if fine, 1 if the answer is no, 2 for wrong usage, 3 if a source cannot be read."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["help"]:
        words = ["--help"]
    elif words == ["--version"]:
        words = ["version", "--client"]
    as_plugin = sys.argv[0].rpartition("/")[2].startswith("kubectl")
    name = "kubectl koord" if as_plugin else "koordctl"
    try:
        return int(commands.ROOT.main(words, name, completion.VARIABLE, standalone_mode=False))
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED


def program() -> int:
    """Run as a program: an end by SIGTERM is as one by Ctrl-C, so that every child process is ended."""
    signal.signal(signal.SIGTERM, _interrupt)
    return main()


def _interrupt(_number: int, _frame: object) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of a job in the background
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


if __name__ == "__main__":
    sys.exit(program())
