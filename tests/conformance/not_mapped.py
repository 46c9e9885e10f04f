"""Functions of the cases that have no counterpart in the product, each with the reason."""

from __future__ import annotations

import fnmatch
from typing import Final

NOT_MAPPED: Final = (
    ("GPU devices", "no device is measured: the design predicts CPU and memory; GPUs would need NVML (design 2)"),
    (
        "hostApplicationMetric entry",
        "no NodeSLO names applications outside pods (design 3.1): they run, count and are charged as system usage",
    ),
    ("BE *", "BE groups are measured for Batch and its suppression, which the design does not offer (design 1)"),
    ("batch safety margin", "Batch is not offered (design 1): its keys are accepted, named in an Event, unused (3.2)"),
    (
        "MinResourceList (cpu in milli)",
        "no lists are intersected: a formula has both terms of a resource, or says which is missing (design 4.4, 5)",
    ),
    *(
        (f"{package}.*", "issue 7: Trimaran's policies and load watcher")
        for package in (
            "config", "datadog", "extender", "kep357", "kep61", "loadvariationriskbalancing", "loadwatcher",
            "lowriskovercommitment", "metricsserver", "peaks", "prometheus", "scheduler", "signalfx",
            "targetloadpacking", "trimaran",
        )
    ),
)  # fmt: skip
"""(pattern of the function's name, reason)."""


def reason(function: str) -> str | None:
    """Why a function is not mapped; None when nobody has said."""
    return next((why for pattern, why in NOT_MAPPED if fnmatch.fnmatchcase(function, pattern)), None)
