import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.colocation import document
from api_types.colocation.problem import Effect


def problems(text):
    found = document.read_config(text if isinstance(text, str) else json.dumps(text))
    return found.config, [str(problem) for problem in found.problems]


@pytest.mark.parametrize("text", [None, ""])
def test_no_text_sets_nothing(text):
    found = document.read_config(text)
    assert found.config is not None
    assert found.config.to_wire() == {}
    assert found.problems == ()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"midCPUThresholdPercent": 150},
            "midCPUThresholdPercent: seen 150, want an integer, at least 0 and at most 100",
        ),
        ({"updateTimeThresholdSeconds": 60.5}, "updateTimeThresholdSeconds: seen 60.5, want an integer, at least 1"),
        ({"updateTimeThresholdSeconds": "60"}, 'updateTimeThresholdSeconds: seen "60", want an integer, at least 1'),
        (
            {"metricReportIntervalSeconds": 604801},
            "metricReportIntervalSeconds: seen 604801, want an integer, at least 1 and at most 604800",
        ),
        (
            {"nodePredictPolicy": {"cpuHalfLifeSeconds": 10**13}},
            f"nodePredictPolicy.cpuHalfLifeSeconds: seen {10**13}, want an integer, at least 60 and at most {10**12}",
        ),
        ({"degradeTimeMinutes": True}, "degradeTimeMinutes: seen true, want an integer, at least 1"),
        ({"enable": 1}, "enable: seen 1, want true or false"),
        ({"midFloor": "some"}, 'midFloor: seen "some", want one of allocated, none'),
        ({"nodePredictPolicy": {"n": 0}}, "nodePredictPolicy.n: seen 0, want a number, above 0 and at most 20"),
        (
            {"nodePredictPolicy": {"members": []}},
            "nodePredictPolicy.members: seen [], want a list, not empty and at most 6 items",
        ),
        ({"resourceDiffThreshold": 0}, "resourceDiffThreshold: seen 0, want a number, above 0"),
        ({"foo": 1}, "foo: seen 1, want a known key"),
        (
            {"midCpuTresholdPercent": 1},
            "midCpuTresholdPercent: seen 1, want a known key; is midCPUThresholdPercent meant?",
        ),
        (
            {"metricAggregatePolicy": {"durations": ["9" * 400 + "h"]}},
            f'metricAggregatePolicy.durations[0]: seen "{"9" * 99}..., want a duration such as 5m or 1h30m0s',
        ),
        (
            {"metricAggregatePolicy": {"durations": ["2562048h"]}},
            'metricAggregatePolicy.durations[0]: seen "2562048h", want a duration such as 5m or 1h30m0s',
        ),
        (
            {"metricAggregatePolicy": {"durations": ["5m", "soon"]}},
            'metricAggregatePolicy.durations[1]: seen "soon", want a duration such as 5m or 1h30m0s',
        ),
        (
            {"metricAggregatePolicy": {"durations": ["1.5s"]}},
            'metricAggregatePolicy.durations[0]: seen "1.5s", want whole seconds, from 1s to 12h0m0s',
        ),
        (
            {"metricAggregatePolicy": {"durations": ["-5m"]}},
            'metricAggregatePolicy.durations[0]: seen "-5m", want whole seconds, from 1s to 12h0m0s',
        ),
        (
            {"metricAggregatePolicy": {"durations": ["12h", "12h0m1s"]}},
            'metricAggregatePolicy.durations[1]: seen "12h0m1s", want whole seconds, from 1s to 12h0m0s',
        ),
        (
            {"metricAggregateDurationSeconds": 43201},
            "metricAggregateDurationSeconds: seen 43201, want an integer, at least 1 and at most 43200",
        ),
        ("null", "the document: seen null, want an object"),
        ("[]", "the document: seen [], want an object"),
    ],
)
def test_reports_a_problem_by_key_path_value_seen_and_value_wanted(given, problem):
    config, lines = problems(given)
    assert config is None
    assert lines == [problem]


def test_reports_all_problems_at_once():
    config, lines = problems({"enable": "yes", "midFloor": "x", "a": 1})
    assert config is None
    assert len(lines) == 3


@pytest.mark.parametrize("text", ['{"enable": tru', '{"enable": NaN}', "{", '{"a":' * 100_000])
def test_rejects_text_that_is_not_json(text):
    config, lines = problems(text)
    assert config is None
    assert lines[0].startswith("the document: seen")
    assert "want valid JSON" in lines[0]


@pytest.mark.parametrize(
    ("before", "opening", "closing", "after"),
    [
        ('{"nodeConfigs":', "[", "]", "}"),
        ('{"nodeConfigs":[{"nodeSelector":{"matchExpressions":', "[", "]", "}}]}"),
        ('{"extensions":', '{"a":', "}", "}"),
    ],
)
@pytest.mark.parametrize("depth", [65, 500])
def test_rejects_a_document_that_is_nested_too_deeply(before, opening, closing, after, depth):
    text = before + opening * depth + "1" + closing * depth + after
    config, lines = problems(text)
    assert config is None
    assert "want JSON of at most 64 levels" in lines[0]
    assert document.read_strategy(text)[0] is None


@pytest.mark.parametrize(
    ("number", "effect"),
    [
        (2**63 - 1, None),
        (2**63, Effect.DOCUMENT_REFUSED),
        (-(2**63), Effect.LAYER_IGNORED),
        (-(2**63) - 1, Effect.DOCUMENT_REFUSED),
    ],
)
def test_an_integer_beyond_64_bits_is_of_the_wrong_type_as_in_go(number, effect):
    """A wrong type fails the whole document, a value out of range its entry."""
    entry = {"name": "x", "nodeSelector": {"matchLabels": {"a": "b"}}, "degradeTimeMinutes": number}
    found = document.read_config(json.dumps({"nodeConfigs": [entry]}))
    assert [problem.effect for problem in found.problems] == ([effect] if effect else [])
    assert (found.config is None) is (effect is Effect.DOCUMENT_REFUSED)


def test_rejects_a_number_beyond_those_of_a_float():
    config, lines = problems('{"resourceDiffThreshold": 1e999}')
    assert config is None
    assert lines == ["resourceDiffThreshold: seen Infinity, want a number, above 0"]


def test_a_repeated_key_counts_as_its_last_value_with_advice():
    entry = '{"name": "x", "nodeSelector": {"matchLabels": {"a": "1"}}, "midFloor": "none", "midFloor": "allocated"}'
    found = document.read_config('{"enable": true, "Enable": false, "nodeConfigs": [' + entry + "]}")
    assert found.config.enable is False
    assert found.config.node_configs[0].mid_floor == "allocated"
    assert [(str(problem), problem.effect) for problem in found.problems] == [
        ("enable: seen false, want the key once: the last one counts", Effect.ADVICE),
        ('nodeConfigs[0].midFloor: seen "allocated", want the key once: the last one counts', Effect.ADVICE),
    ]
    strategy, advice = document.read_strategy('{"midFloor": "none", "midfloor": "allocated"}')
    assert strategy.mid_floor == "allocated"
    assert [problem.effect for problem in advice] == [Effect.ADVICE]


@pytest.mark.parametrize(
    ("given", "canonical"),
    [("1.5h", "1h30m0s"), ("90000ms", "1m30s"), ("+5m", "5m0s"), ("0.5h30m", "1h0m0s"), ("60000000µs", "1m0s")],
)
def test_accepts_every_go_duration_of_whole_seconds(given, canonical):
    config, lines = problems({"metricAggregatePolicy": {"durations": [given]}})
    assert lines == []
    assert config.metric_aggregate_policy.durations == [canonical]


def test_predict_policy_is_an_alias():
    assert problems({"predictPolicy": {"n": 4}})[0].node_predict_policy.n == 4
    assert problems({"predictPolicy": {"n": 4}, "nodePredictPolicy": {"n": 4}})[1] == []
    config, lines = problems({"predictPolicy": {"n": 4}, "nodePredictPolicy": {"n": 5}})
    assert config is None
    assert lines == ['predictPolicy: seen {"n": 4}, want the same as nodePredictPolicy, or one of the two alone']


POOL = {"matchLabels": {"pool": "x"}}


def test_an_invalid_entry_keeps_its_selector_and_sets_nothing():
    entries = [
        {"name": "bad", "nodeSelector": POOL, "enable": False, "midCPUThresholdPercent": 101},
        {"name": "good", "nodeSelector": {"matchLabels": {"pool": "y"}}, "midCPUThresholdPercent": 10},
    ]
    found = document.read_config(json.dumps({"enable": True, "nodeConfigs": entries}))
    assert found.config.to_wire()["nodeConfigs"] == [{"name": "bad", "nodeSelector": POOL}, entries[1]]
    assert [problem.effect for problem in found.problems] == [Effect.LAYER_IGNORED]
    assert found.problems[0].path == ("nodeConfigs", 0, "midCPUThresholdPercent")


@pytest.mark.parametrize(
    "selector",
    [{"matchExpressions": [{"key": "a", "operator": "out", "values": ["b"]}]}, {"matchLabel": {"pool": "x"}}],
)
def test_an_entry_with_an_invalid_selector_selects_nothing(selector):
    entry = {"name": "bad", "nodeSelector": selector, "enable": False}
    found = document.read_config(json.dumps({"enable": True, "nodeConfigs": [entry]}))
    assert found.config.to_wire()["nodeConfigs"] == [{"name": "bad"}]
    assert [problem.effect for problem in found.problems] == [Effect.LAYER_IGNORED]


def test_every_invalid_selector_is_a_problem_also_after_an_entry_without_one():
    bad = {"matchExpressions": [{"key": "a", "operator": "out"}]}
    entries = [{"name": "none", "midFloor": "none"}, *({"name": name, "nodeSelector": bad} for name in ("x", "y"))]
    found = document.read_config(json.dumps({"nodeConfigs": entries}))
    refused = [each.path for each in found.problems if each.effect is Effect.LAYER_IGNORED]
    assert [("nodeConfigs", position, "nodeSelector", "matchExpressions[0].operator") for position in (1, 2)] == [
        path for path in refused if path[2:3] == ("nodeSelector",)
    ]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"resourceDiffThreshold": 5}, "resourceDiffThreshold"),
        ({"midStaticCPUReservedPercent": 101}, "midStaticCPUReservedPercent"),
        ({"midReclaimMode": "dynamic"}, "midReclaimMode"),
        ({"nodeConfigs": [{"name": "x", "nodeSelector": {}, "midFloor": "none"}]}, "nodeConfigs[0].nodeSelector"),
        ({"nodeConfigs": [{"nodeSelector": POOL, "midFloor": "none"}]}, "nodeConfigs[0].name"),
        ({"nodeConfigs": [{"name": "x", "nodeSelector": POOL}]}, "nodeConfigs[0]"),
        ({"nodeConfigs": [{"name": "x", "nodeSelector": POOL, "enable": True}]}, "nodeConfigs[0].enable"),
        (
            {"nodeConfigs": [{"name": name, "nodeSelector": POOL, "midFloor": "none"} for name in "xy"]},
            "nodeConfigs[1].nodeSelector",
        ),
    ],
)
def test_accepts_with_advice_what_koordinators_controllers_accept(given, path):
    found = document.read_config(json.dumps(given))
    assert found.config is not None
    assert [problem.effect for problem in found.problems] == [Effect.ADVICE]
    assert str(found.problems[0]).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"nodePredictPolicy": {"predictor": "calibrated"}}, "nodePredictPolicy.predictor"),
        (
            {"nodePredictPolicy": {"predictor": "max", "members": ["calibrated", "percentile"]}},
            "nodePredictPolicy.predictor",
        ),
        ({"preset": "balanced", "midEviction": {"mode": "advise"}}, "preset"),
        (
            {
                "preset": "aggressive",
                "nodePredictPolicy": {"violationTargetPercent": 3},
                "midEviction": {"mode": "off"},
            },
            "preset",
        ),
        ({"preset": "balanced"}, None),
        ({"nodePredictPolicy": {"predictor": "calibrated"}, "midEviction": {"mode": "evict"}}, None),
        (
            {"nodePredictPolicy": {"predictor": "calibrated"}, "midEviction": {"reports": 5}},
            "nodePredictPolicy.predictor",
        ),
        ({"preset": "balanced", "nodePredictPolicy": {"predictor": "n-sigma-v2"}}, None),
        ({"nodePredictPolicy": {"predictor": "max", "members": ["n-sigma-v2", "calibrated"]}}, None),
        ({"nodePredictPolicy": {"evaluatedPredictors": ["calibrated"]}}, None),
        ({"preset": "conservative"}, None),
    ],
)
def test_advises_that_a_calibrated_peak_alone_is_not_in_force(given, path):
    found, lines = problems(given)
    assert found is not None
    assert [line.partition(":")[0] for line in lines] == ([] if path is None else [path])
    assert all(line.endswith("the larger of calibrated and n-sigma-v2 is in force") for line in lines)


def test_reports_overlapping_entries_with_the_earlier_ones_that_win():
    entries = [{"name": name, "nodeSelector": POOL, "midFloor": "none"} for name in "xyz"]
    found = document.read_config(json.dumps({"nodeConfigs": entries}))
    seen, rule = '.nodeSelector: seen {"matchLabels": {"pool": "x"}}, want', "the first entry that matches wins"
    assert [str(problem) for problem in found.problems] == [
        f"nodeConfigs[1]{seen} nodes outside nodeConfigs[0]: {rule}",
        f"nodeConfigs[2]{seen} nodes outside nodeConfigs[0], nodeConfigs[1]: {rule}",
    ]


@pytest.mark.parametrize(
    ("cluster", "entry", "void"),
    [
        ({"midCPUThresholdPercent": 90}, {}, "midCPUThresholdPercent"),
        (
            {"midMaxIncreasePercent": 100, "nodePredictPolicy": {"predictor": "borg-default", "n": 5}},
            {},
            "midMaxIncreasePercent, nodePredictPolicy.predictor",
        ),
        ({"predictPolicy": {"n": 3}}, {"midCPUThresholdPercent": 1}, "nodePredictPolicy.n"),
        ({"midCPUThresholdPercent": 90}, {"midCPUThresholdPercent": 20}, ""),
        ({"midCPUThresholdPercent": 40, "degradeTimeMinutes": 3}, {}, ""),
        ({"preset": "conservative"}, {}, ""),
    ],
)
def test_advises_on_a_preset_of_an_entry_that_keys_of_the_cluster_make_ineffective(cluster, entry, void):
    _, lines = problems(
        cluster | {"nodeConfigs": [{"name": "x", "nodeSelector": POOL, "preset": "conservative", **entry}]}
    )
    wanted = f"{void} in this entry too: the cluster strategy sets them, and wins over a preset"
    assert lines == ([f'nodeConfigs[0].preset: seen "conservative", want {wanted}'] if void else [])


def test_names_keys_without_effect_in_every_layer():
    entry = {"name": "x", "nodeSelector": POOL, "batchCPUThresholdPercent": 20}
    found = document.read_config(json.dumps({"cpuReclaimThresholdPercent": 60, "nodeConfigs": [entry]}))
    assert found.problems == ()
    assert found.unused == ("cpuReclaimThresholdPercent", "nodeConfigs[0].batchCPUThresholdPercent")


def test_rejects_the_annotation_of_a_node_as_a_whole():
    strategy, found = document.read_strategy('{"enable": true, "degradeTimeMinutes": -1}')
    assert strategy is None
    assert [problem.effect for problem in found] == [Effect.LAYER_IGNORED]
    assert document.read_strategy("invalidField")[0] is None
    assert document.read_strategy('{"enable": true}')[0].to_wire() == {"enable": True}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["enable", "nodeConfigs", "n"]), inner),
    max_leaves=20,
)


@given(JSON)
def test_never_raises_for_any_json(value):
    found = document.read_config(json.dumps(value))
    assert (found.config is None) == any(problem.effect is Effect.DOCUMENT_REFUSED for problem in found.problems)


@given(st.text())
def test_never_raises_for_any_text(text):
    assert document.read_config(text) is not None
