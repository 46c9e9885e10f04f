"""Puts our credentials on each request: a token that is read again when it rotates, a program that prints one.

The kubelet replaces a pod's token long before it expires, so a re-read each minute is enough; a 401 re-reads at once
and tries one more time, but only when there is something new to try.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Callable
from typing import Any, Protocol

from apiserver_client import connection, errors

REREAD_SECONDS = 60.0  # as client-go: a minute is short against the 10 minutes of the shortest projected token


class Authentication(Protocol):
    """Knows the Authorization header of a request. Both raise NoCredentials."""

    async def header(self) -> str | None:
        """Value to send; None where a client certificate is all."""

    async def after_refusal(self, refused: str | None) -> str | None:
        """Value to send the call again with, now that `refused` met a 401; None where there is no point."""


def of(who: connection.Connection) -> Authentication:
    """Authentication of a connection, in kubectl's order of precedence."""
    if who.token_path is not None:
        return TokenFileAuth(who.read_token)
    if who.token:
        return FixedAuth(_bearer(who.token))
    if who.username:
        return FixedAuth(basic(who.username, who.password or ""))
    if who.exec_command:
        return ExecAuth(who.exec_command)
    return FixedAuth(None)


def basic(username: str, password: str) -> str:
    """Value of an Authorization header with a password (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")


def _bearer(token: str) -> str:
    return f"Bearer {token}"


class FixedAuth:
    """What never changes: a token, a password, nothing."""

    def __init__(self, header: str | None) -> None:
        self._header = header

    async def header(self) -> str | None:
        """Always the same."""
        return self._header

    async def after_refusal(self, refused: str | None) -> None:
        """Nothing new to try."""


class TokenFileAuth:
    """A token in a file that somebody else replaces. `read` raises NoCredentials; `clock` is monotonic seconds."""

    def __init__(self, read: Callable[[], str | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._token: str | None = None
        self._read_at = 0.0

    def _current(self, *, now: float, at_once: bool = False) -> str:
        if self._token is None or at_once or now - self._read_at >= REREAD_SECONDS:
            try:
                self._token = self._read()
            except errors.NoCredentials:
                if self._token is None:
                    raise  # a file that is gone for a moment costs nothing while the last token is good
            self._read_at = now
        return _bearer(self._token or "")

    async def header(self) -> str:
        """The token of at most a minute ago."""
        return self._current(now=self._clock())

    async def after_refusal(self, refused: str | None) -> str | None:
        """What the file holds by now, if that is another token."""
        fresh = self._current(now=self._clock(), at_once=True)
        return fresh if fresh != refused else None


class ExecAuth:
    """A token printed by a program; asked for when there is none yet and after a 401."""

    def __init__(self, command: connection.ExecCommand) -> None:
        self._command = command
        self._header: str | None = None
        self._asking = asyncio.Lock()

    async def header(self) -> str:
        """The token that was printed last."""
        return await self._other_than(None)

    async def after_refusal(self, refused: str | None) -> str:
        """Another token."""
        return await self._other_than(refused)

    async def _other_than(self, refused: str | None) -> str:
        async with self._asking:  # many requests at once start the program once
            if self._header is None or self._header == refused:
                self._header = _bearer(await _ask(self._command))
            return self._header


async def _ask(command: connection.ExecCommand) -> str:
    program = command.argv[0]
    info = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = os.environ | dict(command.environment) | {"KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f"; {command.install_hint}" if command.install_hint else ""
        raise errors.NoCredentials(f"cannot run the credential program {program}: {error}{hint}") from error
    printed, complaint = await process.communicate()
    if process.returncode:
        said = " ".join(complaint.decode(errors="replace").split())
        raise errors.NoCredentials(f"the credential program {program} ended with {process.returncode}: {said}")
    try:
        answer: Any = json.loads(printed)
        token = answer["status"]["token"]
    except (ValueError, KeyError, TypeError) as error:
        raise errors.NoCredentials(f"the credential program {program} printed no token") from error
    return str(token)
