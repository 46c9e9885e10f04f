"""Pods whose eviction was accepted."""

from tests.manager.evictions import TENANT


async def test_a_pod_counts_as_leaving_once_its_eviction_was_accepted_whatever_a_list_shows(short):
    await short.start()
    for name in "abc":
        short.add_pod(name)
    uid = short.server.get("pods", "a", TENANT)["metadata"]["uid"]
    assert not set(short.world.evictor.newly_evicted())
    await short.minutes(3)
    assert short.evicted == ["a"]
    assert set(short.world.evictor.newly_evicted()) == {uid}
