"""A node that is short of Mid."""

import pytest

from tests.manager.evictions import Short


@pytest.fixture
async def short(world):
    return Short(world)
