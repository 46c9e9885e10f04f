"""Page docs/operations/alerts.md: every alert, from the table that the chart's rules are generated from."""

from __future__ import annotations

import pathlib
import re
from typing import Final

from charts.generators.alerts import ALERTS, Alert
from docs.generators import markdown

_INTRODUCTION: Final = """
Alerts for Prometheus; [Monitoring](monitoring.md) switches them on. Each has one case in which it fires and one in
which it is quiet, which `promtool` runs. The annotation `runbook` of an alert names the section
that helps, `finding` the code of the [finding](findings.md).
"""
_NOTES: Final = """
All counters exist from the start as 0, so that `increase` sees the first event. The age of a window that never
arrived is NaN, which only `unless` finds. `KoordAgentSilent` compares with three times the longest
`metricReportIntervalSeconds` of the configuration in force. `KoordForecastsTooLow` waits for 1000 forecasts.
"""


def page(troubleshooting: pathlib.Path) -> str:
    """Return the whole page; `troubleshooting` is the page whose sections it names."""
    titles = _titles(troubleshooting.read_text(encoding="utf-8"))
    rows = [_row(alert, titles) for alert in ALERTS]
    return "".join(
        [
            markdown.head("Alerts", "charts/generators/alerts.py"),
            _INTRODUCTION,
            markdown.table(("alert", "when", "expression", "for", "severity", "then see"), rows),
            _NOTES,
        ]
    )


def _row(alert: Alert, titles: dict[str, str]) -> markdown.Row:
    link = f"[{titles[alert.anchor]}](troubleshooting.md#{alert.anchor})" if alert.anchor else ""
    see = ", ".join(filter(None, (link, alert.remedy)))
    minutes = f"{alert.minutes} m" if alert.minutes else ""
    return markdown.code(alert.name), alert.when, markdown.code(alert.expression), minutes, alert.severity, see


def _titles(text: str) -> dict[str, str]:
    """Return the title of each section by its anchor. A section that an alert names and that is missing: KeyError."""
    found = re.findall(r"^## (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-"): title for title in found}
