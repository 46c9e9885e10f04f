"""What the commands that read a cluster have in common: flags, the connection, and the way from an answer to an end.

Flags have the names of kubectl's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final

from api_types import names
from apiserver_client import credentials, errors, session
from apiserver_client.connection import Connection
from component_base import clock
from fleet.port_forward import Caller
from fleet.reading import Reader
from fleet.snapshot import Unread
from koordctl.cli import answer, output
from koordctl.cli.answer import Answer
from koordctl.cli.progress import Progress

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
Read = Callable[[Reader], Awaitable[Answer]]


class NotRead(Exception):
    """The caller may read nothing that the command needs; the text has one line for each kind of object."""


class WrongUsage(Exception):
    """A flag, an argument or a file has a wrong value; the text names it, what is wanted, and the fix."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the flags that every command has that reads a cluster."""
    add_connection_arguments(parser)
    add_output_arguments(parser)


def add_connection_arguments(parser: ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the flags that choose the cluster and the identity: the same ones to every command that reads a cluster."""
    add = parser.add_argument
    add("--kubeconfig", metavar="FILE", help="kubeconfig file (default: as kubectl)")
    add("--context", metavar="NAME", help="context of the kubeconfig")
    add("--request-timeout", type=seconds, default=60.0, metavar="SECONDS", help="limit of one request, such as 30 or 1m (default: 60)")  # fmt: skip  # noqa: E501
    add("--as", dest="user", metavar="USER", default="", help="user to impersonate")
    add("--as-group", dest="groups", metavar="GROUP", action="append", default=[], help="group to impersonate; repeat for several")  # fmt: skip  # noqa: E501


def add_output_arguments(parser: ArgumentParser, formats: Sequence[str] = answer.FORMATS) -> None:
    """Add the flags of the output."""
    add = parser.add_argument
    add("-o", "--output", choices=formats, default="table", help="format (default: table)")
    add("--no-headers", action="store_true", help="omit the titles of a table")
    add("--color", choices=output.COLORS, default="auto", help="auto: on a terminal, unless NO_COLOR is set")
    add("--ascii", action="store_true", help="signs and bars of ASCII; by itself where the output is not UTF-8")


def add_suite_argument(parser: ArgumentParser) -> None:
    """Add the flag that names the namespace of the suite."""
    parser.add_argument(
        "--suite-namespace", type=namespace, default=names.NAMESPACE, metavar="NAMESPACE", help=f"namespace of the suite (default: {names.NAMESPACE})"  # noqa: E501
    )  # fmt: skip


def add_namespace_argument(parser: ArgumentParser) -> None:
    """Add the flag of the suite's namespace to a command about the suite."""
    parser.add_argument(
        "-n", "--namespace", type=namespace, default=names.NAMESPACE, help=f"namespace of the suite (default: {names.NAMESPACE})"  # noqa: E501
    )  # fmt: skip


def add_watch_arguments(parser: ArgumentParser) -> None:
    """Add the flags of a command that repeats its answer."""
    add = parser.add_argument
    add("-w", "--watch", action="store_true", help="repeat the answer until Ctrl-C")
    add("--interval", type=seconds, default=5.0, metavar="SECONDS", help="time between two answers of -w (default: 5)")


def seconds(text: str) -> float:
    """Return the seconds of a limit, the type of an argument. Raises ArgumentTypeError."""
    unit = {"s": 1, "m": 60, "h": 3_600}.get(text[-1:])
    try:
        found = float(text[:-1] if unit else text) * (unit or 1)
    except ValueError:
        found = 0.0
    if not 0 < found <= 86_400:  # also no NaN
        raise ArgumentTypeError(f"seen {text!r}, want a number of seconds above 0, or 30s, 1m, 1h")
    return found


def name(text: str) -> str:
    """Return the name of an object, the type of an argument. Raises ArgumentTypeError for an empty one."""
    if not text:
        raise ArgumentTypeError("seen an empty name, want that of an object")
    return text


def namespace(text: str) -> str:
    """Return the name of a namespace, the type of an argument. Raises ArgumentTypeError."""
    if not _NAMESPACE.fullmatch(text):
        raise ArgumentTypeError(f"seen {text!r}, want the name of a namespace: at most 63 of a-z, 0-9 and -")
    return text


def caller(options: Namespace) -> Caller:
    """Return the cluster and the identity that the flags name."""
    return Caller(options.kubeconfig or "", options.context or "", options.user, tuple(options.groups))


def connection(options: Namespace) -> Connection:
    """Return the connection that the flags name. Raises errors.ApiServerError, WrongUsage."""
    if options.groups and not options.user:
        raise WrongUsage("--as-group: want --as USER too: the apiserver impersonates no group alone")
    found = credentials.find(options.kubeconfig, options.context)
    return dataclasses.replace(found, impersonated_user=options.user, impersonated_groups=tuple(options.groups))


@contextlib.asynccontextmanager
async def connected(options: Namespace) -> AsyncIterator[session.Session]:
    """Open a session as the flags name it. Raises errors.ApiServerError, WrongUsage."""
    limits = session.Timeouts(read=options.request_timeout, request=options.request_timeout)
    async with session.connect(connection(options), user_agent="koordctl", timeouts=limits) as api:
        yield api


def run(options: Namespace, read: Read, check: Callable[[Namespace], object] = lambda _options: None) -> int:
    """Connect, read once, or repeatedly with -w, print, and return the exit code.

    `check` raises WrongUsage for what is wrong whatever the cluster has; it is called before the connection is made.
    """
    try:
        check(options)
        return asyncio.run(_run(options, read))
    except WrongUsage as error:
        return fail(str(error), answer.WRONG_USAGE)
    except errors.NotFound as error:  # the object that the command is about
        return fail(str(error), answer.NOTHING)
    except (errors.ApiServerError, NotRead) as error:
        return fail(str(error), answer.NOT_READ)
    except KeyboardInterrupt:
        return fail("interrupted", answer.INTERRUPTED)


def show(options: Namespace, found: Answer) -> int:
    """Print an answer as the flags want it; return its exit code."""
    return output.show(found, options.output, headers=not options.no_headers, style=style(options))


def style(options: Namespace) -> output.Style:
    """Return the style that the flags want."""
    return output.Style(options.color, is_ascii=options.ascii)


def fail(text: str, code: int) -> int:
    """Print an error; return the exit code."""
    sys.stderr.writelines(f"{output.printable(line, 2_000)}\n" for line in text.splitlines())
    return code


def notes(unread: Iterable[Unread]) -> list[str]:
    """Return the lines about what was not read."""
    return [f"not read: {each.what}: {each.why}" for each in unread]


async def _run(options: Namespace, read: Read) -> int:
    async with connected(options) as api:
        if not getattr(options, "watch", False):
            with Progress(sys.stderr) as progress:
                found = await read(Reader(api, clock.utc_now(), progress.report))
            return show(options, found)
        return await _watch(options, api, read)


async def _watch(options: Namespace, api: session.Session, read: Read) -> int:
    """Print one answer after the other; one that fails is a line, unless it is the first."""
    found = await read(Reader(api, clock.utc_now()))
    with output.Watched(options.output, headers=not options.no_headers, style=style(options)) as watched:
        while True:
            watched.show(found)
            await _wait(options.interval)
            try:
                found = await read(Reader(api, clock.utc_now()))
            except (errors.ApiServerError, NotRead) as error:
                found = dataclasses.replace(found, notes=[*str(error).splitlines(), "the last answer is repeated"])


async def _wait(seconds: float) -> None:
    await asyncio.sleep(seconds)
