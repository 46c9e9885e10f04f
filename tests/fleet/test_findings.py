"""Findings use the codes and the words that other parts have."""

import pathlib
import re

import pytest

from api_types.kubernetes import pods
from fleet import checks, findings, wire
from fleet.finding_kinds import KINDS, Severity
from fleet.findings import FleetSnapshot, Installation, Unread
from fleet.node_state import NodeState
from koordctl import commands

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def snapshot(nodes=(), **changes):
    return FleetSnapshot(time=None, server="", nodes=tuple(nodes), **changes)


def find(*args, **changes):
    """Return the findings about nodes, and about the leader."""
    parts = checks.results(snapshot(*args, **changes))
    return checks.find(
        item for item in parts if item.kind.code not in ("AgentsReady", "ManagerReady", "SchedulerReady")
    )


def broken(name, reason="SampleTooOld"):
    return NodeState(name, reason=reason, detail="no report for 21m")


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.code)
def test_the_page_of_a_finding_exists(kind):
    page, _, anchor = kind.page.partition("#")
    assert (DOCS / page).is_file()
    assert not anchor or anchor in anchors(DOCS / page)


def test_a_finding_names_node_cause_and_next_command():
    (result,) = find([broken("worker-05", "NoPrediction")])
    assert result.sentence.startswith("worker-05: kept: the newest report carries no prediction")
    assert result.fix == "koordctl explain node worker-05"


def test_the_worst_comes_first_and_notes_are_left_out():
    nodes = [broken("a", "Shadow"), broken("b", "NoPrediction"), broken("c")]
    assert [item.kind.severity for item in find(nodes)] == [Severity.ERROR, Severity.WARNING]


@pytest.mark.parametrize(
    ("count", "subject"), [(0, ""), (1, "n0"), (2, "n0 and 1 more node"), (3, "n0 and 2 more nodes")]
)
def test_a_finding_names_its_first_node_and_counts_the_others(count, subject):
    kind = KINDS["SampleTooOld"]
    assert findings.Finding(kind, tuple(f"n{number}" for number in range(count))).subject == subject


def test_a_lease_that_was_not_read_is_no_missing_leader():
    manager = wire.WireWorkload(pods.ObjectMeta("m"), status=wire.WorkloadStatus(ready_replicas=2, replicas=2))
    installed = Installation("koordinator-system", workloads={"koord-manager": manager})
    assert [item.kind.code for item in find(installation=installed)] == ["Leader"]
    hidden = (Unread("leases/m", "403", is_right=True),)
    assert find(installation=installed, unread=hidden) == []


def test_an_unknown_code_of_a_newer_manager_is_no_error():
    assert find([broken("a", "SomethingNew")]) == []


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.code)
def test_a_fix_names_no_command_that_does_not_exist(kind):
    assert all(word in commands.ROOT.commands for word in re.findall(r"koordctl ([a-z]+)", kind.fix))
