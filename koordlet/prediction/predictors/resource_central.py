"""Predictor `resource-central`: sum of a high percentile of each pod (Cortez et al., SOSP 2017).

    Peak = (sum over warm Prod pods pct(p) + pct(S)) (1 + m) + C        pct = the 99th percentile by default

Its window is the half-life: older samples count less instead of being removed.
"""

from __future__ import annotations

import numpy as np

from koordlet.prediction import peaks
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, Peak, ProdLoad


def peak(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
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
