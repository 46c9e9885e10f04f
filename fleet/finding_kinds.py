"""The one list of findings: code, severity, sentence, fix, page and category. Pure.

Codes that exist elsewhere are the same here: reason codes of Mid resources, conditions of the agents, Events of the
manager. `koordctl status` and `koordctl check` are made from this list, docs/operations/findings.md is generated from
it, and alerts name its codes. Codes are never renamed.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from api_types.mid_pods import cpu_limits
from manager.mid_resource.reasons import CLOCK_WRONG, MANAGER_CLOCK_WRONG, RESERVATION_IGNORED, TEXTS, Closed, Reason
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
_PUT_BACK: Final = (
    "kubectl -n NAMESPACE get configmap koord-manager-last-good-config -o yaml | koordctl config apply "
    "--suite-namespace NAMESPACE --yes -"
)
_CONFIG: Final = "koordctl explain config NODE"
_LEASE: Final = "check that a manager leads: koordctl status --namespace NAMESPACE"
_LOG: Final = "kubectl -n NAMESPACE logs of the agent's pod on the node has the cause"
_SUPPRESSION: Final = "concepts/mid-pod-limits.md#suppression-lower-limits-while-the-node-is-busy"
_PACKAGES: Final = "contributing/adding-a-predictor.md#the-guard"
_SEE: Final = f"{_EVICTION}#see-what-happens"
_RIGHTS_FIX: Final = "the chart creates a role with them: viewer.create=true"


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


_ERROR, _WARNING, _NOTE = Severity
_CLUSTER, _RIGHTS, _INSTALLATION, _CONFIGURATION, _REPORTS, _SCHEDULING, _PREDICTION = Category
_REASONS: Final = (
    (Reason.SAMPLE_TOO_OLD, _ERROR, _AGENT, _STALE, _REPORTS),
    (Reason.NEVER_REPORTED, _ERROR, _AGENT, _STALE, _REPORTS),
    (Reason.NODE_METRIC_MISSING, _ERROR, _LEASE, _STALE, _REPORTS),
    (Reason.NO_PREDICTION, _WARNING, _EXPLAIN, _NO_PREDICTION, _PREDICTION),
    (Reason.REPORT_REFUSED, _WARNING, _EXPLAIN, _NO_PREDICTION, _REPORTS),
    (Reason.CALCULATED_WITHOUT_PREDICTION, _WARNING, _EXPLAIN, _NO_PREDICTION, _PREDICTION),
    (Reason.NO_CONFIGURATION, _WARNING, _CONFIG, _EDIT, _CONFIGURATION),
    (Reason.CALCULATED, _NOTE, _NOTHING, _FEWER, _REPORTS),
    (Reason.CALCULATED_FROM_RECLAIMABLE, _NOTE, _NOTHING, _FEWER, _REPORTS),
    (Reason.STATIC, _NOTE, _NOTHING, _FEWER, _REPORTS),
    (Reason.AWAITING_FIRST_REPORT, _NOTE, "wait for a report", _FEWER, _REPORTS),
    (Reason.NODE_WITHOUT_RESOURCES, _NOTE, "wait for the kubelet: kubectl describe node NODE", _FEWER, _REPORTS),
    (Reason.COLOCATION_DISABLED, _NOTE, _CONFIG, _FEWER, _CONFIGURATION),
    (Reason.SHADOW, _NOTE, _CONFIG, _FEWER, _CONFIGURATION),
)
_ROWS: Final[tuple[tuple[str, Severity, str, str, str, Category], ...]] = (
    ("KubernetesVersion", _ERROR, "Kubernetes is older than the suite supports", "upgrade the cluster",
     _INSTALL, _CLUSTER),
    ("PodSecurity", _ERROR, "the namespace does not admit the pods of the agent",
     "kubectl label namespace NAMESPACE pod-security.kubernetes.io/enforce=privileged", _INSTALL, _CLUSTER),
    ("OtherKoordinator", _WARNING, "objects of another installation are in the cluster",
     "install with the values of the page", "how-to/beside-koordinator.md", _CLUSTER),
    ("Permissions", _WARNING, "rights to read are missing", _RIGHTS_FIX, "how-to/koordctl.md#rights", _RIGHTS),
    ("InstallPermissions", _ERROR, "rights to install are missing", "install as an administrator",
     _INSTALL, _RIGHTS),
    ("CustomResourceDefinition", _ERROR, "the CRD of NodeMetric is not served", "install with crds.install=true",
     f"{_TROUBLE}#the-crd-is-missing", _INSTALLATION),
    ("NodeMetricFieldsDropped", _WARNING, "the CRD drops fields of this project",
     "set crds.install=true if no other project owns the CRD", f"{_TROUBLE}#the-crd-is-from-another-project",
     _INSTALLATION),
    ("AgentsReady", _ERROR, "the agent is not ready on each of its nodes",
     "kubectl -n NAMESPACE get pods -l app.kubernetes.io/name=koordlet -o wide", _STALE, _INSTALLATION),
    ("ManagerReady", _ERROR, "no replica of the manager is ready",
     "kubectl -n NAMESPACE describe deployment -l app.kubernetes.io/name=koord-manager", _NO_LEADER, _INSTALLATION),
    ("Leader", _ERROR, "no manager leads", "kubectl -n NAMESPACE get pods; the log names the cause",
     _NO_LEADER, _INSTALLATION),
    ("SchedulerReady", _ERROR, "no replica of the scheduler is ready",
     "kubectl -n NAMESPACE describe deployment -l app.kubernetes.io/name=koord-scheduler",
     f"{_TROUBLE}#the-scheduler-plugin-does-not-answer", _SCHEDULING),
    ("AdmissionReady", _ERROR, "new Mid pods are created without their limits and scheduler, or are refused",
     "kubectl -n NAMESPACE describe deployment -l app.kubernetes.io/name=koord-admission",
     f"{_TROUBLE}#no-admission-rules-run", _INSTALLATION),
    ("VersionSkew", _WARNING, "the parts have different versions", "helm upgrade", "how-to/upgrade.md",
     _INSTALLATION),
    ("PriorityClasses", _WARNING, "a PriorityClass of the suite is missing or differs",
     "install with priorityClasses.create=true, or correct the value", _INSTALL, _INSTALLATION),
    ("Reports", _ERROR, "fewer nodes report than have a ready agent", "koordctl top nodes --sort age:desc",
     _STALE, _REPORTS),
    ("MidPodsWait", _WARNING, "Mid pods wait for a node for more than 5 minutes",
     "koordctl explain pod NAMESPACE/NAME", "how-to/explain-a-pod.md", _SCHEDULING),
    ("KoordletReplaced", _WARNING, "this agent does less than Koordinator's, in whose place it runs",
     "leave these pods, and Batch, to nodes with Koordinator's agent", "how-to/beside-koordinator.md#the-agent",
     _SCHEDULING),
    ("MidPodsRefused", _WARNING, "rules of the suite refuse the pods of a controller",
     "correct the pod template as the message states", "how-to/tenants.md", _SCHEDULING),
    ("MidQuotaMalformed", _WARNING, "an annotation mid-quota is malformed: its namespace gets no new Mid pod",
     "correct koordinator.sh/mid-quota of the namespace", "how-to/tenants.md", _SCHEDULING),
    ("NodesAboveThreshold", _WARNING, "usage is above the threshold: koord-scheduler places nothing there",
     "koordctl top pods --node NODE --sort used:desc", "how-to/explain-a-pod.md", _SCHEDULING),
    ("MidShort", _WARNING, "Mid pods request more than is calculated for them", _EXPLAIN, _SEE, _SCHEDULING),
    (evaluation.REJECTED, _ERROR, "the configuration is rejected, the last good one stays in force",
     _DESCRIBE, _EDIT, _CONFIGURATION),
    (evaluation.ABSENT, _WARNING, "the configuration is absent or empty, which changes nothing", _PUT_BACK, _EDIT,
     _CONFIGURATION),
    (evaluation.IGNORED, _WARNING, "a part of the configuration is ignored", _DESCRIBE, _EDIT, _CONFIGURATION),
    (evaluation.ADVICE, _WARNING, "the configuration has likely mistakes", _DESCRIBE, _EDIT, _CONFIGURATION),
    ("ColocationOffWithMidPods", _WARNING, "colocation is off, and Mid pods are on the node", _CONFIG, _EDIT,
     _CONFIGURATION),
    (evaluation.APPLIED, _NOTE, "the configuration is in force", _NOTHING, _EDIT, _CONFIGURATION),
    # Reasons of Events of the manager that are not the code of another finding.
    ("MidResourcesReverted", _WARNING, "another client changes Mid resources back",
     "stop the client that the Event names", f"{_TROUBLE}#another-client-changes-mid-resources-back",
     _REPORTS),
    ("MidResourceReduced", _NOTE, "calculated Mid resources fell by more than a tenth of the node", _EXPLAIN,
     _FEWER, _REPORTS),
    ("NodeMetricFieldsKept", _NOTE, "the CRD keeps every field again", _NOTHING,
     f"{_TROUBLE}#the-crd-is-from-another-project", _INSTALLATION),
    ("NodeStrategyIgnored", _WARNING, "an annotation or label of the node is invalid and ignored", _CONFIG, _EDIT,
     _CONFIGURATION),
    ("NodeStrategyAdvice", _WARNING, "an annotation or label of the node is likely a mistake", _CONFIG, _EDIT,
     _CONFIGURATION),
    (evaluation.UNUSED, _NOTE, "the configuration has keys that this suite does not use", _NOTHING, _EDIT,
     _CONFIGURATION),
    ("MidPodEvicted", _NOTE, "a Mid pod was evicted: the node had too little for its Mid pods, or is emptied",
     _EXPLAIN, _SEE, _SCHEDULING),
    ("MidOnlyNode", _NOTE, "only Mid pods keep the node, and it is not emptied yet",
     "the Event has the cause", _AUTOSCALING, _SCHEDULING),
    ("MidOnlyNodeClosed", _NOTE, "only Mid pods keep the node: it is closed for new ones and emptied",
     "set midEviction.emptyNodeSeconds to 0 for nodes that no autoscaler removes", _AUTOSCALING, _SCHEDULING),
    ("MidOnlyNodeReopened", _NOTE, "a node that only Mid pods kept accepts new ones again", "nothing", _AUTOSCALING,
     _SCHEDULING),
    ("MidEvictionAdvised", _NOTE, "a Mid pod would be evicted if eviction were on", _EXPLAIN, _SEE, _SCHEDULING),
    ("MidEvictionRefused", _WARNING, "the API server refuses to evict a Mid pod",
     "correct the PodDisruptionBudget or the policy that the Event names", _SEE, _SCHEDULING),
    ("MidEvictionNotAllowed", _WARNING, "the manager may not evict pods of a namespace",
     "grant it by manager.eviction.namespaces of the chart", _SEE, _SCHEDULING),
    ("MidEvictionWithoutPod", _WARNING, "no Mid pod of the node may be evicted", _EXPLAIN, _SEE, _SCHEDULING),
    ("MidPodTerminatesSlowly", _WARNING, "an evicted Mid pod does not end",
     "kubectl describe pod shows what holds it", _SEE, _SCHEDULING),
    ("WorkloadHistoryUnreadable", _WARNING, "a stored history of workloads cannot be read, and begins again",
     "nothing: new pods are charged their request until then", _START, _PREDICTION),
    ("SystemUsageReducesMid", _WARNING, "most of the predicted peak runs outside of pods, beyond the reservation",
     "reserve it: systemReserved of the kubelet, or the annotation node.koordinator.sh/reservation",
     "concepts/mid-resources.md", _PREDICTION),
    ("ForecastsTooLow", _WARNING, "usage exceeds more forecasts than the predictor promises",
     "choose a predictor by koordctl backtest", "concepts/prediction.md#calibrated-peaks",
     _PREDICTION),
    ("PilotStage", _ERROR, "a stage of the pilot is not over", "wait, or undo it", "how-to/pilot.md", _PREDICTION),
    (CLOCK_WRONG, _WARNING, "the clock of the node is wrong",
     "synchronize it, for example by NTP", _STALE, _REPORTS),
    (MANAGER_CLOCK_WRONG, _WARNING, "the clock of the manager's own node is wrong, and that of the API server is used",
     "synchronize it, for example by NTP", _STALE, _REPORTS),
    (Closed.FROZEN.value, _WARNING, "no new Mid pod is admitted: midEmergency is freeze or drain",
     "remove midEmergency from the configuration", _EVICTION, _SCHEDULING),
    (Closed.EVICTED.value, _NOTE, "no new Mid pod is admitted: a Mid pod was evicted",
     _EXPLAIN, _EVICTION, _SCHEDULING),
    (Closed.LEAVING.value, _NOTE, "no new Mid pod is admitted: the node is about to be removed",
     _EXPLAIN, _AUTOSCALING, _SCHEDULING),
    (Closed.MID_ONLY.value, _NOTE, "no new Mid pod is admitted: only Mid pods keep the node, and it is emptied",
     "if the autoscaler does not remove it, set midEviction.emptyNodeSeconds to 0 for its nodeConfigs entry",
     _AUTOSCALING, _SCHEDULING),
    (Closed.SCALE_DOWN_CANDIDATE.value, _NOTE, "no new Mid pod is admitted: the node may be removed soon",
     _EXPLAIN, _AUTOSCALING, _SCHEDULING),
    (Closed.CORDONED.value, _NOTE, "no new Mid pod is admitted: the node is cordoned",
     "kubectl uncordon NODE", _AUTOSCALING, _SCHEDULING),
    ("NotReady", _ERROR, "the agent cannot measure the node", _EXPLAIN, _START, _REPORTS),
    ("SourceDegraded", _WARNING, "a source of the agent gives no data", _EXPLAIN, _START, _REPORTS),
    ("PredictionDegraded", _WARNING, "the prediction is less than it could be", _EXPLAIN, _START, _PREDICTION),
    ("SuppressionDegraded", _WARNING, "CPU limits of Mid pods do not follow the usage of the node",
     _EXPLAIN, _START, _SCHEDULING),
    ("Throttled", _WARNING, "CPU limits throttle Prod pods: their usage is lower than their need",
     _EXPLAIN, _START, _PREDICTION),
    ("MidPodsWithoutLimits", _WARNING, "Mid pods may use more than they request: containers have no limit",
     "set limits of cpu and memory for each container, sidecars too", "how-to/run-a-job-on-mid.md", _SCHEDULING),
    # Reasons of the agents' conditions; a finding about a node has them in its detail.
    ("NoNodeUsage", _ERROR, "the usage of the node could not be measured", "see SourceDegraded", _START, _REPORTS),
    ("PodsUnknown", _ERROR, "the list of pods has not arrived from the API server", _LOG, _START, _REPORTS),
    ("NoLimit", _WARNING, "a container of a Mid pod lacks a limit", "see MidPodsWithoutLimits",
     "how-to/run-a-job-on-mid.md", _SCHEDULING),
    ("NoData", _WARNING, "a source gave no data; the message has path and error", _LOG, _START, _REPORTS),
    ("Unsupported", _WARNING, "the configuration requests what this agent does not measure",
     "choose another metricMemoryCollectPolicy", "reference/configuration.md", _REPORTS),
    ("WarmingUp", _NOTE, "Prod pods with too little history count with their full request", _NOTHING, _START,
     _PREDICTION),
    ("ColdPods", _NOTE, "Prod pods have less history than the cold start period", _NOTHING, _START, _PREDICTION),
    ("SpecRefused", _WARNING, "the newest spec has an invalid value: the previous spec stays in force",
     _CONFIG, _EDIT, _REPORTS),
    ("SpecWithoutPredictPolicy", _WARNING, "the spec of the NodeMetric has no predictPolicy: defaults are in force",
     "set koordlet.predictPolicy, or install the CRD and the manager of this chart", _START, _PREDICTION),
    ("PredictorSwitchedOff", _WARNING, "another predictor answers for the one in force",
     "correct or replace the package that the message names", _PACKAGES, _PREDICTION),
    ("EvaluationDegraded", _WARNING, "a predictor that is only evaluated fails; the prediction is not affected",
     "correct or replace the package that the message names", _PACKAGES, _PREDICTION),
    ("HistoryInMemoryOnly", _WARNING, "the history is not stored on disk: a restart loses it",
     "correct what the message names", f"{_TROUBLE}#the-agents-history-is-lost-or-not-kept", _PREDICTION),
    (RESERVATION_IGNORED, _WARNING, "the annotation of the node that reserves resources is invalid and ignored",
     "correct node.koordinator.sh/reservation of the node", _START, _REPORTS),
    ("UnreadableObjects", _WARNING, "objects of the API server cannot be decoded: their last state is used",
     "correct the objects that the message names", _START, _REPORTS),
    ("IdentitiesRefused", _WARNING, "a pod claims by an annotation to be another one",
     "delete the pod that the message names", _START, _REPORTS),
    ("PodsRefused", _WARNING, "more than 1000 pods are tracked: the newest are charged their requests",
     "run fewer pods on the node", _START, _PREDICTION),
    ("ZfsCacheCounts", _WARNING, "much of the memory in use is ZFS' cache, which could be given back",
     "bound it by zfs_arc_max", "operations/faq.md#why-is-a-node-with-zfs-almost-full", _REPORTS),
    ("ThrottledPods", _WARNING, "CPU limits throttle Prod pods", "raise or remove the limits", _START, _PREDICTION),
    ("NotPermitted", _WARNING, "the agent may not change limits", "install with koordlet.suppression.enabled=true",
     _SUPPRESSION, _SCHEDULING),
    ("QuotaExceeded", _WARNING, "a ResourceQuota refuses to restore a limit", "raise the quota of the namespace",
     _SUPPRESSION, _SCHEDULING),
    ("ResizeRefused", _WARNING, "the API server refuses the resize of a pod", _LOG, _SUPPRESSION, _SCHEDULING),
    ("ResizeNotDone", _WARNING, "the kubelet does not do the resize of a pod",
     "kubectl describe pod shows its condition", _SUPPRESSION, _SCHEDULING),
    ("UsageBeyondLimits", _WARNING, "Mid pods use CPU that no limit lowers", "set CPU limits, or move the pods",
     _SUPPRESSION, _SCHEDULING),
    (cpu_limits.NOT_RESTORED, _WARNING, "the limit of a Mid pod is not restored", "raise the quota of the namespace",
     _SUPPRESSION, _SCHEDULING),
    (cpu_limits.AUTOSCALED, _WARNING, "an autoscaler sets CPU of a Mid pod that is suppressed",
     "let it leave CPU alone", _SUPPRESSION, _SCHEDULING),
    *((code.value, severity, TEXTS[code], fix, page, about) for code, severity, fix, page, about in _REASONS),
)  # fmt: skip
KINDS: Final[Mapping[str, FindingKind]] = {row[0]: FindingKind(*row) for row in _ROWS}
"""Each kind by its code."""
