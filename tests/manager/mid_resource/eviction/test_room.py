"""Places for pods that move."""

import datetime as dt

from manager.mid_resource.eviction import mid_only
from manager.mid_resource.eviction.mid_only import Step
from manager.mid_resource.eviction.policy import Graces
from manager.mid_resource.eviction.room import Room
from manager.mid_resource.reasons import Closed
from tests.manager.mid_resource.eviction.test_mid_only import (
    GRACES,
    at,
    keeper,
    pod,
    reported,
    survey,
    underused,
)

STAYS = Graces(GRACES.with_room, dt.timedelta())
"""Graces with which pods without another place keep their node."""


def has_room(room, *pods):
    return room.after(pods) is not None


def test_room_is_taken_for_all_pods_or_for_none_and_never_on_the_node_itself():
    room = Room({"a": (2000, 100), "b": (1000, 5), "c": (0, 0)})
    assert not has_room(room, (1000, 10), (1000, 10), (1000, 10)), "the second place has too little memory"
    left = room.after([(1000, 10), (1000, 10)])
    assert left is not None
    assert not has_room(left, (1, 10))
    assert has_room(room, (2000, 10)), "nothing was taken of the room before"
    assert room.after([(2000, 10)], without="a") is None
    assert has_room(Room({}))


def test_a_place_of_a_pod_that_moves_is_known():
    room = Room({"a": (2000, 100), "b": (3000, 100)})
    after = room.after([(2500, 10)])
    assert (after.is_taken("a"), after.is_taken("b"), room.is_taken("b")) == (False, True, False)


def test_of_many_places_those_with_the_most_count():
    room = Room({f"n{index}": (index, index) for index in range(3000)})
    assert not has_room(room, *[(2500, 2500)] * 501)
    assert has_room(room, *[(2000, 2000)] * 1000)


def test_of_several_pods_those_that_find_a_place_take_it():
    room = Room({"a": (4000, 100)})
    room.take([(1000, 10), (8000, 10), (2000, 10)])
    assert has_room(room, (1000, 80))
    assert not has_room(room, (1001, 80))


def decided(found, emptied, seconds):
    nodes = found.mid_only(emptied, at(seconds))
    return {each.node.name: each.step for each in mid_only.choices(nodes, found.rooms(emptied), 9, at(seconds))}


def with_four_free_cores(closed=Closed.NO):
    """Return a fleet with 4 free cores: e has a pod without a place and two that find one, b has four of one core."""
    found = survey(kept=reported(free=(4000, 100)), e=reported(closed=closed), b=reported(graces=STAYS))
    for seconds in (0, 600):
        found.listed("kept", [keeper()], [], at(seconds))
        found.listed("e", [], [pod("e0", memory=1000), pod("e1"), pod("e2")], at(seconds))
        found.listed("b", [], [pod(f"b{index}") for index in range(4)], at(seconds))
    return found


def test_a_place_counts_once_also_where_another_pod_of_an_emptied_node_fits_nowhere():
    found = with_four_free_cores(Closed.MID_ONLY)
    assert decided(found, {"e"}, 600) == {"b": Step.AWAIT_ROOM}
    found.listed("e", [], [], at(600))
    assert decided(found, {"e"}, 600) == {"b": Step.EMPTY}


def test_the_pods_that_fit_of_a_node_emptied_without_room_take_it_before_those_of_the_next():
    assert decided(with_four_free_cores(), (), 600) == {"e": Step.EMPTY_WITHOUT_ROOM, "b": Step.AWAIT_ROOM}


def test_other_pods_of_an_emptied_node_take_their_place_also_where_one_of_them_fits_nowhere():
    found = survey(a=underused(), b=underused(closed=Closed.UNDERUSED), stays=underused((2000, 20)))
    found.listed("stays", [keeper((2000, 20))], [], at(600))
    found.listed("b", [keeper((5000, 1)), keeper((1800, 1))], [pod("n")], at(600))
    found.listed("a", [keeper((500, 5))], [pod("m")], at(600))
    assert decided(found, {"b"}, 600) == {}
