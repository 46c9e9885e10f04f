"""Page docs/reference/command-lines.md: every command and flag, from the parsers that the programs use."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Final

from console import __main__ as console
from docs.generators import markdown
from koordctl import commands as koordctl
from koordlet import __main__ as koordlet
from manager import __main__ as manager
from scheduler_plugin import __main__ as scheduler_plugin
from scheduler_plugin.load_watcher import __main__ as load_watcher

_INTRODUCTION: Final = """
Each long-running program takes its settings from four places, the first one wins: a flag, an environment variable, the
file of `--settings-file`, the default. Errors of all settings are reported at once; the exit code is then 2.
"""
_OF_SETTING: Final = re.compile(r"^(?P<text>.*) \((?P<default>default: .*|required); environment: (?P<variable>\w+)\)$")


def parsers() -> tuple[argparse.ArgumentParser, ...]:
    """Return the parser of each program."""
    others = (program._parser() for program in (koordlet, manager, scheduler_plugin, load_watcher, console))  # noqa: SLF001
    return (*others, koordctl.parser())


def page() -> str:
    """Return the whole page."""
    parts = [markdown.head("Command lines", "the parsers of the programs"), _INTRODUCTION]
    for parser in parsers():
        parts += [f"\n## {parser.prog}\n\n{parser.description}\n", _flags(parser)]
        for name, text, command in _commands(parser):
            parts += [f"\n### {parser.prog} {name}\n\n{_sentence(text)}\n", _flags(command)]
    return "".join(parts)


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001  # argparse has no public list
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
            for name, command in action.choices.items():
                inner = [(f"{name} {own}", text, found) for own, text, found in _commands(command)]
                yield from inner or [(name, texts.get(name, ""), command)]


def _flags(parser: argparse.ArgumentParser) -> str:
    rows = [
        _row(action)
        for action in parser._actions  # noqa: SLF001
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)  # noqa: SLF001
    ]
    return markdown.table(("flag", "default", "environment", "meaning"), rows) if rows else ""


def _row(action: argparse.Action) -> markdown.Row:
    text = " ".join((action.help or "").replace("%%", "%").split())
    default, variable = "", ""
    if setting := _OF_SETTING.match(text):
        text, default, variable = setting["text"], setting["default"].removeprefix("default: "), setting["variable"]
    elif action.required and action.option_strings:
        default = "required"
    shown = default if default == "required" else markdown.code(default)
    return f"`{_spelled(action)}`", shown, markdown.code(variable), _sentence(text)


def _spelled(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar or action.dest)
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return ", ".join(action.option_strings)
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    return f"{', '.join(action.option_strings)} {value}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', ')')) or not text else '.'}"
