"""What the commands that read a cluster have in common: the connection, and the way from an answer to an end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import IO, Any

import click

from apiserver_client import credentials, errors, session
from apiserver_client.connection import Connection
from component_base import clock
from fleet.port_forward import Caller
from fleet.reading import Reader
from fleet.snapshot import Unread
from koordctl.cli import answer, output
from koordctl.cli.answer import Answer
from koordctl.cli.progress import ProgressLine

Read = Callable[[Reader], Awaitable[Answer]]


class _Failure(click.ClickException):
    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002
        """Print the text, which may have names of the cluster."""
        fail(self.message, self.exit_code)


class NotRead(_Failure):
    """The caller may read nothing that the command needs; the text has one line for each kind of object."""

    exit_code = answer.NOT_READ


class WrongUsage(_Failure):
    """A flag, an argument or a file has a wrong value; the text names it, what is wanted, and the fix."""

    exit_code = answer.WRONG_USAGE


def caller(options: Namespace) -> Caller:
    """Return the cluster and the identity that the flags name."""
    return Caller(options.kubeconfig or "", options.context or "", options.user, tuple(options.groups))


def connection(options: Namespace) -> Connection:
    """Return the connection that the flags name. Raises errors.ApiServerError, WrongUsage."""
    if options.groups and not options.user:
        raise WrongUsage("--as-group: want --as USER too: the apiserver impersonates no group alone")
    target = credentials.find(options.kubeconfig, options.context)
    return dataclasses.replace(target, impersonated_user=options.user, impersonated_groups=tuple(options.groups))


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
    except errors.NotFound as error:  # the object that the command is about
        return fail(str(error), answer.NOTHING)
    except errors.ApiServerError as error:
        return fail(str(error), answer.NOT_READ)
    except KeyboardInterrupt:
        return fail("interrupted", answer.INTERRUPTED)


def show(options: Namespace, answer: Answer) -> int:
    """Print an answer as the flags want it; return its exit code."""
    return output.show(answer, options.output, headers=not options.no_headers, style=style(options))


def style(options: Namespace) -> output.Style:
    """Return the style that the flags want."""
    return output.Style(options.color, is_ascii=options.ascii)


def fail(text: str, code: int) -> int:
    """Print an error; return the exit code."""
    sys.stderr.writelines(f"{output.printable(line, 2_000)}\n" for line in text.splitlines())
    return code


def notes(unread: Iterable[Unread]) -> list[str]:
    """Return the lines about what was not read."""
    return [f"not read: {part.what}: {part.why}" for part in unread]


async def _run(options: Namespace, read: Read) -> int:
    async with connected(options) as api:
        if not getattr(options, "watch", False):
            with ProgressLine(sys.stderr) as progress:
                answer = await read(Reader(api, clock.utc_now(), progress.report))
            return show(options, answer)
        return await _watch(options, api, read)


async def _watch(options: Namespace, api: session.Session, read: Read) -> int:
    """Print one answer after the other; one that fails is a line, unless it is the first."""
    answer = await read(Reader(api, clock.utc_now()))
    with output.RepeatedOutput(options.output, headers=not options.no_headers, style=style(options)) as watched:
        while True:
            watched.show(answer)
            await _wait(options.interval)
            try:
                answer = await read(Reader(api, clock.utc_now()))
            except (errors.ApiServerError, NotRead) as error:
                answer = dataclasses.replace(answer, notes=[*str(error).splitlines(), "the last answer is repeated"])


async def _wait(seconds: float) -> None:
    await asyncio.sleep(seconds)
