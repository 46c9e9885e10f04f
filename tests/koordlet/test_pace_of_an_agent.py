"""The pace of the agent: one tick each period, one report after the other, and an end without waiting for a tick."""

from __future__ import annotations

import asyncio
import contextlib

from koordlet import agent as program

TURNS_OF_THE_LOOP = 100


@contextlib.asynccontextmanager
async def ticking(agent):
    """Run the ticks, each an empty one, until the block ends. Yield the list of those that have begun."""
    ticks = []
    agent._tick = lambda: ticks.append(1)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(agent._tick_until_stopped(None, group))
        await asyncio.sleep(0)
        yield ticks
        agent.stop.set()


async def test_the_next_tick_waits_for_its_time_and_the_end_does_not(agent, monkeypatch):
    monkeypatch.setattr(program, "TICK_SECONDS", 3600.0)
    agent._schedule.is_check_due = lambda _now: False
    async with ticking(agent) as ticks:
        for _ in range(TURNS_OF_THE_LOOP):
            await asyncio.sleep(0)
        assert len(ticks) == 1
    assert len(ticks) == 1


async def test_reports_are_tried_one_after_the_other(agent, monkeypatch):
    monkeypatch.setattr(program, "TICK_SECONDS", 0.001)
    tried, may_end = [], asyncio.Event()

    async def report(_api, now):
        tried.append(now)
        await may_end.wait()

    agent._try_to_report, agent._schedule.is_check_due = report, lambda _now: True
    async with ticking(agent) as ticks:
        while len(ticks) < 5:
            await asyncio.sleep(0.001)
        assert len(tried) == 1
        may_end.set()
        while len(tried) < 3:
            await asyncio.sleep(0.001)


async def test_no_report_is_tried_before_its_check_is_due(agent, monkeypatch):
    monkeypatch.setattr(program, "TICK_SECONDS", 0.001)
    tried = []

    async def report(_api, now):
        tried.append(now)

    agent._try_to_report, agent._schedule.is_check_due = report, lambda _now: False
    async with ticking(agent) as ticks:
        while len(ticks) < 5:
            await asyncio.sleep(0.001)
    assert tried == []
