"""In which order nodes that Mid pods keep are listed, compared, emptied and given up. Pure."""

import pytest

from manager.mid_resource.eviction import mid_only
from manager.mid_resource.eviction.mid_only import LEFT_ALONE_FOR, Step
from manager.mid_resource.eviction.progress import REMOVED_WITHIN, STUCK_AFTER, Progress
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.reasons import Closed
from tests.manager.mid_resource.eviction.test_mid_only import (
    GRACES,
    at,
    has_room,
    keeper,
    only_mid,
    pod,
    reported,
    steps,
    survey,
    underused,
    why_reopened,
)

GRACE = GRACES.with_room.total_seconds()
STUCK, REMOVED = STUCK_AFTER.total_seconds(), REMOVED_WITHIN.total_seconds()


def large(**more):
    """Return a node that is never emptied and has room for the pods of others."""
    return reported(kept_because="it lacks a label", allocatable=(99_000, 990), free=(99_000, 990), **more)


def test_among_equals_the_node_that_was_tried_longest_ago_is_listed_first_and_one_never_tried_before_it():
    found = survey(a=reported(), b=reported(), c=reported())
    found.attempted("a", at(0))
    found.attempted("b", at(5))
    assert found.due((), 9, at(20)) == ["c", "a", "b"]


def test_a_list_that_failed_is_repeated_after_ten_seconds():
    found = survey(a=reported())
    found.attempted("a", at(0))
    assert (found.due((), 9, at(9)), found.due((), 9, at(10))) == ([], ["a"])


@pytest.mark.parametrize(("unknown", "prod"), [("z", (0, 5)), ("z", (1, 0)), ("a", (0, 0))])
def test_a_node_whose_requests_are_unknown_counts_as_one_that_requests_nothing(unknown, prod):
    found = survey(**{unknown: reported(prod=None)}, b=reported(prod=prod))
    assert found.due((), 9, at(0)) == [unknown, "b"]


def test_one_of_five_lists_is_kept_for_less_pressing_nodes():
    pressing = [f"p{index:02}" for index in range(12)]
    found = survey(**dict.fromkeys([*pressing, "x", "y", "z"], reported()))
    for name in pressing:
        found.listed(name, [], [pod(name)], at(0))
    assert found.due((), 10, at(GRACE)) == [*pressing[:8], "x", "y"]
    assert found.due((), 4, at(GRACE)) == pressing[:4]
    found.forget("y")
    found.forget("z")
    assert found.due((), 10, at(GRACE)) == [*pressing[:8], "x", "p08"]


def test_nodes_are_listed_by_how_likely_they_are_to_be_emptied():
    found = survey(mid_only=reported(), lost=reported(), new=reported(), kept=reported())
    found.listed("mid_only", [], [pod("m")], at(0))
    for name in ("lost", "kept"):
        found.listed(name, [keeper()], [], at(0))
    found.observe("lost", reported(prod=(900, 10)), at(0))
    for index, name in enumerate(("kept", "new", "lost", "mid_only")):
        found.attempted(name, at(index))
    assert found.due((), 9, at(3600)) == ["mid_only", "lost", "new", "kept"]


def test_an_emptied_node_where_prod_requests_more_is_listed_first():
    found = survey(a=reported(closed=Closed.MID_ONLY), b=reported(closed=Closed.MID_ONLY))
    for name in "ab":
        found.attempted(name, at(0))
        found.listed(name, [], [pod(name)], at(0))
    found.attempted("b", at(30))
    found.observe("b", reported(prod=(1001, 10), closed=Closed.MID_ONLY), at(50))
    assert found.due({"a", "b"}, 9, at(60)) == ["b", "a"]


def test_one_node_that_may_be_emptied_is_enough_to_list_pods():
    assert survey(a=large(), b=reported()).is_wanted()
    assert not survey(a=large()).is_wanted()
    assert not survey().is_wanted()


def test_the_time_of_a_closed_node_begins_with_its_closing():
    found = survey(a=reported(closed=Closed.MID_ONLY))
    found.listed("a", [], [pod("m")], at(0))
    found.closed("a", at(600))
    found.closed("unknown", at(600))
    found.listed("a", [], [pod("m")], at(STUCK))
    assert why_reopened(found, seconds=600 + STUCK - 1) == ""
    assert why_reopened(found, seconds=600 + STUCK) == "its Mid pods stayed, or others came, for 60 minutes"


def test_a_pod_that_leaves_prolongs_the_time_of_a_closed_node():
    found = survey(a=reported(closed=Closed.MID_ONLY))
    found.listed("a", [], [pod("m"), pod("n")], at(0))
    found.closed("a", at(0))
    found.listed("a", [], [pod("n")], at(1800))
    assert why_reopened(found, seconds=1800 + STUCK - 1) == ""
    assert why_reopened(found, seconds=1800 + STUCK) != ""


@pytest.mark.parametrize(
    ("trigger", "leaving", "seconds", "why"),
    [
        (Trigger.MID_ONLY, [pod("m")], STUCK - 1, ""),
        (Trigger.MID_ONLY, [pod("m")], STUCK, "its Mid pods stayed"),
        (Trigger.MID_ONLY, [], 10 * STUCK, ""),
        (Trigger.UNDERUSED, [pod("m")], REMOVED - 1, ""),
        (Trigger.UNDERUSED, [pod("m")], REMOVED, "no autoscaler has removed it"),
        (Trigger.UNDERUSED, [], REMOVED, "no autoscaler has removed it"),
    ],
)
def test_pods_that_terminate_keep_a_node_that_only_they_keep(trigger, leaving, seconds, why):
    found = survey(a=underused(closed=Closed.MID_ONLY))
    found.listed("a", [], [pod("m")], at(0))
    found.closed("a", at(0))
    found.listed("a", [], [], at(30), leaving)
    assert why_reopened(found, trigger=trigger, seconds=seconds)[: len(why) or None] == why


def with_place(**nodes):
    """Return a survey of these nodes, each listed at 0 with a pod that moves to the one with room, and no Mid pod."""
    found = survey(**nodes, place=large())
    for name in nodes:
        found.listed(name, [keeper((9000, 90))], [], at(0))
    return found


def test_underused_nodes_are_promising_once_their_grace_is_over_and_while_a_further_one_may_be_closed():
    found = with_place(a=underused(has_mid_pods=True), b=underused(has_mid_pods=True))
    assert found.promising((), 9, at(GRACE - 1)) == []
    assert found.promising((), 9, at(GRACE)) == ["a", "b"]
    assert found.promising((), 1, at(GRACE)) == ["a"]
    assert found.promising((), 0, at(GRACE)) == found.promising((), -1, at(GRACE)) == []


@pytest.mark.parametrize(
    ("has_mid_pods", "listed_at", "is_promising"),
    [(True, GRACE - 60, True), (True, GRACE - 59, False), (False, GRACE - 60, False), (False, 0, False)],
)
def test_a_report_with_mid_pods_outdates_a_list_without_one_after_a_minute(has_mid_pods, listed_at, is_promising):
    found = with_place(a=underused(has_mid_pods=has_mid_pods))
    found.listed("a", [keeper()], [], at(listed_at))
    assert found.promising((), 9, at(GRACE)) == ["a"] * is_promising


def test_a_node_whose_list_counts_no_longer_may_have_mid_pods():
    found = with_place(a=underused())
    found.observe("a", underused(closed=Closed.CORDONED), at(10))
    found.observe("a", underused(), at(20))
    assert found.promising((), 9, at(20 + GRACE)) == ["a"]


def test_of_many_promising_nodes_those_never_given_up_and_with_the_least_requests_are_compared(monkeypatch):
    found = with_place(
        a=underused((2000, 10), has_mid_pods=True), b=underused(has_mid_pods=True),
        c=underused((500, 5), has_mid_pods=True),
    )  # fmt: skip
    found.leave_alone("c", at(0), GRACES.with_room)
    for most, names in ((1, ["b"]), (2, ["b", "a"]), (3, ["b", "a", "c"])):
        monkeypatch.setattr(mid_only, "MOST_COMPARED", most)
        assert found.promising((), 9, at(GRACE)) == names


def test_nodes_that_were_given_up_come_last_and_the_one_longest_ago_first():
    found = survey(a=reported(), b=reported(), c=reported())
    for name in "abc":
        found.listed(name, [], [pod(name)], at(0))
    found.leave_alone("a", at(100))
    found.leave_alone("b", at(50))
    late = 100 + LEFT_ALONE_FOR.total_seconds() + GRACE
    for name in "abc":
        found.listed(name, [], [pod(name)], at(late))
    assert [each.name for each in found.mid_only((), at(late))] == ["c", "b", "a"]


def test_a_node_to_which_another_pod_came_while_it_was_emptied_was_not_given_up():
    found = survey(a=reported(), b=reported())
    found.listed("a", [keeper()], [pod("m")], at(0))
    assert why_reopened(found, "a") == "the pod shop/web runs there"
    for seconds in (100, 100 + GRACE):
        for name in "ab":
            found.listed(name, [], [pod(name)], at(seconds))
    assert [each.name for each in found.mid_only((), at(100 + GRACE))] == ["a", "b"]


def test_an_underused_node_with_a_pod_that_no_autoscaler_moves_is_left_alone():
    found = survey(a=underused())
    found.listed("a", [keeper(None)], [pod("m")], at(0))
    assert "which no autoscaler moves" in why_reopened(found, trigger=Trigger.UNDERUSED)
    end = LEFT_ALONE_FOR.total_seconds()
    for seconds, names in ((end - 1, []), (end, ["a"])):
        found.listed("a", [keeper()], [pod("m")], at(seconds))
        assert [each.name for each in found.mid_only((), at(seconds))] == names


def test_the_pods_of_emptied_nodes_have_their_place_before_those_of_others():
    found = survey(
        place=reported(kept_because="it lacks a label", free=(3, 3), allocatable=(2000, 20)), emptied=reported()
    )
    found.listed("emptied", [keeper(None)], [pod("m", 2, 2)], at(0))
    assert has_room(found.rooms(()).mid, (3, 3))
    rooms = found.rooms({"emptied"})
    assert has_room(rooms.mid, (1, 1))
    assert not has_room(rooms.mid, (2, 2))
    assert has_room(rooms.native, (1000, 10)), "a pod that no autoscaler moves takes no room"


def test_the_waiting_nodes_are_the_open_ones_that_only_mid_pods_keep():
    found = survey(waits=reported(), kept=reported(), empty=reported(), closed=reported(), large=large())
    for name in ("waits", "kept", "empty", "closed", "large"):
        found.listed(name, [keeper()] * (name == "kept"), [pod(name)] * (name != "empty"), at(0))
    found.leave_alone("kept", at(0))
    assert found.counts({"closed"}) == {"waiting": 1, "closed": 1}
    assert found.counts(()) == {"waiting": 2, "closed": 0}


def of_others(name, others, *pods):
    return mid_only.MidOnly(name, at(0), pods, underused(), others)


def test_a_node_that_has_to_wait_holds_up_no_other_one():
    large_pod, small = only_mid("a", pod("1", 2000, 10)), only_mid("b", pod("2"))
    assert steps([large_pod, small], [(1000, 10)], 2, 300) == {"a": Step.AWAIT_ROOM, "b": Step.EMPTY}
    fits_nowhere = of_others("a", [(1000, 10)], pod("1"))
    assert steps([fits_nowhere, small], [(1000, 10)], 2, 300) == {"b": Step.EMPTY}
    assert steps([fits_nowhere, small], [(1000, 10)], 0, 300) == {"b": Step.AWAIT_TURN}


def test_pods_of_a_node_that_is_emptied_without_room_take_what_there_is_but_nothing_of_their_own_node():
    nodes = [only_mid("a", pod("1"), pod("2", 5000, 10)), only_mid("b", pod("3"))]
    assert steps(nodes, [(1000, 10)], 2, 600) == dict.fromkeys("ab", Step.EMPTY_WITHOUT_ROOM)
    assert steps(nodes, [(2000, 20)], 2, 600) == {"a": Step.EMPTY_WITHOUT_ROOM, "b": Step.EMPTY}
    own = [only_mid("place-0", pod("1", 5000, 10)), only_mid("b", pod("3"))]
    assert steps(own, [(1000, 10)], 2, 600) == {"place-0": Step.EMPTY_WITHOUT_ROOM, "b": Step.EMPTY_WITHOUT_ROOM}


def test_pods_that_come_once_the_autoscaler_had_its_time_are_the_first_of_a_new_count():
    progress = Progress()
    progress.begin("a", at(0))
    progress.listed((), at(60))
    progress.listed("c", at(60 + REMOVED))
    assert not progress.is_stuck(at(60 + REMOVED + STUCK - 1))
    assert progress.is_stuck(at(60 + REMOVED + STUCK))
