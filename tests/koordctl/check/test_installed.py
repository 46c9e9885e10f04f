"""`koordctl check` against a cluster in memory; the test controls the time."""

import datetime as dt
import json

import msgspec
import pytest

from api_types.kubernetes import pods
from api_types.node_metric import crd_manifest
from apiserver_client import errors, session
from fleet import checks, wire
from fleet.findings import FleetSnapshot, Installation, Unread
from fleet.node_state import UNKNOWN, Amounts, NodeState
from koordctl.check import command, installed
from koordctl.check.reading import CheckInputs
from koordctl.cli import output
from koordctl.cli.command import NotRead
from manager.slo_config import evaluation
from tests.fakes import cluster
from tests.fleet import cluster as objects
from tests.koordctl.parsing import parsed

pytestmark = pytest.mark.slow
NAMESPACE = "koordinator-system"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
CODES = {
    "KubernetesVersion", "Permissions", "CustomResourceDefinition", "NodeMetricFieldsDropped", "AgentsReady",
    "ManagerReady", "Leader", "VersionSkew", "PriorityClasses", "ColocationConfigApplied", "Reports", "NoPrediction",
    "SchedulerReady", "MidPodsWait", "MidPodsRefused", "AdmissionReady", "NodeStrategyIgnored", "NodesAboveThreshold",
    "ColocationOffWithMidPods", "MidShort", "NotReady", "MidEvictionNotAllowed", "MidQuotaMalformed",
    "SystemUsageReducesMid",
}  # fmt: skip


def stamp(seconds_ago):
    return (NOW - dt.timedelta(seconds=seconds_ago)).isoformat()


def suite(name, **status):
    labels = {"app.kubernetes.io/version": "0.2.0", "app.kubernetes.io/name": name}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


@pytest.fixture
async def server():
    async with cluster.running() as server:
        server.add("customresourcedefinitions", crd_manifest.manifest())
        server.add("daemonsets", suite("koordlet", desiredNumberScheduled=1, numberReady=1), NAMESPACE)
        server.add("deployments", suite("koord-manager", replicas=2, readyReplicas=2), NAMESPACE)
        server.add("deployments", suite("koord-scheduler", replicas=2, readyReplicas=2), NAMESPACE)
        amounts = {"cpu": "16", "memory": "64Gi"}
        server.add("nodes", {"metadata": {"name": "n1"}, "status": {"allocatable": amounts, "capacity": amounts}})
        policy = {"midColocationPolicy": {"enable": True, "degradeTimeMinutes": 30}}
        report = objects.metric("n1", stamp(30), policy)
        server.add("nodemetrics", {"metadata": {"name": "n1"}, "spec": policy, "status": report["status"]})
        lease = {"holderIdentity": "koord-manager-1", "renewTime": "2026-11-21T11:59:58.000000Z"}
        server.add("leases", {"metadata": {"name": "koord-manager"}, "spec": lease}, NAMESPACE)
        document = {"data": {"colocation-config": '{"enable": true}'}}
        server.add("configmaps", {"metadata": {"name": "slo-controller-config"}, **document}, NAMESPACE)
        for name, value in (("koord-prod", 9000), ("koord-mid", 7000)):
            server.add("priorityclasses", {"metadata": {"name": name}, "value": value})
        yield server


async def run(server, *flags, renewing=True):
    """Return the exit code, and (verdict, text) of each check by its code."""
    turns = iter(range(100))

    async def sleep(_):
        if renewing:
            renewed = {"spec": {"renewTime": f"2026-11-21T12:00:{next(turns):02}.000000Z"}}
            server.patch("leases", "koord-manager", renewed, NAMESPACE)

    async with session.connect(server.connection(), user_agent="test/1") as api:
        answer = await command.check(api, parsed(["check", *flags]), lambda: NOW, sleep)
    return answer.exit_code, {each.code: (each.verdict, each.text) for each in answer.data.checks}


async def test_has_a_line_for_each_check_of_a_working_installation(server):
    code, lines = await run(server)
    assert code == 0
    skipped = {name for name, (verdict, _) in lines.items() if verdict != "passed"}
    assert skipped == {"AdmissionReady", "NodesAboveThreshold"}
    assert lines.keys() == CODES
    assert [write for write in server.writes if "review" not in write[1]] == []


@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--require=agent,manager,scheduler",), 1)])
async def test_parts_that_are_not_installed_are_skipped_unless_they_are_required(server, flags, code):
    server.remove("daemonsets", "koordlet", NAMESPACE)
    server.remove("deployments", "koord-scheduler", NAMESPACE)
    found, lines = await run(server, *flags)
    assert found == code
    assert {lines[name][0] for name in ("AgentsReady", "SchedulerReady")} == {"failed" if code else "skipped"}


async def test_a_namespace_without_the_suite_fails(server):
    code, lines = await run(server, "--namespace=other")
    assert code == 1
    assert lines["ManagerReady"] == ("failed", "Deployment koord-manager is not in namespace other")


@pytest.mark.parametrize(
    ("plural", "name", "change", "expected"),
    [
        ("daemonsets", "koordlet", {"status": {"numberReady": 0}}, "ready on 0 of 1 nodes"),
        ("nodemetrics", "n1", {"status": {"updateTime": stamp(181)}}, "0 of 1 nodes measured"),
        ("nodemetrics", "n1", {"status": None}, "0 of 1 nodes measured"),
        ("deployments", "koord-scheduler", {"status": {"readyReplicas": None}}, "0 of 2 ready"),
        ("deployments", "koord-manager", {"status": {"readyReplicas": None}}, "0 of 2 ready"),
        ("configmaps", "slo-controller-config", {"data": {"colocation-config": "{"}}, "is rejected"),
        ("nodemetrics", "n1", {"status": {"updateTime": stamp(1900)}}, "n1: withdrawn: the newest usable sample"),
    ],
)
async def test_names_each_fault_with_the_observed_value(server, plural, name, change, expected):
    server.patch(plural, name, change, "" if plural == "nodemetrics" else NAMESPACE)
    code, lines = await run(server)
    assert code == 1
    assert [text for verdict, text in lines.values() if verdict == "failed" and expected in text]


@pytest.mark.parametrize(
    ("plural", "name", "change", "expected"),
    [
        ("priorityclasses", "koord-mid", {"value": 9500}, "koord-mid is 9500, want 7000 to 7999"),
        ("deployments", "koord-manager", {"metadata": {"labels": {"app.kubernetes.io/version": "0.1.0"}}}, "0.1.0"),
        ("nodemetrics", "n1", {"status": {"prodPeakMetric": None}}, "there is no prediction"),
    ],
)
async def test_a_warning_blocks_only_where_it_is_asked_to(server, plural, name, change, expected):
    server.patch(plural, name, change, NAMESPACE if plural == "deployments" else "")
    code, lines = await run(server)
    assert code == 0
    assert [text for verdict, text in lines.values() if verdict == "warning" and expected in text]
    assert (await run(server, "--fail-on=warning"))[0] == 1


async def test_a_lease_without_renewal_has_no_leader_whatever_its_time(server):
    code, lines = await run(server, renewing=False)
    assert code == 1
    verdict, text = lines["Leader"]
    assert verdict == "failed"
    assert "has not renewed" in text


async def test_a_missing_crd_is_named_with_the_value_that_installs_it(server, capsys):
    server.remove("customresourcedefinitions", "nodemetrics.slo.koordinator.sh")
    code, lines = await run(server)
    assert code == 1
    assert lines["CustomResourceDefinition"][0] == "failed"
    async with session.connect(server.connection(), user_agent="test/1") as api:
        output.show(await command.check(api, parsed(["check"]), lambda: NOW, _no_sleep), "table")
    assert "do   install with crds.install=true" in capsys.readouterr().out


async def _no_sleep(_):
    pass


async def test_a_crd_that_drops_fields_is_a_warning(server):
    manifest = crd_manifest.manifest()
    del manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["allocated"]
    server.patch(
        "customresourcedefinitions", manifest["metadata"]["name"], {"spec": {"versions": manifest["spec"]["versions"]}}
    )
    code, lines = await run(server)
    assert code == 0
    verdict, text = lines["NodeMetricFieldsDropped"]
    assert verdict == "warning"
    assert "status.allocated" in text


async def test_names_the_rights_that_the_caller_lacks(server):
    server.denied = {("get", "nodes"), ("list", "nodes"), ("create", "pods")}  # of pods/portforward too
    server.refuse["GET", "nodes"] = cluster.Refusal(403, "Forbidden")
    code, lines = await run(server)
    assert code == 0
    expected = "you may not: get, list nodes; create pods/portforward in koordinator-system"
    assert lines["Permissions"] == ("warning", expected)
    assert (await run(server, "--skip=rights"))[1].keys() == lines.keys() - {"Permissions"}


async def test_without_any_right_there_is_no_answer(server):
    for plural in ("nodes", "nodemetrics", "daemonsets", "deployments", "configmaps", "leases"):
        server.refuse["GET", plural] = cluster.Refusal(403, "Forbidden")
    with pytest.raises(
        NotRead, match=r"\Anot read: nodes, nodemetrics, .*: GET /api/v1/nodes: 403 .*koord-viewer have them\Z"
    ):
        await run(server)


async def test_an_unreadable_part_is_skipped_and_its_cause_named(server):
    server.refuse["GET", "daemonsets"] = cluster.Refusal(403, "Forbidden")
    code, lines = await run(server)
    assert code == 0
    verdict, text = lines["AgentsReady"]
    assert verdict == "skipped"
    assert text == "not read: you may not read DaemonSet koordlet"


async def test_an_api_server_that_fails_is_asked_until_the_time_is_over(server):
    slept, reported = [], []

    async def sleep(seconds):
        slept.append(seconds)
        assert len(slept) < 10

    server.refuse["GET", "nodes"] = cluster.Refusal(500, "InternalError")
    async with session.connect(server.connection(), user_agent="test/1") as api:
        options = parsed(["check", "--wait=7s"])
        now = lambda: 100 + sum(slept)  # noqa: E731
        with pytest.raises(errors.ServerError):
            await command.check(api, options, lambda: NOW, sleep, reported.append, monotonic=now)
    assert slept == [3, 3, 1]
    assert reported == [f"waiting for the API server: {left} s left" for left in (7, 4, 1)]


async def test_json_has_what_the_table_has(server, capsys):
    async with session.connect(server.connection(), user_agent="test/1") as api:
        answer = await command.check(api, parsed(["check"]), lambda: NOW, _no_sleep)
    assert output.show(answer, "json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["works"] is False
    assert document["counts"]["failed"] == 1
    (failed,) = [each for each in document["checks"] if each["verdict"] == "failed"]
    assert failed["page"] == "docs/operations/findings.md#leader"
    assert output.show(answer, "table", style=output.Style(is_ascii=True)) == 1
    assert capsys.readouterr().out.isascii()


def results(nodes=(), parts=None, unread=(), required=(), dropped=(), **more):
    """Return (verdict, text) of each check by its code."""
    of_check, of_snapshot = (
        {name: more.pop(name) for name in tuple(more) if name in of.__dataclass_fields__}
        for of in (CheckInputs, FleetSnapshot)
    )
    named = {
        part: msgspec.structs.replace(given, metadata=msgspec.structs.replace(given.metadata, name=part))
        for part, given in (parts or {}).items()
    }
    found = Installation(NAMESPACE, workloads=named, **more)
    all_nodes = None if nodes is None else tuple(nodes)
    snapshot = FleetSnapshot(NOW, "https://x", all_nodes, found, tuple(unread), **of_snapshot)
    return {
        item.kind.code: (item.verdict.value, item.text)
        for item in installed.results(CheckInputs(snapshot, **of_check), required, dropped)
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
        ([pod("a", 301)], "1 Mid pod: shop/a"),
        ([pod("a", 301, node="n1"), pod("b", 301, priority=9000)], None),
        ([pod(name, 600) for name in "abc"], "3 Mid pods: shop/a, shop/b, shop/c"),
        ([pod(name, 600) for name in "abcde"], "5 Mid pods: shop/a, shop/b, shop/c and 2 more"),
    ],
)
def test_a_mid_pod_may_wait_for_five_minutes(waiting, text):
    result = results(pending_pods=waiting)["MidPodsWait"]
    assert result == (("warning", text) if text else ("passed", "no Mid pod waits for a node for more than 5 minutes"))


def test_what_lacks_koordinators_agent_is_named_only_where_it_exists():
    agent = {"koordlet": wire.WireWorkload()}
    assert "KoordletReplaced" not in results(parts=agent, pending_pods=[pod("a", 600)])
    pinned = msgspec.structs.replace(
        pod("pinned", 9),
        metadata=pods.TenantMeta(name="pinned", namespace="shop", labels={"koordinator.sh/qosClass": "LSR"}),
    )
    requests = {"metadata": {"name": "gpu", "namespace": "shop"}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": {"koordinator.sh/gpu-core": "50"}}}]}}  # fmt: skip
    waiting = [pinned, msgspec.convert(requests, pods.Pod)]
    assert results(parts=agent, pending_pods=waiting)["KoordletReplaced"] == (
        "warning", "2 LSR, LSE or device pods: shop/pinned, shop/gpu without a node"
    )  # fmt: skip
    offering = [NodeState("n1", offers_batch=True)]
    assert "KoordletReplaced" not in results(nodes=offering), "Koordinator's agent runs there"
    assert results(nodes=offering, parts=agent)["KoordletReplaced"] == (
        "warning", "Batch pods are not suppressed, evicted or limited on 1 node: n1"
    )  # fmt: skip


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
    assert (found["ManagerReady"][1] == "not read: you may not read Deployment koord-manager") == bool(unread)
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
    assert [checks.is_fresh(item) for item in given] == [True, False]
    assert not checks.is_fresh(NodeState("n1", report_interval_seconds=interval))


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
    assert results(None, unread=unread)["Reports"] == ("skipped", "not read: you may not read nodemetrics")


@pytest.mark.parametrize(("text", "verdict"), [('{"enable": true}', "passed"), ("{", "failed"), (None, "skipped")])
def test_a_configuration_that_is_applied_passes(text, verdict):
    outcome = text and evaluation.evaluate(None, {"colocation-config": text}, exists=True)
    found = results(outcome=outcome)
    assert verdict in {of for code, (of, _) in found.items() if code.startswith("ColocationConfig")}
    assert (found.get("ColocationConfigApplied", ("", ""))[0] == "passed") == (verdict == "passed")


@pytest.mark.parametrize(
    ("mid_requests", "verdict"), [(UNKNOWN, "warning"), (Amounts(0, 0), "warning"), (Amounts(5, 0), "failed")]
)
def test_a_lost_configuration_fails_while_mid_pods_run(mid_requests, verdict):
    outcome = evaluation.evaluate(None, {"colocation_config": "{}"}, exists=True)
    result = results([NodeState("n1", mid_requests=mid_requests)], outcome=outcome)
    assert result["ColocationConfigAbsent"][0] == verdict
    assert "want the key colocation-config" in result["ColocationConfigAbsent"][1]


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
