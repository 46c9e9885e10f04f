"""NodeMetric as other components read it: the fields that all readers need, decoded by msgspec.

A reader that needs more of the object extends `NodeMetric` by fields of its own. Fields that are not declared are
skipped by the decoder and cost next to nothing. The agent writes with the pydantic model in `types`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from api_types.node_metric.mid_report import MidReport


class Metadata(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Identity of a NodeMetric; owner references exactly as received, because the manager writes them back."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    owner_references: list[dict[str, Any]] | None = None


class NodeMetric(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Identity and status of a NodeMetric; usage is left to readers that need it."""

    metadata: Metadata = Metadata()
    status: MidReport | None = None
