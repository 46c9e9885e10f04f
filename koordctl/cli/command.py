"""Run the commands that read a cluster: connect, read once, print, and return the exit code."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from typing import Final

from api_types import names
from apiserver_client import credentials, errors, session
from component_base import clock
from fleet.pod_state import namespaces
from fleet.reading import Reader
from fleet.snapshot import Snapshot, Unread
from koordctl.cli import answer, output, status, top
from koordctl.cli.answer import Answer

SORT_KEYS: Final[Mapping[str, Mapping[str, object]]] = {
    "nodes": top.NODE_KEYS,
    "pods": top.POD_KEYS,
    "namespaces": top.NAMESPACE_KEYS,
}


class NotRead(Exception):
    """The caller may read nothing that the command needs; the text has one line for each kind of object."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags that every command has."""
    add = parser.add_argument
    add("--kubeconfig", metavar="FILE", help="kubeconfig file (default: as kubectl)")
    add("--context", metavar="NAME", help="context of the kubeconfig")
    add("--request-timeout", type=float, default=60.0, metavar="SECONDS", help="limit of one request (default: 60)")
    add("-o", "--output", choices=answer.FORMATS, default="table", help="format (default: table)")
    add("--no-headers", action="store_true", help="omit the titles of a table")


def add_status(parser: ArgumentParser) -> None:
    """Add the flags of `status`."""
    add_arguments(parser)
    parser.add_argument(
        "-n", "--namespace", default=names.NAMESPACE, help=f"namespace of the suite (default: {names.NAMESPACE})"
    )


def add_top(parser: ArgumentParser) -> None:
    """Add the flags of `top`."""
    add = parser.add_argument
    add("what", choices=tuple(SORT_KEYS), help="objects to list")
    add_arguments(parser)
    add("-l", "--selector", metavar="LABELS", help="label selector of nodes")
    add("-n", "--namespace", help="namespace of pods (default: all)")
    add("--node", metavar="NAME", help="pods of one node")
    add("--sort", default="name", metavar="KEY[:desc]", help="order: name, used, memory, requests, peak, mid, slack, age, pods, as far as the objects have it")  # fmt: skip  # noqa: E501


def run(options: Namespace) -> int:
    """Run a command; return its exit code."""
    if options.command == "top":
        key, _, direction = options.sort.partition(":")
        if key not in SORT_KEYS[options.what] or direction not in ("", "asc", "desc"):
            known = ", ".join(SORT_KEYS[options.what])
            return _fail(
                f"--sort {options.sort}: want one of {known}, and :desc for the largest first", answer.WRONG_USAGE
            )
    try:
        return output.show(asyncio.run(_answer(options)), options.output, headers=not options.no_headers)
    except (errors.ApiServerError, NotRead) as error:
        return _fail(str(error), answer.NOT_READ)
    except KeyboardInterrupt:
        return _fail("interrupted", answer.INTERRUPTED)


def _fail(text: str, code: int) -> int:
    sys.stderr.writelines(f"{output.printable(line, 2_000)}\n" for line in text.splitlines())
    return code


async def _answer(options: Namespace) -> Answer:
    to = credentials.find(options.kubeconfig, options.context)
    limits = session.Timeouts(read=options.request_timeout, request=options.request_timeout)
    async with session.connect(to, user_agent="koordctl", timeouts=limits) as api:
        reader = Reader(api, clock.utc_now())
        if options.command == "status":
            return await _status(reader, to.server, options)
        if options.what == "nodes":
            nodes = await reader.nodes(options.selector)
            if nodes is None:
                raise NotRead("\n".join(_notes(reader.unread)))
            found = top.ordered(nodes, top.NODE_KEYS[_key(options)], descending=_is_descending(options))
            return top.nodes(found, _notes(reader.unread))
        pods = await reader.pods(options.namespace, options.node)
        if pods is None:
            raise NotRead("\n".join(_notes(reader.unread)))
        if options.what == "pods":
            chosen = top.ordered(pods, top.POD_KEYS[_key(options)], descending=_is_descending(options))
            return top.pods(chosen, _notes(reader.unread))
        states = namespaces(pods, await reader.mid_quotas(options.namespace))
        sums = top.ordered(states, top.NAMESPACE_KEYS[_key(options)], descending=_is_descending(options))
        return top.namespaces(sums, _notes(reader.unread))


async def _status(reader: Reader, server: str, options: Namespace) -> Answer:
    nodes, installed = await reader.nodes(), await reader.installation(options.namespace)
    if nodes is None and not installed.workloads and installed.outcome is None:
        raise NotRead("\n".join(_notes(reader.unread)))
    found = Snapshot(clock.utc_now(), server, nodes, None, installed, tuple(reader.unread))
    return status.answer(found, _notes(each for each in reader.unread if each.is_right or each.what == "nodemetrics"))


def _key(options: Namespace) -> str:
    return str(options.sort).partition(":")[0]


def _is_descending(options: Namespace) -> bool:
    return str(options.sort).endswith(":desc")


def _notes(unread: Iterable[Unread]) -> list[str]:
    return [f"not read: {each.what}: {each.why}" for each in unread]
