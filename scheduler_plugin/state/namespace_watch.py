"""Follow the annotation `koordinator.sh/mid-quota` of Namespaces, whose metadata alone is read.

Until the first list is complete, no new Mid pod is accepted: a quota that is not known cannot be held. Without the
permission this stays so, with that reason at each refused pod; `namespaceQuotas: false` of MidGuard ends it. A watch
that breaks later keeps the last known quotas.
"""

from __future__ import annotations

import contextlib
import logging

import msgspec

from api_types import names
from api_types.kubernetes import pods
from apiserver_client import resources, session, watching
from scheduler_plugin.state.mid_quotas import MidQuotas

log = logging.getLogger(__name__)


class WatchedNamespace(msgspec.Struct, frozen=True):
    """The metadata of a Namespace."""

    metadata: pods.ObjectMeta = pods.ObjectMeta()


class NamespaceWatch:
    """Sets the quotas of namespaces."""

    def __init__(self, api: session.Session, quotas: MidQuotas, state: watching.WatchState) -> None:
        self._api = api
        self._quotas = quotas
        self._state = state

    async def run(self) -> None:
        """Follow the Namespaces until cancelled."""
        self._quotas.is_known = False
        events = watching.list_then_watch(
            self._api,
            resources.NAMESPACES,
            decode=WatchedNamespace,
            metadata_only=True,
            remember=lambda key: key.name,
            state=self._state,
        )
        async with contextlib.aclosing(events):
            async for event in events:
                self._apply(event)

    def _apply(self, event: watching.Event[WatchedNamespace]) -> None:
        quotas = self._quotas
        if isinstance(event, watching.Changed):
            key = names.ANNOTATION_MID_QUOTA
            text = pods.annotation_map(event.object.metadata).get(key)
            if problem := quotas.namespace_changed(event.key.name, text):
                log.warning("namespace %s: annotation %s: %s; it gets no new Mid pod", event.key.name, key, problem)
        elif isinstance(event, watching.Deleted):
            quotas.namespace_deleted(event.key.name)
        elif isinstance(event, watching.Synced):
            quotas.keep_namespaces(event.keys)
            quotas.is_known = True
