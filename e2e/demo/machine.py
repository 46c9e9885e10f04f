"""Measure how busy this machine is before the demo starts."""

from __future__ import annotations

import psutil

from e2e.demo.checks import BUSY_PERCENT, Amount

MEASURE_SECONDS = 3.0
BUSY_PATIENCE = 3.0


def busy_percent(seconds: float = MEASURE_SECONDS) -> float:
    """Return the share of all cores in use, in percent, measured over some seconds."""
    return float(psutil.cpu_percent(interval=seconds))


def used(allocatable: Amount, busy: float) -> Amount:
    """Return what the machine uses: CPU by the share of all cores in use, memory as the kernel counts it."""
    memory = psutil.virtual_memory()
    return Amount(round(allocatable.cpu_millis * busy / 100), memory.total - memory.available)


def patience(busy: float) -> float:
    """Return the factor on time limits for a machine that is busy to so many percent."""
    return BUSY_PATIENCE if busy >= BUSY_PERCENT else 1.0
