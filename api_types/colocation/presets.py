"""Values of the key `preset`: named sets of the keys that decide about risk, and what to expect of each.

A preset lies between the defaults and the cluster strategy: a key that is written in any layer wins over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from api_types.colocation.controller_config import ColocationStrategy, PredictPolicy, Preset


class Expectation(NamedTuple):
    """What a preset does to Mid, and on what risk."""

    mid: str
    risk: str


PRESETS: Final[Mapping[Preset, ColocationStrategy]] = {
    "conservative": ColocationStrategy(
        mid_cpu_threshold_percent=40,
        mid_memory_threshold_percent=30,
        mid_max_increase_percent=10,
        node_predict_policy=PredictPolicy(
            predictor="max", n=5.0, safety_margin_percent=10, cold_start_period_seconds=86400
        ),
    ),
    "balanced": ColocationStrategy(
        mid_cpu_threshold_percent=65,
        mid_memory_threshold_percent=50,
        mid_max_increase_percent=25,
        node_predict_policy=PredictPolicy(predictor="n-sigma-v2", n=4.0, cold_start_period_seconds=7200),
    ),
    "aggressive": ColocationStrategy(
        mid_cpu_threshold_percent=90,
        mid_memory_threshold_percent=80,
        mid_unallocated_percent=50,
        node_predict_policy=PredictPolicy(predictor="n-sigma-v2", n=3.0, cold_start_period_seconds=1800),
    ),
}

# Whatever the distribution of a usage, it exceeds mean + N * stdev for at most 1 / (1 + N^2) of the time (Cantelli's
# inequality): 3.8 % for N = 5, 5.9 % for N = 4, 10 % for N = 3.
EXPECTATIONS: Final[Mapping[Preset, Expectation]] = {
    "conservative": Expectation(
        "At most 40 % of a node's CPU and 30 % of its memory, rising by at most a tenth of the node with each report. "
        "A pod that has been watched for less than a day offers nothing.",
        "The larger of two predictions counts, raised by a tenth. Usage is above mean + 5 stdev for at most 3.8 % of "
        "the time, whatever its distribution. Mid pods are hardly ever short, and much that is idle stays unused.",
    ),
    "balanced": Expectation(
        "At most 65 % of a node's CPU and 50 % of its memory, rising by at most a quarter of the node with each "
        "report. A pod offers what it does not use two hours after it was first watched.",
        "Usage is above mean + 4 stdev for at most 5.9 % of the time. Bursts of several Prod pods at once may be felt "
        "by Mid pods.",
    ),
    "aggressive": Expectation(
        "At most 90 % of a node's CPU and 80 % of its memory, plus half of what no Prod pod requests, at once. A pod "
        "offers what it does not use after half an hour.",
        "Usage may be above mean + 3 stdev for up to 10 % of the time, and Prod pods that arrive find half of the free "
        "part promised. Mid pods feel every burst and memory may run short: for pods that may be killed and restarted.",
    ),
}
