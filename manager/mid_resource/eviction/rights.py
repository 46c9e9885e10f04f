"""Whether this process may evict pods, asked of the apiserver; the chart grants it by namespace, by default nowhere."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from typing import Any, Final

from apiserver_client import errors, objects, resources, session

log = logging.getLogger(__name__)

ALL_NAMESPACES: Final = "*"
KNOWN_FOR: Final = dt.timedelta(minutes=1)
_MOST_NAMESPACES: Final = 10_000

FIX: Final = "set the chart's value manager.eviction.namespaces"


class Rights:
    """Answers by namespace, each asked again after a minute.

    `namespaces` are those that are to have the right, separated by commas; `now` returns aware time.
    """

    def __init__(self, api: session.Session, namespaces: str, now: Callable[[], dt.datetime]) -> None:
        self._api = api
        named = (each.strip() for each in namespaces.split(","))
        self._namespaces = [each for each in named if each not in ("", ALL_NAMESPACES)]
        self._now = now
        self._known: dict[str, tuple[bool, dt.datetime]] = {}
        self.everywhere = False
        """Whether the last `refresh` found the right in every namespace that is to have it: the take-back gate."""

    async def refresh(self) -> bool:
        """Ask again; return whether `everywhere` has changed. A failed request changes nothing."""
        try:
            found = await self._may_evict("") or (
                bool(self._namespaces) and all([await self._may_evict(each) for each in self._namespaces])
            )
        except errors.ApiServerError as error:
            log.warning("cannot ask whether pods may be evicted: %s", error)
            return False
        before, self.everywhere = self.everywhere, found
        return before != found

    async def in_namespace(self, namespace: str) -> bool:
        """Return whether pods of a namespace may be evicted. Raises errors.ApiServerError."""
        return await self._may_evict("") or await self._may_evict(namespace)

    async def lost(self, namespace: str) -> bool:
        """Ask again after an eviction was forbidden; return whether the right is missing, or nothing answers.

        Where it is not missing, admission has refused that one pod, and others may be evicted.
        """
        for each in ("", namespace):
            self._known.pop(each, None)
        try:
            return not await self.in_namespace(namespace)
        except errors.ApiServerError as error:
            log.warning("cannot ask whether pods may be evicted: %s", error)
            return True

    async def _may_evict(self, namespace: str) -> bool:
        known = self._known.get(namespace)
        now = self._now()
        if known is not None and dt.timedelta() <= now - known[1] < KNOWN_FOR:
            return known[0]
        wanted = {"namespace": namespace, "verb": "create", "resource": "pods", "subresource": "eviction"}
        body = {
            "apiVersion": resources.SELF_SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": resources.SELF_SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {"resourceAttributes": wanted},
        }
        answer: dict[str, Any] = await objects.create(self._api, resources.SELF_SUBJECT_ACCESS_REVIEWS, body)
        allowed = bool((answer.get("status") or {}).get("allowed"))
        if len(self._known) >= _MOST_NAMESPACES:
            self._known.clear()
        self._known[namespace] = (allowed, now)
        return allowed
