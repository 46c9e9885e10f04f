"""Places for pods that move: for all of them or for none."""

from manager.mid_resource.eviction.room import Room


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
