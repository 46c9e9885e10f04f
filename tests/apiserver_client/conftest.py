"""Fixtures of this package: a scripted server, and a sleep that takes no time and records its calls."""

import asyncio

import pytest

from tests.fakes import apiserver


@pytest.fixture
async def server():
    async with apiserver.running() as running:
        yield running


class Naps:
    """Replacement of asyncio.sleep; `seconds` has the requested times."""

    def __init__(self):
        self.seconds = []

    async def __call__(self, seconds):
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def naps():
    return Naps()
