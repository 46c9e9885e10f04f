"""Authenticate requests: a fixed token, a token file that is read again when it rotates, or an exec program.

The kubelet replaces the token of a pod long before it expires, so a re-read each minute is enough. A 401 re-reads at
once and retries once, if the token is a new one.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import time
from collections.abc import Callable
from typing import Final, Protocol

from apiserver_client import connection, errors, exec_program
from apiserver_client.connection import Credential

logger = logging.getLogger(__name__)

REREAD_SECONDS = 60.0  # as client-go; the shortest projected token is valid for 10 minutes
_SPARE_SHARE: Final = 0.2
"""Share of the lifetime of a program's credential, and its upper bound in seconds, that is left when it is renewed."""
_MOST_SPARE_SECONDS: Final = 60.0
_LEAST_SECONDS_BETWEEN_RUNS: Final = 10.0
"""Least time between two runs of a program without a 401, also where it prints a credential that has expired."""


class Authentication(Protocol):
    """Source of the credential of requests. Both methods raise NoCredentials."""

    async def credential(self) -> Credential:
        """Return the credential to use; without a header where a client certificate is the only one."""

    async def after_refusal(self, refused: Credential) -> Credential | None:
        """Return the credential for a retry after `refused` got a 401; None where a retry is pointless."""


def choose(to: connection.Connection) -> Authentication:
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
        self._credential = Credential(header)

    async def credential(self) -> Credential:
        """Return the fixed value."""
        return self._credential

    async def after_refusal(self, refused: Credential) -> None:
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

    async def credential(self) -> Credential:
        """Return the token, read at most a minute ago."""
        return Credential(self._current(now=self._clock()))

    async def after_refusal(self, refused: Credential) -> Credential | None:
        """Return the token that the file contains now, if it is another one."""
        fresh = Credential(self._current(now=self._clock(), at_once=True))
        return fresh if fresh != refused else None


class ExecAuth:
    """Authentication by a program, which runs at first use, before its credential expires and after a 401.

    `clock` returns monotonic seconds.
    """

    def __init__(self, command: connection.ExecCommand, clock: Callable[[], float] = time.monotonic) -> None:
        self._command = command
        self._clock = clock
        self._credential: Credential | None = None
        self._renew_at = math.inf
        self._expires_at = math.inf
        self._running = asyncio.Lock()

    async def credential(self) -> Credential:
        """Return the last printed credential, while it lasts."""
        return await self._other_than(None)

    async def after_refusal(self, refused: Credential) -> Credential:
        """Run the program for another credential, and return it."""
        return await self._other_than(refused)

    async def _other_than(self, refused: Credential | None) -> Credential:
        async with self._running:  # concurrent requests run the program once
            last, now = self._credential, self._clock()
            if last is None or last is refused or now >= self._expires_at:
                return await self._run()
            if now < self._renew_at:
                return last
            self._renew_at = now + _LEAST_SECONDS_BETWEEN_RUNS  # also where this request is cancelled meanwhile
            try:
                return await self._run()
            except errors.NoCredentials as error:
                logger.warning("%s; the last credential is still valid", error)
                return last

    async def _run(self) -> Credential:
        printed = await exec_program.run(self._command)
        now, lifetime = self._clock(), printed.lifetime_seconds
        self._renew_at = self._expires_at = math.inf
        if lifetime is not None:
            usable = lifetime - min(lifetime * _SPARE_SHARE, _MOST_SPARE_SECONDS)
            self._renew_at = now + max(usable, _LEAST_SECONDS_BETWEEN_RUNS)
            self._expires_at = now + max(lifetime, _LEAST_SECONDS_BETWEEN_RUNS)
        self._credential = printed.credential
        return printed.credential
