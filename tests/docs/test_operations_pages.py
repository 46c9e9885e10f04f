"""docs/operations: the metrics and sections that the pages name exist."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from docs.generators import alerts_page
from koordlet.report import conditions
from koordlet.samples import NoData
from manager.mid_resource import reasons
from tests.test_metrics_of_every_part import PARTS

ROOT = Path(__file__).parents[2]
OPERATIONS = ROOT / "docs" / "operations"
PAGE = (OPERATIONS / "troubleshooting.md").read_text(encoding="utf-8")
ALERTS_PAGE = (OPERATIONS / "alerts.md").read_text(encoding="utf-8")
ENTRIES = {
    title: text
    for title, text in re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    if "**Symptom.**" in text
}
METRIC = re.compile(r"\bkoord(?:let|_manager|_scheduler_plugin|_load_watcher)_[a-z_]+[a-z]\b")
SOURCE = "".join(
    path.read_text(encoding="utf-8")
    for part in ("koordlet", "manager", "scheduler_plugin")
    for path in (ROOT / part).rglob("*.py")
)


def test_there_are_entries() -> None:
    assert len(ENTRIES) > 10


@pytest.mark.parametrize("title", ENTRIES)
def test_an_entry_has_a_cause_and_a_solution(title: str) -> None:
    text = ENTRIES[title]
    assert "Cause" in text
    assert re.search(r"solution", text, re.IGNORECASE)


@pytest.mark.parametrize("metric", sorted(set(METRIC.findall(PAGE + ALERTS_PAGE))))
def test_every_metric_exists(metric: str) -> None:
    family = re.sub(r"_(total|bucket)$", "", metric)
    prefix = next(it for it in ("koord_scheduler_plugin_", "koord_load_watcher_", "koord") if metric.startswith(it))
    short = family.removeprefix(prefix) if prefix != "koord" else family
    assert f'"{family}"' in SOURCE or re.search(rf'[}}"_]{short}"', SOURCE), metric


EXPRESSIONS = {rule["alert"]: rule["expr"] for rule in alerts_page.RULES}


def test_the_alert_without_a_leader_also_fires_without_any_manager() -> None:
    # A sum over nothing is nothing, and compares with nothing.
    assert "or absent(koord_manager_leader)" in EXPRESSIONS["KoordNoManagerLeads"]


def test_the_alert_for_old_windows_also_fires_for_a_window_that_never_arrived() -> None:
    # It is NaN, and no comparison with NaN is true.
    assert "unless koord_load_watcher_window_age_seconds <= 300" in EXPRESSIONS["KoordLoadWatcherOld"]


def test_a_quantile_is_compared_with_a_value_that_it_can_reach(tmp_path: Path) -> None:
    # Prometheus returns the last finite bound if the quantile lies beyond it.
    quantiles = [row for row in EXPRESSIONS.values() if "histogram_quantile" in row]
    assert quantiles
    for row in quantiles:
        name, operator, limit = re.search(r"rate\((\w+)_bucket.* (>=?) ([\d.]+)$", row).groups()
        registry = CollectorRegistry()
        PARTS[name.partition("_")[0]](registry, tmp_path)
        (family,) = (each for each in registry.collect() if each.name == name)
        largest = max(float(it.labels["le"]) for it in family.samples if it.labels.get("le", "+Inf") != "+Inf")
        assert float(limit) < largest or (operator, float(limit)) == (">=", largest), row


@pytest.mark.parametrize("code", reasons.Reason)
def test_every_reason_code_of_mid_resources_is_explained(code: reasons.Reason) -> None:
    table = ENTRIES["A node offers no Mid resources, or less than before"].split("by reason code:")[1]
    assert f"`{code}`" in table


TROUBLES = (
    {"has_node_usage": False},
    {"pods_are_known": False},
    {"cold_pods": 1},
    {"no_data": [NoData("cpu.stat", "/sys/fs/cgroup", "gone")]},
    {"no_prediction": "why"},
    {"state_problem": "why"},
    {"reservation_problem": "why"},
    {"spec_problem": "why"},
    {"lacks_policy": True},
    {"unsupported": "why"},
    {"unreadable": ["pods default/web: why"]},
    {"refused_identities": ["default/web: why"]},
    {"refused_pods": 1},
    {"throttled_pods": ["web"]},
)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: next(iter(trouble)))
def test_every_condition_of_an_agent_is_explained(trouble: dict[str, Any]) -> None:
    well = {"Ready": "True"}
    facts = conditions.Facts(
        **{
            "has_node_usage": True, "no_data": (), "pods_are_known": True, "warm_pods": 1, "cold_pods": 0,
            "cold_start_period_seconds": 7200.0, "no_prediction": None, "state_problem": None, **trouble,
        }
    )  # fmt: skip
    published = conditions.evaluate(facts, [], dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None)
    (found,) = (each for each in published if each.status != well.get(each.type, "False"))
    assert f"`{found.type}` is {found.status}" in PAGE
    assert f"`{found.reason}`" in PAGE
