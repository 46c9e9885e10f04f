"""What the tests of this package share: a scripted server, and a sleep that takes no time but is remembered."""

import asyncio

import pytest

from tests.fakes import apiserver


@pytest.fixture
async def server():
    async with apiserver.running() as running:
        yield running


class Naps:
    """Stands in for asyncio.sleep; `seconds` is what was asked for."""

    def __init__(self):
        self.seconds = []

    async def __call__(self, seconds):
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def naps():
    return Naps()
