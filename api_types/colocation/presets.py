"""Define the values of the key `preset`: named sets of the keys that determine risk, and the effect of each.

A preset is a layer between the defaults and the cluster strategy: a key that any other layer sets wins over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from api_types.colocation.controller_config import ColocationStrategy, MidEviction, PredictPolicy, Preset


class Expectation(NamedTuple):
    """Effect of a preset on Mid, and its risk."""

    mid: str
    risk: str


PRESETS: Final[Mapping[Preset, ColocationStrategy]] = {
    "conservative": ColocationStrategy(
        mid_cpu_threshold_percent=40,
        mid_memory_threshold_percent=30,
        mid_max_increase_percent=10,
        node_predict_policy=PredictPolicy(predictor="n-sigma-v2", n=5.0, cold_start_period_seconds=7200),
    ),
    "balanced": ColocationStrategy(
        mid_cpu_threshold_percent=65,
        mid_memory_threshold_percent=50,
        mid_max_increase_percent=25,
        mid_eviction=MidEviction(mode="evict"),
        node_predict_policy=PredictPolicy(
            predictor="calibrated", violation_target_percent=1.0, cold_start_period_seconds=7200
        ),
    ),
    "aggressive": ColocationStrategy(
        mid_cpu_threshold_percent=90,
        mid_memory_threshold_percent=80,
        mid_eviction=MidEviction(mode="evict"),
        node_predict_policy=PredictPolicy(
            predictor="calibrated", violation_target_percent=2.0, cold_start_period_seconds=7200
        ),
    ),
}

# Whatever its distribution, a usage exceeds mean + N * stdev for at most 1 / (1 + N^2) of the time (Cantelli's
# inequality): 3.8 % for N = 5.
EXPECTATIONS: Final[Mapping[Preset, Expectation]] = {
    "conservative": Expectation(
        "At most 40 % of a node's CPU and 30 % of its memory, rising by at most a tenth of the node with each report.",
        "Usage is above mean + 5 stdev for at most 3.8 % of the time, whatever its distribution. Mid pods are rarely "
        "short, and much idle capacity stays unused.",
    ),
    "balanced": Expectation(
        "At most 65 % of a node's CPU and 50 % of its memory, rising by at most a quarter of the node with each "
        "report.",
        "From the third day on, the Prod pods exceed the predicted CPU peak in at most 1 % of the hours, on average "
        "over the nodes, and the memory peak in at most 0.5 %. Mid pods are evicted when Prod needs their resources; "
        "without the right to evict, the peak of n-sigma-v2 counts where it is larger.",
    ),
    "aggressive": Expectation(
        "At most 90 % of a node's CPU and 80 % of its memory, at once.",
        "From the third day on, the Prod pods exceed the predicted CPU peak in at most 2 % of the hours, on average "
        "over the nodes, and the memory peak in at most 1 %. Mid pods may be slowed down, evicted or killed: choose "
        "it only for work that can be repeated.",
    ),
}


def behind_gate(policy: PredictPolicy) -> PredictPolicy:
    """Return the policy that an agent gets where Mid is not taken back from running pods within the hour.

    A calibrated peak holds for one horizon; kept for a day it is too low in 5 to 30 % of the cases. So the agent gets
    the larger of `calibrated` and n-sigma-v2 in place of `calibrated`, unless the manager evicts Mid pods and may.
    """
    if policy.predictor == "calibrated":
        return policy.model_copy(update={"predictor": "max", "members": ["calibrated", "n-sigma-v2"]})
    if policy.predictor == "max" and is_gated(policy):
        return policy.model_copy(update={"members": [*(policy.members or ()), "n-sigma-v2"]})
    return policy


def is_gated(policy: PredictPolicy) -> bool:
    """Return whether an agent gets a larger peak than this policy wants."""
    if policy.predictor == "max":
        members = policy.members or ()
        return "calibrated" in members and "n-sigma-v2" not in members
    return policy.predictor == "calibrated"
