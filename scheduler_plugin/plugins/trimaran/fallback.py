"""Fallback levels: the data that a plugin uses for a node without a fresh measurement (KEP-61).

The first level whose condition holds counts. 5 minutes is the default of the setting measurement_age_seconds.

| level       | condition                                                                 | the plugin uses         |
|-------------|---------------------------------------------------------------------------|-------------------------|
| MEASURED    | a window that ended within 5 minutes has the node                         | it, and the pods since  |
| BY_REQUESTS | no node has such a window: every provider fails                           | requests, as best fit   |
| PREDICTED   | every pod of the node is younger than 5 minutes: a new or an emptied node | predicted usage of pods |
| UNKNOWN     | older pods run there without a measurement: the node's agent failed       | no data: lowest score   |

Formula `upstream` has no fallback levels: a node without measurements scores 0, and measurements have no age limit.
"""

from __future__ import annotations

import enum
import math

import numpy as np
import numpy.typing as npt

from scheduler_plugin.state.node_columns import Floats


class FallbackLevel(enum.IntEnum):
    """Data that a plugin uses for a node."""

    MEASURED = 0
    BY_REQUESTS = 1
    PREDICTED = 2
    UNKNOWN = 3


FallbackLevels = npt.NDArray[np.int8]


def fallback_levels(
    window_end: Floats, oldest_pod_at: Floats, newest_end: float, now: float, oldest_seconds: float
) -> FallbackLevels:
    """Return the FallbackLevel of each node.

    `window_end`: end of its measurement, -inf without one; `oldest_pod_at`: when its oldest pod was placed, inf without
    pods; `newest_end`: newest end of any node's measurement. All are in seconds since the epoch.
    `oldest_seconds`: measurements older than this are ignored, and pods younger than this count as new.
    """
    is_measured = now - window_end <= oldest_seconds
    if math.isfinite(newest_end) and now - newest_end <= oldest_seconds:
        is_new = now - oldest_pod_at <= oldest_seconds
        otherwise = np.where(is_new, FallbackLevel.PREDICTED, FallbackLevel.UNKNOWN)
    else:
        otherwise = np.full(len(window_end), FallbackLevel.BY_REQUESTS)
    found: FallbackLevels = np.where(is_measured, FallbackLevel.MEASURED, otherwise).astype(np.int8)
    return found


def best_fit(requested: Floats, allocatable: Floats) -> Floats:
    """Return the percentage that requests take of each node's fullest resource, shape (resources, nodes) -> (nodes,).

    The fullest node with enough room is best; a node that would be overcommitted scores 0.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        share = np.where(allocatable > 0.0, requested / allocatable, np.inf).max(axis=0)
    return np.where(share <= 1.0, np.floor(share * 100.0), 0.0)
