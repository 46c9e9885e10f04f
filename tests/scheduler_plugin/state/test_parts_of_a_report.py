"""Parts of a NodeMetric that are absent or malformed, beside those that count."""

import pytest

from scheduler_plugin.state import node_metric_decoder
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

RESOURCES = ("cpu", "memory")
GI = 2**30


def read(known_keys=None, **metric):
    return node_metric_decoder.read(factories.metric(**metric), RESOURCES, known_keys or {})


def prediction(**peak):
    return {"prediction": {"node": {"peak": peak}}}


@pytest.mark.parametrize(
    ("system", "usage"),
    [
        ({"cpu": "2", "memory": "1Gi"}, (2000, GI)),
        ({"memory": "5"}, (0, 5)),
        ({}, (0, 0)),
        ({"cpu": "lots"}, (0, 0)),
    ],
)
def test_the_usage_of_the_system_is_zero_where_it_is_not_reported(system, usage):
    assert read(usage={"cpu": "9"}, system=system).system_usage == usage
    assert read(usage=None).system_usage == (0, 0)


def test_a_malformed_usage_of_the_system_leaves_that_of_the_node():
    assert read(usage={"cpu": "9"}, system={"cpu": "lots"}).node_usage == (9000, 0)


@pytest.mark.parametrize(
    ("usage", "status", "predicted"),
    [
        (None, prediction(cpu="3"), (3000, 0)),
        ({"cpu": "1", "memory": "7"}, prediction(cpu="3"), (3000, 7)),
        ({"cpu": "1", "memory": "7"}, prediction(memory="9"), (1000, 9)),
        ({"cpu": "1"}, prediction(), None),
        ({"cpu": "1"}, {"prediction": {"node": None}}, None),
        ({"cpu": "1"}, {"prediction": None}, None),
        ({"cpu": "lots"}, prediction(memory="9"), None),
    ],
)
def test_a_predicted_peak_is_completed_by_the_usage(usage, status, predicted):
    assert read(usage=usage, status=status).predicted_usage == predicted


def pod(cpu, priority="koord-prod", name="a"):
    return factories.reported(name, cpu, "5", priority)


@pytest.mark.parametrize(
    ("items", "row"),
    [
        ([pod("1")], (1000, 5, 1)),
        ([pod("1", "koord-mid")], (1000, 5, 0)),
        ([pod("1", "")], (1000, 5, 0)),
        ([pod("1"), pod("2", "koord-mid")], (2000, 5, 1)),
        ([pod("1", "koord-mid"), pod("2")], (2000, 5, 1)),
        ([pod("1", "koord-mid"), pod("2", "koord-batch")], (2000, 5, 0)),
        ([pod("1"), pod("lots", "koord-mid")], (1000, 5, 1)),
        ([pod("1", "koord-mid"), pod("lots")], (1000, 5, 0)),
        ([pod("lots"), None, pod("3", "koord-mid")], (3000, 5, 0)),
        ([pod("9", name="b"), pod("1", "koord-mid")], (1000, 5, 0)),
    ],
)
def test_the_last_usable_item_of_a_pod_counts_and_any_of_them_marks_it_as_prod(items, row):
    assert read(usage={}, pods_metric=items).pods["default/a"] == row


def test_a_report_without_pods_has_an_empty_table():
    assert dict(read(usage={}, status={"podsMetric": None}).pods) == {}
    assert dict(read(usage={}, pods_metric=[pod("lots")]).pods) == {}


def test_a_known_key_is_used_again():
    known = "/".join(pod("1")[each] for each in ("namespace", "name"))
    keys = list(read({known: known}, usage={}, pods_metric=[pod("1"), pod("1", name="b")]).pods)
    assert keys == ["default/a", "default/b"]
    assert keys[0] is known


@pytest.mark.parametrize(("interval", "seconds"), [(None, 60), (0, 0), (30, 30)])
def test_the_interval_of_a_report_is_that_of_its_policy(interval, seconds):
    assert read(usage={}, interval=interval).interval_seconds == seconds
    assert read(usage={}, spec={"metricCollectPolicy": None}).interval_seconds == 60


def test_the_time_of_a_report_is_that_of_its_status():
    assert read(usage={}, updated=-5).update_time == NOW - 5
    assert read(usage={}, updated=None).update_time is None


def test_the_inputs_of_the_mid_formula_have_the_usage_of_the_node_once():
    whole = read(usage={"cpu": "9"}).mid_report
    assert whole.node_metric.node_usage.resources == {"cpu": "9"}
    assert read(usage=None).mid_report.node_metric is None
    short = {"usage": {"cpu": "8"}}
    by_status = read(usage={"cpu": "9"}, status=short).mid_report
    assert by_status.node_metric is None
    assert by_status.usage is not None


@pytest.mark.parametrize("policy", [None, {"enable": "perhaps"}, {"midReclaimRatioPercent": -1}])
def test_a_policy_that_is_absent_or_malformed_is_none(policy):
    assert read(usage={}, spec={"midColocationPolicy": policy}).mid_policy is None
