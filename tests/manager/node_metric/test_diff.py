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
)


def metric(spec=None, owners=(OWNER,)):
    return msgspec.convert({"metadata": {"ownerReferences": list(owners)}, "spec": spec}, type=NodeMetric)


def test_nothing_is_done_where_there_is_nothing():
    assert diff.plan(None, None, SPEC).action is Action.NONE


def test_a_node_without_a_node_metric_gets_one_that_it_owns():
    todo = diff.plan(NODE, None, SPEC)
    assert todo.action is Action.CREATE
    assert todo.body["metadata"] == {"name": "worker-1", "ownerReferences": [OWNER]}
    assert todo.body["spec"] == {"metricCollectPolicy": {"reportIntervalSeconds": 60}, "predictPolicy": {"n": 3.0}}


def test_a_node_metric_without_a_node_goes():
    assert diff.plan(None, metric(), SPEC).action is Action.DELETE


def test_a_right_one_is_left_alone():
    assert diff.plan(NODE, metric(SPEC.to_wire()), SPEC).action is Action.NONE


def test_a_hand_edit_is_healed_and_what_is_not_ours_stays():
    edited = {"metricCollectPolicy": {"reportIntervalSeconds": 7, "theirs": 1}, "predictPolicy": {"n": 3}, "other": {}}
    assert diff.plan(NODE, metric(edited), SPEC).body == {
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}}
    }


def test_a_key_of_ours_that_is_no_longer_set_is_removed():
    before = {**SPEC.to_wire(), "midColocationPolicy": {"enable": True}}
    before["predictPolicy"] = {"n": 3.0, "safetyMarginPercent": 10}
    assert diff.plan(NODE, metric(before), SPEC).body == {
        "spec": {"predictPolicy": {"safetyMarginPercent": None}, "midColocationPolicy": None}
    }


def test_a_node_of_the_same_name_takes_over_from_its_namesake():
    theirs = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d1"}
    todo = diff.plan(NODE, metric(SPEC.to_wire(), [{**OWNER, "uid": "u0"}, theirs]), SPEC)
    assert todo.body == {"metadata": {"ownerReferences": [theirs, OWNER]}}


def test_an_owner_reference_with_further_fields_is_right():
    assert diff.owner_references([{**OWNER, "controller": False}], NODE) is None


def test_without_a_configuration_an_existing_spec_stays_and_a_new_one_is_the_default():
    assert diff.plan(NODE, metric({"metricCollectPolicy": {"reportIntervalSeconds": 7}}), None).action is Action.NONE
    assert diff.plan(NODE, None, None).body["spec"] == collect_policy.DEFAULT_SPEC.to_wire()


def merge_patched(target, patch):
    """RFC 7386, as its pseudo code has it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patched(result.get(key), value)
    return result


OURS = {"metricCollectPolicy", "predictPolicy", "midColocationPolicy"}
SCALARS = st.booleans() | st.integers(0, 9) | st.sampled_from(["usageWithoutPageCache", "n-sigma-v2"])
BY_HAND = st.dictionaries(
    st.sampled_from([*OURS, "theirs"]),
    SCALARS | st.dictionaries(st.sampled_from(["n", "reportIntervalSeconds", "enable", "theirs"]), SCALARS),
)


@given(BY_HAND)
def test_one_patch_heals_any_hand_edit_and_leaves_alone_what_is_not_ours(edited):
    after = merge_patched(edited, diff.spec_patch(edited, SPEC))
    assert diff.spec_patch(after, SPEC) == {}
    for name, fields in SPEC.to_wire().items():
        assert fields.items() <= after[name].items()
        foreign = edited[name].get("theirs") if isinstance(edited.get(name), dict) else None
        assert after[name].get("theirs") == foreign
    assert after.get("theirs") == edited.get("theirs")
    assert set(after) - {"theirs"} == set(SPEC.to_wire())
