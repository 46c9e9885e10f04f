"""What an answer of the Eviction API means."""

from __future__ import annotations

from typing import Final

from apiserver_client import errors
from manager.metrics.eviction import Result

_DISRUPTION_BUDGET: Final = "DisruptionBudget"


def result_of(error: errors.ApiServerError) -> Result:
    """Return what an error of the Eviction API means."""
    match error:
        case errors.NotFound() | errors.Conflict():
            return Result.GONE
        case errors.Forbidden():
            return Result.FORBIDDEN
        case errors.Throttled() if any(cause.reason == _DISRUPTION_BUDGET for cause in error.causes):
            return Result.REFUSED
        case errors.Throttled():
            return Result.FAILED
        case errors.StatusError(status=500 | 400 | 422):
            return Result.REFUSED  # 500: more than one budget for the pod
    return Result.FAILED
