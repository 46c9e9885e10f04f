"""Page docs/reference/command-lines.md: every command and flag once, from the parsers that the programs use."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import click

from console import __main__ as console
from docs.generators import markdown
from koordctl import commands as koordctl
from koordctl.cli import flags
from koordlet import __main__ as koordlet
from manager import __main__ as manager
from scheduler_plugin import __main__ as scheduler_plugin
from scheduler_plugin.load_watcher import __main__ as load_watcher

_INTRODUCTION: Final = """
## Programs

A program takes each setting from four places, the first one wins: a flag, an environment variable (`--http-port` of
`koordlet run` is `KOORDLET_HTTP_PORT`; the prefix is below each title), a key of the YAML file of `--settings-file`
(`http-port`), the default. Errors of all settings are reported at once; the exit code is then 2. A switch has a
negative form: `--no-enable-debug-pages`.
"""
_SHARED: Final = 3
"""A setting of at least so many programs, with the same default and meaning, is in a table of its own."""
_SETTING: Final = re.compile(r"^(?P<text>.*) \((?P<default>default: .*|required); environment: (?P<variable>\w+)\)$")
_GROUPS: Final = {
    "the cluster": flags.CONNECTION,
    "the output": flags.OUTPUT,
    "repetition": flags.WATCH,
    "the suite": (flags.SUITE_NAMESPACE,),
    "its namespace": (flags.NAMESPACE,),
    "Prometheus": flags.PROMETHEUS,
}
"""Flags that several commands of koordctl have."""
Programs = dict[str, tuple[str, list[markdown.Row], str]]


def programs() -> tuple[argparse.ArgumentParser, ...]:
    """Return the parser of each program but koordctl."""
    return tuple(
        program._parser()  # noqa: SLF001
        for program in (koordlet, manager, scheduler_plugin, load_watcher, console)
    )


def flags_of_commands() -> Iterator[str]:
    """Yield each command with each of its flags."""
    for parser in programs():
        for name, _, command in list(_commands(parser)) or [("", "", parser)]:
            for action in command._actions:  # noqa: SLF001
                yield from (f"{parser.prog} {name} {flag}".replace("  ", " ") for flag in action.option_strings)
    root = click.Context(koordctl.ROOT, info_name="koordctl", **koordctl.ROOT.context_settings)
    for context, leaf in _leaves(root, koordctl.ROOT):
        yield from (f"{context.command_path} {flag}" for param in leaf.get_params(context) for flag in param.opts)


def page() -> str:
    """Return the whole page."""
    return "".join([markdown.head("Command lines", "the parsers of the programs"), *_programs(), *_koordctl()])


def _programs() -> Iterator[str]:
    sections: Programs = {}
    for parser in programs():
        inner = list(_commands(parser)) or [("", parser.description or "", parser)]
        for name, text, command in inner:
            sections[f"{parser.prog} {name}".rstrip()] = _sentence(text), [*_rows(command)], _prefix(command)
    count = Counter(row for _, rows, _ in sections.values() for row in rows)
    shared = [row for row, number in count.items() if number >= _SHARED]
    yield f"{_INTRODUCTION}\nSettings of at least {_SHARED} programs:\n{_table(shared)}"
    for name, (text, rows, prefix) in sections.items():
        own, others = [row for row in rows if row not in shared], [row[0] for row in rows if row in shared]
        yield f"\n### {name}\n\n{text}{f' Prefix: `{prefix}`.' if prefix else ''}"
        yield f" Shared settings: {', '.join(others)}.\n" if others else "\n"
        yield _table(own) if own else ""


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001  # argparse has no public list
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
            for name, command in action.choices.items():
                yield name, texts.get(name, ""), command


def _rows(parser: argparse.ArgumentParser) -> Iterator[markdown.Row]:
    for action in parser._actions:  # noqa: SLF001
        if not isinstance(action, argparse._HelpAction):  # noqa: SLF001
            yield _row(action)


def _row(action: argparse.Action) -> markdown.Row:
    text, default = _text(action), ""
    if setting := _SETTING.match(text):
        text, default = setting["text"], setting["default"].removeprefix("default: ")
    elif action.required and action.option_strings:
        default = "required"
    text = text.partition(" (environment: ")[0]
    return f"`{_spelled(action)}`", default if default == "required" else markdown.code(default), _sentence(text)


def _prefix(parser: argparse.ArgumentParser) -> str:
    """Return the prefix of the environment variables of the settings, empty for a command without settings."""
    for action in parser._actions:  # noqa: SLF001
        if match := re.search(r"environment: (\w+)_SETTINGS_FILE\)", _text(action)):
            return f"{match[1]}_"
    return ""


def _text(action: argparse.Action) -> str:
    return " ".join((action.help or "").replace("%%", "%").split())


def _spelled(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar or action.dest)
    if isinstance(action, argparse.BooleanOptionalAction):
        return action.option_strings[0]
    if action.nargs == 0:
        return ", ".join(action.option_strings)
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    return f"{', '.join(action.option_strings)} {value}"


def _koordctl() -> Iterator[str]:
    root = click.Context(koordctl.ROOT, info_name="koordctl", **koordctl.ROOT.context_settings)
    yield f"\n## koordctl\n\n{koordctl.ROOT.help}\n"
    for name, group in _GROUPS.items():
        yield f"\n### Flags of {name}\n{_table([_row_of_click(flag, root) for flag in group])}"
    for context, command in _leaves(root, koordctl.ROOT):
        params = [param for param in command.get_params(context) if "--help" not in param.opts]
        groups = [name for name, group in _GROUPS.items() if set(group) <= set(params)]
        own = [param for param in params if not any(param in _GROUPS[name] for name in groups)]
        yield f"\n### {context.command_path}\n\n{command.help}."
        links = [f"[{name}](#flags-of-{name.lower().replace(' ', '-')})" for name in groups]
        yield f" And the flags of {', '.join(links)}.\n" if links else "\n"
        yield _table([_row_of_click(param, context) for param in own]) if own else ""


def _leaves(context: click.Context, group: click.Group) -> Iterator[tuple[click.Context, click.Command]]:
    for name, command in group.commands.items():
        inner = click.Context(command, parent=context, info_name=name)
        if isinstance(command, click.Group):
            yield from _leaves(inner, command)
        else:
            yield inner, command


def _row_of_click(param: click.Parameter, context: click.Context) -> markdown.Row:
    value = param.make_metavar(context)
    if isinstance(param, click.Option):
        spelled = f"{', '.join(param.opts)}{'' if param.is_flag else f' {value}'}"
        shown = param.get_help_extra(context)
        default = "required" if param.required else markdown.code(shown.get("default", ""))
        return f"`{spelled}`", default, _sentence(param.help or "")
    return f"`{value}`", "", _sentence(param.help or "")


def _table(rows: Sequence[markdown.Row]) -> str:
    return markdown.table(("flag", "default", "meaning"), rows)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', ')')) or not text else '.'}"
