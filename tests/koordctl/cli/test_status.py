"""Parts of `koordctl status` that are not all there, and its findings."""

import dataclasses
import datetime as dt
import io

import pytest

from api_types.kubernetes import pods
from console.pages import health
from fleet import checks, wire
from fleet.findings import FleetSnapshot, Installation
from fleet.node_state import Amounts, NodeState
from koordctl.cli import output, status
from manager.slo_config import evaluation

NOW = dt.datetime(2026, 11, 21, 10, tzinfo=dt.UTC)


def workload(wanted, there, ready):
    return wire.WireWorkload(
        metadata=pods.ObjectMeta("koord-scheduler"),
        spec=wire.WorkloadSpec(replicas=wanted),
        status=wire.WorkloadStatus(ready_replicas=ready, replicas=there),
    )


@pytest.mark.parametrize(
    ("wanted", "there", "ready", "shown", "style", "word"),
    [
        (2, 2, 2, "2 of 2", "ok", "ready"),
        (2, 1, 1, "1 of 2", "warn", "degraded"),  # the other one cannot be created, such as for a quota
        (2, 3, 2, "2 of 3", "warn", "degraded"),  # in the middle of an upgrade
        (1, 0, 0, "0 of 1", "bad", "not ready"),
        (0, 0, 0, "0 of 0", "bad", "not ready"),
        (None, 1, 1, "1 of 1", "ok", "ready"),
    ],
)
def test_a_replica_that_could_not_be_created_is_missed(wanted, there, ready, shown, style, word):
    installed = Installation("koordinator-system", workloads={"koord-scheduler": workload(wanted, there, ready)})
    sign, *_, count, _, state = status._parts(installed).rows[2]
    assert (count, sign == "✔", state == "") == (shown, style == "ok", style == "ok")
    part = health._part(installed, "koord-scheduler", "scheduler", NOW)
    assert (part["ready"], part["style"], part["word"]) == (shown, style, word)


TIME = dt.datetime(2026, 11, 21, 9, 5, 7, tzinfo=dt.UTC)
GIB = 2**30
ENABLED = evaluation.evaluate(None, {"colocation-config": '{"enable": true}'}, exists=True)


def part(wanted, ready, version="0.2.0"):
    counts = {"ready_replicas": ready, "replicas": wanted, "number_ready": ready, "desired_number_scheduled": wanted}
    metadata = wire.pods.ObjectMeta(name="x", labels={"app.kubernetes.io/version": version})
    return wire.WireWorkload(metadata, wire.WorkloadSpec(replicas=wanted), wire.WorkloadStatus(**counts))


def node(name, number, **changes):
    amounts = {
        each: Amounts(1_000 * share * number, share * number * GIB)
        for each, share in (
            ("allocatable", 20), ("prod_requests", 10), ("used", 5), ("prod_peak", 4), ("mid", 2), ("mid_requests", 1),
        )
    }  # fmt: skip
    return NodeState(name, **(amounts | {"has_report": True, "reason": "Calculated"} | changes))


def snapshot(nodes=(), **installed):
    parts = {"koordlet": part(2, 2), "koord-manager": part(2, 2), "koord-scheduler": part(1, 1)}
    given = {
        "kubernetes": "1.34.4",
        "workloads": parts,
        "leader": "koord-manager-1",
        "renewed": TIME,
        "outcome": ENABLED,
    }
    return FleetSnapshot(TIME, "https://api", nodes, Installation("suite", **(given | installed)))


def test_each_finding_has_its_severity_its_code_and_below_it_what_to_do():
    nodes = (node("a", 1, has_report=False, reason="NeverReported"),)
    parts = {"koordlet": part(2, 1), "koord-scheduler": part(1, 1, "0.1.0")}
    given = snapshot(nodes, workloads=parts, leader="")
    expected, made = checks.find(checks.results(given)), status.answer(given)
    assert len({each.kind.severity for each in expected}) == 2
    table = made.tables[2]
    assert [column.title for column in table.columns] == ["SEVERITY", "CODE", "FINDING, AND WHAT TO DO"]
    for number, each in enumerate(expected):
        is_error = each.kind.severity == "error"
        fix = each.fix.replace("NAMESPACE", "suite")
        assert table.rows[2 * number] == ("✘ ERROR" if is_error else "! WARN", each.kind.code, each.sentence)
        assert table.rows[2 * number + 1] == ("", "", f"-> {fix}")
        found = made.data.findings[number]
        assert (found.code, found.severity, found.sentence) == (each.kind.code, each.kind.severity, each.sentence)
        assert (found.objects, found.fix, found.page) == (list(each.objects), fix, each.kind.page)
    assert table.styles == [style for each in expected for style in (each.kind.severity.value, "")]
    assert made.names == [f"finding/{each.kind.code}" for each in expected]
    assert (made.exit_code, "; ".join(made.tail[1:])) == (0, made.data.checks)
    assert made.data.checks.startswith("15 checks, 3 failed, 1 warning; not made: ")
    assert "NAMESPACE" not in str(made.data.findings)


def test_without_a_finding_it_is_stated_what_was_looked_at():
    fresh = node("a", 1, sample_age_seconds=9.0)
    made = status.answer(snapshot((fresh, dataclasses.replace(fresh, name="b"))), ["not read: pods: no"])
    assert len(made.tables) == 2
    text = io.StringIO()
    assert output.show(made, "table", to=text) == 0
    assert text.getvalue().endswith(
        "\n\n18 checks, none failed\nnot made: AdmissionReady, PriorityClasses, NodesAboveThreshold\n"
    )
    assert list(made.notes) == ["not read: pods: no"]


def test_it_states_until_when_calibrated_is_not_alone_in_force():
    nodes = [node(name, 1, calibrated_after=TIME + dt.timedelta(hours=hours)) for name, hours in (("a", 30), ("b", 9))]
    made = status.answer(snapshot((*nodes, node("c", 1))))
    assert "calibrated is not alone in force on 2 nodes, at most until 2026-11-22 15:05 UTC" in made.head
    assert not any("calibrated" in line for line in status.answer(snapshot((node("c", 1),))).head)
