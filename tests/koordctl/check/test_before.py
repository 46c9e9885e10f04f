"""`koordctl check --pre`: what decides about an installation."""

import copy
import datetime as dt

import pytest

from api_types.node_metric import crd_manifest
from apiserver_client import session
from koordctl.check import command
from tests.charts import chart
from tests.fakes import cluster
from tests.koordctl.parsing import parsed

NAMESPACE = "koordinator-system"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
OWN = {"labels": {"app.kubernetes.io/part-of": "koord-suite"}}


@pytest.fixture
async def server():
    async with cluster.running() as server:
        yield server


async def run(server):
    async with session.connect(server.connection(), user_agent="test/1") as api:
        answer = await command.check(api, parsed(["check", "--pre"]), lambda: NOW, None)
    return answer.exit_code, {each.code: (each.verdict, each.text) for each in answer.data.checks}


async def test_an_empty_cluster_is_ready(server):
    server.remove("namespaces", NAMESPACE)
    code, lines = await run(server)
    assert code == 0
    assert [verdict for verdict, _ in lines.values()] == ["passed", "skipped", "passed", "passed"]


async def test_its_own_objects_are_no_obstacle(server):
    manifest = crd_manifest.manifest()
    manifest["metadata"] |= OWN
    server.add("customresourcedefinitions", manifest)
    server.add("daemonsets", {"metadata": {"name": "koordlet", **OWN}}, NAMESPACE)
    code, lines = await run(server)
    assert code == 0
    assert lines["OtherKoordinator"][0] == "passed"


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["nameOverride=", "nameOverride=acme", "commonLabels.team=a"])
async def test_what_the_chart_installs_and_keeps_is_no_obstacle(server, setting):
    rendered = chart.render(setting)
    for kind, plural in [
        ("CustomResourceDefinition", "customresourcedefinitions"),
        ("PriorityClass", "priorityclasses"),
    ]:
        for item in rendered.of_kind(kind).values():
            server.add(plural, copy.deepcopy(item))
    assert (await run(server))[1]["OtherKoordinator"][0] == "passed"


async def test_objects_of_another_installation_are_named(server):
    other = {"helm.sh/chart": "koordinator-1.6.0", "app.kubernetes.io/part-of": "koordinator"}
    server.add("priorityclasses", {"metadata": {"name": "koord-mid", "labels": other}, "value": 7000})
    code, lines = await run(server)
    assert code == 0
    assert lines["OtherKoordinator"] == ("warning", "PriorityClass koord-mid")


@pytest.mark.parametrize(("version", "code"), [("v1.33.9", 1), ("v1.34.0", 0), ("v1.34.4-gke.1", 0), ("", 0)])
async def test_an_old_kubernetes_is_refused(server, version, code):
    server.version = version
    assert (await run(server))[0] == code


LEVELS = [("baseline", "failed"), ("restricted", "failed"), ("privileged", "passed")]


@pytest.mark.parametrize(("level", "verdict"), LEVELS)
async def test_a_namespace_that_refuses_host_paths_is_found(server, level, verdict):
    labels = {"pod-security.kubernetes.io/enforce": level}
    server.patch("namespaces", NAMESPACE, {"metadata": {"labels": labels}})
    assert (await run(server))[1]["PodSecurity"][0] == verdict


async def test_names_what_the_caller_may_not_create(server):
    server.denied = {("create", "clusterroles"), ("create", "daemonsets")}
    code, lines = await run(server)
    assert code == 1
    expected = "you may not: create clusterroles; create daemonsets in koordinator-system"
    assert lines["InstallPermissions"] == ("failed", expected)
