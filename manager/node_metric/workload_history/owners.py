"""Resolve the controller of a pod to the top one of its workload, by objects that exist.

Deployments, StatefulSets and CronJobs are workloads; a ReplicaSet or a Job is part of its controller. Of a controller
of another kind the reference is taken as it is. Metadata alone is watched, and of it 8 bytes of digests are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from api_types.kubernetes import pods
from apiserver_client import resources, session, watching
from manager.cache.object_watches import RETRIES
from manager.node_metric.workload_history import history

MOST_OWNERS: Final = 300_000
"""Objects that are kept, 90 bytes each; the pods of others are charged as without history."""
_PARENTS: Final = {"ReplicaSet": "Deployment", "Job": "CronJob"}
_WATCHED: Final = (
    resources.REPLICA_SETS, resources.DEPLOYMENTS, resources.STATEFUL_SETS, resources.JOBS, resources.CRON_JOBS
)  # fmt: skip


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """Identity and owners of an object."""

    uid: str = ""
    owner_references: list[pods.OwnerReference] | None = None


class Owner(msgspec.Struct, frozen=True):
    """An object that may control pods."""

    metadata: Metadata = Metadata()


class Owners:
    """Digest of the UID of each object that may control pods -> that of its own controller."""

    def __init__(self, most: int = MOST_OWNERS) -> None:
        self._most = most
        self._parents: dict[str, dict[int, int]] = {resource.kind: {} for resource in _WATCHED}
        """By kind; 0 without a controller, negative for one of a kind that is not watched."""
        self.refused = 0
        """Objects that were not kept, because there are too many."""

    def __len__(self) -> int:
        return sum(map(len, self._parents.values()))

    def add(self, kind: str, owner: Owner) -> int:
        """Store an object; return its digest."""
        digest, parents = _digest(owner.metadata.uid), self._parents[kind]
        if digest not in parents and len(self) >= self._most:
            self.refused += 1
            return digest
        parents[digest] = 0
        if kind in _PARENTS:
            for reference in owner.metadata.owner_references or ():
                if reference.controller:
                    parent = _digest(reference.uid)
                    parents[digest] = parent if reference.kind == _PARENTS[kind] else -parent
        return digest

    def remove(self, kind: str, uid: str) -> None:
        """Remove an object."""
        self._parents[kind].pop(_digest(uid), None)

    def keep(self, kind: str, digests: set[int]) -> None:
        """Remove all objects of a kind but these."""
        parents = self._parents[kind]
        for digest in parents.keys() - digests:
            del parents[digest]

    def key(self, kind: str, uid: str, ordinal: int | None = None) -> int | None:
        """Return the key of the workload of a pod with this controller, None where the controller does not exist."""
        digest = _digest(uid)
        if kind in self._parents:
            parent = self._parents[kind].get(digest)
            if parent is None:
                return None
            if parent < 0 or (parent > 0 and parent in self._parents[_PARENTS[kind]]):
                digest = abs(parent)
        return digest if ordinal is None else _digest(f"{digest:015x}/{ordinal}")


def _digest(uid: str) -> int:
    return int(history.key(uid), 16)


@dataclass(eq=False)
class OwnerWatches:
    """Watches of the kinds that may control pods; `on_event` is called with the resource of each event."""

    api: session.Session
    owners: Owners
    on_event: Callable[[str], None] = lambda _: None
    answered: set[str] = field(default_factory=set)
    """Resources of which a list was read, or the first attempt has failed."""

    def are_ready(self) -> bool:
        """Check whether every controller that can be known is known."""
        return len(self.answered) == len(_WATCHED)

    async def run(self) -> None:
        """Watch until cancelled. What cannot be read is retried; pods of its kind are charged as without history."""
        async with asyncio.TaskGroup() as group:
            for resource in _WATCHED:
                group.create_task(self._follow(resource))

    async def _follow(self, resource: resources.Resource) -> None:
        listed: set[int] | None = None
        """Objects of a list that has begun: those that it lacks are gone."""

        def list_begins() -> set[None]:
            nonlocal listed
            listed = set()
            return set()

        events = watching.list_then_watch(
            self.api, resource, decode=Owner, metadata_only=True, wait=RETRIES, remember=lambda _: None,
            remember_in=list_begins, on_state=lambda _: self.answered.add(resource.plural),
        )  # fmt: skip
        async with contextlib.aclosing(events):
            async for event in events:
                self.on_event(resource.plural)
                if isinstance(event, watching.Synced):
                    self.owners.keep(resource.kind, listed or set())
                    listed = None
                elif isinstance(event, watching.Changed):
                    digest = self.owners.add(resource.kind, event.object)
                    if listed is not None:
                        listed.add(digest)
                elif isinstance(event, watching.Deleted) and event.object is not None:
                    self.owners.remove(resource.kind, event.object.metadata.uid)
                del event
