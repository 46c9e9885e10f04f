import pytest

from apiserver_client import errors
from tests.fakes import cluster


async def started(world, document=None):
    if document is not None:
        world.configure(document)
    await world.config.start()


async def test_a_node_metric_is_created_with_its_node_and_goes_with_it(world):
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


async def test_a_right_node_metric_is_not_written(world):
    await started(world, {"enable": True})
    world.add_node()
    await world.settle()
    writes = len(world.server.writes)
    await world.settle()
    assert len(world.server.writes) == writes


async def test_one_that_was_there_without_being_seen_is_adopted(world):
    await started(world, {"enable": True})
    world.add_node()
    world.server.add("nodemetrics", {"metadata": {"name": "n1"}, "spec": {"theirs": 1}})
    world.picture.nodes.see(world.server.get("nodes", "n1"))
    await world.node_metrics.reconcile("n1", None)
    found = world.server.get("nodemetrics", "n1")
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert found["spec"] == {"theirs": 1}


async def test_an_orphan_is_deleted_only_after_its_node_was_asked_for(world):
    await started(world, {"enable": True})
    world.add_node()
    world.server.add("nodemetrics", {"metadata": {"name": "n1"}})
    world.server.add("nodemetrics", {"metadata": {"name": "gone"}})
    for item in world.server.all("nodemetrics"):
        world.picture.node_metrics.see(item)
    await world.node_metrics.reconcile("n1", None)  # its node has not been seen yet
    await world.node_metrics.reconcile("gone", None)
    assert [item["metadata"]["name"] for item in world.server.all("nodemetrics")] == ["n1"]
    assert world.picture.nodes.get("n1") is not None


async def test_a_node_metric_that_vanished_meanwhile_is_tried_again(world):
    await started(world, {"enable": True})
    world.add_node()
    await world.settle()
    world.server.remove("nodemetrics", "n1")
    world.configure({"enable": True, "degradeTimeMinutes": 5})
    await started(world)
    node = world.picture.nodes.get("n1")
    strategy = world.config.strategies.of(node.metadata.labels or {}, {})
    with pytest.raises(errors.NotFound):
        await world.node_metrics.reconcile("n1", strategy)
    await world.node_metrics.reconcile("n1", strategy)
    assert world.server.get("nodemetrics", "n1")["spec"]["midColocationPolicy"]["degradeTimeMinutes"] == 5


async def test_without_a_good_configuration_agents_get_the_default_policy_and_nothing_else_happens(world):
    await started(world, "{")
    world.add_node()
    await world.settle()
    assert set(world.server.get("nodemetrics", "n1")["spec"]) == {"metricCollectPolicy"}
    assert world.receipt() is None


async def test_a_refusal_is_counted_and_passed_on(world):
    await started(world, {"enable": True})
    world.add_node()
    world.server.refuse["POST", "nodemetrics"] = cluster.Refusal(403, "Forbidden", "n1")
    with pytest.raises(errors.Forbidden):
        await world.settle()
    labels = {"kind": "node_metric", "result": "error"}
    assert world.telemetry.registry.get_sample_value("koord_manager_writes_total", labels) == 1
