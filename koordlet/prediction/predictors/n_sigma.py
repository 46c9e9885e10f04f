"""Predictors `n-sigma-v1` and `n-sigma-v2`: mean plus N standard deviations (Bashir et al., EuroSys 2021).

`borg-default` is that of the same paper without usage of the pods: a fixed share of the requests, as Borg did.

    sig(x)  = mean(x) + N * stdev(x)
    v1 Peak = sig(prod + S) (1 + m) + C
    v2 Peak = max( sig(settled) (1 + m) + added,  (sum over warm pods min(sig(p), limit(p)) + sig(S)) (1 + m) + C )
    borg-default Peak = (sum of warm Prod requests / a + sig(S)) (1 + m) + C

v1 uses the class as a whole: pods that peak at different times make room for one another. But pods that came or went
since remain in its history, and the usage of cold pods counts beside their requests, on the safe side. v2 computes the
sum over the present pods, and takes the class where that is larger: what Prod + S would use if the cold pods were as
busy as the warm ones (settled), so that a cold pod counts once, and its start not for days. limit(p) is the CPU limit
of a pod; a pod that uses more than its limit, on average and now, is not held to it by the kernel (the kubelet's
`cpuCFSQuota: false`), and has none here. One that did so on average alone has a limit that was lowered in place, and
counts from now on.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from koordlet.prediction import peaks
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, Peak, ProdLoad
from koordlet.prediction.usage_models import SeriesStatistics

_EXCEEDED: Final = 1.1
"""Usage of a pod as a multiple of its limit that shows that nothing enforces it: a throttled pod reaches 1."""


def sig(series: SeriesStatistics, n: float) -> float:
    """Return the sum over the series of mean + N * stdev; 0 for no series."""
    return float(np.sum(series.mean() + n * series.stdev()))


def limited_sigs(load: ProdLoad, n: float) -> FloatArray:
    """Return mean + N * stdev of each warm pod, each at most its limit where usage does not exceed it."""
    mean, limits = load.warm_pods.mean(), load.warm_limits
    peaks_of_each = mean + n * load.warm_pods.stdev()
    is_exceeded = (mean > limits) & ~(load.warm_usage <= _EXCEEDED * np.asarray(limits))
    return np.where(is_exceeded, peaks_of_each, np.minimum(peaks_of_each, limits))


def v1(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    """Return the peak of the class as a whole."""
    if load.prod_and_unreserved_system is None:
        return peaks.no_sample(load.resource, "prod + unreserved system")
    class_peak = sig(load.prod_and_unreserved_system, parameters.n) * parameters.margin_factor
    beside = load.cold_requests
    if load.borrowed:  # they are new to the class
        beside += float(np.sum(limited_sigs(load, parameters.n)[-load.borrowed :]))
    return Peak(class_peak + beside, beside, class_peak=class_peak)


def v2(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    """Return the larger of the peak of the class as a whole and that of the sum over its pods."""
    if load.prod_and_unreserved_system is None:
        return peaks.no_sample(load.resource, "prod + unreserved system")
    if load.unreserved_system is None:
        return peaks.no_sample(load.resource, "unreserved system")
    margin = parameters.margin_factor
    class_peak = sig(load.settled or load.prod_and_unreserved_system, parameters.n) * margin
    pod_sum_peak = float(np.sum(limited_sigs(load, parameters.n))) * margin
    system_peak = sig(load.unreserved_system, parameters.n) * margin
    return Peak(
        max(class_peak + load.added, pod_sum_peak + system_peak + load.cold_requests),
        load.cold_requests,
        class_peak=class_peak,
        pod_sum_peak=pod_sum_peak,
        system_peak=system_peak,
    )


def borg_default(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    """Return the peak from the requests of the pods divided by a, independent of their usage."""
    if load.unreserved_system is None:
        return peaks.no_sample(load.resource, "unreserved system")
    pod_sum_peak = load.warm_requests / parameters.request_divisor * parameters.margin_factor
    system_peak = sig(load.unreserved_system, parameters.n) * parameters.margin_factor
    cold_requests = load.cold_requests - load.added  # a part of the requests
    return Peak(
        pod_sum_peak + system_peak + cold_requests, cold_requests, pod_sum_peak=pod_sum_peak, system_peak=system_peak
    )


def everything(
    node: SeriesStatistics, pods: SeriesStatistics, system: SeriesStatistics, n: float, capacity: float = math.inf
) -> float:
    """Return the peak of the whole node: max( sig(node), sum over all pods sig(p) + sig(system) ), at most capacity."""
    return min(max(sig(node, n), sig(pods, n) + sig(system, n)), capacity)
