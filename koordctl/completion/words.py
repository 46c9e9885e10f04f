"""Find what a command line may continue with: commands, flags, values, or the names of a kind of object. Pure."""

from __future__ import annotations

import importlib
from argparse import Action, ArgumentParser
from collections.abc import Sequence
from typing import Final, NamedTuple

from koordctl.commands import COMMANDS, Command, Group

NODES, NAMESPACES, PODS, FILES = "nodes", "namespaces", "pods", "files"
_KINDS: Final = {"NODE": NODES, "FILE": FILES, "[NAMESPACE/]NAME": PODS, "FOLDER": FILES}
_KINDS_OF_FLAGS: Final = {"--namespace": NAMESPACES, "--suite-namespace": NAMESPACES, "--node": NODES}


class Wanted(NamedTuple):
    """What may follow: words, and the kind of objects whose names may."""

    words: Sequence[str] = ()
    kind: str = ""


def wanted(words: Sequence[str], partial: str) -> Wanted:
    """Return what may follow complete words, not yet reduced to what begins with the partial word."""
    commands: Sequence[Command | Group] = COMMANDS
    for place, word in enumerate(words):
        found = next((each for each in commands if each.name == word), None)
        if isinstance(found, Group):
            commands = found.commands
        elif found is not None:
            return _of_command(found, words[place + 1 :], partial)
        else:
            return Wanted()
    return Wanted([each.name for each in commands])


def _of_command(command: Command, words: Sequence[str], partial: str) -> Wanted:
    parser = ArgumentParser(prog=command.name)
    importlib.import_module(command.module).add_arguments(parser)
    flags = {text: action for action in parser._actions for text in action.option_strings}  # noqa: SLF001
    arguments = [action for action in parser._actions if not action.option_strings]  # noqa: SLF001
    given = 0
    open_flag: Action | None = None
    for word in words:
        if open_flag is not None:
            open_flag = None
        elif word.startswith("-"):
            action = flags.get(word)
            open_flag = action if action is not None and action.nargs != 0 else None
        else:
            given += 1
    if open_flag is not None:
        return _of_action(open_flag)
    if partial.startswith("-"):
        return Wanted(sorted(text for text in flags if text.startswith("--")))
    if not arguments:
        return Wanted()
    last = arguments[-1]
    if given < len(arguments):
        return _of_action(arguments[given])
    return _of_action(last) if last.nargs in ("+", "*") else Wanted()


def _of_action(action: Action) -> Wanted:
    if action.choices is not None:
        return Wanted([str(choice) for choice in action.choices])
    kinds = (_KINDS_OF_FLAGS.get(text) for text in action.option_strings)
    return Wanted(kind=next(filter(None, kinds), "") or _KINDS.get(str(action.metavar), ""))
