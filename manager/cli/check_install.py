"""`python -m manager check-install`: check that an installation works, one line per check. `helm test` runs it.

Checks that need a minute after an installation, such as the first report, are repeated until they pass. Reads only.
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
from apiserver_client import errors, objects, resources, session
from component_base import clock, settings
from manager.cli import start
from manager.leader_election import lease
from manager.node_metric import crd_schema

ENV_PREFIX: Final = "CHECK_INSTALL"
WORKS: Final = 0
DOES_NOT: Final = 1
FRESH_SECONDS: Final = 180.0  # after which the scheduler by default treats a report as expired
FRESH_INTERVALS: Final = 3.0  # of reports, for nodes that report seldom
_PAUSE_SECONDS: Final = 3.0  # longer than the time between two renewals of a leader


class CheckInstallSettings(settings.Settings):
    """Settings of the check, validated once at start, frozen."""

    namespace: str = pydantic.Field(names.NAMESPACE, min_length=1, max_length=63)
    """Namespace of the installation."""
    agent: str = "koordlet"
    """DaemonSet of the agents; empty where none is installed."""
    lease: str = "koord-manager"
    """Lease of the manager; empty where none is installed."""
    scheduler: str = "koord-scheduler"
    """Deployment of the scheduler; empty where none is installed."""
    wait_seconds: float = pydantic.Field(120.0, ge=0, le=3600)
    """How long to repeat checks that fail."""
    kubeconfig: str = ""
    """Kubeconfig file; empty means KUBECONFIG, then the pod's service account, then ~/.kube/config."""


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """Result of one check; `remark` marks a check that passes with a remark."""

    works: bool
    text: str
    remark: bool = False

    def line(self, what: str) -> str:
        """Format the line of a check."""
        mark = ("note" if self.remark else "ok") if self.works else "FAIL"
        return f"{mark:<5} {what}: {self.text}"


class WorkloadStatus(msgspec.Struct, rename="camel", frozen=True):
    """Pod counts of a DaemonSet or a Deployment."""

    number_ready: int = 0
    desired_number_scheduled: int = 0
    ready_replicas: int = 0
    replicas: int = 0


class Workload(msgspec.Struct, frozen=True):
    """A DaemonSet or a Deployment."""

    status: WorkloadStatus = WorkloadStatus()


class CollectPolicy(msgspec.Struct, rename="camel", frozen=True):
    """How often the agent of a node reports."""

    report_interval_seconds: float | None = None


class ReportSpec(msgspec.Struct, rename="camel", frozen=True):
    """Policies of a node."""

    metric_collect_policy: CollectPolicy = CollectPolicy()


class Report(reader.NodeMetric, frozen=True):
    """A NodeMetric, with the interval of its reports."""

    spec: ReportSpec = ReportSpec()


def fresh_seconds(report: Report) -> float:
    """Return the age up to which the last sample of a working agent is normal, by the interval of its reports."""
    return max(FRESH_SECONDS, FRESH_INTERVALS * (report.spec.metric_collect_policy.report_interval_seconds or 0.0))


class Checks:
    """The checks. `now` returns aware time. Each check raises errors.ApiServerError."""

    def __init__(self, api: session.Session, chosen: CheckInstallSettings, now: Callable[[], dt.datetime]) -> None:
        self._api = api
        self._chosen = chosen
        self._now = now
        self._first_renewal: str | None = None

    def all(self) -> dict[str, Callable[[], Awaitable[CheckResult]]]:
        """Return each check by the name of its object."""
        chosen = self._chosen
        wanted = {
            "NodeMetric CRD": (True, self.crd),
            f"DaemonSet {chosen.agent}": (chosen.agent, self.agents),
            "NodeMetrics": (chosen.agent, self.reports),
            f"leader of {chosen.lease}": (chosen.lease, self.leader),
            f"Deployment {chosen.scheduler}": (chosen.scheduler, self.scheduler),
        }
        return {what: check for what, (is_wanted, check) in wanted.items() if is_wanted}

    async def crd(self) -> CheckResult:
        """Check that the CRD is served, and whether it drops fields."""
        found = await crd_schema.read(self._api)
        if found is None:
            return CheckResult(False, f"CRD {crd_schema.NAME} is not served: install with crds.install=true")
        if dropped := crd_schema.dropped_fields(found):
            return CheckResult(True, crd_schema.text_of(dropped), remark=True)
        return CheckResult(True, "has every field")

    async def agents(self) -> CheckResult:
        """Check that an agent is ready on each of its nodes."""
        status = await self._workload(resources.DAEMON_SETS, self._chosen.agent)
        works = 0 < status.desired_number_scheduled == status.number_ready
        return CheckResult(works, f"ready on {status.number_ready} of {status.desired_number_scheduled} nodes")

    async def reports(self) -> CheckResult:
        """Check that as many nodes report as have a ready agent."""
        agents = await self._workload(resources.DAEMON_SETS, self._chosen.agent)
        reports = (await objects.list_all(self._api, resources.NODE_METRICS, decode=Report)).items
        fresh = sum(self._is_fresh(report) for report in reports)
        longest = max((fresh_seconds(report) for report in reports), default=FRESH_SECONDS)
        text = f"{fresh} nodes measured within {longest:g} s, {agents.number_ready} agents ready"
        return CheckResult(fresh >= max(agents.number_ready, 1), text)

    def _is_fresh(self, report: Report) -> bool:
        time = times.parse_rfc3339_or_none(report.status.update_time) if report.status else None
        return time is not None and (self._now() - time).total_seconds() <= fresh_seconds(report)

    async def leader(self) -> CheckResult:
        """Check that a leader renews the Lease, by two reads: the clock of another machine is not used."""
        found = await objects.get(
            self._api, resources.LEASES, self._chosen.lease, namespace=self._chosen.namespace, decode=lease.Lease
        )
        holder = found.spec.holder_identity
        if not holder:
            return CheckResult(False, "the Lease has no holder")
        self._first_renewal = self._first_renewal or found.spec.renew_time
        if found.spec.renew_time == self._first_renewal:
            return CheckResult(False, f"{holder} has not renewed it since {found.spec.renew_time}")
        return CheckResult(True, f"{holder}, renewed {found.spec.renew_time}")

    async def scheduler(self) -> CheckResult:
        """Check that a scheduler is ready; the extender is a sidecar of its pods, and ready with them."""
        status = await self._workload(resources.DEPLOYMENTS, self._chosen.scheduler)
        return CheckResult(status.ready_replicas > 0, f"{status.ready_replicas} of {status.replicas} replicas ready")

    async def _workload(self, resource: resources.Resource, name: str) -> WorkloadStatus:
        found = await objects.get(self._api, resource, name, namespace=self._chosen.namespace, decode=Workload)
        return found.status


def main(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """Run the checks; return the exit code."""
    if (loaded := start.load(CheckInstallSettings, arguments, environ, ENV_PREFIX)) is None:
        return start.WRONG_SETTINGS
    chosen, to = loaded

    async def run() -> int:
        async with session.connect(to, user_agent="koord-manager/check-install") as api:
            return await check(Checks(api, chosen, clock.utc_now), chosen.wait_seconds)

    return asyncio.run(run())


async def check(checks: Checks, wait_seconds: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> int:
    """Repeat the checks until all pass or the time is over, print a line for each, and return the exit code."""
    todo, results = checks.all(), dict[str, CheckResult]()
    for turn in range(int(wait_seconds / _PAUSE_SECONDS) + 2):
        if turn:
            await sleep(_PAUSE_SECONDS)
        for what, run in todo.items():
            if what not in results or not results[what].works:
                results[what] = await _result_of(run)
        if all(each.works for each in results.values()):
            break
    sys.stdout.writelines(f"{result.line(what)}\n" for what, result in results.items())
    return WORKS if all(each.works for each in results.values()) else DOES_NOT


async def _result_of(run: Callable[[], Awaitable[CheckResult]]) -> CheckResult:
    try:
        return await run()
    except errors.ApiServerError as error:
        return CheckResult(False, str(error))


def add_arguments(parser: Any) -> None:
    """Add the flags of the settings."""
    settings.add_arguments(parser, CheckInstallSettings, ENV_PREFIX)
