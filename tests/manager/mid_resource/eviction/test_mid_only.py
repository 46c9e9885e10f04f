"""Which node that only Mid pods keep is listed, closed or left, and that a fleet of them comes to rest."""

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types import names
from manager.mid_resource.eviction import mid_only, policy
from manager.mid_resource.eviction.mid_only import Graces, Reported, Room, Step, Survey
from manager.mid_resource.eviction.pod_view import Candidate
from manager.mid_resource.reasons import Closed
from manager.slo_config import strategy

START = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
GRACES = Graces(dt.timedelta(seconds=300), dt.timedelta(seconds=600))


def policy_of(**keys):
    document = strategy.slo.ColocationConfig.model_validate({"enable": True, "midEviction": {"mode": "evict", **keys}})
    return policy.eviction_policy(strategy.node_strategy(strategy.configuration(document), {}, {}))


POLICY = policy_of()


def at(seconds):
    return START + dt.timedelta(seconds=seconds)


def pod(name, cpu=1000, memory=10):
    return Candidate(
        uid=name, namespace="tenant", name=name, requests={names.MID_CPU: cpu, names.MID_MEMORY: memory},
        priority=7000, eviction_priority=0, sub_priority=7000, memory_used=0,
    )  # fmt: skip


def reported(**more):
    return Reported(**{"uid": "u", "policy": POLICY, "graces": GRACES, "prod": (1000, 10)} | more)


def survey(**nodes):
    found = Survey()
    for name, each in nodes.items():
        found.observe(name, each)
    return found


@pytest.mark.parametrize(
    ("keys", "autoscaler", "seconds"),
    [
        ({}, "none", (0, 0)),
        ({}, "karpenter", (300, 600)),
        ({}, "cluster-autoscaler", (300, 600)),
        ({"emptyNodeSeconds": 60}, "none", (60, 600)),
        ({"emptyNodeSeconds": 0}, "karpenter", (0, 0)),
        ({"emptyNodeSeconds": 900}, "karpenter", (900, 900)),
        ({"emptyNodeWithoutRoomSeconds": 0}, "karpenter", (300, 0)),
        ({"emptyNodeWithoutRoomSeconds": 1200}, "karpenter", (300, 1200)),
        ({"mode": "off"}, "karpenter", (0, 0)),
        ({"mode": "advise"}, "karpenter", (300, 600)),
    ],
)
def test_a_key_wins_over_the_autoscaler(keys, autoscaler, seconds):
    assert mid_only.graces(policy_of(**keys), autoscaler) == tuple(dt.timedelta(seconds=each) for each in seconds)


def test_a_node_is_listed_when_it_is_new_and_when_prod_requests_less():
    found = survey(a=reported())
    assert found.due((), 9, at(0)) == ["a"]
    found.attempted("a", at(0))
    found.listed("a", ["shop/web"], [pod("m")], at(0))
    assert found.due((), 9, at(1000)) == []
    found.observe("a", reported(prod=(900, 10)))
    assert found.due((), 9, at(1000)) == ["a"]
    found.attempted("a", at(1000))
    assert found.due((), 9, at(1029)) == [], "one list that fails is not repeated at once"
    found.listed("a", ["shop/web"], [pod("m")], at(1000))
    found.observe("a", reported(prod=(2000, 20)))
    assert found.due((), 9, at(1000 + 30 * 60 - 1)) == []
    assert found.due((), 9, at(1000 + 30 * 60)) == ["a"]


def test_a_node_without_reported_requests_is_listed_from_time_to_time():
    found = survey(a=reported(prod=None))
    found.attempted("a", at(0))
    found.listed("a", ["shop/web"], [], at(0))
    assert (found.due((), 9, at(299)), found.due((), 9, at(300))) == ([], ["a"])


def test_nodes_are_listed_in_order_and_no_more_than_permitted():
    nodes = {name: reported(prod=(cpu, 0)) for name, cpu in (("c", 30), ("a", 20), ("b", 10))}
    found = survey(**nodes, mid_only=reported(prod=(0, 0)))
    found.attempted("mid_only", at(0))
    found.listed("mid_only", [], [pod("m")], at(0))
    assert found.due((), 3, at(60)) == ["b", "a", "c"]
    assert found.due((), 2, at(300)) == ["mid_only", "b"]


@pytest.mark.parametrize(
    "more",
    [
        {"graces": Graces(dt.timedelta(), dt.timedelta())},
        {"kept_because": "it lacks a label"},
        {"closed": Closed.LEAVING},
        {"closed": Closed.CORDONED},
        {"closed": Closed.FROZEN},
    ],
)
def test_a_node_that_is_not_to_be_emptied_is_neither_listed_nor_chosen(more):
    found = survey(a=reported(**more))
    assert found.due((), 9, at(0)) == []
    found.listed("a", [], [pod("m")], at(0))
    assert found.mid_only((), at(0) + GRACES.with_room) == []


@pytest.mark.parametrize("closed", [Closed.NO, Closed.EVICTED, Closed.SCALE_DOWN_CANDIDATE])
def test_the_grace_begins_with_the_first_list_without_another_pod(closed):
    found = survey(a=reported(closed=closed))
    for seconds, keepers in ((0, ["shop/web"]), (100, []), (399, [])):
        found.listed("a", keepers, [pod("m")], at(seconds))
    assert found.mid_only((), at(399)) == []
    assert found.mid_only((), at(401)) == [], "another pod may have been bound since"
    found.listed("a", [], [pod("m")], at(400))
    (node,) = found.mid_only((), at(405))
    assert (node.name, node.since, node.mid_pods) == ("a", at(100), (pod("m"),))
    assert found.mid_only({"a"}, at(400)) == [], "it is closed already"
    assert found.mid_only((), at(406)) == [], "the list is too old to act on"
    found.listed("a", ["shop/web"], [pod("m")], at(420))
    found.listed("a", [], [pod("m")], at(421))
    assert found.mid_only((), at(421)) == [], "the grace begins again"


@pytest.mark.parametrize("between", [{"closed": Closed.CORDONED}, {"kept_because": "do-not-disrupt"}])
def test_what_was_found_before_a_node_was_left_alone_counts_no_longer(between):
    found = survey(a=reported())
    found.listed("a", [], [pod("m")], at(0))
    found.observe("a", reported(**between))
    found.observe("a", reported())
    found.attempted("a", at(300))
    found.listed("a", [], [pod("m")], at(300))
    assert found.mid_only((), at(300)) == []
    assert found.due((), 9, at(300 + 300)) == ["a"]


def test_a_node_without_mid_pods_is_left_to_the_autoscaler():
    found = survey(a=reported())
    found.listed("a", [], [], at(0))
    found.listed("a", [], [], at(300))
    assert found.mid_only((), at(300)) == []


def test_an_emptied_node_is_listed_at_once_when_prod_requests_more():
    found = survey(a=reported(prod=(0, 0), closed=Closed.MID_ONLY))
    found.attempted("a", at(0))
    found.listed("a", [], [pod("m")], at(0))
    assert (found.due({"a"}, 9, at(59)), found.due({"a"}, 9, at(60))) == ([], ["a"])
    found.observe("a", reported(prod=(100, 0), closed=Closed.MID_ONLY))
    assert (found.due({"a"}, 9, at(29)), found.due({"a"}, 9, at(30))) == ([], ["a"])


def test_why_an_emptied_node_is_reopened():
    found = survey(a=reported(closed=Closed.MID_ONLY))
    found.listed("a", [], [pod("m")], at(0))
    assert found.why_reopened("a") == ""
    found.listed("a", ["shop/web"], [], at(30))
    assert found.why_reopened("a") == "the pod shop/web runs there"
    found.observe("a", reported(graces=Graces(dt.timedelta(), dt.timedelta())))
    assert found.why_reopened("a") == "midEviction.emptyNodeSeconds is 0 now"
    assert found.why_reopened("unknown") == ""


def test_a_place_is_a_node_that_other_pods_keep_or_that_is_never_emptied():
    found = survey(
        kept=reported(free=(1, 1)), mid_only=reported(free=(2, 2)), unknown=reported(free=(3, 3)),
        fixed=reported(free=(4, 4), kept_because="it lacks a label"), cordoned=reported(closed=Closed.CORDONED),
    )  # fmt: skip
    found.listed("kept", ["shop/web"], [], at(0))
    found.listed("mid_only", [], [pod("m")], at(0))
    assert sorted(found.places()) == [(1, 1), (4, 4)]


def test_room_is_taken_for_all_pods_or_for_none():
    room = Room([(2000, 100), (1000, 5), (0, 0)])
    assert not room.take([pod("a", 1000), pod("b", 1000), pod("c", 1000)]), "the second place has too little memory"
    assert room.take([pod("a", 1000), pod("b", 1000)])
    assert not room.take([pod("c", 1)])
    assert Room([]).take([])


def only_mid(name, *pods, since=0, graces=GRACES):
    return mid_only.MidOnly(name, at(since), pods, reported(graces=graces))


def steps(nodes, places, slots, seconds, moving=()):
    found = mid_only.choices(nodes, Room(places), moving, slots, at(seconds))
    return {each.node.name: each.step for each in found}


def test_a_node_is_emptied_where_its_pods_fit_and_later_where_they_do_not():
    nodes = [only_mid("a", pod("1")), only_mid("b", pod("2"))]
    assert steps(nodes, [(1000, 10)], 2, 300) == {"a": Step.EMPTY, "b": Step.AWAIT_ROOM}
    assert steps(nodes, [(1000, 10)], 2, 600) == {"a": Step.EMPTY, "b": Step.EMPTY_WITHOUT_ROOM}
    assert steps(nodes, [(9000, 90)], 1, 300) == {"a": Step.EMPTY, "b": Step.AWAIT_TURN}
    assert steps(nodes, [(9000, 90)], -1, 9999) == {"a": Step.AWAIT_TURN, "b": Step.AWAIT_TURN}


def test_pods_of_emptied_nodes_have_their_place_before_others():
    assert steps([only_mid("a", pod("1"))], [(1000, 10)], 1, 300, moving=[pod("0")]) == {"a": Step.AWAIT_ROOM}


def test_with_zero_pods_without_another_place_stay():
    stays = Graces(GRACES.with_room, dt.timedelta())
    assert steps([only_mid("a", pod("1"), graces=stays)], [], 1, 10**6) == {"a": Step.AWAIT_ROOM}


class Fleet:
    """A fleet whose evicted Mid pods return to any open node with room, in the order that harms the most."""

    ROOM = 4  # Mid pods of one core on a node

    def __init__(self, kept, pods, *, most, per_step, removes, prefers_mid_only):
        self.kept = dict(kept)
        self.pods = {name: [pod(f"{name}-{index}") for index in range(count)] for name, count in pods.items()}
        self.most, self.per_step, self.removes = most, per_step, removes
        self.prefers_mid_only = prefers_mid_only
        self.survey, self.emptied, self.pending, self.now = Survey(), set(), [], 0
        self.evicted_on, self.closings, self.most_closed = [], [], 0

    def step(self):
        for name, kept in self.kept.items():
            is_closed = name in self.emptied
            free = 0 if is_closed else 1000 * (self.ROOM - len(self.pods[name]))
            closed = Closed.MID_ONLY if is_closed else Closed.NO
            prod = (1000, 10) if kept else (100, 1)
            self.survey.observe(name, reported(prod=prod, free=(free, 10**6), closed=closed))
        for name in self.survey.due(self.emptied, 10, at(self.now)):
            self.survey.attempted(name, at(self.now))
            self.survey.listed(name, ["shop/web"] if self.kept[name] else [], self.pods[name], at(self.now))
        for name in [each for each in self.emptied if self.survey.why_reopened(each)]:
            self.emptied.remove(name)
        nodes = self.survey.mid_only(self.emptied, at(self.now))
        room, moving = Room(self.survey.places()), self.survey.moving(self.emptied)
        slots = self.most - len(self.emptied)
        for choice in mid_only.choices(nodes, room, moving, slots, at(self.now)):
            if choice.step.empties:
                self.emptied.add(choice.node.name)
                self.closings.append(choice.node.name)
        self.most_closed = max(self.most_closed, len(self.emptied))
        self.evict()
        self.schedule()
        if self.removes:
            for name in [each for each in self.emptied if not self.pods[each] and not self.kept[each]]:
                self.emptied.remove(name)
                self.survey.forget(name)
                del self.kept[name], self.pods[name]
        self.now += 30

    def evict(self):
        for _ in range(self.per_step):
            having = [name for name in sorted(self.emptied) if self.pods[name] and not self.kept[name]]
            if having:
                self.pending.append(self.pods[having[0]].pop())
                self.evicted_on.append(having[0])

    def schedule(self):
        def order(name):
            return (self.kept[name] is self.prefers_mid_only, len(self.pods[name]), name)

        for _ in range(len(self.pending)):
            open_ = [each for each in self.kept if each not in self.emptied and len(self.pods[each]) < self.ROOM]
            if not open_:
                return
            self.pods[min(open_, key=order)].append(self.pending.pop(0))


fleets = st.integers(1, 12).flatmap(
    lambda size: st.builds(
        Fleet,
        st.fixed_dictionaries({f"n{index:02}": st.booleans() for index in range(size)}),
        st.fixed_dictionaries({f"n{index:02}": st.integers(0, Fleet.ROOM) for index in range(size)}),
        most=st.integers(1, 3), per_step=st.integers(1, 5), removes=st.booleans(), prefers_mid_only=st.booleans(),
    )
)  # fmt: skip
STEPS = 12 * (GRACES.without_room // dt.timedelta(seconds=30) + 2 * Fleet.ROOM + 4)
"""Enough for each of 12 nodes to be closed and emptied after the one before."""


@settings(max_examples=60)
@given(fleets)
def test_a_fleet_comes_to_rest_after_each_mid_only_node_was_emptied_once(fleet):
    mid_only_nodes = {name for name, kept in fleet.kept.items() if not kept}
    for _ in range(STEPS):
        fleet.step()
    at_rest = len(fleet.evicted_on)
    for _ in range(50):
        fleet.step()
    assert len(fleet.evicted_on) == at_rest
    assert set(fleet.evicted_on) <= mid_only_nodes, "no pod leaves a node that other pods keep"
    assert len(fleet.closings) == len(set(fleet.closings)), "a node is closed once"
    assert len(fleet.evicted_on) <= Fleet.ROOM * len(mid_only_nodes)
    assert fleet.most_closed <= fleet.most
    if fleet.removes:
        assert not any(fleet.pods[name] for name, kept in fleet.kept.items() if not kept), "no Mid pod keeps a node"
    else:
        assert len(fleet.closings) <= fleet.most, "nodes that no autoscaler removes do not lose all their Mid pods"


@settings(max_examples=30)
@given(fleets, st.lists(st.tuples(st.integers(0, 11), st.integers(1, 40)), max_size=20))
def test_each_closing_needs_a_time_without_other_pods_of_its_own(fleet, changes):
    episodes = sum(not kept for kept in fleet.kept.values())
    for index, seconds in changes:
        if (name := f"n{index:02}") in fleet.kept:
            fleet.kept[name] = not fleet.kept[name]
            episodes += not fleet.kept[name]
        for _ in range(seconds):
            fleet.step()
    for _ in range(STEPS):
        fleet.step()
    assert len(fleet.closings) <= episodes
    assert len(fleet.evicted_on) <= Fleet.ROOM * episodes
