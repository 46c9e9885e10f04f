"""Comparison of outcomes as text and JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from scheduler_plugin.simulation import outcome
from scheduler_plugin.simulation.outcome import HOT_PERCENT, OutcomeSummary, ReplayOutcome

_PERIODS: Final = 12  # lines of the table over time


def text(outcomes: Mapping[str, ReplayOutcome]) -> str:
    """Format tables with a column for each contender."""
    summaries = [outcome.summary(contender) for contender in outcomes.values()]
    rows = [("", *outcomes), *_summary_rows(summaries)]
    rows += [("nodes rejected, over all tries:", *("" for _ in outcomes)), *_rejection_rows(list(outcomes.values()))]
    over_time = [(f"hot nodes (> {HOT_PERCENT:.0f} %), mean", *outcomes), *_rows_over_time(list(outcomes.values()))]
    return "\n".join([*_aligned(rows), "", *_aligned(over_time)]) + "\n"


def document(outcomes: Mapping[str, ReplayOutcome]) -> dict[str, Any]:
    """Return all results as JSON, with hot nodes by step and the node of each arrived pod."""
    return {
        name: {
            **outcome.summary(contender)._asdict(),
            "rejections": dict(contender.rejections),
            "hot_nodes": contender.hot_nodes().tolist(),
            "step_seconds": contender.scenario.step_seconds,
            "placements": {
                contender.scenario.pods[index].pod.metadata.namespace
                + "/"
                + contender.scenario.pods[index].pod.metadata.name: placed._asdict()
                for index, placed in contender.placements.items()
            },
        }
        for name, contender in outcomes.items()
    }


def _summary_rows(summaries: Sequence[OutcomeSummary]) -> Iterator[tuple[str, ...]]:
    def row(title: str, values: Iterator[str]) -> tuple[str, ...]:
        return (title, *values)

    yield row(f"node-time above {HOT_PERCENT:.0f} % CPU", (f"{summary.hot_ratio:.2%}" for summary in summaries))
    yield row("CPU demand above node capacity", (f"{summary.overload_ratio:.2%}" for summary in summaries))
    yield row("spread of CPU utilization (stdev)", (f"{summary.spread:.2%}" for summary in summaries))
    yield row("p99 of CPU utilization", (f"{summary.peak:.1%}" for summary in summaries))
    yield row("nodes used, mean", (f"{summary.nodes_used:.1f}" for summary in summaries))
    yield row("pods placed", (str(summary.placed) for summary in summaries))
    yield row("  of these after a retry", (str(summary.waited) for summary in summaries))
    yield row("  wait, mean (s)", (f"{summary.mean_wait_seconds:.1f}" for summary in summaries))
    yield row("pods never placed", (str(summary.never_placed) for summary in summaries))


def _rejection_rows(outcomes: Sequence[ReplayOutcome]) -> Iterator[tuple[str, ...]]:
    for reason in sorted({reason for contender in outcomes for reason in contender.rejections}):
        yield (f"  {reason}", *(str(contender.rejections.get(reason, 0)) for contender in outcomes))


def _rows_over_time(outcomes: Sequence[ReplayOutcome]) -> Iterator[tuple[str, ...]]:
    for steps in np.array_split(np.arange(outcomes[0].scenario.steps), _PERIODS):
        if len(steps):
            hours = steps[[0, -1]] * outcomes[0].scenario.step_seconds / 3600
            yield (
                f"  from {hours[0]:.1f} h",
                *(f"{contender.hot_nodes()[steps].mean():.2f}" for contender in outcomes),
            )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
