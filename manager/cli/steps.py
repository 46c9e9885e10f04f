"""Repeat a step of a command until nothing is left to do, through refusals and outages of the API server."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from apiserver_client import backoff, errors

log = logging.getLogger(__name__)

_PAUSES: Final = backoff.Backoff(first_seconds=0.25, longest_seconds=5.0)
_MOST_NAMED: Final = 5


class Steps:
    """Steps of one run, and what the newest one waits for."""

    def __init__(self) -> None:
        self.obstacle = "no step was tried"
        """What the newest step still waits for."""

    async def until_empty(self, what: str, step: Callable[[], Awaitable[Sequence[str]]]) -> None:
        """Repeat a step until it returns nothing that is left. The caller sets a timeout."""
        attempt = 0
        while True:
            asked_seconds = 0.0
            try:
                remaining = await step()
            except errors.ApiServerError as error:
                obstacle = f"{what}: {error}"
                asked_seconds = error.retry_after_seconds or 0.0
            else:
                if not remaining:
                    log.info("%s: done", what)
                    return
                obstacle = f"{what}: {len(remaining)} left: {some(remaining)}"
            if obstacle != self.obstacle:
                log.info("%s", obstacle)
            self.obstacle = obstacle
            await asyncio.sleep(max(_PAUSES.seconds(attempt, random.random), asked_seconds))
            attempt += 1


def some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
