"""Panels of the dashboard Fleet: what all nodes use, need and publish."""

from __future__ import annotations

import functools
from typing import Final

from charts.generators.dashboards.panels import BYTES, CORES, COUNT, SECONDS, SHARE, Kind, Panel, about_both

_stat: Final = functools.partial(Panel, width=4, height=4, kind=Kind.STAT)
PANELS: Final = (
    _stat(
        "Nodes with Mid CPU",
        "Nodes that publish mid-cpu above 0.",
        COUNT,
        {"": "count(max by (node) (koord_manager_node_mid_cpu_cores) > 0) or vector(0)"},
    ),
    _stat(
        "Mid CPU published",
        "mid-cpu of all nodes.",
        CORES,
        {"": "sum(max by (node) (koord_manager_node_mid_cpu_cores))"},
    ),
    _stat(
        "Mid CPU requested",
        "mid-cpu that the pods of all nodes request.",
        CORES,
        {"": 'sum(koordlet_requests_cpu_cores{kind="mid"})'},
    ),
    _stat(
        "Mid memory published",
        "mid-memory of all nodes.",
        BYTES,
        {"": "sum(max by (node) (koord_manager_node_mid_memory_bytes))"},
    ),
    _stat(
        "Mid memory requested",
        "mid-memory that the pods of all nodes request.",
        BYTES,
        {"": 'sum(koordlet_requests_memory_bytes{kind="mid"})'},
    ),
    _stat(
        "Oldest sample",
        "Age of the newest sample of the node that is silent for the longest time.",
        SECONDS,
        {"": "time() - min(max by (node) (koord_manager_node_sample_timestamp_seconds))"},
    ),
    *about_both(
        Panel(
            "CPU of all nodes",
            "Usage and the predicted peak of Prod, against what Prod requests and what is published as Mid.",
            CORES,
            {
                "allocatable": "sum(koordlet_allocatable_cpu_cores)",
                "Prod requests": 'sum(koordlet_requests_cpu_cores{kind="prod"})',
                "predicted Prod peak": "sum(koordlet_prod_peak_cpu_cores)",
                "used": 'sum(koordlet_usage_cpu_cores{kind="node"})',
                "used by Mid": 'sum(koordlet_usage_cpu_cores{kind="mid"})',
                "Mid published": "sum(max by (node) (koord_manager_node_mid_cpu_cores))",
            },
        )
    ),
    Panel(
        "Nodes by reason",
        "Why nodes publish what they publish; the reasons are those of the condition.",
        COUNT,
        {"{{reason}}": "sum by (reason) (koord_manager_nodes) > 0"},
        kind=Kind.STACKED,
    ),
    Panel(
        "Prod above its predicted peak",
        "Share of the last day in which Prod used more than its predicted peak: all nodes, and the worst 10.",
        SHARE,
        {
            "all nodes, {{resource}}": (
                "sum by (resource) (increase(koordlet_prod_peak_exceeded_seconds_total[1d]))"
                " / sum by (resource) (increase(koordlet_prod_peak_compared_seconds_total[1d]))"
            ),
            "{{node}}, {{resource}}": (
                "topk(10, sum by (node, resource) (increase(koordlet_prod_peak_exceeded_seconds_total[1d]))"
                " / sum by (node, resource) (increase(koordlet_prod_peak_compared_seconds_total[1d])))"
            ),
        },
    ),
    Panel(
        "CPU usage over the nodes",
        "How many nodes use which share of their allocatable CPU.",
        SHARE,
        {
            "": (
                'sum by (node) (koordlet_usage_cpu_cores{kind="node"}) / sum by (node) (koordlet_allocatable_cpu_cores)'
            )
        },
        kind=Kind.HEAT,
    ),
    Panel(
        "Predicted CPU peak of Prod over the nodes",
        "How many nodes have which share of their allocatable CPU as the predicted peak of Prod.",
        SHARE,
        {"": "sum by (node) (koordlet_prod_peak_cpu_cores) / sum by (node) (koordlet_allocatable_cpu_cores)"},
        kind=Kind.HEAT,
    ),
    *about_both(
        Panel(
            "Mid CPU by namespace",
            "The 10 namespaces that request most mid-cpu, and what their Mid pods use.",
            CORES,
            {
                "{{namespace}} requested": "topk(10, sum by (namespace) (koordlet_namespace_mid_requested_cpu_cores))",
                "{{namespace}} used": "topk(10, sum by (namespace) (koordlet_namespace_mid_used_cpu_cores))",
            },
        )
    ),
    *about_both(
        Panel(
            "Mid CPU that namespaces hold",
            "As MidGuard counts it, of the 10 namespaces that hold most, and their quotas.",
            CORES,
            {
                "{{namespace}}": "topk(10, max by (namespace) (koord_scheduler_plugin_namespace_mid_held_cpu_cores))",
                "{{namespace}} quota": "max by (namespace) (koord_scheduler_plugin_namespace_mid_quota_cpu_cores)",
            },
        )
    ),
    Panel(
        "Suppressed CPU by namespace",
        "CPU by which the limits of Mid pods are lowered at present, because Prod needs it.",
        CORES,
        {"{{namespace}}": "topk(10, sum by (namespace) (koordlet_namespace_mid_suppressed_cpu_cores))"},
    ),
    Panel(
        "Evicted Mid pods",
        "Mid pods that were evicted in the last hour, by namespace and by cause.",
        COUNT,
        {
            "{{namespace}}": "sum by (namespace) (increase(koord_manager_namespace_mid_evicted_pods_total[1h]))",
            "{{cause}}": 'sum by (cause) (increase(koord_manager_mid_evictions_total{result="evicted"}[1h]))',
        },
    ),
    Panel(
        "Forecasts that usage exceeded, by predictor",
        "Live evaluation over all nodes: share of the forecasts whose peak was too low.",
        SHARE,
        {"{{predictor}}, {{resource}}": "max by (predictor, resource) (koord_manager_evaluation_violations_ratio)"},
    ),
    Panel(
        "Savings by predictor",
        "Live evaluation over all nodes: share of the Prod requests above the forecast peaks.",
        SHARE,
        {"{{predictor}}, {{resource}}": "max by (predictor, resource) (koord_manager_evaluation_savings_ratio)"},
    ),
    Panel(
        "Nodes that publish least",
        "The 20 nodes with the least mid-cpu; the dashboard Node has the terms.",
        CORES,
        {"": "bottomk(20, max by (node) (koord_manager_node_mid_cpu_cores))"},
        24,
        kind=Kind.TABLE,
    ),
)
