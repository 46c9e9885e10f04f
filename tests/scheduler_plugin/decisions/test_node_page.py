"""Page of a node: its pods in their order, and which of them each sum has."""

import pytest

from scheduler_plugin.decisions import pages
from scheduler_plugin.state.node_columns import NodeEntry
from scheduler_plugin.state.node_load import NodeLoad
from tests.scheduler_plugin.state.test_node_load import assigned, report

RESOURCES = ("cpu", "memory")


def page(*pods, given=None):
    load = NodeLoad(2, system_in_prod=False)
    for pod in pods:
        load.assign(pod)
    if given is not None:
        load.set_report(given)
    return pages.node_page(NodeEntry("n1", 0, load), RESOURCES)


def test_an_unknown_node_has_an_empty_page():
    assert pages.node_page(None, RESOURCES) == {}


def test_without_a_report_the_page_has_the_pods_by_time_of_assignment_alone():
    shown = page(assigned("late", at=9.0, forced_until=12.0), assigned("early", (0, 0), at=3.0))
    assert shown == {
        "pods": [
            {
                "timestamp": 3.0,
                "pod": "ns/early",
                "uid": "uid-early",
                "estimated": None,
                "estimatedDeadline": None,
                "confirmedByWatch": True,
            },
            {
                "timestamp": 9.0,
                "pod": "ns/late",
                "uid": "uid-late",
                "estimated": {"cpu": 1000, "memory": 100},
                "estimatedDeadline": 12.0,
                "confirmedByWatch": True,
            },
        ]
    }


def test_each_sum_names_the_pods_that_add_something_of_any_resource():
    """`known` is reported above its estimate of CPU, and `whole` above all of its estimate."""
    shown = page(
        assigned("new", (300, 0)),
        assigned("known", (50, 100)),
        assigned("whole", (10, 10)),
        assigned("free", (7, 7), prod=False),
        assigned("none", (0, 0)),
        given=report({"known": (60, 40), "whole": (10, 10)}, ["known", "whole"], updated=0.0),
    )
    assert shown["nodeDelta"] == {"cpu": 300 + 7, "memory": 60 + 7}
    assert shown["prodDelta"] == {"cpu": 300, "memory": 60}
    assert shown["prodUsage"] == {"cpu": 70, "memory": 50}
    assert shown["nodeEstimated"] == {"cpu": 367, "memory": 117}
    assert shown["nodeDeltaPods"] == ["ns/free", "ns/known", "ns/new"]
    assert shown["prodDeltaPods"] == ["ns/known", "ns/new"]
    assert shown["nodeEstimatedPods"] == ["ns/free", "ns/known", "ns/new", "ns/whole"]
    assert (shown["updateTime"], shown["reportIntervalSeconds"]) == (0.0, 60)


@pytest.mark.parametrize(("usage", "reported"), [((5, 6), {"cpu": 5, "memory": 6}), (None, None)])
def test_the_usage_of_a_node_is_shown_as_reported(usage, reported):
    assert page(given=report(usage=usage))["nodeUsage"] == reported
