import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.colocation import controller_config as slo
from api_types.colocation import document
from api_types.colocation.controller_config import ColocationStrategy, MetricAggregatePolicy, PredictPolicy
from api_types.kubernetes import pods
from api_types.node_metric import crd_manifest
from api_types.node_metric.types import MetricCollectPolicy, NodeMetricSpec
from manager.cache.store import StoredNodeMetric
from manager.node_metric import spec as collect_policy
from manager.node_metric.spec import MetricAction
from manager.slo_config.strategy import NodeStrategy, configuration, node_strategy

DEFAULT = {
    "aggregateDurationSeconds": 300,
    "reportIntervalSeconds": 60,
    "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
    "nodeMemoryCollectPolicy": "usageWithoutPageCache",
}


def holds(enabled=True, **keys):
    return NodeStrategy(slo.merge(slo.DEFAULTS, ColocationStrategy(enable=enabled, **keys)), enabled, ())


def test_the_collect_policy_follows_the_strategy():
    strategy = holds(
        metric_report_interval_seconds=30, metric_aggregate_policy=MetricAggregatePolicy(durations=["15m0s"])
    )
    wire = collect_policy.for_node(strategy).to_wire()["metricCollectPolicy"]
    assert wire == {**DEFAULT, "reportIntervalSeconds": 30, "nodeAggregatePolicy": {"durations": ["15m0s"]}}


@pytest.mark.parametrize(("given", "canonical"), [("1.5h", "1h30m0s"), ("90000ms", "1m30s")])
def test_any_go_duration_of_the_document_reaches_the_spec(given, canonical):
    config = document.read_config(f'{{"metricAggregatePolicy": {{"durations": ["{given}"]}}}}').config
    strategy = holds(metric_aggregate_policy=config.metric_aggregate_policy)
    wire = collect_policy.for_node(strategy).to_wire()["metricCollectPolicy"]
    assert wire["nodeAggregatePolicy"] == {"durations": [canonical]}


def test_the_crd_puts_no_pattern_on_a_duration():
    """The agent parses the full grammar of Go; a pattern in the CRD would reject a part of it."""
    schema = crd_manifest.structural_schema()
    for step in ("spec", "metricCollectPolicy", "nodeAggregatePolicy", "durations"):
        schema = schema["properties"][step]
    assert schema["items"] == {"type": "string"}


def test_a_node_that_takes_no_part_is_measured_by_the_default_policy():
    spec = collect_policy.for_node(holds(enabled=False, metric_report_interval_seconds=30)).to_wire()
    assert spec["metricCollectPolicy"] == DEFAULT
    assert spec["midColocationPolicy"]["enable"] is False


def test_prediction_and_mid_policies_are_carried_whole():
    spec = collect_policy.for_node(holds(mid_cpu_threshold_percent=40)).to_wire()
    assert spec["midColocationPolicy"]["midCPUThresholdPercent"] == 40
    assert spec["midColocationPolicy"]["enable"] is True
    assert spec["predictPolicy"]["predictor"] == "n-sigma-v2"


def test_a_disabled_strategy_has_no_collect_policy():
    with pytest.raises(collect_policy.ColocationDisabled):
        collect_policy.collect_policy(ColocationStrategy(enable=False))


def _predict_policy(given):
    read = document.read_config(json.dumps(given)).config
    return collect_policy.for_node(node_strategy(configuration(read), {}, {})).predict_policy


@pytest.mark.parametrize(
    ("given", "predictor", "members"),
    [
        ({"predictor": "calibrated"}, "max", ["calibrated", "n-sigma-v2"]),
        ({"predictor": "max", "members": ["calibrated"]}, "max", ["calibrated", "n-sigma-v2"]),
        (
            {"predictor": "max", "members": ["percentile", "calibrated"]},
            "max",
            ["percentile", "calibrated", "n-sigma-v2"],
        ),
        ({"predictor": "max", "members": ["n-sigma-v2", "calibrated"]}, "max", ["n-sigma-v2", "calibrated"]),
        ({"predictor": "percentile", "members": ["calibrated"]}, "percentile", ["calibrated"]),
        ({}, "n-sigma-v2", ["n-sigma-v2", "resource-central"]),
    ],
)
def test_a_calibrated_peak_never_counts_without_that_of_n_sigma_v2(given, predictor, members):
    policy = _predict_policy({"enable": True, "nodePredictPolicy": given})
    assert (policy.predictor, policy.members) == (predictor, members)
    assert policy.violation_target_percent == 1.0


@pytest.mark.parametrize(("preset", "target"), [("balanced", 1.0), ("aggressive", 2.0)])
def test_a_preset_with_a_target_is_behind_the_same_gate(preset, target):
    policy = _predict_policy({"enable": True, "preset": preset})
    assert (policy.predictor, policy.members) == ("max", ["calibrated", "n-sigma-v2"])
    assert policy.violation_target_percent == target
    assert policy.cold_start_period_seconds == 7200


NODE = pods.Node(metadata=pods.ObjectMeta(name="worker-1", uid="u1"))
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "worker-1", "uid": "u1"}
SPEC = NodeMetricSpec(
    metric_collect_policy=MetricCollectPolicy(report_interval_seconds=60), predict_policy=PredictPolicy(n=3.0)
).to_wire()


def metric(spec=None, owners=(OWNER,)):
    return msgspec.convert({"metadata": {"ownerReferences": list(owners)}, "spec": spec}, type=StoredNodeMetric)


def test_plans_nothing_without_node_and_node_metric():
    assert collect_policy.plan(None, None, SPEC).action is MetricAction.NONE


def test_a_node_without_a_node_metric_gets_one_that_it_owns():
    todo = collect_policy.plan(NODE, None, SPEC)
    assert todo.action is MetricAction.CREATE
    assert todo.body["metadata"] == {"name": "worker-1", "ownerReferences": [OWNER]}
    assert todo.body["spec"] == {"metricCollectPolicy": {"reportIntervalSeconds": 60}, "predictPolicy": {"n": 3.0}}


def test_deletes_a_node_metric_without_a_node():
    assert collect_policy.plan(None, metric(), SPEC).action is MetricAction.DELETE


def test_leaves_a_correct_node_metric_unchanged():
    assert collect_policy.plan(NODE, metric(SPEC), SPEC).action is MetricAction.NONE


def test_reverts_an_edit_by_hand_and_keeps_fields_of_others():
    edited = {"metricCollectPolicy": {"reportIntervalSeconds": 7, "foreign": 1}, "predictPolicy": {"n": 3}, "other": {}}
    assert collect_policy.plan(NODE, metric(edited), SPEC).body == {
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}}
    }


def test_removes_an_own_key_that_is_no_longer_set():
    before = {**SPEC, "midColocationPolicy": {"enable": True}}
    before["predictPolicy"] = {"n": 3.0, "safetyMarginPercent": 10}
    assert collect_policy.plan(NODE, metric(before), SPEC).body == {
        "spec": {"predictPolicy": {"safetyMarginPercent": None}, "midColocationPolicy": None}
    }


def test_a_recreated_node_becomes_the_owner():
    theirs = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d1"}
    todo = collect_policy.plan(NODE, metric(SPEC, [{**OWNER, "uid": "u0"}, theirs]), SPEC)
    assert todo.body == {"metadata": {"ownerReferences": [theirs, OWNER]}}


def test_accepts_an_owner_reference_with_further_fields():
    assert collect_policy.owner_references([{**OWNER, "controller": False}], NODE) is None


def test_without_a_configuration_an_existing_spec_stays_and_a_new_one_is_the_default():
    assert (
        collect_policy.plan(NODE, metric({"metricCollectPolicy": {"reportIntervalSeconds": 7}}), None).action
        is MetricAction.NONE
    )
    assert collect_policy.plan(NODE, None, None).body["spec"] == collect_policy.DEFAULT_SPEC


def merge_patched(target, patch):
    """Apply a merge patch, by the pseudo code of RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patched(result.get(key), value)
    return result


OWN_FIELDS = {"metricCollectPolicy", "predictPolicy", "midColocationPolicy"}
SCALARS = st.booleans() | st.integers(0, 9) | st.sampled_from(["usageWithoutPageCache", "n-sigma-v2"])
BY_HAND = st.dictionaries(
    st.sampled_from([*OWN_FIELDS, "foreign"]),
    SCALARS | st.dictionaries(st.sampled_from(["n", "reportIntervalSeconds", "enable", "foreign"]), SCALARS),
)


@given(BY_HAND)
def test_one_patch_reverts_any_edit_and_keeps_fields_of_others(edited):
    after = merge_patched(edited, collect_policy.spec_patch(edited, SPEC))
    assert collect_policy.spec_patch(after, SPEC) == {}
    for name, fields in SPEC.items():
        assert fields.items() <= after[name].items()
        foreign = edited[name].get("foreign") if isinstance(edited.get(name), dict) else None
        assert after[name].get("foreign") == foreign
    assert after.get("foreign") == edited.get("foreign")
    assert set(after) - {"foreign"} == set(SPEC)
