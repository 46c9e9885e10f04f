"""What a policy goes by on a node that may not be measured: the first rung that holds (KEP-61; G4, G5, G6, G19).

| rung        | holds where (minutes are a setting: measurement_age_seconds)              | the policy goes by      |
|-------------|---------------------------------------------------------------------------|-------------------------|
| MEASURED    | a window that ended within 5 minutes knows the node                       | it, and pods since then |
| BY_REQUESTS | no node at all has such a window: every provider is gone                  | requests, as best fit   |
| PREDICTED   | every pod of the node is younger than 5 minutes: a new or an emptied node | what pods will use      |
| UNKNOWN     | pods run there that nobody measures: the node's agent failed              | nothing: lowest score   |

Formula `upstream` knows no ladder: a node without measurements scores 0, old measurements are used without limit.
"""

from __future__ import annotations

import enum
import math

import numpy as np
import numpy.typing as npt

from scheduler_plugin.state.node_columns import Floats


class FallbackLevel(enum.IntEnum):
    """What a node is judged by."""

    MEASURED = 0
    BY_REQUESTS = 1
    PREDICTED = 2
    UNKNOWN = 3


Rungs = npt.NDArray[np.int8]


def rungs(window_end: Floats, oldest_pod_at: Floats, newest_end: float, now: float, oldest_seconds: float) -> Rungs:
    """FallbackLevel of each node.

    `window_end`: of its reading, -inf without one; `oldest_pod_at`: when its oldest pod was placed, inf without any;
    `newest_end`: of any node's reading. All in seconds since the epoch.
    `oldest_seconds` is the age up to which a window says what is now, and a pod is one that was just placed.
    """
    is_measured = now - window_end <= oldest_seconds
    if math.isfinite(newest_end) and now - newest_end <= oldest_seconds:
        is_new = now - oldest_pod_at <= oldest_seconds
        otherwise = np.where(is_new, FallbackLevel.PREDICTED, FallbackLevel.UNKNOWN)
    else:
        otherwise = np.full(len(window_end), FallbackLevel.BY_REQUESTS)
    found: Rungs = np.where(is_measured, FallbackLevel.MEASURED, otherwise).astype(np.int8)
    return found


def best_fit(requested: Floats, allocatable: Floats) -> Floats:
    """0..100: how full requests make the fullest resource of each node, shape (resources, nodes) -> (nodes,).

    The fullest node that still has room is best; one that would be overcommitted is worst.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        share = np.where(allocatable > 0.0, requested / allocatable, np.inf).max(axis=0)
    return np.where(share <= 1.0, np.floor(share * 100.0), 0.0)
