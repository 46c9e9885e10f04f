"""Evictions that are not permitted: without the right, by admission, by a budget, and of a pod that was replaced."""

import pytest

from tests.fakes import cluster
from tests.manager.evictions import TENANT, Short, budget_refuses


@pytest.fixture
async def short(world):
    return Short(world)


async def test_without_the_right_nothing_is_evicted_and_the_fix_is_named(short):
    await short.start(may_evict=())
    for name in "abc":
        short.add_pod(name)
    await short.minutes(5)
    assert (short.evicted, short.attempts(), short.annotation()) == ([], 0, None)
    messages = [each["message"] for each in short.server.all("events") if each["reason"] == "MidEvictionNotAllowed"]
    (text,) = messages
    assert text.startswith("mode evict without the right to create pods/eviction in tenant: Mid pods there are not")
    assert text.endswith("set the chart's value manager.eviction.namespaces")


async def test_the_right_in_some_namespaces_evicts_there_only(short):
    await short.start(may_evict=("other",))
    short.add_pod("a")
    short.add_pod("b")
    short.add_pod("z", namespace="other")
    await short.minutes(5)
    assert short.evicted == ["z"]


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
    for name in "abc":
        short.add_pod(name)
    await short.minutes(2)
    await short.report()
    await short.world.evictor.check_rights()
    short.server.may_evict = set()
    await short.round()
    assert short.attempts() == 1
    await short.world.evictor.check_rights()
    assert not short.world.evictor.may_evict()
    await short.minutes(5)
    assert (short.evicted, short.attempts()) == ([], 1)
    assert "MidEvictionNotAllowed" in short.reasons()


async def test_a_budget_that_refuses_is_kept_and_tried_less_and_less_often(short):
    await short.start()
    for name in "abc":
        short.add_pod(name)
    budget_refuses(short.server)
    await short.minutes(33)
    assert short.evicted == []
    # 3 pods, each after 30, 60, 120, 240, then 300 s; never more than one attempt of the node in 30 s
    assert short.attempts() < 33
    assert "MidEvictionRefused" in short.reasons()
    short.server.budgets[TENANT] = 1
    await short.minutes(6)
    assert len(short.evicted) == 1


async def test_the_pods_of_another_namespace_wait_for_those_of_a_namespace_that_may_still_go(short):
    """A tenant who protects the pod that is first must lose another one, not the neighbour."""
    await short.start()
    short.add_pod("mine-protected", annotations={"koordinator.sh/eviction-policy": "[]"})
    short.add_pod("mine-other")
    short.add_pod("theirs", namespace="zzz")
    await short.minutes(5)
    assert short.evicted == ["mine-other"]


async def test_a_pod_that_was_replaced_under_its_name_stays(short, monkeypatch):
    await short.start()
    for name in "abc":
        short.add_pod(name)
    await short.minutes(2)

    def replace(request):
        if request.path.endswith("/eviction"):
            name = request.path.split("/")[-2]
            short.server.remove("pods", name, TENANT)
            short.add_pod(name)

    short.server.on_write = replace
    await short.report()
    await short.round()
    assert (short.attempts(), short.evicted) == (1, [])


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
