"""Parts that the agent drives while it runs: the history, suppression, and the times of ticks."""

from __future__ import annotations

import asyncio
import time
import types

import pytest

from koordlet import __main__ as command
from koordlet import agent as program
from koordlet.prediction import checkpoint, checkpointer
from koordlet.prediction.allocation import WholeAmounts
from tests.host_trees.plain_files import PlainHost
from tests.koordlet.test_agent_process import learnt_before


async def test_a_start_continues_with_the_history_of_the_checkpoint(tmp_path, registry):
    PlainHost(tmp_path / "host").set_node(1000, 1 << 30)
    path = tmp_path / "state" / checkpointer.FILE_NAME
    path.parent.mkdir()
    learnt_before(path)
    settings = program.KoordletSettings(node_name="n1", state_dir=str(path.parent))
    made = program.Agent(settings, program.NodeObserver(tmp_path / "host", 64), registry)
    before = path.stat().st_ino
    made.stop.set()
    async with asyncio.timeout(10):
        await made.run(None)
    assert len(made.observer.server.export().keys) > 0
    assert path.stat().st_ino != before, "it is written again at the end"
    assert len(checkpoint.load(path, "n1").models.keys) > 0


@pytest.mark.parametrize(
    "name", ["koordlet_evaluation_forecasts", "koordlet_ticks", "koordlet_suppression_lowered_pods"]
)
def test_the_metrics_of_every_part_are_served(agent, registry, name):
    assert name in {metric.name for metric in registry.collect()}


def test_the_duration_of_every_tick_is_counted(agent, registry):
    for _ in range(3):
        agent._tick()
    assert registry.get_sample_value("koordlet_ticks_total") == 3
    assert registry.get_sample_value("koordlet_tick_duration_seconds_count") == 3
    assert 0 < registry.get_sample_value("koordlet_tick_duration_seconds_sum") < 60


@pytest.mark.parametrize("seconds", [1.0, 3.0])
async def test_a_tick_that_begins_when_the_last_one_ends_is_not_late(agent, registry, monkeypatch, seconds):
    now = types.SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(program, "time", types.SimpleNamespace(monotonic=lambda: now.seconds))

    def tick():
        now.seconds += seconds
        if now.seconds == 1000.0 + 5 * seconds:
            agent.stop.set()

    agent._tick = tick
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        await agent._tick_until_stopped(None, group)
    assert registry.get_sample_value("koordlet_tick_lateness_seconds_count") == 5
    assert registry.get_sample_value("koordlet_tick_lateness_seconds_sum") == 0


async def test_limits_are_sent_one_plan_after_the_other(agent, monkeypatch):
    monkeypatch.setattr(program, "TICK_SECONDS", 0.001)
    sent, may_end = [], asyncio.Event()

    async def suppress(_api, changes):
        sent.append(changes)
        await may_end.wait()

    agent._plan_suppression, agent._suppress, agent._tick = lambda: ["a change"], suppress, lambda: None
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        ticks = []
        agent._export = ticks.append
        ticking = group.create_task(agent._tick_until_stopped(None, group))
        while len(ticks) < 5:
            await asyncio.sleep(0.001)
            assert not ticking.done()
        assert sent == [["a change"]]
        may_end.set()
        while len(sent) < 3:
            await asyncio.sleep(0.001)
            assert not ticking.done()
        agent.stop.set()


@pytest.mark.parametrize("part", ["_suppress", "_try_to_report"])
async def test_a_request_without_an_answer_does_not_hold_up_the_end(agent, monkeypatch, part):
    monkeypatch.setattr(program, "TICK_SECONDS", 0.001)
    asked = asyncio.Event()

    async def hang(_api, _given):
        asked.set()
        await asyncio.Event().wait()

    setattr(agent, part, hang)
    agent._plan_suppression, agent._tick = lambda: ["a change"] * (part == "_suppress"), lambda: None
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(agent._tick_until_stopped(None, group))
        await asked.wait()
        agent.stop.set()


async def test_the_conditions_of_a_report_are_kept_for_the_next_one(agent, sent):
    agent.view.resource_version = "9"
    agent.view.pods.keep_only(())
    agent.view.capacity = agent.view.allocatable = WholeAmounts(16_000, 1 << 34)
    agent._tick()
    agent.observer.newest_at_seconds = time.time()
    await agent._report_if_due(None, 1000.0)
    assert agent.reports.conditions == sent[0].conditions
    assert agent.reports.conditions


def test_a_preview_takes_a_minute_unless_another_time_is_given():
    parser = command._parser()
    assert parser.parse_args(["preview"]).seconds == 60.0
    assert parser.parse_args(["preview", "--for", "3s"]).seconds == 3.0
