import msgspec
import pytest
import yaml

from manager.slo_config.controller import ConfigController, ConfigMap
from tests.fakes import cluster


def last_good(world):
    return world.server.get("configmaps", "koord-manager-last-good-config", "koordinator-system")["data"]


async def apply(world):
    item = world.server.get("configmaps", "slo-controller-config", "koordinator-system")
    await world.config.apply(msgspec.convert(item, type=ConfigMap))


async def successor(world):
    """Start another manager."""
    api = world.config._api
    world.config = ConfigController(api, world.settings, world.reporter, world.telemetry, world._changed)
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


async def test_a_document_fixed_after_a_restart_is_in_force_again(world):
    world.configure({"enable": True, "midCPUThresholdPercent": 33})
    await world.config.start()
    world.configure("{")
    await successor(world)
    world.configure({"enable": True, "midCPUThresholdPercent": 44})
    await apply(world)
    assert world.config.strategies.configuration.cluster.mid_cpu_threshold_percent == 44
    assert last_good(world) == {"colocation-config": '{"enable": true, "midCPUThresholdPercent": 44}'}


async def test_a_config_map_deleted_while_no_manager_ran_means_off(world):
    world.configure({"enable": True})
    await world.config.start()
    world.server.remove("configmaps", "slo-controller-config", "koordinator-system")
    await successor(world)
    assert world.config.strategies.configuration.cluster.enable is False


async def test_decides_nothing_before_a_valid_document(world):
    world.configure("{")
    await world.config.start()
    assert world.config.strategies is None


async def test_an_empty_store_of_the_last_good_document_is_no_document(world):
    world.server.add("configmaps", {"metadata": {"name": "koord-manager-last-good-config"}}, "koordinator-system")
    world.configure("{")
    await world.config.start()
    assert world.config.strategies is None


async def test_reports_a_stored_document_that_is_no_longer_valid(world, caplog):
    kept = {"metadata": {"name": "koord-manager-last-good-config"}, "data": {"colocation-config": '{"old": 1}'}}
    world.server.add("configmaps", kept, "koordinator-system")
    world.configure("{")
    await world.config.start()
    assert world.config.strategies is None
    assert "koord-manager-last-good-config is no longer valid" in caplog.text


async def test_a_deleted_config_map_means_off_also_after_a_restart(world):
    world.configure({"enable": True})
    await world.config.start()
    world.server.remove("configmaps", "slo-controller-config", "koordinator-system")
    await world.config.apply(None)
    assert world.config.strategies.configuration.cluster.enable is False
    world.configure("{")
    await successor(world)
    assert world.config.strategies.configuration.cluster.enable is False


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


async def test_a_change_of_the_annotation_causes_no_write(world):
    world.configure({"enable": True})
    await world.config.start()
    writes = len(world.server.writes)
    for annotations in ({"mine": "x"}, {"koordinator.sh/colocation-config-status": None}):
        patch = {"metadata": {"annotations": annotations}}
        world.server.patch("configmaps", "slo-controller-config", patch, "koordinator-system")
        await apply(world)
    assert len(world.server.writes) == writes


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
    labels = {"kind": "config_status", "result": "error"}
    assert world.telemetry.registry.get_sample_value("koord_manager_writes_total", labels) == 1


async def report_overlap(world, name, labels):
    strategies = world.config.strategies
    await world.reporter.report_overlap(strategies.configuration, name, strategies.of(labels, {}))


def overlaps(world):
    return [item["message"] for item in world.server.all("events") if "the first entry that matches" in item["message"]]


async def test_reports_an_overlap_on_a_node_once_per_pair(world):
    entries = [{"name": key, "nodeSelector": {"matchLabels": {key: "1"}}, "midFloor": "none"} for key in "ab"]
    world.configure({"enable": True, "nodeConfigs": entries})
    await world.config.start()
    for name, labels in (("n1", {"a": "1"}), ("n2", {"a": "1", "b": "1"}), ("n3", {"b": "1", "a": "1"})):
        await world.reporter.report_overlap(
            world.config.strategies.configuration, name, world.config.strategies.of(labels, {})
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
        world.config.strategies.configuration, "n1", world.config.strategies.of({"pool": "x"}, {})
    )
    assert len(overlaps(world)) == 1
