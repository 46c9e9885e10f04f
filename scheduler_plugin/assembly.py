"""The parts of an extender, put together: configuration -> policies -> rows -> verbs. No I/O."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

from prometheus_client.registry import Collector

from scheduler_plugin.config.loader import Configuration
from scheduler_plugin.decisions import recorder
from scheduler_plugin.decisions.metrics import DecisionCollector, ReportAgeCollector
from scheduler_plugin.decisions.recorder import DecisionRecords
from scheduler_plugin.extender.response_rows import ReplyRows
from scheduler_plugin.extender.verbs import Extender
from scheduler_plugin.framework.cycle import SchedulingCycle, WeightedScorer
from scheduler_plugin.plugins import registry
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.plugins.trimaran import args as trimaran_args
from scheduler_plugin.plugins.trimaran import measurements
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.state.cluster import Cluster
from scheduler_plugin.state.node_columns import NodeColumns


class Parts:
    """Everything between the configuration and the verbs."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        notice_ttl_seconds: float,
        short_list: int = 0,
        measurement_age_seconds: float = measurements.OLDEST_SECONDS,
        record_bytes: int = 16 * 1024**2,
    ) -> None:
        args = configuration.args[LoadAware.name]
        assert isinstance(args, LoadAwareArgs)
        running = {*configuration.filters, *configuration.score_weights}
        self.provider_specs = trimaran_args.common_specs({name: configuration.args[name] for name in sorted(running)})
        policy = dataclasses.replace(args.estimation_policy(), with_demand=bool(self.provider_specs))
        self.estimation_policy = policy
        self.measurements = Measurements(measurement_age_seconds)
        policies = {
            name: registry.POLICIES[name].build(configuration.args[name], self.measurements) for name in running
        }
        self.measured = [each for each in policies.values() if isinstance(each, MeasuredPlugin)]
        """Policies that read what the load watcher tells."""
        filters = [policies[name] for name in configuration.filters]
        scorers = [WeightedScorer(policies[name], weight) for name, weight in configuration.score_weights.items()]
        replies = ReplyRows()
        self.resources = policy.resources
        self.node_columns = recorder.RecordedColumns()
        explainers = {name: policies[name] for name in sorted(running) if hasattr(policies[name], "explain")}
        self.records = DecisionRecords(self.node_columns, explainers, record_bytes)
        # Names before policies: a policy that fails on a node must not leave a blank where its name belongs.
        self.vectors = NodeColumns([self.node_columns, replies, *policies.values()])
        self.cluster = Cluster(
            policy,
            self.vectors,
            system_in_prod=args.prod_usage_include_sys,
            notice_ttl_seconds=notice_ttl_seconds,
        )
        self.cycle = SchedulingCycle(filters, scorers, self.vectors)
        self.extender = Extender(self.cluster, self.cycle, replies, policy, self.records, short_list=short_list)

    def collectors(self) -> Sequence[Collector]:
        """What is counted here."""
        reasons = list(zip(self.cycle.rejecting_policies, self.cycle.reasons, strict=True))
        return (
            DecisionCollector(reasons, self.extender.rejections, self.extender.outcomes, self.records),
            ReportAgeCollector(self.node_columns, self.vectors, time.time),
        )
