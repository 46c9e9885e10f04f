"""Name the client that changes the Mid resources of a node, from the field managers that the apiserver records."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api_types import names
from apiserver_client import errors, objects, resources, session

log = logging.getLogger(__name__)

OWN_MANAGER: Final = "koord-manager"
"""Field manager of this program: the apiserver takes it from the user agent, as it does for Koordinator's."""
EVENT_REASON: Final = "MidResourcesReverted"
UNKNOWN: Final = "another client"


class _Entry(msgspec.Struct, rename="camel", frozen=True):
    manager: str = ""
    fields_v1: dict[str, Any] = msgspec.field(default_factory=dict, name="fieldsV1")


class _Metadata(msgspec.Struct, rename="camel", frozen=True):
    managed_fields: list[_Entry] = []


class _Managed(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


async def describe(api: session.Session, node: str) -> str:
    """Describe the last writer of a node's Mid resources, in words for an Event. Costs one request."""
    try:
        found = await objects.get(api, resources.NODES, node, decode=_Managed)
    except errors.ApiServerError as error:
        log.warning("node %s: cannot read who changes its Mid resources: %s", node, error)
        return UNKNOWN
    writers = sorted({each.manager for each in found.metadata.managed_fields if _owns_mid(each.fields_v1)})
    others = [writer for writer in writers if writer != OWN_MANAGER]
    if others:
        return f"{UNKNOWN} (field manager {', '.join(others)})"
    if writers:
        return f"{UNKNOWN} of the same field manager {OWN_MANAGER} (Koordinator's own, or a second installation)"
    return f"{UNKNOWN} (the apiserver records no field manager)"


def event_message(writer: str) -> str:
    """Return the message of the Event about a client that changes Mid resources back."""
    return (
        f"Mid resources or their status annotation: seen changed by {writer} after each write, want one writer; stop "
        "that client, or disable colocation for this node; until then the pause between two writes grows to 5 minutes"
    )


def _owns_mid(fields: Mapping[str, Any]) -> bool:
    status = fields.get("f:status") or {}
    lists = [status.get(part) or {} for part in ("f:capacity", "f:allocatable")]
    annotations = (fields.get("f:metadata") or {}).get("f:annotations") or {}
    owned = {key.removeprefix("f:") for each in (*lists, annotations) for key in each}
    return not owned.isdisjoint((*names.MID_RESOURCES, names.ANNOTATION_MID_STATUS))
