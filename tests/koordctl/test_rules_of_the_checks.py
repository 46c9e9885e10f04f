"""What `koordctl check` finds in what was read, at the limits of its rules."""

import datetime as dt

import msgspec
import pytest

from api_types.kubernetes import pods
from fleet import wire
from fleet.node_state import Amounts, NodeState
from fleet.snapshot import FleetSnapshot, Installation, Unread
from koordctl.check import installed, rights
from koordctl.check.seen import Seen
from manager.slo_config import evaluation

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
NAMESPACE = "koordinator-system"


def results(nodes=(), parts=None, unread=(), required=(), dropped=(), **more):
    """Return (verdict, text) of each check by its code."""
    of_seen = {name: more.pop(name) for name in tuple(more) if name in Seen.__dataclass_fields__}
    found = Installation(NAMESPACE, workloads=parts or {}, **more)
    snapshot = FleetSnapshot(NOW, "https://x", None if nodes is None else tuple(nodes), (), found, tuple(unread))
    return {
        each.kind.code: (each.verdict.value, each.text)
        for each in installed.results(Seen(snapshot, **of_seen), required, dropped)
    }


def workload(wanted, ready, version=""):
    labels = {"app.kubernetes.io/version": version} if version else {}
    counts = {"ready_replicas": ready, "replicas": wanted, "number_ready": ready, "desired_number_scheduled": wanted}
    return wire.WireWorkload(
        metadata=pods.ObjectMeta(labels=labels),
        spec=wire.WorkloadSpec(replicas=wanted),
        status=wire.WorkloadStatus(**counts),
    )


def pod(name, seconds_ago, *, priority=7000, node=""):
    created = (NOW - dt.timedelta(seconds=seconds_ago)).isoformat()
    given = {
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": created},
        "spec": {"priority": priority, "nodeName": node, "containers": []},
    }
    return msgspec.convert(given, pods.Pod)


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("1.33.9", "failed"), ("1.34.0", "passed"), ("1.35", "passed"), ("2.0.0", "passed"), ("1.34.4-eks-1a2b", "passed"),
     ("1.33.4+k3s1", "failed"), ("1", "skipped"), ("1.x", "skipped"), ("", "skipped")],
)  # fmt: skip
def test_the_oldest_kubernetes_is_new_enough(version, verdict):
    assert results(kubernetes=version)["KubernetesVersion"][0] == verdict


@pytest.mark.parametrize(
    ("waiting", "text"),
    [
        ([], None),
        ([pod("a", 300)], None),
        ([pod("a", 301)], "1 Mid pods: shop/a"),
        ([pod("a", 301, node="n1"), pod("b", 301, priority=9000)], None),
        ([pod(name, 600) for name in "abc"], "3 Mid pods: shop/a, shop/b, shop/c"),
        ([pod(name, 600) for name in "abcde"], "5 Mid pods: shop/a, shop/b, shop/c and 2 more"),
    ],
)
def test_a_mid_pod_may_wait_for_five_minutes(waiting, text):
    found = results(waiting_mid_pods=waiting)["MidPodsWait"]
    assert found == (("warning", text) if text else ("passed", "no Mid pod waits for a node for more than 5 minutes"))


def classes(**values):
    return [
        wire.WirePriorityClass(pods.ObjectMeta(name=name.replace("_", "-")), value) for name, value in values.items()
    ]


@pytest.mark.parametrize(
    ("prod", "mid", "text"),
    [
        (9000, 7000, ""), (9999, 7999, ""), (8999, 7999, "koord-prod is 8999, want 9000 to 9999"),
        (10_000, 6999, "koord-prod is 10000, want 9000 to 9999; koord-mid is 6999, want 7000 to 7999"),
        (9000, 8000, "koord-mid is 8000, want 7000 to 7999"),
    ],
)  # fmt: skip
def test_a_priority_class_has_a_value_of_its_band(prod, mid, text):
    found = results(priority_classes=classes(koord_prod=prod, koord_mid=mid))["PriorityClasses"]
    assert found == (("warning", text) if text else ("passed", f"koord-prod {prod}, koord-mid {mid}"))


def test_a_priority_class_that_is_missing_is_named():
    assert results(priority_classes=classes(koord_prod=9000))["PriorityClasses"][1] == "koord-mid is missing"


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        (("0.2.0", "0.2.0"), ("passed", "all parts are of version 0.2.0")),
        (("0.2.0", "0.1.0"), ("warning", "koord-manager 0.1.0, koordlet 0.2.0")),
        (("", ""), None),
    ],
)
def test_two_versions_are_a_skew(versions, found):
    agent, manager = versions
    parts = {"koordlet": workload(1, 1, agent), "koord-manager": workload(2, 2, manager)}
    assert results(parts=parts).get("VersionSkew") == found


@pytest.mark.parametrize(
    ("wanted", "ready", "agents", "managers"),
    [
        (1, 1, "passed", "passed"),
        (2, 2, "passed", "passed"),
        (2, 1, "failed", "passed"),
        (2, 0, "failed", "failed"),
        (0, 0, "failed", "failed"),
    ],
)
def test_every_agent_is_to_be_ready_and_one_manager(wanted, ready, agents, managers):
    found = results(parts={"koordlet": workload(wanted, ready), "koord-manager": workload(wanted, ready)})
    assert (found["AgentsReady"][0], found["ManagerReady"][0]) == (agents, managers)
    assert found["AgentsReady"][1] == f"DaemonSet koordlet: ready on {ready} of {wanted} nodes"
    assert found["ManagerReady"][1] == f"Deployment koord-manager: {ready} of {wanted} ready"


FORBIDDEN = Unread("deployments/koord-manager", "no right", is_right=True)


@pytest.mark.parametrize(
    ("parts", "unread", "required", "agents", "manager"),
    [
        ({}, (), (), "failed", "failed"),
        ({}, (FORBIDDEN,), (), "skipped", "skipped"),
        ({}, (FORBIDDEN,), ("koord-manager",), "skipped", "failed"),
        ({"koord-scheduler": workload(1, 1)}, (), (), "skipped", "skipped"),
        ({"koord-scheduler": workload(1, 1)}, (), ("koordlet",), "failed", "skipped"),
        ({"koord-scheduler": workload(1, 1)}, (FORBIDDEN,), (), "skipped", "skipped"),
    ],
)
def test_a_part_may_be_absent_beside_another_one_or_where_a_right_is_missing(parts, unread, required, agents, manager):
    found = results(parts=parts, unread=unread, required=required)
    assert (found["AgentsReady"][0], found["ManagerReady"][0]) == (agents, manager)
    assert (found["ManagerReady"][1] == "no right") == bool(unread)
    assert found["AgentsReady"][1].startswith(f"DaemonSet koordlet is not in namespace {NAMESPACE}")


RENEWED = NOW - dt.timedelta(seconds=2)


@pytest.mark.parametrize(
    ("leader", "renewed", "again", "verdict", "text"),
    [
        ("", None, NOW, "failed", "the Lease koord-manager has no holder"),
        ("m-1", RENEWED, None, "failed", "m-1 has not renewed the Lease since 2026-11-21T11:59:58Z"),
        ("m-1", RENEWED, RENEWED, "failed", "m-1 has not renewed the Lease since 2026-11-21T11:59:58Z"),
        ("m-1", None, None, "failed", "m-1 has not renewed the Lease since ever"),
        ("m-1", RENEWED, NOW, "passed", "m-1 leads, and renewed the Lease meanwhile"),
    ],
)
def test_a_leader_renews_its_lease_between_two_reads(leader, renewed, again, verdict, text):
    parts = {"koord-manager": workload(2, 2)}
    found = results(parts=parts, leader=leader, renewed=renewed, renewed_again=again)
    assert found["Leader"] == (verdict, text)
    assert "Leader" not in results(parts={"koordlet": workload(1, 1)}, leader=leader)


@pytest.mark.parametrize(("interval", "limit"), [(None, 180.0), (60.0, 180.0), (61.0, 183.0), (300.0, 900.0)])
def test_a_sample_is_fresh_up_to_its_limit(interval, limit):
    given = [NodeState("n1", sample_age_seconds=age, report_interval_seconds=interval) for age in (limit, limit + 1)]
    assert [installed.is_fresh(each) for each in given] == [True, False]
    assert not installed.is_fresh(NodeState("n1", report_interval_seconds=interval))


def measured(name, age):
    return NodeState(name, sample_age_seconds=age, prod_peak=Amounts(1_000, 2**30))


def test_the_nodes_with_the_oldest_samples_are_named():
    ages = {"a": 10.0, "b": 300.0, "c": 7_200.0, "d": 600.0, "e": 200.0, "f": None}
    found = results([measured(*each) for each in ages.items()], parts={"koordlet": workload(6, 6)})["Reports"]
    assert found == (
        "failed", "1 of 6 nodes measured within 180 s, 6 agents ready; not: c 2h, d 10m, b 5m and 2 more",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ages", "ready", "verdict", "end"),
    [
        ((10.0, 300.0), 1, "passed", "1 agents ready"),  # the other one is a virtual node
        ((10.0, 300.0), 2, "failed", "2 agents ready; not: n1 5m"),
        ((300.0,), 0, "failed", "0 agents ready; not: n0 5m"),
        ((10.0,), 0, "passed", "0 agents ready"),
        ((10.0,), None, "passed", "1 of 1 nodes measured within 180 s"),
        ((300.0,), None, "skipped", "no agent is installed"),
    ],
)
def test_as_many_nodes_report_as_have_a_ready_agent(ages, ready, verdict, end):
    parts = {} if ready is None else {"koordlet": workload(2, ready)}
    found = results([measured(f"n{number}", age) for number, age in enumerate(ages)], parts=parts)["Reports"]
    assert found[0] == verdict
    assert found[1].endswith(end)


def test_a_prediction_of_every_fresh_node_is_a_result_of_its_own():
    found = results([measured("a", 10.0), measured("b", 300.0)])
    assert found["NoPrediction"] == ("passed", "the reports of all 1 measured nodes carry a prediction")
    assert "NoPrediction" not in results([NodeState("a", sample_age_seconds=10.0), measured("b", 10.0)])
    assert "NoPrediction" not in results([measured("b", 300.0)])


def test_nodes_that_were_not_read_are_skipped():
    assert results(None)["Reports"] == ("skipped", "not read")
    unread = [Unread("nodemetrics", "no right", is_right=True)]
    assert results(None, unread=unread)["Reports"] == ("skipped", "not read: no right")


@pytest.mark.parametrize(("text", "verdict"), [('{"enable": true}', "passed"), ("{", "failed"), (None, "skipped")])
def test_a_configuration_that_is_applied_passes(text, verdict):
    outcome = text and evaluation.evaluate(None, {"colocation-config": text}, exists=True)
    found = results(outcome=outcome)
    assert verdict in {of for code, (of, _) in found.items() if code.startswith("ColocationConfig")}
    assert (found.get("ColocationConfigApplied", ("", ""))[0] == "passed") == (verdict == "passed")


OPENAPI = Unread("openapi", "it takes too long")


@pytest.mark.parametrize(
    ("served", "unread", "verdict", "text"),
    [
        ({}, (), "passed", "the CRD of NodeMetric is served"),
        (None, (), "failed", "it is not served"),
        (None, (OPENAPI,), "skipped", "not read: it takes too long"),
        (None, (FORBIDDEN,), "failed", "it is not served"),
    ],
)
def test_the_crd_is_to_be_served(served, unread, verdict, text):
    found = results(served=served, unread=unread)
    assert found["CustomResourceDefinition"] == (verdict, text)
    assert ("NodeMetricFieldsDropped" in found) == (verdict == "passed")


def test_fields_that_the_crd_drops_are_named():
    assert results(served={})["NodeMetricFieldsDropped"] == ("passed", "the CRD has every field")
    verdict, text = results(served={}, dropped=["status.a", "status.b"])["NodeMetricFieldsDropped"]
    assert verdict == "warning"
    assert text.startswith("the CRD drops status.a, status.b;")


@pytest.mark.parametrize(
    ("parts", "unread", "leads"),
    [
        ({}, (), None),
        ({}, (Unread("leases/koord-manager", "no right", is_right=True),), "skipped"),
        ({"koord-manager": workload(1, 1)}, (Unread("leases/koord-manager", "no right"),), "skipped"),
        ({"koord-manager": workload(1, 1)}, (OPENAPI,), "failed"),
    ],
)
def test_a_lease_that_was_not_read_is_skipped(parts, unread, leads):
    assert results(parts=parts, unread=unread).get("Leader", (None,))[0] == leads


def test_rights_that_the_caller_lacks_are_a_fault():
    assert results()["Permissions"] == ("passed", "you may read everything that the commands show")
    verdict, text = results(missing_rights=rights.VIEWER[:1])["Permissions"]
    assert verdict == "warning"
    assert text.startswith("you may not: ")


def test_the_limit_is_that_of_the_node_that_reports_most_seldom():
    given = [NodeState(f"n{each}", sample_age_seconds=10.0, report_interval_seconds=each) for each in (60.0, 300.0)]
    assert results(given)["Reports"] == ("passed", "2 of 2 nodes measured within 900 s")
    assert "0 nodes measured within 180 s" in results([], parts={"koordlet": workload(1, 1)})["Reports"][1]


OF_NODES = {"SampleTooOld", "NeverReported", "NodeMetricMissing", "CalculatedWithoutPrediction", "NoConfiguration"}


@pytest.mark.parametrize(
    ("reason", "ready", "verdict"),
    [
        ("SampleTooOld", 1, "warning"),  # every agent reports: the node has none
        ("NeverReported", 1, "warning"),
        ("NodeMetricMissing", 1, "failed"),
        ("SampleTooOld", 2, "failed"),
        ("NeverReported", 2, "failed"),
        ("CalculatedWithoutPrediction", 2, "warning"),
        ("NoConfiguration", 2, "warning"),
        ("Calculated", 2, None),
        ("ColocationDisabled", 2, None),
        ("Shadow", 2, None),
    ],
)
def test_what_is_wrong_with_a_node_is_a_result_and_a_note_is_none(reason, ready, verdict):
    outcome = evaluation.evaluate(None, {"colocation-config": '{"enable": true}'}, exists=True)
    given = [measured("n1", 10.0), NodeState("n2", reason=reason)]
    found = results(given, parts={"koordlet": workload(2, ready)}, outcome=outcome)
    assert {code: of for code, (of, _) in found.items() if code in {*OF_NODES, reason}} == (
        {reason: verdict} if verdict else {}
    )
    if verdict:
        assert "n2" in found[reason][1]


def test_three_nodes_are_all_named():
    found = results([measured(name, 600.0) for name in "abc"], parts={"koordlet": workload(3, 3)})["Reports"]
    assert found[1].endswith("3 agents ready; not: a 10m, b 10m, c 10m")


@pytest.mark.parametrize("reason", sorted(OF_NODES))
def test_each_fault_of_a_node_is_one_result(reason):
    outcome = evaluation.evaluate(None, {"colocation-config": '{"enable": true}'}, exists=True)
    nodes = (measured("n1", 10.0), NodeState("n2", reason=reason))
    snapshot = FleetSnapshot(NOW, "https://x", nodes, (), Installation(NAMESPACE, outcome=outcome))
    codes = [each.kind.code for each in installed.results(Seen(snapshot), (), ())]
    assert codes.count(reason) == 1
