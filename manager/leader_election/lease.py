"""The Lease by which one of several managers leads: when it is free, and how it is taken, renewed and given up. Pure.

Whether a leader is gone is judged by our own clock alone: the time since its record last changed before our eyes.
Clocks of two machines are never compared. Source: Kubernetes documentation of Leases; the same rules as client-go.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import msgspec

from api_types.kubernetes import times


class LeaseSpec(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Who holds the Lease; times in RFC 3339 with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMetadata(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Identity of a Lease, and the version that a write is meant to replace."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Lease(msgspec.Struct, frozen=True):
    """A Lease."""

    metadata: LeaseMetadata = LeaseMetadata()
    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True)
class Sighting:
    """A record and the monotonic moment at which it was first seen like this."""

    spec: LeaseSpec
    since_seconds: float


def sight(known: Sighting | None, spec: LeaseSpec, now_seconds: float) -> Sighting:
    """Note a record; the clock starts anew when anything in it changed."""
    return known if known is not None and known.spec == spec else Sighting(spec, now_seconds)


def is_free(sighting: Sighting, now_seconds: float) -> bool:
    """Whether nobody holds the Lease, or its holder has not renewed it for as long as it said it would."""
    spec = sighting.spec
    return not spec.holder_identity or now_seconds > sighting.since_seconds + (spec.lease_duration_seconds or 0)


def held(spec: LeaseSpec | None, identity: str, duration_seconds: float, now: dt.datetime) -> LeaseSpec:
    """Record that makes `identity` the holder: a renewal if it is already, a take-over otherwise."""
    moment = times.format_micro_time(now)
    ours = spec is not None and spec.holder_identity == identity
    transitions = (spec.lease_transitions or 0) if spec else 0
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=max(round(duration_seconds), 1),
        acquire_time=spec.acquire_time if spec and ours else moment,
        renew_time=moment,
        lease_transitions=transitions if ours or spec is None else transitions + 1,
    )


def given_up(spec: LeaseSpec, now: dt.datetime) -> LeaseSpec:
    """Record that lets anybody take over at once."""
    moment = times.format_micro_time(now)
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=moment,
        renew_time=moment,
        lease_transitions=spec.lease_transitions,
    )


def body(name: str, namespace: str, spec: LeaseSpec, resource_version: str) -> dict[str, Any]:
    """Lease to create (without a version) or to put over the version that was read."""
    metadata = {"name": name, "namespace": namespace}
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec),
    }
