"""What upstream's agent ships: p95 of CPU, p98 of memory, with a margin of 10 % (koordinator-core 1.10 and 1.11).

    podSumPeak = sum over warm Prod pods trunc( trunc(pct(p)) (1 + m) )
    classPeak  = trunc( (trunc(pct(prod)) + trunc(pct(system))) (1 + m) )
    Peak       = max( podSumPeak + C, classPeak )

Unlike the other predictors it counts all system usage, not only what the node does not reserve, and truncates to whole
millicores and bytes where upstream does, so that the same histograms give the same integers.

Upstream charges a pod its request for its first 24 h, and the percentile of a short history is low: with a cold-start
period of 2 h it is short in 10 % of forecasts on pods that live 4 days, with 24 h in 0.7 % (docs/reference,
prediction-accuracy). The period is the policy's, so whoever chooses this predictor sets it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from koordlet.prediction import peaks
from koordlet.prediction.buckets import FloatArray
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, Peak, ProdLoad, UsageStatistics
from koordlet.samples import Resource

# Upstream counts in millicores and in bytes.
_STEPS_PER_UNIT: Final = {Resource.CPU: 1000, Resource.MEMORY: 1}


def peak(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    """Percentiles of the pods added up, or of the class and the system, the larger."""
    if load.prod is None:
        return peaks.not_yet(load.resource, "prod")
    if load.system is None:
        return peaks.not_yet(load.resource, "system")
    steps = _STEPS_PER_UNIT[load.resource]
    percent = parameters.cpu_percentile if load.resource is Resource.CPU else parameters.memory_percentile
    margin = parameters.margin_factor

    def whole_steps(series: UsageStatistics) -> FloatArray:
        return np.trunc(series.percentile(percent) * steps)

    system = np.sum(whole_steps(load.system))
    pod_sum_peak = float(np.sum(np.trunc(whole_steps(load.warm_pods) * margin))) / steps
    class_peak = float(np.trunc((np.sum(whole_steps(load.prod)) + system) * margin)) / steps
    return Peak(
        max(pod_sum_peak + load.cold_requests, class_peak),
        load.cold_requests,
        class_peak=class_peak,
        pod_sum_peak=pod_sum_peak,
        system_peak=float(np.trunc(system * margin)) / steps,
    )
