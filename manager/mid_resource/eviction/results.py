"""What an attempt that evicts nothing means: the answer of the Eviction API, and the pause that follows."""

from __future__ import annotations

import datetime as dt
from typing import Final

from apiserver_client import errors
from manager.metrics.eviction import Result
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.eviction.turns import NodeTurn

NOTHING_TO_DO: Final = dt.timedelta(seconds=30)
"""Pause of a node of which no pod can go, or whose pods cannot be read."""
NEXT_POD: Final = dt.timedelta(seconds=10)
"""Pause of a node after a refusal. The pod that was refused waits longer, so another one is next."""
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


def short_pause(turn: NodeTurn) -> dt.timedelta:
    """Return the pause after an attempt that evicts nothing and is not refused."""
    if Trigger.LEAVING in turn.triggers and turn.mid_pods:
        return NEXT_POD
    return min(NOTHING_TO_DO, turn.policy.node_interval)


def time_for_others(turn: NodeTurn) -> dt.timedelta:
    """Return how long a refused pod waits at least, so that every other pod of the node has its turn before it.

    A node that leaves has no such time, and its turns are shorter.
    """
    return dt.timedelta() if Trigger.LEAVING in turn.triggers else 2 * NEXT_POD * turn.mid_pods
