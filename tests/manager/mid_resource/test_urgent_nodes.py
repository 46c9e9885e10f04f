"""Nodes that are queued before all others: those that publish Mid resources which are to be withdrawn."""

import datetime as dt

import pytest

from tests.manager.conftest import NAMESPACE, allocated, amounts, mid_pod

LONG = dt.timedelta(minutes=20)
"""More than a sample counts."""


@pytest.fixture
async def published(world):
    """Return a world with a node that publishes Mid resources."""
    world.configure({"enable": True})
    await world.config.start()
    world.add_node()
    await world.settle()
    world.report(allocated=allocated(), prodPeakMetric=amounts("2", "6k"))
    await world.settle()
    assert world.mid_of() == (6_000, 10_000)
    return world


def is_urgent(world):
    world.sync_cache()
    node = world.cache.nodes.get("n1")
    return node is not None and world.mid.needs_withdrawal(
        node, world.config.strategies.merged({}, node.metadata.annotations)
    )


async def test_a_node_is_urgent_from_the_end_of_its_sample_until_it_is_withdrawn(published):
    assert not is_urgent(published)
    published.now += LONG
    assert is_urgent(published)
    published.server.add("pods", mid_pod("p", 1_000, 1_000), NAMESPACE)
    await published.settle()
    assert published.mid_of() == (1_000, 1_000)
    assert not is_urgent(published), "its floor stays, and is no reason to hurry"


@pytest.mark.parametrize(("publish", "urgent"), [("node", True), ("shadow", False)])
async def test_keys_of_another_writer_are_urgent_only_where_this_manager_writes(published, publish, urgent):
    published.now += LONG
    published.server.patch("nodes", "n1", {"metadata": {"annotations": {"koordinator.sh/mid-resource-status": None}}})
    published.configure({"enable": True, "midPublish": publish})
    await published.config.refresh()
    assert is_urgent(published) is urgent
