"""The status annotation of a node's Mid resources on the wire: every term, its source and time, and the reason code.

JSON in `koordinator.sh/mid-resource-status`, written by the manager in the same patch as the resources. Its head is a
condition: status, reason, text, since (decision 0009).
"""

from __future__ import annotations

from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric.mid_resource import Terms

WITHDRAWN: Final = "False"
"""Status after a withdrawal."""
WITHOUT_REPORTS: Final = frozenset({"NodeMetricMissing", "NeverReported", "SampleTooOld"})
"""Reason codes of the withdrawals that the next report ends."""


class MidStatus(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Status of a node's Mid resources."""

    time: str
    """Time of the write."""
    reason: str
    """Stable code."""
    status: str = ""
    """True where the newest report decides, Unknown where the published values are kept, False after a withdrawal."""
    text: str = ""
    """The code in words."""
    since: str = ""
    """Time of the first write with this code."""
    detail: str = ""
    """The observed value, where the code alone does not name it."""
    sample: str = ""
    """Sample time of the report that the terms are from."""
    last_usable: str = ""
    """Sample time of the last usable report, where values are kept that an earlier one gave."""
    prediction: str = ""
    """Sample time of the last report with a prediction."""
    floor_before: str = ""
    """Time since which Mid shrinks: of a withdrawal, since less is calculated than Mid pods request, or since the node
    is closed. The floor counts only Mid pods that were bound before."""
    closed: str = ""
    """Why the node accepts no new Mid pod, a stable code: Frozen or Evicted. Then no more is published than Mid pods
    request."""
    requests_from: str = ""
    """Source of the requests: the report, or the node's pods."""
    resources: dict[str, Terms] = {}


def last_usable(status: MidStatus | None) -> str | None:
    """Return the sample time of the last usable report that a status names; None or empty where it names none."""
    return (status.last_usable or status.sample) if status else None


def decode(text: str | None) -> MidStatus | None:
    """Decode the text of the annotation; None where it is absent, or not one that the manager writes."""
    if text is None or pods.is_too_long(text):
        return None
    try:
        return msgspec.json.decode(text, type=MidStatus)
    except (msgspec.DecodeError, RecursionError):
        return None


def text_of(node: pods.Node) -> str | None:
    """Return the text of a node's status annotation."""
    return pods.annotation_map(node.metadata).get(names.ANNOTATION_MID_STATUS)
