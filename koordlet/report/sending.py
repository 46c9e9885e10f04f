"""Sending of reports: one every interval, early ones when the prediction moved, as a PUT. Monotonic seconds.

The PUT goes over the known version, and over a newer one after a conflict. A merge patch costs the API server twice as
much and does not remove fields. A report that could not be sent is dropped: the next one is newer.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from api_types import names
from api_types.node_metric import types as node_metric
from apiserver_client import errors, objects, resources, session
from apiserver_client.decoding import Envelope

_ATTEMPTS: Final = 3
LEAST_SECONDS_BETWEEN_WRITES: Final = 5.0
_FLOOR_OF_CHANGE: Final = 0.01
"""Smallest base of a relative change, as a share of allocatable: a change from 2 m to 4 m is noise."""

_JITTER: Final = 0.1
"""After a start or a failure, the next report is moved up by up to this share of the interval, so that the agents of a
cluster do not write in step. Later reports keep the interval, so that a quiet node writes no more often than
configured."""

Units = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Published:
    """Values of the last published report, to which an early report is compared."""

    peak: Units | None
    reclaimable: Units | None


def moved(new: Units | None, old: Units | None, allocatable: Units, threshold_percent: float) -> bool:
    """Return whether any resource moved by more than the threshold. Values that appear or vanish have moved."""
    if new is None or old is None:
        return new is not old
    return any(
        abs(value - old.get(name, 0)) * 100
        > threshold_percent * max(old.get(name, 0), _FLOOR_OF_CHANGE * allocatable.get(name, 0))
        for name, value in new.items()
    )


def has_moved(new: Published, old: Published, allocatable: Units, threshold_percent: float) -> bool:
    """Return whether Peak[Prod] or reclaimable moved enough for an early report."""
    return moved(new.peak, old.peak, allocatable, threshold_percent) or moved(
        new.reclaimable, old.reclaimable, allocatable, threshold_percent
    )


class ReportSchedule:
    """Times of checks and writes. The first report is due at once."""

    def __init__(self) -> None:
        self._last_report = -math.inf
        self._next_report = -math.inf
        self._next_check = -math.inf
        self._earliest_write = -math.inf
        self._may_be_in_step = True

    def is_check_due(self, now: float) -> bool:
        """Return whether it is time to check for a reason to write."""
        return now >= self._earliest_write and now >= min(self._next_check, self._next_report)

    def checked(self, now: float, check_interval_seconds: float, interval_seconds: float) -> None:
        """Schedule the next check after the check interval. An interval that became shorter applies at once."""
        self._next_check = now + check_interval_seconds
        self._next_report = min(self._next_report, self._last_report + interval_seconds)

    def is_due(self, now: float) -> bool:
        """Return whether a report is due even without a moved prediction."""
        return now >= self._next_report

    def written(self, now: float, interval_seconds: float, uniform: float) -> None:
        """Schedule the next report after a written one.

        After a start or a failure it is moved up by up to 10 % of the interval, times `uniform` (random in [0, 1)).
        """
        self._last_report = now
        self._next_report = now + interval_seconds * (1.0 - _JITTER * uniform * self._may_be_in_step)
        self._may_be_in_step = False
        self._earliest_write = now + LEAST_SECONDS_BETWEEN_WRITES

    def failed(self, now: float, pause_seconds: float) -> None:
        """Delay the next attempt, which has newer values, after a failed write."""
        self._may_be_in_step = True
        self._earliest_write = now + max(LEAST_SECONDS_BETWEEN_WRITES, pause_seconds)


class Outcome(enum.StrEnum):
    """Outcome of a report; the label of the counter."""

    WRITTEN = "written"
    NO_NODE_METRIC = "no_node_metric"
    CONFLICT = "conflict"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Sent:
    """Outcome of one report, and the new version of the object after a successful write."""

    outcome: Outcome
    resource_version: str | None = None
    problem: str | None = None
    retry_after_seconds: float = 0.0
    """Time that the apiserver asked to wait before the next report."""


async def send(
    api: session.Session, node_name: str, status: node_metric.NodeMetricStatus, resource_version: str
) -> Sent:
    """Replace the status of the node's NodeMetric."""
    wire = status.to_wire()
    try:
        for _attempt in range(_ATTEMPTS):
            body = {
                "apiVersion": names.API_VERSION,
                "kind": names.NODE_METRIC_KIND,
                "metadata": {"name": node_name, "resourceVersion": resource_version},
                "status": wire,
            }
            try:
                stored = await objects.replace(
                    api, resources.NODE_METRICS, node_name, body, subresource="status", decode=Envelope
                )
            except errors.Conflict:
                newest = await objects.get(api, resources.NODE_METRICS, node_name, decode=Envelope)
                resource_version = newest.metadata.resource_version
            else:
                return Sent(Outcome.WRITTEN, stored.metadata.resource_version)
    except errors.NotFound as error:
        return Sent(Outcome.NO_NODE_METRIC, problem=f"{error}; the manager creates it")
    except errors.ApiServerError as error:
        outcome = Outcome.REFUSED if isinstance(error, errors.StatusError) else Outcome.UNREACHABLE
        return Sent(outcome, problem=str(error), retry_after_seconds=error.retry_after_seconds or 0.0)
    return Sent(Outcome.CONFLICT, problem=f"NodeMetric {node_name} changed during each of {_ATTEMPTS} attempts")
