import msgspec
from hypothesis import given
from hypothesis import strategies as st

from api_types.colocation.controller_config import PredictPolicy
from api_types.kubernetes import pods
from api_types.node_metric.types import MetricCollectPolicy, NodeMetricSpec
from manager.cache.store import NodeMetric
from manager.node_metric import diff
from manager.node_metric import spec as collect_policy
from manager.node_metric.diff import Action

NODE = pods.Node(metadata=pods.ObjectMeta(name="worker-1", uid="u1"))
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "worker-1", "uid": "u1"}
SPEC = NodeMetricSpec(
    metric_collect_policy=MetricCollectPolicy(report_interval_seconds=60), predict_policy=PredictPolicy(n=3.0)
).to_wire()


def metric(spec=None, owners=(OWNER,)):
    return msgspec.convert({"metadata": {"ownerReferences": list(owners)}, "spec": spec}, type=NodeMetric)


def test_plans_nothing_without_node_and_node_metric():
    assert diff.plan(None, None, SPEC).action is Action.NONE


def test_a_node_without_a_node_metric_gets_one_that_it_owns():
    todo = diff.plan(NODE, None, SPEC)
    assert todo.action is Action.CREATE
    assert todo.body["metadata"] == {"name": "worker-1", "ownerReferences": [OWNER]}
    assert todo.body["spec"] == {"metricCollectPolicy": {"reportIntervalSeconds": 60}, "predictPolicy": {"n": 3.0}}


def test_deletes_a_node_metric_without_a_node():
    assert diff.plan(None, metric(), SPEC).action is Action.DELETE


def test_leaves_a_correct_node_metric_unchanged():
    assert diff.plan(NODE, metric(SPEC), SPEC).action is Action.NONE


def test_reverts_an_edit_by_hand_and_keeps_fields_of_others():
    edited = {"metricCollectPolicy": {"reportIntervalSeconds": 7, "foreign": 1}, "predictPolicy": {"n": 3}, "other": {}}
    assert diff.plan(NODE, metric(edited), SPEC).body == {
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}}
    }


def test_removes_an_own_key_that_is_no_longer_set():
    before = {**SPEC, "midColocationPolicy": {"enable": True}}
    before["predictPolicy"] = {"n": 3.0, "safetyMarginPercent": 10}
    assert diff.plan(NODE, metric(before), SPEC).body == {
        "spec": {"predictPolicy": {"safetyMarginPercent": None}, "midColocationPolicy": None}
    }


def test_a_recreated_node_becomes_the_owner():
    theirs = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d1"}
    todo = diff.plan(NODE, metric(SPEC, [{**OWNER, "uid": "u0"}, theirs]), SPEC)
    assert todo.body == {"metadata": {"ownerReferences": [theirs, OWNER]}}


def test_accepts_an_owner_reference_with_further_fields():
    assert diff.owner_references([{**OWNER, "controller": False}], NODE) is None


def test_without_a_configuration_an_existing_spec_stays_and_a_new_one_is_the_default():
    assert diff.plan(NODE, metric({"metricCollectPolicy": {"reportIntervalSeconds": 7}}), None).action is Action.NONE
    assert diff.plan(NODE, None, None).body["spec"] == collect_policy.DEFAULT_SPEC


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
    after = merge_patched(edited, diff.spec_patch(edited, SPEC))
    assert diff.spec_patch(after, SPEC) == {}
    for name, fields in SPEC.items():
        assert fields.items() <= after[name].items()
        foreign = edited[name].get("foreign") if isinstance(edited.get(name), dict) else None
        assert after[name].get("foreign") == foreign
    assert after.get("foreign") == edited.get("foreign")
    assert set(after) - {"foreign"} == set(SPEC)
