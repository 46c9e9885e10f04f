"""The one list of predictors, by their names in the configuration.

A new predictor is a module in this package, a line in `PREDICTORS`, and its name in
`controller_config.SinglePredictor`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Final, Protocol

from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Cause, NoPrediction, Peak, ProdLoad
from koordlet.prediction.predictors import borg_default, calibrated, maximum, n_sigma, percentile, resource_central


class Predictor(Protocol):
    """Peak of one resource from the usage of Prod. Pure; returns `NoPrediction` where it lacks data, never 0."""

    def __call__(self, load: ProdLoad, parameters: PredictParameters, /) -> Peak | NoPrediction:
        """Predict the peak."""


def _largest_member(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    if "max" in parameters.members:
        return NoPrediction("max cannot be a member of itself", Cause.UNUSABLE_POLICY)
    unlimited = dataclasses.replace(load, capacity=math.inf)  # of two limited peaks the larger is unknown
    return maximum.largest({name: predict(unlimited, parameters.for_predictor(name)) for name in parameters.members})


def _calibrated(load: ProdLoad, parameters: PredictParameters) -> Peak | NoPrediction:
    return calibrated.peak(load, parameters, n_sigma.v2(load, parameters))


PREDICTORS: Final[Mapping[str, Predictor]] = {
    "n-sigma-v1": n_sigma.v1,
    "n-sigma-v2": n_sigma.v2,
    "borg-default": borg_default.peak,
    "resource-central": resource_central.peak,
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
