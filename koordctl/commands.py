"""The one list of the commands of `koordctl`.

The module of a command is imported when the command is called, so that the help and the completion are quick.
"""

from __future__ import annotations

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


COMMANDS: Final[tuple[Command | Group, ...]] = (
    Command(
        "status",
        "what runs, what is measured, what Mid there is, and what is wrong",
        "koordctl.cli.status_command",
    ),
    Command(
        "check",
        "whether the suite works, whether you may, and what to do; --pre before an installation",
        "koordctl.check.command",
    ),
    Command(
        "top",
        "usage, requests, predicted peak and Mid of nodes, pods or namespaces",
        "koordctl.cli.top_command",
    ),
    Group(
        "explain",
        "why a node has its Mid resources, why a pod is where it is, which value holds",
        (
            Command("node", "the Mid resources of a node as a sum, term by term", "koordctl.explain.node_command"),
            Command("pod", "why a pod is on its node, why not on others", "koordctl.explain.pod_command"),
            Command("config", "the value of each key, and the layer that sets it", "koordctl.explain.config_command"),
        ),
    ),
    Group(
        "config",
        "check, render or compare the configuration of Mid resources",
        (
            Command("check", "whether a document is right", "koordctl.configuration.check_command"),
            Command("render", "the ConfigMap of a preset, for kubectl apply", "koordctl.configuration.render_command"),
            Command("diff", "what a document would give and take, node by node", "koordctl.configuration.diff_command"),
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
        "gain",
        "what Mid resources brought, by namespace, and what they risked",
        "koordctl.gain.command",
    ),
    Command(
        "console",
        "pages about the cluster in your browser, with your own rights",
        "koordctl.cli.console",
    ),
    Command(
        "backtest",
        "compare predictors on recorded usage: which one, at which risk",
        "koordctl.backtest.command",
    ),
    Command(
        "bundle",
        "one file with what an issue needs: reports, configuration, logs, metrics; without secrets",
        "koordctl.bundle.command",
    ),
    Command(
        "convert",
        "write the limits of Mid pods into manifests",
        "koordctl.convert.command",
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
)
"""In the order of the help text."""
