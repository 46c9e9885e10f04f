"""Send new CPU limits of a pod to the API server, and classify its answer."""

from __future__ import annotations

import asyncio
import enum
from typing import Final, NamedTuple

from api_types.mid_pods import cpu_limits
from apiserver_client import errors, objects, session
from apiserver_client.decoding import Envelope
from koordlet.mid_suppression.planner import Change

TIMEOUT_SECONDS: Final = 5.0
_WITHOUT_RIGHT: Final = 'cannot patch resource "pods/resize"'


class Outcome(enum.StrEnum):
    """Outcome of a patch; the label of the counter."""

    PATCHED = "patched"
    CONFLICT = "conflict"
    GONE = "gone"
    QUOTA = "quota"
    REFUSED = "refused"
    NOT_PERMITTED = "not_permitted"
    UNREACHABLE = "unreachable"


_OUTCOMES: Final = (
    (errors.NotFound, Outcome.GONE),
    (errors.Conflict, Outcome.CONFLICT),
    (errors.ServerError, Outcome.UNREACHABLE),
    (errors.Throttled, Outcome.UNREACHABLE),
    (errors.StatusError, Outcome.REFUSED),
)
"""Outcome of an error: that of the first kind that it is."""


class Sent(NamedTuple):
    """Outcome of one patch."""

    outcome: Outcome
    problem: str = ""
    quota: str = ""
    """Name of the ResourceQuota that refused it."""
    retry_after_seconds: float = 0.0


async def send(api: session.Session, change: Change) -> Sent:
    """Patch the limits of one pod."""
    pod = change.pod
    assert pod.mid is not None
    manager = cpu_limits.field_manager(pod.mid.containers)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await objects.resize(
                api,
                pod.name,
                cpu_limits.patch(pod.uid, pod.mid, change.limits),
                namespace=pod.namespace,
                field_manager=manager,
                decode=Envelope,
            )
    except TimeoutError:
        return Sent(
            Outcome.UNREACHABLE, f"no answer to the resize of {pod.namespace}/{pod.name} in {TIMEOUT_SECONDS:g} s"
        )
    except errors.ApiServerError as error:
        return _refused(error)
    return Sent(Outcome.PATCHED)


def _refused(error: errors.ApiServerError) -> Sent:
    problem = str(error)
    match error:
        case errors.Forbidden() if quota := cpu_limits.refusing_quota(error.server_message):
            return Sent(Outcome.QUOTA, problem, quota)
        case errors.Forbidden() if _WITHOUT_RIGHT in error.server_message:
            return Sent(Outcome.NOT_PERMITTED, problem)
        case errors.Invalid() if any(cause.field == "metadata.uid" for cause in error.causes):
            return Sent(Outcome.CONFLICT, problem)
    outcome = next((each for kind, each in _OUTCOMES if isinstance(error, kind)), Outcome.UNREACHABLE)
    return Sent(outcome, problem, retry_after_seconds=error.retry_after_seconds or 0.0)
