"""Authenticate requests: a fixed token, a token file that is read again when it rotates, or an exec program.

The kubelet replaces the token of a pod long before it expires, so a re-read each minute is enough. A 401 re-reads at
once and retries once, if the token is a new one.

A credential program prints an `ExecCredential`. It gets a process group of its own. When its time is over, or when the
request that waits for it is cancelled, the whole group is killed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import math
import os
import signal
import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from api_types.kubernetes import times
from apiserver_client import connection, errors
from apiserver_client.connection import Credential

LONGEST_SECONDS: Final = 30.0
"""Time for one run: a program that asks a cloud for a token takes a few seconds."""
_MOST_BYTES: Final = 1024**2
_SECONDS_TO_DIE: Final = 5.0  # more than any killed program needs, unless it hangs in the kernel
_STDOUT: Final = 1
_STDERR: Final = 2
_LONGEST_COMPLAINT: Final = 300  # characters of the program's error that are repeated


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct):
    status: _Status


class Printed(msgspec.Struct, frozen=True):
    """What a program printed."""

    credential: connection.Credential
    lifetime_seconds: float | None
    """Time until the credential expires; None where the program prints no time."""


async def run_program(command: connection.ExecCommand, longest_seconds: float = LONGEST_SECONDS) -> Printed:
    """Run the program. Raises NoCredentials, which names the program, its exit code and its first line of error."""
    program = command.argv[0]
    transport, output = await _start(command)
    try:
        async with asyncio.timeout(longest_seconds):
            await output.ended
    except TimeoutError as error:
        raise errors.NoCredentials(
            f"the credential program {program} did not end within {longest_seconds:g} s and was killed"
        ) from error
    finally:
        await _end(transport, output)
    if output.is_too_long():
        raise errors.NoCredentials(f"the credential program {program} printed more than {_MOST_BYTES} bytes")
    code = transport.get_returncode()
    if code:
        raise errors.NoCredentials(f"the credential program {program} {_ending(code)}{_first(output.of[_STDERR])}")
    return _decode(program, output.of[_STDOUT])


class _Output(asyncio.SubprocessProtocol):
    """What a program prints. `ended` is done when it has ended and closed its output, or when it prints too much."""

    def __init__(self) -> None:
        self.of = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.exited = asyncio.Event()

    def is_too_long(self) -> bool:
        return any(len(received) > _MOST_BYTES for received in self.of.values())

    # called by asyncio

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self.is_too_long():
            return
        self.of[fd] += data
        if self.is_too_long():
            self._end()

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # an interface of asyncio
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def _start(command: connection.ExecCommand) -> tuple[asyncio.SubprocessTransport, _Output]:
    spec: dict[str, object] = {"interactive": False}
    if command.cluster:
        spec["cluster"] = json.loads(command.cluster)
    info = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": spec}
    environment = os.environ | dict(command.environment) | {"KUBERNETES_EXEC_INFO": json.dumps(info)}
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            _Output, *command.argv, env=environment, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:  # the program runs before asyncio returns it, and asyncio would end it alone
        with contextlib.suppress(OSError):
            await _end(*await starting)
        raise
    except OSError as error:
        hint = f"; {command.install_hint}" if command.install_hint else ""
        raise errors.NoCredentials(f"cannot run the credential program {command.argv[0]}: {error}{hint}") from error


async def _end(transport: asyncio.SubprocessTransport, output: _Output) -> None:
    """Kill what is left of the process group, and wait for the program, so that it does not stay as a zombie."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(transport.get_pid(), signal.SIGKILL)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_DIE):
                await output.exited.wait()
    finally:
        transport.close()


def _ending(code: int) -> str:
    return f"ended with {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}"


def _first(complaint: bytearray) -> str:
    lines = [line.strip() for line in complaint.decode(errors="replace").splitlines() if line.strip()]
    return f": {lines[0][:_LONGEST_COMPLAINT]}" if lines else " and no message"


def _decode(program: str, printed: bytearray) -> Printed:
    try:
        status = msgspec.json.decode(printed, type=_ExecCredential).status
    except msgspec.DecodeError as error:
        raise errors.NoCredentials(f"the credential program {program} printed no ExecCredential: {error}") from error
    certificate = f"{status.client_certificate_data}\n{status.client_key_data}\n".encode()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise errors.NoCredentials(
            f"the credential program {program} printed only one of clientCertificateData and clientKeyData, want both"
        )
    if not status.token and not status.client_key_data:
        raise errors.NoCredentials(f"the credential program {program} printed no token and no client certificate")
    expires = times.epoch_seconds_or_none(status.expiration_timestamp)
    return Printed(
        connection.Credential(
            f"Bearer {status.token}" if status.token else None, certificate if status.client_key_data else None
        ),
        None if expires is None else expires - time.time(),
    )


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
        printed = await run_program(self._command)
        now, lifetime = self._clock(), printed.lifetime_seconds
        self._renew_at = self._expires_at = math.inf
        if lifetime is not None:
            usable = lifetime - min(lifetime * _SPARE_SHARE, _MOST_SPARE_SECONDS)
            self._renew_at = now + max(usable, _LEAST_SECONDS_BETWEEN_RUNS)
            self._expires_at = now + max(lifetime, _LEAST_SECONDS_BETWEEN_RUNS)
        self._credential = printed.credential
        return printed.credential
