"""Places of the pods of emptied nodes, and pods whose eviction was accepted."""

from manager.mid_resource.eviction.room import Room
from tests.manager.evictions import TENANT


def test_a_node_with_one_resource_free_is_a_place_for_a_pod_that_requests_that_one():
    assert Room({"a": (1, 0)}).after([(1, 0)])
    assert Room({"a": (0, 1)}).after([(0, 1)])
    assert not Room({"a": (1, 0)}).after([(1, 1)])


def test_the_largest_pods_are_placed_first():
    """From the smallest one on, 1 would take the place of 2."""
    places, pods = {"a": (3, 3), "b": (2, 2)}, [(1, 1), (2, 2), (2, 2)]
    assert Room(places).after(pods)
    room = Room(places)
    room.take(pods)
    assert not room.after([(1, 1)])


def test_each_of_equal_pods_takes_its_room_of_both_resources():
    for free, left in (((2, 9), (0, 7)), ((9, 2), (7, 0))):
        room = Room({"a": free})
        room.take([(1, 1), (1, 1)])
        assert room.after([left])
        assert not room.after([(1, 1)])


async def test_a_pod_counts_as_leaving_once_its_eviction_was_accepted_whatever_a_list_shows(short):
    await short.start()
    for name in "abc":
        short.add_pod(name)
    uid = short.server.get("pods", "a", TENANT)["metadata"]["uid"]
    assert not set(short.world.evictor.newly_evicted())
    await short.minutes(3)
    assert short.evicted == ["a"]
    assert set(short.world.evictor.newly_evicted()) == {uid}
