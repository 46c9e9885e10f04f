"""The right to evict while the apiserver does not answer."""

import datetime as dt

from manager.mid_resource.eviction.records import Rights
from tests.fakes import cluster

AWAY = cluster.Refusal(500, "InternalError", message="etcd is away")


async def test_a_failed_request_changes_no_right(world, caplog):
    world.server.may_evict = {""}
    assert await world.rights.refresh()
    world.now += dt.timedelta(minutes=2)
    world.server.refuse["POST", "selfsubjectaccessreviews"] = AWAY
    assert not await world.rights.refresh()
    assert world.rights.everywhere
    assert "cannot ask whether pods may be evicted" in caplog.text
    world.server.refuse.clear()
    world.server.may_evict = set()
    assert await world.rights.refresh()
    assert not world.rights.everywhere


async def test_where_nothing_answers_after_an_eviction_was_forbidden_the_right_counts_as_lost(world):
    world.server.may_evict = {"a"}
    rights = Rights(world.api, "a", world.clock)
    assert not await rights.lost("a")
    world.server.refuse["POST", "selfsubjectaccessreviews"] = AWAY
    assert await rights.lost("a")
