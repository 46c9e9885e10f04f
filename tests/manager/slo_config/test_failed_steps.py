"""Steps of the configuration that fail, and the configurations that are counted."""

from manager.slo_config import controller
from manager.slo_config.controller import Step
from tests.fakes import cluster


async def test_each_failure_in_a_row_of_a_step_has_a_longer_delay_and_a_success_ends_the_row(world, monkeypatch):
    class Delays:
        def seconds(self, attempt, _uniform):
            return 100.0 + attempt

    monkeypatch.setattr(controller, "_DELAYS", Delays())
    world.configure({"enable": True})
    await world.config.start()
    world.config.steps.clear()
    world.server.refuse["GET", "configmaps"] = cluster.Refusal(500, "InternalError")
    for _ in range(3):
        await world.config.work(Step.RESTORE)
    world.server.refuse.clear()
    await world.config.work(Step.RESTORE)
    world.server.refuse["GET", "configmaps"] = cluster.Refusal(500, "InternalError")
    await world.config.work(Step.RESTORE)
    assert world.config.steps == [(Step.RESTORE, 100.0 + attempt) for attempt in (0, 1, 2, 0)]


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
