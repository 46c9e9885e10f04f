"""Evictions that the apiserver or its admission refuses: one pod is concerned, and none of another namespace."""

import pytest

from api_types.kubernetes import quantities
from apiserver_client import session
from benchmarks import take_back
from benchmarks.take_back import RISE_SECONDS, calculated_millis
from manager.metrics.collectors import AttemptResult
from tests.fakes import cluster
from tests.manager.evictions import EVICT, TENANT, budget_refuses
from tests.manager.mid_resource.eviction.test_leaving_nodes import DISRUPTED, change, start, status


async def test_a_pod_that_terminates_for_hours_counts_as_freed_and_is_named(short):
    await short.start()
    short.add_pod("a", spec={"terminationGracePeriodSeconds": 86_400})
    for name in "bc":
        short.add_pod(name)
    await short.minutes(30)
    assert short.evicted == ["a"]
    short.add_pod("d")
    await short.minutes(4)
    assert len(short.evicted) == 2
    assert "MidPodTerminatesSlowly" in short.reasons()


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


async def test_the_annotation_is_on_the_node_before_the_eviction_is_requested(short):
    await short.start()
    for name in "abc":
        short.add_pod(name)
    seen = []
    short.server.on_write = lambda request: request.path.endswith("/eviction") and seen.append(short.annotation())
    await short.minutes(3)
    (before,) = seen
    assert (before["pod"], before["trigger"]) == ("tenant/a", "MidCPUShort")


async def test_a_process_that_lost_the_lease_evicts_nothing(short):
    await short.start()
    for name in "abc":
        short.add_pod(name)
    await short.minutes(2)
    await short.report()
    async with session.connect(short.server.connection(), user_agent="x", may_write=lambda: False) as api:
        short.world.evictor.api = api
        await short.round()
    assert short.attempts() == 0


async def test_a_withdrawal_evicts_nothing(short):
    await short.start()
    for name in "abc":
        short.add_pod(name)
    await short.minutes(3)
    short.world.configure({"enable": False, "midEviction": {"mode": "evict"}})
    await short.world.config.refresh()
    evicted = len(short.evicted)
    await short.minutes(10, calculated=(0, 0))
    assert len(short.evicted) == evicted


async def test_what_comes_back_too_early_does_not_fit_and_is_not_evicted_again(short):
    """The loop of upstream's issue 2529: evicted, placed again, evicted."""
    await short.start()
    for name in "abc":
        short.add_pod(name)
    evictions = []
    for minute in range(60):
        calculated = (2000 if minute < 30 or minute % 3 else 3500, 10_000)  # a peak that flaps
        await short.minutes(1, calculated=calculated)
        short.end_pods()
        free = short.world.mid_of()[0] - short.requested("n1")[0]
        if free >= 1000:  # any scheduler places the pod again as soon as the node has room
            short.add_pod(f"again-{minute}")
        evictions.append(len(short.evicted))
    assert evictions[-1] == 1


async def test_a_drain_ends_on_a_node_whose_resources_cannot_be_calculated(short):
    await short.start()
    for name in "ab":
        short.add_pod(name)
    short.world.configure({**EVICT, "midEmergency": "drain"})
    await short.world.config.refresh()
    await short.minutes(1, per_round=60)
    assert short.evicted == ["a"]
    capacity = {"cpu": "10", "memory": "20k", "ephemeral-storage": "not readable"}
    short.server.patch("nodes", "n1", {"status": {"capacity": capacity}})
    short.world.configure(EVICT)
    await short.world.config.refresh()
    with pytest.raises(quantities.InvalidQuantity):
        await short.report()
    for _ in range(10):
        await short.round()
        short.pass_seconds(60)
    assert short.evicted == ["a"]


async def test_tenants_that_refuse_do_not_keep_other_nodes_short(short):
    nodes = [f"n{number}" for number in range(10)]
    await short.start(nodes=nodes)
    for number, node in enumerate(nodes):
        for name in "abc":
            short.add_pod(f"{node}-{name}", node=node, namespace="refuses" if number < 9 else TENANT)
    budget_refuses(short.server, "refuses")
    await short.minutes(5, nodes=nodes)
    assert short.evicted == ["n9-a"]


async def test_a_new_leader_counts_the_evictions_of_the_last_one(short):
    nodes = [f"n{number}" for number in range(8)]
    await short.start({"enable": True, "midEviction": {"mode": "evict", "reports": 1}}, nodes=nodes)
    for node in nodes:
        for name in "abc":
            short.add_pod(f"{node}-{name}", node=node)
    for node in nodes:
        await short.report(node)
    await short.round()
    assert len(short.evicted) == 5
    short.world.evictor = short.world.new_evictor()
    for node in nodes:
        await short.world.settle(node)
    await short.round()
    assert len(short.evicted) == 5


async def test_the_gate_opens_with_the_right_and_the_mode(short):
    calibrated = {"enable": True, "nodePredictPolicy": {"predictor": "calibrated"}}

    async def predictor(document, may_evict):
        short.server.may_evict = set(may_evict)
        short.pass_seconds(61)
        await short.world.evictor.check_rights()
        short.world.configure(document)
        await short.world.config.refresh()
        await short.world.settle()
        return short.server.get("nodemetrics", "n1")["spec"]["predictPolicy"]["predictor"]

    await short.start(calibrated, may_evict=())
    evict = {**calibrated, "midEviction": {"mode": "evict"}}
    assert await predictor(calibrated, [""]) == "max"
    assert await predictor(evict, []) == "max"
    assert await predictor(evict, [""]) == "calibrated"
    assert await predictor(evict, ["tenant"]) == "max"
    assert await predictor({"enable": True, "preset": "balanced"}, [""]) == "calibrated"
    assert await predictor({"enable": True, "preset": "balanced", "midEviction": {"mode": "off"}}, [""]) == "max"


async def test_a_pod_whose_eviction_admission_forbids_protects_no_other_pod_for_long_and_takes_no_right(short):
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
        may_evict.append(short.world.evictor.rights.granted)
    assert short.evicted == ["theirs", "b"]
    assert all(may_evict)
    assert "MidEvictionRefused" in short.reasons()


OVERLAP = cluster.Refusal(500, "", "a", "This pod has more than one PodDisruptionBudget, which is not supported.")


def refuses(short, pods, answer):
    """Answer every eviction of these pods so."""

    def refuse(request):
        if pods in request.path and request.path.endswith("/eviction"):
            raise answer

    short.server.on_write = refuse


@pytest.mark.parametrize(("nodes", "refused", "theirs", "minutes"), [
    (1, 40, "zzz", 5), (10, 2, "zzz", 15), (8, 10, "zzz", 13), (8, 3, TENANT, 20),
])  # fmt: skip
async def test_pods_that_are_refused_are_asked_after_all_others_however_rarely_a_node_is_due(
    short, nodes, refused, theirs, minutes
):
    names = [f"n{number}" for number in range(nodes)]
    await short.start({"enable": True, "midEviction": {"mode": "evict", "clusterPerMinute": 1}}, nodes=names)
    for node in names:
        for index in range(refused):
            short.add_pod(f"{node}-refused-{index}", 100, node=node)
        short.add_pod(f"{node}-theirs", 100, node=node, namespace=theirs)

    refuses(short, "-refused-", OVERLAP)
    await short.minutes(minutes, nodes=names, calculated=(100 * refused - 150, 10_000))
    assert sorted(short.evicted) == [f"{node}-theirs" for node in names]
    assert "MidEvictionRefused" in short.reasons()


async def test_a_namespace_that_was_refused_comes_again_after_one_pod_of_another(short):
    """Else one refusal of a budget lets the pods of the neighbours go first for hours."""
    await short.start()
    for name in "abc":
        short.add_pod(name)
        short.add_pod(f"theirs-{name}", namespace="zzz")
    refuses(short, "/a/", OVERLAP)
    await short.minutes(12, calculated=(1000, 10_000))
    assert short.evicted == ["theirs-a", "b", "c", "theirs-b", "theirs-c"]


async def test_a_pod_that_is_always_answered_429_without_a_budget_takes_no_turn_from_others(short):
    await short.start()
    for name in "abc":
        short.add_pod(name)
    refuses(short, "/a/", cluster.Refusal(429, "TooManyRequests", "a", "evacuation of the VM was triggered"))
    await short.minutes(12)
    assert short.evicted == ["b"]
    assert "MidEvictionRefused" in short.reasons()


@pytest.mark.parametrize("answer", [(500, "InternalError", "", "etcdserver: request timed out"), (504, "Timeout")])
async def test_what_was_evicted_although_the_answer_is_an_error_counts(short, monkeypatch, answer):
    await short.start()
    for index in range(12):
        short.add_pod(f"m{index}")
    evicts = short.server._evict

    def late(*request):
        evicts(*request)
        raise cluster.Refusal(*answer)

    monkeypatch.setattr(short.server, "_evict", late)
    await short.minutes(8, calculated=(0, 10_000))
    assert len(short.evicted) == 3, "after three reports one in 120 s"


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


OVERLOADED = cluster.Refusal(429, "TooManyRequests", "a", "too many requests")
AWAY = cluster.Refusal(503, "ServiceUnavailable", "a", "etcd is away")


def counted(short, cause="MidCPUShort"):
    """Return the results of the attempts for a cause, without those that never were."""
    sample = short.world.telemetry.registry.get_sample_value
    name = "koord_manager_mid_evictions_total"
    counts = {each.value: sample(name, {"cause": cause, "outcome": each.value}) for each in AttemptResult}
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
        ([OVERLAP], "refused"),
        ([cluster.Refusal(500, "InternalError", "a", "etcdserver: request timed out")], "failed"),
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


CORDONED = {"spec": {"unschedulable": True}}
WITHOUT_PROD = {"calculated": (0, 0)}


async def start_cordoned(short, **given):
    await start(short, **given)
    await change(short, CORDONED)
    assert status(short)[0] == "Cordoned"


@pytest.mark.parametrize("document", [EVICT, {"enable": True}])
async def test_a_shortage_evicts_none_and_is_no_reason_for_advice_until_the_node_is_uncordoned(short, document):
    """`kubectl drain` moves Prod away, and next to nothing is calculated for a node without Prod."""
    await start_cordoned(short, document=document)
    await short.minutes(10, **WITHOUT_PROD)
    assert (short.evicted, short.annotation()) == ([], None)
    assert not {"MidPodEvicted", "MidEvictionAdvised"} & short.reasons()
    await change(short, {"spec": {"unschedulable": None}})
    await short.minutes(2, **WITHOUT_PROD)
    assert {"MidPodEvicted", "MidEvictionAdvised"} & short.reasons()


async def test_a_shortage_that_began_before_evicts_no_further_pod(short):
    await start(short)
    await short.minutes(3, **WITHOUT_PROD)
    assert len(short.evicted) == 1
    await change(short, CORDONED)
    await short.minutes(10, **WITHOUT_PROD)
    assert len(short.evicted) == 1


@pytest.mark.parametrize("cause", ["leaves", "drain"])
async def test_a_departure_and_a_drain_evict_every_mid_pod(short, cause):
    await start_cordoned(short)
    if cause == "leaves":
        await change(short, DISRUPTED)
    else:
        short.world.configure({**EVICT, "midEmergency": "drain"})
        await short.world.config.refresh()
        await short.world.settle()
    await short.minutes(2)
    assert len(short.evicted) == 4


async def shares(fleet, seconds):
    return {seen.second: seen async for seen in fleet.run(seconds)}


async def test_a_fleet_takes_mid_back_within_fifteen_minutes_of_the_first_second_of_the_rise():
    fleet = take_back.fleet(50, (0.5, 0.9))
    seen = await shares(fleet, 900)
    assert min(each.fits for each in seen.values()) < 75, "a fleet that is short"
    assert seen[900].fits >= 98
    assert fleet.most_within_a_minute() == fleet.permitted_within_a_minute() == 5
    assert fleet.beyond_budget() == 0


async def test_no_more_goes_than_is_needed_and_only_where_a_node_is_short():
    fleet = take_back.fleet(20, (0.5, 0.9), seed=2)
    before = fleet.requested_millis()
    await shares(fleet, 900)
    limit, left, largest = calculated_millis(RISE_SECONDS), fleet.requested_millis(), {}
    for node, millis in fleet.evicted_millis():
        largest[node] = max(millis, largest.get(node, 0))
    assert largest
    for node, millis in largest.items():
        assert before[node] > limit
        assert left[node] + millis > limit, "without the last pod that went, or a budget that refused an earlier one"
