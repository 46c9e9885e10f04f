"""Plots of predictions, drawn from the product on real traces: `make docs-plots TRACES=folder` writes the SVG files.

The folder has the trace `azure_v1_vm_cpu_avg.csv.gz`, which is not in this repository. Takes a few minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.backtest.cell import CellReplay, Setting, replay_cell
from benchmarks.bench_backtest import CALIBRATED, POLICIES
from koordctl.backtest import scores, sources

DOCS = Path(__file__).parents[1]
USAGE, TRADE = DOCS / "concepts" / "prediction-peaks.svg", DOCS / "benchmarks" / "prediction-trade.svg"
TRACE = "azure_v1_vm_cpu_avg.csv.gz"
SETTING = Setting(machines=8, slots=16, mean_life_days=4, first_prediction_day=10, horizon_hours=1)
DRAWN_HOURS = slice(48, 48 + 5 * 24)
POLICIES_DRAWN = {name: POLICIES[name] for name in POLICIES if not name.startswith("preset")} | CALIBRATED
ON_USAGE = ("n-sigma-v2", "calibrated, 1 %")


def draw_peaks(figure: Figure, replayed: CellReplay) -> None:
    """Draw requests, usage and two predictions of the first machine over five days."""
    axes = figure.subplots()
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
    axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, fontsize="small", frameon=False)


def draw_trade(figure: Figure, replayed: CellReplay) -> None:
    """Draw violations and savings side by side, a line for each predictor, the one that saves most at the top."""
    rows = []
    for name, peaks in zip(POLICIES_DRAWN, replayed.peaks, strict=True):
        offered = np.minimum(peaks, replayed.requests)
        found = scores.score(offered, replayed.oracle, replayed.requests, SETTING.interval_hours)
        rows.append((100 * found.savings, 100 * found.violation_rate, name))
    savings, violations, names = zip(*sorted(rows), strict=True)
    colors = ["tab:orange" if name in CALIBRATED else "tab:blue" for name in names]
    risk, gain = figure.subplots(ncols=2, sharey=True, width_ratios=(3, 2))
    risk.axvline(1, color="grey", linestyle="--", linewidth=1)
    risk.scatter(violations, names, c=colors, clip_on=False, zorder=3)
    risk.set_xscale("symlog", linthresh=0.5)
    risk.set_xticks([0, 0.5, 1, 2, 5, 10, 20], ["0", "0.5", "1", "2", "5", "10", "20"])
    risk.minorticks_off()
    risk.set_xlim(left=0)
    risk.set_xlabel("violations, % of the predictions for the next hour")
    gain.barh(names, savings, color=colors)
    gain.bar_label(gain.containers[0], fmt="%.0f", padding=2, fontsize="small")
    gain.set_xlim(0, 100)
    gain.set_xlabel("savings, % of the requests")
    risk.grid(visible=True, alpha=0.3)
    gain.grid(visible=True, axis="x", alpha=0.3)


def main() -> None:
    """Write one SVG file for each plot; the same input gives the same bytes."""
    mpl.rcParams["svg.hashsalt"] = "koord-suite"
    (folder,) = sys.argv[1:]
    replayed = replay_cell(sources.read_trace(Path(folder) / TRACE), SETTING, list(POLICIES_DRAWN.values()))
    for path, draw in ((USAGE, draw_peaks), (TRADE, draw_trade)):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        draw(figure, replayed)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
