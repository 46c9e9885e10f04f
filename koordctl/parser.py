"""Make the parser of a command line, from the list of the commands."""

from __future__ import annotations

import difflib
import importlib
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from types import ModuleType

from koordctl.commands import COMMANDS, Command, Group


def make(words: Sequence[str] | None = None) -> ArgumentParser:
    """Return a parser with the flags of the command that the words name; without words, of every command."""
    as_plugin = sys.argv[0].rpartition("/")[2].startswith("kubectl")
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
