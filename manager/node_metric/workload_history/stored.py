"""Keep the history in ConfigMaps of the manager's own namespace: one a namespace, and one for the priors of pools.

A new leader reads them before it counts any statement. Each is written at most once an hour: what a leader had not
written when it ended, the next one takes from the reports, which repeat the newest statement. The Namespace owns the
ConfigMap of its history, so that Kubernetes deletes both. No volume is needed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from api_types.kubernetes.pods import AnyObject
from apiserver_client import errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.cache.store import ConfigMap
from manager.events import EventRecorder
from manager.metrics.telemetry import Telemetry
from manager.node_metric.workload_history import history
from manager.node_metric.workload_history.history import Unreadable
from manager.node_metric.workload_history.pools import Pools
from manager.node_metric.workload_history.workloads import Namespace, Workloads

log = logging.getLogger(__name__)

LABELS: Final = {"app.kubernetes.io/part-of": "koord-suite", "koordinator.sh/stores": "workload-history"}
"""Labels of each ConfigMap."""
SELECTOR: Final = ",".join(f"{key}={text}" for key, text in LABELS.items())
PREFIX: Final = "workload-history-"
PRIORS: Final = f"{PREFIX}priors"
KEY: Final = "history.json"
UNREADABLE: Final = "WorkloadHistoryUnreadable"
WRITE_SECONDS: Final = 3600.0
_CHECK_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 600.0
"""After a failed write, for which the other namespaces do not wait."""
_PAUSE_SECONDS: Final = 0.05
"""Between two writes: those of a thousand namespaces take a minute."""


def name_of(namespace: str) -> str:
    """Return the name of the ConfigMap of a namespace."""
    return PREFIX + hashlib.sha256(namespace.encode()).hexdigest()[:16]


@dataclass(eq=False)
class HistoryStore:
    """Reads once, then writes what has changed. `own` is the manager's namespace."""

    api: session.Session
    own: str
    workloads: Workloads
    pools: Pools
    recorder: EventRecorder
    telemetry: Telemetry
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self._priors_stored_seconds = 0.0

    async def run(self) -> None:
        """Read, then write each minute what is due, until cancelled. What fails is retried in a minute."""
        while True:
            try:
                if not self.workloads.is_read:
                    await self.read()
                await self.write()
            except errors.ApiServerError as error:
                log.warning("cannot keep the history of workloads: %s; retrying in %g s", error, _CHECK_SECONDS)
            self.telemetry.workload_entries.set(len(self.workloads))
            self.telemetry.workload_owners.set(len(self.workloads.owners))
            self.telemetry.score_priors.set(len(self.pools.priors))
            await self.sleep(_CHECK_SECONDS)

    async def read(self) -> None:
        """Read everything; an object that cannot be read is reported, and begins again. Raises ApiServerError."""
        listing = await objects.list_all(
            self.api,
            resources.CONFIG_MAPS,
            namespace=self.own,
            label_selector=SELECTOR,
            decode=ConfigMap,
            page_size=20,
        )
        for config_map in listing.items:
            text = (config_map.data or {}).get(KEY, "")
            try:
                if config_map.metadata.name == PRIORS:
                    self.pools.read(text)
                else:
                    self._read_namespace(text)
            except (Unreadable, ValueError) as error:
                metadata = config_map.metadata
                about = Subject(resources.CONFIG_MAPS, metadata.name, metadata.uid, namespace=self.own)
                await self.recorder.event(
                    about, "Warning", UNREADABLE,
                    f"{KEY}: {error}; its history begins again, and new pods are charged their request until then",
                )  # fmt: skip
        self.workloads.is_read = True

    def _read_namespace(self, text: str) -> None:
        document = history.from_json(text)
        namespace = Namespace(read_seconds=document.time, stored_seconds=document.time)
        namespace.replace(history.keep_heaviest(document.entries, self.workloads.now_seconds()))
        self.workloads.namespaces[document.namespace] = namespace

    async def write(self) -> None:
        """Write the namespaces and priors that are due. Raises ApiServerError."""
        for name, namespace in list(self.workloads.namespaces.items()):
            now = self.workloads.now_seconds()
            if now - namespace.stored_seconds >= WRITE_SECONDS:
                self.workloads.prune(namespace)
                namespace.stored_seconds = now
                if namespace.is_changed:
                    await self._write_namespace(name, namespace, int(now))
                    await self.sleep(_PAUSE_SECONDS)
        self.pools.renew()
        now = self.workloads.now_seconds()
        if self.pools.is_changed and now - self._priors_stored_seconds >= WRITE_SECONDS:
            await self._put(PRIORS, self.pools.to_json(), None)
            self.pools.is_changed, self._priors_stored_seconds = False, now

    async def _write_namespace(self, name: str, namespace: Namespace, now: int) -> None:
        namespace.is_changed = False  # what comes while it is written is written in an hour
        try:
            await self._put(name_of(name), history.to_json(name, namespace.entries(), now), name)
        except errors.NotFound:
            log.info("namespace %s: dropped its history, it is gone", name)
            self.workloads.namespaces.pop(name, None)
        except errors.ApiServerError:
            namespace.is_changed, namespace.stored_seconds = True, now - WRITE_SECONDS + _RETRY_SECONDS
            raise

    async def _put(self, name: str, text: str, owner: str | None) -> None:
        """Replace or create a ConfigMap, owned by a namespace. Raises NotFound where that is gone."""
        data = {"data": {KEY: text}}
        with self.telemetry.write("workload_history"):
            try:
                await objects.merge_patch(
                    self.api, resources.CONFIG_MAPS, name, data, namespace=self.own, decode=AnyObject
                )
            except errors.NotFound:
                metadata: dict[str, Any] = {"name": name, "namespace": self.own, "labels": LABELS}
                if owner is not None:
                    namespace = await objects.get(self.api, resources.NAMESPACES, owner, decode=AnyObject)
                    reference = {"apiVersion": "v1", "kind": "Namespace", "name": owner, "uid": namespace.metadata.uid}
                    metadata["ownerReferences"] = [reference]
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **data}
                await objects.create(self.api, resources.CONFIG_MAPS, body, namespace=self.own, decode=AnyObject)
