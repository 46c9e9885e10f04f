"""Command `koordctl top`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from click import Argument, Option
from click import Choice as OneOf

from fleet.reading import Reader
from koordctl.cli import command, flags, top
from koordctl.cli.answer import Answer
from koordctl.cli.command import WrongUsage
from koordctl.cli.top import SortKey

T = TypeVar("T")
KEYS: Final[Mapping[str, Mapping[str, SortKey[Any]]]] = {
    "nodes": top.NODE_KEYS,
    "pods": top.POD_KEYS,
    "namespaces": top.NAMESPACE_KEYS,
}


class RowChoice(NamedTuple):
    """Order and limits of the rows, by the flags."""

    key: SortKey[Any]
    descending: bool
    above: Sequence[tuple[SortKey[Any], float]]
    below: Sequence[tuple[SortKey[Any], float]]

    def select(self, rows: Iterable[T]) -> list[T]:
        """Return the rows to show, in order; a row whose value is not known is neither above nor below a limit."""
        rows = [
            row
            for row in rows
            if all((amount := key.amount(row)) is not None and amount > limit for key, limit in self.above)
            and all((amount := key.amount(row)) is not None and amount < limit for key, limit in self.below)
        ]
        return top.ordered(rows, self.key, descending=self.descending)


PARAMETERS: Final = (
    Argument(["what"], type=OneOf(tuple(KEYS)), help="objects to list"),
    *flags.READING,
    *flags.WATCH,
    Option(["-l", "--selector"], metavar="LABELS", help="label selector of nodes, or of pods"),
    Option(
        ["-n", "--namespace"],
        shell_complete=flags.names_of_cluster("namespaces"),
        help="namespace of pods (default: all)",
    ),
    Option(["-A", "--all-namespaces"], is_flag=True, help="pods of all namespaces (the default)"),
    flags.SUITE_NAMESPACE,
    Option(["--node"], metavar="NAME", shell_complete=flags.names_of_cluster("nodes"), help="pods of one node"),
    Option(
        ["--sort"],
        default="name",
        metavar="KEY[:desc]",
        help="order: name, used, memory, requests, peak, mid, held, quota, slack, age, pods, where the objects have it",
    ),
    *(
        Option(
            [f"--{word}"],
            multiple=True,
            metavar="KEY=NUMBER",
            help=f"rows {word} a limit, such as used=80; units as in the table; repeat for several",
        )
        for word in ("above", "below")
    ),
)


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    choice = _choice(options)
    return command.run(options, lambda reader, options: _rows(reader, options, choice))


async def _rows(reader: Reader, options: Namespace, choice: RowChoice) -> Answer:
    if options.what == "nodes":
        nodes = _read_rows(await reader.nodes(options.selector), reader)
        limit = await reader.usage_limit(options.suite_namespace) if options.output in ("table", "wide") else None
        return top.nodes(choice.select(nodes), command.notes(reader.unread), limit)
    which = options.namespace, options.node, options.selector
    if options.what == "pods":
        pods = _read_rows(await reader.pods(*which), reader)
        return top.pods(choice.select(pods), command.notes(reader.unread))
    config = await reader.scheduler_config(options.suite_namespace)
    namespaces = _read_rows(await reader.namespaces(*which, config=config), reader)
    return top.namespaces(choice.select(namespaces), command.notes(reader.unread))


def _read_rows(rows: tuple[T, ...] | None, reader: Reader) -> tuple[T, ...]:
    """Return what was read. Raises NotRead where nothing could be."""
    if rows is None:
        raise command.nothing_read(reader)
    return rows


def _choice(options: Namespace) -> RowChoice:
    if options.namespace and options.all_namespaces:
        raise WrongUsage("want one of --namespace and --all-namespaces")
    keys = KEYS[options.what]
    name, _, direction = options.sort.partition(":")
    if name not in keys or direction not in ("", "asc", "desc"):
        raise WrongUsage(f"--sort {options.sort}: want one of {', '.join(keys)}, and :desc for the largest first")
    limits = ([_limit(flag, text, keys) for text in getattr(options, flag)] for flag in ("above", "below"))
    return RowChoice(keys[name], direction == "desc", *limits)


def _limit(flag: str, text: str, keys: Mapping[str, SortKey[Any]]) -> tuple[SortKey[Any], float]:
    name, _, number = text.partition("=")
    try:
        return keys[name if keys[name].unit else ""], float(number.removesuffix("%"))
    except (KeyError, ValueError):
        units = ", ".join(name for name, key in keys.items() if key.unit)
        raise WrongUsage(f"--{flag} {text}: want KEY=NUMBER with one of the keys {units}") from None
