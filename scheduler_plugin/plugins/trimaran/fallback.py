"""Fallback levels: the data that a plugin uses for a resource of a node without a fresh measurement (KEP-61).

CPU and memory have their own levels. The first level whose condition holds counts. 5 minutes is the default of the
setting measurement_age_seconds.

| level       | condition                                                                 | the plugin uses         |
|-------------|---------------------------------------------------------------------------|-------------------------|
| MEASURED    | a window that ended within 5 minutes has the resource of the node         | it, and the pods since  |
| BY_REQUESTS | no node has such a window: every provider fails                           | requests, as best fit   |
| PREDICTED   | every pod of the node is younger than 5 minutes: a new or an emptied node | predicted usage of pods |
| UNKNOWN     | older pods run there without a measurement, or its values were dropped    | no data: lowest score   |

A plugin that needs both resources scores a node lowest if either is UNKNOWN, by best fit if both are BY_REQUESTS, and
otherwise uses requests in place of the resource that is not measured.

Formula `upstream` has no fallback levels: a node without measurements scores 0, and measurements have no age limit.
"""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt

from scheduler_plugin.state.node_columns import Bools, Floats


class FallbackLevel(enum.IntEnum):
    """Data that a plugin uses for a node."""

    MEASURED = 0
    BY_REQUESTS = 1
    PREDICTED = 2
    UNKNOWN = 3


FallbackLevels = npt.NDArray[np.int8]


def fallback_levels(
    window_end: Floats,
    is_rejected: Bools,
    oldest_pod_at: Floats,
    newest_ends: tuple[float, ...],
    *,
    now: float,
    oldest_seconds: float,
) -> FallbackLevels:
    """Return the FallbackLevel of each resource of each node, shape (resources, nodes).

    `window_end`: end of its measurement, -inf without one; `is_rejected`: its values were dropped; `oldest_pod_at`:
    when the oldest pod of the node was placed, inf without pods; `newest_ends`: newest end of any node's measurement
    of each resource. All times are in seconds since the epoch.
    `oldest_seconds`: measurements older than this are ignored, and pods younger than this count as new.
    """
    is_measured = now - window_end <= oldest_seconds
    is_delivered = now - np.array(newest_ends)[:, np.newaxis] <= oldest_seconds
    is_new = (now - oldest_pod_at <= oldest_seconds) & ~is_rejected
    unmeasured = np.where(is_new, FallbackLevel.PREDICTED, FallbackLevel.UNKNOWN)
    delivered = np.where(is_measured, FallbackLevel.MEASURED, unmeasured)
    # Of the first data after an outage, the rows are not compared with each other before all of them are written.
    levels: FallbackLevels = np.where(is_delivered, delivered, FallbackLevel.BY_REQUESTS).astype(np.int8)
    return levels


def best_fit(requested: Floats, allocatable: Floats) -> Floats:
    """Return the percentage that requests take of each node's fullest resource, shape (resources, nodes) -> (nodes,).

    The fullest node with enough room is best; a node that would be overcommitted scores 0.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        share = np.where(allocatable > 0.0, requested / allocatable, np.inf).max(axis=0)
    return np.where(share <= 1.0, np.floor(share * 100.0), 0.0)


def combine_resources(levels: FallbackLevels, scores: Floats, without_providers: Floats) -> Floats:
    """Return the score of each node for a plugin that needs both resources, shape (nodes,).

    `scores`: with requests in place of a resource that is not measured; `without_providers`: if no node is measured.
    """
    is_unknown = (levels == FallbackLevel.UNKNOWN).any(axis=0)
    has_no_provider = (levels == FallbackLevel.BY_REQUESTS).all(axis=0)
    return np.select([is_unknown, has_no_provider], [np.zeros(scores.shape), without_providers], default=scores)
