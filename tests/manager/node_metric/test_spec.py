import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.colocation import controller_config as slo
from api_types.colocation import document
from api_types.colocation.controller_config import ColocationStrategy, MetricAggregatePolicy, PredictPolicy
from api_types.kubernetes import pods
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


def test_prediction_and_mid_policies_are_carried_whole():
    spec = collect_policy.for_node(holds(mid_cpu_threshold_percent=40)).to_wire()
    assert spec["midColocationPolicy"]["midCPUThresholdPercent"] == 40
    assert spec["midColocationPolicy"]["enable"] is True
    assert spec["predictPolicy"]["predictor"] == "n-sigma-v2"


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
