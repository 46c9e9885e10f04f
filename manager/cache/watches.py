"""Begin a watch again, with a list, where the versions of the apiserver went back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Watch:
    """A watch that can begin again. `follow` watches until it is cancelled or fails."""

    def __init__(self, follow: Callable[[], Awaitable[None]]) -> None:
        self._follow = follow
        self._again = asyncio.Event()

    def restart(self) -> None:
        """Begin again, with a list."""
        self._again.set()

    async def run(self) -> None:
        """Watch until cancelled. Raises what ended the watch."""
        while True:
            waits = [asyncio.ensure_future(self._follow()), asyncio.ensure_future(self._again.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waits:
                    each.cancel()
                result, _ = await asyncio.gather(*waits, return_exceptions=True)
            self._again.clear()
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
