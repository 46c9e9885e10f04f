"""Predictor `max`: the largest peak of its members, by default max(N-sigma, RC-like) of the EuroSys 2021 paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from koordlet.prediction.peaks import Cause, NoPrediction, Peak


def largest(peaks: Mapping[str, Peak | NoPrediction]) -> Peak | NoPrediction:
    """Return the largest peak, with its terms, or NoPrediction if any member has none: it could be the largest.

    `peaks` is keyed by the member's name.
    """
    found: list[Peak] = []
    for name, predicted in peaks.items():
        if isinstance(predicted, NoPrediction):
            return NoPrediction(f"{name}: {predicted.reason}", predicted.cause)
        found.append(predicted)
    if not found:
        return NoPrediction("max has no members", Cause.UNUSABLE_POLICY)
    level = next((each.level for each in found if each.level is not None), None)
    return dataclasses.replace(max(found, key=lambda predicted: predicted.peak), level=level)
