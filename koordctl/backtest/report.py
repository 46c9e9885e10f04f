"""Print the result of a back-test as a table, JSON or CSV, with a recommendation. No I/O."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Final

import msgspec

from koordctl.backtest.candidates import Candidate
from koordctl.backtest.results import ORACLE, Row, Summary

PEAKS_NOTE: Final = (
    "A rate over the step of a query is a mean and hides shorter peaks, so usage on a node exceeds a peak more often "
    "than shown here."
)
_HEADER: Final = (
    "resource", "candidate", "violations %", "p90 %", "p99 %", "severity %", "episodes a week", "savings %", "Mid",
    "Mid p10", "nodes",
)  # fmt: skip
_CONFIG_MAP: Final = """apiVersion: v1
kind: ConfigMap
metadata:
  name: slo-controller-config
  namespace: koordinator-system
data:
  colocation-config: |
    {snippet}
"""


def recommended(summaries: Sequence[Summary], candidates: Sequence[Candidate], target_percent: float) -> str | None:
    """Return the candidate with the most Mid CPU of those that keep the target for CPU and half of it for memory.

    A candidate that the agent does not put in force is left out. None where none keeps the target.
    """
    usable = {each.name for each in candidates if each.snippet}
    by_name: dict[str, list[Summary]] = {}
    for each in summaries:
        if each.candidate in usable:
            by_name.setdefault(each.candidate, []).append(each)
    limits = {"cpu": target_percent, "memory": target_percent / 2}
    passing = {
        name: sum(each.mid for each in found if each.resource == found[0].resource)
        for name, found in by_name.items()
        if all(each.violations_percent <= limits[each.resource] for each in found)
    }
    return max(passing, key=lambda name: passing[name]) if passing else None


def recommendation(name: str | None, candidates: Sequence[Candidate], target_percent: float) -> str:
    """Return one sentence, and the ConfigMap for it."""
    if name is None:
        return (
            f"Recommendation: none keeps violations of at most {target_percent:g} % (memory: "
            f"{target_percent / 2:g} %) on this history; keep the defaults, or raise --target.\n"
        )
    snippet = next(each.snippet for each in candidates if each.name == name)
    return (
        f"Recommendation: use {name}; it offers the most Mid of those with violations of at most {target_percent:g} % "
        f"(memory: {target_percent / 2:g} %) on this history.\n\n{_CONFIG_MAP.format(snippet=snippet)}"
    )


def table(summaries: Sequence[Summary]) -> str:
    """Return aligned columns; Mid in cores or GiB a node."""
    rows = [_HEADER, *(_cells(each) for each in summaries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    return "".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in rows
    )


def as_csv(summaries: Sequence[Summary]) -> str:
    """Return one line for each summary, with a header."""
    file = io.StringIO()
    writer = csv.DictWriter(file, Summary.__struct_fields__, lineterminator="\n")
    writer.writeheader()
    writer.writerows(msgspec.structs.asdict(each) for each in summaries)
    return file.getvalue()


def as_json(summaries: Sequence[Summary], rows: Sequence[Row], name: str | None, problems: Sequence[str]) -> str:
    """Return one document; `rows` are what `merge` reads."""
    document = {
        "apiVersion": "koordctl/v1",
        "kind": "Backtest",
        "summaries": [msgspec.structs.asdict(each) for each in summaries],
        "recommended": name,
        "notes": [PEAKS_NOTE],
        "problems": list(problems),
        "nodes": [msgspec.structs.asdict(each) for each in rows],
    }
    return json.dumps(document, indent=1) + "\n"


def _cells(each: Summary) -> tuple[str, ...]:
    unit = "cores" if each.resource == "cpu" else "GiB"
    is_oracle = each.candidate == ORACLE
    return (
        each.resource,
        each.candidate,
        "-" if is_oracle else f"{each.violations_percent:.2f}",
        "-" if is_oracle else f"{each.violations_percent_p90:.1f}",
        "-" if is_oracle else f"{each.violations_percent_p99:.1f}",
        "-" if is_oracle else f"{each.severity_percent:.2f}",
        "-" if is_oracle else f"{each.episodes_a_week:.2f}",
        f"{each.savings_percent:.1f}",
        f"{each.mid:.2f} {unit}",
        f"{each.mid_p10:.2f} {unit}",
        str(each.nodes),
    )
