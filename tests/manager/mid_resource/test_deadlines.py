"""Times at their limits: of the next reconcile of a node that nothing changes, and of samples of the future."""

import datetime as dt

import pytest

from tests.manager.conftest import allocated, amounts

SLACK_SECONDS = 1.0
"""After a deadline, so that the reconcile does not come on it."""
DEGRADE_SECONDS = 15 * 60
"""A sample of this age is not too old; one second more is."""
AGE_SECONDS = 5


async def started(world, **document):
    world.configure({"enable": True, **document})
    await world.config.start()
    world.add_node()
    await world.settle()
    known = {"allocated": allocated(), "prodPeakMetric": amounts("2", "6k")}
    world.report(seconds_ago=AGE_SECONDS, **known)
    return await world.settle()


@pytest.mark.parametrize("passed_seconds", [0, 100, 299])
async def test_a_node_is_reconciled_when_its_values_are_to_be_confirmed(world, passed_seconds):
    await started(world, updateTimeThresholdSeconds=300)
    world.now += dt.timedelta(seconds=passed_seconds)
    assert await world.settle() == 300 - passed_seconds + SLACK_SECONDS


@pytest.mark.parametrize("passed_seconds", [0, 100, DEGRADE_SECONDS - AGE_SECONDS])
async def test_without_a_configuration_a_node_is_reconciled_when_its_sample_is_too_old(world, passed_seconds):
    await started(world)
    world.now += dt.timedelta(seconds=passed_seconds)
    world.sync_cache()
    left_seconds = DEGRADE_SECONDS - AGE_SECONDS - passed_seconds
    assert await world.mid.without_configuration("n1") == left_seconds + SLACK_SECONDS


@pytest.mark.parametrize(("ahead_seconds", "is_used"), [(300, True), (301, False)])
async def test_a_sample_is_used_up_to_five_minutes_ahead(world, ahead_seconds, is_used):
    await started(world)
    assert world.mid_of() == (6_000, 10_000)
    world.report(seconds_ago=-ahead_seconds, allocated=allocated(), prodPeakMetric=amounts("4", "10k"))
    await world.settle()
    assert world.mid_of() == ((4_000, 6_000) if is_used else (6_000, 10_000))
    assert (("n1", "Warning", "ReportRefused") in world.events()) is not is_used
