"""Predictor `borg-default`: a fixed share of the requests, as Borg did by default (Bashir et al., EuroSys 2021).

Peak = (sum of warm Prod requests / a + sig(S)) (1 + m) + C

sig(S) = mean(S) + N * stdev(S)
"""

from __future__ import annotations

import numpy as np

from koordlet.prediction import peaks
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, Peak, ProdLoad


def peak(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    """Return the peak from the requests of the pods divided by a, independent of their usage."""
    system = load.unreserved_system
    if system is None:
        return peaks.no_sample(load.resource, "unreserved system")
    pod_sum_peak = load.warm_requests / parameters.request_divisor * parameters.margin_factor
    system_peak = float(np.sum(system.mean() + parameters.n * system.stdev())) * parameters.margin_factor
    return Peak(
        pod_sum_peak + system_peak + load.cold_requests,
        load.cold_requests,
        pod_sum_peak=pod_sum_peak,
        system_peak=system_peak,
    )
