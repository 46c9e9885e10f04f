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
        named = (namespace.strip() for namespace in namespaces.split(","))
        self._namespaces = [namespace for namespace in named if namespace not in ("", ALL_NAMESPACES)]
        self._now = now
        self._answers: dict[str, tuple[bool, dt.datetime]] = {}
        self.everywhere = False
        """Whether the last `refresh` found the right in every namespace that is to have it: the take-back gate."""

    async def refresh(self) -> bool:
        """Ask again; return whether `everywhere` has changed. A failed request changes nothing."""
        try:
            is_allowed = await self._may_evict("") or (
                bool(self._namespaces) and all([await self._may_evict(name) for name in self._namespaces])
            )
        except errors.ApiServerError as error:
            log.warning("cannot ask whether pods may be evicted: %s", error)
            return False
        before, self.everywhere = self.everywhere, is_allowed
        return before != is_allowed

    async def in_namespace(self, namespace: str) -> bool:
        """Return whether pods of a namespace may be evicted. Raises errors.ApiServerError."""
        return await self._may_evict("") or await self._may_evict(namespace)

    async def lost(self, namespace: str) -> bool:
        """Ask again after an eviction was forbidden; return whether the right is missing, or nothing answers.

        Where it is not missing, admission has refused that one pod, and others may be evicted.
        """
        for asked in ("", namespace):
            self._answers.pop(asked, None)
        try:
            return not await self.in_namespace(namespace)
        except errors.ApiServerError as error:
            log.warning("cannot ask whether pods may be evicted: %s", error)
            return True

    async def _may_evict(self, namespace: str) -> bool:
        answered = self._answers.get(namespace)
        now = self._now()
        if answered is not None and dt.timedelta() <= now - answered[1] < KNOWN_FOR:
            return answered[0]
        attributes = {"namespace": namespace, "verb": "create", "resource": "pods", "subresource": "eviction"}
        body = {
            "apiVersion": resources.SELF_SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": resources.SELF_SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {"resourceAttributes": attributes},
        }
        answer: dict[str, Any] = await objects.create(self._api, resources.SELF_SUBJECT_ACCESS_REVIEWS, body)
        allowed = bool((answer.get("status") or {}).get("allowed"))
        if len(self._answers) >= _MOST_NAMESPACES:
            self._answers.clear()
        self._answers[namespace] = (allowed, now)
        return allowed
