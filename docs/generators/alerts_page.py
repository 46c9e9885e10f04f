"""Page docs/operations/alerts.md: every alert, from the rules of the chart."""

from __future__ import annotations

import functools
import posixpath
import re
from typing import Any, Final

import yaml

from docs.generators import markdown
from docs.generators.chart_values_page import CHART

_INTRODUCTION: Final = """
Alerts for Prometheus; [Monitoring](monitoring.md) switches them on. Each has one case in which it fires and one in
which it is quiet, which `promtool` runs. The annotation `runbook` of an alert names the section
that helps, `remedy` what else to check, `finding` the code of the [finding](findings.md).
"""
_NOTES: Final = """
All counters exist from the start as 0, so that `increase` sees the first event. The age of a window that never
arrived is NaN, which only `unless` finds. `KoordAgentSilent` compares with three times the longest
`metricReportIntervalSeconds` of the configuration in force. `KoordForecastsTooLow` waits for 1000 forecasts.
"""
RULES: Final[list[dict[str, Any]]] = yaml.safe_load((CHART / "files" / "alert-rules.yaml").read_text(encoding="utf-8"))[
    "groups"
][0]["rules"]
"""The rules as Prometheus reads them, in the order of the page: manager, agent, scheduler, load watcher, InfluxDB."""


def page() -> str:
    """Return the whole page."""
    return "".join(
        [
            markdown.head("Alerts", "charts/koord-suite/files/alert-rules.yaml"),
            _INTRODUCTION,
            markdown.table(("alert", "when", "expression", "for", "severity", "then see"), map(_row, RULES)),
            _NOTES,
        ]
    )


def _row(rule: dict[str, Any]) -> markdown.Row:
    notes = rule["annotations"]
    see = ": ".join(filter(None, (_link(notes["runbook"]), notes.get("remedy"))))
    severity, minutes = rule["labels"]["severity"], rule.get("for", "").replace("m", " m")
    return markdown.code(rule["alert"]), notes["summary"], markdown.code(rule["expr"]), minutes, severity, see


def _link(runbook: str) -> str:
    """Return a link to a section, by its title; nothing for a page as a whole. A section that is missing: KeyError."""
    path, _, anchor = runbook.partition("#")
    if not anchor:
        return ""
    return f"[{_titles(path)[anchor]}]({posixpath.relpath(path, 'docs/operations')}#{anchor})"


@functools.cache
def _titles(path: str) -> dict[str, str]:
    """Return the titles of a page of the repository by their anchors."""
    titles = re.findall(r"^##+ (.*)$", (CHART.parents[1] / path).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-"): title for title in titles}
