"""The status annotation of unreleased versions: its content is kept, its key is removed from each node."""

import datetime as dt

import pytest

from tests.manager.conftest import allocated, amounts

OLD, NEW = "koordinator.sh/mid-resource-receipt", "koordinator.sh/mid-resource-status"


def annotations(world):
    return world.server.get("nodes", "n1")["metadata"].get("annotations") or {}


def annotate(world, **values):
    world.server.patch("nodes", "n1", {"metadata": {"annotations": values}})


async def upgraded(world, **document):
    """Publish Mid, then move the annotation to its old key, as an unreleased version wrote it."""
    world.configure({"enable": True, "updateTimeThresholdSeconds": 100_000, **document})
    await world.config.start()
    world.add_node()
    await world.settle()
    world.report(allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    await world.settle()
    text = annotations(world)[NEW]
    annotate(world, **{OLD: text, NEW: None})
    return text


async def test_moves_the_annotation_where_nothing_else_is_written(world):
    text = await upgraded(world)
    writes = len(world.server.writes)
    for _ in range(2):
        await world.settle()
    assert annotations(world) == {NEW: text}
    assert len(world.server.writes) == writes + 1
    assert world.mid_of() == (6_000, 10_000)


async def test_removes_the_old_key_with_the_next_write(world):
    await upgraded(world)
    world.report(allocated=allocated(), prodPeakMetric=amounts("4", "6k"))
    writes = len(world.server.writes)
    await world.settle()
    assert set(annotations(world)) == {NEW}
    assert [path for _, path, _ in world.server.writes[writes:] if "events" not in path] == ["/api/v1/nodes/n1/status"]
    assert world.mid_of() == (4_000, 10_000)


async def test_removes_an_old_key_beside_the_new_one(world):
    text = await upgraded(world)
    annotate(world, **{NEW: text, OLD: "anything"})
    await world.settle()
    assert annotations(world) == {NEW: text}


async def test_an_upgrade_keeps_values_without_a_prediction(world):
    await upgraded(world)
    world.mid._last_samples.clear()
    world.now += dt.timedelta(minutes=5)
    world.report(allocated=allocated(), prodPeakMetric=None)
    await world.settle()
    assert world.mid_of() == (6_000, 10_000)
    assert set(annotations(world)) == {NEW}


@pytest.mark.parametrize(("document", "left"), [({"enable": False}, set()), ({"enable": True}, {NEW})])
async def test_a_withdrawal_removes_the_old_key(world, document, left):
    await upgraded(world)
    world.configure(document)
    await world.config.refresh()
    world.now += dt.timedelta(minutes=16)
    await world.settle()
    assert world.mid_of() == ()
    assert set(annotations(world)) == left


async def test_moves_the_annotation_without_a_configuration_and_without_resources(world):
    text = await upgraded(world)
    world.sync_cache()
    await world.mid.without_configuration("n1")
    assert annotations(world) == {NEW: text}
    annotate(world, **{OLD: text, NEW: None})
    world.server.patch("nodes", "n1", {"status": {"capacity": {"cpu": None}}})
    await world.settle()
    assert annotations(world) == {NEW: text}
