"""Predictor `max`: the largest peak of its members, by default max(N-sigma, RC-like) of the EuroSys 2021 paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from koordlet.prediction.peaks import Cause, NoPrediction, Peak


def largest(peaks: Mapping[str, Peak | NoPrediction]) -> Peak | NoPrediction:
    """Return the largest peak, with its terms, or NoPrediction if any member has none: it could be the largest.

    `peaks` is keyed by the member's name.
    """
    members: list[Peak] = []
    for name, predicted in peaks.items():
        if isinstance(predicted, NoPrediction):
            return NoPrediction(f"{name}: {predicted.reason}", predicted.cause)
        members.append(predicted)
    if not members:
        return NoPrediction("max has no members", Cause.UNUSABLE_POLICY)
    level = next((member.level for member in members if member.level is not None), None)
    return dataclasses.replace(max(members, key=lambda predicted: predicted.peak), level=level)
