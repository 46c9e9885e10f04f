"""Run a credential program, and read the `ExecCredential` that it prints.

The program gets a process group of its own. When its time is over, or when the request that waits for it is cancelled,
the whole group is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from typing import Final

import msgspec

from api_types.kubernetes import times
from apiserver_client import connection, errors

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


async def run(command: connection.ExecCommand, longest_seconds: float = LONGEST_SECONDS) -> Printed:
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
