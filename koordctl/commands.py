"""The one list of the commands of `koordctl`."""

from __future__ import annotations

import importlib
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Final, NamedTuple

from koordctl.check import command as check
from koordctl.cli import answer
from koordctl.cli import command as cluster
from koordctl.convert import command as convert


class Command(NamedTuple):
    """A command: how it is called, the question it answers, and what runs."""

    name: str
    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    """Returns the exit code, of those in koordctl.cli.answer."""


def _beyond_the_manager(module: str, name: str) -> tuple[Callable[[ArgumentParser], None], Callable[[Namespace], int]]:
    """Return flags and run of a command whose libraries the image of the manager does not have."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        text = f"koordctl {name} is not in this image: it needs {error.name}; use the image koordctl, or the wheel with [koordctl]\n"  # noqa: E501
    else:
        return found.add_arguments, found.run

    def add_rest(parser: ArgumentParser) -> None:
        parser.prefix_chars = "\0"  # its flags are not known here: every word is accepted
        parser.add_argument("rest", nargs="*", help="see the image koordctl")

    def refuse(_options: Namespace) -> int:
        sys.stderr.write(text)
        return answer.NOT_READ

    return add_rest, refuse


COMMANDS: Final = (
    Command(
        "status",
        "what runs, what is measured, what Mid there is, and what is wrong",
        cluster.add_status,
        cluster.run,
    ),
    Command(
        "check",
        "whether the suite works, whether you may, and what to do; --pre before an installation",
        check.add_arguments,
        check.run,
    ),
    Command(
        "top", "usage, requests, predicted peak and Mid of nodes, pods or namespaces", cluster.add_top, cluster.run
    ),
    Command(
        "backtest",
        "compare predictors on recorded usage: which one, at which risk",
        *_beyond_the_manager("koordctl.backtest.command", "backtest"),
    ),
    Command("convert", "write the limits of Mid pods into manifests", convert.add_arguments, convert.run),
)
"""In the order of the help text."""
