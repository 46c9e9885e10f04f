"""When the agent checks again whether its prediction moved: at the check interval of the spec."""

from __future__ import annotations

import dataclasses
import time

import pytest

from api_types.node_metric.types import NodeMetricSpec
from koordlet.prediction.allocation import WholeAmounts
from koordlet.report import schedule, writer


@pytest.fixture
def agent(agent, sent):
    agent.sent = sent
    agent.view.resource_version = "9"
    agent.view.pods.keep_only(())
    agent.view.capacity = agent.view.allocatable = WholeAmounts(16_000, 1 << 34)
    agent._tick()
    agent.observer.newest_at_seconds = time.time()
    return agent


@pytest.mark.parametrize("seconds", [10, 20])
async def test_the_next_check_is_due_after_the_check_interval(agent, seconds):
    agent.view.spec = NodeMetricSpec.model_validate({"predictPolicy": {"checkIntervalSeconds": seconds}})
    await agent._report_if_due(None, 1000.0)
    assert len(agent.sent) == 1
    assert not agent._schedule.is_check_due(1000.0 + seconds - 0.1)
    assert agent._schedule.is_check_due(1000.0 + seconds)
    await agent._report_if_due(None, 1000.0 + seconds)
    assert len(agent.sent) == 1, "nothing moved"
    assert not agent._schedule.is_check_due(1000.0 + 2 * seconds - 0.1)
    assert agent._schedule.is_check_due(1000.0 + 2 * seconds)


async def test_a_report_interval_that_became_shorter_is_in_force_at_the_next_check(agent):
    spec = {"metricCollectPolicy": {"reportIntervalSeconds": 300}, "predictPolicy": {"forceUpdateIntervalSeconds": 300}}
    agent.view.spec = NodeMetricSpec.model_validate(spec)
    await agent._report_if_due(None, 1000.0)
    assert not agent._schedule.is_due(1060.0)
    spec["metricCollectPolicy"]["reportIntervalSeconds"] = 60
    agent.view.spec = NodeMetricSpec.model_validate(spec)
    await agent._report_if_due(None, 1030.0)
    assert len(agent.sent) == 1
    assert not agent._schedule.is_due(1059.9)
    assert agent._schedule.is_due(1060.0)


async def test_without_a_node_metric_nothing_is_reported(agent):
    agent.view.resource_version = None
    await agent._report_if_due(None, 1000.0)
    assert agent.sent == []
    agent.view.resource_version = "9"
    await agent._report_if_due(None, 1001.0)
    assert len(agent.sent) == 1


@pytest.mark.parametrize(("threshold", "moved_millis", "reports"), [(5, 30, 0), (5, 60, 1), (2, 30, 1), (10, 60, 0)])
async def test_a_report_before_its_time_needs_a_move_beyond_the_threshold(agent, threshold, moved_millis, reports):
    agent.view.spec = NodeMetricSpec.model_validate({"predictPolicy": {"resourceDiffThresholdPercent": threshold}})
    await agent._report_if_due(None, 1000.0)
    agent.sent.clear()
    predict = agent.reports.predict

    def moved(*given):
        publishes = schedule.Published({"cpu": 1000 + moved_millis, "memory": 1 << 30}, None)
        return dataclasses.replace(predict(*given), publishes=publishes)

    agent.reports.predict = moved
    agent._published = schedule.Published({"cpu": 1000, "memory": 1 << 30}, None)
    await agent._report_if_due(None, 1020.0)
    assert len(agent.sent) == reports
    assert agent.counts.early_reports == reports


@pytest.mark.parametrize(
    ("outcome", "version", "is_reported"),
    [
        (writer.Outcome.WRITTEN, "10", True),
        (writer.Outcome.WRITTEN, None, False),
        (writer.Outcome.REFUSED, "10", False),
        (writer.Outcome.REFUSED, None, False),
    ],
)
async def test_only_a_written_report_with_a_version_is_the_newest_one(
    agent, monkeypatch, outcome, version, is_reported
):
    async def send(_api, _name, _status, _version):
        return writer.Sent(outcome, version)

    monkeypatch.setattr(writer, "send", send)
    await agent._report_if_due(None, 1000.0)
    assert agent._schedule.is_due(1005.0) is not is_reported
    assert bool(agent.counts.last_report_seconds) is is_reported
    assert bool(agent.reports.conditions) is is_reported
