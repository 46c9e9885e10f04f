"""What an observer logs when page cache begins or ends to count as used."""

from __future__ import annotations

import logging

import pytest

from api_types.node_metric import types as node_metric
from koordlet import node_observer
from tests.koordlet.one_node import OneNode, StaticCluster

WITH = {"metricCollectPolicy": {"nodeMemoryCollectPolicy": "usageWithPageCache"}}


@pytest.fixture
def node(tmp_path, caplog):
    caplog.set_level(logging.INFO, node_observer.__name__)
    made = OneNode(tmp_path, StaticCluster())
    yield made
    made.observer.collector.close()


def lines(caplog):
    return [" ".join(record.getMessage().split()[:6]) for record in caplog.records]


def test_each_change_of_the_memory_policy_is_one_line(node, caplog):
    node.run(3)
    assert lines(caplog) == []
    without, node.cluster.spec = node.cluster.spec, node_metric.NodeMetricSpec.model_validate(WITH)
    node.run(3)
    assert lines(caplog) == ["memory is measured with page cache"]
    node.cluster.spec = without
    node.run(3)
    assert lines(caplog) == ["memory is measured with page cache", "memory is measured without page cache"]
