"""What the survey of nodes keeps in mind: since when one is closed, and which ones request the least."""

import pytest

from api_types.node_metric.mid_eviction import MidEvictionRecord
from manager.mid_resource.eviction import mid_only
from manager.mid_resource.eviction.turns import BLIND_FOR, Reconciled, Turns
from tests.manager.mid_resource.eviction.test_mid_only import at, pod, reported, survey, why_reopened
from tests.manager.mid_resource.eviction.test_promising import LONG_AGO, NOW, fleet, underused
from tests.manager.mid_resource.eviction.test_turns import POLICY, START

RECORD = MidEvictionRecord("2026-11-21T12:00:00Z", "2026-11-21T12:00:00Z", "tenant/a", trigger="MidCPUShort")


def test_the_hour_in_which_a_pod_has_to_leave_begins_with_the_closing_and_not_with_the_first_list():
    found = survey(a=reported())
    for seconds in (0, 3000):
        found.listed("a", [], [pod("m")], at(seconds))
    found.closed("a", at(3000))
    found.listed("a", [], [pod("m")], at(6599))
    assert why_reopened(found, seconds=6599) == ""
    assert why_reopened(found, seconds=6600) == "its Mid pods stayed, or others came, for 60 minutes"


def test_the_closing_of_a_node_that_is_gone_meanwhile_is_no_error():
    found = survey(a=reported())
    found.forget("a")
    found.closed("a", at(0))
    assert found.reported("a") is None


def test_of_more_nodes_than_are_compared_those_that_request_the_least_are(monkeypatch):
    monkeypatch.setattr(mid_only, "MOST_COMPARED", 1)
    found = fleet(2)
    found.observe("n01", underused((60, 0)), LONG_AGO)
    assert found.promising((), 9, NOW) == ["n02"]


@pytest.mark.parametrize(("a", "b", "first"), [(1, None, "b"), (None, 1, "a"), (2, 1, "b"), (None, None, "a")])
def test_a_node_without_reported_requests_is_listed_as_one_that_requests_nothing(a, b, first):
    found = survey(**{name: reported(prod=cpu and (cpu, 0)) for name, cpu in (("a", a), ("b", b))})
    assert found.due((), 9, at(0))[0] == first


def test_a_node_that_could_not_be_opened_is_tried_again_when_its_pause_is_over():
    turns = Turns()
    turn = turns.observe(Reconciled("a", "a", None, POLICY, RECORD), START)
    turn.closed_until = START + 2 * BLIND_FOR
    assert turns.to_reopen(START + BLIND_FOR) == []
    assert turns.to_reopen(START + 2 * BLIND_FOR) == [turn]


@pytest.mark.parametrize(("kept", "wanted"), [((), False), (("a",), True), (("a", "b"), True), (("b", "c"), False)])
def test_one_node_that_may_be_emptied_is_enough_to_list_pods(kept, wanted):
    """Of the nodes, a may be emptied and the others may not."""
    nodes = {name: reported(kept_because="" if name == "a" else "it is not removed") for name in kept}
    assert survey(**nodes).is_wanted() is wanted
