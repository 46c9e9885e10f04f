"""The fleet of `make fleet`: its reports, the server in place of a kube-apiserver, and the check for drift."""

import json

import numpy as np
import pytest

from benchmarks import fleet_generator, fleet_reports
from benchmarks.fleet_generator import Published, Sent, Server
from benchmarks.fleet_reports import Mid, Version
from koordctl.backtest.sources import Traces

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


def test_mid_of_a_report_of_upstream_is_bounded_by_what_is_not_used():
    def status(reclaimable, used):
        return {
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": reclaimable, "memory": "1Gi"}}},
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": used, "memory": "8Gi"}}},
        }

    assert fleet_reports.formula(status("4", "8")) == Mid(4_000, GIB)
    assert fleet_reports.formula(status("30", "8")) == Mid(24_000, GIB)
    assert fleet_reports.formula(status("-1", "8")) == Mid(0, GIB)


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


def test_a_refused_report_is_counted_and_changes_nothing():
    published = Published(SERVER)
    published.sent = {("n1", "t1"): Sent(0.0, Mid(5_000, GIB), moves=True)}
    published.see(node("5k", "1Gi", "t1"))
    published.see(node("5k", "1Gi", "t1", "ReportRefused"))
    published.see(node("", "", "t1", "Withdrawn"))
    assert (published.refused, published.wrong) == (1, [])
