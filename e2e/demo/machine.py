"""Measure how busy this machine is before the demo starts."""

from __future__ import annotations

import psutil

from e2e.demo import checks

MEASURE_SECONDS = 3.0
BUSY_PATIENCE = 3.0


def busy_percent(seconds: float = MEASURE_SECONDS) -> float:
    """Return the share of all cores in use, in percent, measured over some seconds."""
    return float(psutil.cpu_percent(interval=seconds))


def patience(busy: float) -> float:
    """Return the factor on time limits for a machine that is busy to so many percent."""
    return BUSY_PATIENCE if busy >= checks.BUSY_PERCENT else 1.0
