"""Follow what admits Mid pods on no node: `midEmergency`, and the annotation `koordinator.sh/mid-quota` of Namespaces.

`midEmergency` is read in the manager's last good configuration. The manager also closes each node by its status
annotation; thousands of nodes take longer than this one object. Without permission to read it, or without a manager, no
node is closed by this way.

Of Namespaces the metadata alone is read. Until the first list is complete, no new Mid pod is accepted: a quota that is
not known cannot be held. Without the permission this stays so, with that reason at each refused pod;
`namespaceQuotas: false` of MidGuard ends it. A watch that breaks later keeps the last known quotas.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass

import msgspec

from api_types import names
from api_types.colocation import document
from api_types.kubernetes import pods
from apiserver_client import resources, session, watching
from scheduler_plugin.state.mid_quotas import MidQuotas
from scheduler_plugin.state.node_columns import NodeColumns

log = logging.getLogger(__name__)


class LastGoodConfigMap(msgspec.Struct, frozen=True):
    """The ConfigMap with the last good configuration."""

    data: dict[str, str] | None = None


@dataclass(eq=False)
class EmergencyWatch:
    """Sets `frozen` of the columns; `namespace` is that of the manager."""

    api: session.Session
    columns: NodeColumns
    namespace: str

    async def run(self) -> None:
        """Follow the ConfigMap until cancelled."""
        events = watching.list_then_watch(
            self.api,
            resources.CONFIG_MAPS,
            namespace=self.namespace,
            field_selector=f"metadata.name={names.LAST_GOOD_CONFIG}",
            decode=LastGoodConfigMap,
        )
        async with contextlib.aclosing(events):
            async for event in events:
                self._apply(event)

    def _apply(self, event: watching.Event[LastGoodConfigMap]) -> None:
        if isinstance(event, watching.Changed):
            frozen = is_frozen((event.object.data or {}).get(names.COLOCATION_CONFIG_KEY))
        elif isinstance(event, watching.Deleted) or (isinstance(event, watching.Synced) and not event.keys):
            frozen = False
        else:
            return
        if frozen is not None and frozen != self.columns.frozen:
            log.warning("midEmergency: %s", "no node admits new Mid pods" if frozen else "nodes admit Mid pods again")
            self.columns.frozen = frozen


def is_frozen(text: str | None) -> bool | None:
    """Return whether a configuration freezes Mid; None where it is not valid, which changes nothing."""
    config = document.read_config(text).config
    return None if config is None else (config.mid_emergency or "none") != "none"


class WatchedNamespace(msgspec.Struct, frozen=True):
    """The metadata of a Namespace."""

    metadata: pods.TenantMeta = pods.TenantMeta()


@dataclass(eq=False)
class NamespaceWatch:
    """Sets the quotas of namespaces."""

    api: session.Session
    quotas: MidQuotas
    state: watching.WatchState

    async def run(self) -> None:
        """Follow the Namespaces until cancelled."""
        self.quotas.is_known = False
        events = watching.list_then_watch(
            self.api,
            resources.NAMESPACES,
            decode=WatchedNamespace,
            metadata_only=True,
            remember=lambda key: key.name,
            state=self.state,
        )
        async with contextlib.aclosing(events):
            async for event in events:
                self._apply(event)

    def _apply(self, event: watching.Event[WatchedNamespace]) -> None:
        quotas = self.quotas
        if isinstance(event, watching.Changed):
            key = names.ANNOTATION_MID_QUOTA
            text = pods.annotation_map(event.object.metadata).get(key)
            if problem := quotas.namespace_changed(event.key.name, text):
                log.warning("namespace %s: annotation %s: %s; it gets no new Mid pod", event.key.name, key, problem)
        elif isinstance(event, watching.Deleted):
            quotas.namespace_changed(event.key.name, None)
        elif isinstance(event, watching.Synced):
            quotas.keep_namespaces(event.keys)
            quotas.is_known = True
