"""The alerts: one table, from which the chart's rules and docs/operations/alerts.md are generated.

An expression names metrics of this suite only. Every series of a counter exists from the start as 0, so that `increase`
sees the first event.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple


class AlertSeverity(enum.StrEnum):
    """How urgent an alert is."""

    CRITICAL = "critical"
    """Act now: the suite does not do its work, or pods are placed without it."""
    WARNING = "warning"
    """Act today: a part works with less than it needs."""


class Alert(NamedTuple):
    """One alert."""

    name: str
    """Name in Prometheus; never renamed, as silences and routes refer to it."""
    when: str
    """What has happened, in a few words; the summary."""
    expression: str
    """Condition in PromQL; it holds for every series that it returns."""
    minutes: int
    """Time that the condition holds before the alert fires."""
    severity: AlertSeverity
    anchor: str
    """Section of docs/operations/troubleshooting.md; empty where `remedy` is enough."""
    remedy: str = ""
    """What to do or check that the section does not name."""


ALERTS: Final = (
    Alert(
        "KoordNoManagerLeads", "no manager leads",
        "sum(koord_manager_leader) != 1 or absent(koord_manager_leader)",
        1, AlertSeverity.CRITICAL, "no-manager-leads",
    ),
    Alert(
        "KoordAdmissionDown", "no rules run for new Mid pods, or the certificate of koord-admission ends",
        "absent(koord_admission_certificate_end_timestamp_seconds) and on() "
        "present_over_time(koord_admission_certificate_end_timestamp_seconds[1d])"
        " or min(koord_admission_certificate_end_timestamp_seconds) - time() < 30 * 86400",
        5, AlertSeverity.CRITICAL, "no-admission-rules-run",
    ),
    Alert(
        "KoordConfigurationRefused", "the configuration is refused",
        'sum(koord_manager_config_state{state="refused"}) > 0',
        0, AlertSeverity.WARNING, "an-edit-has-no-effect",
    ),
    Alert(
        "KoordConfigurationAbsent", "the configuration is absent or empty",
        'sum(koord_manager_config_state{state=~"key-absent|configmap-absent"}) > 0',
        1, AlertSeverity.WARNING, "an-edit-has-no-effect",
    ),
    Alert(
        "KoordNodesMisconfigured", "nodes carry invalid annotations or labels",
        "sum(koord_manager_misconfigured_nodes) > 0",
        0, AlertSeverity.WARNING, "an-edit-has-no-effect",
    ),
    Alert(
        "KoordMidWithdrawn", "Mid resources were withdrawn",
        'sum by (reason) (koord_manager_nodes{reason=~"SampleTooOld|CalculatedWithoutPrediction|NeverReported"}) > 0',
        0, AlertSeverity.WARNING, "a-node-offers-no-mid-resources-or-less-than-before",
    ),
    Alert(
        "KoordMidFrozen", "Mid resources are frozen",
        'sum by (reason) (koord_manager_nodes{reason=~"NoPrediction|ReportRefused"}) > 0',
        5, AlertSeverity.WARNING, "reports-carry-no-prediction",
    ),
    Alert(
        "KoordAgentSilent", "an agent does not report",
        "time() - koord_manager_node_sample_timestamp_seconds > 3 * scalar(max(koord_manager_report_interval_seconds))",
        0, AlertSeverity.WARNING, "a-nodemetric-is-stale",
    ),
    Alert(
        "KoordNodeClockWrong", "the clock of a node is wrong",
        "koord_manager_node_clock_wrong > 0",
        5, AlertSeverity.WARNING, "a-nodemetric-is-stale",
    ),
    Alert(
        "KoordMidOverwritten", "another client writes Mid resources",
        "increase(koord_manager_node_status_reverts_total[1h]) > 10",
        0, AlertSeverity.WARNING, "another-client-changes-mid-resources-back",
    ),
    Alert(
        "KoordWritesFail", "writes of the manager fail",
        'rate(koord_manager_writes_total{result="error"}[5m]) > 0',
        10, AlertSeverity.WARNING, "connection-to-the-api-server-is-lost", "or RBAC",
    ),
    Alert(
        "KoordSchemaDropsFields", "the schema drops fields",
        "max(koord_manager_node_metric_dropped_fields) > 0",
        0, AlertSeverity.WARNING, "the-crd-is-from-another-project",
    ),
    Alert(
        "KoordEvictionRefused", "Mid pods that are to go cannot be evicted",
        'sum by (cause, result) (increase(koord_manager_mid_evictions_total{result=~"refused|forbidden|failed"}[10m]))'
        " > 0",
        10, AlertSeverity.WARNING, "",
        "[eviction](../concepts/mid-eviction.md#see-what-happens): a PodDisruptionBudget, RBAC or the API server",
    ),
    Alert(
        "KoordNodeStaysShort", "nodes stay short of Mid resources",
        "sum by (cause) (koord_manager_mid_short_nodes) > 0",
        30, AlertSeverity.WARNING, "",
        "[eviction](../concepts/mid-eviction.md#see-what-happens): it only advises, or finds no pod that may go",
    ),
    Alert(
        "KoordForecastsTooLow", "usage exceeds more forecasts of `calibrated` than the promised 1 %",
        "max by (predictor, resource) (koord_manager_evaluation_violations_ratio"
        '{predictor="calibrated", resource="cpu"}) > 0.01'
        " and max by (predictor, resource) (koord_manager_evaluation_forecasts) > 1000",
        60, AlertSeverity.WARNING, "", "[calibrated peaks](../concepts/prediction.md#calibrated-peaks)",
    ),
    Alert(
        "KoordReportsFail", "reports do not arrive",
        'sum by (outcome) (rate(koordlet_reports_total{outcome!="written"}[10m])) > 0',
        10, AlertSeverity.WARNING, "a-nodemetric-is-stale",
    ),
    Alert(
        "KoordCheckpointFails", "the checkpoint is not written",
        'increase(koordlet_checkpoint_writes_total{outcome="failed"}[30m]) > 0',
        0, AlertSeverity.WARNING, "the-agents-history-is-lost-or-not-kept",
    ),
    Alert(
        "KoordSourceUnreadable", "an agent cannot read a source",
        "increase(koordlet_source_failures_total[10m]) > 60",
        0, AlertSeverity.WARNING, "reports-carry-no-prediction",
    ),
    Alert(
        "KoordAgentLate", "the agent is late",
        "histogram_quantile(0.99, rate(koordlet_tick_lateness_seconds_bucket[10m])) >= 1",
        0, AlertSeverity.WARNING, "", "the node has no CPU time left",
    ),
    Alert(
        "KoordSuppressionFails", "CPU limits of Mid pods cannot be changed",
        'sum by (instance, outcome) (increase(koordlet_suppression_patches_total{outcome=~"quota|refused|not_permitted'
        '|unreachable"}[10m])) > 0 or increase(koordlet_suppression_failures_total[10m]) > 0',
        10, AlertSeverity.WARNING, "",
        "[suppression](../concepts/mid-pod-limits.md#suppression-lower-limits-while-the-node-is-busy), and condition"
        " `SuppressionDegraded`",
    ),
    Alert(
        "KoordExtenderFails", "kube-scheduler gets no answer",
        'rate(koord_scheduler_plugin_requests_total{outcome!="ok"}[5m]) > 0',
        0, AlertSeverity.CRITICAL, "the-scheduler-plugin-does-not-answer",
    ),
    Alert(
        "KoordPluginSkipped", "pods are placed without the scheduler plugin, or Mid pods wait for it",
        "sum by (result) (increase(koord_suite_unasked_pods_total[10m])) > on() group_left()"
        " 0.01 * (sum(increase(koord_scheduler_plugin_requests_total[10m])) or vector(0))",
        0, AlertSeverity.CRITICAL, "the-scheduler-plugin-does-not-answer",
    ),
    Alert(
        "KoordSchedulerReportsOld", "the scheduler decides by old reports",
        'koord_scheduler_plugin_nodes{report_age_at_most_seconds=~"300|900|3600|inf"} > 0',
        0, AlertSeverity.WARNING, "a-nodemetric-is-stale",
    ),
    Alert(
        "KoordExpiredNodesPass", "nodes with expired reports pass",
        "koord_scheduler_plugin_expired_nodes_pass > 0",
        1, AlertSeverity.CRITICAL, "nodes-with-expired-reports-pass",
    ),
    Alert(
        "KoordMidQuotaMalformed", "a namespace gets no new Mid pod, because its quota is malformed",
        "max(koord_scheduler_plugin_malformed_mid_quotas) > 0",
        5, AlertSeverity.WARNING, "",
        "`koordctl top namespaces` names it; write its annotation again, as in "
        "[quotas](../how-to/tenants.md#give-a-namespace-a-quota)",
    ),
    Alert(
        "KoordLoadWatcherOld", "the load watcher has no new data",
        "koord_load_watcher_window_age_seconds unless koord_load_watcher_window_age_seconds <= 300",
        5, AlertSeverity.WARNING, "the-load-watchers-windows-are-old",
    ),
    Alert(
        "KoordInfluxDbLosesPoints", "the export to InfluxDB loses points",
        "increase(koordlet_influxdb_dropped_points_total[10m]) > 0",
        0, AlertSeverity.WARNING, "influxdb-is-unreachable",
    ),
)  # fmt: skip
"""Every alert, in the order of the page: manager, agent, scheduler, load watcher, InfluxDB."""

_BY_REASON: Final = "{{ $labels.reason }}"
FINDINGS: Final[Mapping[str, str]] = {
    "KoordNoManagerLeads": "Leader",
    "KoordAdmissionDown": "AdmissionReady",
    "KoordConfigurationRefused": "ColocationConfigRejected",
    "KoordConfigurationAbsent": "ColocationConfigAbsent",
    "KoordNodesMisconfigured": "NodeStrategyIgnored",
    "KoordMidWithdrawn": _BY_REASON,
    "KoordMidFrozen": _BY_REASON,
    "KoordAgentSilent": "Reports",
    "KoordNodeClockWrong": "NodeClockWrong",
    "KoordMidOverwritten": "MidResourcesReverted",
    "KoordSchemaDropsFields": "NodeMetricFieldsDropped",
    "KoordEvictionRefused": "MidEvictionRefused",
    "KoordNodeStaysShort": "MidShort",
    "KoordForecastsTooLow": "ForecastsTooLow",
    "KoordReportsFail": "Reports",
    "KoordCheckpointFails": "HistoryInMemoryOnly",
    "KoordSourceUnreadable": "SourceDegraded",
    "KoordSuppressionFails": "SuppressionDegraded",
    "KoordSchedulerReportsOld": "Reports",
    "KoordMidQuotaMalformed": "MidQuotaMalformed",
}
"""Code of the finding (docs/operations/findings.md) that an alert is about; the others are about a metric only."""
