"""A NodeMetric that was deleted because its Node is gone is no longer in the store."""

import logging

import pytest

from apiserver_client import errors
from tests.fakes import cluster


@pytest.fixture
async def orphan(world):
    """Return the world with a NodeMetric in the store, whose Node is gone."""
    world.configure({"enable": True})
    await world.config.start()
    world.server.add("nodemetrics", {"metadata": {"name": "gone"}})
    world.cache.node_metrics.update(world.cache.node_metrics.decode(world.server.get("nodemetrics", "gone")))
    return world


def messages(caplog):
    return [each.getMessage() for each in caplog.records if "gone" in each.getMessage()]


async def test_an_orphan_is_deleted_once_and_forgotten(orphan, caplog):
    caplog.set_level(logging.INFO)
    await orphan.node_metrics.reconcile("gone", None)
    assert orphan.cache.node_metrics.names() == []
    asked = len(orphan.server.writes)
    await orphan.node_metrics.reconcile("gone", None)
    assert len(orphan.server.writes) == asked
    assert messages(caplog) == ["node gone: deleted the NodeMetric, its Node is gone"]


async def test_an_orphan_that_is_deleted_already_is_forgotten(orphan, caplog):
    caplog.set_level(logging.INFO)
    orphan.server.remove("nodemetrics", "gone")
    await orphan.node_metrics.reconcile("gone", None)
    assert orphan.cache.node_metrics.get("gone") is None
    assert messages(caplog) == []


async def test_an_orphan_whose_deletion_is_refused_stays_known(orphan):
    orphan.server.refuse["DELETE", "nodemetrics"] = cluster.Refusal(403, "Forbidden", "gone")
    with pytest.raises(errors.Forbidden):
        await orphan.node_metrics.reconcile("gone", None)
    assert orphan.cache.node_metrics.get("gone") is not None
