import json

import pytest
import yaml

from apiserver_client import errors
from manager.cache.store import ConfigMapStore
from manager.slo_config.controller import ConfigStep
from manager.slo_config.evaluation import State
from tests.fakes import cluster
from tests.manager.conftest import DirectConfig


def last_good(world):
    return world.server.get("configmaps", "koord-manager-last-good-config", "koordinator-system")["data"]


async def apply(world):
    await world.config.refresh()


async def successor(world):
    """Start another manager."""
    world.cache.config_maps = ConfigMapStore()
    world.config = DirectConfig(world)
    await world.config.start()


async def test_a_valid_document_is_applied_reported_and_stored(world):
    world.configure('{"enable": true, "cpuReclaimThresholdPercent": 60}')
    await world.config.start()
    assert world.config.strategies.configuration.cluster.enable is True
    assert last_good(world) == {"colocation-config": '{"enable": true, "cpuReclaimThresholdPercent": 60}'}
    name = "slo-controller-config"
    assert sorted(world.events()) == [
        (name, "Normal", "ColocationConfigApplied"),
        (name, "Normal", "ColocationConfigUnused"),
    ]
    assert world.changes == 1


async def test_an_invalid_document_causes_an_event_per_problem_and_changes_nothing(world):
    world.configure({"enable": True})
    await world.config.start()
    world.configure({"enable": True, "midCPUThresholdPercent": 150, "foo": 1})
    await apply(world)
    assert world.config.strategies.configuration.cluster.mid_cpu_threshold_percent == 100
    rejected = [item for item in world.server.all("events") if item["reason"] == "ColocationConfigRejected"]
    assert len(rejected) == 2
    assert any("midCPUThresholdPercent: seen 150, want an integer" in item["message"] for item in rejected)
    assert all(item["involvedObject"]["kind"] == "ConfigMap" and item["type"] == "Warning" for item in rejected)
    assert last_good(world) == {"colocation-config": '{"enable": true}'}
    assert world.changes == 1


async def test_the_last_good_configuration_survives_a_restart_under_an_invalid_document(world):
    world.configure({"enable": True, "midCPUThresholdPercent": 33})
    await world.config.start()
    world.configure("{")
    await successor(world)
    assert world.config.strategies.configuration.cluster.mid_cpu_threshold_percent == 33


async def test_reports_a_stored_document_that_is_no_longer_valid(world, caplog):
    kept = {"metadata": {"name": "koord-manager-last-good-config"}, "data": {"colocation-config": '{"old": 1}'}}
    world.server.add("configmaps", kept, "koordinator-system")
    world.configure("{")
    await world.config.start()
    assert world.config.strategies is None
    assert "koord-manager-last-good-config is no longer valid" in caplog.text


def delete(world):
    world.server.remove("configmaps", "slo-controller-config", "koordinator-system")


def empty(world):
    patch = {"data": {"colocation-config": None}}
    world.server.patch("configmaps", "slo-controller-config", patch, "koordinator-system")


@pytest.mark.parametrize("lose", [delete, empty, lambda world: world.configure(""), lambda world: world.configure({})])
async def test_a_lost_document_changes_nothing_also_after_a_restart_and_says_so(world, lose):
    world.configure({"enable": True, "midCPUThresholdPercent": 33})
    await world.config.start()
    lose(world)
    await world.config.refresh()
    for _ in range(2):
        assert world.config.strategies.configuration.cluster.mid_cpu_threshold_percent == 33
        await successor(world)
    assert world.changes == 3, "once for each manager"
    [event] = [item for item in world.server.all("events") if item["reason"] == "ColocationConfigAbsent"]
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "slo-controller-config")
    assert event["message"].endswith("colocation-config: '{\"enable\": false}' switches colocation off")
    world.configure({"enable": False})
    await world.config.refresh()
    assert world.config.strategies.configuration.cluster.enable is False


async def test_without_any_document_nothing_is_decided(world):
    await world.config.start()
    assert (world.config.strategies, shown(world)) == (None, ([State.CONFIG_MAP_ABSENT], 0))


async def test_a_lost_document_waits_for_the_stored_one(world):
    world.configure({"enable": True})
    await world.config.start()
    delete(world)
    world.server.refuse["GET", "configmaps"] = cluster.Refusal(500, "InternalError")
    world.cache.config_maps = ConfigMapStore()
    world.config = DirectConfig(world)
    await world.config.work(ConfigStep.RESTORE)
    world.sync_config()
    await world.config.work(ConfigStep.DECIDE)
    assert world.config.strategies is None
    world.server.refuse.clear()
    await world.config.settle()
    assert world.config.strategies.configuration.cluster.enable is True


async def test_the_same_document_again_reports_and_writes_nothing(world):
    world.configure({"enable": True})
    await world.config.start()
    writes = len(world.server.writes)
    world.server.patch(
        "configmaps", "slo-controller-config", {"metadata": {"labels": {"a": "b"}}}, "koordinator-system"
    )
    await apply(world)
    await successor(world)
    assert len(world.server.writes) == writes


async def test_a_configuration_that_cannot_be_stored_is_in_force_nevertheless(world):
    world.configure({"enable": True})
    world.server.refuse["PATCH", "configmaps"] = cluster.Refusal(403, "Forbidden", "x")
    await world.config.start()
    assert world.config.strategies.configuration.cluster.enable is True
    world.server.refuse.clear()
    await world.config.refresh()
    kept = world.server.get("configmaps", "koord-manager-last-good-config", "koordinator-system")
    assert kept["data"] == {"colocation-config": '{"enable": true}'}


async def test_retries_a_failed_store_even_after_an_invalid_document(world):
    world.configure({"enable": True})
    await world.config.start()
    world.server.refuse["PATCH", "configmaps"] = cluster.Refusal(503, "ServiceUnavailable", "x")
    world.configure({"enable": False})
    await apply(world)
    world.server.refuse.clear()
    world.configure("{")
    await world.config.refresh()
    assert last_good(world) == {"colocation-config": '{"enable": false}'}
    await successor(world)
    assert world.config.strategies.configuration.cluster.enable is False


async def test_an_event_that_cannot_be_posted_stops_nothing(world):
    world.configure({"enable": True})
    world.server.refuse["POST", "events"] = cluster.Refusal(403, "Forbidden", "x")
    await world.config.start()
    assert world.config.strategies.configuration.cluster.enable is True
    assert world.telemetry.registry.get_sample_value("koord_manager_kubernetes_events_lost_total") == 1


def noted(world):
    item = world.server.get("configmaps", "slo-controller-config", "koordinator-system")
    return yaml.safe_load(item["metadata"]["annotations"]["koordinator.sh/colocation-config-status"])


async def test_the_config_map_shows_its_status_and_keeps_its_data(world):
    world.configure({"enable": True})
    await world.config.start()
    assert noted(world)["reason"] == "ColocationConfigApplied"
    world.configure({"midCPUThresholdPercent": 150})
    await apply(world)
    assert (noted(world)["status"], noted(world)["reason"]) == ("False", "ColocationConfigRejected")
    item = world.server.get("configmaps", "slo-controller-config", "koordinator-system")
    assert item["data"] == {"colocation-config": '{"midCPUThresholdPercent": 150}'}


@pytest.mark.parametrize("text", ["since: 2026-02-30", "[" * 5_000, "{", "x"])
async def test_replaces_an_annotation_of_another_client(world, text):
    world.configure({"enable": True})
    noted_by_hand = {"metadata": {"annotations": {"koordinator.sh/colocation-config-status": text}}}
    world.server.patch("configmaps", "slo-controller-config", noted_by_hand, "koordinator-system")
    await world.config.start()
    assert noted(world)["reason"] == "ColocationConfigApplied"


async def test_continues_without_the_permission_to_annotate(world):
    world.configure({"enable": True})
    world.server.refuse["PATCH", "configmaps"] = cluster.Refusal(403, "Forbidden", "x")
    await world.config.start()
    assert world.config.strategies.configuration.cluster.enable is True
    labels = {"kind": "config_status", "outcome": "error"}
    assert world.telemetry.registry.get_sample_value("koord_manager_writes_total", labels) == 1


async def report_overlap(world, name, labels):
    strategies = world.config.strategies
    await world.reporter.report_overlap(strategies.configuration, name, strategies.merged(labels, {}))


def overlaps(world):
    return [item["message"] for item in world.server.all("events") if "the first entry that matches" in item["message"]]


async def test_reports_an_overlap_on_a_node_once_per_pair(world):
    entries = [{"name": key, "nodeSelector": {"matchLabels": {key: "1"}}, "midFloor": "none"} for key in "ab"]
    world.configure({"enable": True, "nodeConfigs": entries})
    await world.config.start()
    for name, labels in (("n1", {"a": "1"}), ("n2", {"a": "1", "b": "1"}), ("n3", {"b": "1", "a": "1"})):
        await world.reporter.report_overlap(
            world.config.strategies.configuration, name, world.config.strategies.merged(labels, {})
        )
    [message] = overlaps(world)
    assert "nodeConfigs[1].nodeSelector" in message
    assert "outside nodeConfigs[0]: the first entry that matches wins, as on node n2" in message


async def test_reports_an_overlap_of_the_document_once_and_not_for_its_nodes(world):
    pool = {"matchLabels": {"pool": "x"}}
    entries = [{"name": name, "nodeSelector": pool, "midFloor": "none"} for name in "ab"]
    world.configure({"enable": True, "nodeConfigs": entries})
    await world.config.start()
    await world.reporter.report_overlap(
        world.config.strategies.configuration, "n1", world.config.strategies.merged({"pool": "x"}, {})
    )
    assert len(overlaps(world)) == 1


def document_text(threshold):
    return json.dumps({"enable": True, "midCPUThresholdPercent": threshold})


async def test_a_replaced_config_map_gets_the_annotation_although_its_text_is_the_same(world):
    world.configure(document_text(20))
    await world.config.start()
    world.server.remove("configmaps", "slo-controller-config", "koordinator-system")
    world.configure(document_text(20))
    await world.config.refresh()
    assert noted(world)["status"] == "True"


async def test_slow_events_of_a_refused_document_leave_no_annotation_beside_the_mended_one(world):
    world.configure({"enable": True})
    await world.config.start()
    world.configure({"enable": True, **{f"unknown{number}": 1 for number in range(20)}})
    world.sync_config()
    world.config.decide()
    mend = document_text(50)

    def while_events_are_posted(request):
        if "/events" in request.path and world.config.strategies.configuration.cluster.mid_cpu_threshold_percent != 50:
            world.configure(mend)
            world.sync_config()
            world.config.decide()

    world.server.on_write = while_events_are_posted
    await world.config.settle()
    assert noted(world)["status"] == "True"
    assert "in force" in noted(world)["message"]


async def test_an_annotation_that_may_have_been_written_is_read_before_it_is_trusted(world):
    world.configure({"enable": True})
    await world.config.start()
    good = dict(world.server.get("configmaps", "slo-controller-config", "koordinator-system")["metadata"])
    world.configure("{")
    world.sync_config()
    world.config.decide()
    annotate = world.reporter.annotate

    async def lost(outcome, seen):
        await annotate(outcome, seen)
        raise errors.Unreachable("the answer was lost")

    world.reporter.annotate = lost
    await world.config.settle(retry=False)
    world.reporter.annotate = annotate
    world.configure({"enable": True})  # mended, and delivered as it was before the annotation
    item = world.server.get("configmaps", "slo-controller-config", "koordinator-system")
    item["metadata"]["annotations"] = good["annotations"]
    world.cache.config_maps.update(world.cache.config_maps.decode(item))
    world.config.decide()
    await world.config.settle()
    assert noted(world)["status"] == "True"


async def test_leads_on_while_the_config_maps_cannot_be_read_and_restores_the_last_good_one_later(world):
    world.configure(document_text(33))
    await world.config.start()
    world.cache.config_maps = ConfigMapStore()
    world.config = DirectConfig(world)
    world.configure("{")
    world.server.refuse["GET", "configmaps"] = cluster.Refusal(500, "InternalError")
    await world.config.work(ConfigStep.RESTORE)
    await world.config.work(ConfigStep.DECIDE)
    assert world.config.strategies is None
    world.server.refuse.clear()
    world.sync_config()
    await world.config.work(ConfigStep.DECIDE)
    assert world.config.strategies is None
    await world.config.settle()
    assert world.config.strategies.configuration.cluster.mid_cpu_threshold_percent == 33
    assert "last good configuration stays in force" in noted(world)["message"]


async def test_configurations_are_counted_as_they_come_into_force(world):
    def shown():
        sample = world.telemetry.registry.get_sample_value
        names = ("config_generation", "config_timestamp_seconds", "report_interval_seconds")
        return tuple(sample(f"koord_manager_{name}") for name in names)

    started = world.now.timestamp()
    world.configure({"enable": True, "metricReportIntervalSeconds": 90})
    await world.config.start()
    first = shown()
    world.configure({"enable": True, "metricReportIntervalSeconds": 30})
    await world.config.refresh()
    assert (first, shown()) == ((1, started, 90), (2, started, 30))


def shown(world):
    """Return the states whose series is 1, and the number of problems."""
    value = world.telemetry.registry.get_sample_value
    states = [each for each in State if value("koord_manager_config_state", {"state": each}) == 1]
    return states, value("koord_manager_config_problems")


async def test_one_state_is_shown_and_it_follows_the_config_map(world):
    assert shown(world) == ([], 0)
    world.configure({"enable": True})
    await world.config.start()
    assert shown(world)[0] == [State.APPLIED]
    world.configure({"enable": True, "midCPUThresholdPercent": 150, "foo": 1})
    await world.config.refresh()
    assert shown(world) == ([State.REFUSED], 2)
    world.server.patch(
        "configmaps", world.settings.config_map, {"data": {"colocation-config": None}}, "koordinator-system"
    )
    await world.config.refresh()
    assert shown(world) == ([State.KEY_ABSENT], 0)
    world.server.remove("configmaps", world.settings.config_map, "koordinator-system")
    await world.config.refresh()
    assert shown(world) == ([State.CONFIG_MAP_ABSENT], 0)
