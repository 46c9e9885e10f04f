"""Compare `calibrated` with a second implementation of its formulas, on the same pods and machines.

    python -m benchmarks.bench_calibrated [--traces FOLDER] [--machines N] [--seed N] [--processes N] [--horizons H ...]

The second one is benchmarks/backtest/reference.py: 64-bit numbers, no ring, no rows. A cell of the
table has violations and savings in percent. Status 1: the two differ by more than 0.1 points of violations or 0.5 of
savings on a set. Traces as for `python -m benchmarks.bench_backtest`.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys

import numpy as np

from benchmarks.backtest import scores
from benchmarks.backtest.cell import LONGEST_CALIBRATED_SECONDS, Setting, refer_cell, replay_cell
from benchmarks.bench_backtest import cells, options_of
from koordctl.backtest.sources import Traces
from koordlet.prediction.parameters import PredictParameters
from koordlet.samples import Resource

TARGETS_PERCENT = (1.0, 2.0)
HORIZONS_HOURS = (1.0, 3.0)
MOST_POINTS_OF_VIOLATIONS, MOST_POINTS_OF_SAVINGS = 0.1, 0.5
HEADER = ("set", "H", "target", "calibrated", "reference", "n-sigma-v2", "largest difference of a peak, % of requests")
POLICIES = (
    *(PredictParameters(predictor="calibrated", violation_target_percent=percent) for percent in TARGETS_PERCENT),
    PredictParameters(predictor="n-sigma-v2"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = options_of(parser, HORIZONS_HOURS)
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    is_different = False
    for title, series, usual in cells(options.traces, options.machines, options.seed):
        for horizon_hours in options.horizons:
            setting = dataclasses.replace(usual, horizon_hours=horizon_hours)
            if horizon_hours * 3600 > LONGEST_CALIBRATED_SECONDS:
                parser.error(f"--horizons {horizon_hours:g}: want at most {LONGEST_CALIBRATED_SECONDS / 3600:g} hours")
            try:
                is_different |= _print_rows(title, series, setting, options.processes)
            except ValueError as error:
                print(f"{title}, horizon {horizon_hours:g} h: not measured: {error}", file=sys.stderr)
    if is_different:
        sys.exit(1)


def _print_rows(title: str, series: Traces, setting: Setting, processes: int | None) -> bool:
    """Print a row for each target; return whether product and reference differ by more than they may."""
    divisor = 2 if setting.resource is Resource.MEMORY else 1
    shares = [percent / 100 / divisor for percent in TARGETS_PERCENT]
    replayed = replay_cell(series, setting, POLICIES, processes)
    others = refer_cell(series, setting, shares, processes)
    *found, n_sigma = np.minimum(replayed.peaks, replayed.requests)
    is_different = False
    for share, product, other in zip(shares, found, others, strict=True):
        one, two, fixed = (
            scores.score(each, replayed.oracle, replayed.requests, setting.interval_hours)
            for each in (product, other, n_sigma)
        )
        away = np.divide(
            np.abs(product - other), replayed.requests, where=replayed.requests > 0, out=np.zeros_like(product)
        )
        is_different |= 100 * abs(one.violation_rate - two.violation_rate) > MOST_POINTS_OF_VIOLATIONS
        is_different |= 100 * abs(one.savings - two.savings) > MOST_POINTS_OF_SAVINGS
        cells_of_row = (
            title,
            f"{setting.horizon_hours:g} h",
            f"{100 * share:g} %",
            *(f"{100 * each.violation_rate:.2f} / {100 * each.savings:.1f}" for each in (one, two, fixed)),
            f"{100 * away.max():.2f}",
        )
        print(f"| {' | '.join(cells_of_row)} |", flush=True)
    return is_different


if __name__ == "__main__":
    main()
