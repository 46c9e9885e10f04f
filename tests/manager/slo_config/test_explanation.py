import json

from hypothesis import given
from hypothesis import strategies as st

from api_types import names
from manager.slo_config import evaluation, explanation, strategy

POOL = {"matchLabels": {"pool": "x"}}
ANNOTATION = names.ANNOTATION_COLOCATION_STRATEGY
RATIO = names.LABEL_MID_STATIC_CPU_RESERVED_RATIO


def explained(document, labels=None, annotations=None, before=None):
    text = document if isinstance(document, str) else json.dumps(document)
    outcome = evaluation.evaluate(before, {names.COLOCATION_CONFIG_KEY: text}, exists=True)
    return explanation.explain("n1", labels or {}, annotations or {}, outcome, source="the test", kept_in="kept")


def origins(found):
    return {value.key: value.layer for value in found.values}


def text_of(found):
    return "\n".join([*explanation.head(found), *("  ".join(row) for row in explanation.value_rows(found.values))])


def test_each_value_names_the_highest_layer_that_sets_it():
    document = {
        "enable": True,
        "preset": "balanced",
        "midCPUThresholdPercent": 80,
        "nodeConfigs": [{"name": "x", "nodeSelector": POOL, "midUnallocatedPercent": 30, "predictPolicy": {"n": 3}}],
    }
    own = {ANNOTATION: '{"degradeTimeMinutes": 5, "nodePredictPolicy": {"members": ["percentile"]}}'}
    found = origins(explained(document, {"pool": "x", RATIO: "0.2"}, own))
    assert {key: found[key] for key in (
        "midFloor", "midMemoryThresholdPercent", "midCPUThresholdPercent", "midUnallocatedPercent",
        "nodePredictPolicy.n", "nodePredictPolicy.members", "nodePredictPolicy.predictor", "degradeTimeMinutes",
        "midStaticCPUReservedPercent", "midReclaimMode",
    )} == {
        "midFloor": "defaults",
        "midMemoryThresholdPercent": "preset balanced",
        "midCPUThresholdPercent": "cluster strategy",
        "midUnallocatedPercent": "nodeConfigs[0] x",
        "nodePredictPolicy.n": "nodeConfigs[0] x",
        "nodePredictPolicy.members": f"annotation {ANNOTATION}",
        "nodePredictPolicy.predictor": "preset balanced",
        "degradeTimeMinutes": f"annotation {ANNOTATION}",
        "midStaticCPUReservedPercent": f"label {RATIO}",
        "midReclaimMode": "",
    }  # fmt: skip


def test_the_text_names_the_replaced_value():
    lines = text_of(explained({"enable": True, "preset": "balanced", "midCPUThresholdPercent": 80})).splitlines()
    [line] = [line for line in lines if line.startswith("midCPUThresholdPercent")]
    assert line.split(maxsplit=2) == [
        "midCPUThresholdPercent", "80", "cluster strategy, instead of 65 (preset balanced)",
    ]  # fmt: skip


def test_a_refused_layer_is_named_with_its_errors_and_sets_nothing():
    found = explained({"enable": True}, annotations={ANNOTATION: '{"midCPUThresholdPercent": 500, "foo": 1}'})
    text = text_of(found)
    assert f"annotation {ANNOTATION}: IGNORED" in text
    assert "midCPUThresholdPercent: seen 500, want an integer, at least 0 and at most 100" in text
    assert "foo: seen 1, want a known key" in text
    assert origins(found)["midCPUThresholdPercent"] == "defaults"


def test_names_an_entry_that_an_earlier_one_precedes():
    entries = [{"name": "x", "nodeSelector": POOL, "midFloor": "none"}, {"name": "all", "nodeSelector": {}}]
    text = text_of(explained({"enable": True, "nodeConfigs": entries}, {"pool": "x"}))
    assert "nodeConfigs[1] matches as well and is not used: nodeConfigs[0] comes first" in text


def test_states_whether_the_node_takes_part_and_why():
    entry = {"name": "x", "nodeSelector": POOL, "enable": False}
    on = {"enable": True, "nodeConfigs": [entry]}
    assert explanation.participation(explained(on)) == "takes part in colocation"
    off = explanation.participation(explained(on, {"pool": "x"}))
    assert off == "takes no part in colocation: enable is false by nodeConfigs[0] x"
    alone = explanation.participation(explained({}, annotations={ANNOTATION: '{"enable": true}'}))
    assert "enable is not true for the cluster" in alone
    assert "cannot switch it on alone" in alone


def test_shows_a_refused_document_above_the_strategy_in_force():
    good = evaluation.evaluate(
        None, {names.COLOCATION_CONFIG_KEY: '{"enable": true, "degradeTimeMinutes": 7}'}, exists=True
    )
    found = explained({"degradeTimeMinutes": 0}, before=good.configuration)
    text = text_of(found)
    assert "degradeTimeMinutes: seen 0, want an integer, at least 1" in text
    assert "(ConfigMap kept)" in text
    assert {value.key: value.value for value in found.values}["degradeTimeMinutes"] == 7


def test_a_bag_that_is_merged_by_key_comes_from_all_its_layers():
    own = {ANNOTATION: '{"extensions": {"a": {"y": 2}}}'}
    found = explained({"enable": True, "extensions": {"a": {"x": 1}}}, annotations=own)
    bag = next(value for value in found.values if value.key == "extensions")
    assert bag.value == {"a": {"x": 1, "y": 2}}
    assert bag.layer == f"annotation {ANNOTATION}, cluster strategy"


POLICY = st.fixed_dictionaries({}, optional={"n": st.integers(0, 21), "members": st.just(["percentile"])})
KEYS = st.fixed_dictionaries({}, optional={
    "enable": st.booleans(),
    "preset": st.sampled_from(["conservative", "balanced", "aggressive"]),
    "midCPUThresholdPercent": st.integers(0, 101),
    "nodePredictPolicy": POLICY,
})  # fmt: skip


@given(cluster=KEYS, entry=KEYS, own=KEYS)
def test_the_values_are_those_of_the_strategy_that_the_controllers_use(cluster, entry, own):
    document = {**cluster, "nodeConfigs": [{"name": "x", "nodeSelector": POOL, **entry}]}
    found = explained(document, {"pool": "x"}, {ANNOTATION: json.dumps(own)})
    if found.strategy is None:
        return
    used = (
        strategy.Strategies(found.outcome.configuration).merged({"pool": "x"}, {ANNOTATION: json.dumps(own)}).strategy
    )
    wire = used.to_wire()
    for value in found.values:
        here = wire
        for part in value.key.split("."):
            here = (here or {}).get(part)
        assert value.value == here, value.key
        assert bool(value.layer) == (here is not None)
