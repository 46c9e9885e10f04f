"""Checks of an installation, from what was read of it. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from api_types.kubernetes import pods, times
from api_types.kubernetes.priority_and_qos import BANDS, PriorityClass, priority_class
from fleet import findings
from fleet.finding_kinds import Category, Severity
from fleet.findings import AGENT, MANAGER, SCHEDULER, Finding, FleetSnapshot, Installation
from fleet.node_state import NodeState
from koordctl.check import reading
from koordctl.check.reading import CheckInputs, PreInstallInputs
from koordctl.check.results import CheckVerdict, Verdict, failed, passed, skipped
from koordctl.cli.answer import age
from manager.mid_resource.reasons import Reason
from manager.slo_config import evaluation

OLDEST_KUBERNETES: Final = (1, 34)
FRESH_SECONDS: Final = 180.0  # after which the scheduler by default treats a report as expired
FRESH_INTERVALS: Final = 3.0  # of reports, for nodes that report seldom
LONG_WAIT: Final = dt.timedelta(minutes=5)
PARTS: Final = {"agent": AGENT, "manager": MANAGER, "scheduler": SCHEDULER}
_KINDS: Final = {AGENT: "DaemonSet", MANAGER: "Deployment", SCHEDULER: "Deployment"}
_CODES: Final = {AGENT: "AgentsReady", MANAGER: "ManagerReady", SCHEDULER: "SchedulerReady"}
_MOST_NAMED: Final = 3
_SILENT: Final = (Reason.NEVER_REPORTED.value, Reason.SAMPLE_TOO_OLD.value)
"""Where every agent reports, such a node has none, as a virtual node: no fault of the installation."""


def results(state: CheckInputs, required: Collection[str], crd_dropped: Sequence[str]) -> Iterator[CheckVerdict]:
    """Yield the results of all checks; `required` are the workloads that have to be installed."""
    snapshot = state.snapshot
    installed = snapshot.installation or Installation("")
    yield kubernetes(installed.kubernetes)
    if state.missing_rights:
        yield failed("Permissions", f"you may not: {reading.named(state.missing_rights, installed.namespace)}")
    else:
        yield passed("Permissions", "you may read everything that the commands show")
    yield from _crd(state, crd_dropped)
    yield from _workloads(snapshot, installed, required)
    if MANAGER in installed.workloads or snapshot.is_unread(f"leases/{MANAGER}"):
        yield _leader(state, installed)
    yield from _versions(installed)
    yield _priority_classes(state)
    yield from _configuration(snapshot, installed)
    yield from _reports(snapshot, installed)
    yield _waiting(state)


def kubernetes(version: str) -> CheckVerdict:
    """Check the version of the cluster."""
    oldest = ".".join(map(str, OLDEST_KUBERNETES))
    numbers = version.split(".")[:2]
    if not all(number.isdigit() for number in numbers) or len(numbers) < 2:
        return skipped("KubernetesVersion", "not read")
    if tuple(map(int, numbers)) < OLDEST_KUBERNETES:
        return failed("KubernetesVersion", f"Kubernetes {version}, want {oldest} or newer")
    return passed("KubernetesVersion", f"Kubernetes {version} is {oldest} or newer")


def _crd(state: CheckInputs, dropped: Sequence[str]) -> Iterator[CheckVerdict]:
    if state.served is None:
        why = _why(state.snapshot, "openapi")
        code = "CustomResourceDefinition"
        yield skipped(code, why) if why else failed(code, "it is not served")
        return
    yield passed("CustomResourceDefinition", "the CRD of NodeMetric is served")
    if dropped:
        yield failed("NodeMetricFieldsDropped", f"the CRD drops {', '.join(dropped)}; Mid resources stay correct")
    else:
        yield passed("NodeMetricFieldsDropped", "the CRD has every field")


def _why(snapshot: FleetSnapshot, what: str) -> str:
    return next((f"not read: {unread.why}" for unread in snapshot.unread if unread.what == what), "")


def _workloads(snapshot: FleetSnapshot, installed: Installation, required: Collection[str]) -> Iterator[CheckVerdict]:
    """Yield one result for each workload; one that is not installed is a fault if it is required, or none is there."""
    is_right = {unread.what.partition("/")[2] for unread in snapshot.unread if unread.is_right}
    is_empty = not installed.workloads and not is_right & set(_CODES)
    for name, code in _CODES.items():
        workload, what = installed.workloads.get(name), f"{_KINDS[name]} {name}"
        if workload is None:
            absent = f"{what} is not in namespace {installed.namespace}"
            lacks = (unread for unread in snapshot.unread if unread.is_right)
            why = next((unread.why for unread in lacks if unread.what.endswith(f"/{name}")), "")
            if name in required or is_empty:
                yield failed(code, why or absent)
            else:
                yield skipped(code, why or f"{absent} (optional)")
            continue
        ready, replicas = workload.ready, workload.wanted
        text = (
            f"{what}: ready on {ready} of {replicas} nodes" if name == AGENT else f"{what}: {ready} of {replicas} ready"
        )
        works = 0 < replicas == ready if name == AGENT else ready > 0
        yield passed(code, text) if works else failed(code, text)


def _leader(state: CheckInputs, installed: Installation) -> CheckVerdict:
    """Check that a leader renews the Lease, by two reads: the clock of another machine is not used."""
    if why := _why(state.snapshot, f"leases/{MANAGER}"):
        return skipped("Leader", why)
    if not installed.leader:
        return failed("Leader", f"the Lease {MANAGER} has no holder")
    if state.renewed_again is None or state.renewed_again == installed.renewed:
        since = times.format_rfc3339(installed.renewed) if installed.renewed else "ever"
        return failed("Leader", f"{installed.leader} has not renewed the Lease since {since}")
    return passed("Leader", f"{installed.leader} leads, and renewed the Lease meanwhile")


def _versions(installed: Installation) -> Iterator[CheckVerdict]:
    if installed.skew():
        yield failed("VersionSkew", installed.skew())
    elif versions := installed.versions():
        yield passed("VersionSkew", f"all parts are of version {next(iter(versions.values()))}")


def _priority_classes(state: CheckInputs) -> CheckVerdict:
    if state.priority_classes is None:
        return skipped("PriorityClasses", _why(state.snapshot, "priorityclasses"))
    values = {priority_class.metadata.name: priority_class.value for priority_class in state.priority_classes}
    wrong = []
    for band in (PriorityClass.PROD, PriorityClass.MID):
        low, high = BANDS[band]
        if band.value not in values:
            wrong.append(f"{band.value} is missing")
        elif not low <= values[band.value] <= high:
            wrong.append(f"{band.value} is {values[band.value]}, want {low} to {high}")
    if wrong:
        return failed("PriorityClasses", "; ".join(wrong))
    shown = ", ".join(f"{band.value} {values[band.value]}" for band in (PriorityClass.PROD, PriorityClass.MID))
    return passed("PriorityClasses", shown)


def _configuration(snapshot: FleetSnapshot, installed: Installation) -> Iterator[CheckVerdict]:
    if installed.outcome is None:
        yield skipped(evaluation.APPLIED, "not read")
        return
    bad = list(findings.configuration_findings(installed.outcome, snapshot.nodes or ()))
    if not bad:
        yield passed(evaluation.APPLIED, evaluation.summary(installed.outcome, kept_in=installed.kept_in))
    yield from map(_finding_verdict, bad)
    yield from _node_verdicts(snapshot, Category.CONFIGURATION)


def _finding_verdict(finding: Finding) -> CheckVerdict:
    return failed(finding.kind.code, finding.sentence, finding.fix, finding.kind.severity)


def _node_verdicts(snapshot: FleetSnapshot, category: Category) -> Iterator[CheckVerdict]:
    for finding in findings.by_severity(findings.fleet_findings(snapshot.nodes or ())):
        if finding.kind.category is category and finding.kind.severity is not Severity.NOTE:
            yield _finding_verdict(finding)


def _reports(snapshot: FleetSnapshot, installed: Installation) -> Iterator[CheckVerdict]:
    """Yield the results about nodes: as many report as have a ready agent, then what is wrong with single ones."""
    nodes = snapshot.nodes
    if nodes is None:
        yield skipped("Reports", _why(snapshot, "nodemetrics") or "not read")
        return
    agent = installed.workloads.get(AGENT)
    fresh = [node for node in nodes if is_fresh(node)]
    expected = max(agent.status.number_ready, 1) if agent else 0
    limit = max(map(fresh_seconds, nodes), default=FRESH_SECONDS)
    agents = f", {agent.status.number_ready} agents ready" if agent else ""
    text = f"{len(fresh)} of {len(nodes)} nodes measured within {limit:g} s{agents}"
    if len(fresh) < expected:
        yield failed("Reports", f"{text}{_oldest(nodes)}")
    elif agent or fresh:
        yield passed("Reports", text)
    else:
        yield skipped("Reports", "no agent is installed")
    for category in (Category.REPORTS, Category.SCHEDULING, Category.PREDICTION):
        for result in _node_verdicts(snapshot, category):
            has_no_agent = result.kind.code in _SILENT and len(fresh) >= expected
            yield replace(result, verdict=Verdict.WARNING) if has_no_agent else result
    predicted = sum(node.prod_peak.cpu is not None for node in fresh)
    if fresh and predicted == len(fresh):
        yield passed("NoPrediction", f"the reports of all {predicted} measured nodes carry a prediction")


def fresh_seconds(node: NodeState) -> float:
    """Return the age up to which the last sample of a working agent is normal, by the interval of its reports."""
    return max(FRESH_SECONDS, FRESH_INTERVALS * (node.report_interval_seconds or 0.0))


def is_fresh(node: NodeState) -> bool:
    """Check whether the report of a node is as new as that of a working agent."""
    return node.sample_age_seconds is not None and node.sample_age_seconds <= fresh_seconds(node)


def _oldest(nodes: Sequence[NodeState]) -> str:
    old = sorted((node for node in nodes if not is_fresh(node)), key=lambda node: -(node.sample_age_seconds or 0.0))
    named = [f"{node.name} {age(node.sample_age_seconds)}" for node in old[:_MOST_NAMED]]
    return f"; not: {', '.join(named)}" + (f" and {len(old) - _MOST_NAMED} more" if len(old) > _MOST_NAMED else "")


def _waiting(state: CheckInputs) -> CheckVerdict:
    if state.waiting_mid_pods is None:
        return skipped("MidPodsWait", _why(state.snapshot, "pods"))
    long = [pod for pod in state.waiting_mid_pods if _waits_long(pod, state.snapshot.time)]
    if not long:
        return passed("MidPodsWait", "no Mid pod waits for a node for more than 5 minutes")
    named = ", ".join(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in long[:_MOST_NAMED])
    more = f" and {len(long) - _MOST_NAMED} more" if len(long) > _MOST_NAMED else ""
    return failed("MidPodsWait", f"{len(long)} Mid pods: {named}{more}")


def _waits_long(pod: pods.Pod, now: dt.datetime) -> bool:
    created = times.parse_rfc3339_or_none(pod.metadata.creation_timestamp)
    is_waiting = not pod.spec.node_name and priority_class(pod) is PriorityClass.MID
    return is_waiting and created is not None and now - created > LONG_WAIT


_ENFORCED: Final = "pod-security.kubernetes.io/enforce"
_PART_OF: Final = "app.kubernetes.io/part-of"  # which nameOverride of the chart replaces
_CHART: Final = "helm.sh/chart"
_OWN: Final = "koord-suite"


def pre_install_results(state: PreInstallInputs, namespace: str, crd_dropped: Sequence[str]) -> Iterator[CheckVerdict]:
    """Yield the results of the checks before an installation."""
    yield kubernetes(state.kubernetes)
    yield _pod_security(state, namespace)
    yield _other(state)
    if state.missing_rights:
        yield failed("InstallPermissions", f"you may not: {reading.named(state.missing_rights, namespace)}")
    else:
        yield passed("InstallPermissions", "you may create everything that the chart installs")
    if state.served is not None and crd_dropped:
        yield failed("NodeMetricFieldsDropped", f"the CRD that is installed drops {', '.join(crd_dropped)}")


def _pod_security(state: PreInstallInputs, namespace: str) -> CheckVerdict:
    if state.labels is None:
        return skipped("PodSecurity", f"namespace {namespace} does not exist yet, or may not be read")
    level = state.labels.get(_ENFORCED, "")
    if level in ("baseline", "restricted"):
        return failed("PodSecurity", f"namespace {namespace} enforces {level}; the agent mounts folders of the host")
    return passed("PodSecurity", f"namespace {namespace} enforces {level or 'nothing of its own'}")


def _other(state: PreInstallInputs) -> CheckVerdict:
    others = [
        what
        for what, labels in state.owned.items()
        if labels.get(_PART_OF) != _OWN and not labels.get(_CHART, "").startswith(f"{_OWN}-")
    ]
    if others:
        return failed("OtherKoordinator", ", ".join(others))
    if state.unread:
        return skipped("OtherKoordinator", f"not read: {'; '.join(state.unread)}")
    return passed("OtherKoordinator", "no object of another installation")
