import pytest

from manager.events import EventRecorder
from manager.reconciler import Reconciler

ANNOTATION = "node.koordinator.sh/colocation-strategy"
RATIO = "node.koordinator.sh/mid-static-cpu-reserved-ratio"
LEFT_OUT = "(this layer is ignored, what lies below it stays in force)"


def reconciler_of(world, add=lambda name: None):
    return Reconciler(
        cache=world.cache,
        config=world.config,
        config_reporter=world.reporter,
        node_metrics=world.node_metrics,
        mid_resources=world.mid,
        recorder=EventRecorder(world.config.api, world.telemetry, world.clock),
        add=add,
        add_spec=lambda name: None,
    )


@pytest.fixture
def reconcile(world):
    """Reconcile the node n1 after events."""
    reconciler = reconciler_of(world)
    world.telemetry.misconfigured_nodes.set_function(reconciler.misconfigured_nodes)

    async def once():
        world.sync_cache()
        await reconciler.reconcile("n1")
        await reconciler.reconcile_node_metric("n1")

    return once


def problem_events(world, about="Node"):
    """Return (reason, message, count) of the Events about a kind of object."""
    return [
        (item["reason"], item["message"], item["count"])
        for item in world.server.all("events")
        if item["involvedObject"]["kind"] == about and item["reason"].startswith("NodeStrategy")
    ]


async def test_reports_an_invalid_annotation_with_key_path_seen_and_wanted_value(world, reconcile):
    world.configure({"enable": True, "degradeTimeMinutes": 9})
    await world.config.start()
    world.add_node(annotations={ANNOTATION: '{"degradeTimeMinutes": -1, "nodePredictPolicy": {"n": "3"}}'})
    await reconcile()
    assert sorted(message for _, message, _ in problem_events(world)) == [
        f"annotation {ANNOTATION}: degradeTimeMinutes: seen -1, want an integer, at least 1 {LEFT_OUT}",
        f'annotation {ANNOTATION}: nodePredictPolicy.n: seen "3", want a number, above 0 and at most 20 {LEFT_OUT}',
    ]
    assert {reason for reason, _, _ in problem_events(world)} == {"NodeStrategyIgnored"}
    assert world.server.get("nodemetrics", "n1")["spec"]["midColocationPolicy"]["degradeTimeMinutes"] == 9


async def test_reports_once_and_again_after_another_mistake(world, reconcile):
    world.configure({"enable": True})
    await world.config.start()
    world.add_node(annotations={ANNOTATION: "{"})
    for _ in range(3):
        await reconcile()
    assert [count for _, _, count in problem_events(world)] == [1]
    world.server.patch("nodes", "n1", {"metadata": {"annotations": {ANNOTATION: "["}}})
    await reconcile()
    assert len(problem_events(world)) == 2
    for text in (None, "{"):
        world.server.patch("nodes", "n1", {"metadata": {"annotations": {ANNOTATION: text}}})
        await reconcile()
    assert sorted(count for _, _, count in problem_events(world)) == [1, 2]


async def test_reports_each_label_by_its_effect(world, reconcile):
    world.configure({"enable": True})
    await world.config.start()
    world.add_node(labels={RATIO: "1.5", "node.koordinator.sh/mid-static-memory-reserved-ratio": "a lot"})
    await reconcile()
    beyond = "midStaticCPUReservedPercent: seen 150, want at most 100 (accepted, but probably not what is meant)"
    no_ratio = f'midStaticMemoryReservedPercent: seen "a lot", want a ratio such as 0.65, 0 or more {LEFT_OUT}'
    assert sorted(problem_events(world)) == [
        ("NodeStrategyAdvice", f"label {RATIO}: {beyond}", 1),
        ("NodeStrategyIgnored", f"label node.koordinator.sh/mid-static-memory-reserved-ratio: {no_ratio}", 1),
    ]


async def test_reports_overlapping_entries_of_a_node(world, reconcile):
    entries = [{"name": key, "nodeSelector": {"matchLabels": {key: "1"}}, "midFloor": "none"} for key in "ab"]
    world.configure({"enable": True, "nodeConfigs": entries})
    await world.config.start()
    world.add_node(labels={"a": "1", "b": "1"})
    await reconcile()
    messages = [item["message"] for item in world.server.all("events") if item["involvedObject"]["kind"] == "ConfigMap"]
    assert any("the first entry that matches wins, as on node n1" in message for message in messages)


async def test_counts_misconfigured_nodes_while_they_are(world, reconcile):
    world.configure({"enable": True})
    await world.config.start()
    world.add_node(annotations={ANNOTATION: "{"})
    counted = [world.telemetry.registry.get_sample_value("koord_manager_misconfigured_nodes")]
    for change in (lambda: None, lambda: world.server.patch("nodes", "n1", {"metadata": {"annotations": None}})):
        change()
        await reconcile()
        counted.append(world.telemetry.registry.get_sample_value("koord_manager_misconfigured_nodes"))
    assert counted == [0, 1, 0]


async def test_a_node_that_is_created_again_with_the_same_mistake_gets_an_event_of_its_own(world, reconcile):
    world.configure({"enable": True})
    await world.config.start()
    for _ in range(2):
        world.add_node(annotations={ANNOTATION: "{"})
        await reconcile()
        before = world.server.get("nodes", "n1")["metadata"]["uid"]
        world.server.remove("nodes", "n1")
    found = [item["involvedObject"]["uid"] for item in world.server.all("events")]
    assert len(set(found) - {""}) >= 2
    assert before in found


async def test_a_node_that_only_its_node_metric_finds_is_reconciled_at_once(world):
    """Its watch had not delivered it yet: an orphan is deleted only after its Node is read."""
    requeued = []
    reconciler = reconciler_of(world, add=requeued.append)
    world.configure({"enable": True})
    await world.config.start()
    world.server.add("nodemetrics", {"metadata": {"name": "n1"}})
    world.server.add("nodemetrics", {"metadata": {"name": "gone"}})
    world.sync_cache()
    world.add_node()
    for name in ("n1", "gone"):
        await reconciler.reconcile_node_metric(name)
    assert requeued == ["n1"]
