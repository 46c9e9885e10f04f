"""The log of an absent ConfigMap."""

import datetime as dt

import pytest

from manager.slo_config.controller import ABSENCE_SECONDS, Step


@pytest.mark.parametrize(
    ("seconds", "announced"), [(0, ["60"]), (30, ["30"]), (ABSENCE_SECONDS - 0.75, ["1"]), (ABSENCE_SECONDS, [])]
)
async def test_the_time_that_is_left_is_logged_until_it_is_over(world, caplog, seconds, announced):
    world.configure({"enable": True})
    await world.config.start()
    world.server.remove("configmaps", "slo-controller-config", "koordinator-system")
    world.sync_config()
    world.now += dt.timedelta(seconds=seconds)
    await world.config.work(Step.DECIDE)
    stays = "ConfigMap slo-controller-config is absent: the present configuration stays in force for "
    texts = [each.getMessage() for each in caplog.records]
    assert [text.removeprefix(stays).partition(" s,")[0] for text in texts if text.startswith(stays)] == announced
    assert (Step.CONFIRM, ABSENCE_SECONDS - seconds) in world.config.steps
    assert world.config.strategies.configuration.cluster.enable is True
