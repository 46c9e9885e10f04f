"""Clean-up of everything that the suite writes into a cluster beside its installed objects.

Each step deletes what it finds and returns the names; it is finished when it returns an empty list. Every step is safe
to repeat after any interruption. All raise errors.ApiServerError.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric import mid_status
from apiserver_client import decoding, errors, objects, resources, session
from manager.leader_election import lease

log = logging.getLogger(__name__)

IDENTITY: Final = "koord-suite-uninstall"
AT_ONCE: Final = 8  # parallel writes, as the manager's own

_NO_MID: Final = dict.fromkeys(names.MID_RESOURCES)
CLEAN_NODE: Final[dict[str, Any]] = {
    "metadata": {"annotations": dict.fromkeys((names.ANNOTATION_MID_STATUS, names.ANNOTATION_MID_EVICTION))},
    "status": {"capacity": _NO_MID, "allocatable": _NO_MID},
}
"""Merge patch of nodes/<name>/status, for both lists at once: the kubelet would keep a value left in one of them."""


class Selector(msgspec.Struct, rename="camel", frozen=True):
    """Labels of a Deployment's pods."""

    match_labels: dict[str, str] = {}


class DeploymentSpec(msgspec.Struct, frozen=True):
    """Wanted number of pods, and their selector."""

    replicas: int | None = None
    selector: Selector = Selector()


class Deployment(msgspec.Struct, frozen=True):
    """A Deployment."""

    spec: DeploymentSpec = DeploymentSpec()


class Cleanup:
    """Steps of the clean-up, in one namespace. `now` returns aware time."""

    def __init__(self, api: session.Session, namespace: str, now: Callable[[], dt.datetime]) -> None:
        self._api = api
        self._namespace = namespace
        self._now = now

    async def stop(self, deployments: Iterable[str]) -> list[str]:
        """Scale Deployments to zero; return the pods that still run."""
        running = []
        for name in deployments:
            with contextlib.suppress(errors.NotFound):
                running += await self._stop(name)
        return running

    async def _stop(self, name: str) -> list[str]:
        namespace = self._namespace
        deployment = await objects.get(self._api, resources.DEPLOYMENTS, name, decode=Deployment, namespace=namespace)
        if deployment.spec.replicas != 0:
            await objects.merge_patch(
                self._api,
                resources.DEPLOYMENTS,
                name,
                {"spec": {"replicas": 0}},
                subresource="scale",
                namespace=namespace,
                decode=decoding.Envelope,
            )
        labels = ",".join(f"{key}={value}" for key, value in deployment.spec.selector.match_labels.items())
        running = await objects.list_all(
            self._api, resources.PODS, label_selector=labels, decode=pods.Pod, namespace=namespace
        )
        return [pod.metadata.name for pod in running.items if not pods.is_terminal(pod)]

    async def take_lease(self, name: str, hold_seconds: float) -> float:
        """Take a Lease from any holder; return the seconds for which that holder may still act on it.

        A manager that runs on where its kubelet is unreachable observes the new holder, and stops to write.
        """
        spec, version = lease.LeaseSpec(), ""
        with contextlib.suppress(errors.NotFound):
            current = await objects.get(
                self._api, resources.LEASES, name, namespace=self._namespace, decode=lease.Lease
            )
            spec, version = current.spec, current.metadata.resource_version
        record = lease.held_by(IDENTITY, spec if version else None, hold_seconds, self._now())
        await self._put(name, record, version)
        has_other_holder = spec.holder_identity not in (None, "", IDENTITY)
        return float(spec.lease_duration_seconds or 0) if has_other_holder else 0.0

    async def release_lease(self, name: str) -> None:
        """Release a Lease that this program holds, so that a manager can lead again."""
        with contextlib.suppress(errors.NotFound):
            current = await objects.get(
                self._api, resources.LEASES, name, namespace=self._namespace, decode=lease.Lease
            )
            if current.spec.holder_identity == IDENTITY:
                await self._put(name, lease.released(current.spec, self._now()), current.metadata.resource_version)

    async def _put(self, name: str, spec: lease.LeaseSpec, version: str) -> None:
        document = lease.body(name, self._namespace, spec, version)
        if version:
            await objects.replace(self._api, resources.LEASES, name, document, namespace=self._namespace)
        else:
            await objects.create(self._api, resources.LEASES, document, namespace=self._namespace)

    async def clean_nodes(self) -> list[str]:
        """Remove Mid resources and the suite's annotations from the nodes; return the nodes that had any."""
        listing = await objects.list_all(self._api, resources.NODES, decode=pods.Node)
        marked = [node.metadata.name for node in listing.items if carries_traces(node)]

        async def clean(name: str) -> None:
            await objects.merge_patch_status(self._api, resources.NODES, name, CLEAN_NODE, decode=decoding.Envelope)

        await _each(marked, clean)
        return marked

    async def delete_node_metrics(self) -> list[str]:
        """Delete every NodeMetric; return those that existed."""
        try:
            listing = await objects.list_all(
                self._api, resources.NODE_METRICS, decode=decoding.Envelope, metadata_only=True
            )
        except errors.UnknownResource:
            return []  # the CRD is gone, and all of them with it
        there = [metric.metadata.name for metric in listing.items]
        await _each(there, lambda name: objects.delete(self._api, resources.NODE_METRICS, name))
        return there

    async def clear_config_status(self, config_map: str) -> list[str]:
        """Remove the manager's annotation from the users' ConfigMap, which may stay."""
        note = {"metadata": {"annotations": {names.ANNOTATION_COLOCATION_CONFIG_STATUS: None}}}
        with contextlib.suppress(errors.NotFound):
            await objects.merge_patch(self._api, resources.CONFIG_MAPS, config_map, note, namespace=self._namespace)
        return []

    async def delete_pods(self, some: Iterable[str]) -> list[str]:
        """Delete pods that helm forgets, such as the one of `helm test`."""
        await _each(some, lambda name: objects.delete(self._api, resources.PODS, name, namespace=self._namespace))
        return []

    async def delete_leases(self, leases: Iterable[str]) -> list[str]:
        """Delete the Leases that the suite's programs created."""
        await _each(leases, lambda name: objects.delete(self._api, resources.LEASES, name, namespace=self._namespace))
        return []


def carries_traces(node: pods.Node) -> bool:
    """Check whether a node has a Mid resource, a status annotation under any key, or an eviction annotation."""
    published = {**(node.status.capacity or {}), **(node.status.allocatable or {})}
    has_mid = any(mid in published for mid in names.MID_RESOURCES)
    is_closed = names.ANNOTATION_MID_EVICTION in pods.annotation_map(node.metadata)
    return has_mid or is_closed or mid_status.text_of(node) is not None


async def _each(some: Iterable[str], act: Callable[[str], Awaitable[object]]) -> None:
    """Act on all names, a few in parallel, even where one fails; an object that is gone counts as done."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        async with slots:
            with contextlib.suppress(errors.NotFound):
                await act(name)

    for outcome in await asyncio.gather(*(one(name) for name in some), return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
