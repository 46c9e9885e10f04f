"""Wake refused pods, and follow the claims of reserved ones, through the API server."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, times
from apiserver_client import decoding, errors, objects, resources, session
from scheduler_plugin.queueing.refused_pods import RefusedPods, Retry
from scheduler_plugin.queueing.reservations import Reservation, Reservations

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.25
"""A pod is woken within this time after its node began to pass."""
_RESERVATION_SECONDS: Final = 0.5
_MOST_AT_ONCE: Final = 16
"""Patches that are sent at once, and as many pods whose claims are read."""
_SPACING_SECONDS: Final = 0.02
"""Patches begin this long after one another, so that those of one round share a few connections: the TLS buffer of
each takes 256 KiB."""
_MOST_BEGUN: Final = 64
"""No pod is chosen to be woken while so many patches have no answer: where requests hang, they must not pile up."""
_LONGEST_PATCH_SECONDS: Final = 5.0


class _ClaimSpec(msgspec.Struct, rename="camel", frozen=True):
    volume_name: str = ""
    """Volume that the claim is bound to; empty before."""


class _Claim(msgspec.Struct, frozen=True):
    metadata: pods.TenantMeta = pods.TenantMeta()
    spec: _ClaimSpec = _ClaimSpec()


class QueueingTasks:
    """Tasks over the refused and the reserved pods; `clock` returns Unix time."""

    def __init__(
        self, api: session.Session, refused: RefusedPods, reservations: Reservations, clock: Callable[[], float]
    ) -> None:
        self._api = api
        self._refused = refused
        self._reservations = reservations
        self._clock = clock
        self._patch_slots = asyncio.Semaphore(_MOST_AT_ONCE)
        self._begins = asyncio.Lock()
        """Held by the patch that begins next."""
        self._patching: set[asyncio.Task[None]] = set()
        self._read_slots = asyncio.Semaphore(_MOST_AT_ONCE)  # of its own: thousands of pods may wait for volumes
        self._reading: dict[Reservation, asyncio.Task[None]] = {}
        self._last_problem = ""
        self._blocked_until = 0.0
        """Monotonic time until which the apiserver asks for no further request."""

    async def wake(self) -> None:
        """Wake refused pods until cancelled."""
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            if time.monotonic() < self._blocked_until or len(self._patching) >= _MOST_BEGUN:
                continue
            if not self._refused.begins_round(time.monotonic()):
                continue
            try:
                for retry in self._refused.choose(self._clock(), time.monotonic()):
                    await asyncio.sleep(0)  # a call of kube-scheduler waits for one pod at most
                    if retry is not None:
                        self._begin_to_annotate(retry)
            except Exception:
                log.exception("cannot choose the refused pods to wake; trying again")

    async def follow_claims(self) -> None:
        """Read the claims of reserved pods until cancelled."""
        while True:
            await asyncio.sleep(_RESERVATION_SECONDS)
            try:
                for reservation in self._reservations.due(time.monotonic()):
                    self._begin_to_check(reservation)
            except Exception:
                log.exception("cannot follow the claims of reserved pods; trying again")

    def _begin_to_annotate(self, retry: Retry) -> None:
        """Wake a pod in the background: one request that hangs holds no other one back."""
        task = asyncio.create_task(self._annotate(retry))
        self._patching.add(task)
        task.add_done_callback(self._patching.discard)

    def _begin_to_check(self, reservation: Reservation) -> None:
        """Read the claims of a pod in the background, unless that goes on."""
        if reservation in self._reading:
            self._reservations.still_read(reservation, self._clock(), time.monotonic())
            return
        task = self._reading[reservation] = asyncio.create_task(self._check(reservation))
        task.add_done_callback(lambda _done: self._reading.pop(reservation, None))

    async def _annotate(self, retry: Retry) -> None:
        namespace, _slash, name = retry.pod.key.partition("/")
        text = times.format_micro_time(dt.datetime.fromtimestamp(self._clock(), dt.UTC))
        metadata = {"uid": retry.pod.uid, "annotations": {names.ANNOTATION_RETRY_SCHEDULING: text}}
        async with self._patch_slots:
            async with self._begins:
                await asyncio.sleep(_SPACING_SECONDS)
            try:
                async with asyncio.timeout(_LONGEST_PATCH_SECONDS):
                    await objects.merge_patch(
                        self._api, resources.PODS, name, {"metadata": metadata}, namespace=namespace,
                        decode=decoding.Envelope,
                    )  # fmt: skip
            except (errors.NotFound, errors.Conflict) as error:
                self._refused.is_gone(retry.pod.uid)
                log.debug("pod %s: cannot be woken: %s", retry.pod.key, error)
            except errors.Invalid as error:  # full of annotations, or another pod of that name
                self._refused.not_woken(retry.pod.uid, ever=True)
                log.debug("pod %s: cannot be woken: %s", retry.pod.key, error)
            except (errors.ApiServerError, TimeoutError) as error:
                self._refused.failed += 1
                self._refused.not_woken(retry.pod.uid, ever=False)
                asked_for = error.retry_after_seconds if isinstance(error, errors.ApiServerError) else None
                self._blocked_until = max(self._blocked_until, time.monotonic() + (asked_for or 0.0))
                failure = str(error) or f"no answer within {_LONGEST_PATCH_SECONDS:g} s"
                self._report(
                    f"pod {retry.pod.key}: cannot set annotation {names.ANNOTATION_RETRY_SCHEDULING}: {failure}"
                )
            else:
                log.debug("pod %s: woken (%s)", retry.pod.key, retry.cause.value)

    async def _check(self, reservation: Reservation) -> None:
        namespace = reservation.pod.metadata.namespace
        async with self._read_slots:
            try:
                selected = await self._selected_node(namespace, reservation.next_claims(), reservation.node)
            except errors.ApiServerError as error:
                self._report(f"pod {namespace}/{reservation.pod.metadata.name}: cannot read its claims: {error}")
                self._reservations.unread(reservation, self._clock(), time.monotonic())
                return
        self._reservations.checked(reservation, selected, self._clock(), time.monotonic())

    async def _selected_node(self, namespace: str, claims: Sequence[str], expected: str) -> str | None:
        """Return the node for which a volume is provisioned. A bound claim keeps the node of its first pod."""
        of_bound = None
        for claim in claims:
            try:
                answer = await objects.get(
                    self._api, resources.PERSISTENT_VOLUME_CLAIMS, claim, namespace=namespace, decode=_Claim
                )
            except errors.NotFound:
                continue
            node = pods.annotation_map(answer.metadata).get(names.ANNOTATION_SELECTED_NODE)
            if node and not answer.spec.volume_name:
                return node
            of_bound = expected if node == expected else of_bound
        return of_bound

    def _report(self, problem: str) -> None:
        kind = problem.partition(": ")[2]
        log.log(logging.DEBUG if kind == self._last_problem else logging.WARNING, "%s", problem)
        self._last_problem = kind
