"""Keep a watch running: begin it again, with a list, where it has ended, and where versions went back."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from apiserver_client import backoff
from manager.cache.kopf_watches import CannotFollow

log = logging.getLogger(__name__)

_DELAYS: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=30.0)


class Watch:
    """A watch that can begin again. `follow` watches until it is cancelled or fails; `sleep` waits."""

    def __init__(
        self, follow: Callable[[], Awaitable[None]], *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._follow = follow
        self._sleep = sleep
        self._again = asyncio.Event()

    def restart(self) -> None:
        """Begin again, with a list."""
        self._again.set()

    async def run(self) -> None:
        """Watch until cancelled. Raises what ended the watch, where starting it again does not help."""
        failures = 0
        while True:
            failure = await self._until_restart()
            if failure is None:
                failures = 0
                continue
            log.warning("the watches have ended and begin again: %s", failure)
            await self._sleep(_DELAYS.seconds(failures, random.random))
            failures += 1

    async def _until_restart(self) -> CannotFollow | None:
        """Watch until it is to begin again; return what ended it, where it ended by itself."""
        waits = [asyncio.ensure_future(self._follow()), asyncio.ensure_future(self._again.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            result, _ = await asyncio.gather(*waits, return_exceptions=True)
        self._again.clear()
        if isinstance(result, CannotFollow):
            return result
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            raise result
        return None
