"""Command line of `koordctl`; kubectl finds it as `kubectl koord`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from koordctl import commands
from koordctl.cli.answer import FINE, INTERRUPTED, NOT_READ, WRONG_USAGE

COMPLETE: Final = "__complete"
"""First word of a call by the script of a shell; the words after it are those to complete."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return 0 if fine, 1 if the answer is no, 2 for wrong usage, 3 if a source cannot be read."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == [COMPLETE]:
        from koordctl.completion import candidates  # noqa: PLC0415  # only the shell asks for it

        return candidates.show(words[1:])
    if words[:1] in ([], ["help"]):
        return _help(is_asked=bool(words))
    if words == ["--version"]:
        words = ["version", "--client"]
    return _run(words)


def _help(*, is_asked: bool) -> int:
    commands.parser([]).print_help(sys.stdout if is_asked else sys.stderr)
    return FINE if is_asked else WRONG_USAGE


def _run(words: Sequence[str]) -> int:
    if wrong := commands.unknown_command(words):
        sys.stderr.write(f"{wrong}\n")
        return WRONG_USAGE
    try:
        options = commands.parser(words).parse_args(words)
        return int(options.run(options))
    except commands.NotInThisImage as error:
        sys.stderr.write(f"{error}\n")
        return NOT_READ
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe, such as head, has what it wants
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE


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
