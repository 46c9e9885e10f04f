"""The one list of findings: code, severity, sentence, fix, page and category. Pure.

Codes that exist elsewhere are the same here: reason codes of Mid resources, conditions of the agents, Events of the
manager. `koordctl status` and `koordctl check` are made from this list, docs/operations/findings.md is generated from
it, and alerts name its codes. Codes are never renamed.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from api_types.mid_pods import cpu_limits
from manager.mid_resource.reasons import CLOCK_WRONG, RESERVATION_IGNORED, TEXTS, Closed, Reason
from manager.slo_config import evaluation

_TROUBLE: Final = "operations/troubleshooting.md"
_STALE: Final = f"{_TROUBLE}#a-nodemetric-is-stale"
_NO_PREDICTION: Final = f"{_TROUBLE}#reports-carry-no-prediction"
_FEWER: Final = f"{_TROUBLE}#a-node-offers-no-mid-resources-or-less-than-before"
_START: Final = f"{_TROUBLE}#where-to-start"
_EDIT: Final = f"{_TROUBLE}#an-edit-has-no-effect"
_NO_LEADER: Final = f"{_TROUBLE}#no-manager-leads"
_EVICTION: Final = "concepts/mid-eviction.md"
_AUTOSCALING: Final = "how-to/autoscaling.md"
_INSTALL: Final = "how-to/install.md"
_AGENT: Final = (
    "check the pod of the agent on the node: kubectl get pods -A -o wide --field-selector spec.nodeName=NODE"
)
_NOTHING: Final = "nothing to do"
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


def _reason_kinds() -> Iterator[FindingKind]:
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
        (Reason.CALCULATED, note, _NOTHING, _FEWER, reports),
        (Reason.CALCULATED_FROM_RECLAIMABLE, note, _NOTHING, _FEWER, reports),
        (Reason.STATIC, note, _NOTHING, _FEWER, reports),
        (Reason.AWAITING_FIRST_REPORT, note, "wait for a report", _FEWER, reports),
        (Reason.NODE_WITHOUT_RESOURCES, note, "wait for the kubelet: kubectl describe node NODE", _FEWER, reports),
        (Reason.COLOCATION_DISABLED, note, _CONFIG, _FEWER, configuration),
        (Reason.SHADOW, note, _CONFIG, _FEWER, configuration),
    )
    return (
        FindingKind(code.value, severity, TEXTS[code], fix, page, about) for code, severity, fix, page, about in rows
    )


def _node_kinds() -> Iterator[FindingKind]:
    error, warning, note = Severity.ERROR, Severity.WARNING, Severity.NOTE
    reports, scheduling, prediction = Category.REPORTS, Category.SCHEDULING, Category.PREDICTION
    rows = (
        (CLOCK_WRONG, warning, "the clock of the node is wrong",
         "synchronize it, for example by NTP", _STALE, reports),
        (Closed.FROZEN.value, warning, "no new Mid pod is admitted: midEmergency is freeze or drain",
         "remove midEmergency from the configuration", _EVICTION, scheduling),
        (Closed.EVICTED.value, note, "no new Mid pod is admitted: a Mid pod was evicted",
         _EXPLAIN, _EVICTION, scheduling),
        (Closed.LEAVING.value, note, "no new Mid pod is admitted: the node is about to be removed",
         _EXPLAIN, _AUTOSCALING, scheduling),
        (Closed.MID_ONLY.value, note, "no new Mid pod is admitted: only Mid pods keep the node, and it is emptied",
         "if the autoscaler does not remove it, set midEviction.emptyNodeSeconds to 0 for its nodeConfigs entry",
         _AUTOSCALING, scheduling),
        (Closed.SCALE_DOWN_CANDIDATE.value, note, "no new Mid pod is admitted: the node may be removed soon",
         _EXPLAIN, _AUTOSCALING, scheduling),
        (Closed.CORDONED.value, note, "no new Mid pod is admitted: the node is cordoned",
         "kubectl uncordon NODE", _AUTOSCALING, scheduling),
        ("NotReady", error, "the agent cannot measure the node", _EXPLAIN, _START, reports),
        ("SourceDegraded", warning, "a source of the agent gives no data", _EXPLAIN, _START, reports),
        ("PredictionDegraded", warning, "the prediction is less than it could be", _EXPLAIN, _START, prediction),
        ("SuppressionDegraded", warning, "CPU limits of Mid pods do not follow the usage of the node",
         _EXPLAIN, _START, scheduling),
        ("Throttled", warning, "CPU limits throttle Prod pods: their usage is lower than their need",
         _EXPLAIN, _START, prediction),
    )  # fmt: skip
    return (FindingKind(*row) for row in rows)


def _condition_kinds() -> Iterator[FindingKind]:
    """Yield the reasons of the agents' conditions; a finding about a node has them in its detail."""
    error, warning, note = Severity.ERROR, Severity.WARNING, Severity.NOTE
    reports, scheduling, prediction = Category.REPORTS, Category.SCHEDULING, Category.PREDICTION
    log = "kubectl -n NAMESPACE logs of the agent's pod on the node has the cause"
    suppression = "concepts/mid-pod-limits.md#suppression-lower-limits-while-the-node-is-busy"
    packages = "contributing/adding-a-predictor.md#the-guard"
    rows = (
        ("NoNodeUsage", error, "the usage of the node could not be measured", "see SourceDegraded", _START, reports),
        ("PodsUnknown", error, "the list of pods has not arrived from the API server", log, _START, reports),
        ("NoData", warning, "a source gave no data; the message has path and error", log, _START, reports),
        ("Unsupported", warning, "the configuration requests what this agent does not measure",
         "choose another metricMemoryCollectPolicy", "reference/configuration.md", reports),
        ("WarmingUp", note, "Prod pods with too little history count with their full request", _NOTHING, _START,
         prediction),
        ("ColdPods", note, "Prod pods have less history than the cold start period", _NOTHING, _START, prediction),
        ("SpecRefused", warning, "the newest spec has an invalid value: the previous spec stays in force",
         _CONFIG, _EDIT, reports),
        ("PredictorSwitchedOff", warning, "another predictor answers for the one in force",
         "correct or replace the package that the message names", packages, prediction),
        ("EvaluationDegraded", warning, "a predictor that is only evaluated fails; the prediction is not affected",
         "correct or replace the package that the message names", packages, prediction),
        ("HistoryInMemoryOnly", warning, "the history is not stored on disk: a restart loses it",
         "correct what the message names", f"{_TROUBLE}#the-agents-history-is-lost-or-not-kept", prediction),
        (RESERVATION_IGNORED, warning, "the annotation of the node that reserves resources is invalid and ignored",
         "correct node.koordinator.sh/reservation of the node", _START, reports),
        ("UnreadableObjects", warning, "objects of the API server cannot be decoded: their last state is used",
         "correct the objects that the message names", _START, reports),
        ("IdentitiesRefused", warning, "a pod claims by an annotation to be another one",
         "delete the pod that the message names", _START, reports),
        ("PodsRefused", warning, "more than 1000 pods are tracked: the newest are charged their requests",
         "run fewer pods on the node", _START, prediction),
        ("ThrottledPods", warning, "CPU limits throttle Prod pods", "raise or remove the limits", _START, prediction),
        ("NotPermitted", warning, "the agent may not change limits", "install with koordlet.suppression.enabled=true",
         suppression, scheduling),
        ("QuotaExceeded", warning, "a ResourceQuota refuses to restore a limit", "raise the quota of the namespace",
         suppression, scheduling),
        ("ResizeRefused", warning, "the API server refuses the resize of a pod", log, suppression, scheduling),
        ("ResizeNotDone", warning, "the kubelet does not do the resize of a pod",
         "kubectl describe pod shows its condition", suppression, scheduling),
        (cpu_limits.NOT_RESTORED, warning, "the limit of a Mid pod is not restored", "raise the quota of the namespace",
         suppression, scheduling),
        (cpu_limits.AUTOSCALED, warning, "an autoscaler sets CPU of a Mid pod that is suppressed",
         "let it leave CPU alone", suppression, scheduling),
    )  # fmt: skip
    return (FindingKind(*row) for row in rows)


def _event_kinds() -> Iterator[FindingKind]:
    """Yield the reasons of Events of the manager that are not the code of another finding."""
    warning, note = Severity.WARNING, Severity.NOTE
    configuration, scheduling = Category.CONFIGURATION, Category.SCHEDULING
    see = f"{_EVICTION}#see-what-happens"
    rows = (
        ("MidResourcesReverted", warning, "another client changes Mid resources back",
         "stop the client that the Event names", f"{_TROUBLE}#another-client-changes-mid-resources-back",
         Category.REPORTS),
        ("MidResourceReduced", note, "calculated Mid resources fell by more than a tenth of the node", _EXPLAIN,
         _FEWER, Category.REPORTS),
        ("NodeMetricFieldsKept", note, "the CRD keeps every field again", _NOTHING,
         f"{_TROUBLE}#the-crd-is-from-another-project", Category.INSTALLATION),
        ("NodeStrategyIgnored", warning, "an annotation or label of the node is invalid and ignored", _CONFIG, _EDIT,
         configuration),
        ("NodeStrategyAdvice", warning, "an annotation or label of the node is likely a mistake", _CONFIG, _EDIT,
         configuration),
        (evaluation.UNUSED, note, "the configuration has keys that this suite does not use", _NOTHING, _EDIT,
         configuration),
        ("MidPodEvicted", note, "a Mid pod was evicted: the node had too little for its Mid pods, or is emptied",
         _EXPLAIN, see, scheduling),
        ("MidOnlyNode", note, "only Mid pods keep the node, and it is not emptied yet",
         "the Event has the cause", _AUTOSCALING, scheduling),
        ("MidOnlyNodeClosed", note, "only Mid pods keep the node: it is closed for new ones and emptied",
         "set midEviction.emptyNodeSeconds to 0 for nodes that no autoscaler removes", _AUTOSCALING, scheduling),
        ("MidOnlyNodeReopened", note, "a node that only Mid pods kept accepts new ones again", "nothing", _AUTOSCALING,
         scheduling),
        ("MidEvictionAdvised", note, "a Mid pod would be evicted if eviction were on", _EXPLAIN, see, scheduling),
        ("MidEvictionRefused", warning, "the API server refuses to evict a Mid pod",
         "correct the PodDisruptionBudget or the policy that the Event names", see, scheduling),
        ("MidEvictionNotAllowed", warning, "the manager may not evict pods of a namespace",
         "grant it by manager.eviction.namespaces of the chart", see, scheduling),
        ("MidEvictionWithoutPod", warning, "no Mid pod of the node may be evicted", _EXPLAIN, see, scheduling),
        ("MidPodTerminatesSlowly", warning, "an evicted Mid pod does not end",
         "kubectl describe pod shows what holds it", see, scheduling),
        ("ForecastsTooLow", warning, "usage exceeds more forecasts than the predictor promises",
         "choose a predictor by koordctl backtest", "concepts/prediction.md#calibrated-peaks",
         Category.PREDICTION),
    )  # fmt: skip
    return (FindingKind(*row) for row in rows)


def _cluster_kinds() -> Iterator[FindingKind]:
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


def _installation_kinds() -> Iterator[FindingKind]:
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


def _configuration_kinds() -> Iterator[FindingKind]:
    error, warning, note = Severity.ERROR, Severity.WARNING, Severity.NOTE
    rows = (
        (evaluation.REJECTED, error, "the configuration is rejected, the last good one stays in force", _DESCRIBE),
        (evaluation.IGNORED, warning, "a part of the configuration is ignored", _DESCRIBE),
        (evaluation.ADVICE, warning, "the configuration has likely mistakes", _DESCRIBE),
        (evaluation.APPLIED, note, "the configuration is in force", _NOTHING),
    )
    return (FindingKind(*row, _EDIT, Category.CONFIGURATION) for row in rows)


KINDS: Final[Mapping[str, FindingKind]] = {
    kind.code: kind
    for kinds in (
        _cluster_kinds(),
        _installation_kinds(),
        _configuration_kinds(),
        _event_kinds(),
        _node_kinds(),
        _condition_kinds(),
        _reason_kinds(),
    )
    for kind in kinds
}
"""Each kind by its code."""

ORDER: Final = {severity: position for position, severity in enumerate(Severity)}
"""Position of each severity, the worst first."""
