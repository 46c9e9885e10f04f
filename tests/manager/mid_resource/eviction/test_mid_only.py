"""Which node that only Mid pods keep is listed, closed or left, and that a fleet of them comes to rest."""

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types import names
from manager.mid_resource.eviction import mid_only, policy
from manager.mid_resource.eviction.mid_only import LEFT_ALONE_FOR, Step, Survey
from manager.mid_resource.eviction.pod_view import Candidate, Keeper
from manager.mid_resource.eviction.policy import Graces
from manager.mid_resource.eviction.progress import REMOVED_WITHIN
from manager.mid_resource.eviction.reported import Reported
from manager.mid_resource.eviction.room import Room, Rooms
from manager.mid_resource.eviction.shortage import Trigger
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
        found.observe(name, each, START)
    return found


def keeper(requests=(1000, 10), key="shop/web"):
    return Keeper(key, requests)


def why_reopened(found, name="a", trigger=Trigger.MID_ONLY, seconds=0):
    return found.why_reopened(name, trigger, START, at(seconds))


def test_a_node_is_listed_when_it_is_new_and_when_prod_requests_less():
    found = survey(a=reported())
    assert found.due((), 9, at(0)) == ["a"]
    found.attempted("a", at(0))
    found.listed("a", [keeper()], [pod("m")], at(0))
    assert found.due((), 9, at(1000)) == []
    found.observe("a", reported(prod=(900, 10)), START)
    assert found.due((), 9, at(1000)) == ["a"]
    found.attempted("a", at(1000))
    assert found.due((), 9, at(1009)) == [], "one list that fails is not repeated at once"
    found.listed("a", [keeper()], [pod("m")], at(1000))
    found.observe("a", reported(prod=(2000, 20)), START)
    assert found.due((), 9, at(1000 + 30 * 60 - 1)) == []
    assert found.due((), 9, at(1000 + 30 * 60)) == ["a"]


def test_a_node_without_reported_requests_is_listed_from_time_to_time():
    found = survey(a=reported(prod=None))
    found.attempted("a", at(0))
    found.listed("a", [keeper()], [], at(0))
    assert (found.due((), 9, at(299)), found.due((), 9, at(300))) == ([], ["a"])


def test_nodes_are_listed_in_order_and_no_more_than_permitted():
    nodes = {name: reported(prod=(cpu, 0)) for name, cpu in (("c", 30), ("a", 20), ("b", 10))}
    found = survey(**nodes, mid_only=reported(prod=(0, 0)))
    found.attempted("mid_only", at(0))
    found.listed("mid_only", [], [pod("m")], at(0))
    assert found.due((), 3, at(60)) == ["b", "a", "c"]
    assert found.due((), 2, at(300)) == ["mid_only", "b"]


@pytest.mark.parametrize("mid_pods", [[], [pod("m")]])
def test_many_nodes_that_stay_as_they_are_keep_no_other_one_from_being_listed(mid_pods):
    """Empty nodes of a group at its minimum, and nodes that wait for room or for their turn, do not change."""
    same = {f"a{index:03}": reported(prod=(100, 0)) for index in range(200)}
    found, listed = survey(**same, kept=reported(prod=(4000, 0)), last=reported(prod=(200, 0))), []
    for seconds in range(0, 7200, 5):
        if seconds == 3600:
            found.observe("kept", reported(prod=(300, 0)), at(seconds))
        for name in found.due((), 10, at(seconds)):
            found.attempted(name, at(seconds))
            keepers = [keeper()] if name == "kept" and seconds < 3600 else []
            found.listed(name, keepers, [pod("m")] if name in ("kept", "last") else mid_pods, at(seconds))
            listed.append((seconds, name))
    assert sum(name == "kept" and 3600 <= seconds < 3700 for seconds, name in listed) == 1
    assert sum(name == "last" for _, name in listed) > 20


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
    for seconds, keepers in ((0, [keeper()]), (100, []), (399, [])):
        found.listed("a", keepers, [pod("m")], at(seconds))
    assert found.mid_only((), at(399)) == []
    assert found.mid_only((), at(401)) == [], "another pod may have been bound since"
    found.listed("a", [], [pod("m")], at(400))
    (node,) = found.mid_only((), at(405))
    assert (node.name, node.since, node.mid_pods) == ("a", at(100), (pod("m"),))
    assert found.mid_only({"a"}, at(400)) == [], "it is closed already"
    assert found.mid_only((), at(406)) == [], "the list is too old to act on"
    found.listed("a", [keeper()], [pod("m")], at(420))
    found.listed("a", [], [pod("m")], at(421))
    assert found.mid_only((), at(421)) == [], "the grace begins again"


@pytest.mark.parametrize("between", [{"closed": Closed.CORDONED}, {"kept_because": "do-not-disrupt"}])
def test_what_was_found_before_a_node_was_left_alone_counts_no_longer(between):
    found = survey(a=reported())
    found.listed("a", [], [pod("m")], at(0))
    found.observe("a", reported(**between), START)
    found.observe("a", reported(), START)
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
    found.observe("a", reported(prod=(100, 0), closed=Closed.MID_ONLY), START)
    assert (found.due({"a"}, 9, at(9)), found.due({"a"}, 9, at(10))) == ([], ["a"])


def test_why_an_emptied_node_is_reopened():
    found = survey(a=reported(closed=Closed.MID_ONLY))
    found.listed("a", [], [pod("m")], at(0))
    assert why_reopened(found) == ""
    found.listed("a", [keeper()], [], at(30))
    assert why_reopened(found) == "the pod shop/web runs there"
    found.observe("a", reported(graces=Graces(dt.timedelta(), dt.timedelta())), START)
    assert why_reopened(found) == "midEviction.emptyNodeSeconds is 0 now"
    assert why_reopened(found, "unknown") == ""


def test_a_place_is_a_node_that_other_pods_keep_or_that_is_never_emptied():
    found = survey(
        kept=reported(free=(1, 1)), mid_only=reported(free=(2, 2)), unknown=reported(free=(3, 3)),
        fixed=reported(free=(4, 4), kept_because="it lacks a label"), cordoned=reported(closed=Closed.CORDONED),
    )  # fmt: skip
    found.listed("kept", [keeper()], [], at(0))
    found.listed("mid_only", [], [pod("m")], at(0))
    assert has_room(found.rooms(()).mid, (4, 4), (1, 1))
    assert not has_room(found.rooms(()).mid, (4, 4), (1, 1), (1, 1))
    found.listed("fixed", [], [pod("n", 4, 4)], at(0))
    assert not has_room(found.rooms({"fixed"}).mid, (4, 4)), "the place is taken by a pod of an emptied node"


def has_room(room, *pods):
    return room.after(pods) is not None


def only_mid(name, *pods, since=0, graces=GRACES):
    return mid_only.MidOnly(name, at(since), pods, reported(graces=graces))


def steps(nodes, places, slots, seconds, native=()):
    mid, others = (Room({f"place-{index}": free for index, free in enumerate(each)}) for each in (places, native))
    found = mid_only.choices(nodes, Rooms(mid, others), slots, at(seconds))
    return {each.node.name: each.step for each in found}


def test_a_node_is_emptied_where_its_pods_fit_and_later_where_they_do_not():
    nodes = [only_mid("a", pod("1")), only_mid("b", pod("2"))]
    assert steps(nodes, [(1000, 10)], 2, 300) == {"a": Step.EMPTY, "b": Step.AWAIT_ROOM}
    assert steps(nodes, [(1000, 10)], 2, 600) == {"a": Step.EMPTY, "b": Step.EMPTY_WITHOUT_ROOM}
    assert steps(nodes, [(9000, 90)], 1, 300) == {"a": Step.EMPTY, "b": Step.AWAIT_TURN}
    assert steps(nodes, [(9000, 90)], -1, 9999) == {"a": Step.AWAIT_TURN, "b": Step.AWAIT_TURN}


def test_with_zero_pods_without_another_place_stay():
    stays = Graces(GRACES.with_room, dt.timedelta())
    assert steps([only_mid("a", pod("1"), graces=stays)], [], 1, 10**6) == {"a": Step.AWAIT_ROOM}


def underused(prod=(1000, 10), **more):
    return reported(underused_percent=50, prod=prod, allocatable=(4000, 40), **more)


def test_a_node_is_underused_while_its_other_pods_request_little_for_the_grace():
    found = survey(a=underused(), b=underused((2001, 10)), c=underused((2000, 21)), d=reported(allocatable=(4000, 40)))
    found.observe("e", underused((2000, 20)), at(10))
    for name in "abcde":
        found.attempted(name, at(305))
        found.listed(name, [keeper()], [pod("m")], at(305))
    (node,) = found.mid_only((), at(305))
    assert (node.name, node.since, node.others) == ("a", START, ((1000, 10),))
    assert (found.promising((), 9, at(340)), found.promising((), 9, at(640))) == ([], ["a", "e"]), (
        "Mid pods fit nowhere"
    )
    found.observe("a", underused((3000, 10)), at(400))
    found.observe("a", underused(), at(410))
    found.listed("a", [keeper()], [pod("m")], at(709))
    assert found.mid_only((), at(709)) == [], "the grace begins again"


@pytest.mark.parametrize("keepers", [[keeper(), keeper(None)], [keeper(None)]])
def test_a_pod_that_no_autoscaler_moves_keeps_its_node_as_it_is(keepers):
    found = survey(a=underused())
    found.listed("a", keepers, [pod("m")], at(300))
    assert found.mid_only((), at(300)) == []


def test_no_more_nodes_are_emptied_than_the_other_pods_of_all_of_them_leave_room_for():
    found = survey(a=underused(), b=underused(), c=underused(), full=underused((3900, 39)))
    for name in "abc":
        found.listed(name, [keeper((2500, 25))], [pod(name)], at(600))
    nodes = found.mid_only((), at(600))
    rooms = found.rooms(())
    chosen = [each.node.name for each in mid_only.choices(nodes, rooms, 9, at(600)) if each.step.empties]
    assert chosen == ["a"], "its pods take the room of b, so b and c cannot move to one another"


def test_a_node_that_is_emptied_is_no_place_for_the_pods_of_the_next():
    found = survey(a=underused(), b=underused(closed=Closed.UNDERUSED))
    found.listed("b", [keeper((2000, 20))], [pod("n")], at(600))
    found.listed("a", [keeper((500, 5))], [pod("m")], at(600))
    nodes = found.mid_only({"b"}, at(600))
    assert list(mid_only.choices(nodes, found.rooms({"b"}), 9, at(600))) == []


@pytest.mark.parametrize(
    ("of_emptied", "chosen"), [((100, 1), ["a"]), ((2000, 20), []), ((2000, 1), []), (None, ["a"])]
)
def test_the_other_pods_of_an_emptied_node_take_the_room_before_those_of_the_next(of_emptied, chosen):
    found = survey(a=underused(), b=underused(closed=Closed.UNDERUSED), stays=underused((1800, 18)))
    found.listed("stays", [keeper((1800, 18))], [], at(600))
    found.listed("b", [keeper(of_emptied)], [pod("n")], at(600))
    found.listed("a", [keeper((500, 5))], [pod("m")], at(600))
    choices = mid_only.choices(found.mid_only({"b"}, at(600)), found.rooms({"b"}), 9, at(600))
    assert [each.node.name for each in choices if each.step.empties] == chosen


def test_a_node_that_the_autoscaler_keeps_opens_again_and_is_left_alone():
    closed = underused(closed=Closed.UNDERUSED)
    found = survey(a=closed)
    found.listed("a", [keeper()], [pod("m")], at(0))
    late = REMOVED_WITHIN.total_seconds()
    assert why_reopened(found, trigger=Trigger.UNDERUSED, seconds=late) == "", "its Mid pods have not gone yet"
    found.listed("a", [keeper()], [], at(60))
    assert why_reopened(found, trigger=Trigger.UNDERUSED, seconds=late - 1) == ""
    assert why_reopened(found, trigger=Trigger.UNDERUSED, seconds=late).startswith(
        "no autoscaler has removed it within 15"
    )
    found.observe("a", underused(), at(late))
    end = late + LEFT_ALONE_FOR.total_seconds()
    for seconds, chosen in ((end - 1, 0), (end, 1)):
        found.listed("a", [keeper()], [pod("m")], at(seconds))
        assert len(found.mid_only((), at(seconds))) == chosen


def test_a_new_leader_keeps_a_node_closed_until_it_has_listed_its_pods():
    found = survey(a=underused(closed=Closed.UNDERUSED))
    late = REMOVED_WITHIN.total_seconds()
    assert why_reopened(found, trigger=Trigger.UNDERUSED, seconds=late) == ""
    found.listed("a", [keeper()], [], at(late))
    assert why_reopened(found, trigger=Trigger.UNDERUSED, seconds=late) != ""


def test_a_node_opens_again_once_its_other_pods_request_more():
    found = survey(a=underused((3000, 10), closed=Closed.UNDERUSED))
    assert why_reopened(found, trigger=Trigger.UNDERUSED) == "its other pods request more than 50 % of it"


def test_without_a_fresh_report_no_node_is_underused_and_none_has_room_for_the_pods_of_others():
    """An agent that is dead for long: Prod pods came since, and the newest report does not show them."""
    found = survey(a=underused(), b=underused(is_current=False))
    for name in "ab":
        found.listed(name, [keeper((500, 5))], [pod(name)], at(600))
    (node,) = found.mid_only((), at(600))
    assert node.name == "a"
    assert list(mid_only.choices([node], found.rooms(()), 9, at(600))) == []
    found.observe("b", underused(), at(600))
    assert [each.node.name for each in mid_only.choices([node], found.rooms(()), 9, at(600))] == ["a"]
    found.observe("b", underused(is_current=False, closed=Closed.UNDERUSED), at(610))
    assert why_reopened(found, "b", trigger=Trigger.UNDERUSED) == "", "its agent may have ended with the node"


pods_of_nodes = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 20)), max_size=3), st.integers(1, 3)),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=100)
@given(pods_of_nodes, st.integers(1, 8))
def test_the_other_pods_of_all_emptied_nodes_have_a_place_on_those_that_stay(nodes, slots):
    found = Survey()
    for index, (others, mid_pods) in enumerate(nodes):
        used = sum(cpu for cpu, _ in others), sum(memory for _, memory in others)
        found.observe(f"n{index}", underused(used), START)
        keepers = [keeper(each, f"shop/{place}") for place, each in enumerate(others)]
        found.listed(f"n{index}", keepers, [pod(f"m{index}-{each}") for each in range(mid_pods)], at(0))
        found.listed(f"n{index}", keepers, [pod(f"m{index}-{each}") for each in range(mid_pods)], at(600))
    chosen = mid_only.choices(found.mid_only((), at(600)), found.rooms(()), slots, at(600))
    emptied = {each.node.name for each in chosen if each.step.empties}
    assert len(emptied) <= slots
    moved = [each for index, (others, _) in enumerate(nodes) if f"n{index}" in emptied for each in others]
    free = [
        (4000 - sum(cpu for cpu, _ in others), 40 - sum(memory for _, memory in others))
        for index, (others, _) in enumerate(nodes) if f"n{index}" not in emptied
    ]  # fmt: skip
    assert sum(cpu for cpu, _ in moved) <= sum(max(cpu, 0) for cpu, _ in free)
    assert sum(memory for _, memory in moved) <= sum(max(memory, 0) for _, memory in free)


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
            seen = reported(prod=prod, free=(free, 10**6), closed=closed)
            self.survey.observe(name, seen, at(self.now))
        for name in self.survey.due(self.emptied, 10, at(self.now)):
            self.survey.attempted(name, at(self.now))
            self.survey.listed(name, [keeper()] if self.kept[name] else [], self.pods[name], at(self.now))
        for name in [each for each in self.emptied if why_reopened(self.survey, each)]:
            self.emptied.remove(name)
        nodes = self.survey.mid_only(self.emptied, at(self.now))
        slots = self.most - len(self.emptied)
        for choice in mid_only.choices(nodes, self.survey.rooms(self.emptied), slots, at(self.now)):
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


@pytest.mark.parametrize(
    ("configured", "nodes", "most"), [(None, 3, 1), (None, 200, 20), (None, 5000, 50), (80, 10, 80)]
)
def test_how_many_nodes_are_emptied_at_a_time_grows_with_the_fleet_up_to_a_bound(configured, nodes, most):
    assert policy.most_emptied(configured, nodes) == most


@pytest.mark.parametrize(
    ("more", "free"),
    [
        ({"prod": None}, (0, 0)),
        ({"is_current": False}, (0, 0)),
        ({"prod": (3, 12)}, (1, 0)),
        ({"prod": (5, 9)}, (0, 1)),
    ],
)
def test_natively_free_is_what_no_prod_pod_requests_by_a_fresh_report(more, free):
    assert reported(**{"allocatable": (4, 10)} | more).native_free == free
