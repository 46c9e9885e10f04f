"""The result of a back-test as an answer, with a recommendation. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from koordctl.backtest.results import ORACLE, BacktestCandidate, CandidateSummary, Row
from koordctl.cli.answer import FINE, NOTHING, UNKNOWN, Answer, Cell, Column, Number, number, table
from koordctl.cli.document import AnswerDocument, to_wire

PEAK_TO_MEAN: Final = 1.7
"""Largest p90 of 30 s in 5 minutes, of 12 pods together, as a multiple of the mean (benchmarks/bench_hidden_peaks)."""
PEAK_TO_MEAN_OF_A_POD: Final = 2.7
"""The same of one pod; median over pods and windows, as above."""
PEAKS_NOTE: Final = (
    "A rate over the step of a query is a mean and hides shorter peaks. In the agent's own samples of each second, the "
    f"largest 30 s of 5 minutes are {PEAK_TO_MEAN_OF_A_POD:g} times the mean of a pod, and {PEAK_TO_MEAN:g} times that "
    "of 12 pods together (half of the cases, with one mix of loads). Agents learn these peaks, so peaks, usage "
    "and violations on a node are higher than shown here."
)
LEAST_DAYS: Final = 7.0
"""Days of forecasts below which nothing is recommended: working days and weekends differ."""
_UNITS: Final = {"cpu": "cores", "memory": "GiB"}
_CONFIG_MAP: Final = """apiVersion: v1
kind: ConfigMap
metadata:
  name: slo-controller-config
  namespace: koordinator-system
data:
  colocation-config: |
    {snippet}
"""


class Recommendation(NamedTuple):
    """A candidate, None for none, and the reason in one sentence."""

    name: str | None
    reason: str


def recommend(
    summaries: Sequence[CandidateSummary],
    candidates: Sequence[BacktestCandidate],
    target_percent: float,
    forecast_days: float,
) -> Recommendation:
    """Return the candidate with the most Mid CPU of those that keep the target for CPU and half of it for memory.

    One that the agent does not put in force is left out, and one that keeps the target only by its cold-start period.
    `forecast_days` is the time that the forecasts of a node cover. None where it is less than a week, or none passes.
    """
    if forecast_days < LEAST_DAYS:
        return Recommendation(
            None,
            f"none: the forecasts of a node cover {forecast_days:.1f} days (median), want at least {LEAST_DAYS:g}, so "
            "that working days and a weekend are among them; begin earlier (--from)",
        )
    by_name: dict[str, list[CandidateSummary]] = {}
    for summary in summaries:
        by_name.setdefault(summary.candidate, []).append(summary)
    limits = {"cpu": target_percent, "memory": target_percent / 2}
    goal = f"violations of at most {target_percent:g} % (memory: {target_percent / 2:g} %) on this history"
    keeping = {
        name
        for name, results in by_name.items()
        if all(summary.violations_percent <= limits[summary.resource] for summary in results)
    }
    passing = [candidate for candidate in candidates if candidate.snippet and candidate.name in keeping]
    offered = {candidate.name: by_name[candidate.name][0].mid for candidate in passing}
    sound = [candidate.name for candidate in passing if not candidate.keeps_with or candidate.keeps_with in keeping]
    best = max(sound, key=lambda name: offered[name], default=None)
    doubtful = next(
        (
            candidate
            for candidate in passing
            if candidate.name not in sound and offered[candidate.name] > offered.get(best or "", 0)
        ),
        None,
    )
    but = ""
    if doubtful is not None:
        highest = max(summary.violations_percent for summary in by_name[doubtful.keeps_with])
        but = (
            f"; {doubtful.name} offers more, but keeps them only by charging young pods their requests: without that "
            f"they are {highest:.1f} %"
        )
    if best is None:
        return Recommendation(None, f"none keeps {goal}; keep the defaults, or raise --target{but}")
    return Recommendation(best, f"use {best}: it offers the most Mid of those with {goal}{but}")


def answer(document: Backtest, candidates: Sequence[BacktestCandidate]) -> Answer:
    """Return the answer; Mid in cores or GiB a node. No is that nothing is recommended."""
    tail = ["", PEAKS_NOTE, "", f"Recommendation: {document.reason}."]
    if document.recommended is not None:
        snippet = next(candidate.snippet for candidate in candidates if candidate.name == document.recommended)
        tail += ["", *_CONFIG_MAP.format(snippet=snippet).splitlines()]
    cells: list[Cell[CandidateSummary]] = [
        (Column("RESOURCE"), lambda summary: summary.resource),
        (Column("CANDIDATE"), lambda summary: summary.candidate),
        number("VIOLATIONS %", lambda summary: _risk(summary, summary.violations_percent, 2)),
        number("P90 %", lambda summary: _risk(summary, summary.violations_percent_p90, 1)),
        number("P99 %", lambda summary: _risk(summary, summary.violations_percent_p99, 1)),
        number("SEVERITY %", lambda summary: _risk(summary, summary.severity_percent, 2)),
        number("EPISODES A WEEK", lambda summary: _risk(summary, summary.episodes_a_week, 2)),
        number("SAVINGS %", lambda summary: Number(f"{summary.savings_percent:.1f}", summary.savings_percent)),
        number("MID", lambda summary: Number(f"{summary.mid:.2f} {_UNITS[summary.resource]}", summary.mid)),
        number("MID P10", lambda summary: Number(f"{summary.mid_p10:.2f} {_UNITS[summary.resource]}", summary.mid_p10)),
        number("NODES", lambda summary: str(summary.nodes)),
    ]
    return Answer(
        document,
        [table(document.summaries, cells)],
        [f"candidate/{name}" for name in dict.fromkeys(summary.candidate for summary in document.summaries)],
        tail=tail,
        exit_code=NOTHING if document.recommended is None else FINE,
        notes=document.problems,
    )


class BacktestSettings(msgspec.Struct, frozen=True, rename="camel"):
    """What all shards of one back-test share."""

    horizon_seconds: int
    interval_seconds: int
    shards: int
    source: dict[str, int | float | str]

    def differences(self, other: BacktestSettings) -> list[str]:
        """Return the names of what differs, sorted."""
        mine, theirs = ({**msgspec.to_builtins(settings), **settings.source} for settings in (self, other))
        return sorted(
            key for key in mine.keys() | theirs.keys() if key != "source" and mine.get(key) != theirs.get(key)
        )


class Backtest(AnswerDocument):
    """Document of `koordctl backtest`, or of a shard of one."""

    settings: BacktestSettings
    problems: list[str]
    nodes: list[Row]
    """What `merge` reads."""
    shard: int = 0
    summaries: list[CandidateSummary] = msgspec.field(default_factory=list)
    recommended: str | None = None
    reason: str = ""
    notes: tuple[str, ...] = (PEAKS_NOTE,)


def as_json(document: Backtest) -> str:
    """Return one document, with a line for each row: logs of a container are limited in size."""
    values = to_wire(document)
    rows = ",\n  ".join(json.dumps(row) for row in values.pop("nodes"))
    return f'{json.dumps(values, indent=1)[:-2]},\n "nodes": [\n  {rows}\n ]\n}}\n'


def _risk(summary: CandidateSummary, value: float, digits: int) -> str:
    return UNKNOWN if summary.candidate == ORACLE else Number(f"{value:.{digits}f}", value)
