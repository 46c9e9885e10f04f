"""Fields of this project that the NodeMetric CRD in the cluster lacks: the apiserver drops them without an error.

This happens where Koordinator's own CRD is kept (`crds.install: false`), or one of an older release. Mid resources stay
correct; docs/contributing/decisions/0014 lists what is lost. Source: Kubernetes' documentation of field pruning.

The schema is read from the OpenAPI document of the group, which every authenticated client may read: no permission for
CRDs is needed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from api_types import names
from api_types.node_metric import crd_manifest
from apiserver_client import decoding, errors, resources, session
from apiserver_client.cluster_events import Subject
from manager.events.recorder import EventRecorder
from manager.metrics.telemetry import Telemetry

log = logging.getLogger(__name__)

NAME: Final = f"{names.NODE_METRIC_PLURAL}.{names.GROUP}"
DROPPED: Final = "NodeMetricFieldsDropped"
KEPT: Final = "NodeMetricFieldsKept"


_DOCUMENT: Final = errors.Call(
    "GET",
    f"/openapi/v3/apis/{names.GROUP}/{names.VERSION}",
    verb="get",
    resource=names.NODE_METRIC_PLURAL,
    group=names.GROUP,
)


class OpenApiComponents(msgspec.Struct, frozen=True):
    """The schemas of a group."""

    schemas: dict[str, dict[str, Any]] = {}


class OpenApi(msgspec.Struct, frozen=True):
    """The OpenAPI document of a group."""

    components: OpenApiComponents = OpenApiComponents()


Schema = Mapping[str, Any]


async def read(api: session.Session) -> Schema | None:
    """Read the schema of NodeMetric as it is served, None where there is none. Raises errors.ApiServerError."""
    try:
        document = decoding.decode(_DOCUMENT, await api.send(_DOCUMENT), OpenApi)
    except errors.UnknownResource:
        return None
    kind = {"group": names.GROUP, "kind": names.NODE_METRIC_KIND, "version": names.VERSION}
    schemas = document.components.schemas.values()
    return next((schema for schema in schemas if kind in schema.get("x-kubernetes-group-version-kind", ())), None)


def dropped_fields(served: Schema) -> tuple[str, ...]:
    """Return the paths of the fields that this CRD drops, such as `status.prediction`; of a whole branch its root."""
    return tuple(_missing(crd_manifest.structural_schema(), served, ""))


def _missing(expected: Mapping[str, Any], served: Mapping[str, Any], path: str) -> Iterator[str]:
    if served.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, below in expected.get("properties", {}).items():
        where = f"{path}.{name}".removeprefix(".")
        if name in served.get("properties", {}):
            yield from _missing(below, served["properties"][name], where)
        elif not isinstance(served.get("additionalProperties"), dict):
            yield where
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(expected.get(key), dict) and isinstance(served.get(key), dict):
            yield from _missing(expected[key], served[key], path + mark)


class SchemaWatch:
    """Reports dropped fields when they change: by an Event on the CRD, a log line, a metric and a call."""

    def __init__(
        self,
        api: session.Session,
        recorder: EventRecorder,
        telemetry: Telemetry,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._recorder = recorder
        self._telemetry = telemetry
        self._sleep = sleep
        self._on_change = on_change
        self._reported: tuple[str, ...] = ()

    async def run(self, period_seconds: float) -> None:
        """Check every period until cancelled."""
        while True:
            try:
                await self.once()
            except errors.ApiServerError as error:
                log.warning("cannot read CRD %s: %s; retrying in %g s", NAME, error, period_seconds)
            await self._sleep(period_seconds)

    async def once(self) -> None:
        """Check once, and report a change. Raises errors.ApiServerError."""
        served = await read(self._api)
        if served is None:
            return
        dropped = dropped_fields(served)
        self._telemetry.dropped_fields.set(len(dropped))
        if dropped == self._reported:
            return
        self._reported = dropped
        self._on_change()
        about = Subject(resources.CUSTOM_RESOURCE_DEFINITIONS, NAME, uid="")
        if dropped:
            await self._recorder.event(about, "Warning", DROPPED, describe_dropped(dropped))
        else:
            await self._recorder.event(about, "Normal", KEPT, "this CRD keeps every field again")


def describe_dropped(dropped: tuple[str, ...]) -> str:
    """Return the dropped fields, the consequence and the fix in one line."""
    return (
        f"this CRD drops {', '.join(dropped)}; Mid resources stay correct, without status.allocated they are "
        "calculated from prodReclaimableMetric. To keep all fields, let the chart install its CRD, a superset "
        "(crds.install=true)"
    )
