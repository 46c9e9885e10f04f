"""`python -m manager check-install` against a cluster in memory; the test controls the time."""

import datetime as dt

import pytest

from api_types.node_metric import crd_manifest
from apiserver_client import session
from manager.cli import check_install
from tests.fakes import cluster
from tests.manager.conftest import NAMESPACE

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def stamp(seconds_ago):
    return (NOW - dt.timedelta(seconds=seconds_ago)).isoformat()


@pytest.fixture
async def server():
    async with cluster.running() as server:
        server.add("customresourcedefinitions", crd_manifest.manifest())
        agents = {"desiredNumberScheduled": 1, "numberReady": 1}
        server.add("daemonsets", {"metadata": {"name": "koordlet"}, "status": agents}, NAMESPACE)
        ready = {"replicas": 2, "readyReplicas": 2}
        server.add("deployments", {"metadata": {"name": "koord-scheduler"}, "status": ready}, NAMESPACE)
        server.add("nodemetrics", {"metadata": {"name": "n1"}, "status": {"updateTime": stamp(30)}})
        lease = {"holderIdentity": "koord-manager-1", "renewTime": "2026-11-21T11:59:58.000000Z"}
        server.add("leases", {"metadata": {"name": "koord-manager"}, "spec": lease}, NAMESPACE)
        yield server


async def run(server, capsys, *, renewing=True, **chosen):
    """Return the exit code and the lines with their marks."""
    settings = check_install.CheckInstallSettings(**chosen)
    turns = iter(range(100))

    async def sleep(_):
        if renewing:
            renewed = {"spec": {"renewTime": f"2026-11-21T12:00:{next(turns):02}.000000Z"}}
            server.patch("leases", "koord-manager", renewed, NAMESPACE)

    async with session.connect(server.connection(), user_agent="test/1") as api:
        code = await check_install.check(check_install.Checks(api, settings, lambda: NOW), 9, sleep)
    lines = capsys.readouterr().out.splitlines()
    return code, [tuple(line.split(maxsplit=1)) for line in lines]


async def test_prints_a_line_for_each_check_of_a_working_installation(server, capsys):
    code, lines = await run(server, capsys)
    assert code == check_install.WORKS
    assert [mark for mark, _ in lines] == ["ok"] * 5


async def test_skips_parts_that_are_not_installed(server, capsys):
    code, lines = await run(server, capsys, agent="", scheduler="")
    assert code == check_install.WORKS
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("plural", "name", "change", "expected"),
    [
        ("daemonsets", "koordlet", {"status": {"numberReady": 0}}, "ready on 0 of 1 nodes"),
        ("nodemetrics", "n1", {"status": {"updateTime": stamp(181)}}, "0 nodes measured"),
        ("nodemetrics", "n1", {"status": None}, "0 nodes measured"),
        ("deployments", "koord-scheduler", {"status": {"readyReplicas": None}}, "0 of 2 replicas ready"),
    ],
)
async def test_names_each_fault_with_the_observed_value(server, capsys, plural, name, change, expected):
    server.patch(plural, name, change, "" if plural == "nodemetrics" else NAMESPACE)
    code, lines = await run(server, capsys)
    assert code == check_install.DOES_NOT
    assert [text for mark, text in lines if mark == "FAIL" and expected in text]


@pytest.mark.parametrize(("age", "code"), [(899, check_install.WORKS), (901, check_install.DOES_NOT)])
async def test_a_report_is_fresh_for_three_of_its_own_intervals(server, capsys, age, code):
    seldom = {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 300}}, "status": {"updateTime": stamp(age)}}
    server.patch("nodemetrics", "n1", seldom)
    assert (await run(server, capsys))[0] == code


async def test_a_node_without_an_interval_is_held_to_the_default(server, capsys):
    server.patch("nodemetrics", "n1", {"spec": {"metricCollectPolicy": {}}})
    assert (await run(server, capsys))[0] == check_install.WORKS


async def test_a_lease_without_renewal_has_no_leader_whatever_its_time(server, capsys):
    code, lines = await run(server, capsys, renewing=False)
    assert code == check_install.DOES_NOT
    (failed,) = [text for mark, text in lines if mark == "FAIL"]
    assert "has not renewed" in failed


async def test_a_missing_crd_is_named_with_the_value_that_installs_it(server, capsys):
    server.remove("customresourcedefinitions", "nodemetrics.slo.koordinator.sh")
    code, lines = await run(server, capsys)
    assert code == check_install.DOES_NOT
    assert any("crds.install=true" in text for mark, text in lines if mark == "FAIL")


async def test_a_crd_that_drops_fields_passes_with_a_remark(server, capsys):
    manifest = crd_manifest.manifest()
    del manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["allocated"]
    server.patch(
        "customresourcedefinitions", manifest["metadata"]["name"], {"spec": {"versions": manifest["spec"]["versions"]}}
    )
    code, lines = await run(server, capsys)
    assert code == check_install.WORKS
    (noted,) = [text for mark, text in lines if mark == "note"]
    assert "status.allocated" in noted
