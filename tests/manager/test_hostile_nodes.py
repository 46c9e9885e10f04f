"""200 nodes whose annotations are as bad as the apiserver lets them be cost bounded work and memory."""

import difflib
import gc
import json
import subprocess
import sys

import pytest

from api_types.colocation import document
from api_types.colocation.problem import Effect
from api_types.kubernetes import pods
from api_types.node_metric import mid_status
from manager.cache import store
from manager.events import OBJECT_BURST, EventRecorder
from manager.reconciler import Reconciler
from manager.slo_config import strategy
from tests.manager import hostile_nodes
from tests.manager.hostile_nodes import LONGEST, STRATEGY

pytestmark = pytest.mark.slow

NODES = 200


@pytest.fixture
def work(monkeypatch):
    """Count keys that difflib compares, bytes that are decoded as JSON, and problems that are formatted."""
    done = {"compared": 0, "decoded": 0, "quoted": 0}

    def counting(module, name, key, amount):
        original = getattr(module, name)

        def counted(*args, **kwargs):
            done[key] += amount(args[0])
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    counting(difflib, "get_close_matches", "compared", lambda _: 1)
    counting(json, "loads", "decoded", len)
    counting(document.config_problem, "quoted", "quoted", lambda _: 1)
    return done


def stored(number):
    nodes = store.NodeStore()
    nodes.update(nodes.decode(hostile_nodes.node(number)))
    return nodes.get(f"hostile-{number}")


def test_a_longer_annotation_is_a_problem_and_not_decoded(work):
    text = " " * (LONGEST + 1)
    found, problems = document.read_strategy(text)
    assert found is None
    assert [str(each) for each in problems] == ["the document: seen more than 16384 bytes, want at most 16384"]
    assert [each.effect for each in problems] == [Effect.LAYER_IGNORED]
    assert document.read_strategy("é" * (LONGEST // 2) + " ")[0] is None, "it is bytes that count"
    assert work["decoded"] == 0
    assert document.read_strategy(" " * (LONGEST - 2) + "{}")[0] is not None


def test_of_many_problems_the_first_20_are_named_and_the_others_counted(work):
    text = json.dumps({f"k{number}": 0 for number in range(1000)})
    found, problems = document.read_strategy(text)
    assert found is None
    assert len(problems) == 21
    assert str(problems[-1]) == "the document: seen 980 more problems, want none"
    assert work["compared"] == document.MOST_SUGGESTIONS
    assert work["quoted"] == 20


@pytest.mark.parametrize("number", range(0, 14, 2))
def test_the_work_for_an_annotation_is_bounded(work, number):
    text = hostile_nodes.annotations(number)[STRATEGY]
    assert LONGEST * 0.85 < len(text) <= LONGEST
    _, problems = document.read_strategy(text)
    assert len(problems) <= 21
    assert work["compared"] <= document.MOST_SUGGESTIONS
    assert work["quoted"] <= 21


def test_the_store_keeps_what_is_read_and_nothing_that_is_too_long():
    node, too_long = stored(0), stored(1)
    assert set(pods.annotation_map(node.metadata)) == set(hostile_nodes.annotations(0)) - {"example.com/other"}
    assert pods.is_too_long(too_long.metadata.annotations[STRATEGY])
    assert too_long.metadata.annotations[STRATEGY] is stored(3).metadata.annotations[STRATEGY], "one text for all"


def test_a_status_annotation_that_is_too_long_is_none(work):
    text = json.dumps({"time": "2026-11-22T12:00:00Z", "reason": "Calculated", "detail": "x" * 1000})
    assert mid_status.decode(text) is not None
    assert mid_status.decode(text + " " * LONGEST) is None


def test_lists_of_an_annotation_are_bounded():
    for text in (
        '{"nodePredictPolicy": {"members": ["percentile"%s]}}',
        '{"metricAggregatePolicy": {"durations": ["5m"%s]}}',
    ):
        quoted = text[text.index('["') + 1 : text.index("%s")]
        assert document.read_strategy(text % "")[0] is not None
        found, [problem] = document.read_strategy(text % (f",{quoted}" * 16))
        assert found is None
        assert "at most" in problem.expected


def test_strategies_are_kept_by_digest_and_the_oldest_is_dropped(monkeypatch, work):
    monkeypatch.setattr(strategy, "MOST_KNOWN", 4)
    known = strategy.Strategies(strategy.configuration(strategy.slo.ColocationConfig(enable=True)))
    texts = [json.dumps({"degradeTimeMinutes": number}) for number in range(1, 7)]
    first = known.merged({}, {STRATEGY: texts[0]})
    for text in texts[1:4]:
        known.merged({}, {STRATEGY: text})
    assert known.merged({}, {STRATEGY: texts[0]}) is first
    decoded = work["decoded"]
    for text in texts[4:]:
        known.merged({}, {STRATEGY: text})
    assert known.merged({}, {STRATEGY: texts[0]}) is first, "it was used last"
    assert work["decoded"] == decoded + len(texts[4]) + len(texts[5])
    assert len(known._known) == 4
    assert not any(text in repr(list(known._known)) for text in texts)


async def reconciler_of(world):
    world.configure({"enable": True})
    await world.config.start()
    return Reconciler(
        cache=world.cache,
        config=world.config,
        config_reporter=world.reporter,
        node_metrics=world.node_metrics,
        mid_resources=world.mid,
        recorder=EventRecorder(world.api, world.telemetry, world.clock),
        add=lambda name: None,
        add_spec=lambda name: None,
    )


async def test_nodes_with_a_strategy_each_keep_few_strategies_in_memory(world, monkeypatch):
    monkeypatch.setattr(strategy, "MOST_KNOWN", 4)
    reconciler = await reconciler_of(world)

    def strategies():
        gc.collect()
        return sum(type(item) is strategy.NodeStrategy for item in gc.get_objects())

    before = strategies()
    for number in range(12):
        world.add_node(f"n{number}", annotations={STRATEGY: json.dumps({"degradeTimeMinutes": 5 + number})})
        world.sync_cache()
        await reconciler.reconcile_node_metric(f"n{number}")
        world.sync_cache()
        await reconciler.reconcile(f"n{number}")
    assert strategies() - before <= 4


async def test_a_hostile_node_gets_its_allowance_of_events_and_is_decoded_once(world, work):
    reconciler = await reconciler_of(world)
    world.add_node(annotations={STRATEGY: hostile_nodes.decoded_text(0)})
    for _ in range(3):
        world.sync_cache()
        await reconciler.reconcile("n1")
    of_node = [event for event in world.server.all("events") if event["involvedObject"]["kind"] == "Node"]
    assert len(of_node) == 21
    decoded = work["decoded"]
    await reconciler.reconcile("n1")
    assert work["decoded"] - decoded < LONGEST, "only answers of the apiserver"
    for number in range(1, 15):
        text = hostile_nodes.decoded_text(number)
        world.server.patch("nodes", "n1", {"metadata": {"annotations": {STRATEGY: text}}})
        world.sync_cache()
        await reconciler.reconcile("n1")
    of_node = [event for event in world.server.all("events") if event["involvedObject"]["kind"] == "Node"]
    assert len(of_node) <= OBJECT_BURST


MEMORY = """
import gc
from manager.cache import store
from manager.mid_resource.decision import mid_policy
from manager.node_metric.spec import for_node
from manager.slo_config import strategy
from tests.manager import hostile_nodes

def rss_mebibytes():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

def seen(numbers):
    for number in numbers:
        nodes.update(nodes.decode(hostile_nodes.node(number)))
        node = nodes.get(f"hostile-{number}")
        found = strategies.merged({}, node.metadata.annotations)
        mid_policy(found), for_node(found)

nodes = store.NodeStore()
strategies = strategy.Strategies(strategy.configuration(strategy.slo.ColocationConfig(enable=True)))
seen(range(2))
before = rss_mebibytes()
seen(range(%d))
print(rss_mebibytes() - before)
"""


def test_200_hostile_nodes_take_at_most_32_mebibytes():
    ran = subprocess.run([sys.executable, "-c", MEMORY % NODES], capture_output=True, text=True, check=True, timeout=50)
    assert float(ran.stdout) <= 32
