"""Flags and types of arguments that several commands have; they have the names of kubectl's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click
from click import Argument, BadParameter, Choice, Context, FloatRange, Option, Parameter

from api_types import names
from koordctl.cli.answer import FORMATS

FILE: Final[click.Path[str]] = click.Path(allow_dash=True)
"""A file to read; `-` is standard input."""
PATH: Final[click.Path[Path]] = click.Path(path_type=Path)
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST_SECONDS: Final = 86_400


class FiniteRange(FloatRange):
    """Numbers within bounds; NaN is within any bounds for click."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> float:
        """Return the number. Raises BadParameter."""
        number = float(super().convert(value, param, ctx))
        return number if math.isfinite(number) else self.fail(f"seen {value!r}, want a number", param, ctx)


def seconds(text: str) -> float:
    """Return the seconds of a limit. Raises BadParameter."""
    unit = {"s": 1, "m": 60, "h": 3_600}.get(text[-1:])
    try:
        limit = float(text[:-1] if unit else text) * (unit or 1)
    except ValueError:
        limit = 0.0
    if not 0 < limit <= _LONGEST_SECONDS:  # also no NaN
        raise BadParameter(f"seen {text!r}, want a number of seconds above 0, or 30s, 1m, 1h")
    return limit


def namespace(text: str) -> str:
    """Return the name of a namespace. Raises BadParameter."""
    if not _NAMESPACE.fullmatch(text):
        raise BadParameter(f"seen {text!r}, want the name of a namespace: at most 63 of a-z, 0-9 and -")
    return text


def name(text: str) -> str:
    """Return the name of an object. Raises BadParameter for an empty one."""
    if not text:
        raise BadParameter("seen an empty name, want that of an object")
    return text


def names_of_cluster(resource: str) -> Callable[[Context, Parameter, str], list[str]]:
    """Return the completion of a flag or an argument: names of "nodes", "pods" or "namespaces"."""

    def complete(context: Context, _parameter: Parameter, partial: str) -> list[str]:
        from koordctl.cli import command  # noqa: PLC0415  # slow, and only for a completion

        return command.complete_names(resource, context.params, partial)

    return complete


def node(**changes: Any) -> Argument:
    """Return the argument that names a node."""
    attributes = {"help": "name of the node", "type": name, "shell_complete": names_of_cluster("nodes")}
    return Argument(["node"], **{**attributes, **changes})


def selector(spelled: str, example: str = "job=~'koordlet|koord-manager'") -> Option:
    """Return the flag that selects series in a Prometheus."""
    text = f"label matchers of all series, such as {example}"
    return Option([spelled], default="", show_default=False, metavar="MATCHERS", help=text)


CONNECTION: Final = (
    Option(["--kubeconfig"], type=click.Path(), metavar="FILE", help="kubeconfig file (default: as kubectl)"),
    Option(["--context"], metavar="NAME", help="context of the kubeconfig"),
    Option(["--request-timeout"], type=seconds, default="60", help="limit of one request, such as 30 or 1m"),
    Option(["--as", "user"], metavar="USER", default="", show_default=False, help="user to impersonate"),
    Option(["--as-group", "groups"], metavar="GROUP", multiple=True, help="group to impersonate; repeat for several"),
)
"""What chooses the cluster and the identity: the same for every command that reads a cluster."""


def output(formats: Sequence[str] = FORMATS) -> tuple[Option, ...]:
    """Return the flags of the output."""
    return (
        Option(["-o", "--output"], type=Choice(formats), default="table", help="format"),
        Option(["--no-headers"], is_flag=True, help="omit the titles of a table"),
        Option(
            ["--color"],
            type=Choice(("auto", "always", "never")),
            default="auto",
            help="auto: on a terminal, unless NO_COLOR is set",
        ),
        Option(["--ascii"], is_flag=True, help="signs and bars of ASCII; by itself where the output is not UTF-8"),
    )


OUTPUT: Final = output()
READING: Final = (*CONNECTION, *OUTPUT)
"""Flags of every command that reads a cluster and prints an answer."""


def _namespace_of_suite(*spelled: str) -> Option:
    return Option(
        spelled,
        type=namespace,
        default=names.NAMESPACE,
        metavar="NAMESPACE",
        shell_complete=names_of_cluster("namespaces"),
        help="namespace of the suite",
    )


SUITE_NAMESPACE: Final = _namespace_of_suite("--suite-namespace")
NAMESPACE: Final = _namespace_of_suite("-n", "--namespace")
"""The same in a command about the suite."""
WATCH: Final = (
    Option(["-w", "--watch"], is_flag=True, help="repeat the answer until Ctrl-C"),
    Option(["--interval"], type=seconds, default="5", help="time between two answers of -w"),
)
PROMETHEUS: Final = (
    Option(["--token-file"], type=PATH, metavar="FILE", help="file with a bearer token for Prometheus"),
    Option(["--ca-file"], type=PATH, metavar="FILE", help="certificates that Prometheus is checked with"),
    Option(["--timeout"], type=seconds, default="120", help="limit of one query"),
)
