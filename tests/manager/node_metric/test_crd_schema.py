"""Fields of the suite that a CRD in the cluster drops."""

import asyncio
import copy

import pytest

from api_types.node_metric import crd_manifest
from manager.node_metric import controller
from tests.fakes import apiserver
from tests.manager.conftest import World

NAME = "nodemetrics.slo.koordinator.sh"
SUITES_CRD = crd_manifest.manifest()


def root(manifest):
    return manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def without(*paths):
    """Return the suite's CRD without some fields; `[]` steps into the items of a list."""
    manifest = copy.deepcopy(SUITES_CRD)
    for path in paths:
        *folders, last = path.split(".")
        where = root(manifest)["properties"]
        for folder in folders:
            below = where[folder.removesuffix("[]")]
            where = (below["items"] if folder.endswith("[]") else below)["properties"]
        del where[last]
    return manifest


async def dropped(world, manifest):
    world.server.add("customresourcedefinitions", manifest)
    return controller.dropped_fields(await controller.read(world.api))


@pytest.mark.parametrize(
    "paths", [("status.prediction",), ("spec.predictPolicy", "status.nodeMetric.aggregatedNodeUsages[].duration")]
)
async def test_names_a_dropped_branch_by_its_root(world, paths):
    assert await dropped(world, without(*paths)) == paths


async def test_ignores_fields_of_others(world):
    manifest = copy.deepcopy(SUITES_CRD)
    root(manifest)["properties"]["status"]["properties"]["hostApplicationMetric"] = {"type": "array"}
    assert await dropped(world, manifest) == ()


@pytest.fixture
def watch(world: World):
    from manager.events import EventRecorder

    return controller.SchemaWatch(world.api, EventRecorder(world.api, world.telemetry, world.clock), world.telemetry)


def events(world):
    return [(each["reason"], each["message"]) for each in world.server.all("events")]


async def test_reports_once_on_the_crd_and_again_when_it_is_over(world, watch):
    world.server.add("customresourcedefinitions", without("status.prediction"))
    await watch.once()
    await watch.once()
    ((reason, message),) = events(world)
    assert reason == "NodeMetricFieldsDropped"
    assert "status.prediction" in message
    assert "crds.install=true" in message
    assert world.telemetry.registry.get_sample_value("koord_manager_node_metric_dropped_fields") == 1
    world.server.patch("customresourcedefinitions", NAME, {"spec": SUITES_CRD["spec"]})
    await watch.once()
    assert events(world)[-1][0] == "NodeMetricFieldsKept"
    assert world.telemetry.registry.get_sample_value("koord_manager_node_metric_dropped_fields") == 0


async def test_checks_again_after_each_period_and_after_an_error(world, caplog, monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)
        match len(pauses):
            case 1:
                world.server.add("customresourcedefinitions", without("status.prediction"))
                monkeypatch.setattr(world.server, "_openapi", lambda _path: apiserver.status(503, "ServiceUnavailable"))
            case 2:
                assert "cannot read CRD nodemetrics.slo.koordinator.sh" in caplog.text
                assert events(world) == []
                monkeypatch.undo()
            case 3:
                raise asyncio.CancelledError

    changes = []
    watch = controller.SchemaWatch(
        world.api, world.recorder, world.telemetry, sleep, on_change=lambda: changes.append(len(pauses))
    )
    with pytest.raises(asyncio.CancelledError):
        await watch.run(300.0)
    assert pauses == [300.0] * 3
    assert [reason for reason, _ in events(world)] == ["NodeMetricFieldsDropped"]
    assert len(changes) == 1
