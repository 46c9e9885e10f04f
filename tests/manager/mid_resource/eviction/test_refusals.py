"""Evictions that the apiserver or its admission refuses: one pod is concerned, and none of another namespace."""

from tests.fakes import cluster
from tests.manager.evictions import budget_refuses


async def test_a_pod_whose_eviction_admission_forbids_protects_no_other_pod_and_takes_no_right(short):
    """A webhook may answer 403, and so does the apiserver for a pod of a namespace that is being deleted."""
    await short.start()
    for name in "abc":
        short.add_pod(name)
    short.add_pod("theirs", namespace="zzz")

    def forbids(request):
        if request.path.endswith("/a/eviction"):
            raise cluster.Refusal(403, "Forbidden", "a", "admission webhook denied the request")

    short.server.on_write = forbids
    may_evict = []
    for _ in range(8):
        await short.minutes(1)
        await short.world.evictor.check_rights()
        may_evict.append(short.world.evictor.may_evict())
    assert short.evicted == ["b", "c"]
    assert all(may_evict)
    assert "MidEvictionRefused" in short.reasons()


async def test_a_right_that_is_taken_back_is_known_with_the_first_eviction_that_is_forbidden(short):
    await short.start()
    await short.lose_the_right()
    assert short.attempts() == 1
    await short.world.evictor.check_rights()
    assert not short.world.evictor.may_evict()
    await short.minutes(5)
    assert (short.evicted, short.attempts()) == ([], 1)
    assert "MidEvictionNotAllowed" in short.reasons()


async def test_many_refused_pods_of_one_namespace_do_not_end_the_evictions_of_a_node(short):
    await short.start()
    for index in range(40):
        short.add_pod(f"refused-{index}", 100)
    short.add_pod("theirs", 100, namespace="zzz")
    budget_refuses(short.server)
    await short.minutes(7, calculated=(100, 10_000))
    assert short.evicted == []
    await short.minutes(4, calculated=(100, 10_000))
    assert short.evicted == ["theirs"]


async def test_a_pod_that_stays_after_a_conflict_is_evicted_later(short):
    """The apiserver answers so as well where the status of a pod that starts changes all the time."""
    await short.start()
    short.add_pod("a", 3000)
    conflicts = []

    def conflict_once(request):
        if request.path.endswith("/eviction") and not conflicts:
            conflicts.append(request)
            raise cluster.Refusal(409, "Conflict", "a", "the object has been modified")

    short.server.on_write = conflict_once
    await short.minutes(5)
    assert (short.evicted, len(conflicts)) == ([], 1)
    await short.minutes(5)
    assert short.evicted == ["a"]
