"""What the evictor remembers of pods, Events and rights is bounded, and the oldest is dropped first."""

import datetime as dt
from collections import OrderedDict

from manager.mid_resource.eviction import node_records, pace, rights
from manager.mid_resource.eviction.pace import NewlyEvicted

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def test_of_too_many_evicted_pods_the_oldest_are_dropped(monkeypatch):
    monkeypatch.setattr(pace, "_MOST_EVICTED", 2)
    known = NewlyEvicted()
    for uid in ("a", "b", "a", "c"):
        known.add(uid, NOW)
    assert set(known.uids(NOW)) == {"a", "c"}


def test_of_too_many_reported_subjects_the_oldest_are_dropped(monkeypatch):
    monkeypatch.setattr(node_records, "_MOST_REMEMBERED", 2)
    known = OrderedDict()
    for key in ("a", "b", "a", "c"):
        node_records.remember(known, key, NOW)
    assert list(known) == ["a", "c"]


async def test_of_too_many_namespaces_all_answers_are_dropped_and_asked_for_again(world, monkeypatch):
    monkeypatch.setattr(rights, "_MOST_NAMESPACES", 3)
    world.server.may_evict = {"a", "b", "c"}

    def reviews():
        return sum("selfsubjectaccessreviews" in each.path for each in world.server.requests)

    for namespace in ("a", "b"):
        assert await world.rights.in_namespace(namespace)
    assert reviews() == 3, "one of them is for all namespaces"
    assert await world.rights.in_namespace("b")
    assert reviews() == 3
    assert await world.rights.in_namespace("c")
    assert reviews() == 4
    assert await world.rights.in_namespace("c")
    assert await world.rights.in_namespace("a")
    assert reviews() == 6, "the answers for all namespaces and for a"
