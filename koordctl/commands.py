"""The one list of the commands of `koordctl`, and the parser of a command line that is made of it.

The module of a command is imported when the command is called, so that the help and the completion are quick.
"""

from __future__ import annotations

import difflib
import importlib
import itertools
import sys
from argparse import Action, ArgumentParser, HelpFormatter
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Final, NamedTuple


class Command(NamedTuple):
    """A command: how it is called, the question it answers, and the module that answers it."""

    name: str
    help: str
    module: str
    """Has `add_arguments(parser)` and `run(options)`, which returns an exit code of koordctl.cli.answer."""


class Group(NamedTuple):
    """Commands with a common first word."""

    name: str
    help: str
    commands: tuple[Command, ...]


SECTIONS: Final[Mapping[str, tuple[Command | Group, ...]]] = {
    "usage and faults": (
        Command(
            "status",
            "what runs, what is measured, what Mid there is, and what is wrong",
            "koordctl.cli.status_command",
        ),
        Command(
            "top",
            "usage, requests, predicted peak and Mid of nodes, pods or namespaces",
            "koordctl.cli.top_command",
        ),
        Command(
            "gain",
            "what Mid resources brought, by namespace, and what they risked",
            "koordctl.gain.command",
        ),
        Command(
            "console",
            "pages about the cluster in your browser, with your own rights",
            "koordctl.cli.console",
        ),
    ),
    "explain and check": (
        Command(
            "check",
            "whether the suite works, whether you may, and what to do; --pre before an installation",
            "koordctl.check.command",
        ),
        Group(
            "explain",
            "why a node has its Mid resources, why a pod is where it is, which value holds",
            (
                Command("node", "the Mid resources of a node as a sum, term by term", "koordctl.explain.node_command"),
                Command("pod", "why a pod is on its node, why not on others", "koordctl.explain.pod_command"),
                Command(
                    "config", "the value of each key, and the layer that sets it", "koordctl.explain.config_command"
                ),
            ),
        ),
        Command(
            "bundle",
            "one file with what an issue needs: reports, configuration, logs, metrics; without secrets",
            "koordctl.bundle.command",
        ),
    ),
    "before a change": (
        Group(
            "config",
            "check, render or compare the configuration of Mid resources",
            (
                Command("check", "whether a document is right", "koordctl.configuration.check_command"),
                Command(
                    "render", "the ConfigMap of a preset, for kubectl apply", "koordctl.configuration.render_command"
                ),
                Command(
                    "diff", "what a document would give and take, node by node", "koordctl.configuration.diff_command"
                ),
            ),
        ),
        Group(
            "scheduler",
            "check the configuration of the scheduler plugin",
            (Command("check", "whether plugins and their arguments are right", "koordctl.scheduler.check_command"),),
        ),
        Command(
            "simulate",
            "where pods would go, under which configuration of the scheduler",
            "koordctl.scheduler.simulate_command",
        ),
        Command(
            "backtest",
            "compare predictors on recorded usage: which one, at which risk",
            "koordctl.backtest.command",
        ),
        Command(
            "convert",
            "write the limits of Mid pods into manifests",
            "koordctl.convert.command",
        ),
    ),
    "other": (
        Command(
            "reset-prediction",
            "let the agent of a node forget its history; asks",
            "koordctl.changes.reset_prediction",
        ),
        Command(
            "uninstall",
            "take away what the suite has written to the cluster; asks",
            "koordctl.changes.uninstall",
        ),
        Command(
            "export",
            "dashboards, rules of alerts, or the plugin of k9s, as files",
            "koordctl.export.command",
        ),
        Command(
            "completion",
            "the script that completes command lines in a shell",
            "koordctl.completion.command",
        ),
        Command(
            "version",
            "versions of this program and of the installed parts",
            "koordctl.cli.version_command",
        ),
    ),
}
"""As in the help and in docs/how-to/koordctl.md."""
COMMANDS: Final[tuple[Command | Group, ...]] = tuple(itertools.chain(*SECTIONS.values()))
"""In the order of the help text."""


def parser(words: Sequence[str] | None = None) -> ArgumentParser:
    """Return a parser with the flags of the command that the words name; without words, of every command."""
    as_plugin = sys.argv[0].rpartition("/")[2].startswith("kubectl")
    made = ArgumentParser(
        prog="kubectl koord" if as_plugin else "koordctl",
        description="Answers questions of the operator of a cluster. Only reset-prediction and uninstall change it.",
        epilog="Begin with: status, top nodes, explain node NODE. Flags of a command: COMMAND --help.",
        formatter_class=_InSections,
    )
    _add(made, COMMANDS, words)
    return made


class _InSections(HelpFormatter):
    """Help with the title of a section before the first of its commands."""

    _TITLES: Final = {commands[0].name: title for title, commands in SECTIONS.items()}

    def _format_action(self, action: Action) -> str:
        title = self._TITLES.get(action.dest)
        return (f"\n{'':{self._current_indent - 2}}{title}:\n" if title else "") + super()._format_action(action)


def _add(to: ArgumentParser, commands: Sequence[Command | Group], words: Sequence[str] | None) -> None:
    added = to.add_subparsers(title="commands", metavar="COMMAND", required=True)
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
