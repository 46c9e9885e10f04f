"""Predictor `percentile`, that of Koordinator's agent: p95 of CPU, p98 of memory, with a margin of 10 %.

    podSumPeak = sum over warm Prod pods trunc( trunc(pct(p)) (1 + m) )
    classPeak  = trunc( (trunc(pct(prod)) + trunc(pct(system))) (1 + m) )
    Peak       = max( podSumPeak + C, classPeak )

Unlike the other predictors it counts all system usage, not only usage beyond the node's reservation, and truncates to
whole millicores and bytes where Koordinator's agent does. Its results are not the same integers: Koordinator's first
buckets are larger, and it adds a class to which no pod belongs, whose empty histogram is 27 millicores and 5.5 MiB.

Koordinator's agent charges a pod its request for its first 24 h, and the percentile of a short history is low: with a
cold-start period of 2 h it is too low in 10 % of predictions on pods that live 4 days, with 24 h in 0.7 %
(docs/benchmarks/prediction-accuracy.md). The policy sets the period, so set 24 h together with this predictor.

Predictor `resource-central`: sum of a high percentile of each pod (Cortez et al., SOSP 2017).

    Peak = (sum over warm Prod pods pct(p) + pct(S)) (1 + m) + C        pct = the 99th percentile by default

Its window is the half-life: older samples count less instead of being removed.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from koordlet.prediction import peaks
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, Peak, ProdLoad
from koordlet.prediction.usage_models import SeriesStatistics
from koordlet.samples import Resource

# Koordinator's agent counts in millicores and in bytes.
_STEPS_PER_UNIT: Final = {Resource.CPU: 1000, Resource.MEMORY: 1}


def peak(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    """Return the larger of the sum of the pods' percentiles and the percentile of class and system."""
    if load.prod is None:
        return peaks.no_sample(load.resource, "prod")
    if load.system is None:
        return peaks.no_sample(load.resource, "system")
    steps = _STEPS_PER_UNIT[load.resource]
    percent = parameters.cpu_percentile if load.resource is Resource.CPU else parameters.memory_percentile
    margin = parameters.margin_factor

    def whole_steps(series: SeriesStatistics) -> FloatArray:
        return np.trunc(series.percentile(percent) * steps)

    system = np.sum(whole_steps(load.system))
    pod_sum_peak = float(np.sum(np.trunc(whole_steps(load.warm_pods) * margin))) / steps
    class_peak = float(np.trunc((np.sum(whole_steps(load.prod)) + system) * margin)) / steps
    return Peak(
        max(pod_sum_peak + load.cold_requests, class_peak + load.added),
        load.cold_requests,
        class_peak=class_peak,
        pod_sum_peak=pod_sum_peak,
        system_peak=float(np.trunc(system * margin)) / steps,
    )


def resource_central(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    """Return the sum of the pods' percentiles, as if all peaked at once."""
    if load.unreserved_system is None:
        return peaks.no_sample(load.resource, "unreserved system")
    margin = parameters.margin_factor
    pod_sum_peak = float(np.sum(load.warm_pods.percentile(parameters.percentile))) * margin
    system_peak = float(np.sum(load.unreserved_system.percentile(parameters.percentile))) * margin
    return Peak(
        pod_sum_peak + system_peak + load.cold_requests,
        load.cold_requests,
        pod_sum_peak=pod_sum_peak,
        system_peak=system_peak,
    )
