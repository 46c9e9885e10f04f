"""Which of our fields the NodeMetric CRD in the cluster has no place for: the apiserver drops those without a word.

That is so where Koordinator's own CRD is kept (`crds.install: false`), or one of an older release. Mid resources stay
right; what is lost is named in docs/contributing/decisions/0014. Source: Kubernetes' documentation of field pruning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from api_types import names
from api_types.node_metric import crd_manifest
from apiserver_client import errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.events import EventRecorder
from manager.metrics import Telemetry

log = logging.getLogger(__name__)

NAME: Final = f"{names.NODE_METRIC_PLURAL}.{names.GROUP}"
DROPPED: Final = "NodeMetricFieldsDropped"
KEPT: Final = "NodeMetricFieldsKept"


class CrdMetadata(msgspec.Struct, frozen=True):
    """Identity of a CRD."""

    name: str = ""
    uid: str = ""


class Schema(msgspec.Struct, rename="camel", frozen=True):
    """The schema of a version."""

    open_api_v3_schema: dict[str, Any] = msgspec.field(default_factory=dict, name="openAPIV3Schema")


class CrdVersion(msgspec.Struct, frozen=True):
    """A version of a CRD."""

    name: str = ""
    served: bool = False
    schema: Schema = Schema()


class CrdSpec(msgspec.Struct, frozen=True):
    """Versions of a CRD."""

    versions: list[CrdVersion] = []


class Crd(msgspec.Struct, frozen=True):
    """A CustomResourceDefinition."""

    metadata: CrdMetadata = CrdMetadata()
    spec: CrdSpec = CrdSpec()


async def read(api: session.Session) -> Crd | None:
    """The NodeMetric CRD, None where there is none. Raises errors.ApiServerError."""
    listing = await objects.list_all(
        api, resources.CUSTOM_RESOURCE_DEFINITIONS, field_selector=f"metadata.name={NAME}", decode=Crd
    )
    return next((each for each in listing.items if each.metadata.name == NAME), None)


def dropped_fields(crd: Crd) -> tuple[str, ...]:
    """Paths of the fields of ours that this CRD drops, such as `status.prediction`; of a whole branch its root."""
    served = [each for each in crd.spec.versions if each.served and each.name == names.VERSION]
    theirs = served[0].schema.open_api_v3_schema if served else {}
    return tuple(_missing(crd_manifest.structural_schema(), theirs, ""))


def _missing(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str) -> Iterator[str]:
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, below in ours.get("properties", {}).items():
        where = f"{path}.{name}".removeprefix(".")
        if name in theirs.get("properties", {}):
            yield from _missing(below, theirs["properties"][name], where)
        elif not isinstance(theirs.get("additionalProperties"), dict):
            yield where
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(ours.get(key), dict) and isinstance(theirs.get(key), dict):
            yield from _missing(ours[key], theirs[key], path + mark)


class SchemaWatch:
    """Tells, when it changes, what is dropped: an Event on the CRD, the log, a metric."""

    def __init__(
        self,
        api: session.Session,
        announcer: EventRecorder,
        telemetry: Telemetry,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._announcer = announcer
        self._telemetry = telemetry
        self._sleep = sleep
        self._told: tuple[str, ...] = ()

    async def run(self, period_seconds: float) -> None:
        """Look every period until cancelled."""
        while True:
            try:
                await self.once()
            except errors.ApiServerError as error:
                log.warning("cannot look at the NodeMetric CRD: %s", error)
            await self._sleep(period_seconds)

    async def once(self) -> None:
        """Look once, and tell what is new. Raises errors.ApiServerError."""
        crd = await read(self._api)
        if crd is None:
            return
        dropped = dropped_fields(crd)
        self._telemetry.dropped_fields.set(len(dropped))
        if dropped == self._told:
            return
        self._told = dropped
        about = Subject(resources.CUSTOM_RESOURCE_DEFINITIONS, NAME, crd.metadata.uid)
        if dropped:
            await self._announcer.say(about, "Warning", DROPPED, told(dropped))
        else:
            await self._announcer.say(about, "Normal", KEPT, "this CRD has a place for every field again")


def told(dropped: tuple[str, ...]) -> str:
    """What is dropped, what of it, and the way out, in one line."""
    return (
        f"this CRD drops {', '.join(dropped)}; Mid resources stay right, without status.allocated they are calculated "
        "from prodReclaimableMetric. For all fields let the chart install its CRD, a superset (crds.install=true)"
    )
