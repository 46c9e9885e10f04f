"""The chart's file of rules, from the table of alerts; Prometheus and the `spec` of a PrometheusRule read the same."""

from __future__ import annotations

from typing import Any, Final

from api_types.kubernetes import yaml_text
from charts.generators.alerts import ALERTS, FINDINGS, Alert

_HEAD: Final = "# Generated from charts/generators/alerts.py by `make update`. Do not edit.\n"
_PAGE: Final = "docs/operations/"


def text() -> str:
    """Return the content of files/alert-rules.yaml."""
    return _HEAD + yaml_text.dump({"groups": [{"name": "koord-suite", "rules": [_rule(alert) for alert in ALERTS]}]})


def _rule(alert: Alert) -> dict[str, Any]:
    runbook = f"{_PAGE}troubleshooting.md#{alert.anchor}" if alert.anchor else f"{_PAGE}alerts.md"
    return {
        "alert": alert.name,
        "expr": alert.expression,
        **({"for": f"{alert.minutes}m"} if alert.minutes else {}),
        "labels": {"severity": alert.severity.value},
        "annotations": {
            "summary": alert.when,
            "runbook": runbook,
            **({"finding": FINDINGS[alert.name]} if alert.name in FINDINGS else {}),
        },
    }
