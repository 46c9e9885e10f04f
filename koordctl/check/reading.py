"""Read what `koordctl check` shows. Every function raises errors.ApiServerError where the apiserver does not answer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from api_types.kubernetes import pods, times
from apiserver_client import objects, resources, session
from fleet import wire
from fleet.findings import AGENT, MANAGER
from fleet.reading import Reader
from fleet.snapshot import FleetSnapshot
from koordctl.check import rights
from koordctl.check.inputs import CheckInputs, PreInstallInputs
from koordctl.check.rights import INSTALLER, VIEWER, Right
from manager import lease

RENEWAL_SECONDS: Final = 3.0
"""Longer than the time between two renewals of a leader."""
PRIORITY_CLASSES: Final = resources.Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)


class Labelled(msgspec.Struct, frozen=True):
    """Any object, by its metadata."""

    metadata: pods.ObjectMeta = pods.ObjectMeta()


async def read(
    api: session.Session,
    now: dt.datetime,
    namespace: str,
    sleep: Callable[[float], Awaitable[None]],
    candidates: Sequence[Right] = VIEWER,
) -> CheckInputs:
    """Read an installation; the Lease is read twice, because the clock of another machine is not used.

    Of the `candidates` those are returned that the caller lacks.
    """
    reader = Reader(api, now)
    installed = await reader.installation(namespace)
    nodes = await reader.nodes()
    missing = await missing_rights(api, rights.with_config_map(candidates, installed.config_map), namespace)
    classes = waiting = None
    with reader.attempt("priorityclasses"):
        classes = (await objects.list_all(api, PRIORITY_CLASSES, decode=wire.WirePriorityClass)).items
    with reader.attempt("pods"):
        selector = "status.phase=Pending"
        waiting = (await objects.list_all(api, resources.PODS, field_selector=selector, decode=pods.Pod)).items
    renewed = await _renewed_again(api, reader, namespace, sleep) if installed.leader else None
    return CheckInputs(
        FleetSnapshot(now, api.server, nodes, None, installed, tuple(reader.unread)),
        await _served(api, reader),
        renewed,
        classes,
        waiting,
        missing,
    )


async def _renewed_again(
    api: session.Session, reader: Reader, namespace: str, sleep: Callable[[float], Awaitable[None]]
) -> dt.datetime | None:
    await sleep(RENEWAL_SECONDS)
    with reader.attempt(f"leases/{MANAGER}"):
        return await lease_time(api, namespace)
    return None


async def lease_time(api: session.Session, namespace: str) -> dt.datetime | None:
    """Read when the Lease of the manager was renewed."""
    leader = await objects.get(api, resources.LEASES, MANAGER, namespace=namespace, decode=lease.Lease)
    return times.parse_rfc3339_or_none(leader.spec.renew_time)


async def _served(api: session.Session, reader: Reader) -> Mapping[str, Any] | None:
    from manager.node_metric import controller  # noqa: PLC0415  # half a second, which other commands do not pay

    with reader.attempt("openapi"):
        return await controller.read(api)
    return None


def dropped(served: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the fields of this project that the served CRD drops."""
    from manager.node_metric import controller  # noqa: PLC0415

    return controller.dropped_fields(served) if served is not None else ()


async def missing_rights(api: session.Session, candidates: Iterable[Right], namespace: str) -> list[Right]:
    """Return the rights that the caller lacks; every authenticated client may ask for its own."""
    return [right for right in candidates if not await _has(api, right, namespace)]


async def _has(api: session.Session, right: Right, namespace: str) -> bool:
    plural, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": plural,
        "subresource": subresource,
        "name": right.name,
        **({"namespace": namespace} if right.in_namespace else {}),
    }
    review = resources.SELF_SUBJECT_ACCESS_REVIEWS
    body = {"apiVersion": review.api_version, "kind": review.kind, "spec": {"resourceAttributes": attributes}}
    answered = await objects.create(api, review, body)
    return bool((answered.get("status") or {}).get("allowed"))


_OWNED: Final = (
    (resources.CUSTOM_RESOURCE_DEFINITIONS, "nodemetrics.slo.koordinator.sh", False),
    (PRIORITY_CLASSES, "koord-prod", False),
    (PRIORITY_CLASSES, "koord-mid", False),
    (resources.DAEMON_SETS, AGENT, True),
    (resources.DEPLOYMENTS, MANAGER, True),
)
"""Objects that the chart creates and that Koordinator's chart has too; whether they are in the namespace."""


async def read_before(api: session.Session, now: dt.datetime, namespace: str) -> PreInstallInputs:
    """Read what decides about an installation."""
    reader = Reader(api, now)
    labels = None
    with reader.attempt("namespaces"):
        labels = (await objects.get(api, resources.NAMESPACES, namespace, decode=Labelled)).metadata.labels or {}
    owned = {}
    for resource, name, is_in_namespace in _OWNED:
        with reader.attempt(f"{resource.plural}/{name}"):
            where = namespace if is_in_namespace else None
            labelled = await objects.get(api, resource, name, namespace=where, decode=Labelled)
            owned[f"{resource.kind} {name}"] = labelled.metadata.labels or {}
    missing = await missing_rights(api, INSTALLER, namespace)
    served = await _served(api, reader)
    unread = [f"{unread.what}: {unread.why}" for unread in reader.unread if unread.is_right]
    return PreInstallInputs(await reader.kubernetes(), served, missing, labels, owned, unread)
