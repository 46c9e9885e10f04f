"""The metrics name the state of the ConfigMap and the number of problems in its newest document."""

import datetime as dt

from manager.slo_config.controller import ABSENCE_SECONDS
from manager.slo_config.evaluation import State


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
    world.now += dt.timedelta(seconds=ABSENCE_SECONDS)
    await world.config.refresh()
    assert shown(world) == ([State.CONFIG_MAP_ABSENT], 0)
