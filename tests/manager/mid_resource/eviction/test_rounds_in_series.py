"""The loop of the evictor: when the right to evict is asked for, and what an error of one round ends."""

import asyncio
import datetime as dt
from collections.abc import Callable

import pytest

from apiserver_client import errors
from manager.mid_resource.eviction.controller import Evictor
from tests.manager.evictions import EVICT

ADVISE = {"enable": True, "midEviction": {"mode": "advise"}}


class Rounds:
    """Lets the evictor work round after round: `before` maps the number of a round to what happens before it."""

    def __init__(self, world):
        self.world, self.slept, self.asked_at = world, [], []
        self.before: dict[int, Callable[[], None]] = {}
        self.evictor = Evictor(
            world.api, cache=world.cache, rights=world.rights, recorder=world.recorder, telemetry=world.telemetry,
            clock=world.clock, configuration=lambda: self.now_in_force(), sleep=self._sleep,  # noqa: PLW0108  # it is replaced
            on_right_changed=lambda: self.changed_at.append(len(self.slept)),
        )  # fmt: skip
        self.changed_at: list[int] = []
        self.now_in_force = world.config.in_force

    async def _sleep(self, seconds):
        self._note()
        if len(self.slept) == self._count:
            raise asyncio.CancelledError
        self.slept.append(seconds)
        self.world.now += dt.timedelta(seconds=seconds)
        self.before.get(len(self.slept), lambda: None)()

    def _note(self):
        asked = sum(each.path.endswith("selfsubjectaccessreviews") for each in self.world.server.requests)
        self.asked_at += [len(self.slept)] * (asked - len(self.asked_at))

    async def run(self, count):
        self._count = count
        with pytest.raises(asyncio.CancelledError):
            await self.evictor.run()

    def set_clock(self, seconds):
        self.world.now += dt.timedelta(seconds=seconds)


@pytest.fixture
async def rounds(world):
    world.server.may_evict = {""}
    world.configure(EVICT)
    await world.config.start()
    return Rounds(world)


async def test_the_right_is_asked_for_at_once_where_eviction_is_switched_on_and_not_at_all_where_it_is_off(world):
    world.server.may_evict = {""}
    world.configure(ADVISE)
    await world.config.start()
    advises = world.config.in_force()
    world.configure(EVICT)
    await world.config.refresh()
    evicts = world.config.in_force()
    rounds = Rounds(world)
    rounds.now_in_force = lambda: evicts if len(rounds.slept) >= 70 else advises
    await rounds.run(100)
    assert rounds.asked_at == [70]


@pytest.mark.parametrize(
    ("error", "level", "line"),
    [
        (errors.Unreachable("apiserver is away"), "WARNING", "cannot evict Mid pods: apiserver is away; retrying"),
        (ValueError("surprise"), "ERROR", "cannot evict Mid pods: unexpected error; retrying"),
    ],
)
async def test_an_error_of_a_round_ends_that_round_only(rounds, caplog, monkeypatch, error, level, line):
    worked = []

    async def work():
        worked.append(len(rounds.slept))
        if len(worked) == 2:
            raise error

    monkeypatch.setattr(rounds.evictor, "round", work)
    await rounds.run(4)
    assert worked == [1, 2, 3, 4]
    assert [(each.levelname, each.getMessage()) for each in caplog.records if "evict" in each.message] == [
        (level, line)
    ]
