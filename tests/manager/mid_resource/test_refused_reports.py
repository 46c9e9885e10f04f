"""Reports that are refused, one after the other: none of them counts as a usable sample."""

import datetime as dt

from tests.manager.mid_resource.test_controller import reported, started


async def test_refused_reports_prolong_nothing_however_often_they_come(world):
    await started(world, {"enable": True, "degradeTimeMinutes": 15})
    await reported(world)
    for _ in range(14):
        world.now += dt.timedelta(minutes=1)
        await reported(world, peak="-1")
    assert world.mid_of() == (6_000, 10_000)
    for _ in range(2):
        world.now += dt.timedelta(minutes=1)
        await reported(world, peak="-1")
    assert world.mid_of() == ()
    assert world.mid_status()["reason"] == "SampleTooOld"
