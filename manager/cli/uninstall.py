"""`python -m manager uninstall`: stop the writers, then remove what they have written. The chart's pre-delete hook.

The order matters: a running manager restores what is removed. The command is safe to repeat, and runs from anywhere
with --kubeconfig where the hook cannot run. Each step removes what it finds and returns the names; it is finished when
it returns an empty list.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pydantic

from api_types import names
from api_types.kubernetes import pods, quantities
from api_types.node_metric import mid_status
from apiserver_client import connection, decoding, errors, objects, resources, session
from component_base import clock, logs, settings
from manager import lease
from manager.cli import lowered_limits
from manager.cli.lowered_limits import LoweredLimits, Steps
from manager.node_metric.workload_history import stored

log = logging.getLogger(__name__)

IDENTITY: Final = "koord-suite-uninstall"
_NO_MID: Final = dict.fromkeys(names.MID_RESOURCES)
CLEAN_NODE: Final[dict[str, Any]] = {
    "metadata": {"annotations": dict.fromkeys((names.ANNOTATION_MID_STATUS, names.ANNOTATION_MID_EVICTION))},
    "status": {"capacity": _NO_MID, "allocatable": _NO_MID},
}
"""Merge patch of nodes/<name>/status, for both lists at once: the kubelet would keep a value left in one of them."""


@dataclass(eq=False)
class Cleanup:
    """Steps of the clean-up, in one namespace. `now` returns aware time."""

    api: session.Session
    namespace: str
    now: Callable[[], dt.datetime]

    async def stop(self, deployments: Iterable[str]) -> list[str]:
        """Scale Deployments to zero; return the pods that still run."""
        running: list[str] = []
        api, place = self.api, self.namespace
        for name in deployments:
            with contextlib.suppress(errors.NotFound):
                spec = (await objects.get(api, resources.DEPLOYMENTS, name, namespace=place))["spec"]
                if spec.get("replicas") != 0:
                    await objects.merge_patch(
                        api, resources.DEPLOYMENTS, name, {"spec": {"replicas": 0}}, subresource="scale",
                        namespace=place, decode=decoding.Envelope,
                    )  # fmt: skip
                labels = ",".join(f"{key}={value}" for key, value in spec["selector"].get("matchLabels", {}).items())
                listed = await objects.list_all(
                    api, resources.PODS, label_selector=labels, decode=pods.Pod, namespace=place
                )
                running += [pod.metadata.name for pod in listed.items if not pods.is_terminal(pod)]
        return running

    async def take_lease(self, name: str, hold_seconds: float) -> float:
        """Take a Lease from any holder; return the seconds for which that holder may still act on it.

        A manager that runs on where its kubelet is unreachable observes the new holder, and stops to write.
        """
        current = await lease.read(self.api, self.namespace, name)
        spec, version = current.spec, current.metadata.resource_version
        record = lease.held_by(IDENTITY, spec if version else None, hold_seconds, self.now())
        await lease.write(self.api, self.namespace, name, record, version)
        has_other_holder = spec.holder_identity not in (None, "", IDENTITY)
        return float(spec.lease_duration_seconds or 0) if has_other_holder else 0.0

    async def clean_nodes(self) -> list[str]:
        """Remove Mid resources and the suite's annotations from the nodes; return the nodes that had any."""
        listing = await objects.list_all(self.api, resources.NODES, decode=pods.Node)
        marked = [node.metadata.name for node in listing.items if carries_traces(node)]
        await self._patch_nodes(dict.fromkeys(marked, CLEAN_NODE))
        return marked

    async def withdraw_nodes(self) -> list[str]:
        """Leave each node the Mid resources that its pods request: no pod comes while limits are restored.

        A kubelet admits each resize again, so what pods request stays until that is over.
        """
        requested: dict[str, Counter[str]] = defaultdict(Counter)

        def read(pod: pods.Pod) -> None:
            if not pods.is_terminal(pod):
                amounts = pods.requests(pod.spec)
                requested[pod.spec.node_name].update({mid: amounts.get(mid, 0) for mid in names.MID_RESOURCES})

        await lowered_limits.read_pods(self.api, pods.Pod, read)
        bodies = {}
        for node in (await objects.list_all(self.api, resources.NODES, decode=pods.Node)).items:
            requests = requested[node.metadata.name]
            published = quantities.amounts({**(node.status.capacity or {}), **(node.status.allocatable or {})})
            amounts = {mid: str(min(requests[mid], published[mid])) for mid in names.MID_RESOURCES if mid in published}
            if amounts:
                bodies[node.metadata.name] = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self._patch_nodes(bodies)
        return []

    async def _patch_nodes(self, bodies: Mapping[str, Mapping[str, Any]]) -> None:
        async def patch(name: str) -> None:
            await objects.merge_patch(
                self.api, resources.NODES, name, bodies[name], subresource="status", decode=decoding.Envelope
            )

        await _each(bodies, patch)

    async def delete_node_metrics(self) -> list[str]:
        """Delete every NodeMetric; return those that existed."""
        with contextlib.suppress(errors.UnknownResource):  # the CRD is gone, and all of them with it
            return await self._delete_listed(resources.NODE_METRICS)
        return []

    async def delete_histories(self) -> list[str]:
        """Delete the stored history of workloads; return the ConfigMaps that existed."""
        return await self._delete_listed(
            resources.CONFIG_MAPS, namespace=self.namespace, label_selector=stored.SELECTOR
        )

    async def _delete_listed(
        self, resource: resources.Resource, *, namespace: str | None = None, label_selector: str | None = None
    ) -> list[str]:
        listing = await objects.list_all(
            self.api, resource, decode=decoding.Envelope, metadata_only=True, namespace=namespace,
            label_selector=label_selector,
        )  # fmt: skip
        there = [item.metadata.name for item in listing.items]
        await _each(there, lambda name: objects.delete(self.api, resource, name, namespace=namespace))
        return there

    async def clear_config_status(self, config_map: str) -> list[str]:
        """Remove the manager's annotation from the users' ConfigMap, which may stay."""
        note = {"metadata": {"annotations": {names.ANNOTATION_COLOCATION_CONFIG_STATUS: None}}}
        with contextlib.suppress(errors.NotFound):
            await objects.merge_patch(self.api, resources.CONFIG_MAPS, config_map, note, namespace=self.namespace)
        return []

    async def delete(self, resource: resources.Resource, some: Iterable[str]) -> list[str]:
        """Delete objects of the namespace by their names."""
        await _each(some, lambda name: objects.delete(self.api, resource, name, namespace=self.namespace))
        return []


def carries_traces(node: pods.Node) -> bool:
    """Check whether a node has a Mid resource, a status annotation under any key, or an eviction annotation."""
    published = {**(node.status.capacity or {}), **(node.status.allocatable or {})}
    has_mid = any(mid in published for mid in names.MID_RESOURCES)
    is_closed = names.ANNOTATION_MID_EVICTION in pods.annotation_map(node.metadata)
    return has_mid or is_closed or mid_status.text_of(node) is not None


async def _each(some: Iterable[str], act: Callable[[str], Awaitable[object]]) -> None:
    """Act on all names; an object that is gone counts as done."""

    async def one(name: str) -> None:
        with contextlib.suppress(errors.NotFound):
            await act(name)

    await lowered_limits.run_all(functools.partial(one, name) for name in some)


_RESTORE_SHARE = 0.5  # of the timeout: tenants must not keep the nodes from being cleaned
_MARGIN_SECONDS = 60.0  # how long after this program's timeout a manager that could not be stopped may not lead


class UninstallSettings(settings.ProcessSettings):
    """Settings of the uninstallation, validated once at start, frozen."""

    namespace: str = pydantic.Field(names.NAMESPACE, min_length=1, max_length=63)
    """Namespace of the installation."""
    deployments: str = "koord-manager,koord-scheduler"
    """Deployments to stop, separated by commas."""
    lease: str = pydantic.Field("koord-manager", min_length=1, max_length=253)
    """Lease of the manager."""
    leases: str = "koord-manager,koord-scheduler"
    """Leases to delete, separated by commas."""
    pods: str = "koord-suite-test"
    """Pods to delete, separated by commas: helm forgets the one of `helm test`."""
    config_map: str = pydantic.Field(names.SLO_CONTROLLER_CONFIG, min_length=1, max_length=253)
    """ConfigMap that carries the manager's annotation."""
    restore_limits: bool = True
    """Restore the CPU limits of Mid pods that agents have lowered."""
    stop_seconds: float = pydantic.Field(60.0, gt=0, le=3600)
    """How long to wait for pods to end; then the Lease fences them, for example where a kubelet is unreachable."""
    timeout_seconds: float = pydantic.Field(240.0, gt=0, le=86400)
    """Timeout of the whole uninstallation."""


async def uninstall(to: connection.Connection, chosen: UninstallSettings) -> int:
    """Remove everything within the timeout; return the exit code."""
    async with session.connect(to, user_agent="koord-manager/uninstall") as api:
        work = _Work(Cleanup(api, chosen.namespace, clock.utc_now), LoweredLimits(api, clock.utc_now), chosen)
        try:
            async with asyncio.timeout(chosen.timeout_seconds):
                await work.run()
        except TimeoutError:
            log.error(  # noqa: TRY400  # the message is complete
                "not finished after %g s: %s; repeat `helm uninstall` to continue; --no-hooks leaves this behind",
                chosen.timeout_seconds,
                work.steps.obstacle,
            )
            await work.release_lease()
            return 1
    log.info("done: no Mid resource, status annotation, NodeMetric or Lease of the suite is left")
    return 0


@dataclass
class _Work:
    """One run: the steps in their order, each repeated until nothing is left to remove."""

    cleanup: Cleanup
    limits: LoweredLimits
    chosen: UninstallSettings
    steps: Steps = field(default_factory=Steps)

    async def run(self) -> None:
        """Run all steps, without a timeout."""
        cleanup, chosen, steps = self.cleanup, self.chosen, self.steps
        unstoppable = await self._stop()
        await self._fence()
        await steps.until_empty("NodeMetrics", cleanup.delete_node_metrics)
        await steps.until_empty("the history of workloads", cleanup.delete_histories)
        if chosen.restore_limits:  # without its NodeMetric an agent lowers nothing
            await steps.until_empty("Mid resources that no pod requests", cleanup.withdraw_nodes)
            try:
                async with asyncio.timeout(chosen.timeout_seconds * _RESTORE_SHARE):
                    await lowered_limits.restore(self.limits, steps)
            except TimeoutError:
                log.warning("continuing, and some Mid pods keep lowered CPU limits: %s", steps.obstacle)
        await steps.until_empty("Mid resources and status annotations on nodes", cleanup.clean_nodes)
        clear = functools.partial(cleanup.clear_config_status, chosen.config_map)
        await steps.until_empty("the annotation on the ConfigMap", clear)
        await steps.until_empty(
            "the pod of helm test", lambda: cleanup.delete(resources.PODS, settings.listed(chosen.pods))
        )
        leases = settings.listed(chosen.leases)
        if unstoppable:
            leases = [name for name in leases if name != chosen.lease]
            log.warning(
                "keeping lease %s/%s because %s could not be stopped; delete the Lease once that pod is gone",
                *(chosen.namespace, chosen.lease, logs.some(unstoppable)),
            )
        await steps.until_empty("Leases", functools.partial(cleanup.delete, resources.LEASES, leases))

    async def _stop(self) -> list[str]:
        """Stop the workloads; return the pods that could not be stopped in time, all if not even their list came."""
        deployments = settings.listed(self.chosen.deployments)
        running = [f"pods of {', '.join(deployments)}"]

        async def stop() -> list[str]:
            running[:] = await self.cleanup.stop(deployments)
            return running

        try:
            async with asyncio.timeout(self.chosen.stop_seconds):
                await self.steps.until_empty("pods of " + ", ".join(deployments), stop)
        except TimeoutError:
            log.warning("continuing without waiting for these pods: %s", self.steps.obstacle)
        return running

    async def _fence(self) -> None:
        """Take the Lease, and wait until its former holder has stopped to act on it."""
        name = self.chosen.lease

        async def take() -> list[str]:
            seconds = await self.cleanup.take_lease(name, self.chosen.timeout_seconds + _MARGIN_SECONDS)
            if seconds:
                log.info("took lease %s; waiting %g s until its former holder stops", name, seconds)
                await asyncio.sleep(seconds)
            return []

        await self.steps.until_empty(f"the Lease {name}", take)

    async def release_lease(self) -> None:
        """Release the Lease after a failure, so that a new installation need not wait for it."""
        name, cleanup = self.chosen.lease, self.cleanup
        try:
            await lease.release(cleanup.api, cleanup.namespace, name, IDENTITY, cleanup.now())
        except errors.ApiServerError as error:
            log.warning("cannot release lease %s: %s", name, error)
