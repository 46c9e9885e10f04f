import datetime as dt

from koordlet.report import conditions
from koordlet.samples import NoData

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATER = START + dt.timedelta(minutes=1)


def facts(**overrides):
    values = {
        "has_node_usage": True,
        "no_data": (),
        "pods_are_known": True,
        "warm_pods": 2,
        "cold_pods": 0,
        "cold_start_period_seconds": 7200,
        "no_prediction": None,
        "state_problem": None,
    }
    return conditions.Facts(**{**values, **overrides})


def evaluated(previous=(), now=START, **overrides):
    return {each.type: each for each in conditions.evaluate(facts(**overrides), list(previous), now, 3)}


def test_a_healthy_agent_is_ready_and_nothing_else():
    assert {name: each.status for name, each in evaluated().items()} == {
        "Ready": "True",
        "WarmingUp": "False",
        "SourceDegraded": "False",
        "PredictionDegraded": "False",
        "Throttled": "False",
    }


def test_a_source_without_data_is_named_with_the_path_tried():
    condition = evaluated(no_data=[NoData("memory.stat", "/sys/fs/cgroup/memory/kubepods", "no such file")])[
        "SourceDegraded"
    ]
    assert condition.status == "True"
    assert condition.message == "memory.stat /sys/fs/cgroup/memory/kubepods: no such file"


def test_warming_up_has_the_number_of_cold_pods():
    condition = evaluated(cold_pods=1)["WarmingUp"]
    assert (condition.status, condition.reason) == ("True", "ColdPods")
    assert condition.message.startswith("1 of 3 Prod pods have less than 7200 s")


def test_no_prediction_outweighs_a_state_folder_that_cannot_be_written():
    both = evaluated(no_prediction="no current sample of prod", state_problem="/state: read-only")
    assert both["PredictionDegraded"].reason == "NoPrediction"
    assert both["PredictionDegraded"].message == "no current sample of prod; /state: read-only"  # both are reported
    assert evaluated(state_problem="/state: read-only")["PredictionDegraded"].message == "/state: read-only"


def test_throttled_prod_pods_are_a_condition_of_their_own_and_are_named():
    found = evaluated(throttled_pods=["shop/cart-0", "shop/search-1"])
    assert found["PredictionDegraded"].status == "False"
    condition = found["Throttled"]
    assert (condition.status, condition.reason) == ("True", "ThrottledPods")
    assert condition.message.startswith("2 Prod pods are throttled by their CPU limits")
    assert condition.message.endswith("understates what they need: shop/cart-0, shop/search-1")


def test_a_refused_spec_outweighs_a_state_folder_that_cannot_be_written_and_has_its_reason():
    both = evaluated(state_problem="/state: read-only", spec_problem="spec.predictPolicy.n is 99: too large")
    condition = both["PredictionDegraded"]
    assert (condition.status, condition.reason) == ("True", "SpecRefused")
    assert condition.message == (
        "spec.predictPolicy.n is 99: too large: the previous spec stays in force; /state: read-only"
    )


def test_a_policy_that_is_not_supported_degrades_the_sources():
    condition = evaluated(unsupported="usageWithHotPageCache: not measured")["SourceDegraded"]
    assert (condition.status, condition.reason) == ("True", "Unsupported")
    assert condition.message == "usageWithHotPageCache: not measured"


def test_pods_that_cannot_be_measured_are_counted_beside_the_reason():
    problem = NoData("pod memory", "/memory/poda/memory.stat", "no such file")
    condition = evaluated(no_data=[problem], pods_in_system=1)["SourceDegraded"]
    assert condition.reason == "NoData"
    assert condition.message.startswith("1 pods cannot be measured: their usage counts as system usage")
    assert condition.message.endswith("pod memory /memory/poda/memory.stat: no such file")


def test_a_condition_keeps_its_transition_time_until_its_status_changes():
    first = evaluated()
    same = evaluated(first.values(), LATER)
    assert same["Ready"].last_transition_time == START
    changed = evaluated(same.values(), LATER, has_node_usage=False)
    assert changed["Ready"].last_transition_time == LATER
    assert changed["WarmingUp"].last_transition_time == START
    assert changed["Ready"].observed_generation == 3


def test_an_ignored_annotation_degrades_the_prediction_with_the_problem():
    found = evaluated(reservation_problem="metadata.annotations.x: seen 1, want an object")["PredictionDegraded"]
    assert (found.status, found.reason) == ("True", "ReservationIgnored")
    assert found.message.startswith("metadata.annotations.x: seen 1, want an object: ")


def test_the_suppression_has_a_condition_while_it_is_on_with_the_most_severe_reason_first():
    assert not evaluated().keys() & {"SuppressionDegraded", "MidPodsWithoutLimits"}
    assert evaluated(suppression_problems=[])["SuppressionDegraded"].status == "False"
    found = evaluated(suppression_problems=[("NotPermitted", "grant it"), ("NoData", "none")])["SuppressionDegraded"]
    assert (found.status, found.reason, found.message) == ("True", "NotPermitted", "grant it; none")


def test_a_spec_without_a_policy_degrades_the_prediction_and_names_the_setting():
    condition = evaluated(lacks_policy=True)["PredictionDegraded"]
    assert (condition.status, condition.reason) == ("True", "SpecWithoutPredictPolicy")
    assert "set koordlet.predictPolicy" in condition.message


def test_mid_pods_without_limits_are_named_while_there_are_some():
    found = evaluated(mid_pods_without_limits=["shop/a", "shop/b"])["MidPodsWithoutLimits"]
    assert (found.status, found.reason) == ("True", "NoLimit")
    assert found.message == "containers of 2 Mid pods lack a limit of CPU or memory: shop/a, shop/b"
