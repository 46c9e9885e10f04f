"""Writer of the NodeMetric's status: a PUT over the known version, and over a newer one after a conflict.

A merge patch costs the API server twice as much and does not remove fields. A report that could not be sent is dropped:
the next one is newer.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass
from typing import Final

from api_types import names
from api_types.node_metric import types as node_metric
from apiserver_client import errors, objects, resources, session
from apiserver_client.decoding import Envelope

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 3


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
                stored = await objects.replace_status(api, resources.NODE_METRICS, node_name, body, decode=Envelope)
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
