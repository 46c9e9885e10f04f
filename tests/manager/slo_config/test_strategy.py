import gc
import json
import weakref

import pytest

from api_types import names
from api_types.colocation import document as colocation_document
from api_types.colocation.problem import Effect
from manager.slo_config import strategy


def configured(**document):
    found = colocation_document.read_config(json.dumps(document))
    assert found.config is not None, found.problems
    return strategy.configuration(found.config)


def node(config, labels=None, annotation=None):
    annotations = {} if annotation is None else {names.ANNOTATION_COLOCATION_STRATEGY: annotation}
    return strategy.node_strategy(config, labels or {}, annotations)


ENTRIES = [
    {"name": "x", "nodeSelector": {"matchLabels": {"pool": "x"}}, "midCPUThresholdPercent": 20},
    {"name": "all", "nodeSelector": {}, "midCPUThresholdPercent": 10},
]


def test_the_first_entry_that_matches_wins():
    config = configured(enable=True, midCPUThresholdPercent=80, nodeConfigs=ENTRIES)
    assert node(config, {"pool": "x"}).strategy.mid_cpu_threshold_percent == 20
    assert node(config, {"pool": "y"}).strategy.mid_cpu_threshold_percent == 10
    assert node(config, {"pool": "x"}).matching == (0, 1)


def test_the_longest_report_interval_is_that_of_the_cluster_or_of_an_entry():
    assert configured(enable=True).longest_report_interval_seconds == 60
    slow = {"name": "slow", "nodeSelector": {}, "metricReportIntervalSeconds": 300}
    assert configured(enable=True, nodeConfigs=[slow]).longest_report_interval_seconds == 300


def test_merges_layers_in_the_documented_order():
    config = configured(
        enable=True,
        preset="conservative",
        midStaticCPUReservedPercent=1,
        nodeConfigs=[{"name": "x", "nodeSelector": {"matchLabels": {"pool": "x"}}, "midStaticCPUReservedPercent": 2}],
    )
    annotation = '{"midStaticCPUReservedPercent": 3}'
    label = {names.LABEL_MID_STATIC_CPU_RESERVED_RATIO: "0.04"}
    steps = [node(config), node(config, {"pool": "x"}), node(config, {"pool": "x"}, annotation)]
    steps.append(node(config, {"pool": "x", **label}, annotation))
    assert [step.strategy.mid_static_cpu_reserved_percent for step in steps] == [1, 2, 3, 4]
    assert [layer.name for layer in steps[-1].layers] == [
        "defaults",
        "preset conservative",
        "cluster strategy",
        "nodeConfigs[0] x",
        "annotation node.koordinator.sh/colocation-strategy",
        "label node.koordinator.sh/mid-static-cpu-reserved-ratio",
    ]


def test_a_preset_is_below_the_cluster_strategy_wherever_it_is_set():
    config = configured(
        enable=True,
        midCPUThresholdPercent=55,
        nodeConfigs=[{"name": "x", "nodeSelector": {"matchLabels": {"pool": "x"}}, "preset": "aggressive"}],
    )
    assert node(config).strategy.mid_memory_threshold_percent == 100
    in_pool = node(config, {"pool": "x"}).strategy
    assert in_pool.mid_memory_threshold_percent == 80
    assert in_pool.mid_cpu_threshold_percent == 55


@pytest.mark.parametrize(
    ("cluster", "own", "enabled"),
    [(True, None, True), (True, False, False), (False, True, False), (None, True, False), (True, True, True)],
)
def test_requires_colocation_on_for_cluster_and_node(cluster, own, enabled):
    document = {} if cluster is None else {"enable": cluster}
    annotation = None if own is None else json.dumps({"enable": own})
    assert node(configured(**document), annotation=annotation).enabled is enabled


@pytest.mark.parametrize("label", names.LABELS_WITHOUT_DAEMON_SETS.items())
def test_colocation_is_off_where_no_agent_can_run_unless_an_entry_or_the_node_sets_it(label):
    virtual, other = dict([label]), {label[0]: "other"}
    cluster = configured(enable=True)
    entry = {"name": "x", "nodeSelector": {"matchLabels": virtual}, "enable": True}
    assert (node(cluster, virtual).enabled, node(cluster, other).enabled) == (False, True)
    assert node(cluster, virtual).layers[-1].name == f"label {label[0]}={label[1]}"
    assert node(cluster, virtual, annotation='{"enable": true}').enabled
    assert node(configured(enable=True, nodeConfigs=[entry]), virtual).enabled
    strategies = strategy.Strategies(cluster)
    assert [strategies.merged(labels, {}).enabled for labels in (other, virtual, {}, virtual)] == [True, False] * 2


def test_an_invalid_annotation_is_reported_and_lower_layers_stay():
    found = node(configured(enable=True, midCPUThresholdPercent=70), annotation='{"midCPUThresholdPercent": 500}')
    assert found.strategy.mid_cpu_threshold_percent == 70
    [(where, problem)] = found.problems
    assert names.ANNOTATION_COLOCATION_STRATEGY in where
    assert str(problem).startswith("midCPUThresholdPercent: seen 500")


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("0.29", 29), ("0.295", 30), ("0.294", 29), ("0", 0), ("1", 100), ("1.5", 150), (".5", 50), ("5e-1", 50),
        ("-1", None), ("invalidField", None), ("", None), ("NaN", None), ("inf", None), ("1_0", None), ("1e9", None),
    ],
)  # fmt: skip
def test_a_ratio_becomes_a_percentage_rounded_half_up(text, percent):
    assert strategy.percent_of_ratio(text) == percent


def test_an_invalid_ratio_label_is_ignored_and_reported():
    found = node(configured(enable=True), {names.LABEL_MID_STATIC_CPU_RESERVED_RATIO: "half"})
    assert found.strategy.mid_static_cpu_reserved_percent == 0
    [(where, problem)] = found.problems
    assert where == "label node.koordinator.sh/mid-static-cpu-reserved-ratio"
    assert str(problem).startswith('midStaticCPUReservedPercent: seen "half", want a ratio')


def test_an_extreme_label_is_used_with_the_advice_of_the_config_map():
    found = node(configured(enable=True), {names.LABEL_MID_STATIC_CPU_RESERVED_RATIO: "1.5"})
    assert found.strategy.mid_static_cpu_reserved_percent == 150
    assert [str(problem) for _, problem in found.problems] == [
        "midStaticCPUReservedPercent: seen 150, want at most 100"
    ]


def test_a_refused_entry_is_a_layer_without_keys_and_with_its_problems():
    bad = {"name": "bad", "nodeSelector": {"matchLabels": {"pool": "x"}}, "midCPUThresholdPercent": 300}
    text = json.dumps({"enable": True, "midCPUThresholdPercent": 70, "nodeConfigs": [bad]})
    reading = colocation_document.read_config(text)
    found = node(strategy.configuration(reading.config, reading.problems), {"pool": "x"})
    [layer] = [layer for layer in found.layers if layer.name == "nodeConfigs[0] bad"]
    assert layer.refused
    assert [problem.path for problem in layer.problems if problem.effect is Effect.LAYER_IGNORED] == [
        ("nodeConfigs", 0, "midCPUThresholdPercent")
    ]
    assert found.strategy.mid_cpu_threshold_percent == 70
    assert found.problems == ()  # reported on the ConfigMap, not on each node


def test_equivalent_documents_are_equal():
    assert configured(enable=False) == configured()
    assert configured(enable=True) != configured()
    assert configured(enable=True, degradeTimeMinutes=15) == configured(enable=True)
    assert configured(nodeConfigs=ENTRIES) != configured()


def test_what_is_derived_from_a_strategy_lives_as_long_as_the_strategy():
    class Derived:
        pass

    derivations = []
    derive = strategy.once_per_strategy(lambda found: derivations.append(found.enabled) or Derived())
    found = node(configured(enable=True))
    first = weakref.ref(derive(found))
    assert derive(found) is first()
    del found
    gc.collect()
    assert first() is None
    assert derivations == [True]
