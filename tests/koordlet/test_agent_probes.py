"""The agent's probes, and its errors: each is counted or waited out, and the agent goes on."""

import types

import pytest

from apiserver_client import backoff, errors
from koordlet import agent as program
from koordlet.mid_suppression.planner import Change
from tests.koordlet.idle_agent import idle_agent

UNREACHABLE = errors.Unreachable("the apiserver cannot be reached")


@pytest.fixture
def agent(tmp_path, registry):
    with idle_agent(tmp_path, registry, enable_suppression=True) as made:
        yield made


@pytest.mark.parametrize(
    ("age_seconds", "is_healthy", "text"),
    [(0.0, True, "0.0"), (9.9, True, "9.9"), (10.0, False, "10.0"), (3600.0, False, "3600.0")],
)
def test_an_agent_that_has_missed_ten_ticks_is_unhealthy(agent, monkeypatch, age_seconds, is_healthy, text):
    agent._last_tick = 1000.0
    monkeypatch.setattr(program, "time", types.SimpleNamespace(monotonic=lambda: 1000.0 + age_seconds))
    assert agent.health() == (is_healthy, f"last tick {text} s ago")


def test_an_agent_is_ready_once_it_follows_the_cluster_and_measures_its_node(agent):
    watches = agent.view.watches
    assert agent.ready() == (False, "waiting for pods, node, node_metric")
    watches["node"].synced = True
    watches["pods"].last_error = watches["node_metric"].last_error = UNREACHABLE
    assert agent.ready() == (False, f"waiting for pods, node_metric\n{UNREACHABLE}")
    watches["pods"].synced = watches["node_metric"].synced = True
    assert agent.ready() == (False, "no sample of the node yet")
    agent.observer.newest_at_seconds = 1.7e9
    assert agent.ready() == (True, "measuring and following the cluster")


async def test_each_failure_of_the_suppression_is_counted_and_logged(agent, registry, caplog):
    def fail(*_given):
        raise ArithmeticError

    def failures():
        return registry.get_sample_value("koordlet_suppression_failures_total")

    agent.suppressor.plan = agent.suppressor.send = fail
    assert agent._plan_suppression() == []
    assert failures() == 1
    await agent._suppress(None, [Change])
    assert failures() == 2
    assert [line.exc_info[0] for line in caplog.records] == [ArithmeticError] * 2
    assert "limits stay; trying again in 1 s" in caplog.messages[0]
    assert "are not sent; trying again in 1 s" in caplog.messages[1]


async def test_a_report_that_fails_unexpectedly_waits_for_the_longest_pause(agent, caplog):
    agent.view.resource_version = "9"
    agent.observer.newest_at_seconds = 1.7e9

    def fail(*_given):
        raise ArithmeticError

    agent.reports.predict = fail
    await agent._try_to_report(None, 1000.0)
    assert "report failed unexpectedly" in caplog.text
    longest = backoff.DEFAULT.longest_seconds
    assert not agent._schedule.is_check_due(1000.0 + longest - 0.1)
    assert agent._schedule.is_check_due(1000.0 + longest + 0.1)


async def test_while_the_resources_of_the_node_are_unknown_every_check_reports(agent, sent):
    agent.view.resource_version = "9"
    agent.view.pods.keep_only(())
    agent.observer.newest_at_seconds = 1.7e9
    for at in (1000.0, 1006.0, 1012.0):
        await agent._report_if_due(None, at)
    assert len(sent) == 3
    assert agent.counts.early_reports == 2
    assert [each.prediction for each in sent] == [None] * 3


@pytest.mark.parametrize(("millis", "cores"), [(None, None), (0, 0.0), (2500, 2.5)])
def test_what_mid_pods_may_use_is_a_metric_in_cores(agent, registry, millis, cores):
    agent.suppressor.planner.allowed_millis = millis
    assert registry.get_sample_value("koordlet_suppression_allowed_cpu_cores") == cores
