"""Writes to one node: two seconds apart, and ever rarer while another client changes them back."""

import datetime as dt

import pytest

from tests.manager.conftest import MID, allocated, amounts

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def pace():
    """Keep the pace of the product."""


def node_writes(world):
    return [body for _, path, body in world.server.writes if path.startswith("/api/v1/nodes/")]


def owned_by(*managers, part="f:allocatable"):
    return [
        {"manager": each, "operation": "Update", "fieldsV1": {"f:status": {part: {f"f:{MID[0]}": {}}}}}
        for each in managers
    ]


def revert(world, value="1000"):
    """Change the published values as another client; return whether they were there."""
    if world.server.get("nodes", "n1")["status"]["allocatable"].get(MID[0]) in (None, value):
        return False
    status = {part: {MID[0]: value} for part in ("capacity", "allocatable")}
    world.server.patch("nodes", "n1", {"status": status})
    return True


@pytest.fixture
async def published(world):
    """A world in which a value was published just now."""
    world.configure({"enable": True, "degradeTimeMinutes": 60})
    await world.config.start()
    world.add_node()
    await world.settle()
    world.report(allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    await world.settle()
    assert world.mid_of()[0] == 6000
    return world


async def contested(world, seconds, step=0.1):
    """Revert at once whatever is written, for some seconds; return the times of the writes."""
    began, times = world.now, []
    while (world.now - began).total_seconds() < seconds:
        before = len(node_writes(world))
        await world.settle()
        if len(node_writes(world)) > before:
            times.append((world.now - began).total_seconds())
        revert(world)
        world.now += dt.timedelta(seconds=step)
    return times


async def test_a_contested_node_is_written_ever_more_rarely(published):
    times = await contested(published, 70)
    assert times == pytest.approx([2, 2 + 4, 6 + 8, 14 + 16, 30 + 32], abs=1)
    assert len([time for time in times if time <= 5]) <= 2  # there were 287 writes in 5 s without a pace


async def test_the_other_writer_is_named_in_one_event_after_the_third_time(published):
    published.server.patch(
        "nodes", "n1", {"metadata": {"managedFields": owned_by("koord-manager", "argocd-controller")}}
    )
    await contested(published, 6)
    assert ("n1", "Warning", "MidResourcesReverted") not in published.events()
    await contested(published, 120)
    [event] = [item for item in published.server.all("events") if item["reason"] == "MidResourcesReverted"]
    assert "(field manager argocd-controller)" in event["message"]
    assert event["count"] >= 2
    assert published.telemetry.registry.get_sample_value("koord_manager_node_status_reverts_total") >= 5


@pytest.mark.parametrize(
    ("managed_fields", "named"),
    [
        ([], "the apiserver records no field manager"),
        (owned_by("koord-manager"), "the same field manager koord-manager (Koordinator's own, or a second"),
        (owned_by("kubelet", part="f:conditions") + owned_by("a", "b", part="f:capacity"), "field manager a, b)"),
        ([{"manager": "x"}, {"manager": "y", "fieldsV1": {"f:status": None}}], "records no field manager"),
    ],
)
async def test_names_the_owners_of_the_fields(published, managed_fields, named):
    published.server.patch("nodes", "n1", {"metadata": {"managedFields": managed_fields}})
    await contested(published, 12)
    [event] = [item for item in published.server.all("events") if item["reason"] == "MidResourcesReverted"]
    assert named in event["message"]


async def test_no_write_waits_for_a_report_about_the_other_writer(published):
    """A client that reverts later than the pause is found at a write: that goes out before any Event."""
    seen = []
    published.server.on_write = lambda request: seen.append(request.path)
    for _ in range(4):
        published.now += dt.timedelta(minutes=6)
        published.report(allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
        assert revert(published)
        seen.clear()
        await published.settle()
        assert seen[0].startswith("/api/v1/nodes/")
    assert seen[1].endswith("/events")
    [event] = [item for item in published.server.all("events") if item["reason"] == "MidResourcesReverted"]
    assert "seen changed by another client after each write" in event["message"]


async def test_one_edit_by_hand_is_put_right_after_two_seconds_at_most_without_an_event(published):
    for _ in range(2):
        published.now += dt.timedelta(minutes=20)
        published.report(allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
        await published.settle()
        published.now += dt.timedelta(seconds=1)
        assert revert(published)
        assert await published.settle() == pytest.approx(1)
        published.now += dt.timedelta(seconds=1)
        await published.settle()
        assert published.mid_of()[0] == 6000
    assert not [event for event in published.events() if event[2] == "MidResourcesReverted"]


async def test_values_that_move_by_themselves_are_written_every_two_seconds_and_no_revert(published):
    before = len(node_writes(published))
    for number in range(100):
        published.now += dt.timedelta(seconds=0.1)
        published.report(seconds_ago=0, allocated=allocated(), prodPeakMetric=amounts(str(2 + number % 2), "6k"))
        await published.settle()
    assert 4 <= len(node_writes(published)) - before <= 5
    assert published.telemetry.registry.get_sample_value("koord_manager_node_status_reverts_total") == 0


async def test_a_withdrawal_waits_two_seconds_however_long_the_pause_was(published):
    await contested(published, 2000, step=1)
    published.configure({"enable": False})
    await published.config.refresh()
    began, before = published.now, len(node_writes(published))
    while len(node_writes(published)) == before:
        await published.settle()
        published.now += dt.timedelta(seconds=0.5)
    assert (published.now - began).total_seconds() <= 3
    assert published.mid_of() == ()


async def test_a_withdrawal_that_is_changed_back_is_written_again_at_the_pause(published):
    await contested(published, 2000, step=1)
    published.configure({"enable": False})
    await published.config.refresh()
    writes = 0
    for _ in range(1200):
        before = len(node_writes(published))
        await published.settle()
        writes += len(node_writes(published)) - before
        status = {part: {MID[0]: "9000"} for part in ("capacity", "allocatable")}
        published.server.patch("nodes", "n1", {"status": status})
        published.now += dt.timedelta(seconds=1)
    assert 4 <= writes <= 7  # the first at once, and one every five minutes


async def test_a_recreated_node_and_a_clock_that_is_set_back_hold_nothing_up(published):
    await contested(published, 300, step=1)
    published.server.remove("nodes", "n1")
    published.add_node()
    for _ in range(2):
        await published.settle()
    published.report(seconds_ago=0, allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    published.server.patch("nodes", "n1", {"metadata": {"creationTimestamp": "2026-11-21T10:00:00Z"}})
    published.server.patch("nodemetrics", "n1", {"metadata": {"creationTimestamp": "2026-11-21T10:00:00Z"}})
    await published.settle()
    assert published.mid_of()[0] == 6000
    published.now -= dt.timedelta(hours=1)
    published.report(seconds_ago=0, allocated=allocated(), prodPeakMetric=amounts("4", "6k"))
    assert revert(published)
    await published.settle()
    assert published.mid_of()[0] == 4000
