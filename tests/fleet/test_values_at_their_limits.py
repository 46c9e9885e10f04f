"""Findings, thresholds and quotas at their limits, and the progress of a read."""

import msgspec
import pytest
import yaml

from api_types import names
from api_types.kubernetes.pods import Pod
from fleet import checks, findings, pod_state, scheduler_config, wire
from fleet.findings import AGENT, MANAGER, SCHEDULER, FleetSnapshot, Installation
from fleet.node_state import UNKNOWN, Amounts, NodeState
from fleet.pod_state import total
from fleet.reading import Reader
from manager.slo_config import evaluation
from tests.fakes import apiserver
from tests.fleet import cluster
from tests.fleet.test_reading import NOW, reader_of

NAMESPACES = "/api/v1/namespaces"


# findings


def codes(name, wanted, ready, version="1"):
    """Return the codes of the findings about an installation with one workload and a leader."""
    found = msgspec.convert(cluster.workload(name, version, wanted, ready), wire.WireWorkload)
    installed = Installation("suite", workloads={name: found}, leader="koord-manager-0")
    snapshot = FleetSnapshot(NOW, "https://x", (), installed)
    code = {AGENT: "AgentsReady", MANAGER: "ManagerReady", SCHEDULER: "SchedulerReady"}[name]
    found = checks.find(checks.results(snapshot))
    return [(item.kind.code, item.detail) for item in found if item.kind.code == code]


@pytest.mark.parametrize(
    ("name", "wanted", "ready", "found"),
    [
        (AGENT, 1, 1, []),
        (AGENT, 2, 2, []),
        (AGENT, 2, 1, [("AgentsReady", "DaemonSet koordlet: ready on 1 of 2 nodes")]),
        (AGENT, 0, 0, [("AgentsReady", "DaemonSet koordlet: ready on 0 of 0 nodes")]),
        (MANAGER, 2, 1, []),
        (MANAGER, 2, 0, [("ManagerReady", "Deployment koord-manager: 0 of 2 ready")]),
        (SCHEDULER, 1, 1, []),
        (SCHEDULER, 1, 0, [("SchedulerReady", "Deployment koord-scheduler: 0 of 1 ready")]),
    ],
)
def test_a_workload_without_ready_pods_is_a_finding_and_of_the_agents_each_counts(name, wanted, ready, found):
    assert codes(name, wanted, ready) == found


@pytest.mark.parametrize(("count", "about"), [(1, [1]), (3, [1, 1, 1]), (4, [4])])
def test_up_to_three_nodes_with_one_fault_have_findings_of_their_own(count, about):
    nodes = [NodeState(f"n{number}", reason="SampleTooOld", detail=f"{number} m") for number in range(count)]
    result = findings.fleet_findings(FleetSnapshot(NOW, "https://x", tuple(nodes)))
    assert [len(each.objects) for each in result] == about
    assert [name for each in result for name in each.objects] == [node.name for node in nodes]
    assert [bool(each.detail) for each in result] == [each == 1 for each in about]


def test_the_findings_about_one_node():
    node = NodeState(
        "a", reason="NoPrediction", detail="x", closed="SampleTooOld", clock_fault="an hour ahead",
        conditions=(
            wire.WireCondition("Ready", "False", "Stopped", "no cgroups"), wire.WireCondition("Unheard", "True"),
        ),
    )  # fmt: skip
    assert [(item.kind.code, item.objects, item.detail) for item in findings.node_findings(node, {})] == [
        ("NoPrediction", ("a",), "x"),
        ("SampleTooOld", ("a",), ""),
        ("NodeClockWrong", ("a",), "an hour ahead"),
        ("NotReady", ("a",), "Stopped: no cgroups"),
    ]


@pytest.mark.parametrize(("versions", "detail"), [("11", None), ("12", "koord-manager 2, koordlet 1"), ("1", None)])
def test_two_versions_are_a_skew(versions, detail):
    found = {
        name: msgspec.convert(cluster.workload(name, version), wire.WireWorkload)
        for name, version in zip((AGENT, MANAGER), versions, strict=False)
    }
    installed = Installation("suite", workloads=found, leader="koord-manager-0")
    snapshot = FleetSnapshot(NOW, "https://x", (), installed)
    skew = [item.detail for item in checks.find(checks.results(snapshot)) if item.kind.code == "VersionSkew"]
    assert skew == ([detail] if detail else [])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", evaluation.REJECTED),
        (" ", evaluation.ABSENT),
        ('{"enable": true, "midCPUThresholdPercent": 50}', None),
        (None, None),
    ],
)
def test_a_document_that_is_not_used_is_a_finding_and_a_good_one_none(text, code):
    outcome = None if text is None else evaluation.evaluate(None, {"colocation-config": text}, exists=True)
    assert [each.kind.code for each in findings.configuration_findings(outcome)] == ([code] if code else [])


# threshold


@pytest.mark.parametrize(("cpu", "limit"), [(-1, None), (0, None), (1, 1), (100, 100), (101, None), (0.5, 0.5)])
def test_the_threshold_is_more_than_0_and_at_most_100_percent(cpu, limit):
    document = {"pluginConfig": [{"name": "LoadAwareScheduling", "args": {"usageThresholds": {"cpu": cpu}}}]}
    assert scheduler_config.read(yaml.safe_dump(document)).usage_limits.get("cpu") == limit


# sums


def test_amounts_are_summed_where_one_is_known():
    assert total([]) == Amounts(0, 0)
    assert total([UNKNOWN, UNKNOWN]) == UNKNOWN
    assert total([UNKNOWN, Amounts(0, 5), Amounts(None, 1)]) == Amounts(0, 6)


MID = {"kubernetes.io/mid-cpu": "300", "kubernetes.io/mid-memory": "1Gi"}
BATCH = {"kubernetes.io/batch-cpu": "20", "kubernetes.io/batch-memory": "1Mi"}


@pytest.mark.parametrize(
    ("priority", "given", "band", "requests"),
    [
        (9000, {}, "prod", Amounts(0, 0)),
        (9000, {"cpu": "4", **MID}, "prod", Amounts(4_000, 0)),
        (7000, {"cpu": "4", **MID}, "mid", Amounts(300, 2**30)),
        (7000, {"kubernetes.io/mid-memory": "1Gi"}, "mid", Amounts(0, 2**30)),
        (5000, {"cpu": "4", **BATCH}, "batch", Amounts(20, 2**20)),
        (3000, {"cpu": "4"}, "free", Amounts(0, 0)),
    ],
)
def test_the_requests_of_a_pod_are_in_the_resources_of_its_class(priority, given, band, requests):
    pod = msgspec.convert(cluster.pod(priority=priority, requests=given), Pod)
    found = pod_state.combine(pod, UNKNOWN)
    assert (found.band, found.requests) == (band, requests)
    held = Amounts(300 * ("kubernetes.io/mid-cpu" in given), 2**30 * ("kubernetes.io/mid-memory" in given))
    assert found.mid_held == held
    assert found.slack == UNKNOWN
    assert pod_state.combine(pod, requests).slack == Amounts(0, 0)
    assert pod_state.combine(pod, Amounts(None, 1)).slack == Amounts(None, requests.memory - 1)


# reading


async def test_a_namespace_without_the_annotation_hides_no_quota_of_the_next():
    def namespace(name, **annotations):
        return {"metadata": {"name": name, "annotations": annotations}}

    key = names.ANNOTATION_MID_QUOTA
    listed = [
        namespace("a"), namespace("b", **{key: '{"cpu": "3"}'}), namespace("c"), namespace("d", **{key: "{"}),
        namespace("e", **{key: '{"memory": "1Gi"}'}),
    ]  # fmt: skip
    async with apiserver.running() as server, server.session() as api:
        server.on("GET", NAMESPACES, apiserver.Answer(cluster.listing(*listed)))
        found = await Reader(api, NOW).mid_quotas(None)
    assert found == {"b": Amounts(3_000, None), "d": None, "e": Amounts(None, 2**30)}


async def test_the_progress_of_a_read_is_the_number_of_objects_after_each_page():
    seen = []
    pages = [cluster.listing(cluster.node("a"), cluster.node("b"), more="2"), cluster.listing(cluster.node("c"))]
    async with reader_of(nodes=pages, metrics=[cluster.listing()]) as (reader, _):
        await Reader(reader.api, NOW, lambda what, count: seen.append((what, count))).nodes()
    assert seen == [("nodes", 2), ("nodes", 3), ("nodemetrics", 0)]


async def test_a_cluster_without_the_scheduler_plugin_has_the_default_configuration_and_no_note():
    async with apiserver.running() as server, server.session() as api:
        for name in ("koord-scheduler", "koord-extender"):
            path = f"{NAMESPACES}/suite/configmaps/{name}"
            server.on("GET", path, apiserver.status(404, "NotFound", name=name, kind="configmaps"))
        reader = Reader(api, NOW)
        assert await reader.scheduler_config("suite") == scheduler_config.SchedulerConfig()
        assert reader.unread == []
        assert len(server.asked("GET")) == 2
