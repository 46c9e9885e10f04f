"""`python -m manager check-install`: whether an installation works, a line for each thing. `helm test` runs it.

What an installation needs a minute for, such as the first report, is waited for. Reads only.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import datetime as dt
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
import pydantic

from api_types import names
from api_types.kubernetes import times
from api_types.node_metric import reader
from apiserver_client import credentials, errors, objects, resources, session
from component_base import settings
from manager import leader as leading
from manager.leader_election import lease
from manager.node_metric import crd_schema

ENV_PREFIX: Final = "CHECK_INSTALL"
WORKS: Final = 0
DOES_NOT: Final = 1
WRONG_SETTINGS: Final = 2
FRESH_SECONDS: Final = 180.0  # as long as the scheduler believes a report
_PAUSE_SECONDS: Final = 3.0  # longer than a leader takes from one renewal to the next


class CheckInstallSettings(settings.Settings):
    """Validated once at start, frozen."""

    namespace: str = pydantic.Field(names.NAMESPACE, min_length=1, max_length=63)
    """Namespace of the installation."""
    agent: str = "koordlet"
    """DaemonSet of the agents; empty where none is installed."""
    lease: str = "koord-manager"
    """Lease by which the manager leads; empty where none is installed."""
    scheduler: str = "koord-scheduler"
    """Deployment of the scheduler; empty where none is installed."""
    wait_seconds: float = pydantic.Field(120.0, ge=0, le=3600)
    """How long to wait for what is not there yet."""
    kubeconfig: str = ""
    """Kubeconfig file; empty means KUBECONFIG, then the pod's service account, then ~/.kube/config."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was seen of one thing; `remark` marks what works and should be known."""

    works: bool
    text: str
    remark: bool = False

    def line(self, what: str) -> str:
        """One line of the answer."""
        mark = ("note" if self.remark else "ok") if self.works else "FAIL"
        return f"{mark:<5} {what}: {self.text}"


class WorkloadStatus(msgspec.Struct, rename="camel", frozen=True):
    """How many pods a DaemonSet or a Deployment has."""

    number_ready: int = 0
    desired_number_scheduled: int = 0
    ready_replicas: int = 0
    replicas: int = 0


class Workload(msgspec.Struct, frozen=True):
    """A DaemonSet or a Deployment."""

    status: WorkloadStatus = WorkloadStatus()


class Checks:
    """Everything that is looked at. `now` gives aware time. Each raises errors.ApiServerError."""

    def __init__(self, api: session.Session, chosen: CheckInstallSettings, now: Callable[[], dt.datetime]) -> None:
        self._api = api
        self._chosen = chosen
        self._now = now
        self._first_renewal: str | None = None

    def all(self) -> dict[str, Callable[[], Awaitable[Finding]]]:
        """Each check by the name of what it looks at."""
        chosen = self._chosen
        wanted = {
            "NodeMetric CRD": (True, self.crd),
            f"DaemonSet {chosen.agent}": (chosen.agent, self.agents),
            "NodeMetrics": (chosen.agent, self.reports),
            f"leader of {chosen.lease}": (chosen.lease, self.leader),
            f"Deployment {chosen.scheduler}": (chosen.scheduler, self.scheduler),
        }
        return {what: check for what, (is_wanted, check) in wanted.items() if is_wanted}

    async def crd(self) -> Finding:
        """Whether the CRD is served, and has a place for all fields."""
        found = await crd_schema.read(self._api)
        if found is None:
            return Finding(False, f"there is no CRD {crd_schema.NAME}: install with crds.install=true")
        if dropped := crd_schema.dropped_fields(found):
            return Finding(True, crd_schema.told(dropped), remark=True)
        return Finding(True, "has a place for every field")

    async def agents(self) -> Finding:
        """Whether an agent is ready on each of its nodes."""
        status = await self._workload(resources.DAEMON_SETS, self._chosen.agent)
        works = 0 < status.desired_number_scheduled == status.number_ready
        return Finding(works, f"ready on {status.number_ready} of {status.desired_number_scheduled} nodes")

    async def reports(self) -> Finding:
        """Whether as many nodes report as have a ready agent."""
        agents = await self._workload(resources.DAEMON_SETS, self._chosen.agent)
        reports = (await objects.list_all(self._api, resources.NODE_METRICS, decode=reader.NodeMetric)).items
        ages = [self._age(report) for report in reports]
        fresh = sum(age is not None and age <= FRESH_SECONDS for age in ages)
        text = f"{fresh} nodes measured within {FRESH_SECONDS:g} s, {agents.number_ready} agents ready"
        return Finding(fresh >= max(agents.number_ready, 1), text)

    def _age(self, report: reader.NodeMetric) -> float | None:
        time = times.parse_rfc3339_or_none(report.status.update_time) if report.status else None
        return (self._now() - time).total_seconds() if time else None

    async def leader(self) -> Finding:
        """Whether somebody renews the Lease, by two looks: no clock of another machine is asked."""
        found = await objects.get(
            self._api, resources.LEASES, self._chosen.lease, namespace=self._chosen.namespace, decode=lease.Lease
        )
        holder = found.spec.holder_identity
        if not holder:
            return Finding(False, "nobody leads")
        self._first_renewal = self._first_renewal or found.spec.renew_time
        if found.spec.renew_time == self._first_renewal:
            return Finding(False, f"{holder} has not renewed it since {found.spec.renew_time}")
        return Finding(True, f"{holder}, renewed {found.spec.renew_time}")

    async def scheduler(self) -> Finding:
        """Whether a scheduler is ready; the extender is a sidecar of its pods, and ready with them."""
        status = await self._workload(resources.DEPLOYMENTS, self._chosen.scheduler)
        return Finding(status.ready_replicas > 0, f"{status.ready_replicas} of {status.replicas} replicas ready")

    async def _workload(self, resource: resources.Resource, name: str) -> WorkloadStatus:
        found = await objects.get(self._api, resource, name, namespace=self._chosen.namespace, decode=Workload)
        return found.status


def main(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """Run it; gives the exit code."""
    try:
        chosen = settings.from_sources(CheckInstallSettings, arguments, environ, ENV_PREFIX)
        to = credentials.find(chosen.kubeconfig or None)
    except settings.SettingsError as error:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
        return WRONG_SETTINGS
    except errors.NoCredentials as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_SETTINGS

    async def run() -> int:
        async with session.connect(to, user_agent="koord-manager/check-install") as api:
            return await check(Checks(api, chosen, leading.now), chosen.wait_seconds)

    return asyncio.run(run())


async def check(checks: Checks, wait_seconds: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> int:
    """Look until all works or the time is over, and print a line for each; gives the exit code."""
    todo, findings = checks.all(), dict[str, Finding]()
    for turn in range(int(wait_seconds / _PAUSE_SECONDS) + 2):
        if turn:
            await sleep(_PAUSE_SECONDS)
        for what, look in todo.items():
            if what not in findings or not findings[what].works:
                findings[what] = await _seen(look)
        if all(each.works for each in findings.values()):
            break
    sys.stdout.writelines(f"{finding.line(what)}\n" for what, finding in findings.items())
    return WORKS if all(each.works for each in findings.values()) else DOES_NOT


async def _seen(look: Callable[[], Awaitable[Finding]]) -> Finding:
    try:
        return await look()
    except errors.ApiServerError as error:
        return Finding(False, str(error))


def add_arguments(parser: Any) -> None:
    """Add the flags of the settings."""
    settings.add_arguments(parser, CheckInstallSettings, ENV_PREFIX)
