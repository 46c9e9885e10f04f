"""Beside an autoscaler a new node offers Mid resources only once it has a prediction."""

import datetime as dt

import pytest

from tests.manager.conftest import allocated, amounts

SHARED = {"enable": True, "midUnallocatedPercent": 50}


async def started(world):
    world.configure(SHARED)
    await world.config.start()
    world.add_node()
    await world.settle()
    await report(world)
    return world


async def report(world, **more):
    world.report(allocated=allocated(prod_cpu="2", prod_memory="4k"), **more)
    await world.settle()


async def test_without_an_autoscaler_its_share_is_offered_at_once(world):
    await started(world)
    assert world.mid_of() == (4000, 8000)


async def test_beside_one_nothing_is_offered_before_its_first_prediction(world_beside_karpenter):
    world = await started(world_beside_karpenter)
    assert world.mid_of() == (0, 0)
    await report(world, prodPeakMetric=amounts("1", "1k"))
    assert world.mid_of() == (5000, 11_000)


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_prediction_that_is_lost_later_changes_nothing_of_the_share(world_beside_karpenter, restarts):
    world = await started(world_beside_karpenter)
    await report(world, prodPeakMetric=amounts("1", "1k"))
    if restarts:
        world.mid = type(world.mid)(
            world.api, cache=world.cache, settings=world.settings, recorder=world.recorder,
            telemetry=world.telemetry, clock=world.clock,
        )  # fmt: skip
    for _ in range(20):
        world.now += dt.timedelta(minutes=1)
        await report(world, prodPeakMetric=None)
    assert world.mid_of() == (4000, 8000)
