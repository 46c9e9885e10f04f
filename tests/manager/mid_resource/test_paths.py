"""Configured ways to compute the Mid resources of a node, through the controller."""

import datetime as dt

import pytest

from manager.events import EventRecorder
from manager.mid_resource.controller import MidController
from tests.manager.conftest import MID, NAMESPACE, allocated, amounts


async def started(world, **document):
    world.configure({"enable": True, **document})
    await world.config.start()
    world.add_node()
    await world.settle()


async def reported(world, peak="2", memory="6k", seconds_ago=5, **more):
    known = {"allocated": allocated(), "prodPeakMetric": amounts(peak, memory)}
    world.report(seconds_ago=seconds_ago, **known | more)
    await world.settle()


# 10 cores and 20000 bytes, 8 and 16000 of them requested by Prod pods, which will need 2 and 6000.


STATIC = {"midReclaimMode": "static", "midStaticCPUReservedPercent": 30, "midStaticMemoryReservedPercent": 20}


@pytest.mark.parametrize("prediction", [amounts("9", "19k"), None])
async def test_static_mode_publishes_a_share_of_capacity_whatever_is_predicted(world, prediction):
    await started(world, **STATIC, midMemoryThresholdPercent=10, midUnallocatedPercent=100)
    await reported(world, prodPeakMetric=prediction)
    assert world.mid_of() == (3_000, 2_000)
    assert world.mid_status()["reason"] == "Static"
    assert "peakProd" not in world.mid_status()["resources"][MID[0]]


async def test_running_mid_pods_keep_their_floor_unless_it_is_switched_off(world):
    await started(world)
    await reported(world, peak="12", allocated=allocated(mid_cpu=700, mid_memory=5))
    assert world.mid_of() == (700, 10_000)
    world.configure({"enable": True, "midFloor": "none"})
    await world.config.refresh()
    await world.settle()
    assert world.mid_of() == (0, 10_000)


async def test_a_rise_takes_one_sample_per_step_and_a_fall_none(world):
    await started(world, midMaxIncreasePercent=20)
    seen = []
    for peak, seconds_ago in (("2", 9), ("2", 9), ("2", 8), ("2", 7), ("2", 6), ("7500m", 5)):
        await reported(world, peak=peak, seconds_ago=seconds_ago)
        seen.append(world.mid_of()[0])
    assert seen == [2_000, 2_000, 4_000, 6_000, 6_000, 500]
    assert world.mid_status()["resources"][MID[0]].get("riseLimit") is None


async def test_the_diff_threshold_and_the_forced_refresh_are_the_configured_ones(world):
    await started(world, resourceDiffThreshold=0.5, updateTimeThresholdSeconds=40)
    await reported(world)
    await reported(world, peak="4")
    assert world.mid_of() == (6_000, 10_000)  # a third less is not half
    world.now += dt.timedelta(seconds=41)
    await world.settle()
    assert world.mid_of() == (4_000, 10_000)


async def test_a_node_metric_that_vanishes_withdraws_when_its_last_sample_is_too_old(world):
    await started(world)
    await reported(world)
    world.server.remove("nodemetrics", "n1")
    world.sync_cache()
    strategy = world.config.strategies.merged({}, {})
    assert 0 < await world.mid.reconcile("n1", strategy) < 15 * 60
    assert world.mid_of() == (6_000, 10_000)
    world.now += dt.timedelta(minutes=15)
    await world.mid.reconcile("n1", strategy)
    assert world.mid_of() == ()
    assert world.mid_status()["reason"] == "NodeMetricMissing"
    await world.settle()  # the NodeMetric is created again
    world.now += dt.timedelta(seconds=70)
    await reported(world)
    assert world.mid_of() == (6_000, 10_000)


async def test_only_the_node_that_an_entry_matches_leaves_colocation(world):
    entry = {"name": "off", "nodeSelector": {"matchLabels": {"pool": "b"}}, "enable": False}
    await started(world, nodeConfigs=[entry])
    await reported(world)
    world.server.patch("nodes", "n1", {"metadata": {"labels": {"pool": "b"}}})
    await world.settle()
    assert world.mid_of() == ()
    assert ("n1", "Normal", "ColocationDisabled") in world.events()
    world.server.patch("nodes", "n1", {"metadata": {"labels": {"pool": "a"}}})
    await world.settle()
    assert world.mid_of() == (6_000, 10_000)


async def test_reason_code_and_text_are_the_same_in_annotation_event_and_metric(world):
    await started(world)
    await reported(world)
    world.now += dt.timedelta(minutes=20)
    await world.settle()
    status = world.mid_status()
    (event,) = [item for item in world.server.all("events") if item["reason"] == status["reason"]]
    assert status["reason"] == "SampleTooOld"
    assert status["text"] in event["message"]
    assert event["metadata"]["namespace"] != NAMESPACE  # where Events of nodes are
    value = world.telemetry.registry.get_sample_value
    assert value("koord_manager_nodes", {"reason": status["reason"]}) == 1
    assert (status["status"], status["since"]) == ("False", status["time"])


async def test_a_restart_does_not_shorten_the_grace_of_a_report_without_prediction(world):
    await started(world)
    await reported(world)  # written
    world.now += dt.timedelta(seconds=200)
    await reported(world)  # the same values: not written
    writes = len(world.server.writes)
    world.now += dt.timedelta(seconds=60)
    world.report(allocated=allocated(), prodPeakMetric=None)
    await world.settle()
    await world.settle()
    assert [path for _, path, _ in world.server.writes[writes:]] == ["/api/v1/nodes/n1/status"]
    world.mid = MidController(
        world.api, cache=world.cache, settings=world.settings, recorder=EventRecorder(
            world.api, world.telemetry, world.clock
        ), telemetry=world.telemetry, clock=world.clock,
    )  # fmt: skip
    world.now += dt.timedelta(minutes=15, seconds=-70)  # since the sample that the first manager used last
    world.report(allocated=allocated(), prodPeakMetric=None)
    await world.settle()
    assert world.mid_of() == (6_000, 10_000)
    world.now += dt.timedelta(seconds=10)
    world.report(allocated=allocated(), prodPeakMetric=None)
    await world.settle()
    assert world.mid_of() == (0, 0)


async def test_a_node_metric_that_is_created_again_prolongs_nothing(world):
    await started(world)
    await reported(world)
    for _ in range(4):
        world.now += dt.timedelta(minutes=5)
        world.server.now = world.now
        world.server.remove("nodemetrics", "n1")
        await world.settle()
    assert world.mid_of() == ()


async def test_a_node_that_is_created_again_gets_an_event_of_its_own(world):
    await started(world)
    world.now += dt.timedelta(minutes=16)
    await world.settle()
    world.server.now = world.now - dt.timedelta(minutes=16)  # no reconcile came between the two nodes
    world.server.remove("nodes", "n1")
    world.add_node()
    await world.settle()
    silent = [each for each in world.server.all("events") if each["reason"] == "NeverReported"]
    assert len({each["involvedObject"]["uid"] for each in silent}) == 2
