"""Every code that an operator may see is in the one list of findings, in the same words."""

import ast
import pathlib
import re

import pytest

from docs.generators import alerts_page, findings_page
from fleet.finding_kinds import KINDS
from manager.mid_resource.reasons import TEXTS, Closed, Reason

ROOT = pathlib.Path(__file__).parents[2]
CODE = re.compile(r"[A-Z]+[a-z]+(?:[A-Z][a-z]+)+|Throttled|Unsupported")
SOURCES = (
    "koordlet/report/conditions.py",
    "koordlet/mid_suppression/suppressor.py",
    "manager/slo_config/evaluation.py",
    "manager/mid_resource/reasons.py",
    "manager/mid_resource/events.py",
    "manager/mid_resource/eviction/planning.py",
    "manager/node_metric/controller.py",
    "manager/node_metric/workload_history/stored.py",
)
WELL = {"Reporting", "Warm", "AllSourcesRead", "Predicting", "NotThrottled", "Suppressing"}
"""Reasons of conditions that state no fault."""
FINDINGS = {rule["alert"]: rule["annotations"].get("finding") for rule in alerts_page.RULES}
EVENT = re.compile(r"recorder\.event\(|cluster_events\.body\(|super\(\)\.event\(")
REASONS_BY_NAME = {"manager/slo_config/controller.py", "manager/mid_resource/controller.py"}
REASONS_BY_NAME |= {"manager/cli/lowered_limits.py", "koordlet/mid_suppression/suppressor.py"}
REASONS_BY_NAME |= {"manager/mid_resource/eviction/controller.py", "manager/events.py"}
REASONS_BY_NAME |= {"manager/mid_resource/eviction/records.py", "manager/reconciler.py"}
"""Modules that record Events whose codes are constants of SOURCES."""


def strings(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize("path", SOURCES)
def test_every_code_of_a_source_has_a_finding(path):
    codes = {text for text in strings(path) if CODE.fullmatch(text)} - WELL - {"MidResource"}
    assert codes
    assert codes - {"NodeMetric", "ConfigMap"} <= KINDS.keys()


def test_no_other_module_records_events():
    found = {
        str(path.relative_to(ROOT))
        for part in ("manager", "koordlet")
        for path in (ROOT / part).rglob("*.py")
        if EVENT.search(path.read_text(encoding="utf-8"))
    }
    assert found <= {*SOURCES, *REASONS_BY_NAME, "manager/events.py"}


def test_reasons_have_the_words_of_the_status_annotation():
    assert {reason.value: KINDS[reason].sentence for reason in Reason} == dict(TEXTS)
    assert {each.value for each in Closed if each.value} <= KINDS.keys()


def test_every_finding_of_an_alert_exists():
    by_reason = "{{ $labels.reason }}"
    assert set(FINDINGS.values()) - {None, by_reason} <= KINDS.keys()
    for rule in (rule for rule in alerts_page.RULES if FINDINGS.get(rule["alert"]) == by_reason):
        reasons = re.search(r'reason=~"([\w|]+)"', rule["expr"])[1].split("|")
        assert set(reasons) <= KINDS.keys()


def test_an_alert_with_the_name_of_a_finding_is_about_it():
    parts = {name.removeprefix("Koord").removeprefix("Configuration"): name for name in FINDINGS}
    codes = {code.removeprefix("ColocationConfig"): code for code in KINDS}
    assert {parts[name]: codes[name] for name in parts.keys() & codes.keys()}.items() <= FINDINGS.items()


def test_every_code_has_a_section():
    sections = re.findall(r"^### (\w+)$", findings_page.page(), re.MULTILINE)
    assert sorted(sections) == sorted(KINDS)
    assert len({code.lower() for code in sections}) == len(sections)
