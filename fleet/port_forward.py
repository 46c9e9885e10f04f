"""Request the pages that a pod serves on its loopback address, through a child `kubectl port-forward`.

The child has the caller's kubeconfig, context and impersonation, so the apiserver authorizes it: `create` on
`pods/portforward`, and `get` on the pod. The apiserver's own proxy is not used: it does not reach a loopback address.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import httpx2

_FORWARDING: Final = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d{1,5}) ->")
_START_SECONDS: Final = 15.0
_PAGE_SECONDS: Final = 10.0
_LARGEST_PAGE_BYTES: Final = 64 * 2**20
_KEPT_BYTES: Final = 2_000  # of what kubectl writes to standard error


class CannotForward(Exception):
    """The pod's page was not reached; the text names the pod, what was seen and the fix."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Flags that choose the cluster and the identity, for kubectl as for koordctl; empty: as kubectl decides."""

    kubeconfig: str = ""
    context: str = ""
    user: str = ""
    """User to impersonate."""
    groups: tuple[str, ...] = ()
    """Groups to impersonate."""

    def flags(self) -> list[str]:
        """Return the flags of kubectl."""
        named = (("kubeconfig", self.kubeconfig), ("context", self.context), ("as", self.user))
        groups = [f"--as-group={group}" for group in self.groups]
        return [f"--{flag}={value}" for flag, value in named if value] + groups


class PodPort(NamedTuple):
    """A port on the loopback address of a pod."""

    namespace: str
    pod: str
    port: int

    def __str__(self) -> str:
        """Return the text for error messages."""
        return f"pod {self.namespace}/{self.pod}, port {self.port}"


class ForwardedPage(NamedTuple):
    """An answer of the pod."""

    status: int
    body: bytes


class Forward:
    """An open forward; made by `open_forward`."""

    def __init__(self, to: PodPort, local_port: int, written: bytearray) -> None:
        self.local_port = local_port
        self._to = to
        self._written = written

    async def get(self, path: str, *, timeout_seconds: float = _PAGE_SECONDS) -> ForwardedPage:
        """Request a page. Redirects are not followed. Raises CannotForward, also for a page that is too large."""
        url = f"http://127.0.0.1:{self.local_port}{path}"
        body = bytearray()
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                httpx2.AsyncClient(trust_env=False, timeout=timeout_seconds) as client,
                client.stream("GET", url) as answer,
            ):
                async for piece in answer.aiter_bytes():
                    body += piece
                    if len(body) > _LARGEST_PAGE_BYTES:
                        raise CannotForward(f"{self._to}: {path} has more than {_LARGEST_PAGE_BYTES} bytes")
        except TimeoutError as error:
            raise CannotForward(f"{self._to}: {path} did not answer within {timeout_seconds:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            last_line = _last_line(self._written) or str(error) or type(error).__name__
            raise CannotForward(f"{self._to}: no answer: {last_line}") from error
        return ForwardedPage(answer.status_code, bytes(body))


@contextlib.asynccontextmanager
async def open_forward(
    to: PodPort, caller: Caller, *, timeout_seconds: float = _START_SECONDS
) -> AsyncIterator[Forward]:
    """Forward a free local port on 127.0.0.1 to the pod; the child has ended when the block is left.

    Raises CannotForward where kubectl is missing, or may not forward, or does not begin in time.
    """
    process = await _start(to, caller)
    written = bytearray()
    reading = asyncio.create_task(_keep_last(process.stderr, written))
    try:
        try:
            async with asyncio.timeout(timeout_seconds):
                local_port = await _local_port(process)
                if local_port is None:
                    await reading
        except TimeoutError as error:
            cause = f": {_last_line(written)}" if _last_line(written) else ""
            raise CannotForward(
                f"{to}: kubectl port-forward did not begin within {timeout_seconds:g} s{cause}"
            ) from error
        if local_port is None:
            raise CannotForward(f"{to}: kubectl port-forward ended: {_last_line(written)}{_fix(to, written)}")
        discarding = asyncio.create_task(_keep_last(process.stdout, bytearray()))
        try:
            yield Forward(to, local_port, written)
        finally:
            discarding.cancel()
    finally:
        reading.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and a credential plugin that it waits for; no state is lost
        await process.wait()


async def _start(to: PodPort, caller: Caller) -> Process:
    words = ["port-forward", *caller.flags(), f"--namespace={to.namespace}", "--address=127.0.0.1"]
    try:
        return await asyncio.create_subprocess_exec(
            "kubectl", *words, f"pod/{to.pod}", f":{to.port}", stdin=DEVNULL, stdout=PIPE, stderr=PIPE, process_group=0
        )
    except OSError as error:
        raise CannotForward(
            f"{to}: cannot run kubectl ({error.strerror or error}); install kubectl in a folder of PATH"
        ) from error


async def _local_port(process: Process) -> int | None:
    """Return the local port; None where kubectl ends before."""
    assert process.stdout is not None
    output = b""
    while piece := await process.stdout.read(_KEPT_BYTES):
        output = (output + piece)[-_KEPT_BYTES:]
        if match := _FORWARDING.search(output):
            return int(match[1])
    return None


async def _keep_last(stream: asyncio.StreamReader | None, written: bytearray) -> None:
    assert stream is not None
    while piece := await stream.read(_KEPT_BYTES):
        written += piece
        del written[:-_KEPT_BYTES]


def _last_line(written: bytearray) -> str:
    lines = written.decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _fix(to: PodPort, written: bytearray) -> str:
    if b"forbidden" not in written.lower():
        return ""
    return (
        f"; grant it by RBAC in the namespace {to.namespace} (verbs: [create], resources: [pods/portforward], and "
        'verbs: [get], resources: [pods], apiGroups: [""])'
    )
