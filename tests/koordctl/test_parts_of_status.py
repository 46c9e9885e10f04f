"""Parts of `koordctl status`: heads, sums, colours and the document, of a snapshot made by hand."""

import datetime as dt
import io

import pytest

from fleet import findings, wire
from fleet.node_state import Amounts, NodeState
from fleet.snapshot import Installation, Snapshot
from koordctl.cli import output, status
from koordctl.cli.document import to_wire
from manager.slo_config import evaluation

NOW = dt.datetime(2026, 11, 21, 9, 5, 7, tzinfo=dt.UTC)
GIB = 2**30
ENABLED = evaluation.evaluate(None, {"colocation-config": '{"enable": true}'}, exists=True)


def workload(wanted, ready, version="0.2.0"):
    counts = {"ready_replicas": ready, "replicas": wanted, "number_ready": ready, "desired_number_scheduled": wanted}
    metadata = wire.pods.ObjectMeta(name="x", labels={"app.kubernetes.io/version": version})
    return wire.Workload(metadata, wire.WorkloadSpec(replicas=wanted), wire.WorkloadStatus(**counts))


def node(name, number, **changes):
    amounts = {
        each: Amounts(1_000 * share * number, share * number * GIB)
        for each, share in (
            ("allocatable", 20), ("prod_requests", 10), ("used", 5), ("prod_peak", 4), ("mid", 2), ("mid_requests", 1),
        )
    }  # fmt: skip
    return NodeState(name, **(amounts | {"has_report": True, "reason": "Calculated"} | changes))


def snapshot(nodes=(), **installed):
    parts = {"koordlet": workload(2, 2), "koord-manager": workload(2, 2), "koord-scheduler": workload(1, 1)}
    given = {
        "kubernetes": "1.34.4",
        "workloads": parts,
        "leader": "koord-manager-1",
        "renewed": NOW,
        "outcome": ENABLED,
    }
    return Snapshot(NOW, "https://api", nodes, None, Installation("suite", **(given | installed)))


def test_the_head_has_the_cluster_the_time_the_nodes_and_the_configuration():
    nodes = (node("a", 1), node("b", 2), node("c", 3, has_report=False, reason="NeverReported"))
    assert list(status.answer(snapshot(nodes)).head) == [
        "https://api, namespace suite, 09:05:07 UTC",
        "Kubernetes 1.34.4, 3 nodes, 2 with a report",
        "configuration: in force; colocation is on",
    ]
    assert list(status.answer(snapshot(None, kubernetes="", outcome=None)).head)[1:] == [
        "Kubernetes -, 0 nodes, 0 with a report",
        "configuration: not read",
    ]
    assert status.answer(Snapshot(NOW, "https://api")).head[0] == "https://api, namespace -, 09:05:07 UTC"


def test_the_document_has_what_the_head_has_and_the_sums_of_the_nodes():
    nodes = (node("a", 1), node("b", 2, has_report=False))
    found = to_wire(status.answer(snapshot(nodes)).data)
    assert (found["server"], found["namespace"], found["kubernetes"]) == ("https://api", "suite", "1.34.4")
    assert (found["nodes"], found["measuredNodes"]) == (2, 1)
    assert (found["leader"], found["configuration"]) == ("koord-manager-1", "in force; colocation is on")
    assert found["versions"] == dict.fromkeys(("koordlet", "koord-manager", "koord-scheduler"), "0.2.0")
    assert found["totals"] == {
        name: {"cpuMillis": 3_000 * share, "memoryBytes": 3 * share * GIB}
        for name, share in (
            ("allocatable", 20), ("prodRequests", 10), ("used", 5), ("prodPeak", 4), ("mid", 2), ("midRequests", 1),
        )
    }  # fmt: skip
    empty = to_wire(status.answer(snapshot(None)).data)
    assert (empty["nodes"], empty["measuredNodes"]) == (0, 0)


def test_the_table_of_sums_has_amounts_and_shares_of_the_allocatable():
    made = status.answer(snapshot((node("a", 1), node("b", 2))))
    table = made.tables[1]
    assert [(column.title, column.right) for column in table.columns] == [
        ("", False), ("ALLOC", True), ("PROD REQ", True), ("USED", True), ("PROD PEAK", True), ("MID", True),
        ("MID REQ", True),
    ]  # fmt: skip
    shares = ("60.0", "30.0 (50%)", "15.0 (25%)", "12.0 (20%)", "6.0 (10%)", "3.0 (5%)")
    assert table.rows == [("CPU cores", *shares), ("memory GiB", *shares)]


@pytest.mark.parametrize("ready", [0, 1, 2])
def test_a_part_that_is_not_all_ready_is_yellow_and_has_another_sign(ready):
    parts = {"koordlet": workload(2, ready, "0.3.0"), "koord-scheduler": workload(1, 1)}
    table = status.answer(snapshot(workloads=parts, leader="")).tables[0]
    is_ready = ready == 2
    assert table.rows == [
        ("✔" if is_ready else "!", "agent", "koordlet", f"{ready} of 2", "0.3.0", "" if is_ready else "not all ready"),
        ("-", "manager", "koord-manager", "-", "-", "not found"),
        ("✔", "scheduler", "koord-scheduler", "1 of 1", "0.2.0", ""),
    ]
    assert table.styles == ["" if is_ready else "warning", "", ""]


def test_each_finding_has_its_severity_its_code_and_below_it_what_to_do():
    nodes = (node("a", 1, has_report=False, reason="NeverReported"),)
    parts = {"koordlet": workload(2, 1), "koord-scheduler": workload(1, 1, "0.1.0")}
    given = snapshot(nodes, workloads=parts, leader="")
    wanted, made = findings.of(given), status.answer(given)
    assert len({each.kind.severity for each in wanted}) == 2
    table = made.tables[2]
    assert [column.title for column in table.columns] == ["SEVERITY", "CODE", "FINDING, AND WHAT TO DO"]
    for number, each in enumerate(wanted):
        is_error = each.kind.severity == "error"
        fix = each.fix.replace("NAMESPACE", "suite")
        assert table.rows[2 * number] == ("✘ ERROR" if is_error else "! WARN", each.kind.code, each.sentence)
        assert table.rows[2 * number + 1] == ("", "", f"-> {fix}")
        found = made.data.findings[number]
        assert (found.code, found.severity, found.sentence) == (each.kind.code, each.kind.severity, each.sentence)
        assert (found.objects, found.fix, found.page) == (list(each.objects), fix, each.kind.page)
    assert table.styles == [style for each in wanted for style in (each.kind.severity.value, "")]
    assert made.names == [f"finding/{each.kind.code}" for each in wanted]
    assert (made.exit_code, list(made.tail)) == (0, [])
    assert "NAMESPACE" not in str(made.data.findings)


def test_without_a_finding_it_is_stated_that_nothing_is_wrong():
    made = status.answer(snapshot((node("a", 1),)), ["not read: pods: no"])
    assert len(made.tables) == 2
    text = io.StringIO()
    assert output.show(made, "table", to=text) == 0
    assert text.getvalue().endswith("\n\nnothing is wrong in what was read\n")
    assert list(made.notes) == ["not read: pods: no"]
