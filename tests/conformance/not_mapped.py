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
    ("node conflict", "the manager reports the two entries that match a node, from `matching`; no boolean is needed"),
    ("priority value with default", "decisions depend on the priority class; no component needs its default number"),
    ("lowriskovercommitment.NewBetaDistribution", "distributions are arrays here; moments are matched, not printed"),
    ("lowriskovercommitment.Print", "diagnostic text; /debug/pods shows what a decision was made of"),
    ("config.encodeV1", "the effective configuration is served in the shape of the file, with absent keys left out"),
    ("kep*.selectNode", "kube-scheduler selects the node with the highest score"),
    ("kep61.recommendedTarget", "advice for people: docs/policies says to set the target 10 points below the wish"),
    ("trimaran.PodAssignEventHandler", "no list to clean: pods stand in the cluster state until they go (B9)"),
    ("signalfx.decodeMetricsPayload", "one host is answered from the snapshot of all, nobody asks SignalFx for one"),
    ("datadog.health", "the case is about a request to the internet; health is tested over a socket of our own"),
    ("extender.scaledScore", "design 4.7: scores are 0..100, the in-tree weights are multiplied by 10 instead"),
)  # fmt: skip
"""(pattern of the function's name, reason)."""


def reason(function: str) -> str | None:
    """Why a function is not mapped; None when nobody has said."""
    return next((why for pattern, why in NOT_MAPPED if fnmatch.fnmatchcase(function, pattern)), None)
