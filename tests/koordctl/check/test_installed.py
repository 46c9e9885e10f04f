"""`koordctl check` against a cluster in memory; the test controls the time."""

import datetime as dt
import json
import re

import click
import pytest

from api_types.node_metric import crd_manifest
from apiserver_client import errors, session
from koordctl.check import command
from koordctl.cli import output
from koordctl.cli.command import NotRead
from tests.fakes import cluster
from tests.fleet import cluster as objects
from tests.koordctl.parsing import parsed

pytestmark = pytest.mark.slow

NAMESPACE = "koordinator-system"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
CODES = {
    "KubernetesVersion", "Permissions", "CustomResourceDefinition", "NodeMetricFieldsDropped", "AgentsReady",
    "ManagerReady", "Leader", "VersionSkew", "PriorityClasses", "ColocationConfigApplied", "Reports", "NoPrediction",
    "SchedulerReady", "MidPodsWait",
}  # fmt: skip


def stamp(seconds_ago):
    return (NOW - dt.timedelta(seconds=seconds_ago)).isoformat()


def suite(name, **status):
    return {"metadata": {"name": name, "labels": {"app.kubernetes.io/version": "0.2.0"}}, "status": status}


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
    assert {name: text for name, (verdict, text) in lines.items() if verdict != "passed"} == {}
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


@pytest.mark.parametrize(("age", "code"), [(899, 0), (901, 1)])
async def test_a_report_is_fresh_for_three_of_its_own_intervals(server, age, code):
    seldom = {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 300}}, "status": {"updateTime": stamp(age)}}
    server.patch("nodemetrics", "n1", seldom)
    assert (await run(server))[0] == code


async def test_a_node_without_an_interval_is_held_to_the_default(server):
    server.patch("nodemetrics", "n1", {"spec": {"metricCollectPolicy": {}}})
    assert (await run(server))[0] == 0


@pytest.mark.parametrize(
    ("reason", "verdict"), [("NeverReported", "warning"), ("SampleTooOld", "warning"), ("NodeMetricMissing", "failed")]
)
async def test_a_silent_node_is_a_warning_where_every_agent_reports(server, reason, verdict):
    status = objects.mid_status(reason)
    server.add("nodes", {"metadata": {"name": "virtual", "annotations": status}})
    if verdict == "warning":
        server.add("nodemetrics", {"metadata": {"name": "virtual"}, "spec": {}})
    code, lines = await run(server)
    assert lines["Reports"][0] == "passed"
    assert lines[reason][0] == verdict
    assert code == (1 if verdict == "failed" else 0)


async def test_a_silent_node_is_a_fault_where_an_agent_is_missing(server):
    server.patch("daemonsets", "koordlet", {"status": {"desiredNumberScheduled": 2, "numberReady": 2}}, NAMESPACE)
    status = objects.mid_status("NeverReported")
    server.add("nodes", {"metadata": {"name": "n2", "annotations": status}})
    server.add("nodemetrics", {"metadata": {"name": "n2"}, "spec": {}})
    code, lines = await run(server)
    assert (code, lines["NeverReported"][0], lines["Reports"][0]) == (1, "failed", "failed")


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
    server.denied = {("list", "nodes"), ("watch", "nodes"), ("create", "pods")}  # of pods/portforward too
    server.refuse["GET", "nodes"] = cluster.Refusal(403, "Forbidden")
    code, lines = await run(server)
    assert code == 0
    expected = "you may not: list, watch nodes; create pods/portforward in koordinator-system"
    assert lines["Permissions"] == ("warning", expected)
    assert (await run(server, "--skip=rights"))[1].keys() == lines.keys() - {"Permissions"}


async def test_without_any_right_there_is_no_answer(server):
    for plural in ("nodes", "nodemetrics", "daemonsets", "deployments", "configmaps", "leases"):
        server.refuse["GET", plural] = cluster.Refusal(403, "Forbidden")
    with pytest.raises(NotRead, match="not read: nodes: "):
        await run(server)


async def test_an_unreadable_part_is_skipped_and_its_cause_named(server):
    server.refuse["GET", "daemonsets"] = cluster.Refusal(403, "Forbidden")
    code, lines = await run(server)
    assert code == 0
    verdict, text = lines["AgentsReady"]
    assert verdict == "skipped"
    assert "resources: [daemonsets]" in text


@pytest.mark.parametrize("names", [["koord-mid"], ["koord-prod"], ["koord-prod", "koord-mid"]])
async def test_a_priority_class_that_is_missing_is_named(server, names):
    for name in names:
        server.remove("priorityclasses", name)
    _, lines = await run(server)
    assert lines["PriorityClasses"] == ("warning", "; ".join(f"{name} is missing" for name in names))


async def test_reports_that_may_not_be_read_are_skipped_with_the_right(server):
    for plural in ("nodes", "nodemetrics"):
        server.refuse["GET", plural] = cluster.Refusal(403, "Forbidden")
    _, lines = await run(server)
    verdict, text = lines["Reports"]
    assert verdict == "skipped"
    assert text.startswith("not read: ")
    assert "resources: [nodemetrics]" in text


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


async def waited(server, passes_after):
    """Check with `--wait=30s` a cluster whose fault goes after some seconds, on a clock that only sleeps move."""
    server.patch("nodemetrics", "n1", {"status": {"updateTime": stamp(1000)}})
    time, reported = 0.0, []

    async def sleep(seconds):
        nonlocal time
        time += seconds
        renewed = f"2026-11-21T12:{int(time) // 60:02}:{int(time) % 60:02}Z"
        server.patch("leases", "koord-manager", {"spec": {"renewTime": renewed}}, NAMESPACE)
        if time >= passes_after:
            server.patch("nodemetrics", "n1", {"status": {"updateTime": stamp(1)}})

    options = parsed(["check", "--wait=30s"])
    async with session.connect(server.connection(), user_agent="test/1") as api:
        answer = await command.check(api, options, lambda: NOW, sleep, reported.append, monotonic=lambda: time)
    return answer, reported, time


async def test_waits_until_the_fault_is_gone(server):
    answer, reported, time = await waited(server, passes_after=14)
    assert answer.exit_code == 0
    assert all(re.fullmatch(r"waiting for Reports: \d+ s left", each) for each in reported)
    assert 14 <= time <= 24


async def test_waits_no_longer_than_it_is_asked_to(server):
    answer, reported, time = await waited(server, passes_after=10_000)
    assert answer.exit_code == 1
    assert 30 <= time <= 36, "and the last turn, which reads the Lease twice"
    assert len(reported) >= 3


async def test_mid_pods_that_wait_for_long_are_named(server):
    old, new = "2026-11-21T11:50:00Z", "2026-11-21T11:59:00Z"
    for name, created in (("old", old), ("new", new)):
        spec = {"priority": 7000, "containers": []}
        pod = {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec, "status": {"phase": "Pending"}}
        server.add("pods", pod, "shop")
    assert (await run(server))[1]["MidPodsWait"] == ("warning", "1 Mid pods: shop/old")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--wait=2h"], "at most 1h"),
        (["--wait=-1"], "want a time"),
        (["--wait=soon"], "want a time"),
        (["--require=agents"], "want some of agent,manager,scheduler"),
        (["--skip=all"], "want some of cluster,rights"),
    ],
)
def test_wrong_usage_is_exit_code_2(flags, why):
    with pytest.raises(click.UsageError) as raised:
        parsed(["check", *flags])
    assert why in str(raised.value)


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
