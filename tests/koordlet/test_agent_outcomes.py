"""Outcomes of reports: pauses, counters and lines of the log. And the files that the agent closes at its end."""

import logging
import time
import types

import pytest

from koordlet import agent as program
from koordlet.prediction.allocation import WholeAmounts
from koordlet.report import writer
from koordlet.report.writer import Outcome
from tests.host_trees.plain_files import PlainHost
from tests.koordlet.idle_agent import idle_agent
from tests.koordlet.one_node import GIB
from tests.koordlet.test_agent_work import open_below


@pytest.fixture
def agent(tmp_path, registry):
    with idle_agent(tmp_path, registry) as made:
        view = made.view
        view.resource_version = "9"
        view.pods.keep_only(())
        view.capacity = view.allocatable = WholeAmounts(16_000, 16 * GIB)
        yield made


@pytest.fixture
def report(agent, monkeypatch):
    """Report with a given outcome; return the pause after it, to a tenth of a second."""
    now = types.SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(program, "random", types.SimpleNamespace(random=lambda: 0.0))

    async def reported(outcome, retry_after_seconds=0.0):
        agent._tick()
        agent.observer.newest_at_seconds = time.time()
        now.seconds += 1000.0

        async def send(_api, _name, _status, version):
            problem = "" if outcome is Outcome.WRITTEN else "the reason"
            version = version if outcome is Outcome.WRITTEN else None
            return writer.Sent(outcome, version, problem=problem, retry_after_seconds=retry_after_seconds)

        monkeypatch.setattr(writer, "send", send)
        await agent._report_if_due(None, now.seconds)
        return next(tenths / 10 for tenths in range(1000) if agent._schedule.is_check_due(now.seconds + tenths / 10))

    return reported


async def test_pauses_after_failures_grow_and_begin_again_after_a_report(report):
    """The lower half of the backoff, 0.4 s doubled each time up to 15 s, and never less than the 5 s between writes."""
    assert [await report(Outcome.REFUSED) for _ in range(8)] == [5.0, 5.0, 5.0, 5.0, 6.4, 12.8, 15.0, 15.0]
    await report(Outcome.WRITTEN)
    assert [await report(Outcome.UNREACHABLE) for _ in range(6)] == [5.0, 5.0, 5.0, 5.0, 6.4, 12.8]
    assert await report(Outcome.UNREACHABLE, retry_after_seconds=40.0) == 40.0


async def test_every_report_is_counted_and_only_a_new_outcome_is_a_line(report, registry, caplog):
    caplog.set_level(logging.INFO, program.__name__)
    outcomes = [Outcome.REFUSED] * 3 + [Outcome.WRITTEN] * 2 + [Outcome.UNREACHABLE] * 2
    for outcome in outcomes:
        await report(outcome)
    for outcome in Outcome:
        count = registry.get_sample_value("koordlet_reports_total", {"outcome": outcome})
        assert count == outcomes.count(outcome), outcome
    assert [(line.levelno, line.getMessage()) for line in caplog.records if line.name == program.__name__] == [
        (logging.WARNING, "report to NodeMetric n1: refused: the reason"),
        (logging.INFO, "report to NodeMetric n1: written"),
        (logging.WARNING, "report to NodeMetric n1: unreachable: the reason"),
    ]


async def test_at_its_end_the_agent_closes_the_files_of_the_host(agent, tmp_path):
    PlainHost(tmp_path).set_group(PlainHost(tmp_path).pod("a"), 1.0, GIB)
    agent._tick()
    assert open_below(tmp_path)
    await agent._end()
    assert open_below(tmp_path) == []


def test_every_tick_is_counted(agent, registry):
    before = registry.get_sample_value("koordlet_ticks_total")
    for _ in range(3):
        agent._tick()
    assert registry.get_sample_value("koordlet_ticks_total") - before == 3
