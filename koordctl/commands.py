"""The one list of the commands of `koordctl`.

The module of a command is imported when the command is called, so that the help and the completion are quick.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final

import click

from koordctl.cli.answer import FINE, NOT_READ


class _Command(click.Command):
    """A command: how it is called, the question it answers, and the module that answers it.

    The module has `PARAMETERS` and `run(options)`, which returns an exit code of koordctl.cli.answer.
    """

    def __init__(self, name: str, help: str, module: str) -> None:  # noqa: A002  # as click has it
        super().__init__(name, help=help)
        self._module_name = module

    @property
    def module(self) -> ModuleType:
        """Import the module. Raises MissingLibrary."""
        try:
            return importlib.import_module(f"koordctl.{self._module_name}")
        except ModuleNotFoundError as error:
            raise MissingLibrary(
                f"koordctl {self.name} needs {error.name}: pip install 'koordctl[predict]', or use the image koordctl"
            ) from error

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the arguments and flags."""
        self.params = list(self.module.PARAMETERS)
        return super().get_params(ctx)

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; return the exit code."""
        try:
            return int(self.module.run(Namespace(**ctx.params)))
        except BrokenPipeError:  # the reader of a pipe, such as head, has what it wants
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FINE


class _Group(click.Group):
    """Commands with a common first word; the help has the whole text of each, below the title of its section."""

    def __init__(self, name: str, help: str, *commands: click.Command, **attributes: Any) -> None:  # noqa: A002
        super().__init__(name, help=help, commands=commands, **attributes)
        self.sections: Mapping[str, Sequence[click.Command]] = {"commands": commands}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the help."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands by section."""
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(str(command.name), str(command.help)) for command in commands])


class MissingLibrary(click.ClickException):
    """The libraries of a command are missing, as in the image of the manager; the text names them and the fix."""

    exit_code = NOT_READ


SECTIONS: Final[Mapping[str, tuple[click.Command, ...]]] = {
    "usage and faults": (
        _Command("status", "What runs, what is measured, what Mid there is, and what is wrong", "cli.status"),
        _Command("top", "Usage, requests, predicted peak and Mid of nodes, pods or namespaces", "cli.top"),
        _Command("gain", "What Mid resources brought, by namespace, and what they risked", "gain.command"),
        _Command("console", "Pages about the cluster in your browser, with your own rights", "cli.console_command"),
        _Command("my", "What Mid a namespace of yours gets: free, quota, why pods wait or were ended", "explain.my"),
    ),
    "explain and check": (
        _Command(
            "check",
            "Whether the suite works, whether you may, and what to do; --pre before an installation",
            "check.command",
        ),
        _Group(
            "explain",
            "Why a node has its Mid resources, why a pod is where it is, which value holds",
            _Command("node", "The Mid resources of a node as a sum, term by term", "explain.node_command"),
            _Command("pod", "Why a pod is on its node, why not on others", "explain.pod_command"),
            _Command("config", "The value of each key, and the layer that sets it", "explain.config"),
        ),
        _Command(
            "bundle",
            "One file with what an issue needs: reports, configuration, logs, metrics; without secrets",
            "bundle.command",
        ),
    ),
    "before a change": (
        _Command("estimate", "What Mid could give this cluster, at which risk; nothing installed", "estimate.command"),
        _Group(
            "config",
            "Check, render, compare or apply the configuration of Mid resources",
            _Command("check", "Whether a document is right", "configuration.check_command"),
            _Command("render", "The ConfigMap of a preset, for kubectl apply", "configuration.render_command"),
            _Command("diff", "What a document would give and take, node by node", "configuration.diff"),
            _Command(
                "apply", "Check a document, show what it changes, and apply it; asks", "configuration.apply_command"
            ),
        ),
        _Group(
            "scheduler",
            "Check the configuration of the scheduler plugin",
            _Command("check", "Whether plugins and their arguments are right", "configuration.scheduler_command"),
        ),
        _Command(
            "simulate",
            "Where pods would go, under which configuration of the scheduler",
            "configuration.simulate_command",
        ),
        _Command("backtest", "Compare predictors on recorded usage: which one, at which risk", "backtest.command"),
        _Command("convert", "Write the limits of Mid pods into manifests", "convert.command"),
    ),
    "other": (
        _Command("reset-prediction", "Let the agent of a node forget its history; asks", "changes.reset_prediction"),
        _Command("uninstall", "Take away what the suite has written to the cluster; asks", "changes.uninstall"),
        _Command("export", "Dashboards, rules of alerts, or the plugin of k9s, as files", "export.command"),
        _Command("completion", "The script that completes command lines in a shell", "completion"),
        _Command("version", "Versions of this program and of the installed parts", "cli.version_command"),
    ),
}
"""As in the help and in docs/how-to/koordctl.md."""
ROOT: Final = _Group(
    "koordctl",
    "Answers questions of the operator of a cluster. Only config apply, reset-prediction and uninstall change it.",
    *itertools.chain(*SECTIONS.values()),
    epilog="Begin with: estimate, before an installation; status, top nodes, explain node NODE. Flags of a command: "
    "COMMAND --help.",
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
ROOT.sections = SECTIONS
