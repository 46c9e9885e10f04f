"""Advice on entries of `colocation-config`: which entry gets it, and what it states."""

import json

import pytest

from api_types.colocation import advice, document, presets, problem
from api_types.colocation.controller_config import ColocationStrategy, PredictPolicy
from api_types.wire_model import camel_case

POOL = {"matchLabels": {"pool": "x"}}


def lines(*entries, **cluster):
    found = document.read_config(json.dumps({**cluster, "nodeConfigs": list(entries)}))
    return [str(each) for each in found.problems]


@pytest.mark.parametrize(
    ("selector", "meaning"), [({"nodeSelector": {}}, "every node is selected"), ({}, "none is selected")]
)
def test_an_entry_without_a_selector_differs_from_one_with_an_empty_selector(selector, meaning):
    (line,) = lines({"name": "x", "midFloor": "none", **selector})
    assert line.startswith("nodeConfigs[0].nodeSelector: seen ")
    assert line.endswith(f"want a selector that is not empty ({meaning})")


def test_an_entry_without_a_name_and_one_with_the_name_of_an_earlier_one_need_another():
    labels = [{"matchLabels": {"pool": pool}} for pool in "abcd"]
    names = [{"name": "x"}, {}, {"name": "y"}, {"name": "x"}]
    given = [{"nodeSelector": label, "midFloor": "none", **name} for label, name in zip(labels, names, strict=True)]
    assert lines(*given) == [
        "nodeConfigs[1].name: seen null, want a name of its own",
        'nodeConfigs[3].name: seen "x", want a name of its own',
    ]


@pytest.mark.parametrize(
    ("policy", "in_force"),
    [
        ({"predictor": "calibrated"}, ["calibrated", "n-sigma-v2"]),
        ({"predictor": "max", "members": ["calibrated", "percentile"]}, ["calibrated", "percentile", "n-sigma-v2"]),
        ({"predictor": "max", "members": ["calibrated", "n-sigma-v2"]}, None),
        ({"predictor": "max", "members": ["percentile"]}, None),
        ({"predictor": "max"}, None),
        ({"predictor": "n-sigma-v2"}, None),
        ({"predictor": "percentile", "members": ["calibrated"]}, None),
        ({}, None),
    ],
)
def test_a_calibrated_peak_gets_a_larger_one_beside_it(policy, in_force):
    given = PredictPolicy.model_validate(policy)
    assert presets.is_gated(given) is (in_force is not None)
    wanted = {"predictor": "max", "members": in_force} if in_force else policy
    assert presets.behind_gate(given).to_wire() == wanted


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("borg-default", True),
        ("borg", False),
        ("", False),
        ("max", True),
        ("acme/peak", True),
        ("acme/peak/2", False),
        (f"{'a' * 63}/{'b' * 63}", True),
        (f"{'a' * 64}/{'b' * 63}", False),
        (f"{'a' * 64}/{'b' * 64}", False),
    ],
)
def test_a_predictor_is_a_built_in_one_or_has_the_name_of_a_package_in_two_dns_labels(name, is_known):
    found = document.read_config(json.dumps({"nodePredictPolicy": {"predictor": name}}))
    assert (found.config is not None) is is_known


@pytest.mark.parametrize(("count", "counted"), [(20, None), (21, 1), (25, 5)])
def test_of_many_problems_of_an_annotation_the_first_20_are_named_and_the_others_are_counted(count, counted):
    text = json.dumps({f"unknown{number}": number for number in range(count)})
    strategy, found = document.read_strategy(text)
    assert strategy is None
    assert len(found) == min(count, 20) + (counted is not None)
    assert [each.path for each in found[:20]] == [(f"unknown{number}",) for number in range(20)]
    assert [problem.actual for problem in found[20:]] == ([f"{counted} more problems"] if counted else [])


def test_a_similar_key_is_searched_for_the_first_five_unknown_ones():
    unknown = ["enabl", "presett", "midFlor", "midPublis", "degradeTimeMinute", "midReclaimMod"]
    found = document.read_strategy(json.dumps(dict.fromkeys(unknown, 1)))[1]
    meant = [str(each).partition("is ")[2] for each in found]
    assert meant == [
        *(f"{key} meant?" for key in ("enable", "preset", "midFloor", "midPublish", "degradeTimeMinutes")),
        "",
    ]


def test_an_annotation_is_refused_for_a_problem_that_is_only_counted():
    """Advice on repeated keys comes before the check of the values."""
    known = [camel_case(field) for field in ColocationStrategy.model_fields]
    repeated = ", ".join(f'"{key}": null' for key in [*known, *known])
    strategy, found = document.read_strategy(f'{{{repeated}, "degradeTimeMinutes": -1}}')
    assert strategy is None
    assert {each.effect for each in found[:20]} == {problem.Effect.ADVICE}
    assert found[20].effect is problem.Effect.LAYER_IGNORED


def test_an_entry_cannot_enable_its_nodes_alone():
    assert lines({"name": "x", "nodeSelector": POOL, "enable": True}) == [
        "nodeConfigs[0].enable: seen true, want enable: true for the cluster too, whose value otherwise wins"
    ]
    assert lines({"name": "x", "nodeSelector": POOL, "enable": True}, enable=True) == []


def read(text):
    found = document.read_config(text if isinstance(text, str) else json.dumps(text))
    assert found.config is not None
    return found


def paths(given):
    return [problem.path for problem in advice.strategy_advice(read(given).config)]


@pytest.mark.parametrize(
    ("key", "most", "more"),
    [
        ("midStaticCPUReservedPercent", 100, 101),
        ("midStaticMemoryReservedPercent", 100, 101),
        ("resourceDiffThreshold", 1, 1.01),
    ],
)
def test_the_largest_useful_value_comes_without_advice(key, most, more):
    assert paths({key: most}) == []
    assert paths({key: more}) == [(key,)]


@pytest.mark.parametrize(
    ("policy", "threshold", "is_advised"),
    [
        ("usageWithPageCache", 70, True),
        ("usageWithPageCache", None, False),
        ("usageWithoutPageCache", 70, False),
        (None, 70, False),
    ],
)
def test_a_memory_threshold_has_no_effect_only_while_the_page_cache_counts(policy, threshold, is_advised):
    given = {"metricMemoryCollectPolicy": policy, "midEviction": {"memoryThresholdPercent": threshold}}
    assert (("midEviction", "memoryThresholdPercent") in paths(given)) is is_advised


@pytest.mark.parametrize(
    ("given", "is_empty"),
    [
        ({}, True),
        ({"matchLabels": {}, "matchExpressions": []}, True),
        ({"matchLabels": {"a": "1"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, False),
    ],
)
def test_an_entry_whose_selector_has_no_requirement_comes_with_advice(given, is_empty):
    found = read({"nodeConfigs": [{"name": "all", "nodeSelector": given, "enable": True}], "enable": True})
    paths = [problem.path for problem in advice.selector_advice(found.config)]
    assert paths == [("nodeConfigs", 0, "nodeSelector")] * is_empty
