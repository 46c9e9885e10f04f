"""`python -m manager uninstall`: stop the writers, then remove what they have written. The chart's pre-delete hook.

The order matters: a running manager restores what is removed. The command is safe to repeat, and runs from anywhere
with --kubeconfig where the hook cannot run.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import os
from collections.abc import Mapping
from typing import Any, Final

import pydantic

from api_types import names
from apiserver_client import connection, errors, session
from component_base import clock, logs, settings
from manager.cli import lowered_limits, start
from manager.cli.cleanup import Cleanup
from manager.cli.lowered_limits import LoweredLimits
from manager.cli.steps import Steps, some

log = logging.getLogger(__name__)

ENV_PREFIX: Final = "UNINSTALL"
DONE: Final = 0
LEFT_OVER: Final = 1

_MARGIN_SECONDS = 60.0  # how long after this program's timeout a manager that could not be stopped may not lead


class UninstallSettings(settings.Settings):
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
    kubeconfig: str = ""
    """Kubeconfig file; empty means KUBECONFIG, then the pod's service account, then ~/.kube/config."""
    log_format: logs.LogFormat = logs.LogFormat.TEXT
    """Format of log lines: text or json."""
    log_level: logs.LogLevel = logs.LogLevel.INFO
    """Lowest level that is logged: debug, info, warning or error."""


def main(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """Run the uninstallation; return the exit code."""
    if (loaded := start.load(UninstallSettings, arguments, environ, ENV_PREFIX)) is None:
        return start.WRONG_SETTINGS
    chosen, to = loaded
    logs.configure(chosen.log_format, chosen.log_level)
    return asyncio.run(uninstall(to, chosen))


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
            return LEFT_OVER
    log.info("done: no Mid resource, status annotation, NodeMetric or Lease of the suite is left")
    return DONE


class _Work:
    """One run: the steps in their order, each repeated until nothing is left to remove."""

    def __init__(self, cleanup: Cleanup, limits: LoweredLimits, chosen: UninstallSettings) -> None:
        self._cleanup = cleanup
        self._chosen = chosen
        self._limits = limits
        self.steps = Steps()

    async def run(self) -> None:
        """Run all steps, without a timeout."""
        cleanup, chosen, steps = self._cleanup, self._chosen, self.steps
        unstoppable = await self._stop()
        await self._fence()
        await steps.until_empty("NodeMetrics", cleanup.delete_node_metrics)
        if chosen.restore_limits:  # without its NodeMetric an agent lowers nothing; the kubelet needs the Mid resources
            await lowered_limits.restore(self._limits, steps)
        await steps.until_empty("Mid resources and status annotations on nodes", cleanup.clean_nodes)
        clear = functools.partial(cleanup.clear_config_status, chosen.config_map)
        await steps.until_empty("the annotation on the ConfigMap", clear)
        forgotten = functools.partial(cleanup.delete_pods, _listed(chosen.pods))
        await steps.until_empty("the pod of helm test", forgotten)
        leases = _listed(chosen.leases)
        if unstoppable:
            leases = [name for name in leases if name != chosen.lease]
            log.warning(
                "keeping lease %s/%s because %s could not be stopped; delete the Lease once that pod is gone",
                *(chosen.namespace, chosen.lease, some(unstoppable)),
            )
        await steps.until_empty("Leases", functools.partial(cleanup.delete_leases, leases))

    async def _stop(self) -> list[str]:
        """Stop the workloads; return the pods that could not be stopped in time, all if not even their list came."""
        deployments = _listed(self._chosen.deployments)
        running = [f"pods of {', '.join(deployments)}"]

        async def stop() -> list[str]:
            running[:] = await self._cleanup.stop(deployments)
            return running

        try:
            async with asyncio.timeout(self._chosen.stop_seconds):
                await self.steps.until_empty("pods of " + ", ".join(deployments), stop)
        except TimeoutError:
            log.warning("continuing without waiting for these pods: %s", self.steps.obstacle)
        return running

    async def _fence(self) -> None:
        """Take the Lease, and wait until its former holder has stopped to act on it."""
        name = self._chosen.lease

        async def take() -> list[str]:
            seconds = await self._cleanup.take_lease(name, self._chosen.timeout_seconds + _MARGIN_SECONDS)
            if seconds:
                log.info("took lease %s; waiting %g s until its former holder stops", name, seconds)
                await asyncio.sleep(seconds)
            return []

        await self.steps.until_empty(f"the Lease {name}", take)

    async def release_lease(self) -> None:
        """Release the Lease after a failure, so that a new installation need not wait for it."""
        try:
            await self._cleanup.release_lease(self._chosen.lease)
        except errors.ApiServerError as error:
            log.warning("cannot release lease %s: %s", self._chosen.lease, error)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def add_arguments(parser: Any) -> None:
    """Add the flags of the settings."""
    settings.add_arguments(parser, UninstallSettings, ENV_PREFIX)
