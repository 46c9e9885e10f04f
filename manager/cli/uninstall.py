"""`python -m manager uninstall`: stop what writes, then take away what it has written. The chart's pre-delete hook.

The order matters: a running manager heals what is removed. It can be run again at any time, and from anywhere with
--kubeconfig where the hook cannot run.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import os
import random
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import pydantic

from api_types import names
from apiserver_client import backoff, connection, credentials, errors, session
from component_base import logs, settings
from manager import leader
from manager.cli.cleanup import Removal

log = logging.getLogger(__name__)

ENV_PREFIX: Final = "UNINSTALL"
DONE: Final = 0
LEFT_OVER: Final = 1
WRONG_SETTINGS: Final = 2

_PAUSES = backoff.Backoff(first_seconds=0.25, longest_seconds=5.0)
_MOST_NAMED = 5
_MARGIN_SECONDS = 60.0  # how much longer than we work a manager that cannot be stopped is kept from leading


class UninstallSettings(settings.Settings):
    """Validated once at start, frozen."""

    namespace: str = pydantic.Field(names.NAMESPACE, min_length=1, max_length=63)
    """Namespace of the installation."""
    deployments: str = "koord-manager,koord-scheduler"
    """Deployments to stop, separated by commas."""
    lease: str = pydantic.Field("koord-manager", min_length=1, max_length=253)
    """Lease by which the manager leads."""
    leases: str = "koord-manager,koord-scheduler"
    """Leases to delete, separated by commas."""
    pods: str = "koord-suite-test"
    """Pods to delete, separated by commas: helm forgets the one of `helm test`."""
    config_map: str = pydantic.Field(names.SLO_CONTROLLER_CONFIG, min_length=1, max_length=253)
    """ConfigMap that carries the manager's annotation."""
    stop_seconds: float = pydantic.Field(60.0, gt=0, le=3600)
    """How long to wait for pods to end; then they are fenced off by the Lease, as where a kubelet is away."""
    timeout_seconds: float = pydantic.Field(240.0, gt=0, le=86400)
    """How long to try in all."""
    kubeconfig: str = ""
    """Kubeconfig file; empty means KUBECONFIG, then the pod's service account, then ~/.kube/config."""
    log_format: logs.LogFormat = logs.LogFormat.TEXT
    """How a log line looks: text or json."""
    log_level: logs.LogLevel = logs.LogLevel.INFO
    """From which level on lines are written: debug, info, warning or error."""


def main(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """Run it; gives the exit code."""
    try:
        chosen = settings.from_sources(UninstallSettings, arguments, environ, ENV_PREFIX)
        to = credentials.find(chosen.kubeconfig or None)
    except settings.SettingsError as error:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
        return WRONG_SETTINGS
    except errors.NoCredentials as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_SETTINGS
    logs.configure(chosen.log_format, chosen.log_level)
    return asyncio.run(uninstall(to, chosen))


async def uninstall(to: connection.Connection, chosen: UninstallSettings) -> int:
    """Take everything away within the time; gives the exit code."""
    async with session.connect(to, user_agent="koord-manager/uninstall") as api:
        work = _Work(Removal(api, chosen.namespace, leader.now), chosen)
        try:
            async with asyncio.timeout(chosen.timeout_seconds):
                await work.run()
        except TimeoutError:
            log.error(  # noqa: TRY400  # no error of the program's
                "not finished after %g s: %s. Repeat `helm uninstall` to go on; with --no-hooks it leaves this behind",
                chosen.timeout_seconds,
                work.obstacle,
            )
            await work.let_others_lead()
            return LEFT_OVER
    log.info("nothing of ours is left on nodes, no NodeMetric, no Lease")
    return DONE


class _Work:
    """One run: the steps in their order, each until there is nothing left of what it takes away."""

    def __init__(self, removal: Removal, chosen: UninstallSettings) -> None:
        self._removal = removal
        self._chosen = chosen
        self.obstacle = "nothing was tried"
        """What kept the newest step from being done."""

    async def run(self) -> None:
        """Do it, however long that takes."""
        removal, chosen = self._removal, self._chosen
        unstoppable = await self._stop()
        await self._fence()
        await self._until_nothing_is_left("Mid resources and receipts on nodes", removal.clean_nodes)
        await self._until_nothing_is_left("NodeMetrics", removal.delete_node_metrics)
        clear = functools.partial(removal.clear_config_status, chosen.config_map)
        await self._until_nothing_is_left("the annotation on the ConfigMap", clear)
        forgotten = functools.partial(removal.delete_pods, _listed(chosen.pods))
        await self._until_nothing_is_left("the pod of helm test", forgotten)
        leases = _listed(chosen.leases)
        if unstoppable:
            leases = [name for name in leases if name != chosen.lease]
            log.warning(
                "the Lease %s/%s stays, held against %s, which could not be stopped; delete it once that is gone",
                *(chosen.namespace, chosen.lease, _some(unstoppable)),
            )
        await self._until_nothing_is_left("Leases", functools.partial(removal.delete_leases, leases))

    async def _stop(self) -> list[str]:
        """Stop the workloads; gives the pods that could not be stopped in time."""
        deployments, seen = _listed(self._chosen.deployments), list[str]()

        async def stop() -> list[str]:
            seen[:] = await self._removal.stop(deployments)
            return seen

        try:
            async with asyncio.timeout(self._chosen.stop_seconds):
                await self._until_nothing_is_left("pods of " + ", ".join(deployments), stop)
        except TimeoutError:
            log.warning("going on without waiting for them: %s", self.obstacle)
        return seen

    async def _fence(self) -> None:
        """Hold the Lease, and wait until whoever held it has noticed."""
        name = self._chosen.lease

        async def take() -> list[str]:
            seconds = await self._removal.take_lease(name, self._chosen.timeout_seconds + _MARGIN_SECONDS)
            if seconds:
                log.info("took the Lease %s; waiting %g s for its holder to notice", name, seconds)
                await asyncio.sleep(seconds)
            return []

        await self._until_nothing_is_left(f"the Lease {name}", take)

    async def let_others_lead(self) -> None:
        """After a failure: whoever installs again should not have to wait for our Lease."""
        try:
            await self._removal.give_lease_up(self._chosen.lease)
        except errors.ApiServerError as error:
            log.warning("cannot give the Lease up: %s", error)

    async def _until_nothing_is_left(self, what: str, step: Callable[[], Awaitable[Sequence[str]]]) -> None:
        attempt = 0
        while True:
            try:
                left = await step()
            except errors.ApiServerError as error:
                obstacle = f"{what}: {error}"
            else:
                if not left:
                    log.info("%s: done", what)
                    return
                obstacle = f"{what}: {len(left)} seen: {_some(left)}"
            if obstacle != self.obstacle:
                log.info("%s", obstacle)
            self.obstacle = obstacle
            await asyncio.sleep(_PAUSES.seconds(attempt, random.random))
            attempt += 1


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _some(all_of_them: Sequence[str]) -> str:
    more = len(all_of_them) - _MOST_NAMED
    return ", ".join(all_of_them[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def add_arguments(parser: Any) -> None:
    """Add the flags of the settings."""
    settings.add_arguments(parser, UninstallSettings, ENV_PREFIX)
