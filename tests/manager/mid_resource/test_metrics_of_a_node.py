"""The series of one node: what is wanted, what is published, why, and from which sample."""

import pytest

from tests.manager.conftest import allocated, amounts


def sample(world, name, **labels):
    return world.telemetry.registry.get_sample_value(f"koord_manager_{name}", labels)


async def reported(world, **document):
    world.configure({"enable": True, **document})
    await world.config.start()
    world.add_node()
    await world.settle()
    world.report(seconds_ago=7, allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    await world.settle()


@pytest.mark.parametrize(("publish", "published"), [("node", 6.0), ("shadow", None)])
async def test_they_show_the_target_and_its_sample_also_where_nothing_is_published(world, publish, published):
    await reported(world, midPublish=publish)
    assert sample(world, "node_mid_cpu_target_cores", node="n1") == 6.0
    assert sample(world, "node_mid_memory_target_bytes", node="n1") == 10_000
    assert sample(world, "node_mid_cpu_cores", node="n1") == published
    assert sample(world, "node_sample_timestamp_seconds", node="n1") == world.now.timestamp() - 7
    assert sample(world, "sample_age_seconds_count") == 1
    assert sample(world, "sample_age_seconds_sum") == 7
    assert sample(world, "nodes", reason="Calculated") == 1
    assert world.mid_of() == (() if published is None else (6000, 10_000))


async def test_kept_values_leave_the_target_as_it_was(world):
    await reported(world)
    world.report(seconds_ago=0, allocated=allocated(), prodPeakMetric=amounts("bad", "6k"))
    await world.settle()
    assert sample(world, "nodes", reason="Calculated") == 0
    assert sample(world, "node_mid_cpu_target_cores", node="n1") == 6.0
    assert sample(world, "node_sample_timestamp_seconds", node="n1") == world.now.timestamp() - 7


async def test_they_go_with_the_node(world):
    await reported(world)
    world.mid.forget("n1")
    for name in ("node_mid_cpu_target_cores", "node_mid_cpu_cores", "node_sample_timestamp_seconds"):
        assert sample(world, name, node="n1") is None
    assert sample(world, "nodes", reason="Calculated") == 0
