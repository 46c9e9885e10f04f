"""Define the values of the key `preset`: named sets of the keys that determine risk, and the effect of each.

A preset is a layer between the defaults and the cluster strategy: a key that any other layer sets wins over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from api_types.colocation.controller_config import ColocationStrategy, PredictPolicy, Preset


class Expectation(NamedTuple):
    """Effect of a preset on Mid, and its risk."""

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

# Whatever its distribution, a usage exceeds mean + N * stdev for at most 1 / (1 + N^2) of the time (Cantelli's
# inequality): 3.8 % for N = 5, 5.9 % for N = 4, 10 % for N = 3.
EXPECTATIONS: Final[Mapping[Preset, Expectation]] = {
    "conservative": Expectation(
        "At most 40 % of a node's CPU and 30 % of its memory, rising by at most a tenth of the node with each report. "
        "A pod with less than a day of recorded history adds nothing.",
        "The larger of two predictions counts, raised by a tenth. Usage is above mean + 5 stdev for at most 3.8 % of "
        "the time, whatever its distribution. Mid pods are rarely short, and much idle capacity stays unused.",
    ),
    "balanced": Expectation(
        "At most 65 % of a node's CPU and 50 % of its memory, rising by at most a quarter of the node with each "
        "report. A pod adds its unused requests after two hours of recorded history.",
        "Usage is above mean + 4 stdev for at most 5.9 % of the time. Simultaneous bursts of several Prod pods "
        "may slow Mid pods down.",
    ),
    "aggressive": Expectation(
        "At most 90 % of a node's CPU and 80 % of its memory, plus half of what no Prod pod requests, at once. A pod "
        "adds its unused requests after half an hour of recorded history.",
        "Usage may be above mean + 3 stdev for up to 10 % of the time, and half of the free part is already published "
        "when Prod pods arrive. Every burst slows Mid pods down, memory may run short: for pods that may be killed.",
    ),
}
