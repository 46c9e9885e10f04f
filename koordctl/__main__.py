"""Command line of `koordctl`; kubectl finds it as `kubectl koord`."""

from __future__ import annotations

import difflib
import importlib
import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import PurePath
from types import ModuleType

from koordctl.cli.answer import FINE, INTERRUPTED, NOT_READ, WRONG_USAGE
from koordctl.commands import COMMANDS, Command, Group


def _parser(words: Sequence[str] | None = None) -> ArgumentParser:
    """Return a parser with the flags of the command that the words name; without words, of every command."""
    as_plugin = PurePath(sys.argv[0]).name.startswith("kubectl")
    made = ArgumentParser(
        prog="kubectl koord" if as_plugin else "koordctl",
        description="Answers questions of the operator of a cluster.",
    )
    _add(made, COMMANDS, words)
    return made


def _add(to: ArgumentParser, commands: Sequence[Command | Group], words: Sequence[str] | None) -> None:
    added = to.add_subparsers(metavar="COMMAND", required=True)
    for each in commands:
        own = added.add_parser(each.name, help=each.help, description=f"{each.help[:1].upper()}{each.help[1:]}.")
        if words is not None and words[:1] != [each.name]:
            continue
        if isinstance(each, Group):
            _add(own, each.commands, None if words is None else words[1:])
        else:
            module = _module(each)
            module.add_arguments(own)
            own.set_defaults(run=module.run)


class NotInThisImage(Exception):
    """The libraries of a command are missing, as in the image of the manager; the text names them and the fix."""


def _module(command: Command) -> ModuleType:
    try:
        return importlib.import_module(command.module)
    except ModuleNotFoundError as error:
        raise NotInThisImage(
            f"koordctl {command.name} is not in this image: it needs {error.name}; use the image koordctl, or the "
            "wheel with [koordctl]"
        ) from error


def unknown_command(words: Sequence[str], commands: Sequence[Command | Group] = COMMANDS) -> str:
    """Return what is wrong with the name of the command, with the nearest ones; empty where it exists."""
    if not words or words[0].startswith("-"):
        return ""
    known = {each.name: each for each in commands}
    found = known.get(words[0])
    if found is not None:
        return unknown_command(words[1:], found.commands) if isinstance(found, Group) else ""
    near = difflib.get_close_matches(words[0], known, n=2)
    wanted = f"did you mean {' or '.join(near)}?" if near else f"want one of {', '.join(known)}"
    return f"unknown command {words[0]!r}; {wanted}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return 0 if fine, 1 if the answer is no, 2 for wrong usage, 3 if a source cannot be read."""
    words = list(sys.argv[1:] if argv is None else argv)
    if wrong := unknown_command(words):
        sys.stderr.write(f"{wrong}\n")
        return WRONG_USAGE
    try:
        options = _parser(words).parse_args(words)
        return int(options.run(options))
    except NotInThisImage as error:
        sys.stderr.write(f"{error}\n")
        return NOT_READ
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe, such as head, has what it wants
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE


def program() -> int:
    """Run as a program: an end by SIGTERM is as one by Ctrl-C, so that every child process is ended."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    return main()


if __name__ == "__main__":
    sys.exit(program())
