"""Fields of the suite that a CRD in the cluster drops."""

import asyncio
import copy

import pytest

import tests.fakes.cluster as fake
from api_types.node_metric import crd_manifest
from apiserver_client import errors
from manager import assembly
from manager.node_metric import controller
from manager.settings import ManagerSettings
from manager.slo_config.controller import ConfigStep
from tests.fakes import apiserver, cluster
from tests.manager.conftest import World, worked_off
from tests.manager.in_process import posted


async def started(world, document=None):
    if document is not None:
        world.configure(document)
    await world.config.start()


async def test_a_node_metric_is_created_and_deleted_with_its_node(world):
    await started(world, {"enable": True})
    world.add_node()
    await world.settle()
    made = world.server.get("nodemetrics", "n1")
    assert made["metadata"]["ownerReferences"][0]["uid"] == world.server.get("nodes", "n1")["metadata"]["uid"]
    assert made["spec"]["midColocationPolicy"]["enable"] is True
    world.server.remove("nodes", "n1")
    with pytest.raises(KeyError):
        world.server.get("nodemetrics", "n1")


async def test_a_valid_edit_reaches_the_spec_and_the_status_stays_the_agents(world):
    await started(world, {"enable": True})
    world.add_node()
    await world.settle()
    world.report(allocated={"prod": {}, "mid": {}})
    before = world.server.get("nodemetrics", "n1")["status"]
    world.configure({"enable": True, "metricReportIntervalSeconds": 30})
    await started(world)
    await world.settle()
    after = world.server.get("nodemetrics", "n1")
    assert after["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] == 30
    assert after["status"] == before
    patches = [body for method, path, body in world.server.writes if method == "PATCH" and "nodemetrics" in path]
    assert patches == [{"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 30}}}]


async def test_a_correct_node_metric_is_not_written(world):
    await started(world, {"enable": True})
    world.add_node()
    await world.settle()
    writes = len(world.server.writes)
    await world.settle()
    assert len(world.server.writes) == writes


async def test_adopts_a_node_metric_that_was_not_in_the_store(world):
    await started(world, {"enable": True})
    world.add_node()
    world.server.add("nodemetrics", {"metadata": {"name": "n1"}, "spec": {"theirs": 1}})
    world.cache.nodes.update(world.cache.nodes.decode(world.server.get("nodes", "n1")))
    await world.node_metrics.reconcile("n1", None)
    found = world.server.get("nodemetrics", "n1")
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert found["spec"] == {"theirs": 1}


async def test_deletes_an_orphan_only_after_reading_its_node(world):
    await started(world, {"enable": True})
    world.add_node()
    world.server.add("nodemetrics", {"metadata": {"name": "n1"}})
    world.server.add("nodemetrics", {"metadata": {"name": "gone"}})
    for item in world.server.all("nodemetrics"):
        world.cache.node_metrics.update(world.cache.node_metrics.decode(item))
    await world.node_metrics.reconcile("n1", None)  # its node has not been seen yet
    await world.node_metrics.reconcile("gone", None)
    assert [item["metadata"]["name"] for item in world.server.all("nodemetrics")] == ["n1"]
    assert world.cache.nodes.get("n1") is not None


async def test_retries_a_node_metric_that_vanished_meanwhile(world):
    await started(world, {"enable": True})
    world.add_node()
    await world.settle()
    world.server.remove("nodemetrics", "n1")
    world.configure({"enable": True, "degradeTimeMinutes": 5})
    await started(world)
    node = world.cache.nodes.get("n1")
    strategy = world.config.strategies.merged(node.metadata.labels or {}, {})
    with pytest.raises(errors.NotFound):
        await world.node_metrics.reconcile("n1", strategy)
    await world.node_metrics.reconcile("n1", strategy)
    assert world.server.get("nodemetrics", "n1")["spec"]["midColocationPolicy"]["degradeTimeMinutes"] == 5


async def test_without_a_configuration_agents_get_the_default_policy_only(world):
    await started(world, "{")
    world.add_node()
    await world.settle()
    assert set(world.server.get("nodemetrics", "n1")["spec"]) == {"metricCollectPolicy"}
    assert world.mid_status() is None


async def test_a_refused_write_is_counted_and_raised(world):
    await started(world, {"enable": True})
    world.add_node()
    world.server.refuse["POST", "nodemetrics"] = cluster.Refusal(403, "Forbidden", "n1")
    with pytest.raises(errors.Forbidden):
        await world.settle()
    labels = {"kind": "node_metric", "outcome": "error"}
    assert world.telemetry.registry.get_sample_value("koord_manager_writes_total", labels) == 1


POOLS = {
    "enable": True,
    "nodeConfigs": [
        {"name": pool, "nodeSelector": {"matchLabels": {"pool": pool}}, "degradeTimeMinutes": minutes}
        for pool, minutes in (("a", 5), ("b", 7))
    ],
}


def degrade_minutes(world):
    return world.server.get("nodemetrics", "n1")["spec"]["midColocationPolicy"]["degradeTimeMinutes"]


def owners(world):
    return world.server.get("nodemetrics", "n1")["metadata"]["ownerReferences"]


async def test_reverts_an_edit_and_keeps_fields_of_others(world):
    await started(world, {"enable": True})
    world.add_node()
    await world.settle()
    before = world.server.get("nodemetrics", "n1")["spec"]
    theirs = {"theirs": {"x": 1}, "metricCollectPolicy": {"theirs": 2}}
    by_hand = {"metricCollectPolicy": {"reportIntervalSeconds": 7, "theirs": 2}, "predictPolicy": None}
    world.server.patch("nodemetrics", "n1", {"spec": {**theirs, **by_hand}})
    await world.settle()
    after = world.server.get("nodemetrics", "n1")["spec"]
    assert after == {
        **before,
        "theirs": {"x": 1},
        "metricCollectPolicy": {**before["metricCollectPolicy"], "theirs": 2},
    }


async def test_recreates_a_node_metric_deleted_by_hand(world):
    await started(world, {"enable": True})
    world.add_node()
    await world.settle()
    before = world.server.get("nodemetrics", "n1")
    world.server.remove("nodemetrics", "n1")
    await world.settle()
    after = world.server.get("nodemetrics", "n1")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


async def test_a_recreated_node_gets_a_new_node_metric(world):
    await started(world, {"enable": True})
    world.add_node()
    await world.settle()
    world.server.remove("nodes", "n1")
    world.add_node()
    await world.settle()
    assert [owner["uid"] for owner in owners(world)] == [world.server.get("nodes", "n1")["metadata"]["uid"]]


@pytest.mark.parametrize("left", [[{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "of-the-former"}], []])
async def test_a_node_metric_of_the_former_node_changes_its_owner(world, left):
    """The garbage collector is late: it may find the new Node's NodeMetric still owned by the old Node."""
    await started(world, {"enable": True})
    others = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "of-another-client"}
    world.server.add("nodemetrics", {"metadata": {"name": "n1", "ownerReferences": [*left, others]}})
    world.add_node()
    await world.settle()
    uid = world.server.get("nodes", "n1")["metadata"]["uid"]
    assert owners(world) == [others, {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}]


async def test_the_spec_follows_the_nodes_labels_and_annotation(world):
    await started(world, POOLS)
    world.add_node(labels={"pool": "a"})
    await world.settle()
    assert degrade_minutes(world) == 5
    for metadata, minutes in (
        ({"labels": {"pool": "b"}}, 7),
        ({"labels": {"pool": None}}, 15),
        ({"annotations": {"node.koordinator.sh/colocation-strategy": '{"degradeTimeMinutes": 3}'}}, 3),
        ({"annotations": {"node.koordinator.sh/colocation-strategy": '{"degradeTimeMinutes": 0}'}}, 15),
    ):
        world.server.patch("nodes", "n1", {"metadata": metadata})
        await world.settle()
        assert degrade_minutes(world) == minutes


async def test_an_invalid_and_a_deleted_document_keep_every_spec(world):
    await started(world, POOLS)
    world.add_node(labels={"pool": "a"})
    await world.settle()
    world.configure("{")
    await started(world)
    await world.settle()
    assert degrade_minutes(world) == 5
    world.server.remove("configmaps", "slo-controller-config", "koordinator-system")
    await started(world)
    await world.settle()
    assert degrade_minutes(world) == 5


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
        await posted(self.parts.events)

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
    parts = assembly.Components(world.api, ManagerSettings(workers=1), world.telemetry, clock=world.clock)
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
    await parts.config.work(ConfigStep.DECIDE)
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
