"""Functions of the cases that have no counterpart in the product, each with the reason."""

from __future__ import annotations

import fnmatch
from typing import Final

NOT_MAPPED: Final = (
    ("NUMA *", "no NUMA metrics: nothing in the design places by NUMA node"),
    ("system NUMA collector", "no NUMA metrics: nothing in the design places by NUMA node"),
    ("numaUsages", "no NUMA metrics: nothing in the design places by NUMA node"),
    ("GPU devices", "no device metrics: CPU and memory only"),
    ("hostApplicationMetric entry", "no host applications: they need a NodeSLO, and count as system usage here"),
    ("BE *", "no Batch tier and no suppression of it: the design offers Mid (design 1)"),
    ("batch safety margin", "no Batch tier: the design offers Mid (design 1)"),
    ("MinResourceList (cpu in milli)", "no maps of resources to intersect: CPU and memory are always a pair here"),
    ("IsNodeColocationCfgValid", "upstream's helper has no caller; the document is checked as a whole instead"),
    ("node reservation from annotation", "design 4.4 has no reserved term but capacity - allocatable"),
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
