"""Compare every predictor with the oracle of the next 1, 3 and 24 hours, on real CPU traces.

    python -m benchmarks.bench_backtest [--traces FOLDER] [--machines N] [--seed N] [--processes N] [--horizons H ...]

Without a folder, or where it has no traces, the excerpt in benchmarks/backtest/data is used; the tables name it.
A folder has `azure_v1_vm_cpu_avg.csv.gz` and `azure_v1_vm_cpu_max.csv.gz`. The columns are described in
docs/benchmarks/prediction-accuracy.md.
A calibrated peak is for a horizon of at most 3 hours, so a table of a longer one has no row of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from pathlib import Path

import numpy as np

from api_types.colocation import presets
from benchmarks.backtest import scores, traces
from benchmarks.backtest.cell import CellReplay, Setting, replay_cell
from koordlet.cluster import spec_in_force
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.predictors import registry

EXCERPT = Path("benchmarks/backtest/data/azure_v1_vm_cpu_avg_excerpt.csv.gz")
DAY_SECONDS = 86_400
HORIZONS_HOURS = (1.0, 3.0, 24.0)
LONGEST_CALIBRATED_HOURS = 3.0
TARGETS = {"calibrated, 1 %": 0.01, "calibrated, 2 %": 0.02}
POLICIES = {
    **{name: PredictParameters(predictor=name) for name in registry.PREDICTORS if name != "calibrated"},
    "n-sigma-v1, N = 3": PredictParameters(predictor="n-sigma-v1", n=3),
    "n-sigma-v1, N = 10": PredictParameters(predictor="n-sigma-v1", n=10),
    "n-sigma-v2, N = 3": PredictParameters(predictor="n-sigma-v2", n=3),
    "max of v1 and RC": PredictParameters(predictor="max", members=("n-sigma-v1", "resource-central")),
    "percentile, cold 24 h": PredictParameters(predictor="percentile", cold_start_period_seconds=DAY_SECONDS),
    **{
        f"preset {preset}": spec_in_force.predict_parameters(spec_in_force.predict_policy(strategy.node_predict_policy))
        for preset, strategy in presets.PRESETS.items()
        if preset == "conservative"  # the others are calibrated
    },
}
HEADER = (
    "policy",
    "violations %",
    "p50 / p90 / p99 %",
    "severity mean / p99 %",
    "short by %",
    "episodes a week",
    "savings %",
    "of oracle's %",
    "cores saved",
    "violations, raised to usage %",
)


def cells(folder: Path | None, machines: int | None, seed: int) -> list[tuple[str, Path, Setting]]:
    """Return title, file and setting of each table."""
    mean, largest = (None if folder is None else folder / f"azure_v1_vm_cpu_{value}.csv.gz" for value in ("avg", "max"))
    if mean is None or largest is None or not (mean.exists() and largest.exists()):
        if folder is not None:
            print(f"no traces in {folder}: using the excerpt {EXCERPT}\n")
        return [("excerpt, pods live 2 days", EXCERPT, Setting(machines or 4, 8, 2, 2, seed=seed))]
    return [
        (f"{title}, pods live {days} days", path, Setting(machines or 24, 16, days, 10, seed=seed))
        for title, path, days in (
            ("5-minute mean", mean, 4),
            ("5-minute mean", mean, 40),
            ("5-minute max", largest, 10),
        )
    ]


def table(replayed: CellReplay, interval_hours: float) -> list[tuple[str, ...]]:
    """Return a row for the oracle and one for each policy."""

    def row(name: str, peaks: np.ndarray, raised: np.ndarray) -> tuple[str, ...]:
        found = scores.score(peaks, replayed.oracle, replayed.requests, interval_hours)
        at_least_usage = scores.score(raised, replayed.oracle, replayed.requests, interval_hours)
        return (
            name,
            f"{100 * found.violation_rate:.2f}",
            " / ".join(
                f"{100 * rate:.1f}"
                for rate in (found.violation_rate_p50, found.violation_rate_p90, found.violation_rate_p99)
            ),
            f"{100 * found.severity:.2f} / {100 * found.severity_p99:.1f}",
            f"{100 * found.shortfall:.1f}" if found.violation_rate else "",
            f"{found.episodes_a_machine_week:.2f}",
            f"{100 * found.savings:.1f}",
            f"{100 * found.savings / best:.0f}",
            f"{found.saved_cores:.0f}",
            f"{100 * at_least_usage.violation_rate:.2f}",
        )

    best = scores.score(replayed.oracle, replayed.oracle, replayed.requests, interval_hours).savings
    rows = [row("oracle", replayed.oracle, replayed.oracle)]
    names = [*POLICIES, *TARGETS][: len(replayed.peaks)]
    for name, peaks in zip(names, replayed.peaks, strict=True):
        offered = np.minimum(peaks, replayed.requests)  # a published amount is never negative
        rows.append(row(name, offered, np.maximum(offered, replayed.usage)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, help="folder of the whole traces")
    parser.add_argument("--machines", type=int, help="default: 24, of the excerpt 4")
    parser.add_argument("--seed", type=int, default=1, help="of requests and placement")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--horizons", type=float, nargs="+", default=HORIZONS_HOURS, help="hours of a forecast")
    options = parser.parse_args()
    for horizon_hours in options.horizons:
        _print_tables(options, horizon_hours)


def _print_tables(options: argparse.Namespace, horizon_hours: float) -> None:
    targets = list(TARGETS.values()) if horizon_hours <= LONGEST_CALIBRATED_HOURS else []
    for title, path, usual in cells(options.traces, options.machines, options.seed):
        setting = dataclasses.replace(usual, horizon_hours=horizon_hours)
        series = traces.read(path)
        begin = time.perf_counter()
        replayed = replay_cell(series, setting, list(POLICIES.values()), options.processes, targets)
        machines, times = replayed.oracle.shape
        days = series.shares.shape[1] * series.step_seconds / DAY_SECONDS
        print(f"### {title}, horizon {horizon_hours:g} h\n")
        print(
            f"`{path.name}`: {len(series.names)} series, {days:.1f} days; {machines} machines of {setting.slots} pods, "
            f"{times} predictions each, from day {setting.first_prediction_day:g} on, seed {setting.seed}; "
            f"{replayed.requests.sum(axis=0).mean():.0f} cores requested; {time.perf_counter() - begin:.0f} s\n"
        )
        print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
        for row in table(replayed, setting.interval_hours):
            print(f"| {' | '.join(row)} |")
        print(flush=True)


if __name__ == "__main__":
    main()
