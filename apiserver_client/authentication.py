"""Authenticate requests: a fixed token, a token file that is read again when it rotates, or an exec program.

The kubelet replaces the token of a pod long before it expires, so a re-read each minute is enough. A 401 re-reads at
once and retries once, if the token is a new one.
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

REREAD_SECONDS = 60.0  # as client-go; the shortest projected token is valid for 10 minutes


class Authentication(Protocol):
    """Source of the Authorization header. Both methods raise NoCredentials."""

    async def header(self) -> str | None:
        """Return the value to send; None where a client certificate is the only credential."""

    async def after_refusal(self, refused: str | None) -> str | None:
        """Return the value for a retry after `refused` got a 401; None where a retry is pointless."""


def of(to: connection.Connection) -> Authentication:
    """Return the authentication of a connection, in kubectl's order of precedence."""
    if to.token_path is not None:
        return TokenFileAuth(to.read_token)
    if to.token:
        return FixedAuth(_bearer(to.token))
    if to.username:
        return FixedAuth(basic(to.username, to.password or ""))
    if to.exec_command:
        return ExecAuth(to.exec_command)
    return FixedAuth(None)


def basic(username: str, password: str) -> str:
    """Return the Authorization header of a user name and password (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")


def _bearer(token: str) -> str:
    return f"Bearer {token}"


class FixedAuth:
    """Authentication that never changes: a token, a password, or none."""

    def __init__(self, header: str | None) -> None:
        self._header = header

    async def header(self) -> str | None:
        """Return the fixed value."""
        return self._header

    async def after_refusal(self, refused: str | None) -> None:
        """Return None: there is no other value."""


class TokenFileAuth:
    """Authentication by a token file that another process replaces.

    `read` raises NoCredentials; `clock` returns monotonic seconds.
    """

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
                    raise  # a file that is absent for a moment does no harm while the last token is valid
            self._read_at = now
        return _bearer(self._token or "")

    async def header(self) -> str:
        """Return the token, read at most a minute ago."""
        return self._current(now=self._clock())

    async def after_refusal(self, refused: str | None) -> str | None:
        """Return the token that the file contains now, if it is another one."""
        fresh = self._current(now=self._clock(), at_once=True)
        return fresh if fresh != refused else None


class ExecAuth:
    """Authentication by a token that a program prints; the program runs at first use and after a 401."""

    def __init__(self, command: connection.ExecCommand) -> None:
        self._command = command
        self._header: str | None = None
        self._running = asyncio.Lock()

    async def header(self) -> str:
        """Return the last printed token."""
        return await self._other_than(None)

    async def after_refusal(self, refused: str | None) -> str:
        """Run the program for another token, and return it."""
        return await self._other_than(refused)

    async def _other_than(self, refused: str | None) -> str:
        async with self._running:  # concurrent requests run the program once
            if self._header is None or self._header == refused:
                self._header = _bearer(await _run(self._command))
            return self._header


async def _run(command: connection.ExecCommand) -> str:
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
        message = " ".join(complaint.decode(errors="replace").split())
        raise errors.NoCredentials(f"the credential program {program} ended with {process.returncode}: {message}")
    try:
        answer: Any = json.loads(printed)
        token = answer["status"]["token"]
    except (ValueError, KeyError, TypeError) as error:
        raise errors.NoCredentials(f"the credential program {program} printed no token") from error
    return str(token)
