"""A forecast after some days, and what the labels of a node add."""

import pytest

from scheduler_plugin.load_watcher import known_nodes
from scheduler_plugin.load_watcher.analysers.seasonal_forecast import SeasonalForecast
from scheduler_plugin.load_watcher.known_nodes import KnownNode
from scheduler_plugin.load_watcher.records import Metadata, NodeMetrics
from tests.scheduler_plugin.load_watcher.test_analysers import day, node
from tests.scheduler_plugin.load_watcher.test_known_nodes import wire_node

PLACE = Metadata("zone-1", "pool-1")


def test_the_last_day_has_a_share_of_30_percent_in_what_is_usual() -> None:
    model = SeasonalForecast()
    for number, peak in enumerate((80.0, 20.0)):
        day(model, 20_000 + number, peak=peak)
    assert day(model, 20_002, peak=20.0)[47] == pytest.approx(0.7 * 80 + 0.3 * 20)


def test_a_node_without_capacity_has_none() -> None:
    found = known_nodes.known_node(wire_node("a"))
    assert (found.cpu_millis, found.memory_bytes) == (0, 0)
    assert known_nodes.percent_of(5.0, found.cpu_millis) is None
    assert known_nodes.percent_of(0.5, 1) == 50.0


@pytest.mark.parametrize("given", [PLACE, Metadata(), Metadata("zone-1")])
def test_tags_and_location_are_added_each_without_the_other(given: Metadata) -> None:
    measured = NodeMetrics(node(40.0).metrics, metadata=given)
    tagged = known_nodes.located({"a": measured}, {"a": KnownNode(1, 1, PLACE, {"rack": "7"})})["a"]
    assert (tagged.tags, tagged.metadata) == ({"rack": "7"}, PLACE)
    plain = known_nodes.located({"a": measured}, {"a": KnownNode(1, 1, PLACE)})["a"]
    assert (plain.tags, plain.metadata) == ({}, PLACE)
