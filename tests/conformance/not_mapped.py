"""Functions of the cases that have no counterpart in the product, each with the reason."""

from __future__ import annotations

import fnmatch
from typing import Final

_NO_CGROUP_IS_WRITTEN = "no component writes a cgroup: limits of Mid pods are native limits, which the kubelet applies"

NOT_MAPPED: Final = (
    ("GPU devices", "no device is measured: only CPU and memory are predicted; GPUs would need NVML"),
    (
        "hostApplicationMetric entry",
        "no NodeSLO lists applications outside pods: they count as system usage",
    ),
    ("BE *", "BE groups are measured for Batch and its suppression, which this project does not publish"),
    ("batch safety margin", "Batch is not published: its keys are accepted, named in an Event, and unused"),
    (
        "MinResourceList (cpu in milli)",
        "no lists are intersected: a formula has both terms of a resource, or reports the missing one",
    ),
    (
        "* allocatable eviction*",
        "Mid is taken back down to what the newest report calculates, without thresholds; without a value nothing goes",
    ),
    ("* cgroup values*", _NO_CGROUP_IS_WRITTEN),
    ("batch hook applies", _NO_CGROUP_IS_WRITTEN),
    ("cpu.* -> cpu.*", _NO_CGROUP_IS_WRITTEN),
    ("milli cpu -> *", _NO_CGROUP_IS_WRITTEN),
    ("lowriskovercommitment.DensityFunction", "no plugin needs the density, only the distribution"),
    ("lowriskovercommitment.NewBetaDistribution", "distributions are arrays here; moments are matched, not printed"),
    ("lowriskovercommitment.Print", "diagnostic text; /debug/pods shows the terms of a decision"),
    ("config.encodeV1", "the effective configuration is served in the shape of the file, with absent keys left out"),
    ("LinearHistogramOptions", "both histograms have exponential buckets, as those of Koordinator's agent"),
    ("last of samples", "no component asks for the newest sample of a window: reports have means and percentiles"),
    ("*istogram.IsEmpty", "no component needs it: a percentile of an empty histogram is NaN"),
    ("*istogram.Merge", "no component merges histograms"),
    ("extended resource spec annotation", "no annotation is written: its reader knows Batch only"),
    ("pod validating webhook*", "no pod is refused for its QoS class: only Batch and exclusive CPUs need those rules"),
    ("priority value with default", "no component reads the default number of a priority class"),
    ("kep61.overCapacityRisk", "no plugin computes this probability"),
    ("kep61.parseWatcherPayload", "the load watcher writes the payload of KEP-61 and never reads it"),
    ("kep*.selectNode", "kube-scheduler selects the node with the highest score"),
    ("kep61.recommendedTarget", "advice for people: the documentation recommends 10 points below the wanted use"),
    ("trimaran.PodAssignEventHandler", "no list to clean: pods are in the cluster state until they are deleted"),
    ("signalfx.decodeMetricsPayload", "one host is answered from the snapshot of all hosts"),
    ("extender.scaledScore", "scores are 0..100, the in-tree weights are multiplied by 10 instead"),
)  # fmt: skip
"""(pattern of the function's name, reason)."""


def reason(function: str) -> str | None:
    """Return the reason for which a function is not mapped; None without one."""
    return next((why for pattern, why in NOT_MAPPED if fnmatch.fnmatchcase(function, pattern)), None)
