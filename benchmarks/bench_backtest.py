"""Compare every predictor with the oracle of the next 1, 3 and 24 hours, on real traces of CPU or memory.

    python -m benchmarks.bench_backtest [--traces FOLDER] [--machines N] [--seed N] [--processes N] [--horizons H ...]

Without a folder, or where it has no traces, the excerpt in benchmarks/backtest/data is used; the tables name it.
Every file of the folder that ends in .csv or .csv.gz is one set of traces, of memory if its name contains `mem`. Of
`azure_v1_vm_cpu_*` the settings are those of docs/benchmarks/prediction-accuracy.md, which describes the columns.
A calibrated peak is for a horizon of at most 3 hours, so a table of a longer one has no row of it. Memory is held to
half of the target: `calibrated, 1 %` aims at 0.5 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from api_types.colocation import presets
from benchmarks.backtest import scores
from benchmarks.backtest.cell import LONGEST_CALIBRATED_SECONDS, CellReplay, Setting, replay_cell
from benchmarks.backtest.replay import Unanswered
from koordctl.backtest import sources
from koordctl.backtest.sources import Traces
from koordlet.cluster import spec_in_force
from koordlet.prediction.packages import installed
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.predictors import registry
from koordlet.samples import Resource

EXCERPT = Path("benchmarks/backtest/data/azure_v1_vm_cpu_avg_excerpt.csv.gz")
DAY_SECONDS = 86_400
HORIZONS_HOURS = (1.0, 3.0, 24.0)
CALIBRATED = {
    f"calibrated, {percent} %": PredictParameters(predictor="calibrated", violation_target_percent=float(percent))
    for percent in (1, 2)
}
POLICIES = {
    **{name: PredictParameters(predictor=name) for name in registry.PREDICTORS if name != "calibrated"},
    **{name: PredictParameters(predictor=name) for name in installed.names()},  # of packages beside this checkout
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
    "saved",
    "violations, raised to usage %",
)


LIVES_DAYS = {"azure_v1_vm_cpu_avg": (4, 40)}
"""Mean lifetimes of the pods in each table of a set; 10 days for any other."""
FEWEST_SERIES = 2  # a pod that arrives is not on the machine yet
LARGE_SET, SLOTS, SLOTS_OF_A_SMALL_SET = 40, 16, 6
SHARE_BEFORE, MOST_DAYS_BEFORE = 0.36, 10.0
"""Part of a trace before the first prediction that counts."""


def cells(folder: Path | None, machines: int | None, seed: int) -> Iterator[tuple[str, Traces, Setting]]:
    """Yield title, traces and setting of each table; print a line for a file that cannot be read."""
    files = sorted(each for each in folder.iterdir() if each.name.endswith((".csv", ".csv.gz"))) if folder else []
    if folder and not files:
        print(f"no traces in {folder}: using the excerpt {EXCERPT}\n")
    if not files:
        yield (
            f"{EXCERPT.name}, pods live 2 days",
            sources.read_trace(EXCERPT),
            Setting(machines or 4, 8, 2, 2, seed=seed),
        )
    for path in files:
        name = path.name.partition(".csv")[0]
        try:
            found = sources.read_trace(path)
        except ValueError as error:
            print(f"### {name}\n\nnot measured: {error}\n", flush=True)
            continue
        if len(found.names) < FEWEST_SERIES:
            print(f"### {name}\n\nnot measured: {len(found.names)} series: want at least {FEWEST_SERIES}\n", flush=True)
            continue
        days = found.shares.shape[1] * found.step_seconds / DAY_SECONDS
        slots = SLOTS if len(found.names) >= LARGE_SET else min(SLOTS_OF_A_SMALL_SET, len(found.names) - 1)
        resource = Resource.MEMORY if "mem" in name else Resource.CPU
        for life in LIVES_DAYS.get(name, (10,)):
            setting = Setting(
                machines or 24, slots, life, min(MOST_DAYS_BEFORE, days * SHARE_BEFORE), seed=seed, resource=resource
            )
            yield f"{name}, pods live {life} days", found, setting


def table(names: Iterable[str], replayed: CellReplay, interval_hours: float) -> list[tuple[str, ...]]:
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
            f"{100 * found.savings / best:.0f}" if best > 0 else "",
            f"{found.saved_cores:.0f}",
            f"{100 * at_least_usage.violation_rate:.2f}",
        )

    best = scores.score(replayed.oracle, replayed.oracle, replayed.requests, interval_hours).savings
    rows = [row("oracle", replayed.oracle, replayed.oracle)]
    for name, peaks in zip(names, replayed.peaks, strict=True):
        offered = np.minimum(peaks, replayed.requests)  # a published amount is never negative
        rows.append(row(name, offered, np.maximum(offered, replayed.usage)))
    return rows


def options_of(parser: argparse.ArgumentParser, horizons_hours: Sequence[float]) -> argparse.Namespace:
    """Return the options of a benchmark over traces."""
    parser.add_argument("--traces", type=Path, help="folder of the whole traces")
    parser.add_argument("--machines", type=int, help="default: 24, of the excerpt 4")
    parser.add_argument("--seed", type=int, default=1, help="of requests and placement")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--horizons", type=float, nargs="+", default=horizons_hours, help="hours of a forecast")
    return parser.parse_args()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = options_of(parser, HORIZONS_HOURS)
    for horizon_hours in options.horizons:
        _print_tables(options, horizon_hours)


def _print_tables(options: argparse.Namespace, horizon_hours: float) -> None:
    is_calibrated = horizon_hours * 3600 <= LONGEST_CALIBRATED_SECONDS
    policies = POLICIES | (CALIBRATED if is_calibrated else {})
    for title, series, usual in cells(options.traces, options.machines, options.seed):
        setting = dataclasses.replace(usual, horizon_hours=horizon_hours)
        begin = time.perf_counter()
        try:
            replayed = replay_cell(series, setting, list(policies.values()), options.processes)
        except (ValueError, Unanswered) as error:
            print(f"### {title}, horizon {horizon_hours:g} h\n\nnot measured: {error}\n", flush=True)
            continue
        machines, times = replayed.oracle.shape
        days = series.shares.shape[1] * series.step_seconds / DAY_SECONDS
        is_memory = setting.resource is Resource.MEMORY
        print(f"### {title}, horizon {horizon_hours:g} h\n")
        print(
            f"{len(series.names)} series, {days:.1f} days, values are {series.unit}; {machines} machines of "
            f"{setting.slots} pods, {times} predictions each, from day {setting.first_prediction_day:.1f} on, seed "
            f"{setting.seed}; {replayed.requests.sum(axis=0).mean():.0f} {'GiB' if is_memory else 'cores'} requested; "
            f"{time.perf_counter() - begin:.0f} s\n"
        )
        print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
        for row in table(policies, replayed, setting.interval_hours):
            print(f"| {' | '.join(row)} |")
        print(flush=True)


if __name__ == "__main__":
    main()
