"""The largest answer of the predictors it is given: max(N-sigma, RC-like) of the EuroSys 2021 paper by default."""

from __future__ import annotations

from collections.abc import Mapping

from koordlet.prediction.peaks import Cause, NoPrediction, Peak


def largest(answers: Mapping[str, Peak | NoPrediction]) -> Peak | NoPrediction:
    """Member with the largest peak, with its terms; none if a member cannot answer, for it might be the largest.

    `answers` is keyed by the member's name.
    """
    found: list[Peak] = []
    for name, answer in answers.items():
        if isinstance(answer, NoPrediction):
            return NoPrediction(f"{name}: {answer.reason}", answer.cause)
        found.append(answer)
    if not found:
        return NoPrediction("max has no members", Cause.UNUSABLE_POLICY)
    return max(found, key=lambda answer: answer.peak)
