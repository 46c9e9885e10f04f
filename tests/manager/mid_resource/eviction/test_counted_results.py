"""The counter of attempts, by cause and result."""

import pytest

from manager.metrics.collectors import AttemptResult
from tests.fakes import cluster
from tests.manager.evictions import budget_refuses

OVERLOADED = cluster.Refusal(429, "TooManyRequests", "a", "too many requests")
AWAY = cluster.Refusal(503, "ServiceUnavailable", "a", "etcd is away")


def counted(short, cause="MidCPUShort"):
    """Return the results of the attempts for a cause, without those that never were."""
    sample = short.world.telemetry.registry.get_sample_value
    name = "koord_manager_mid_evictions_total"
    counts = {each.value: sample(name, {"cause": cause, "result": each.value}) for each in AttemptResult}
    return {result: count for result, count in counts.items() if count}


async def attempted_once(short, *answers):
    """Let the first attempt be answered so, or accepted; return after it."""
    await short.start()
    for name in "abc":
        short.add_pod(name)
    left = list(answers)

    def answer(request):
        if request.path.endswith("/eviction") and left:
            raise left.pop(0)

    short.server.on_write = answer
    await short.minutes(2)
    await short.report()
    await short.round()
    assert left == []


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        ([], "evicted"),
        ([cluster.Refusal(404, "NotFound", "a")], "gone"),
        ([cluster.Refusal(409, "Conflict", "a")], "gone"),
        ([cluster.Refusal(500, "InternalError", "a", "more than one budget")], "refused"),
        ([cluster.Refusal(403, "Forbidden", "a", "admission webhook denied the request")], "refused"),
        ([OVERLOADED], "failed"),
        ([AWAY], "failed"),
    ],
)
async def test_an_attempt_is_counted_by_its_result(short, answers, result):
    await attempted_once(short, *answers)
    assert counted(short) == {result: 1}
    sample = short.world.telemetry.registry.get_sample_value
    evicted = sample("koord_manager_namespace_mid_evicted_pods_total", {"namespace": "tenant"})
    assert evicted == (1 if result == "evicted" else 0)


async def test_an_attempt_without_the_right_is_forbidden(short):
    await short.start()
    await short.lose_the_right()
    assert counted(short) == {"forbidden": 1}


async def test_every_refusal_of_a_budget_is_counted(short):
    await short.start()
    for name in "abc":
        short.add_pod(name)
    budget_refuses(short.server)
    await short.minutes(4)
    assert short.attempts() > 1
    assert counted(short) == {"refused": short.attempts()}


async def test_protected_pods_are_counted_at_each_attempt(short):
    """Two of three name no feature by which they may be evicted."""
    await short.start()
    protects = {"koordinator.sh/eviction-policy": "[]"}
    for name, annotations in (("a", protects), ("b", protects), ("c", {})):
        short.add_pod(name, annotations=annotations)
    await short.minutes(2)
    await short.report()
    await short.round()
    assert short.evicted == ["c"]
    assert short.world.telemetry.registry.get_sample_value("koord_manager_mid_protected_pods_total") == 2
