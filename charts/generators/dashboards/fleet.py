"""Panels of the dashboard Fleet: what all nodes use, need and publish."""

from __future__ import annotations

from typing import Final

from charts.generators.dashboards.panels import BYTES, CORES, COUNT, SECONDS, SHARE, Kind, Panel, PanelQuery

PANELS: Final = (
    Panel(
        Kind.STAT,
        "Nodes with Mid CPU",
        "Nodes that publish mid-cpu above 0.",
        COUNT,
        (PanelQuery("count(max by (node) (koord_manager_node_mid_cpu_cores) > 0) or vector(0)"),),
        4,
        4,
    ),
    Panel(
        Kind.STAT,
        "Mid CPU published",
        "mid-cpu of all nodes.",
        CORES,
        (PanelQuery("sum(max by (node) (koord_manager_node_mid_cpu_cores))"),),
        4,
        4,
    ),
    Panel(
        Kind.STAT,
        "Mid CPU requested",
        "mid-cpu that the pods of all nodes request.",
        CORES,
        (PanelQuery('sum(koordlet_requests_cpu_cores{kind="mid"})'),),
        4,
        4,
    ),
    Panel(
        Kind.STAT,
        "Mid memory published",
        "mid-memory of all nodes.",
        BYTES,
        (PanelQuery("sum(max by (node) (koord_manager_node_mid_memory_bytes))"),),
        4,
        4,
    ),
    Panel(
        Kind.STAT,
        "Mid memory requested",
        "mid-memory that the pods of all nodes request.",
        BYTES,
        (PanelQuery('sum(koordlet_requests_memory_bytes{kind="mid"})'),),
        4,
        4,
    ),
    Panel(
        Kind.STAT,
        "Oldest sample",
        "Age of the newest sample of the node that is silent for the longest time.",
        SECONDS,
        (PanelQuery("time() - min(max by (node) (koord_manager_node_sample_timestamp_seconds))"),),
        4,
        4,
    ),
    Panel(
        Kind.SERIES,
        "CPU of all nodes",
        "Usage and the predicted peak of Prod, against what Prod requests and what is published as Mid.",
        CORES,
        (
            PanelQuery("sum(koordlet_allocatable_cpu_cores)", "allocatable"),
            PanelQuery('sum(koordlet_requests_cpu_cores{kind="prod"})', "Prod requests"),
            PanelQuery("sum(koordlet_prod_peak_cpu_cores)", "predicted Prod peak"),
            PanelQuery('sum(koordlet_usage_cpu_cores{kind="node"})', "used"),
            PanelQuery('sum(koordlet_usage_cpu_cores{kind="mid"})', "used by Mid"),
            PanelQuery("sum(max by (node) (koord_manager_node_mid_cpu_cores))", "Mid published"),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Memory of all nodes",
        "Usage and the predicted peak of Prod, against what Prod requests and what is published as Mid.",
        BYTES,
        (
            PanelQuery("sum(koordlet_allocatable_memory_bytes)", "allocatable"),
            PanelQuery('sum(koordlet_requests_memory_bytes{kind="prod"})', "Prod requests"),
            PanelQuery("sum(koordlet_prod_peak_memory_bytes)", "predicted Prod peak"),
            PanelQuery('sum(koordlet_usage_memory_bytes{kind="node"})', "used"),
            PanelQuery('sum(koordlet_usage_memory_bytes{kind="mid"})', "used by Mid"),
            PanelQuery("sum(max by (node) (koord_manager_node_mid_memory_bytes))", "Mid published"),
        ),
    ),
    Panel(
        Kind.STACKED,
        "Nodes by reason",
        "Why nodes publish what they publish; the reasons are those of the condition.",
        COUNT,
        (PanelQuery("sum by (reason) (koord_manager_nodes) > 0", "{{reason}}"),),
    ),
    Panel(
        Kind.SERIES,
        "Prod above its predicted peak",
        "Share of the last day in which Prod used more than its predicted peak: all nodes, and the worst 10.",
        SHARE,
        (
            PanelQuery(
                "sum by (resource) (increase(koordlet_prod_peak_exceeded_seconds_total[1d]))"
                " / sum by (resource) (increase(koordlet_prod_peak_compared_seconds_total[1d]))",
                "all nodes, {{resource}}",
            ),
            PanelQuery(
                "topk(10, sum by (node, resource) (increase(koordlet_prod_peak_exceeded_seconds_total[1d]))"
                " / sum by (node, resource) (increase(koordlet_prod_peak_compared_seconds_total[1d])))",
                "{{node}}, {{resource}}",
            ),
        ),
    ),
    Panel(
        Kind.HEAT,
        "CPU usage over the nodes",
        "How many nodes use which share of their allocatable CPU.",
        SHARE,
        (
            PanelQuery(
                'sum by (node) (koordlet_usage_cpu_cores{kind="node"}) / sum by (node) (koordlet_allocatable_cpu_cores)'
            ),
        ),
    ),
    Panel(
        Kind.HEAT,
        "Predicted CPU peak of Prod over the nodes",
        "How many nodes have which share of their allocatable CPU as the predicted peak of Prod.",
        SHARE,
        (PanelQuery("sum by (node) (koordlet_prod_peak_cpu_cores) / sum by (node) (koordlet_allocatable_cpu_cores)"),),
    ),
    Panel(
        Kind.SERIES,
        "Mid CPU by namespace",
        "The 10 namespaces that request most mid-cpu, and what their Mid pods use.",
        CORES,
        (
            PanelQuery(
                "topk(10, sum by (namespace) (koordlet_namespace_mid_requested_cpu_cores))", "{{namespace}} requested"
            ),
            PanelQuery("topk(10, sum by (namespace) (koordlet_namespace_mid_used_cpu_cores))", "{{namespace}} used"),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Mid memory by namespace",
        "The 10 namespaces that request most mid-memory, and what their Mid pods use.",
        BYTES,
        (
            PanelQuery(
                "topk(10, sum by (namespace) (koordlet_namespace_mid_requested_memory_bytes))",
                "{{namespace}} requested",
            ),
            PanelQuery("topk(10, sum by (namespace) (koordlet_namespace_mid_used_memory_bytes))", "{{namespace}} used"),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Mid CPU that namespaces hold",
        "As MidGuard counts it, of the 10 namespaces that hold most, and their quotas.",
        CORES,
        (
            PanelQuery(
                "topk(10, max by (namespace) (koord_scheduler_plugin_namespace_mid_held_cpu_cores))", "{{namespace}}"
            ),
            PanelQuery(
                "max by (namespace) (koord_scheduler_plugin_namespace_mid_quota_cpu_cores)", "{{namespace}} quota"
            ),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Mid memory that namespaces hold",
        "As MidGuard counts it, of the 10 namespaces that hold most, and their quotas.",
        BYTES,
        (
            PanelQuery(
                "topk(10, max by (namespace) (koord_scheduler_plugin_namespace_mid_held_memory_bytes))", "{{namespace}}"
            ),
            PanelQuery(
                "max by (namespace) (koord_scheduler_plugin_namespace_mid_quota_memory_bytes)", "{{namespace}} quota"
            ),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Suppressed CPU by namespace",
        "CPU by which the limits of Mid pods are lowered at present, because Prod needs it.",
        CORES,
        (PanelQuery("topk(10, sum by (namespace) (koordlet_namespace_mid_suppressed_cpu_cores))", "{{namespace}}"),),
    ),
    Panel(
        Kind.SERIES,
        "Evicted Mid pods",
        "Mid pods that were evicted in the last hour, by namespace and by cause.",
        COUNT,
        (
            PanelQuery(
                "sum by (namespace) (increase(koord_manager_namespace_mid_evicted_pods_total[1h]))", "{{namespace}}"
            ),
            PanelQuery(
                'sum by (cause) (increase(koord_manager_mid_evictions_total{result="evicted"}[1h]))', "{{cause}}"
            ),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Forecasts that usage exceeded, by predictor",
        "Live evaluation over all nodes: share of the forecasts whose peak was too low.",
        SHARE,
        (
            PanelQuery(
                "max by (predictor, resource) (koord_manager_evaluation_violations_ratio)",
                "{{predictor}}, {{resource}}",
            ),
        ),
    ),
    Panel(
        Kind.SERIES,
        "Savings by predictor",
        "Live evaluation over all nodes: share of the Prod requests above the forecast peaks.",
        SHARE,
        (
            PanelQuery(
                "max by (predictor, resource) (koord_manager_evaluation_savings_ratio)", "{{predictor}}, {{resource}}"
            ),
        ),
    ),
    Panel(
        Kind.TABLE,
        "Nodes that publish least",
        "The 20 nodes with the least mid-cpu; the dashboard Node has the terms.",
        CORES,
        (PanelQuery("bottomk(20, max by (node) (koord_manager_node_mid_cpu_cores))"),),
        24,
    ),
)
