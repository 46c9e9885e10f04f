"""Another task of the event loop, which shows whether the tested one lets it run."""

import asyncio
from typing import Self


class OtherTask:
    """Task that runs inside of `async with` and counts its turns."""

    def __init__(self):
        self.turns = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_):
        self._task.cancel()

    async def _run(self):
        while True:
            self.turns += 1
            await asyncio.sleep(0)
