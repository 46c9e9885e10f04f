"""What the commands that read a cluster have in common: the connection, and the way from an answer to an end.

Also a line of progress, the question before a change, and names of objects for a completion.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import re
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import IO, Any, Final, Self, TextIO

import click
import msgspec
from click import Option

from api_types.kubernetes.pods import AnyObject
from apiserver_client import decoding, errors, kubeconfig, objects, resources, session
from apiserver_client.connection import Connection
from component_base import clock
from fleet.findings import Unread
from fleet.port_forward import Caller
from fleet.reading import Reader
from koordctl.cli import answer, output
from koordctl.cli.answer import Answer

_QUIET_SECONDS: Final = 0.5
_CLEAR: Final = "\r\x1b[K"


class ProgressLine:
    """A line of progress while a command reads, on a terminal only and after half a second.

    It is removed at the end of the block.
    """

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self._begin = time.monotonic()
        self._is_shown = False

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Remove the line."""
        if self._is_shown:
            self._to.write(_CLEAR)
            self._to.flush()

    def report(self, what: str, count: int) -> None:
        """Show the number of objects of a kind that are read."""
        self.show(f"reading {what}: {count}")

    def show(self, text: str) -> None:
        """Show a text in the place of the one before; it is cut to the width of the terminal."""
        if self._to.isatty() and time.monotonic() - self._begin >= _QUIET_SECONDS:
            self._is_shown = True
            self._to.write(_CLEAR + text[: shutil.get_terminal_size().columns - 1])
            self._to.flush()


Read = Callable[[Reader, Namespace], Awaitable[Answer]]


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
    target = kubeconfig.find(options.kubeconfig, options.context)
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


def reads(check: Callable[[Namespace], object] = lambda _options: None) -> Callable[[Read], Callable[[Namespace], int]]:
    """Return a decorator that makes what reads an answer the `run` of a command; `check` is as in `run`."""
    return lambda read: functools.partial(run, read=read, check=check)


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


VIEWERS: Final = "; koordctl check names the rights, the roles koord-viewer have them"


def notes(unread: Iterable[Unread], begin: str = "not read", roles: str = VIEWERS) -> list[str]:
    """Return the lines about what was not read; several missing rights are one line, which ends with `roles`."""
    unread = tuple(dict.fromkeys(unread))
    forbidden = [part for part in unread if part.is_right]
    what = ", ".join(dict.fromkeys(part.what for part in forbidden))
    end = roles if len(forbidden) > 1 else ""
    folded = [Unread(what, f"{forbidden[0].why}{end}")] if forbidden else []
    return [f"{begin}: {part.what}: {part.why}" for part in (*folded, *unread) if not part.is_right]


def missing_rights(reader: Reader) -> list[str]:
    """Return the lines about what the caller may not read."""
    return notes(part for part in reader.unread if part.is_right)


def nothing_read(reader: Reader, roles: str = VIEWERS) -> NotRead:
    """Return the error where nothing could be read that the command needs."""
    return NotRead("\n".join(notes(reader.unread, roles=roles)))


async def _run(options: Namespace, read: Read) -> int:
    async with connected(options) as api:
        if not getattr(options, "watch", False):
            with ProgressLine(sys.stderr) as progress:
                answer = await read(Reader(api, clock.utc_now(), progress.report), options)
            return show(options, answer)
        return await _watch(options, api, read)


async def _watch(options: Namespace, api: session.Session, read: Read) -> int:
    """Print one answer after the other; one that fails is a line, unless it is the first."""
    answer = await read(Reader(api, clock.utc_now()), options)
    with output.RepeatedOutput(options.output, headers=not options.no_headers, style=style(options)) as watched:
        while True:
            watched.show(answer)
            await _wait(options.interval)
            try:
                answer = await read(Reader(api, clock.utc_now()), options)
            except (errors.ApiServerError, NotRead) as error:
                answer = dataclasses.replace(answer, notes=[*str(error).splitlines(), "the last answer is repeated"])


async def _wait(seconds: float) -> None:
    await asyncio.sleep(seconds)


CHANGING = (
    Option(["--dry-run"], is_flag=True, help="show what would be changed, and change nothing"),
    Option(["--yes"], is_flag=True, help="do not ask"),
)


def check_terminal(options: Namespace) -> None:
    """Raise WrongUsage where the question could not be asked; before anything is read."""
    if not (options.dry_run or options.yes or sys.stdin.isatty()):
        raise WrongUsage("standard input is no terminal: want --yes, or --dry-run to change nothing")


def is_agreed(options: Namespace, plan: Sequence[str]) -> bool:
    """Show the plan and ask; anything but yes is no."""
    if options.yes:
        return True
    sys.stderr.writelines(f"{output.printable(line, 2_000)}\n" for line in plan)
    sys.stderr.write("continue? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


_SECONDS: Final = 3.0
_MOST: Final = 500
_HARMLESS: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/:]*", re.ASCII)
"""Names with other characters are left out: a shell may interpret them."""
_RESOURCES: Final = {"nodes": resources.NODES, "pods": resources.PODS, "namespaces": resources.NAMESPACES}


def complete_names(resource: str, options: Mapping[str, Any], partial: str) -> list[str]:
    """Return names of objects for a completion, those that begin with the partial one.

    `options` are the flags of the connection. It takes a few seconds at most; names that cannot be read are left out.
    """
    try:
        names = asyncio.run(_read_names(resource, options, partial))
    except (errors.ApiServerError, click.ClickException, TimeoutError, ValueError):
        return []
    return [name for name in names if name.startswith(partial) and _HARMLESS.fullmatch(name)]


async def _read_names(resource: str, options: Mapping[str, Any], partial: str) -> list[str]:
    to = Namespace(**{**options, "request_timeout": _SECONDS})
    async with asyncio.timeout(_SECONDS), connected(to) as api:
        if resource != "pods":
            return await _listed(api, resource, None)
        if namespace := options.get("namespace"):
            return await _listed(api, resource, namespace)
        namespace, slash, _ = partial.partition("/")
        if not slash:
            return [f"{name}/" for name in await _listed(api, "namespaces", None)]
        return [f"{namespace}/{name}" for name in await _listed(api, resource, namespace)]


async def _listed(api: session.Session, resource: str, namespace: str | None) -> list[str]:
    names = list[str]()
    items = objects.list_items(api, _RESOURCES[resource], namespace=namespace, parameters={}, page_size=_MOST)
    async with contextlib.aclosing(items):
        async for item in items:
            if isinstance(item, decoding.PageMetadata):
                break
            names.append(msgspec.json.decode(item, type=AnyObject).metadata.name)
    return names
