"""Plots of predictions, drawn from the product on real traces: `make docs-plots TRACES=folder` writes the SVG files.

The folder has the trace `azure_v1_vm_cpu_avg.csv.gz`, which is not in this repository. Takes a few minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.backtest.cell import CellReplay, Setting, replay_cell
from benchmarks.bench_backtest import CALIBRATED, POLICIES
from koordctl.backtest import scores, traces

DOCS = Path(__file__).parents[1]
USAGE, TRADE = DOCS / "concepts" / "prediction-peaks.svg", DOCS / "benchmarks" / "prediction-trade.svg"
TRACE = "azure_v1_vm_cpu_avg.csv.gz"
SETTING = Setting(machines=8, slots=16, mean_life_days=4, first_prediction_day=10, horizon_hours=1)
DRAWN_HOURS = slice(48, 48 + 5 * 24)
POLICIES_DRAWN = {name: POLICIES[name] for name in POLICIES if not name.startswith("preset")} | CALIBRATED
ON_USAGE = ("n-sigma-v2", "calibrated, 1 %")


def draw_peaks(axes: Axes, replayed: CellReplay) -> None:
    """Draw requests, usage and two predictions of the first machine over five days."""
    days = (np.arange(replayed.usage.shape[1]) / 24 + SETTING.first_prediction_day)[DRAWN_HOURS]
    requests = replayed.requests[0, DRAWN_HOURS]
    axes.step(days, requests, where="post", color="grey", label="requests")
    for name in ON_USAGE:
        peaks = replayed.peaks[list(POLICIES_DRAWN).index(name), 0, DRAWN_HOURS]
        axes.step(days, np.minimum(peaks, requests), where="post", label=name)
    highest = replayed.oracle[0, DRAWN_HOURS]
    axes.step(days, highest, where="post", color="black", label="highest usage of the next hour")
    axes.set_xlabel("day")
    axes.set_ylabel("cores")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small", loc="upper right")


def draw_trade(axes: Axes, replayed: CellReplay) -> None:
    """Draw violations against savings, one point for each predictor."""
    for name, peaks in zip(POLICIES_DRAWN, replayed.peaks, strict=True):
        offered = np.minimum(peaks, replayed.requests)
        found = scores.score(offered, replayed.oracle, replayed.requests, SETTING.interval_hours)
        at = 100 * found.violation_rate, 100 * found.savings
        axes.plot(*at, "o", color="tab:orange" if name in CALIBRATED else "tab:blue")
        axes.annotate(name, at, xytext=(5, 3), textcoords="offset points", fontsize="small")
    axes.set_xscale("symlog", linthresh=0.5)
    axes.set_xticks([0, 0.5, 1, 2, 5, 10, 20, 50], ["0", "0.5", "1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.set_xlabel("violations, % of the predictions for the next hour")
    axes.set_ylabel("savings, % of the requests")


def main() -> None:
    """Write one SVG file for each plot; the same input gives the same bytes."""
    mpl.rcParams["svg.hashsalt"] = "koord-suite"
    (folder,) = sys.argv[1:]
    replayed = replay_cell(traces.read(Path(folder) / TRACE), SETTING, list(POLICIES_DRAWN.values()))
    for path, draw in ((USAGE, draw_peaks), (TRADE, draw_trade)):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.subplots()
        draw(axes, replayed)
        axes.grid(visible=True, alpha=0.3)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
