"""Score curves of the scheduler plugins, drawn from the product's formulas: `make docs-plots` writes the SVG files."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scheduler_plugin.plugins.load_aware import plugin as load_aware
from scheduler_plugin.plugins.trimaran import (
    load_variation_risk_balancing,
    low_risk_over_commitment,
    peaks,
    target_load_packing,
)

PAGES = Path(__file__).parents[1] / "reference" / "scheduler-plugins"
PERCENT = np.linspace(0.0, 110.0, 1101)


def draw_load_aware(axes: Axes) -> None:
    """Draw the score of one resource by its usage."""
    used = np.linspace(0, 1_100_000, 1101).astype(np.int64)
    axes.plot(used / 10_000, load_aware.least_used_score(used, np.full(len(used), 1_000_000)))
    axes.set_xlabel("used with the pod, % of allocatable")


def draw_target_load_packing(axes: Axes) -> None:
    """Draw the score for three targets."""
    for target in (40.0, 60.0, 80.0):
        axes.plot(
            PERCENT, target_load_packing.target_load_score(PERCENT, target), label=f"targetUtilization {target:.0f}"
        )
    axes.set_xlabel("CPU utilization with the pod, %")


def draw_load_variation_risk_balancing(axes: Axes) -> None:
    """Draw the score by mean utilization, for three standard deviations."""
    one = np.ones((1, len(PERCENT)))
    for deviation in (0.0, 0.1, 0.3):
        of = load_variation_risk_balancing.fractions(PERCENT[np.newaxis] / 100.0, deviation * one, 0.0, one)
        scores = load_variation_risk_balancing.shipped_resource_scores(of, one, margin=1.0, sensitivity=1.0)
        axes.plot(PERCENT, scores[0], label=f"deviation {deviation:.0%} of the node")
    axes.set_xlabel("mean utilization with the pod, %")


def draw_low_risk_over_commitment(axes: Axes) -> None:
    """Draw the score by mean utilization, for three weights of the limits; requests are half, limits twice the node."""
    mu = np.linspace(0.0, 1.0, 501)
    one = np.ones(len(mu))
    sigma = low_risk_over_commitment.unsmoothed_sigma(mu, 0.05 * one, 5)
    load = low_risk_over_commitment.conditioned_load_risk(
        mu, sigma, 0.5 * one, 2.0 * one, one, no_limits_are_certain=False
    )
    limit = low_risk_over_commitment.limit_risk(0.5 * one, 2.0 * one, one)
    for weight in (0.0, 0.5, 1.0):
        risks = low_risk_over_commitment.total_risk(limit, load, weight)
        axes.plot(
            100.0 * mu, low_risk_over_commitment.risk_score(risks[np.newaxis]), label=f"riskLimitWeights {weight:g}"
        )
    axes.set_xlabel("mean utilization, % of allocatable (half of it requested, limits twice of it)")


def draw_peaks(axes: Axes) -> None:
    """Draw the rise of the power for a pod of 10 % of the node, by the utilization before it."""
    percent = np.linspace(0.0, 90.0, 181)
    one = np.ones(len(percent))
    for name, k1, k2 in (("saturating", -91.5, -0.0719), ("convex", 20.0, 0.02)):
        jumps = peaks.jump_watts(percent, percent + 10.0, k1 * one, k2 * one)
        axes.plot(percent, jumps, label=f"{name}: k1 {k1:g}, k2 {k2:g}")
    axes.set_xlabel("CPU utilization before the pod, %")


PLOTS = {
    "load-aware": ("score", draw_load_aware),
    "target-load-packing": ("score", draw_target_load_packing),
    "load-variation-risk-balancing": ("score", draw_load_variation_risk_balancing),
    "low-risk-over-commitment": ("score", draw_low_risk_over_commitment),
    "peaks": ("rise of power, W (the smallest scores 100)", draw_peaks),
}
"""Page -> label of the vertical axis and drawing function."""


def main() -> None:
    """Write one SVG file per page; the same input gives the same bytes."""
    mpl.rcParams["svg.hashsalt"] = "koord-suite"
    for page, (vertical, draw) in PLOTS.items():
        figure = Figure(figsize=(7.0, 3.6), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        axes.set_ylabel(vertical)
        axes.grid(visible=True, alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
        figure.savefig(PAGES / f"{page}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
