"""Create an empty NodeSLO for each node that has none, for Koordinator's agent beside this manager.

Koordinator's agent starts its prediction and its QoS once it has read the NodeSLO of its node, and only koord-manager
creates those. An empty one leaves every strategy at its default; koord-manager fills it if it comes back. Its owner is
the Node: Kubernetes deletes both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from api_types import names
from api_types.kubernetes.pods import AnyObject
from apiserver_client import errors, objects, resources, session
from manager.cache.object_watches import ObjectWatch
from manager.cache.store import NodeStore, Store, StoredNode
from manager.metrics.telemetry import Telemetry
from manager.node_metric import spec

log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 60.0


@dataclass(eq=False)
class NodeSloController:
    """Compares the nodes with the watched NodeSLOs. Where their CRD is missing it waits, and creates nothing."""

    api: session.Session
    nodes: NodeStore
    telemetry: Telemetry
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Watch, and create what is missing, until cancelled."""
        slos = Store(AnyObject)
        watch = ObjectWatch(
            self.api, resources.NODE_SLOS, store=slos, decode=AnyObject, add=lambda _: None,
            on_event=self.telemetry.watched, show_problem=_log_problem,
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            group.create_task(watch.follow())
            await watch.listed.wait()
            while True:
                await self.sleep(await self._create_missing(slos))

    async def _create_missing(self, slos: Store[AnyObject]) -> float:
        """Create the NodeSLO of each node without one; return the seconds until the next check."""
        for name in self.nodes.names():
            node = self.nodes.get(name)
            if node is not None and slos.get(name) is None:
                try:
                    await self._create(node)
                except errors.ApiServerError as error:
                    log.warning("node %s: cannot create its NodeSLO: %s; retrying in %g s", name, error, _RETRY_SECONDS)
                    return _RETRY_SECONDS
        return _CHECK_SECONDS

    async def _create(self, node: StoredNode) -> None:
        name, owners = node.metadata.name, spec.owner_references(None, node)
        metadata = {"name": name, "ownerReferences": owners}
        body = {"apiVersion": names.API_VERSION, "kind": resources.NODE_SLOS.kind, "metadata": metadata, "spec": {}}
        try:
            with self.telemetry.write("node_slo"):
                await objects.create(self.api, resources.NODE_SLOS, body)
        except errors.AlreadyExists:
            pass  # the watch has not delivered it yet
        else:
            log.info("node %s: created its NodeSLO for Koordinator's agent", name)


def _log_problem(_: str, problem: str | None) -> None:
    if problem is not None:
        log.info("there are no NodeSLOs to create: %s", problem)
