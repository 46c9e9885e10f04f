"""Puts our credentials on each request: a token that is read again when it rotates, a program that prints one.

The kubelet replaces a pod's token long before it expires, so a re-read each minute is enough; a 401 re-reads at once
and tries one more time, but only when there is something new to try.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import httpx2

from apiserver_client import connection, errors

REREAD_SECONDS = 60.0  # as client-go: a minute is short against the 10 minutes of the shortest projected token


def of(who: connection.Connection) -> httpx2.Auth | None:
    """Authentication of a connection, in kubectl's order of precedence; None where a client certificate is all."""
    if who.token_path is not None:
        return TokenFileAuth(who.read_token)
    if who.token:
        return TokenAuth(who.token)
    if who.username:
        return httpx2.BasicAuth(who.username, who.password or "")
    if who.exec_command:
        return ExecAuth(who.exec_command)
    return None


class TokenAuth(httpx2.Auth):
    """A token that never changes."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Add the token."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class TokenFileAuth(httpx2.Auth):
    """A token in a file that somebody else replaces. `read` raises NoCredentials; `clock` is monotonic seconds."""

    def __init__(self, read: Callable[[], str | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._token: str | None = None
        self._read_at = 0.0

    def _current(self, *, now: float, at_once: bool = False) -> str | None:
        if self._token is None or at_once or now - self._read_at >= REREAD_SECONDS:
            try:
                self._token = self._read()
            except errors.NoCredentials:
                if self._token is None:
                    raise  # a file that is gone for a moment costs nothing while the last token is good
            self._read_at = now
        return self._token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Add the token; after a 401 try once more if the file holds another one by now."""
        used = self._current(now=self._clock())
        request.headers["Authorization"] = f"Bearer {used}"
        response = yield request
        if response.status_code != httpx2.codes.UNAUTHORIZED:
            return
        fresh = self._current(now=self._clock(), at_once=True)
        if fresh != used:
            request.headers["Authorization"] = f"Bearer {fresh}"
            yield request


class ExecAuth(httpx2.Auth):
    """A token printed by a program; asked for when there is none yet and after a 401."""

    def __init__(self, command: connection.ExecCommand) -> None:
        self._command = command
        self._token: str | None = None
        self._asking = asyncio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Add the token; after a 401 ask for another and try once more."""
        used = await self._other_than(None)
        request.headers["Authorization"] = f"Bearer {used}"
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            request.headers["Authorization"] = f"Bearer {await self._other_than(used)}"
            yield request

    async def _other_than(self, refused: str | None) -> str:
        async with self._asking:  # many requests at once start the program once
            if self._token is None or self._token == refused:
                self._token = await _ask(self._command)
            return self._token


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
