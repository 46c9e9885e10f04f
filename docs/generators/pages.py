"""Every generated page and diagram of the documentation, for `make update` and `make verify`."""

from __future__ import annotations

import pathlib
from typing import Final

from docs.generators import (
    alerts_page,
    chart_values_page,
    command_lines_page,
    configuration_page,
    decisions_index,
    diagrams,
    findings_page,
    first_steps,
    koordctl_documents,
    metrics_page,
    node_metric_page,
    stable_names,
)

DOCS: Final = pathlib.Path(__file__).parents[1]


def generated() -> dict[pathlib.Path, str]:
    """Return the content of each generated file by its path."""
    started, configuration = DOCS / "getting-started.md", DOCS / "reference" / "configuration.md"
    return {
        started: first_steps.page(started.read_text(encoding="utf-8")),
        configuration: configuration_page.page(configuration.read_text(encoding="utf-8")),
        DOCS / "reference" / "node-metric.md": node_metric_page.page(),
        DOCS / "reference" / "metrics.md": metrics_page.page(),
        DOCS / "reference" / "command-lines.md": command_lines_page.page(),
        DOCS / "reference" / "koordctl-documents.md": koordctl_documents.page(),
        **{
            DOCS / "reference" / koordctl_documents.FOLDER / name: text
            for name, text in koordctl_documents.files().items()
        },
        DOCS / "reference" / "chart-values.md": chart_values_page.page(),
        stable_names.FILE: stable_names.text(),
        DOCS / "operations" / "alerts.md": alerts_page.page(),
        DOCS / "operations" / "findings.md": findings_page.page(),
        **{DOCS / "assets" / f"{name}.svg": content for name, content in diagrams.generated().items()},
        DOCS / "contributing" / "decisions" / "index.md": decisions_index.page(DOCS / "contributing" / "decisions"),
    }
