import datetime as dt

import pytest

from tests.manager.conftest import MID, NAMESPACE, allocated, amounts, mid_pod

ENABLED = {"enable": True}


async def started(world, document=ENABLED):
    world.configure(document)
    await world.config.start()
    world.add_node()
    await world.settle()


async def reported(world, peak="2", memory="6k", seconds_ago=5, **more):
    world.report(seconds_ago=seconds_ago, **{"allocated": allocated(), "prodPeakMetric": amounts(peak, memory), **more})
    return await world.settle()


def bound_pod(world, name="p1", cpu="500", memory="100"):
    world.server.add("pods", mid_pod(name, cpu, memory), NAMESPACE)


async def test_publishes_prod_requests_minus_peak_with_every_term_in_the_annotation(world):
    await started(world)
    await reported(world)
    assert world.mid_of() == (6_000, 10_000)
    status = world.mid_status()
    assert (status["reason"], status["requestsFrom"], status["sample"]) == (
        "Calculated", "report", "2026-11-21T11:59:55Z",
    )  # fmt: skip
    line = status["resources"][MID[0]]
    assert (line["allocatedProd"], line["peakProd"], line["reclaimable"], line["published"]) == (8000, 2000, 6000, 6000)
    assert ("n1", "Normal", "Calculated") in world.events()


async def test_a_small_move_is_not_written_until_the_refresh(world):
    await started(world)
    await reported(world)
    writes = len(world.server.writes)
    await reported(world, peak="2100m")
    assert len(world.server.writes) == writes
    world.now += dt.timedelta(seconds=301)
    await reported(world, peak="2100m")
    assert world.mid_of() == (5_900, 10_000)


async def test_a_move_beyond_the_threshold_is_written_at_once(world):
    await started(world)
    await reported(world)
    await reported(world, peak="4")
    assert world.mid_of() == (4_000, 10_000)


async def test_a_report_without_prediction_keeps_values_until_the_last_one_is_too_old(world):
    await started(world, {**ENABLED, "updateTimeThresholdSeconds": 100_000})
    await reported(world)
    world.now += dt.timedelta(minutes=14)
    nothing = {"prodPeakMetric": None, "prodReclaimableMetric": {"resource": {}}}
    await reported(world, **nothing)
    assert world.mid_of() == (6_000, 10_000)
    world.now += dt.timedelta(minutes=2)
    await reported(world, **nothing)
    assert world.mid_of() == (0, 0)
    status = world.mid_status()
    assert (status["reason"], status["status"]) == ("CalculatedWithoutPrediction", "True")
    assert status["detail"] == "last prediction of 2026-11-21T11:59:55Z"
    assert ("n1", "Warning", "CalculatedWithoutPrediction") in world.events()


async def test_a_new_leader_reads_the_last_usable_sample_from_the_annotation(world):
    await started(world)
    await reported(world)
    world.mid._nodes.clear()
    world.now += dt.timedelta(minutes=5)
    await reported(world, prodPeakMetric=None)
    assert world.mid_of() == (6_000, 10_000)


async def test_an_old_sample_withdraws_to_the_bound_requests_and_then_removes_the_keys(world):
    await started(world)
    await reported(world)
    bound_pod(world)
    world.now += dt.timedelta(minutes=16)
    seconds = await world.settle()
    assert world.mid_of() == (500, 100)
    assert seconds == world.settings.withdrawal_check_seconds + 1
    world.server.remove("pods", "p1", NAMESPACE)
    world.now += dt.timedelta(seconds=seconds)
    assert await world.settle() is None
    assert world.mid_of() == ()
    assert world.mid_status()["reason"] == "SampleTooOld"


async def test_switched_off_a_node_keeps_its_pods_and_loses_its_keys_after_them(world):
    await started(world)
    await reported(world)
    bound_pod(world)
    world.configure({"enable": False})
    await world.config.start()
    await world.settle()
    assert world.mid_of() == (500, 100)
    assert world.mid_status()["reason"] == "ColocationDisabled"
    world.server.remove("pods", "p1", NAMESPACE)
    world.now += dt.timedelta(seconds=31)
    await world.settle()
    assert world.mid_of() == ()
    assert world.mid_status() is None


async def test_without_a_floor_a_withdrawal_removes_at_once(world):
    await started(world, {**ENABLED, "midFloor": "none"})
    await reported(world)
    bound_pod(world)
    world.now += dt.timedelta(minutes=16)
    await world.settle()
    assert world.mid_of() == ()


async def test_upstreams_agent_reports_reclaimable_and_requests_come_from_one_pod_list(world):
    await started(world, {**ENABLED, "midUnallocatedPercent": 50})
    bound_pod(world)
    world.server.add("pods", {
        "metadata": {"name": "prod"},
        "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "6", "memory": "10k"}}}]},
        "status": {"phase": "Running"},
    }, NAMESPACE)  # fmt: skip
    world.report(prodReclaimableMetric=amounts("2", "3k"))
    lists = [each for each in world.server.requests if each.path == "/api/v1/pods"]
    await world.settle()
    assert world.mid_of() == (2_000 + 2_000, 3_000 + 5_000)
    status = world.mid_status()
    assert (status["reason"], status["requestsFrom"]) == ("CalculatedFromReclaimable", "pods")
    asked = [each for each in world.server.requests if each.path == "/api/v1/pods"]
    assert len(asked) == len(lists) + 1
    assert asked[-1].query == {"fieldSelector": "spec.nodeName=n1", "resourceVersion": "0"}
    await world.settle()
    assert [each for each in world.server.requests if each.path == "/api/v1/pods"] == asked


async def test_an_impossible_report_is_refused_with_a_reason_and_changes_no_value(world):
    await started(world)
    await reported(world)
    await reported(world, prodPeakMetric=amounts("-2", "6k"))
    assert world.mid_status()["reason"] == "ReportRefused"
    for nonsense in (
        {"prodPeakMetric": amounts("-1", "6k")},
        {"prodPeakMetric": amounts("NaN", "6k")},
        {"prodPeakMetric": amounts("9", "6k"), "seconds_ago": -3600},
    ):
        writes = [each for each in world.server.writes if "events" not in each[1]]
        await reported(world, **nonsense)
        assert [each for each in world.server.writes if "events" not in each[1]] == writes
    assert world.mid_of() == (6_000, 10_000)
    assert ("n1", "Warning", "ReportRefused") in world.events()


async def test_a_reason_is_written_on_the_way_back_and_the_event_has_what_was_written(world):
    await started(world)
    await reported(world)
    world.server.remove("nodemetrics", "n1")
    await world.settle()
    world.now += dt.timedelta(seconds=15)
    await reported(world, peak="2010m")  # a move that alone is not written
    assert world.mid_status()["reason"] == "Calculated"
    *_, message = [item["message"] for item in world.server.all("events") if item["reason"] == "Calculated"]
    assert message.endswith(
        f": kubernetes.io/mid-cpu {world.mid_of()[0] / 1000:g} cores, kubernetes.io/mid-memory 10000 bytes"
    )


async def test_kept_values_name_the_sample_that_gave_them_and_the_last_usable_one(world):
    await started(world)
    await reported(world)
    world.now += dt.timedelta(seconds=30)
    await reported(world, peak="2100m")  # a small move, which is not written
    world.now += dt.timedelta(seconds=30)
    await reported(world, peak="-1")
    status = world.mid_status()
    assert world.mid_of() == (6_000, 10_000)
    assert (status["reason"], status["sample"], status["lastUsable"]) == (
        "ReportRefused", "2026-11-21T11:59:55Z", "2026-11-21T12:00:25Z",
    )  # fmt: skip
    await reported(world, peak="4")
    status = world.mid_status()
    assert (status["sample"], "lastUsable" in status) == ("2026-11-21T12:00:55Z", False)


@pytest.mark.parametrize("where", ["capacity", "allocatable"])
@pytest.mark.parametrize("usable", [True, False])
@pytest.mark.parametrize("value", [None, "0", "999999"])
async def test_restores_what_another_client_changed_with_and_without_a_prediction(world, where, usable, value):
    await started(world)
    await reported(world)
    if not usable:
        await reported(world, prodPeakMetric=None)
    world.server.patch("nodes", "n1", {"status": {where: {MID[0]: value}}})
    await world.settle()
    assert world.mid_of() == (6_000, 10_000)


async def test_a_recreated_node_needs_one_report_and_ignores_old_samples(world):
    await started(world)
    await reported(world)
    old = world.server.get("nodemetrics", "n1")["status"]
    world.server.remove("nodes", "n1")
    world.now += dt.timedelta(minutes=1)
    world.add_node(creationTimestamp="2026-11-21T12:00:50Z")
    await world.settle()
    world.server.patch("nodemetrics", "n1", {"status": old})
    await world.settle()
    assert world.mid_of() == ()
    await reported(world)
    assert world.mid_of() == (6_000, 10_000)


async def test_does_not_patch_a_node_that_was_recreated(world):
    await started(world)
    world.report(allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    world.sync_cache()
    seen = world.cache.nodes.get("n1")
    world.server.remove("nodes", "n1")
    world.add_node()
    strategy = world.config.strategies.merged({}, {})
    assert world.cache.nodes.get("n1") is seen
    with pytest.raises(Exception, match="immutable"):
        await world.mid.reconcile("n1", strategy)
    assert world.mid_of() == ()


async def test_an_answer_that_the_deletion_overtakes_brings_no_object_back(world):
    await started(world)
    world.report(allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    world.configure({**ENABLED, "metricReportIntervalSeconds": 30})
    await world.config.refresh()
    answer, patched = world.api.send, []

    async def overtaken(call, **given):
        answered = await answer(call, **given)
        if call.verb == "patch":
            patched.append(call.resource)
            (world.cache.nodes if call.resource == "nodes/status" else world.cache.node_metrics).remove("n1")
        return answered

    world.api.send = overtaken
    world.sync_cache()
    strategy = world.config.strategies.merged({}, {})
    await world.mid.reconcile("n1", strategy)
    assert world.cache.nodes.get("n1") is None
    world.sync_cache()
    await world.node_metrics.reconcile("n1", strategy)
    assert world.cache.node_metrics.get("n1") is None
    assert patched == ["nodes/status", "nodemetrics"]


async def test_writes_nothing_to_a_node_without_resources(world):
    await started(world)
    world.server.add("nodes", {"metadata": {"name": "new"}, "status": {}})
    assert await world.settle("new") is None
    assert world.mid_status("new") is None


async def test_amplified_nodes_are_calculated_from_their_raw_allocatable(world):
    await started(world)
    raw = '{"cpu": "5", "memory": "10k"}'
    world.server.patch("nodes", "n1", {"metadata": {"annotations": {"node.koordinator.sh/raw-allocatable": raw}}})
    await reported(world)
    assert world.mid_of() == (3_000, 4_000)


async def test_a_reservation_is_not_published_and_is_in_the_annotation(world):
    await started(world)
    reservation = '{"resources": {"memory": "7k"}, "reservedCPUs": "0-2,8"}'
    annotations = {"node.koordinator.sh/reservation": reservation}
    world.server.patch("nodes", "n1", {"metadata": {"annotations": annotations}})
    await reported(world)
    assert world.mid_of() == (10_000 - 4_000 - 2_000, 20_000 - 7_000 - 6_000)
    line = world.mid_status()["resources"][MID[0]]
    assert (line["reserved"], line["allocatable"], line["capacity"]) == (4_000, 6_000, 10_000)


async def test_an_invalid_reservation_is_ignored_and_reported_in_the_annotation(world):
    await started(world)
    world.server.patch("nodes", "n1", {"metadata": {"annotations": {"node.koordinator.sh/reservation": "8 cores"}}})
    await reported(world)
    assert world.mid_of() == (6_000, 10_000)
    assert world.mid_status()["reason"] == "Calculated"
    assert world.mid_status()["detail"].startswith(
        "ReservationIgnored: metadata.annotations.node.koordinator.sh/reserv"
    )
    assert "8 cores" in world.mid_status()["detail"]
    assert "reserved" not in world.mid_status()["resources"][MID[0]]


async def test_a_cluster_without_colocation_costs_neither_writes_nor_pod_lists(world):
    await started(world, {})
    requests = len(world.server.requests)
    world.report(allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    await world.settle()
    assert len(world.server.requests) == requests


async def test_metrics_have_the_published_values_and_the_reason(world):
    await started(world)
    await reported(world)
    value = world.telemetry.registry.get_sample_value
    assert value("koord_manager_node_mid_cpu_cores", {"node": "n1"}) == 6.0
    assert value("koord_manager_nodes", {"reason": "Calculated"}) == 1
    assert value("koord_manager_nodes", {"reason": "AwaitingFirstReport"}) == 0
    world.mid.forget("n1")
    assert value("koord_manager_node_mid_cpu_cores", {"node": "n1"}) is None
    assert value("koord_manager_nodes", {"reason": "Calculated"}) == 0
