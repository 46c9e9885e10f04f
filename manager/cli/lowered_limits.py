"""`python -m manager restore-limits`: restore the CPU limits of Mid pods that agents have lowered, where they cannot.

The chart runs it after the upgrade that takes the right from the agents. Where agents still lower limits, set
`midSuppressThresholdPercent` to 0 first: they then restore the limits themselves, step by step.

A pod whose limit cannot be restored, because a ResourceQuota has no room or because its author prevents it, is given up
after some attempts: what a tenant writes must not hold up an uninstallation.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pydantic

from api_types.kubernetes import pods, quantities
from api_types.kubernetes.priority_and_qos import PodT
from api_types.mid_pods import cpu_limits
from api_types.mid_pods.cpu_limits import ResizablePod
from apiserver_client import backoff, cluster_events, connection, decoding, errors, objects, resources, session
from component_base import clock, logs, settings

log = logging.getLogger(__name__)

_PAUSES: Final = backoff.Backoff(first_seconds=0.25, longest_seconds=5.0)


class Steps:
    """Steps of one run, and what the newest one waits for."""

    def __init__(self) -> None:
        self.obstacle = "no step was tried"
        """What the newest step still waits for."""

    async def until_empty(self, what: str, step: Callable[[], Awaitable[Sequence[str]]]) -> None:
        """Repeat a step until it returns nothing that is left. The caller sets a timeout."""
        attempt = 0
        while True:
            asked_seconds = 0.0
            try:
                remaining = await step()
            except errors.ApiServerError as error:
                obstacle = f"{what}: {error}"
                asked_seconds = error.retry_after_seconds or 0.0
            else:
                if not remaining:
                    log.info("%s: done", what)
                    return
                obstacle = f"{what}: {len(remaining)} left: {logs.some(remaining)}"
            if obstacle != self.obstacle:
                log.info("%s", obstacle)
            self.obstacle = obstacle
            await asyncio.sleep(max(_PAUSES.seconds(attempt, random.random), asked_seconds))
            attempt += 1


_UNREAD: Final = "pod %s cannot be read, and no limit of it is restored: %s"

WRITER: Final = "koord-suite-uninstall"
"""Name on a restored limit. It is not the agent's, so another agent takes the limit for the author's."""
SETTLE_SECONDS: Final = 6.0
"""Time after which no patch of an agent is under way any more: it waits 5 s for an answer."""
IN_FORCE_SECONDS: Final = 45.0
"""Longest time to wait for kubelets after all limits are restored: one that is away must not hold up the command."""
AT_ONCE: Final = 8
MOST_ATTEMPTS: Final = 6


async def run_all(acts: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Do everything, a few things in parallel; raise the first error once all is done."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(act: Callable[[], Awaitable[object]]) -> None:
        async with slots:
            await act()

    for outcome in await asyncio.gather(*map(one, acts), return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


async def read_pods(api: session.Session, decode: type[PodT], read: Callable[[PodT], None]) -> None:
    """Read each pod of the cluster, one at a time; one that cannot be read is named and left out."""
    items = objects.list_items(
        api, resources.PODS, namespace=None, parameters={},
        on_unreadable=lambda key, error: log.warning(_UNREAD, "/".join(key), error),
    )  # fmt: skip
    async with contextlib.aclosing(items):
        async for item in items:
            if isinstance(item, decoding.PageMetadata):
                continue
            key = decoding.identify(item, resources.PODS.kind).key
            try:
                read(decoding.decode_object(item, resources.PODS.kind, key, decode))
            except (errors.DecodeError, quantities.InvalidQuantity) as error:
                log.warning(_UNREAD, "/".join(key), error)
            except Exception:  # what a tenant writes must not hold up the pods of all others
                log.exception("pod %s: unexpected error, and no limit of it is restored", "/".join(key))


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


@dataclass(eq=False)
class LoweredLimits:
    """Lowered limits in the whole cluster."""

    api: session.Session
    now: Callable[[], dt.datetime]

    def __post_init__(self) -> None:
        self._refused: dict[str, tuple[str, str, str]] = {}
        """UID of each pod whose limit is not restored -> its namespace and name, and why."""
        self._passes = 0
        self._restored: dict[str, tuple[str, str]] = {}
        """UID of each pod with a restored limit that may not be in force yet -> its namespace and name."""

    async def restore(self) -> list[str]:
        """Set every lowered limit to its original; return the pods that had one, none after MOST_ATTEMPTS passes.

        A tenant may make pods that seem lowered, one after another. Raises errors.ApiServerError.
        """
        lowered = await self._lowered()
        self._refused = {uid: pod for uid, pod in self._refused.items() if uid in lowered}
        if self._passes >= MOST_ATTEMPTS:
            for uid, (namespace, name, _) in lowered.items():
                self._refused.setdefault(uid, (namespace, name, "lowered after others were restored"))
            return []
        await run_all(functools.partial(self._restore, uid, *pod) for uid, pod in lowered.items())
        self._passes += 1
        return sorted(f"{namespace}/{name}" for namespace, name, _ in lowered.values())

    async def not_in_force(self) -> list[str]:
        """Return the pods that do not run with their restored limits yet. Raises errors.ApiServerError."""
        await run_all(
            functools.partial(self._forget_in_force, uid, *where) for uid, where in list(self._restored.items())
        )
        return sorted(f"{namespace}/{name}" for namespace, name in self._restored.values())

    async def _forget_in_force(self, uid: str, namespace: str, name: str) -> None:
        listed = await objects.list_all(
            self.api, resources.PODS, namespace=namespace, field_selector=f"metadata.name={name}",
            decode=cpu_limits.WrittenPod, from_cache=True, on_unreadable=lambda _: None,
        )  # fmt: skip
        if not any(pod.metadata.uid == uid and not cpu_limits.is_in_force(pod) for pod in listed.items):
            del self._restored[uid]

    async def give_up(self) -> None:
        """Log the pods that keep a lowered limit, and record an Event on each."""
        for uid, (namespace, name, problem) in self._refused.items():
            log.warning("pod %s/%s keeps a lowered CPU limit: %s", namespace, name, problem)
            event = cluster_events.body(
                cluster_events.Subject(resources.PODS, name, uid, namespace),
                severity="Warning",
                reason=cpu_limits.NOT_RESTORED,
                message=f"keeps a CPU limit below its original after the end of suppression: {problem}",
                reporter=WRITER,
                now=self.now(),
            )
            with contextlib.suppress(errors.ApiServerError):
                await objects.create(self.api, resources.EVENTS, event, namespace=namespace)

    async def _lowered(self) -> dict[str, tuple[str, str, ResizablePod]]:
        """Return namespace, name and limits of each pod with a lowered limit, by UID. Only one pod is kept decoded."""
        pods_by_uid: dict[str, tuple[str, str, ResizablePod]] = {}

        def read(pod: cpu_limits.WrittenPod) -> None:
            quantities.known(pods.limits(pod.spec))
            mid = cpu_limits.resizable_pod(pod)
            if mid is not None and mid.is_lowered:
                pods_by_uid[pod.metadata.uid] = pod.metadata.namespace, pod.metadata.name, mid

        await read_pods(self.api, cpu_limits.WrittenPod, read)
        return pods_by_uid

    async def _restore(self, uid: str, namespace: str, name: str, mid: ResizablePod) -> None:
        body = cpu_limits.patch(uid, mid, mid.originals())
        try:
            await objects.resize(
                self.api, name, body, namespace=namespace, field_manager=WRITER, decode=decoding.Envelope
            )
        except (errors.ServerError, errors.Throttled, errors.Unauthorized):
            raise
        except errors.StatusError as error:
            quota = cpu_limits.refusing_quota(error.server_message)
            problem = cpu_limits.quota_advice(quota, namespace) if quota else str(error)
            self._refused[uid] = namespace, name, problem
        else:
            self._refused.pop(uid, None)
            self._restored[uid] = namespace, name


class RestoreSettings(settings.ProcessSettings):
    """Settings of the command, validated once at start, frozen."""

    timeout_seconds: float = pydantic.Field(240.0, gt=0, le=86400)
    """Timeout of the whole command."""


async def run(to: connection.Connection, chosen: RestoreSettings) -> int:
    """Restore all limits within the timeout; return the exit code."""
    steps = Steps()
    async with session.connect(to, user_agent="koord-manager/restore-limits") as api:
        try:
            async with asyncio.timeout(chosen.timeout_seconds):
                await restore(LoweredLimits(api, clock.utc_now), steps)
        except TimeoutError:
            log.error(  # noqa: TRY400  # the message is complete
                "not finished after %g s: %s; where agents still lower limits, set midSuppressThresholdPercent to 0",
                chosen.timeout_seconds,
                steps.obstacle,
            )
            return 1
    return 0
