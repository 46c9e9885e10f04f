import msgspec

from manager.slo_config.controller import ConfigController, ConfigMap
from tests.fakes import cluster


def last_good(world):
    return world.server.get("configmaps", "koord-manager-last-good-config", "koordinator-system")["data"]


async def apply(world):
    item = world.server.get("configmaps", "slo-controller-config", "koordinator-system")
    await world.config.apply(msgspec.convert(item, type=ConfigMap))


async def successor(world):
    """A manager that starts now."""
    before = world.config
    world.config = ConfigController(before._api, world.settings, before._announcer, world.telemetry, world._changed)
    await world.config.start()


async def test_a_good_document_is_in_force_announced_and_kept(world):
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


async def test_a_broken_document_leaves_an_event_for_each_problem_and_changes_nothing(world):
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


async def test_the_last_good_configuration_survives_a_restart_under_a_broken_document(world):
    world.configure({"enable": True, "midCPUThresholdPercent": 33})
    await world.config.start()
    world.configure("{")
    await successor(world)
    assert world.config.strategies.configuration.cluster.mid_cpu_threshold_percent == 33


async def test_a_manager_that_never_saw_a_good_document_decides_nothing(world):
    world.configure("{")
    await world.config.start()
    assert world.config.strategies is None


async def test_an_empty_place_for_the_last_good_document_is_no_document(world):
    world.server.add("configmaps", {"metadata": {"name": "koord-manager-last-good-config"}}, "koordinator-system")
    world.configure("{")
    await world.config.start()
    assert world.config.strategies is None


async def test_a_deleted_config_map_means_off_also_after_a_restart(world):
    world.configure({"enable": True})
    await world.config.start()
    world.server.remove("configmaps", "slo-controller-config", "koordinator-system")
    await world.config.apply(None)
    assert world.config.strategies.configuration.cluster.enable is False
    world.configure("{")
    await successor(world)
    assert world.config.strategies.configuration.cluster.enable is False


async def test_the_same_document_seen_again_says_and_writes_nothing(world):
    world.configure({"enable": True})
    await world.config.start()
    writes = len(world.server.writes)
    world.server.patch(
        "configmaps", "slo-controller-config", {"metadata": {"labels": {"a": "b"}}}, "koordinator-system"
    )
    await apply(world)
    await successor(world)
    assert len(world.server.writes) == writes


async def test_a_configuration_that_cannot_be_kept_is_in_force_all_the_same(world):
    world.configure({"enable": True})
    world.server.refuse["PATCH", "configmaps"] = cluster.Refusal(403, "Forbidden", "x")
    await world.config.start()
    assert world.config.strategies.configuration.cluster.enable is True


async def test_an_event_that_cannot_be_posted_stops_nothing(world):
    world.configure({"enable": True})
    world.server.refuse["POST", "events"] = cluster.Refusal(403, "Forbidden", "x")
    await world.config.start()
    assert world.config.strategies.configuration.cluster.enable is True
    assert world.telemetry.registry.get_sample_value("koord_manager_kubernetes_events_lost_total") == 1
