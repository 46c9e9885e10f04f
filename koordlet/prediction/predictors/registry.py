"""The one list of predictors, by their names in the configuration, and those that are a line of others.

A new predictor is a module in this package, a line in `PREDICTORS`, and its name in
`controller_config.SinglePredictor`.

`max` is the largest peak of its members, by default max(N-sigma, RC-like) of the EuroSys 2021 paper.

`calibrated` adds the margin by which earlier forecasts of this node were too low:

    CPU:    P = C + lambda B
    memory: P = max( C + B + lambda (L - C),  C + usage of the warm series + J )
    Peak    = max( usage now, min( C + (P - C) (1 + m), L ) )

`koordlet.prediction.calibration` has the terms. Until 24 forecasts have ended the peak is that of n-sigma-v2, until 48
the larger of both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Final, Protocol

from koordlet.prediction.calibration.resource_calibration import Level
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Cause, NoPrediction, Peak, ProdLoad
from koordlet.prediction.predictors import n_sigma, percentile


class Predictor(Protocol):
    """Peak of one resource from the usage of Prod. Pure; returns `NoPrediction` where it lacks data, never 0."""

    def __call__(self, load: ProdLoad, parameters: PredictParameters, /) -> Peak | NoPrediction:
        """Predict the peak."""


def _largest_member(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    """Return the largest peak, with its terms, or NoPrediction if any member has none: it could be the largest."""
    if "max" in parameters.members:
        return NoPrediction("max cannot be a member of itself", Cause.UNUSABLE_POLICY)
    unlimited = dataclasses.replace(load, capacity=math.inf)  # of two limited peaks the larger is unknown
    members: list[Peak] = []
    for name in parameters.members:
        predicted = predict(unlimited, parameters.for_predictor(name))
        if isinstance(predicted, NoPrediction):
            return NoPrediction(f"{name}: {predicted.reason}", predicted.cause)
        members.append(predicted)
    if not members:
        return NoPrediction("max has no members", Cause.UNUSABLE_POLICY)
    level = next((member.level for member in members if member.level is not None), None)
    return dataclasses.replace(max(members, key=lambda predicted: predicted.peak), level=level)


def _calibrated(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    substitute = n_sigma.v2(load, parameters)
    if isinstance(substitute, NoPrediction):
        return substitute
    calibrated = load.calibrated()
    if calibrated is None:
        return Peak(substitute.peak, load.cold_requests, level=Level.N_SIGMA)
    highest = calibrated.peak(substitute.peak, parameters.violation_target_percent, parameters.margin_factor)
    return Peak(highest, load.cold_requests, level=calibrated.level)


PREDICTORS: Final[Mapping[str, Predictor]] = {
    "n-sigma-v1": n_sigma.v1,
    "n-sigma-v2": n_sigma.v2,
    "borg-default": n_sigma.borg_default,
    "resource-central": percentile.resource_central,
    "percentile": percentile.peak,
    "calibrated": _calibrated,
    "max": _largest_member,
}


def predict(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    """Return the peak of the predictor in `parameters`, at most the node's capacity.

    A peak that is not finite or negative is NoPrediction.
    """
    predictor = PREDICTORS.get(parameters.predictor)
    if predictor is None:
        reason = f"predictor {parameters.predictor!r} is unknown, want one of {', '.join(PREDICTORS)}"
        return NoPrediction(reason, Cause.UNUSABLE_POLICY)
    predicted = predictor(load, parameters)
    if isinstance(predicted, Peak) and not 0 <= predicted.peak < math.inf:
        return NoPrediction(
            f"{parameters.predictor} returned {predicted.peak} for {load.resource}", Cause.UNUSABLE_ANSWER
        )
    if isinstance(predicted, Peak) and predicted.peak > load.capacity:
        return dataclasses.replace(predicted, peak=load.capacity)
    return predicted
