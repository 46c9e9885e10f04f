"""The one list of findings: code, severity, sentence, fix and page. Pure.

Codes that exist elsewhere are the same here: reason codes of Mid resources, conditions of the agents, Events of the
manager. `koordctl status` is made from this list. Codes are never renamed.
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
_EXPLAIN: Final = "koordctl explain node NODE"
_DESCRIBE: Final = "kubectl -n NAMESPACE describe configmap slo-controller-config"
_CONFIG: Final = "koordctl explain config NODE"


class Severity(enum.StrEnum):
    """How bad a finding is, the worst first."""

    ERROR = "error"
    """A part does not work."""
    WARNING = "warning"
    """It works, with less than it could."""
    NOTE = "note"
    """Nothing to do, or what the operator has chosen."""


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


def _of_reasons() -> Iterator[FindingKind]:
    agent = "check the pod of the agent on the node: kubectl get pods -A -o wide --field-selector spec.nodeName=NODE"
    error, warning, note = Severity.ERROR, Severity.WARNING, Severity.NOTE
    rows = (
        (Reason.SAMPLE_TOO_OLD, error, agent, _STALE),
        (Reason.NEVER_REPORTED, error, agent, _STALE),
        (
            Reason.NODE_METRIC_MISSING,
            error,
            "check that a manager leads: kubectl -n NAMESPACE get lease koord-manager",
            _STALE,
        ),
        (Reason.NO_PREDICTION, warning, _EXPLAIN, _NO_PREDICTION),
        (Reason.REPORT_REFUSED, warning, _EXPLAIN, _NO_PREDICTION),
        (Reason.CALCULATED_WITHOUT_PREDICTION, warning, _EXPLAIN, _NO_PREDICTION),
        (Reason.NO_CONFIGURATION, warning, _CONFIG, _EDIT),
        (Reason.AWAITING_FIRST_REPORT, note, "wait for a report", _FEWER),
        (Reason.NODE_WITHOUT_RESOURCES, note, "wait for the kubelet: kubectl describe node NODE", _FEWER),
        (Reason.COLOCATION_DISABLED, note, _CONFIG, _FEWER),
        (Reason.SHADOW, note, _CONFIG, _FEWER),
    )
    return (FindingKind(reason.value, severity, TEXTS[reason], fix, page) for reason, severity, fix, page in rows)


def _of_nodes() -> Iterator[FindingKind]:
    warning = Severity.WARNING
    yield FindingKind(
        clock_skew.EVENT_REASON, warning, "the clock of the node is wrong", "synchronize it, for example by NTP", _STALE
    )
    yield FindingKind(
        Closed.FROZEN.value, warning, "no new Mid pod is admitted: midEmergency is freeze or drain",
        "remove midEmergency from the configuration", "concepts/mid-eviction.md",
    )  # fmt: skip
    yield FindingKind(
        Closed.EVICTED.value, Severity.NOTE, "no new Mid pod is admitted: a Mid pod was evicted", _EXPLAIN,
        "concepts/mid-eviction.md",
    )  # fmt: skip
    conditions = {
        "NotReady": (Severity.ERROR, "the agent cannot measure the node"),
        "SourceDegraded": (warning, "a source of the agent gives no data"),
        "PredictionDegraded": (warning, "the prediction is less than it could be"),
        "SuppressionDegraded": (warning, "CPU limits of Mid pods do not follow the usage of the node"),
        "Throttled": (warning, "CPU limits throttle Prod pods: their usage is lower than their need"),
    }
    for code, (severity, sentence) in conditions.items():
        yield FindingKind(code, severity, sentence, _EXPLAIN, _START)


def _of_installation() -> Iterator[FindingKind]:
    error, warning = Severity.ERROR, Severity.WARNING
    install = "how-to/install.md"
    rights = "grant the rights of docs/how-to/koordctl.md to your user"
    rows = (
        ("KubernetesVersion", error, "Kubernetes is older than the suite supports", "upgrade the cluster", install),
        ("Permissions", warning, "rights to read are missing", rights, "how-to/koordctl.md#rights"),
        ("InstallPermissions", error, "rights to install are missing", "install as an administrator", install),
        ("CustomResourceDefinition", error, "the CRD of NodeMetric is not served", "install with crds.install=true",
         f"{_TROUBLE}#the-crd-is-missing"),
        ("NodeMetricFieldsDropped", warning, "the CRD drops fields of this project",
         "set crds.install=true if no other project owns the CRD", f"{_TROUBLE}#the-crd-is-from-another-project"),
        ("AgentsReady", error, "the agent is not ready on each of its nodes",
         "kubectl -n NAMESPACE get pods -l app.kubernetes.io/name=koordlet -o wide", _STALE),
        ("ManagerReady", error, "no replica of the manager is ready",
         "kubectl -n NAMESPACE describe deployment koord-manager", f"{_TROUBLE}#no-manager-leads"),
        ("Leader", error, "no manager leads", "kubectl -n NAMESPACE get pods; the log names the cause",
         f"{_TROUBLE}#no-manager-leads"),
        ("SchedulerReady", error, "no replica of the scheduler is ready",
         "kubectl -n NAMESPACE describe deployment koord-scheduler", f"{_TROUBLE}#the-extender-is-unreachable"),
        ("VersionSkew", warning, "the parts have different versions", "helm upgrade", "how-to/upgrade.md"),
        ("Reports", error, "fewer nodes report than have a ready agent", "koordctl top nodes --sort age:desc", _STALE),
        ("PriorityClasses", warning, "a PriorityClass of the suite is missing or differs",
         "install with priorityClasses.create=true, or correct the value", install),
        ("PodSecurity", error, "the namespace does not admit the pods of the agent",
         "kubectl label namespace NAMESPACE pod-security.kubernetes.io/enforce=privileged", install),
        ("OtherKoordinator", warning, "objects of another installation are in the cluster",
         "install with crds.install=false and priorityClasses.create=false", "reference/koordinator-compatibility.md"),
        (condition.REJECTED, error, "the configuration is rejected, the last good one stays in force",
         _DESCRIBE, _EDIT),
        (condition.IGNORED, warning, "a part of the configuration is ignored", _DESCRIBE, _EDIT),
        (condition.ADVICE, warning, "the configuration has likely mistakes", _DESCRIBE, _EDIT),
    )  # fmt: skip
    return (FindingKind(*row) for row in rows)


KINDS: Final[Mapping[str, FindingKind]] = {
    kind.code: kind for kind in (*_of_installation(), *_of_nodes(), *_of_reasons())
}
"""Each kind by its code."""

ORDER: Final = {severity: position for position, severity in enumerate(Severity)}
"""Position of each severity, the worst first."""
