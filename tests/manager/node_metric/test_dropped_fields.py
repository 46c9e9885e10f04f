"""Patches of a NodeMetric whose fields a foreign CRD drops: sent once, and again when the CRD is replaced."""

import copy

import pytest

import tests.fakes.cluster as fake
from api_types.node_metric import crd_manifest
from manager import assembly
from manager.cache.watch_health import WatchAges
from manager.metrics.telemetry import WATCHED
from manager.settings import ManagerSettings
from manager.slo_config.controller import Step
from tests.manager.conftest import worked_off

CRD = "nodemetrics.slo.koordinator.sh"
OWN_FIELDS = ("predictPolicy", "midColocationPolicy")


def foreign_crd():
    manifest = copy.deepcopy(crd_manifest.manifest())
    spec = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for field in OWN_FIELDS:
        del spec["properties"][field]
    return manifest


class Foreign:
    """A cluster whose CRD drops fields of this project, and a manager in it."""

    def __init__(self, world, parts):
        self.world, self.parts, self.server = world, parts, world.server
        self.drops = True

    async def reconcile(self, name="n1"):
        for _ in range(2):
            self.world.sync_cache()
            await self.parts.reconciler.reconcile(name)
            await worked_off(self.parts.spec_queue)
        await self.parts.events.drain()

    def spec(self):
        return set(self.server.get("nodemetrics", "n1")["spec"])

    def patches(self):
        return sum((method, "nodemetrics" in path) == ("PATCH", True) for method, path, _ in self.server.writes)

    async def replace_crd(self):
        self.drops = False
        self.server.patch("customresourcedefinitions", CRD, {"spec": crd_manifest.manifest()["spec"]})
        await self.parts.schema.once()


@pytest.fixture
async def foreign(world, monkeypatch):
    parts = assembly.assemble(
        world.api, ManagerSettings(workers=1), world.telemetry, WatchAges(WATCHED, lambda: 0.0), clock=world.clock
    )
    world.cache = parts.cache
    made, real = Foreign(world, parts), fake._patched

    def pruned(before, patch, subresource):
        after = real(before, patch, subresource)
        if made.drops and "metricCollectPolicy" in (after.get("spec") or {}):
            after["spec"] = {key: value for key, value in after["spec"].items() if key not in OWN_FIELDS}
        return after

    monkeypatch.setattr(fake, "_patched", pruned)
    world.server.add("customresourcedefinitions", foreign_crd())
    world.add_node()
    world.server.add("nodemetrics", {"metadata": {"name": "n1"}, "spec": {"metricCollectPolicy": {}}})
    world.configure({"enable": True})
    world.sync_config()
    await parts.config.work(Step.DECIDE)
    await parts.schema.once()
    await made.reconcile()
    return made


async def test_a_patch_that_the_crd_drops_is_sent_once(foreign):
    sent = foreign.patches()
    await foreign.reconcile()
    await foreign.parts.schema.once()
    await foreign.reconcile()
    assert (foreign.spec(), foreign.patches()) == ({"metricCollectPolicy"}, sent)


async def test_it_is_sent_again_when_the_crd_is_replaced(foreign):
    await foreign.replace_crd()
    await foreign.reconcile()
    assert foreign.spec() == {"metricCollectPolicy", *OWN_FIELDS}


async def test_it_is_forgotten_with_its_node(foreign):
    controller = foreign.parts.reconciler._node_metrics
    assert list(controller._dropped) == ["n1"]
    foreign.server.remove("nodes", "n1")
    await foreign.reconcile()
    assert not controller._dropped
