"""Restore the CPU limits of Mid pods that agents have lowered.

A pod whose limit cannot be restored, because a ResourceQuota has no room or because its author prevents it, is given up
after some attempts: what a tenant writes must not hold up an uninstallation.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from api_types.kubernetes import quantities
from api_types.mid_pods import cpu_limits
from api_types.mid_pods.cpu_limits import ResizablePod
from apiserver_client import cluster_events, decoding, errors, objects, resources, session
from manager.cli.steps import Steps

log = logging.getLogger(__name__)
_UNREAD: Final = "pod %s cannot be read, and no limit of it is restored: %s"

WRITER: Final = "koord-suite-uninstall"
"""Name on a restored limit. It is not the agent's, so another agent takes the limit for the author's."""
SETTLE_SECONDS: Final = 6.0
"""Time after which no patch of an agent is under way any more: it waits 5 s for an answer."""
IN_FORCE_SECONDS: Final = 45.0
"""Longest time to wait for kubelets after all limits are restored: one that is away must not hold up the command."""
AT_ONCE: Final = 8
MOST_ATTEMPTS: Final = 6


@dataclass(slots=True)
class _RefusedRestore:
    """A pod whose patch was refused."""

    namespace: str
    name: str
    attempts: int = 0
    problem: str = ""

    @property
    def is_given_up(self) -> bool:
        return self.attempts >= MOST_ATTEMPTS


async def restore(limits: LoweredLimits, steps: Steps) -> None:
    """Restore all limits, after the last patch of an agent has ended, and wait until kubelets have put them in force.

    Mid resources may be taken from the nodes only afterwards: a kubelet admits each resize again, and defers that of a
    pod whose Mid resources the node no longer has. The caller sets a timeout.
    """
    await asyncio.sleep(SETTLE_SECONDS)
    await steps.until_empty("lowered CPU limits of Mid pods", limits.restore)
    await limits.give_up()
    try:
        async with asyncio.timeout(IN_FORCE_SECONDS):
            await steps.until_empty("restored CPU limits that no kubelet has put in force", limits.not_in_force)
    except TimeoutError:
        log.warning("continuing without waiting for these kubelets: %s", steps.obstacle)


class LoweredLimits:
    """Lowered limits in the whole cluster."""

    def __init__(self, api: session.Session, now: Callable[[], dt.datetime]) -> None:
        self._api = api
        self._now = now
        self._refused: dict[str, _RefusedRestore] = {}
        """By UID."""
        self._restored: dict[str, tuple[str, str]] = {}
        """UID of each pod with a restored limit that may not be in force yet -> its namespace and name."""

    async def restore(self) -> list[str]:
        """Set every lowered limit to its original; return the pods that had one, without those that are given up.

        Raises errors.ApiServerError.
        """
        lowered = await self._lowered()
        self._refused = {uid: pod for uid, pod in self._refused.items() if uid in lowered}
        tried = {
            uid: one for uid, one in lowered.items() if uid not in self._refused or not self._refused[uid].is_given_up
        }
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(uid: str, namespace: str, name: str, mid: ResizablePod) -> None:
            async with slots:
                await self._restore(uid, namespace, name, mid)

        outcomes = await asyncio.gather(*(one(uid, *pod) for uid, pod in tried.items()), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return sorted(f"{namespace}/{name}" for namespace, name, _ in tried.values())

    async def not_in_force(self) -> list[str]:
        """Return the pods that do not run with their restored limits yet. Raises errors.ApiServerError."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(uid: str, namespace: str, name: str) -> None:
            async with slots:
                if await self._is_in_force(uid, namespace, name):
                    del self._restored[uid]

        await asyncio.gather(*(one(uid, *where) for uid, where in list(self._restored.items())))
        return sorted(f"{namespace}/{name}" for namespace, name in self._restored.values())

    async def _is_in_force(self, uid: str, namespace: str, name: str) -> bool:
        listed = await objects.list_all(
            self._api,
            resources.PODS,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
            decode=cpu_limits.WrittenPod,
            from_cache=True,
            on_unreadable=lambda _: None,
        )
        try:
            return all(pod.metadata.uid != uid or cpu_limits.is_in_force(pod) for pod in listed.items)
        except quantities.InvalidQuantity:
            return True

    async def give_up(self) -> list[str]:
        """Log the pods that keep a lowered limit, and record an Event on each; return their names."""
        given_up = [(uid, pod) for uid, pod in self._refused.items() if pod.is_given_up]
        for uid, pod in given_up:
            log.warning("pod %s/%s keeps a lowered CPU limit: %s", pod.namespace, pod.name, pod.problem)
            event = cluster_events.body(
                cluster_events.Subject(resources.PODS, pod.name, uid, pod.namespace),
                severity="Warning",
                reason=cpu_limits.NOT_RESTORED,
                message=f"keeps a CPU limit below its original after the end of suppression: {pod.problem}",
                reporter=WRITER,
                now=self._now(),
            )
            with contextlib.suppress(errors.ApiServerError):
                await objects.create(self._api, resources.EVENTS, event, namespace=pod.namespace)
        return sorted(f"{pod.namespace}/{pod.name}" for _, pod in given_up)

    async def _lowered(self) -> dict[str, tuple[str, str, ResizablePod]]:
        """Return namespace, name and limits of each pod with a lowered limit, by UID. Only one pod is kept decoded."""
        pods_by_uid = {}
        items = objects.list_items(
            self._api,
            resources.PODS,
            namespace=None,
            parameters={},
            on_unreadable=lambda key, error: log.warning(_UNREAD, "/".join(key), error),
        )
        async with contextlib.aclosing(items):
            async for item in items:
                if isinstance(item, decoding.PageMetadata):
                    continue
                key = decoding.identify(item, resources.PODS.kind).key
                try:
                    pod = decoding.decode_object(item, resources.PODS.kind, key, cpu_limits.WrittenPod)
                    mid = cpu_limits.resizable_pod(pod)
                except (errors.DecodeError, quantities.InvalidQuantity) as error:
                    log.warning(_UNREAD, "/".join(key), error)
                    continue
                except Exception:  # what a tenant writes must not keep the limits of all others low
                    log.exception("pod %s: unexpected error, and no limit of it is restored", "/".join(key))
                    continue
                if mid is not None and mid.is_lowered:
                    pods_by_uid[pod.metadata.uid] = pod.metadata.namespace, pod.metadata.name, mid
        return pods_by_uid

    async def _restore(self, uid: str, namespace: str, name: str, mid: ResizablePod) -> None:
        body = cpu_limits.patch(uid, mid, mid.originals())
        try:
            await objects.resize(
                self._api, name, body, namespace=namespace, field_manager=WRITER, decode=decoding.Envelope
            )
        except (errors.ServerError, errors.Throttled, errors.Unauthorized):
            raise
        except errors.StatusError as error:
            refused = self._refused.setdefault(uid, _RefusedRestore(namespace, name))
            quota = cpu_limits.refusing_quota(error.server_message)
            refused.attempts += 1
            refused.problem = cpu_limits.quota_advice(quota, namespace) if quota else str(error)
        else:
            self._refused.pop(uid, None)
            self._restored[uid] = namespace, name
