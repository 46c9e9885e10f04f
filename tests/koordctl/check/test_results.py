"""Results of `koordctl check`: exit code, document, and what is to be done; rights in words; lists in flags."""

import click
import pytest

from api_types.kubernetes import pods
from fleet import wire
from fleet.checks import CheckVerdict, Verdict
from fleet.finding_kinds import KINDS
from fleet.findings import AGENT, MANAGER, Finding, Installation
from koordctl.check import reading, results
from koordctl.check.reading import Right
from tests.koordctl.parsing import parsed


def result(verdict, code="Leader", text="x", fix=""):
    return CheckVerdict(KINDS[code], verdict, text, Finding(KINDS[code], remedy=fix))


@pytest.mark.parametrize(
    ("verdict", "fail_on", "code"),
    [
        (Verdict.FAILED, "error", 1), (Verdict.WARNING, "error", 0), (Verdict.PASSED, "error", 0),
        (Verdict.FAILED, "warning", 1), (Verdict.WARNING, "warning", 1), (Verdict.PASSED, "warning", 0),
        (Verdict.SKIPPED, "error", 0), (Verdict.SKIPPED, "warning", 0),
    ],
)  # fmt: skip
def test_a_fault_is_no_and_a_warning_on_demand(verdict, fail_on, code):
    found = results.answer([result(Verdict.PASSED, "VersionSkew"), result(verdict)], "n", fail_on)
    assert (found.exit_code, found.data.works) == (code, code == 0)


def test_what_to_do_is_shown_for_faults_and_warnings_only():
    verdicts = {"Leader": Verdict.FAILED, "VersionSkew": Verdict.WARNING, "Permissions": Verdict.PASSED,
                "AgentsReady": Verdict.SKIPPED}  # fmt: skip
    given = [result(verdict, code, f"text of {code}", "do it in NAMESPACE") for code, verdict in verdicts.items()]
    found = results.answer(given, "suite", "error")
    shown = {line.partition(":")[0] for line in found.tail if ": text of " in line}
    assert shown == {"Leader", "VersionSkew"}
    assert found.tail.count("  do   do it in suite") == 2
    assert "  see  docs/operations/findings.md#leader" in found.tail
    assert found.tail[-1] == "1 failed, 1 warning, 1 passed, 1 skipped"
    assert found.data.counts == {"failed": 1, "warning": 1, "passed": 1, "skipped": 1}
    (table,) = found.tables
    styles = {row[2]: style for row, style in zip(table.rows, table.styles, strict=True)}
    assert styles == {"Leader": "error", "VersionSkew": "warning", "Permissions": "", "AgentsReady": ""}


def test_rights_of_one_resource_are_named_together():
    given = [
        Right("get", "nodes"), Right("get", "leases", in_namespace=True, name="a"), Right("list", "nodes"),
        Right("get", "leases", in_namespace=True, name="b"),
    ]  # fmt: skip
    assert reading.named(given, "suite") == "get, list nodes; get leases a in suite; get leases b in suite"
    assert reading.named([], "suite") == ""


def test_the_config_map_and_the_leases_are_asked_for_by_their_names():
    manager = wire.WireWorkload(pods.ObjectMeta("suite-koord-manager"))
    installed = Installation("s", workloads={"koord-manager": manager}, config_map="another")
    renamed = reading.with_names(reading.VIEWER, installed)
    changed = [(old.name, new.name) for old, new in zip(reading.VIEWER, renamed, strict=True) if old != new]
    assert changed == [("slo-controller-config", "another"), ("koord-manager", "suite-koord-manager")]


def test_parts_that_are_required_and_categories_that_are_left_out_are_lists():
    given = parsed(["check", "--require", "agent, manager,", "--skip", "rights"])
    assert (given.require, given.skip) == ((AGENT, MANAGER), ("rights",))
    given = parsed(["check"])
    assert (given.require, given.skip, given.fail_on, given.wait) == ((), (), "error", 0.0)


@pytest.mark.parametrize(("flag", "known"), [("--require", "agent,manager,scheduler"), ("--skip", "rights")])
def test_an_unknown_part_or_category_is_wrong_usage(flag, known):
    with pytest.raises(click.UsageError) as raised:
        parsed(["check", flag, f"{known},other"])
    assert "other: want some of " in str(raised.value)
