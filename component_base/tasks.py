"""Run the tasks of a process until a stop signal, or until one of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any


async def run(work: Sequence[Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
    """Run all tasks concurrently until `stop` is set. Raises the error of a task that ends before that."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    stopped = asyncio.create_task(stop.wait())
    done, _pending = await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
    for task in [*tasks, stopped]:
        task.cancel()
    await asyncio.gather(*tasks, stopped, return_exceptions=True)
    for task in done - {stopped}:
        task.result()  # a task that ended by itself failed: raise its error
