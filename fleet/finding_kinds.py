"""The one list of findings: code, severity, sentence, fix, page and category. Pure.

Codes that exist elsewhere are the same here: reason codes of Mid resources, conditions of the agents, Events of the
manager. `koordctl status` and `koordctl check` are made from this list, docs/operations/findings.md is generated from
it, and alerts name its codes. Codes are never renamed.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from manager.mid_resource import clock_skew
from manager.mid_resource.reasons import TEXTS, Closed, Reason
from manager.slo_config import condition

_TROUBLE: Final = "operations/troubleshooting.md"
_STALE: Final = f"{_TROUBLE}#a-nodemetric-is-stale"
_NO_PREDICTION: Final = f"{_TROUBLE}#reports-carry-no-prediction"
_FEWER: Final = f"{_TROUBLE}#a-node-offers-no-mid-resources-or-less-than-before"
_START: Final = f"{_TROUBLE}#where-to-start"
_EDIT: Final = f"{_TROUBLE}#an-edit-has-no-effect"
_NO_LEADER: Final = f"{_TROUBLE}#no-manager-leads"
_EVICTION: Final = "concepts/mid-eviction.md"
_INSTALL: Final = "how-to/install.md"
_IN_MANAGER: Final = "kubectl -n NAMESPACE exec deploy/koord-manager -- python -m manager"
_EXPLAIN: Final = f"{_IN_MANAGER} explain-mid --node NODE"
_DESCRIBE: Final = "kubectl -n NAMESPACE describe configmap slo-controller-config"
_CONFIG: Final = f"{_IN_MANAGER} explain-config --node NODE"
_AGENT: Final = (
    "check the pod of the agent on the node: kubectl get pods -A -o wide --field-selector spec.nodeName=NODE"
)
_NOTHING: Final = "nothing to do"


class Severity(enum.StrEnum):
    """How bad a finding is, the worst first."""

    ERROR = "error"
    """A part does not work."""
    WARNING = "warning"
    """It works, with less than it could."""
    NOTE = "note"
    """Nothing to do, or what the operator has chosen."""


class Category(enum.StrEnum):
    """What a finding is about, in the order of `koordctl check`."""

    CLUSTER = "cluster"
    RIGHTS = "rights"
    INSTALLATION = "installation"
    CONFIGURATION = "configuration"
    REPORTS = "reports"
    SCHEDULING = "scheduling"
    PREDICTION = "prediction"


class FindingKind(NamedTuple):
    """A kind of finding."""

    code: str
    severity: Severity
    sentence: str
    """What is found, without the object and the detail."""
    fix: str
    """What to do, as a sentence or a command; NODE is the name of the node, NAMESPACE that of the suite."""
    page: str
    """Page of the documentation with its anchor."""
    category: Category


def _of_reasons() -> Iterator[FindingKind]:
    error, warning, note = Severity.ERROR, Severity.WARNING, Severity.NOTE
    reports, configuration, prediction = Category.REPORTS, Category.CONFIGURATION, Category.PREDICTION
    lease = "check that a manager leads: kubectl -n NAMESPACE get lease koord-manager"
    rows = (
        (Reason.SAMPLE_TOO_OLD, error, _AGENT, _STALE, reports),
        (Reason.NEVER_REPORTED, error, _AGENT, _STALE, reports),
        (Reason.NODE_METRIC_MISSING, error, lease, _STALE, reports),
        (Reason.NO_PREDICTION, warning, _EXPLAIN, _NO_PREDICTION, prediction),
        (Reason.REPORT_REFUSED, warning, _EXPLAIN, _NO_PREDICTION, reports),
        (Reason.CALCULATED_WITHOUT_PREDICTION, warning, _EXPLAIN, _NO_PREDICTION, prediction),
        (Reason.NO_CONFIGURATION, warning, _CONFIG, _EDIT, configuration),
        (Reason.AWAITING_FIRST_REPORT, note, "wait for a report", _FEWER, reports),
        (Reason.NODE_WITHOUT_RESOURCES, note, "wait for the kubelet: kubectl describe node NODE", _FEWER, reports),
        (Reason.COLOCATION_DISABLED, note, _CONFIG, _FEWER, configuration),
        (Reason.SHADOW, note, _CONFIG, _FEWER, configuration),
    )
    return (
        FindingKind(each.value, severity, TEXTS[each], fix, page, about) for each, severity, fix, page, about in rows
    )


def _of_nodes() -> Iterator[FindingKind]:
    error, warning, note = Severity.ERROR, Severity.WARNING, Severity.NOTE
    reports, scheduling, prediction = Category.REPORTS, Category.SCHEDULING, Category.PREDICTION
    rows = (
        (clock_skew.EVENT_REASON, warning, "the clock of the node is wrong",
         "synchronize it, for example by NTP", _STALE, reports),
        (Closed.FROZEN.value, warning, "no new Mid pod is admitted: midEmergency is freeze or drain",
         "remove midEmergency from the configuration", _EVICTION, scheduling),
        (Closed.EVICTED.value, note, "no new Mid pod is admitted: a Mid pod was evicted",
         _EXPLAIN, _EVICTION, scheduling),
        ("NotReady", error, "the agent cannot measure the node", _EXPLAIN, _START, reports),
        ("SourceDegraded", warning, "a source of the agent gives no data", _EXPLAIN, _START, reports),
        ("PredictionDegraded", warning, "the prediction is less than it could be", _EXPLAIN, _START, prediction),
        ("SuppressionDegraded", warning, "CPU limits of Mid pods do not follow the usage of the node",
         _EXPLAIN, _START, scheduling),
        ("Throttled", warning, "CPU limits throttle Prod pods: their usage is lower than their need",
         _EXPLAIN, _START, prediction),
    )  # fmt: skip
    return (FindingKind(*row) for row in rows)


def _of_cluster() -> Iterator[FindingKind]:
    error, warning = Severity.ERROR, Severity.WARNING
    rights = "the chart creates a role with them: viewer.create=true"
    rows = (
        ("KubernetesVersion", error, "Kubernetes is older than the suite supports", "upgrade the cluster",
         _INSTALL, Category.CLUSTER),
        ("PodSecurity", error, "the namespace does not admit the pods of the agent",
         "kubectl label namespace NAMESPACE pod-security.kubernetes.io/enforce=privileged", _INSTALL, Category.CLUSTER),
        ("OtherKoordinator", warning, "objects of another installation are in the cluster",
         "install with crds.install=false and priorityClasses.create=false", "reference/koordinator-compatibility.md",
         Category.CLUSTER),
        ("Permissions", warning, "rights to read are missing", rights, "how-to/koordctl.md#rights", Category.RIGHTS),
        ("InstallPermissions", error, "rights to install are missing", "install as an administrator",
         _INSTALL, Category.RIGHTS),
    )  # fmt: skip
    return (FindingKind(*row) for row in rows)


def _of_installation() -> Iterator[FindingKind]:
    error, warning = Severity.ERROR, Severity.WARNING
    installation, reports, scheduling = Category.INSTALLATION, Category.REPORTS, Category.SCHEDULING
    rows = (
        ("CustomResourceDefinition", error, "the CRD of NodeMetric is not served", "install with crds.install=true",
         f"{_TROUBLE}#the-crd-is-missing", installation),
        ("NodeMetricFieldsDropped", warning, "the CRD drops fields of this project",
         "set crds.install=true if no other project owns the CRD", f"{_TROUBLE}#the-crd-is-from-another-project",
         installation),
        ("AgentsReady", error, "the agent is not ready on each of its nodes",
         "kubectl -n NAMESPACE get pods -l app.kubernetes.io/name=koordlet -o wide", _STALE, installation),
        ("ManagerReady", error, "no replica of the manager is ready",
         "kubectl -n NAMESPACE describe deployment koord-manager", _NO_LEADER, installation),
        ("Leader", error, "no manager leads", "kubectl -n NAMESPACE get pods; the log names the cause",
         _NO_LEADER, installation),
        ("SchedulerReady", error, "no replica of the scheduler is ready",
         "kubectl -n NAMESPACE describe deployment koord-scheduler", f"{_TROUBLE}#the-extender-is-unreachable",
         scheduling),
        ("VersionSkew", warning, "the parts have different versions", "helm upgrade", "how-to/upgrade.md",
         installation),
        ("PriorityClasses", warning, "a PriorityClass of the suite is missing or differs",
         "install with priorityClasses.create=true, or correct the value", _INSTALL, installation),
        ("Reports", error, "fewer nodes report than have a ready agent", "koordctl top nodes --sort age:desc",
         _STALE, reports),
        ("MidPodsWait", warning, "Mid pods wait for a node for more than 5 minutes",
         "kubectl describe pod names what is missing on the nodes", "how-to/explain-a-pod.md", scheduling),
    )  # fmt: skip
    return (FindingKind(*row) for row in rows)


def _of_configuration() -> Iterator[FindingKind]:
    error, warning, note = Severity.ERROR, Severity.WARNING, Severity.NOTE
    rows = (
        (condition.REJECTED, error, "the configuration is rejected, the last good one stays in force", _DESCRIBE),
        (condition.IGNORED, warning, "a part of the configuration is ignored", _DESCRIBE),
        (condition.ADVICE, warning, "the configuration has likely mistakes", _DESCRIBE),
        (condition.APPLIED, note, "the configuration is in force", _NOTHING),
    )
    return (FindingKind(*row, _EDIT, Category.CONFIGURATION) for row in rows)


KINDS: Final[Mapping[str, FindingKind]] = {
    kind.code: kind
    for kind in (*_of_cluster(), *_of_installation(), *_of_configuration(), *_of_nodes(), *_of_reasons())
}
"""Each kind by its code."""

ORDER: Final = {severity: position for position, severity in enumerate(Severity)}
"""Position of each severity, the worst first."""
