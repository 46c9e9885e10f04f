"""The one list of the commands of `koordctl`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Final, NamedTuple

from koordctl.backtest import command as backtest
from koordctl.cli import command as cluster
from koordctl.cli import console
from koordctl.convert import command as convert


class Command(NamedTuple):
    """A command: how it is called, the question it answers, and what runs."""

    name: str
    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    """Returns the exit code, of those in koordctl.cli.answer."""


COMMANDS: Final = (
    Command(
        "status",
        "what runs, what is measured, what Mid there is, and what is wrong",
        cluster.add_status,
        cluster.run,
    ),
    Command(
        "top", "usage, requests, predicted peak and Mid of nodes, pods or namespaces", cluster.add_top, cluster.run
    ),
    Command(
        "console",
        "pages about the cluster in your browser, with your own rights",
        console.add_arguments,
        console.run,
    ),
    Command(
        "backtest",
        "compare predictors on recorded usage: which one, at which risk",
        backtest.add_arguments,
        backtest.run,
    ),
    Command("convert", "write the limits of Mid pods into manifests", convert.add_arguments, convert.run),
)
"""In the order of the help text."""
