"""Page docs/operations/alerts.md: every alert, from the table that the chart's rules are generated from."""

from __future__ import annotations

import pathlib
import re
from typing import Final

from charts.generators.alerts import ALERTS, Alert
from docs.generators import markdown

_INTRODUCTION: Final = """
Alerts for Prometheus. All [metrics](../reference/metrics.md) are scraped from the ports of the probes. The chart
installs them as a PrometheusRule with `--set monitoring.rules.enabled=true`; `monitoring.rules.labels` are the labels
by which your Prometheus selects it. A Prometheus without its operator reads the same rules from the chart's
`files/alert-rules.yaml`. The annotation `runbook` of an alert names the section that helps, `finding` the code
of the [finding](findings.md).
"""
_NOTES: Final = """
All counters exist from the start as 0, so that `increase` sees the first event. The age of a window that never
arrived is NaN, which only `unless` finds. `KoordAgentSilent` compares with three report intervals of 60 seconds: where
`metricReportIntervalSeconds` is longer than that, silence it and write your own rule with three times your interval.
`KoordForecastsTooLow` waits for 1000 forecasts.
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
