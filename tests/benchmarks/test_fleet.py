"""The fleet of `make fleet`: its reports, the server in place of a kube-apiserver, and the check for drift."""

import json
import random
import xml.etree.ElementTree as ET

import msgspec
import numpy as np
import pytest

from benchmarks import fleet, fleet_generator, fleet_reports, synthetic_cluster
from benchmarks.fleet_apiserver import FleetServer
from benchmarks.fleet_generator import Generator, Published, Sent, Server
from benchmarks.fleet_reports import Mid, Version
from koordctl.backtest.traces import Traces
from tests.fakes.apiserver import Received

NODES = "/api/v1/nodes"
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
GIB = 2**30


@pytest.fixture(scope="module")
def corpus():
    chance = np.random.default_rng(1)
    shares = chance.uniform(0.05, 0.3, (12, 40))
    return fleet_reports.make(Traces(tuple(map(str, range(12))), 300, shares), archetypes=2, steps=3)


def test_every_version_has_its_keys_and_all_have_mid_resources(corpus):
    found = {corpus.version_of(node): json.loads(corpus.report(node, 0).text) for node in range(10)}
    assert {"allocated", "usage", "prediction", "prodPeakMetric"} <= found[Version.CURRENT].keys()
    assert "usage" not in found[Version.FORMER]
    assert "prodPeakMetric" in found[Version.FORMER]
    assert found[Version.UPSTREAM].keys() == {"updateTime", "nodeMetric", "podsMetric", "prodReclaimableMetric"}
    assert all(min(corpus.report(node, 0).mid) > 0 for node in range(10))


def test_reports_of_a_node_follow_one_another_and_begin_again(corpus):
    texts = [corpus.report(0, number).text for number in range(4)]
    assert texts[3] == texts[0]
    assert len(set(texts)) == 3
    assert corpus.report(20, 0).text != corpus.report(0, 0).text  # the same archetype begins at another report


def test_mid_of_a_report_of_upstream_is_bounded_by_what_is_not_used():
    def status(reclaimable, used):
        return {
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": reclaimable, "memory": "1Gi"}}},
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": used, "memory": "8Gi"}}},
        }

    assert fleet_reports.formula(status("4", "8")) == Mid(4_000, GIB)
    assert fleet_reports.formula(status("30", "8")) == Mid(24_000, GIB)
    assert fleet_reports.formula(status("-1", "8")) == Mid(0, GIB)


def test_broken_reports_are_of_every_kind_and_leave_the_sound_one(corpus):
    before = corpus.report(0, 0).text
    chance = random.Random(1)
    found = {corpus.broken(node, 0, chance) for node in range(100)}
    assert any(b"@future@" in each for each in found)
    assert any(b'"-1"' in each for each in found)
    assert any(b"-5Gi" in each for each in found)
    assert corpus.report(0, 0).text == before


class Asked:
    """A fleet server, asked without a connection."""

    def __init__(self, corpus, nodes=3):
        self.server = FleetServer(corpus, nodes)

    def __call__(self, method, path, body=None, **query):
        answer = self.server._hot(Received(method, path, query, {}, msgspec.json.encode(body) if body else b""))
        head, _, text = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(text)


@pytest.fixture
def ask(corpus):
    return Asked(corpus)


def name(number):
    return synthetic_cluster.node_name(number)


def test_nodes_are_listed_in_pages_and_keep_what_is_patched(ask):
    patch = {"status": {"allocatable": {"kubernetes.io/mid-cpu": "5"}}, "metadata": {"annotations": {"a": "b"}}}
    code, patched = ask("PATCH", f"{NODES}/{name(1)}/status", patch)
    assert code == 200
    assert patched["status"]["allocatable"]["kubernetes.io/mid-cpu"] == "5"
    assert patched["status"]["allocatable"]["cpu"] == "32"
    _, first = ask("GET", NODES, limit="2")
    _, second = ask("GET", NODES, limit="2", **{"continue": first["metadata"]["continue"]})
    assert [each["metadata"]["name"] for each in first["items"] + second["items"]] == [name(0), name(1), name(2)]
    assert first["items"][1] == patched
    assert "continue" not in second["metadata"]


def test_a_report_needs_the_newest_version_and_keeps_the_spec(ask):
    created = {"metadata": {"name": name(0)}, "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}}}
    assert ask("PUT", f"{METRICS}/{name(0)}/status", {"metadata": {"name": name(0)}, "status": {}})[0] == 404
    _, made = ask("POST", METRICS, created)
    report = {"metadata": {"name": name(0), "resourceVersion": made["metadata"]["resourceVersion"]}, "status": {"a": 1}}
    code, stored = ask("PUT", f"{METRICS}/{name(0)}/status", report)
    assert (code, stored["status"], stored["spec"]) == (200, {"a": 1}, created["spec"])
    assert ask("PUT", f"{METRICS}/{name(0)}/status", report)[0] == 409
    _, edited = ask("PATCH", f"{METRICS}/{name(0)}", {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 61}}})
    assert (edited["status"], edited["metadata"]["generation"]) == ({"a": 1}, 2)
    assert ask("GET", f"{METRICS}/{name(0)}") == (200, edited)


def test_a_deleted_node_takes_its_report_and_its_pods_along(ask):
    ask("POST", METRICS, {"metadata": {"name": name(0)}, "spec": {}})
    _, pods = ask("GET", "/api/v1/pods", fieldSelector=f"spec.nodeName={name(0)}")
    assert pods["items"]
    before = ask.server._version
    assert ask("DELETE", f"{NODES}/{name(0)}")[0] == 200
    assert [ask("GET", f"{path}/{name(0)}")[0] for path in (NODES, METRICS)] == [404, 404]
    lines = ask.server._since(before)
    assert {each.plural for each in lines} == {"nodes", "pods", "nodemetrics"}
    assert all(b'"type":"DELETED"' in each.line for each in lines)
    assert len(lines) == 2 + len(pods["items"])


def refuse():
    raise ConnectionRefusedError


SERVER = Server(refuse, collects_garbage=True)


def node(mid_cpu, mid_memory, sample, reason="Calculated"):
    annotations = {"koordinator.sh/mid-resource-status": json.dumps({"sample": sample, "reason": reason})}
    allocatable = {"kubernetes.io/mid-cpu": mid_cpu, "kubernetes.io/mid-memory": mid_memory}
    return fleet_generator._Node(
        fleet_generator._Metadata("n1", annotations), fleet_generator._Status(allocatable if mid_cpu else {})
    )


def test_a_write_is_compared_with_the_formula_for_its_own_sample():
    published = Published(SERVER)
    published.sent = {
        ("n1", "t1"): Sent(0.0, Mid(5_000, GIB), moves=True),
        ("n1", "t2"): Sent(0.0, Mid(6_000, GIB), moves=False),
    }
    for _ in range(2):  # an event that repeats the same write is none
        published.see(node("5k", "1Gi", "t1"))
    assert (published.compared, published.wrong, len(published.latencies)) == (1, [], 1)
    published.see(node("5k", "1Gi", "t2"))
    published.see(node("6k", "1Gi", "t3"))
    assert [text.partition("sample ")[2] for text in published.wrong] == [
        "t2, want Mid(cpu_millis=6000, memory_bytes=1073741824)",
        "t3, which was not sent",
    ]
    assert published.mid == {"n1": Mid(6_000, GIB)}


def test_the_latency_is_of_reports_that_have_to_be_written_at_once():
    published = Published(SERVER)
    published.sent = {
        ("n1", text): Sent(0.0, Mid(5_000, GIB), moves=moves) for text, moves in (("t1", True), ("t2", False))
    }
    published.see(node("5k", "1Gi", "t1"))
    published.see(node("5k", "1Gi", "t2"))
    assert (published.compared, len(published.latencies)) == (2, 1)
    assert [published.moves("n1", Mid(cpu, GIB), 0.1) for cpu in (4_499, 4_500, 5_500, 5_501)] == [
        True,
        False,
        False,
        True,
    ]
    assert published.moves("n2", Mid(0, 0), 0.1)


def test_a_refused_report_is_counted_and_changes_nothing():
    published = Published(SERVER)
    published.sent = {("n1", "t1"): Sent(0.0, Mid(5_000, GIB), moves=True)}
    published.see(node("5k", "1Gi", "t1"))
    published.see(node("5k", "1Gi", "t1", "ReportRefused"))
    published.see(node("", "", "t1", "Withdrawn"))
    assert (published.refused, published.wrong) == (1, [])


class Pages:
    """A list of nodes in two pages."""

    def __init__(self, *pages):
        self.pages = dict(zip(("", "a%20b"), pages, strict=True))

    def raw(self, _method, path):
        following = path.rpartition("continue=")[2]
        metadata = {"continue": "" if following else "a b"}
        return msgspec.json.encode({"metadata": metadata, "items": [self.pages[following]]})


def test_a_write_that_the_watch_has_not_shown_is_found():
    published = Published(SERVER)
    published.sent = {("n1", "t1"): Sent(0.0, Mid(5_000, GIB), moves=True)}
    published.see(node("5k", "1Gi", "t1"))
    other = fleet_generator._Node(fleet_generator._Metadata("n2"))
    assert published.unseen(Pages(node("5k", "1Gi", "t1"), other)) == []
    assert published.unseen(Pages(other, node("5k", "1Gi", "t2"))) == ["n1"]


def test_nodes_that_are_behind_their_newest_report_are_found(corpus):
    generator = Generator(SERVER, corpus, 2, with_pods=False)
    generator._newest = {0: Mid(10_000, GIB), 1: Mid(10_000, GIB)}
    generator.published.mid = {name(0): Mid(9_200, GIB)}
    assert [text.partition(":")[0] for text in generator.behind(0.1)] == [name(1)]
    generator.published.mid[name(1)] = Mid(10_000, GIB)
    assert [text.partition(":")[0] for text in generator.behind(0.05)] == [name(0)]


def result(nodes, memory, *, wrong="0", is_real=True):
    parts = ("manager", "scheduler plugin")
    shares = {**dict.fromkeys(parts, 0.1), "generator": 0.2, **({"etcd": 0.05} if is_real else {})}
    rows = {"**drift: writes that differ from it**": wrong}
    return fleet.Result(
        nodes, is_real, 20, 5, shares, dict.fromkeys(parts, memory), [0.1 * step for step in range(10)], rows
    )


def test_the_table_has_a_column_for_each_size_and_the_growth_of_a_node():
    results = [result(1000, 80.0), result(5000, 160.0, is_real=False)]
    lines = fleet.table(results)
    assert lines[0] == "| | 1,000 nodes | 5,000 nodes |"
    assert "| API server | etcd and kube-apiserver | replayed |" in lines
    assert "| CPU of etcd, of a core | 5.0% | - |" in lines
    assert {line.count("|") for line in lines} == {4}
    assert "| report to node status, p50 / p99 | - |" in fleet.table([results[0]._replace(latencies=[0.1])])
    assert fleet.growth(results)[2:] == ["| 1,000 | 5,000 | 20.5 | 20.5 |"]
    assert fleet.growth(results[:1]) == []


def test_every_picture_is_a_document_with_every_size_also_where_a_value_is_zero():
    found = fleet.pictures([result(1000, 80.0), result(5000, 160.0)._replace(latencies=[])])
    assert found.keys() == fleet.PICTURES.keys()
    for text in found.values():
        words = " ".join(ET.fromstring(text).itertext())
        assert "1,000 nodes" in words
        assert "5,000 nodes" in words


def test_the_reports_do_not_name_a_time_of_their_making(corpus):
    for number in range(10):
        text = corpus.report(number, 0).text
        assert b"2023-11-1" not in text  # the begin of the fed node
        assert fleet_reports.TIME in text
