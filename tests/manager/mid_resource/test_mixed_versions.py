"""One manager and agents of three versions: what it publishes for the report of each, also while they are upgraded."""

import pytest

from benchmarks import fleet_reports
from benchmarks.fleet_reports import Version
from tests.manager.conftest import allocated, amounts, used

FULL = {
    "nodeMetric": {"nodeUsage": {"resources": {"cpu": "7", "memory": "12k"}}},
    "podsMetric": [],
    "prodReclaimableMetric": amounts("1", "3k"),
    "prodPeakMetric": amounts("2", "6k"),
    "allocated": allocated("8", "16k"),
    "usage": used(("1", "2k"), mid=("4", "8k"), batch_and_free=("1", "1k"), system=("1", "1k")),
    "conditions": [
        {"type": "Reporting", "status": "True", "reason": "R", "lastTransitionTime": "2026-11-21T11:00:00Z"}
    ],
}
PUBLISHED = {
    Version.CURRENT: (6_000, 10_000),  # requested by Prod without its peak: less than Prod and system leave
    Version.FORMER: (3_000, 8_000),  # without usage by class, what the whole node leaves
    Version.UPSTREAM: (1_000, 3_000),  # without requests and peak, what its agent calls reclaimable
}


def name(version):
    return version.name.lower()


def report(world, node, version):
    """Report as an agent of this version, which replaces the whole status."""
    shaped = fleet_reports.of_version({"updateTime": "", **FULL}, version)
    del shaped["updateTime"]
    world.report(node, **(dict.fromkeys(FULL) | shaped))


async def settled(world):
    """Reconcile every node; return the published Mid resources by node."""
    for version in Version:
        await world.settle(name(version))
    return {version: world.mid_of(name(version)) for version in Version}


@pytest.fixture
async def fleet(world):
    world.configure({"enable": True})
    await world.config.start()
    for version in Version:
        world.add_node(name(version))
        await world.settle(name(version))
        report(world, name(version), version)
    return world


async def test_of_each_version_what_its_report_shows_is_published(fleet):
    assert await settled(fleet) == PUBLISHED
    reasons = [fleet.mid_status(name(version))["reason"] for version in Version]
    assert reasons == ["Calculated", "Calculated", "CalculatedFromReclaimable"]


@pytest.mark.parametrize("upgraded", [Version.FORMER, Version.UPSTREAM])
async def test_an_upgraded_agent_changes_its_own_node_only(fleet, upgraded):
    await settled(fleet)
    report(fleet, name(upgraded), Version.CURRENT)
    assert await settled(fleet) == PUBLISHED | {upgraded: PUBLISHED[Version.CURRENT]}


@pytest.mark.parametrize("older", [Version.FORMER, Version.UPSTREAM])
async def test_after_a_rollback_of_its_agent_a_node_has_what_the_older_report_shows(fleet, older):
    await settled(fleet)
    report(fleet, name(Version.CURRENT), older)
    assert await settled(fleet) == PUBLISHED | {Version.CURRENT: PUBLISHED[older]}
