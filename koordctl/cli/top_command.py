"""Command `koordctl top`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from fleet.reading import Reader
from koordctl.cli import command, top
from koordctl.cli.answer import WRONG_USAGE, Answer
from koordctl.cli.command import NotRead, WrongUsage
from koordctl.cli.top import Key

T = TypeVar("T")
KEYS: Final[Mapping[str, Mapping[str, Key[Any]]]] = {
    "nodes": top.NODE_KEYS,
    "pods": top.POD_KEYS,
    "namespaces": top.NAMESPACE_KEYS,
}


class Choice(NamedTuple):
    """Order and limits of the rows, by the flags."""

    key: Key[Any]
    descending: bool
    above: Sequence[tuple[Key[Any], float]]
    below: Sequence[tuple[Key[Any], float]]

    def of(self, found: Iterable[T]) -> list[T]:
        """Return the rows to show, in order; a row whose value is not known is neither above nor below a limit."""
        rows = [
            each
            for each in found
            if all((seen := key.amount(each)) is not None and seen > limit for key, limit in self.above)
            and all((seen := key.amount(each)) is not None and seen < limit for key, limit in self.below)
        ]
        return top.ordered(rows, self.key, descending=self.descending)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add("what", choices=tuple(KEYS), help="objects to list")
    command.add_arguments(parser)
    command.add_watch_arguments(parser)
    add("-l", "--selector", metavar="LABELS", help="label selector of nodes, or of pods")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", help="namespace of pods (default: all)")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="pods of all namespaces (the default)")
    command.add_suite_argument(parser)
    add("--node", metavar="NAME", help="pods of one node")
    add("--sort", default="name", metavar="KEY[:desc]", help="order: name, used, memory, requests, peak, mid, held, quota, slack, age, pods, as far as the objects have it")  # fmt: skip  # noqa: E501
    for name in ("above", "below"):
        add(f"--{name}", action="append", default=[], metavar="KEY=NUMBER", help=f"rows {name} a limit, such as used=80; units as in the table; repeat for several")  # fmt: skip  # noqa: E501


def run(options: Namespace) -> int:
    """Run the command; return the exit code."""
    try:
        choice = _choice(options)
    except WrongUsage as error:
        return command.fail(str(error), WRONG_USAGE)

    async def read(reader: Reader) -> Answer:
        return await _rows(reader, options, choice)

    return command.run(options, read)


async def _rows(reader: Reader, options: Namespace, choice: Choice) -> Answer:
    if options.what == "nodes":
        nodes = _known(await reader.nodes(options.selector), reader)
        limit = await reader.usage_limit(options.suite_namespace) if options.output in ("table", "wide") else None
        return top.nodes(choice.of(nodes), command.notes(reader.unread), limit)
    which = options.namespace, options.node, options.selector
    if options.what == "pods":
        pods = _known(await reader.pods(*which), reader)
        return top.pods(choice.of(pods), command.notes(reader.unread))
    config = await reader.scheduler_config(options.suite_namespace)
    found = _known(await reader.namespaces(*which, config=config), reader)
    return top.namespaces(choice.of(found), command.notes(reader.unread))


def _known(found: tuple[T, ...] | None, reader: Reader) -> tuple[T, ...]:
    """Return what was read. Raises NotRead where nothing could be."""
    if found is None:
        raise NotRead("\n".join(command.notes(reader.unread)))
    return found


def _choice(options: Namespace) -> Choice:
    keys = KEYS[options.what]
    name, _, direction = options.sort.partition(":")
    if name not in keys or direction not in ("", "asc", "desc"):
        raise WrongUsage(f"--sort {options.sort}: want one of {', '.join(keys)}, and :desc for the largest first")
    limits = ([_limit(flag, text, keys) for text in getattr(options, flag)] for flag in ("above", "below"))
    return Choice(keys[name], direction == "desc", *limits)


def _limit(flag: str, text: str, keys: Mapping[str, Key[Any]]) -> tuple[Key[Any], float]:
    name, _, number = text.partition("=")
    try:
        return keys[name if keys[name].unit else ""], float(number.removesuffix("%"))
    except (KeyError, ValueError):
        known = ", ".join(name for name, key in keys.items() if key.unit)
        raise WrongUsage(f"--{flag} {text}: want KEY=NUMBER with one of the keys {known}") from None
