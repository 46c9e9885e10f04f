"""The checks of an installation and its nodes, from one snapshot. Pure.

`koordctl status` and `check`, the console and the bundle show what these find; `check` adds what takes longer to read.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from api_types import names
from api_types.kubernetes import pods, times
from api_types.kubernetes.priority_and_qos import BANDS, PriorityClass, priority_class
from fleet import findings
from fleet.finding_kinds import KINDS, FindingKind, Severity
from fleet.findings import ADMISSION, AGENT, MANAGER, MID_LIMITS, SCHEDULER, Finding, FleetSnapshot, Installation
from fleet.node_state import NodeState
from manager.mid_resource.reasons import RESERVATION_IGNORED, Reason
from manager.slo_config import evaluation

OLDEST_KUBERNETES: Final = (1, 34)
FRESH_SECONDS: Final = 180.0  # after which the scheduler by default treats a report as expired
FRESH_INTERVALS: Final = 3.0  # of reports, for nodes that report seldom
LEAST_VALID: Final = dt.timedelta(days=30)
"""Of the certificate of the webhook, which is renewed 90 days before its end."""
_WORKLOADS: Final = {
    AGENT: ("AgentsReady", "DaemonSet"),
    MANAGER: ("ManagerReady", "Deployment"),
    SCHEDULER: ("SchedulerReady", "Deployment"),
}
_DEVICES: Final = "koordinator.sh/"
"""Domain of the resources that Koordinator's scheduler knows from the devices that its agent reports."""
_MOST_NAMED: Final = 3
_LONGEST_MESSAGE: Final = 300
_SILENT: Final = (Reason.NEVER_REPORTED.value, Reason.SAMPLE_TOO_OLD.value)
"""Where every agent reports, such a node has none, as a virtual node: no fault of the installation."""
_CHECK_OF: Final = {
    "NodeStrategyAdvice": "NodeStrategyIgnored",
    RESERVATION_IGNORED: "NodeStrategyIgnored",
}
"""Check that a finding about a node belongs to, where it is not one of its own."""


class Verdict(enum.StrEnum):
    """Result of a check."""

    FAILED = "failed"
    WARNING = "warning"
    PASSED = "passed"
    SKIPPED = "skipped"
    """Not installed, or not to be read by the caller."""


_OF_SEVERITY: Final = {Severity.ERROR: Verdict.FAILED, Severity.WARNING: Verdict.WARNING, Severity.NOTE: Verdict.PASSED}


@dataclass(frozen=True)
class CheckVerdict:
    """Result of one check."""

    kind: FindingKind
    verdict: Verdict
    text: str
    finding: Finding | None = None
    """What was found where it did not pass."""

    @property
    def fix(self) -> str:
        """Return what to do; empty where it passed."""
        return self.finding.fix if self.finding else ""

    def is_bad(self, fail_on: str) -> bool:
        """Check whether it failed, or with `fail_on` warning whether it warns."""
        return self.verdict is Verdict.FAILED or (fail_on == "warning" and self.verdict is Verdict.WARNING)


def passed(code: str, text: str) -> CheckVerdict:
    """Return the result of a check that passes."""
    return CheckVerdict(KINDS[code], Verdict.PASSED, text)


def skipped(code: str, text: str) -> CheckVerdict:
    """Return the result of a check that was not made."""
    return CheckVerdict(KINDS[code], Verdict.SKIPPED, text)


def failed(code: str, text: str, remedy: str = "") -> CheckVerdict:
    """Return the result of a check that finds what its kind states."""
    return _as_verdict(Finding(KINDS[code], detail=text, remedy=remedy), text)


def _verdict(code: str, text: str, *, is_fine: bool) -> CheckVerdict:
    return passed(code, text) if is_fine else failed(code, text)


def _as_verdict(finding: Finding, text: str = "") -> CheckVerdict:
    return CheckVerdict(finding.kind, _OF_SEVERITY[finding.kind.severity], text or finding.sentence, finding)


def find(results: Iterable[CheckVerdict]) -> list[Finding]:
    """Return what the checks found, the worst first."""
    bad = (result for result in results if result.verdict is not Verdict.PASSED)
    return findings.by_severity(result.finding for result in bad if result.finding)


def summary(results: Sequence[CheckVerdict]) -> str:
    """Return how many checks were made and how they ended, in words; those that were not made are named."""
    codes: dict[Verdict, dict[str, None]] = {verdict: {} for verdict in Verdict}
    for result in results:
        codes[result.verdict][_CHECK_OF.get(result.kind.code, result.kind.code)] = None
    left_out = codes.pop(Verdict.SKIPPED)
    made = len({code for of_verdict in codes.values() for code in of_verdict})
    bad = [f"{len(codes[verdict])} {verdict}" for verdict in (Verdict.FAILED, Verdict.WARNING) if codes[verdict]]
    not_made = f"; not made: {', '.join(left_out)}" if left_out else ""
    return f"{made} checks, {', '.join(bad) or 'none failed'}{not_made}"


def results(snapshot: FleetSnapshot, required: Collection[str] = ()) -> Iterator[CheckVerdict]:
    """Yield the results of all checks; `required` are the workloads that have to be installed."""
    installed = snapshot.installation or Installation("")
    yield kubernetes(installed.kubernetes)
    yield from _workloads(snapshot, installed, required)
    yield _admission(snapshot, installed)
    if MANAGER in installed.workloads or snapshot.why_unread(f"leases/{MANAGER}"):
        yield _leader(snapshot, installed)
    yield from _versions(installed)
    yield _priority_classes(snapshot)
    yield from _configuration(snapshot, installed)
    yield from _reports(snapshot, installed)
    yield _waiting(snapshot)
    yield _refused(snapshot)
    yield from _replaced(snapshot, installed)
    lacking = list(dict.fromkeys(event.message.partition(";")[0] for event in snapshot.without_right))
    yield _named(snapshot, "MidEvictionNotAllowed", "events", lacking, "no namespace lacks the right to evict")
    wrong = [f"{name}: {text[:_LONGEST_MESSAGE]}" for name, text in sorted(snapshot.malformed_quotas.items())]
    yield _named(snapshot, "MidQuotaMalformed", "namespaces", wrong, "no annotation mid-quota is malformed")


def _named(snapshot: FleetSnapshot, code: str, what: str, wrong: Sequence[str], fine: str) -> CheckVerdict:
    if why := snapshot.why_unread(what):
        return skipped(code, why)
    return _verdict(code, first(wrong) or fine, is_fine=not wrong)


def kubernetes(version: str) -> CheckVerdict:
    """Check the version of the cluster."""
    oldest = ".".join(map(str, OLDEST_KUBERNETES))
    numbers = version.split(".")[:2]
    if not all(number.isdigit() for number in numbers) or len(numbers) < 2:
        return skipped("KubernetesVersion", "not read")
    if tuple(map(int, numbers)) < OLDEST_KUBERNETES:
        return failed("KubernetesVersion", f"Kubernetes {version}, want {oldest} or newer")
    return passed("KubernetesVersion", f"Kubernetes {version} is {oldest} or newer")


def _workloads(snapshot: FleetSnapshot, installed: Installation, required: Collection[str]) -> Iterator[CheckVerdict]:
    """Yield one result for each workload; one that is not installed is a fault if it is required, or none is there."""
    forbidden = {gap.what.partition("/")[2] for gap in snapshot.unread if gap.is_right}
    is_empty = not installed.workloads and forbidden.isdisjoint(_WORKLOADS)
    for name, (code, kind) in _WORKLOADS.items():
        if workload := installed.workloads.get(name):
            ready, replicas = workload.ready, workload.wanted
            text = f"ready on {ready} of {replicas} nodes" if name == AGENT else f"{ready} of {replicas} ready"
            is_fine = 0 < replicas == ready if name == AGENT else ready > 0
            yield _verdict(code, f"{kind} {workload.metadata.name}: {text}", is_fine=is_fine)
            continue
        absent = f"{kind} {name} is not in namespace {installed.namespace}"
        is_needed = name in required or is_empty
        if name in forbidden:
            absent = f"not read: you may not read {kind} {name}"
        elif not is_needed:
            absent += " (optional)"
        yield (failed if is_needed else skipped)(code, absent)


def _admission(snapshot: FleetSnapshot, installed: Installation) -> CheckVerdict:
    """Check what sets limits and scheduler of new Mid pods."""
    rules, workload = installed.admission, installed.workloads.get(ADMISSION)
    if rules is None or (workload is None and snapshot.why_unread(f"deployments/{ADMISSION}")):
        return skipped("AdmissionReady", "not read")
    if rules.mode == "policy":
        return passed("AdmissionReady", f"policy: MutatingAdmissionPolicy {MID_LIMITS} is bound")
    if not rules.mode and workload is None:
        return skipped("AdmissionReady", "the mode is none: authors of Mid pods write limits and scheduler")
    if not rules.mode:
        return failed("AdmissionReady", f"MutatingWebhookConfiguration {MID_LIMITS} is missing")
    ready = f"{workload.ready} of {workload.wanted} ready" if workload else "it is missing"
    ends = f"{rules.valid_until:%Y-%m-%d}" if rules.valid_until else "-: caBundle is empty"
    text = f"webhook: Deployment {installed.name(ADMISSION)}: {ready}, certificate until {ends}"
    is_valid = rules.valid_until is not None and snapshot.time + LEAST_VALID < rules.valid_until
    return _verdict("AdmissionReady", text, is_fine=is_valid and workload is not None and workload.ready > 0)


def _leader(snapshot: FleetSnapshot, installed: Installation) -> CheckVerdict:
    name = installed.name(MANAGER)
    lacking = () if installed.leader else (f"the Lease {name} has no holder",)
    return _named(snapshot, "Leader", f"leases/{name}", lacking, f"{installed.leader} holds the Lease {name}")


def _versions(installed: Installation) -> Iterator[CheckVerdict]:
    versions = installed.versions()
    if len(set(versions.values())) > 1:
        yield failed("VersionSkew", ", ".join(f"{name} {version}" for name, version in sorted(versions.items())))
    elif versions:
        yield passed("VersionSkew", f"all parts are of version {next(iter(versions.values()))}")


def _priority_classes(snapshot: FleetSnapshot) -> CheckVerdict:
    if snapshot.priority_classes is None:
        return skipped("PriorityClasses", snapshot.why_unread("priorityclasses"))
    values = {priority_class.metadata.name: priority_class.value for priority_class in snapshot.priority_classes}
    bands = {band.value: BANDS[band] for band in (PriorityClass.PROD, PriorityClass.MID)}
    wrong = [
        f"{name} is {values[name]}, want {low} to {high}" if name in values else f"{name} is missing"
        for name, (low, high) in bands.items()
        if not low <= values.get(name, -1) <= high
    ]
    shown = ", ".join(f"{name} {values.get(name)}" for name in bands)
    return _verdict("PriorityClasses", "; ".join(wrong) or shown, is_fine=not wrong)


def _configuration(snapshot: FleetSnapshot, installed: Installation) -> Iterator[CheckVerdict]:
    if installed.outcome is None:
        yield skipped(evaluation.APPLIED, "not read")
        return
    bad = list(findings.configuration_findings(installed.outcome, snapshot.nodes or ()))
    if not bad:
        yield passed(evaluation.APPLIED, installed.configuration)
    yield from map(_as_verdict, bad)


def _reports(snapshot: FleetSnapshot, installed: Installation) -> Iterator[CheckVerdict]:
    """Yield the results about nodes: as many report as have a ready agent, then what is wrong with single ones."""
    nodes = snapshot.nodes
    if nodes is None:
        yield skipped("Reports", snapshot.why_unread("nodemetrics") or "not read")
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
    yield from _about_nodes(snapshot, nodes, is_complete=agent is not None and len(fresh) >= expected)
    predicted = sum(node.prod_peak.cpu is not None for node in fresh)
    if fresh and predicted == len(fresh):
        yield passed("NoPrediction", f"the reports of all {predicted} measured nodes carry a prediction")


def _about_nodes(snapshot: FleetSnapshot, nodes: Sequence[NodeState], *, is_complete: bool) -> Iterator[CheckVerdict]:
    """Yield the findings about nodes, or what was checked; with `is_complete` every agent reports."""
    limits = snapshot.usage_limits
    shown = ", ".join(f"{limit:g}% {resource}" for resource, limit in limits.items())
    fine = {
        "NodeStrategyIgnored": f"no annotation or label of {len(nodes)} nodes is refused",
        "ColocationOffWithMidPods": "no Mid pod is on a node without colocation",
        "NotReady": "no agent reports a fault of its node",
        "MidShort": "no node is short of Mid resources for more than 5 minutes",
        "SystemUsageReducesMid": "the predicted peak of no node is mostly outside of pods",
        "NodesAboveThreshold": f"no node is above the thresholds of {SCHEDULER}: {shown}",
    }
    if not limits:
        yield skipped("NodesAboveThreshold", f"{SCHEDULER} has no usage thresholds, or they were not read")
        del fine["NodesAboveThreshold"]
    texts = dict(fine)
    for finding in findings.fleet_findings(snapshot):
        if finding.kind.severity is Severity.NOTE:
            continue
        code = _CHECK_OF.get(finding.kind.code, finding.kind.code)
        fine.pop(code if code in texts else "NotReady", None)
        mild = dataclasses.replace(finding, kind=finding.kind._replace(severity=Severity.WARNING))
        yield _as_verdict(mild if finding.kind.code in _SILENT and is_complete else finding)
    for code, text in fine.items():
        yield passed(code, text)


def fresh_seconds(node: NodeState) -> float:
    """Return the age up to which the last sample of a working agent is normal, by the interval of its reports."""
    return max(FRESH_SECONDS, FRESH_INTERVALS * (node.report_interval_seconds or 0.0))


def is_fresh(node: NodeState) -> bool:
    """Check whether the report of a node is as new as that of a working agent."""
    return node.sample_age_seconds is not None and node.sample_age_seconds <= fresh_seconds(node)


def first(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


def _oldest(nodes: Sequence[NodeState]) -> str:
    ages = [(node.sample_age_seconds or 0.0, node.name) for node in nodes if not is_fresh(node)]
    ages.sort(key=lambda pair: -pair[0])
    return f"; not: {first([f'{name} {times.short_age(age)}' for age, name in ages])}"


def _listed(what: str, keys: Sequence[str]) -> str:
    return f"{len(keys)} {what}{'s' if len(keys) > 1 else ''}: {first(keys)}"


def _waiting(snapshot: FleetSnapshot) -> CheckVerdict:
    long = []
    for pod in snapshot.pending_pods or ():
        created = times.parse_rfc3339_or_none(pod.metadata.creation_timestamp)
        is_waiting = not pod.spec.node_name and priority_class(pod) is PriorityClass.MID
        if is_waiting and created is not None and snapshot.time - created > findings.LONG:
            long.append(f"{pod.metadata.namespace}/{pod.metadata.name}")
    if not long:
        return _named(snapshot, "MidPodsWait", "pods", (), "no Mid pod waits for a node for more than 5 minutes")
    return failed("MidPodsWait", _listed("Mid pod", long), f"koordctl explain pod {long[0]}")


def _refused(snapshot: FleetSnapshot) -> CheckVerdict:
    if not snapshot.refused_pods:
        return _named(snapshot, "MidPodsRefused", "events", (), "no rule of the suite refused a pod lately")
    keys = [f"{event.involved_object.kind} {event.key}" for event in snapshot.refused_pods]
    newest = snapshot.refused_pods[0]
    cause = newest.message.rpartition("denied request: ")[2][:_LONGEST_MESSAGE]
    seen = times.short_age((snapshot.time - newest.time).total_seconds()) if newest.time else "-"
    return failed("MidPodsRefused", f"{_listed('controller', keys)}: {seen} ago: {cause}")


def _replaced(snapshot: FleetSnapshot, installed: Installation) -> Iterator[CheckVerdict]:
    """Name what lacks Koordinator's agent, where this one took its place; nothing where nothing needs it."""
    if AGENT not in installed.workloads:
        return
    waiting = [
        f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in snapshot.pending_pods or () if _needs_koordlet(pod)
    ]
    batch = [node.name for node in snapshot.nodes or () if node.offers_batch]
    texts = [f"{_listed('LSR, LSE or device pod', waiting)} without a node"] if waiting else []
    if batch:
        texts.append(f"Batch pods are not suppressed, evicted or limited on {_listed('node', batch)}")
    if texts:
        yield failed("KoordletReplaced", "; ".join(texts))


def _needs_koordlet(pod: pods.Pod) -> bool:
    is_exclusive = (pod.metadata.labels or {}).get(names.LABEL_QOS) in ("LSR", "LSE")
    requests = (name for container in pod.spec.containers for name in container.resources.requests or ())
    return not pod.spec.node_name and (is_exclusive or any(name.startswith(_DEVICES) for name in requests))
