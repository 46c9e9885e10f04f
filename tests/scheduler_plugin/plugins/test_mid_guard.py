"""MidGuard; the inputs are simple enough to calculate each limit by hand."""

import json

import pytest

from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.reasons import Closed
from scheduler_plugin.plugins import mid_guard
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

MID = {"kubernetes.io/mid-cpu": "4k", "kubernetes.io/mid-memory": "8Gi"}
POLICY = {"enable": True}


def resources(cpu, memory):
    return {"cpu": cpu, "memory": memory}


def report(peak=("6", "10Gi"), *, prod=("10", "20Gi"), mid=("0", "0"), policy=POLICY, **status):
    """Return a report: Prod requests 10 cores and 20 Gi, and its peak leaves 4 cores and 10 Gi."""
    full = {
        "allocated": {"prod": resources(*prod), "mid": dict(zip(MID, mid, strict=True))},
        "prodPeakMetric": {"resource": {"resources": resources(*peak)}},
        **status,
    }
    return factories.metric(
        "n1", usage={"cpu": "1", "memory": "1Gi"}, status=full, spec={"midColocationPolicy": policy}
    )


def written(status="True", calculated=(4_000, 8 << 30), reason="Any", seconds=-600):
    """Return the status annotation of a node as the manager writes it."""
    lines = {mid: {"calculated": value} for mid, value in zip(MID, calculated, strict=True) if value is not None}
    document = {"time": factories.moment(seconds), "reason": reason, "status": status, "resources": lines}
    return {"koordinator.sh/mid-resource-status": json.dumps(document)}


def rejects(metric, *, requests=MID, published=None, assigned=(), priority=7500, annotations=None, now=NOW):
    parts = factories.parts({"onStale": "pass"})
    published = published or {"kubernetes.io/mid-cpu": "100k", "kubernetes.io/mid-memory": "100Gi"}
    parts.cluster.node_changed(factories.node("n1", annotations=annotations, **published))
    if metric is not None:
        parts.cluster.metric_changed(metric)
    for index, own in enumerate(assigned):
        parts.cluster.assume_pod(factories.pod(f"held-{index}", priority=7500, requests=own), "n1", NOW)
    pod = factories.pod_document(priority=priority, requests=requests)
    response = json.loads(parts.extender.filter(factories.request(pod, ["n1"]), now))
    return (response.get("FailedAndUnresolvableNodes") or {}).get("n1")


def test_a_mid_pod_that_fits_the_prediction_passes():
    assert rejects(report()) is None


@pytest.mark.parametrize("peak", [("6001m", "10Gi"), ("6", "12884901889")])
def test_a_mid_pod_beyond_the_newest_prediction_is_rejected_though_the_node_publishes_more(peak):
    assert rejects(report(peak)) == mid_guard.REASON


def test_the_published_resources_are_left_to_kube_scheduler_whose_watch_may_be_ahead():
    assert rejects(report(), published={"kubernetes.io/mid-cpu": "0", "kubernetes.io/mid-memory": "0"}) is None


def test_resources_reserved_by_annotation_are_subtracted():
    reserved = {"node.koordinator.sh/reservation": json.dumps({"resources": {"cpu": "93"}})}
    assert rejects(report()) is None
    assert rejects(report(), annotations=reserved) == mid_guard.REASON


def test_mid_requests_of_assigned_pods_are_subtracted():
    one = {"kubernetes.io/mid-cpu": "2k", "kubernetes.io/mid-memory": "1Gi"}
    assert rejects(report(), requests=one, assigned=[one]) is None
    assert rejects(report(), requests=one, assigned=[one, one]) == mid_guard.REASON


def test_only_requested_resources_must_fit():
    assert rejects(report(("10", "10Gi")), requests={"kubernetes.io/mid-memory": "8Gi"}) is None


def test_pods_without_mid_requests_pass():
    assert rejects(report(("10", "20Gi")), requests={"cpu": "1"}, priority=9500) is None


def test_percentages_of_the_policy_count():
    assert rejects(report(policy={"enable": True, "midCPUThresholdPercent": 3})) == mid_guard.REASON
    assert rejects(report(policy={"enable": True, "midReclaimRatioPercent": 99})) == mid_guard.REASON


@pytest.mark.parametrize("held", [0, 3, 4])
def test_the_floor_of_running_pods_admits_no_new_one(held):
    one = {"kubernetes.io/mid-cpu": "1000", "kubernetes.io/mid-memory": "1Gi"}
    full = report(("10", "20Gi"), mid=("4k", "8Gi"))
    assert rejects(full, requests=one, assigned=[one] * held) == mid_guard.REASON


def test_nothing_is_left_where_colocation_is_off():
    assert rejects(report(policy={"enable": False})) == mid_guard.REASON


def test_nothing_is_left_on_a_withdrawn_node_whatever_is_reported():
    assert rejects(report(), annotations=written("False")) == mid_guard.REASON
    assert rejects(None, annotations=written("False")) == mid_guard.REASON
    assert rejects(report(), annotations=written("True")) is None


def test_a_withdrawal_for_lack_of_reports_ends_with_the_first_one():
    silent = written("False", (None, None), "SampleTooOld")
    assert rejects(report(), annotations=silent) is None
    assert rejects(report(("10", "20Gi")), annotations=silent) == mid_guard.REASON
    assert rejects(report(("-1", "20Gi")), annotations=silent) == mid_guard.REASON
    later = written("False", (None, None), "SampleTooOld", seconds=1)
    assert rejects(report(), annotations=later) == mid_guard.REASON
    off = written("False", (None, None), "ColocationDisabled")
    assert rejects(report(), annotations=off) == mid_guard.REASON


def test_nothing_is_left_after_the_degrade_time_by_the_guards_own_clock():
    five = {"enable": True, "degradeTimeMinutes": 5}
    assert rejects(report(policy=five), now=NOW + 300) is None
    assert rejects(report(policy=five), now=NOW + 301) == mid_guard.REASON
    assert rejects(report(), now=NOW + 900) is None
    assert rejects(report(), now=NOW + 901) == mid_guard.REASON
    assert rejects(report(policy=None), now=NOW + 10**6) is None
    assert rejects(report(), now=NOW + 901, requests={"cpu": "1"}) is None


@pytest.mark.parametrize(
    "unusable", [{"prodPeakMetric": None}, {"peak": ("-1", "20Gi")}, {"peak": ("lots", "20Gi")}, {"allocated": None}]
)
def test_without_usable_inputs_the_value_of_the_annotation_counts(unusable):
    assert rejects(report(**unusable), annotations=written("Unknown")) is None
    assert rejects(report(**unusable), annotations=written("Unknown", (3_999, 8 << 30))) == mid_guard.REASON
    assert rejects(report(**unusable), annotations=written("True", (4_000, (8 << 30) - 1))) == mid_guard.REASON
    least = {"kubernetes.io/mid-cpu": "1", "kubernetes.io/mid-memory": "1"}
    for left in ((0, 1), (1, 0), (-5, 1), (1, -5)):
        assert rejects(report(**unusable), annotations=written("True", left), requests=least) == mid_guard.REASON
    assert rejects(report(**unusable), annotations=written("True", (1, 1)), requests=least) is None


def test_unused_resources_are_a_bound():
    busy = {"prod": resources("10", "10Gi"), "batchAndFree": resources("80", "60Gi"), "system": resources("1", "1Gi")}
    assert rejects(report(usage=busy)) is None
    busy["batchAndFree"] = resources("80", "82Gi")
    assert rejects(report(usage=busy)) == mid_guard.REASON


def test_upstreams_agent_is_guarded_where_its_report_suffices():
    upstream = {"allocated": None, "prodPeakMetric": None}
    upstream["prodReclaimableMetric"] = {"resource": {"resources": resources("4", "8Gi")}}
    assert rejects(report(**upstream)) is None
    upstream["prodReclaimableMetric"] = {"resource": {"resources": resources("3999m", "8Gi")}}
    assert rejects(report(**upstream)) == mid_guard.REASON
    share = {"enable": True, "midUnallocatedPercent": 50}
    assert rejects(report(**upstream, policy=share)) is None


def test_a_node_in_shadow_is_another_managers():
    shadow = {"enable": True, "midPublish": "shadow"}
    assert rejects(report(("10", "20Gi"), policy=shadow)) is None
    assert rejects(report(policy=shadow), annotations=written("False")) == mid_guard.REASON


@pytest.mark.parametrize(
    "metric",
    [
        None,
        report(prodPeakMetric=None),
        report(allocated=None),
        report(policy=None),
        report(("-1", "20Gi")),
        report(("lots", "20Gi")),
        report(policy={"enable": "perhaps"}),
    ],
)
def test_accepts_a_node_without_usable_inputs(metric):
    assert rejects(metric, published=MID) is None
    assert rejects(metric, published={**MID, "kubernetes.io/mid-cpu": "3999"}) is None


def test_handles_an_absurd_report():
    assert rejects(report(mid=("1e300", "1e999"))) is None


def test_a_node_from_which_a_pod_was_evicted_admits_none_while_it_carries_the_annotation():
    note = {"koordinator.sh/mid-eviction": json.dumps({"time": factories.moment(0), "since": factories.moment(0)})}
    assert rejects(report(), annotations=note) == mid_guard.REASON_CLOSED
    assert rejects(report(), annotations=written() | note) == mid_guard.REASON_CLOSED
    assert rejects(report(), annotations=note, requests={"cpu": "1"}, priority=9500) is None


@pytest.mark.parametrize(("priority", "reason"), [(7500, mid_guard.REASON_CLOSED), (5500, None), (9500, None)])
def test_a_closed_node_admits_no_pod_of_class_mid_that_requests_none(priority, reason):
    """The manager evicts it, and its controller creates it again."""
    note = {"koordinator.sh/mid-eviction": json.dumps({"time": factories.moment(0), "since": factories.moment(0)})}
    assert rejects(report(), annotations=note, requests={"cpu": "1"}, priority=priority) == reason
    assert rejects(report(), requests={"cpu": "1"}, priority=priority) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "x" * 20_000])
def test_an_eviction_annotation_that_the_manager_did_not_write_closes_nothing(text):
    assert rejects(report(), annotations={"koordinator.sh/mid-eviction": text}) is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (Closed.FROZEN, mid_guard.REASON_FROZEN),
        (Closed.EVICTED, mid_guard.REASON_CLOSED),
        (Closed.LEAVING, mid_guard.REASON_LEAVING),
        (Closed.CORDONED, mid_guard.REASON_LEAVING),
        (Closed.SCALE_DOWN_CANDIDATE, mid_guard.REASON_LEAVING),
        (Closed.MID_ONLY, mid_guard.REASON_MID_ONLY),
        (Closed.UNDERUSED, mid_guard.REASON_MID_ONLY),
        ("of a later version", mid_guard.REASON_CLOSED),
    ],
)
def test_a_node_that_the_status_annotation_closes_admits_none_and_the_reason_is_named(code, reason):
    note = written()
    document = json.loads(note["koordinator.sh/mid-resource-status"]) | {"closed": code}
    closed = {"koordinator.sh/mid-resource-status": json.dumps(document)}
    assert rejects(report(), annotations=closed) == reason
    assert rejects(report(), annotations=closed, requests={"cpu": "1"}, priority=9500) is None


def test_every_code_of_a_closed_node_is_tried():
    tried = test_a_node_that_the_status_annotation_closes_admits_none_and_the_reason_is_named.pytestmark[0].args[1]
    assert {code for code, _ in tried} >= set(Closed) - {Closed.NO}


def test_a_node_that_was_just_closed_because_only_mid_pods_keep_it_admits_none():
    record = {"time": factories.moment(0), "since": factories.moment(0), "trigger": Trigger.MID_ONLY}
    note = {"koordinator.sh/mid-eviction": json.dumps(record)}
    assert rejects(report(), annotations=note) == mid_guard.REASON_MID_ONLY


def scores(*triggers, priority=9500):
    """Return the scores of nodes n0, n1, ... that are alike, but for what the manager evicts from them."""
    parts = factories.parts({"onStale": "pass"})
    names = [f"n{index}" for index in range(len(triggers))]
    for name, trigger in zip(names, triggers, strict=True):
        record = {"time": factories.moment(0), "since": factories.moment(0), "trigger": trigger}
        note = {"koordinator.sh/mid-eviction": json.dumps(record)} if trigger else {}
        parts.cluster.node_changed(factories.node(name, annotations=note))
    pod = factories.pod_document(priority=priority, requests={"cpu": "1"})
    parts.extender.filter(factories.request(pod, names), NOW)
    parts.extender.prepare()
    found = json.loads(parts.extender.prioritize(factories.request(pod, names), NOW))
    return [each["Score"] for each in found]


@pytest.mark.parametrize("priority", [9500, 5500, 0])
@pytest.mark.parametrize("trigger", [Trigger.MID_ONLY, Trigger.UNDERUSED])
def test_every_pod_prefers_nodes_that_stay_to_one_that_is_emptied_for_the_autoscaler(trigger, priority):
    stays, emptied, other = scores("", trigger, Trigger.MID_CPU, priority=priority)
    assert (stays - emptied, other) == (300, stays)


@pytest.mark.parametrize("triggers", [("", ""), ("", Trigger.NODE_MEMORY), (Trigger.LEAVING, "")])
def test_without_a_node_that_is_emptied_none_is_preferred(triggers):
    assert len(set(scores(*triggers))) == 1


def test_an_emergency_closes_every_node_at_once_also_those_that_are_not_guarded():
    parts = factories.parts({"onStale": "pass"})
    parts.cluster.node_changed(factories.node("n1"))

    def refused(requests, priority=7500):
        pod = factories.pod_document(priority=priority, requests=requests)
        response = json.loads(parts.extender.filter(factories.request(pod, ["n1"]), NOW))
        return (response.get("FailedAndUnresolvableNodes") or {}).get("n1")

    assert refused(MID) is None
    parts.vectors.frozen = True
    assert refused(MID) == mid_guard.REASON_FROZEN
    assert refused({}) == mid_guard.REASON_FROZEN, "a drain evicts it"
    assert (refused({"cpu": "1"}, 9500), refused({}, 5500)) == (None, None)
    parts.vectors.frozen = False
    assert (refused(MID), refused({})) == (None, None)
