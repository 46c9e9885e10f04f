"""The page of a node with its explanation and windows, and the document on the page Health."""

import dataclasses

import msgspec
import pytest

from api_types.kubernetes import pods
from api_types.node_metric.mid_report import WireResources
from console.cluster.details import DetailedReport, Listed, NodeDetail, NodeWindows, UsageOfWindow
from console.history.memory import History
from console.pages import health, node
from console.pages.shown import UNKNOWN
from fleet.findings import FleetSnapshot, Installation
from fleet.node_state import Amounts, NodeState
from manager.cache import store
from manager.mid_resource import explanation
from manager.slo_config import evaluation
from tests.console import fleets
from tests.fleet import cluster

pytestmark = pytest.mark.slow

NODE = NodeState("a", allocatable=Amounts(16_000, 2**36), mid=Amounts(1_000, 2**30), reason="Calculated")


def explained(**changes):
    read = msgspec.convert(cluster.node(annotations=cluster.mid_status(peakProd=5_550)), pods.Node)
    return dataclasses.replace(explanation.explain(store.with_mid_status(read), None), **changes)


def page(state=NODE, detail=None, history=None):
    return node.context(state, detail, fleets.seen([state]), history or History(), "suite")


def test_the_mid_of_the_explanation_is_newer_than_that_of_the_snapshot():
    assert page()["headline"] == "a has 1.00 cores and 1.0 GiB of Mid"
    assert page(detail=NodeDetail(explained()))["headline"] == "a has 9.42 cores and 10.0 GiB of Mid"
    assert page(detail=NodeDetail(explained(resources={})))["headline"] == "a has no Mid"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, ""),
        ({"newest_text": "withdrawn", "newest_detail": "21 m"}, ""),
        ({"newest_reason": "X", "newest_text": "kept"}, "The newest report would lead to: kept (X)."),
        ({"newest_reason": "X", "newest_text": "kept", "newest_detail": "y"},
         "The newest report would lead to: kept: y (X)."),
    ],
)  # fmt: skip
def test_what_the_newest_report_would_lead_to_is_a_sentence(changes, sentence):
    assert page(detail=NodeDetail(explained(**changes)))["newest"] == sentence
    assert page()["newest"] == ""


def test_the_closed_node_and_its_evictions_are_named():
    values = page(detail=NodeDetail(explained(closed="too hot", eviction=("one", "two"))))
    assert (values["closed"], values["eviction"]) == ("too hot", ("one", "two"))
    assert (page()["closed"], page()["eviction"]) == ("", ())


def test_the_sum_of_a_resource_has_terms_and_inputs_apart():
    cpu, memory = page(detail=NodeDetail(explained()))["sums"]
    assert cpu["terms"][0]["name"] == "Prod pods request"
    assert cpu["terms"][0]["part"] == ("request", 0, 92.2)  # 14.75 of 16 cores
    assert cpu["terms"][0]["amount"] == "14.8"
    assert {"peak_prod", "allocated_prod", "published"}.isdisjoint(each.term for each in cpu["inputs"])
    assert (cpu["name"], cpu["unit"], memory["name"], memory["unit"]) == ("CPU", "cores", "Memory", "GiB")
    assert [(each["terms"], each["inputs"]) for each in page()["sums"]] == [([], [])] * 2


def test_eight_windows_are_shown():
    windows = [UsageOfWindow(f"{number}m", {"p50": WireResources({"cpu": "4"})}) for number in range(9)]
    report = DetailedReport(node_metric=NodeWindows(aggregated_node_usages=[UsageOfWindow(None, None), *windows]))
    shown = page(detail=NodeDetail(report=report))["windows"]
    assert shown[0] == (UNKNOWN, [UNKNOWN] * 5)
    assert shown[1:] == [(f"{number}m", [UNKNOWN, "25 %", UNKNOWN, UNKNOWN, UNKNOWN]) for number in range(7)]


def test_a_chart_has_at_most_sixty_points_of_the_node():
    history = History()
    for minute in range(61):
        history.record(60 * minute, [dataclasses.replace(NODE, used=Amounts(minute * 1_000, 0))])
    cpu, memory = page(history=history)["charts"]
    assert [point.values[0] for point in cpu["points"]] == list(range(0, 61, 2))
    assert [cpu["id"], cpu["unit"], memory["id"], memory["unit"]] == ["cpu", "cores", "memory", "GiB"]
    assert {point.values[0] for point in memory["points"]} == {0.0}


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ('{"enable":true}', '{\n  "enable": true\n}'),
        ("{", "{"),
        ("x" * 20_001, "x" * 20_000),
    ],
)
def test_the_document_is_indented_and_cut_and_shown_also_where_it_is_wrong(text, document):
    outcome = evaluation.evaluate(None, {"colocation-config": text}, exists=True)
    snapshot = FleetSnapshot(fleets.NOW, "https://x", (), Installation("suite", "1.34.4", outcome=outcome))
    values = health.context(fleets.seen([], snapshot=snapshot), Listed(()), "suite", fleets.NOW)
    assert values["document"] == document
    assert values["kubernetes"] == "1.34.4"
    assert values["configuration"] != "not read"
