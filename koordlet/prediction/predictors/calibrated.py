"""Predictor `calibrated`: adds the margin by which earlier forecasts of this node were too low.

    CPU:    P = C + lambda B
    memory: P = max( C + B + lambda (L - C),  C + usage of the warm series + J )
    Peak    = max( usage now, min( C + (P - C) (1 + m), L ) )

`koordlet.prediction.calibration` has the terms. Until 24 forecasts have ended the peak is that of n-sigma-v2, until 48
the larger of both.
"""

from __future__ import annotations

from koordlet.prediction.calibration.resource_calibration import Level
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, Peak, ProdLoad


def peak(load: ProdLoad, parameters: PredictParameters, n_sigma: Peak | NoPrediction) -> Peak | NoPrediction:
    """Return the peak; `n_sigma` is the answer of n-sigma-v2 for the same load, which must not be limited."""
    if isinstance(n_sigma, NoPrediction):
        return n_sigma
    calibrated = load.calibrated()
    if calibrated is None:
        return Peak(n_sigma.peak, load.cold_requests, level=Level.N_SIGMA)
    highest = calibrated.peak(n_sigma.peak, parameters.violation_target_percent, parameters.margin_factor)
    return Peak(highest, load.cold_requests, level=calibrated.level)
