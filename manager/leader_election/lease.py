"""The Lease of the leader election: when it is free, and how it is acquired, renewed and released. Pure.

A process measures the age of another holder's Lease with its own monotonic clock only: the time since it observed the
last change of the record. Clocks of two machines are never compared. Source: Kubernetes documentation of Leases; the
same rules as client-go.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import msgspec

from api_types.kubernetes import times


class LeaseSpec(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Record of the holder; times in RFC 3339 with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMetadata(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Identity of a Lease, and the version that a write replaces."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Lease(msgspec.Struct, frozen=True):
    """A Lease."""

    metadata: LeaseMetadata = LeaseMetadata()
    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True)
class ObservedLease:
    """A record and the monotonic time at which this process first observed it."""

    spec: LeaseSpec
    since_seconds: float


def observe(before: ObservedLease | None, spec: LeaseSpec, now_seconds: float) -> ObservedLease:
    """Return the observation of a record; its age starts again when any field changed."""
    return before if before is not None and before.spec == spec else ObservedLease(spec, now_seconds)


def is_free(observed: ObservedLease, now_seconds: float) -> bool:
    """Check whether the Lease has no holder, or its holder has not renewed it for its own lease duration."""
    spec = observed.spec
    return not spec.holder_identity or now_seconds > observed.since_seconds + (spec.lease_duration_seconds or 0)


def held_by(identity: str, spec: LeaseSpec | None, duration_seconds: float, now: dt.datetime) -> LeaseSpec:
    """Return the record that makes `identity` the holder: a renewal if it is the holder already, else a transition."""
    time = times.format_micro_time(now)
    renewal = spec is not None and spec.holder_identity == identity
    transitions = (spec.lease_transitions or 0) if spec else 0
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=max(round(duration_seconds), 1),
        acquire_time=spec.acquire_time if spec and renewal else time,
        renew_time=time,
        lease_transitions=transitions if renewal or spec is None else transitions + 1,
    )


def released(spec: LeaseSpec, now: dt.datetime) -> LeaseSpec:
    """Return the record without a holder, which any candidate may acquire at once."""
    time = times.format_micro_time(now)
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=time,
        renew_time=time,
        lease_transitions=spec.lease_transitions,
    )


def body(name: str, namespace: str, spec: LeaseSpec, resource_version: str) -> dict[str, Any]:
    """Return the Lease to create (without a version), or to replace the version that was read."""
    metadata = {"name": name, "namespace": namespace}
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec),
    }
