"""200 nodes whose annotations are as bad as the apiserver lets them be cost bounded work and memory."""

import difflib
import gc
import json
import subprocess
import sys
import weakref

import pytest

from api_types.colocation import document
from api_types.colocation.problem import Effect
from api_types.kubernetes import pods
from api_types.node_metric import mid_status
from manager.cache import store
from manager.events import OBJECT_BURST, EventRecorder
from manager.mid_resource.decision import mid_policy
from manager.node_metric.spec import for_node
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


def test_a_counted_problem_refuses_the_layer_as_a_named_one_does():
    repeated = [field for field in strategy.slo.ColocationStrategy.model_fields if field.startswith("m")]
    keys = [strategy.camel_case(field) for field in repeated][:20]
    twice = ",".join(f'"{key}":null,"{key}":null' for key in keys)
    more = ",".join(f'"x{number}":1' for number in range(30))
    found, problems = document.read_strategy(f"{{{twice},{more}}}")
    assert found is None
    assert problems[-1].effect is Effect.LAYER_IGNORED


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


def test_a_cached_strategy_holds_nothing_that_no_controller_reads():
    known = strategy.Strategies(strategy.configuration(strategy.slo.ColocationConfig(enable=True)))
    found = known.merged({}, {STRATEGY: '{"enable": true, "extensions": {"a": 1}}'})
    assert (found.strategy.extensions, found.layers, found.strategy.enable) == (None, (), True)


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


def test_all_annotations_that_are_too_long_share_one_strategy(work):
    known = strategy.Strategies(strategy.configuration(strategy.slo.ColocationConfig(enable=True)))
    found = {id(known.merged({}, {STRATEGY: hostile_nodes.longest_text(number)})) for number in range(5)}
    assert (len(found), work["decoded"]) == (1, 0)


async def test_a_hostile_node_gets_its_allowance_of_events_and_is_decoded_once(world, work):
    world.configure({"enable": True})
    await world.config.start()
    recorder = EventRecorder(world.api, world.telemetry, world.clock)
    reconciler = Reconciler(
        cache=world.cache,
        config=world.config,
        config_reporter=world.reporter,
        node_metrics=world.node_metrics,
        mid_resources=world.mid,
        recorder=recorder,
        requeue_after=lambda name, seconds: None,
        add_spec=lambda name: None,
    )
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


def test_what_is_computed_from_strategies_is_bounded():
    strategies = strategy.Strategies(strategy.configuration(strategy.slo.ColocationConfig(enable=True)))
    results = []
    for index in range(2 * strategy.MOST_KNOWN):
        text = json.dumps({"midReclaimRatioPercent": index % 100, "metricReportIntervalSeconds": 30 + index})
        found = strategies.merged({}, {STRATEGY: text})
        results += [weakref.ref(mid_policy(found)), weakref.ref(for_node(found))]
    del found
    gc.collect()
    assert sum(each() is not None for each in results) <= 2 * strategy.MOST_KNOWN == 512
