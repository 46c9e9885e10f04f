"""Bound the time that several waits take together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class TimeBudget:
    """Seconds for the waits of one call; the time between them is free."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    async def spend_on(self, awaited: Awaitable[T]) -> T:
        """Wait. Raises TimeoutError when no time is left."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._left):
                return await awaited
        finally:
            self._left -= loop.time() - began
