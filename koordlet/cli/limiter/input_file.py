"""The file between agent and limiter: the Mid pods of the node, and their amounts. Encode it, and decode it as hostile.

    {"version": 1, "atSeconds": 1750000000.0, "pods": {"<uid>": {"midCpu": 500, "midMemory": 1073741824}}}

midCpu is in millicores, midMemory in bytes; 0 is no limit. A file with anything else in it is refused as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

VERSION: Final = 1
MOST_BYTES: Final = 256 * 1024
MOST_PODS: Final = 1000
MOST_CPU_MILLIS: Final = 10_000_000
MOST_MEMORY_BYTES: Final = 2**50
# Of a pod of the API server, and of a static one. Without separators, so that a UID is never a path.
_UID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}", re.ASCII)


class Refused(ValueError):
    """The file is not one that an agent writes; the text names what was seen and what is wanted."""


class Amounts(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """What one Mid pod may use, in millicores and bytes; 0 is no limit."""

    mid_cpu: Annotated[int, msgspec.Meta(ge=0, le=MOST_CPU_MILLIS)]
    mid_memory: Annotated[int, msgspec.Meta(ge=0, le=MOST_MEMORY_BYTES)]


class Input(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """Content of the file."""

    version: int
    at_seconds: float
    """Time of the write, Unix time."""
    pods: dict[str, Amounts]


_DECODER: Final = msgspec.json.Decoder(Input)


def is_uid(text: str) -> bool:
    """Return whether a text has the form of a pod's UID."""
    return _UID.fullmatch(text) is not None


def encoded(at_seconds: float, pods: Mapping[str, Amounts]) -> bytes:
    """Return the file. Pods beyond MOST_PODS are left out, and those with a UID that `decoded` refuses."""
    kept = {uid: pods[uid] for uid in sorted(pods) if is_uid(uid)}
    return msgspec.json.encode(Input(VERSION, at_seconds, dict(list(kept.items())[:MOST_PODS])))


def decoded(content: bytes) -> Input:
    """Return the content of a file. Raises Refused."""
    if len(content) > MOST_BYTES:
        raise Refused(f"it has more than {MOST_BYTES} bytes")
    try:
        found = _DECODER.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(str(error)[:200]) from None
    if found.version != VERSION:
        raise Refused(f"version: seen {found.version}, want {VERSION}: use one release of agent and limiter")
    if len(found.pods) > MOST_PODS:
        raise Refused(f"pods: seen {len(found.pods)}, want at most {MOST_PODS}")
    for uid in found.pods:
        if not is_uid(uid):
            raise Refused(f"pods: seen {uid[:64]!r}, want the UID of a pod")
    return found
