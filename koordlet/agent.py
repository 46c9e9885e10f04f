"""The agent: wires its parts together and runs the tick, in the order of the data flow.

Each tick collects and caches. Every 30 s it trains, at its interval it exports, and when due it reports. All of it runs
on one event loop, so no lock is needed. Clocks are read here and passed down.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from typing import Final

from prometheus_client import CollectorRegistry

from api_types.node_metric import types as node_metric
from apiserver_client import backoff, session
from component_base import build_info, clock
from component_base.http_endpoint import ProbeResult
from koordlet.cluster import spec_in_force
from koordlet.cluster.view import ClusterView
from koordlet.influxdb_exporter import exporter
from koordlet.metrics import agent as agent_metrics
from koordlet.metrics import node as node_metrics
from koordlet.mid_suppression.planner import Change
from koordlet.mid_suppression.suppressor import Suppressor
from koordlet.node_observer import NodeObserver
from koordlet.prediction import evaluation
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.report import sending
from koordlet.report.builder import Forecast, ReportBuilder
from koordlet.samples import PROD_AND_UNRESERVED_SYSTEM
from koordlet.settings import KoordletSettings

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
TRAIN_SECONDS: Final = 30.0
EXPORT_DRAIN_SECONDS: Final = 3.0
"""Time for the last export. The agent has 5 s to end."""
_STUCK_TICKS: Final = 10.0
"""Largest age of the last tick of a healthy agent: ten missed ticks are more than a busy machine."""


class Agent:
    """Agent of one node. `run` returns when `stop` is set."""

    def __init__(self, settings: KoordletSettings, observer: NodeObserver, registry: CollectorRegistry) -> None:
        self.settings = settings
        self.observer = observer
        self.reports = ReportBuilder(observer)
        self.view = ClusterView(settings.node_name, settings.policy_below_spec())
        self.suppressor = Suppressor(
            observer, self.view, time.monotonic, clock.utc_now, is_enabled=settings.enable_suppression
        )
        self.counts = agent_metrics.Counts()
        self.stop = asyncio.Event()
        self.checkpointer = Checkpointer(settings.state_dir, settings.node_name, observer.server, observer.evaluation)
        self._peak_comparison = node_metrics.PeakComparison()
        self._published: sending.Published | None = None
        self._last_tick = time.monotonic()
        self._schedule = sending.ReportSchedule()
        self._failures = 0
        self._last_outcome: sending.Outcome | None = None
        self.exporter = exporter.start(settings)
        build_info.register(registry, "koordlet")
        registry.register(
            agent_metrics.AgentCollector(
                self.reports, self.counts, self.view.watches, self.checkpointer, cluster=self.view
            )
        )
        registry.register(node_metrics.EvaluationCollector(observer.evaluation, observer.server))
        registry.register(node_metrics.SuppressionCollector(self.suppressor))
        registry.register(node_metrics.NodeResourcesCollector(observer, self.view, self._peak_comparison))
        registry.register(node_metrics.MidNamespacesCollector(observer))
        if self.exporter is not None:
            registry.register(agent_metrics.ExporterCollector(self.exporter))

    async def run(self, api: session.Session) -> None:
        """Observe and report until `stop` is set or a task fails, then write the checkpoint."""
        self.checkpointer.restore()
        try:
            await self._run_tasks(api)
        finally:
            await self._end()

    async def _run_tasks(self, api: session.Session) -> None:
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(self.view.watch(api)),
                group.create_task(self.checkpointer.run(self.settings.checkpoint_interval_seconds)),
            ]
            try:
                await self._tick_until_stopped(api, group)
            finally:
                for task in background:
                    task.cancel()
                if self.exporter is not None:
                    self.exporter.writer.request_drain(EXPORT_DRAIN_SECONDS)

    async def _end(self) -> None:
        """Write the last checkpoint. A failure must not hide why the agent ends."""
        try:
            await self.checkpointer.save()
        except Exception:
            log.exception("the last checkpoint is not written")
        if self.exporter is not None:
            await asyncio.to_thread(self.exporter.writer.join)
        self.observer.collector.close()

    async def _tick_until_stopped(self, api: session.Session, group: asyncio.TaskGroup) -> None:
        reporting: asyncio.Task[None] | None = None
        suppressing: asyncio.Task[None] | None = None
        next_tick = time.monotonic()
        next_training = next_tick + TRAIN_SECONDS
        while not self.stop.is_set():
            self.counts.tick_lateness.add(max(time.monotonic() - next_tick, 0.0))
            self._tick()
            self.checkpointer.handle_reset(self.view.reset_request)
            now = time.monotonic()
            if now >= next_training:
                self._train()
                next_training = now + TRAIN_SECONDS
            self._export(now)
            if (changes := self._plan_suppression()) and (suppressing is None or suppressing.done()):
                suppressing = group.create_task(self._suppress(api, changes))
            if (reporting is None or reporting.done()) and self._schedule.is_check_due(now):
                reporting = group.create_task(self._try_to_report(api, now))
            next_tick = max(next_tick + TICK_SECONDS, time.monotonic())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(next_tick - time.monotonic()):  # wait_for would create a task for it
                    await self.stop.wait()
        for task in (reporting, suppressing):
            if task is not None:
                task.cancel()

    def _tick(self) -> None:
        """Collect and cache. Log any error of a tick; the next tick runs all the same."""
        begin = time.monotonic()
        try:
            self.observer.observe(time.time(), self.view, time.clock_gettime(time.CLOCK_BOOTTIME))
            peak = self.reports.prediction.prod_peak if self.reports.prediction else None
            usage = self.observer.newest.get(PROD_AND_UNRESERVED_SYSTEM)
            self._peak_comparison.add(begin - self._last_tick, usage, peak)
            self.view.log_refused_pods()
        except Exception:
            log.exception("tick failed; the next tick runs in 1 s")
        self.counts.ticks += 1
        self._last_tick = time.monotonic()
        self.counts.tick_duration.add(self._last_tick - begin)

    def _plan_suppression(self) -> list[Change]:
        try:
            return self.suppressor.plan()
        except Exception:
            self.suppressor.failures += 1
            log.exception("suppression of Mid pods is not planned; limits stay; trying again in 1 s")
            return []

    async def _suppress(self, api: session.Session, changes: list[Change]) -> None:
        try:
            await self.suppressor.send(api, changes)
        except Exception:
            self.suppressor.failures += 1
            log.exception("limits of Mid pods are not sent; trying again in 1 s")

    def _train(self) -> None:
        policy = spec_in_force.predict_policy(self.view.spec.predict_policy)
        now, boot_seconds = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
        try:
            parameters = spec_in_force.predict_parameters(policy)
            done = self.observer.train(now, parameters, boot_seconds)
        except Exception:
            log.exception("training failed; the next one runs in 30 s")
            return
        self.counts.trainings += 1
        self.counts.unusable_values += done.unusable_values
        try:
            self.observer.calibrate(now, self.view, boot_seconds)
        except Exception:
            log.exception("calibration failed; only calibrated peaks are affected; trying again in 30 s")
        plan = evaluation.Plan.from_policy(policy, parameters)
        try:
            self.observer.inform_packages(now, self.view, plan)
        except Exception:
            log.exception("predictors of packages did not get the newest samples; trying again in 30 s")
        try:
            self.observer.evaluate(now, self.view, plan, boot_seconds)
        except Exception:
            log.exception("evaluation of the predictors failed; predictions are not affected; trying again in 30 s")

    def _export(self, now: float) -> None:
        """Queue the means since the last export. Never blocks."""
        if self.exporter is None or not self.exporter.is_due(now):
            return
        try:
            at = time.time()
            means = self.observer.cache.means(at, self.exporter.interval_seconds)
            records = self.observer.evaluation.records
            self.exporter.export(at, means, self.view.pods.by_uid(), self.reports.prediction, records)
        except Exception:
            log.exception("export to InfluxDB failed; the next one runs after the interval")

    async def _try_to_report(self, api: session.Session, now: float) -> None:
        try:
            await self._report_if_due(api, now)
        except Exception:
            log.exception("report failed unexpectedly; trying again after the longest backoff")
            self._schedule.failed(now, backoff.DEFAULT.longest_seconds)

    async def _report_if_due(self, api: session.Session, now: float) -> None:
        """Publish when the interval has passed, or early when the prediction moved."""
        if self.view.resource_version is None:
            return
        policy = spec_in_force.predict_policy(self.view.spec.predict_policy)
        interval_in_spec = spec_in_force.report_interval_seconds(self.view.spec.metric_collect_policy)
        interval = min(interval_in_spec, policy.force_update_interval_seconds or 0)
        self._schedule.checked(now, policy.check_interval_seconds or 0, interval)
        forecast = self.reports.predict(time.time(), self.view, policy)
        if forecast is None:
            return
        is_early = not self._schedule.is_due(now)
        if is_early and not self._has_moved(forecast, policy.resource_diff_threshold_percent or 0):
            return
        self.reports.suppression_problems = self.suppressor.problems()
        status = self.reports.build(forecast, self.view, self.checkpointer.problem_text)
        version = self.view.resource_version
        sent = await sending.send(api, self.settings.node_name, status, version)
        if sent.resource_version is not None or sent.outcome is sending.Outcome.NO_NODE_METRIC:
            self.view.note_write(version, sent.resource_version)
        self._note(sent, forecast, status, now, interval)
        self.counts.early_reports += is_early and sent.outcome is sending.Outcome.WRITTEN

    def _has_moved(self, forecast: Forecast, threshold_percent: float) -> bool:
        allocatable = forecast.allocatable
        if self._published is None or allocatable is None:
            return True
        return sending.has_moved(forecast.publishes, self._published, allocatable, threshold_percent)

    def _note(
        self,
        sent: sending.Sent,
        forecast: Forecast,
        status: node_metric.NodeMetricStatus,
        now: float,
        interval_seconds: float,
    ) -> None:
        self.counts.reports[sent.outcome] += 1
        if sent.outcome is not self._last_outcome:
            log.log(
                logging.INFO if sent.outcome is sending.Outcome.WRITTEN else logging.WARNING,
                "report to NodeMetric %s: %s%s",
                self.settings.node_name,
                sent.outcome,
                f": {sent.problem}" if sent.problem else "",
            )
            self._last_outcome = sent.outcome
        if sent.outcome is not sending.Outcome.WRITTEN or sent.resource_version is None:
            pause = max(backoff.DEFAULT.seconds(self._failures, random.random), sent.retry_after_seconds)
            self._failures += 1
            self._schedule.failed(now, pause)
            return
        self._failures = 0
        self.view.conditions = status.conditions or ()
        self._published = forecast.publishes
        self.counts.last_report_seconds = time.time()
        self._schedule.written(now, interval_seconds, random.random())  # noqa: S311  # spreads load, hides nothing

    def health(self) -> ProbeResult:
        """Return whether the tick still runs."""
        age = time.monotonic() - self._last_tick
        return ProbeResult(age < _STUCK_TICKS * TICK_SECONDS, f"last tick {age:.1f} s ago")

    def ready(self) -> ProbeResult:
        """Return whether the agent knows its pods and measures its node."""
        missing = [name for name, state in self.view.watches.items() if not state.synced]
        if missing:
            faults = {str(state.last_error) for state in self.view.watches.values() if state.last_error}
            return ProbeResult(False, f"waiting for {', '.join(missing)}" + "".join(f"\n{fault}" for fault in faults))
        if self.observer.newest_at_seconds is None:
            return ProbeResult(False, "no sample of the node yet")
        return ProbeResult(True, "measuring and following the cluster")
