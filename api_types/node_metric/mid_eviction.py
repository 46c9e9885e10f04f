"""The eviction annotation of a node on the wire: the last eviction of a Mid pod there.

JSON in `koordinator.sh/mid-eviction`. The manager writes it before it evicts, so that its next leader keeps the pause
between two evictions, and removes it when the node accepts new Mid pods again. While it is there, the manager publishes
no more than running Mid pods request, and the scheduler's Mid guard admits no new one.
"""

from __future__ import annotations

import functools
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods

MID_ONLY: Final = "MidOnlyNode"
"""Cause of a node that is emptied because only Mid pods keep it."""
_LONGEST_KEPT: Final = 1024
"""Longest text that is cached, longer than any of the manager: a node may write a longer one, and another each time."""


class MidEvictionRecord(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The last eviction on a node."""

    time: str
    """Time just before the eviction was requested."""
    since: str
    """Time since which the node accepts no new Mid pods."""
    pod: str = ""
    """Namespace and name of the pod; empty where the node was closed before its first eviction."""
    uid: str = ""
    """UID of the pod."""
    trigger: str = ""
    """Stable code of the cause that decides when the node opens again."""
    recent: int = 0
    """Evictions on the node within the minute before this one."""


def encode(record: MidEvictionRecord) -> str:
    """Encode the text of the annotation."""
    return msgspec.json.encode(record).decode()


def eviction_record(node: pods.Node) -> MidEvictionRecord | None:
    """Return the eviction annotation of a node; None where it is absent, or not one that the manager writes."""
    text = pods.annotation(pods.annotation_map(node.metadata), names.ANNOTATION_MID_EVICTION)
    if text is None:
        return None
    return _decoded(text) if len(text) <= _LONGEST_KEPT else _decoded.__wrapped__(text)


@functools.lru_cache(maxsize=4096)
def _decoded(text: str) -> MidEvictionRecord | None:
    try:
        return msgspec.json.decode(text, type=MidEvictionRecord)
    except (msgspec.DecodeError, RecursionError):
        return None
