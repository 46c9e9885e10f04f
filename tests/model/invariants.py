"""What has to hold after every step and at every write, judged by the true state of the world.

Every bound is generous where programs may lawfully be late; a bound that is missed is a violation.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import deque
from typing import Any

from tests.model import formula, world
from tests.model.cluster_parts import NODE, published
from tests.model.virtual_time import START
from tests.model.world import CPU, MEMORY, MID, NATIVE, Pod

ANNOTATION = "koordinator.sh/mid-resource-status"
CALCULATED = ("Calculated", "CalculatedFromReclaimable", "CalculatedWithoutPrediction")
WITHDRAWN = ("ColocationDisabled", "NodeMetricMissing", "NeverReported", "SampleTooOld", "PredictionTooOld")
SLACK = {CPU: 8, MEMORY: 1 << 18}
"""Rounding of four usages, and of the float32 in which they are cached."""
SETTLE_SECONDS = 90
"""Time after which a program that works has seen a change of a pod: a check of every withdrawn node is 30 s."""
LIST_SECONDS = 35
"""Longest age of a pod list: one is taken every half minute at most."""
INTERVAL_SECONDS, READMIT_SECONDS = 60, 120
"""Of the configuration: between the evictions of a node, and until it accepts new Mid pods again."""
SERVED_SECONDS = 2700
REPAIR_SECONDS = 200
LATE_SECONDS = 60
"""Longest time of a withdrawal."""


class Invariants:
    """Watches the writes of a run; `check` judges its present state."""

    def __init__(self, run) -> None:
        self.run = run
        self.unused_of_sample: dict[str, list[dict[str, int]]] = {}
        """Time of a sample on the wire -> the true Unused of the reports that have it."""
        self.arrived: dict[str, float] = {}
        """Time of a sample on the wire -> when its first report was written."""
        self.withdrawing_since: float | None = None
        self.closed_since: float | None = None
        """Since when no new Mid pod is to come, also if it was so for a shortage at first."""
        self.short_since: dict[str, float] = {}
        """Native resource -> since when Calculated is below what is allocated, by the writes."""
        self.reported_at: float | None = None
        self.reports: deque[dict[str, Any]] = deque(maxlen=4)
        self.evicted_at = -math.inf
        self.evicted_workloads: dict[str, list[float]] = {}
        self.written: dict[str, int] | None = None
        """What the manager wrote last, by native name; None before it wrote anything to this Node."""
        self.meddled_at = -math.inf
        self.is_record_lost = False
        """Whether another client changed the node while the manager could not see it, and it has not written since."""
        self.violations: list[str] = []

    def violated(self, text: str) -> None:
        self.violations.append(f"at {self.run.now():.0f} s: {text}")

    def forget(self) -> None:
        """Forget what the annotation of a node kept: the Node is another one."""
        self.withdrawing_since = self.closed_since = None
        self.short_since.clear()
        self.evicted_at = -math.inf
        self.evicted_workloads.clear()
        self.written = None

    def on_meddled(self) -> None:
        """Note that another client changed the node. What nobody can know any more is not asked for."""
        self.meddled_at = self.run.now()
        if not self.run.manager.is_running or self.run.is_blind("manager"):
            written = self.written
            self.forget()
            self.written, self.is_record_lost = written, True

    # writes

    def on_write(self, request) -> None:
        """Judge a write before it is stored."""
        if request.path == f"/api/v1/nodes/{NODE}/status" and request.headers["user-agent"] == "manager":
            self._on_node(request.document)
        elif request.path.endswith(f"/nodemetrics/{NODE}/status"):
            self._on_report(request.document["status"])
        elif request.path.endswith("/eviction"):
            self._on_eviction(*request.path.split("/")[-4:-1:2])

    def _on_report(self, status: dict[str, Any]) -> None:
        run = self.run
        now = run.now()
        was_set = run.clock_was_set_since(now - 1800)
        truth = {native: run.world.unused(native, in_any_tick=was_set) for native in NATIVE}
        self.unused_of_sample.setdefault(status["updateTime"], []).append(truth)
        self.arrived.setdefault(status["updateTime"], now)
        ahead = max(_seconds(status["updateTime"]) - now, 0.0)
        self.reported_at = now + min(ahead, 300)
        allocated = status.get("allocated")
        self.reports.append(status)
        since = min(now, run.agent_blind_since() or now) - 15
        for native in NATIVE if allocated else ():
            held = run.world.mid_held(native, now=now, since=since)
            if int(allocated["mid"][MID[native]]) > held:
                self.violated(
                    f"the report counts {allocated['mid'][MID[native]]} of {MID[native]} as allocated, admitted: {held}"
                )
        self._note_room(status, truth)
        peak = (status.get("prodPeakMetric") or {}).get("resource", {}).get("resources")
        if peak:
            self._on_prediction(status, {native: formula.amount(native, peak[native]) for native in NATIVE})

    def _note_room(self, status: dict[str, Any], unused: dict[str, int]) -> None:
        """End the time in which less is calculated than allocated: by this report it may be over."""
        for native in list(self.short_since):
            calculated = self._calculated(status, unused[native], native, without_prediction=True)
            if calculated is None or calculated >= int(status["allocated"]["mid"][MID[native]]):
                del self.short_since[native]

    def _calculated(self, status: dict[str, Any], unused: int, native: str, **more: bool) -> int | None:
        """Return Calculated by a report, for the configuration as it is, and as the node's NodeMetric has it."""
        spec = (self.run.server.view("nodemetrics", NODE) or {}).get("spec") or {}
        policies = [spec.get("midColocationPolicy") or {}, self.run.config.in_force]
        return formula.most_calculated(policies, status, unused + SLACK[native], native, **more)

    def _on_prediction(self, status: dict[str, Any], peak: dict[str, int]) -> None:
        agent = self.run.agent
        for native in NATIVE:
            if peak[native] > world.CAPACITY[native]:
                self.violated(f"Peak[Prod] of {native} is {peak[native]}, above the capacity {world.CAPACITY[native]}")
        forecast = agent.clean_forecast()
        if forecast is not None and forecast.publishes.peak is not None:
            for native in NATIVE:
                wanted = forecast.publishes.peak[native]
                if peak[native] < wanted - self._own_share(native) - SLACK[native]:
                    self.violated(
                        f"Peak[Prod] of {native} is {peak[native]}, without the tricks of tenants it is {wanted}"
                    )
        if (prediction := status.get("prediction")) is not None and self.run.agent_blind_since() is None:
            period = prediction["parameters"]["coldStartPeriodSeconds"]
            running = [
                pod
                for pod in self.run.world.all_pods()
                if pod.kind in ("prod", "none") and (pod.ended_at is None or pod.ended_at > self.run.now() - 15)
            ]
            recorded = {pod.name: agent.records.get(pod.cgroup_uid, 0.0) for pod in running}
            warm = [name for name, seconds in recorded.items() if seconds >= period - 45]
            if prediction["warmPods"] > len(warm):
                self.violated(
                    f"{prediction['warmPods']} pods are warm, recorded for {period} s are {warm} of {recorded}"
                )

    def _own_share(self, native: str) -> float:
        """Return what the pods with tricks may have taken from the peak: at most what they themselves use."""
        column, unit = NATIVE.index(native), 1000 if native == CPU else 1
        return sum(
            3 * pod.demand[column] * unit + pod.requests.get(native, 0)
            for pod in self.run.world.all_pods()
            if pod.is_trick and pod.kind in ("prod", "none")
        )

    def _on_node(self, patch: dict[str, Any]) -> None:
        text = (patch.get("metadata", {}).get("annotations") or {}).get(ANNOTATION)
        values = patch.get("status", {}).get("allocatable")
        if values is None:
            return
        if values != patch["status"]["capacity"]:
            self.violated(f"capacity and allocatable differ: {patch['status']}")
        status = json.loads(text) if text else {"reason": "ColocationDisabled", "resources": {}}
        amounts = {native: int(values[mid]) for native, mid in MID.items() if values.get(mid) is not None}
        self.written = amounts
        for native, value in amounts.items():
            self._on_line(native, value, status)
        begun = [self.closed_since or self.run.now(), *self.short_since.values()]
        self.closed_since = min(begun) if status.get("closed") else None
        if status["reason"] in WITHDRAWN:
            if self.withdrawing_since is None:
                self.withdrawing_since = self.run.now()
            # Without the record and the pods, what is published counts until the next list.
            if self.run.can_list or not self.is_record_lost:
                self._on_withdrawal(amounts, status["reason"])
        elif status["reason"] in CALCULATED:
            self.withdrawing_since = None
        self.is_record_lost = False

    def _on_line(self, native: str, value: int, status: dict[str, Any]) -> None:
        line = status.get("resources", {}).get(MID[native])
        if line is None:
            return
        if line.get("published") != value:
            self.violated(f"the annotation has {line.get('published')} of {MID[native]}, written is {value}; {status}")
        if status["reason"] not in (*CALCULATED, "Static"):
            return
        terms = formula.sum_of_terms(line)
        if status.get("closed"):  # room for the pods that are there
            terms = line.get("floor", min(value, terms))
        if terms != value:
            self.violated(f"the terms of {MID[native]} add up to {terms}, written is {value}: {line}")
        if status["reason"] in CALCULATED:
            self._on_calculated(native, value, line, status)

    def _on_calculated(self, native: str, value: int, line: dict[str, Any], status: dict[str, Any]) -> None:
        """Judge a calculated value: at most Unused of its sample, or what admitted pods hold."""
        run, now = self.run, self.run.now()
        truths = self.unused_of_sample.get(status.get("sample", ""))
        if truths is None:
            self.violated(f"no report has the sample {status.get('sample')!r}")
            return
        unused = max(truth[native] for truth in truths) + SLACK[native]
        seen = self.arrived[status["sample"]] - 15
        since = run.first_seen(min(seen, run.agent_blind_since() or now, now - SETTLE_SECONDS))
        held = run.world.mid_held(native, now=now, since=since)
        if value > max(unused, held):
            self.violated(f"{value} of {MID[native]} is offered; unused: {unused}, held by admitted pods: {held}")
        if (line.get("floor") or 0) > held:
            self.violated(f"the floor of {MID[native]} is {line['floor']}, admitted pods hold {held}")
        report = (run.server.view("nodemetrics", NODE) or {}).get("status") or {}
        is_without = status["reason"] == "CalculatedWithoutPrediction"
        calculated = self._calculated(report, unused, native, without_prediction=is_without)
        is_of_it = report.get("updateTime") == status["sample"]
        if is_of_it and calculated is not None and value > max(calculated + SLACK[native], held):
            self.violated(f"{value} of {MID[native]} is offered; calculated: {calculated}, held: {held}")
        run.config.advance(now)
        if native == MEMORY and is_of_it and report.get("usage") and run.config.spares_until < now - SETTLE_SECONDS:
            usable = world.CAPACITY[MEMORY] * formula.THRESHOLD_PERCENT // 100 - formula.memory_beside_mid(report)
            if value > max(usable, held):
                self.violated(f"{value} of memory is offered; the node evicts where {usable} are used, held: {held}")
        if calculated is None or calculated >= run.world.mid_held(native, now=now, since=now):
            self.short_since.pop(native, None)
        else:
            begin = self.short_since.setdefault(native, now)
            known = begin + 1 if run.can_list else math.inf  # else the last known floor counts
            before = run.world.mid_held(native, now=now, since=since, bound_before=known)
            if value > max(calculated + SLACK[native], before):
                self.violated(
                    f"{value} of {MID[native]} is offered; calculated: {calculated}, held by pods that were bound "
                    f"before {begin:.0f} s, when it fell below what is allocated: {before}"
                )

    def _on_withdrawal(self, amounts: dict[str, int], reason: str) -> None:
        run, now = self.run, self.run.now()
        assert self.withdrawing_since is not None
        run.config.advance(now)
        if reason == "ColocationDisabled" and now - run.config.off_until > 30 and not run.is_blind("manager"):
            self.violated(f"switched off, though the configuration is on since {run.config.off_until:.0f} s")
        since = run.first_seen(now - LIST_SECONDS)
        known = self.withdrawing_since + 1 if run.can_list else math.inf
        for native, value in amounts.items():
            held = run.world.mid_held(native, now=now, since=since, bound_before=known)
            if value > held:
                self.violated(
                    f"a withdrawal ({reason}) offers {value} of {MID[native]}, pods that were bound before "
                    f"{self.withdrawing_since:.0f} s hold {held}"
                )

    # bindings and evictions

    def on_bound(self, pod: Pod) -> None:
        """Judge a Mid pod that a scheduler with the guard has bound."""
        run = self.run
        if run.scheduler.extender is None or not any(pod.mid(native) for native in NATIVE):
            return
        report = (run.server.view("nodemetrics", NODE) or {}).get("status") or {}
        truths = self.unused_of_sample.get(report.get("updateTime", ""), [])
        for native in NATIVE:
            if not truths or not pod.mid(native):
                continue
            unused = max(truth[native] for truth in truths) + SLACK[native]
            calculated = self._calculated(report, unused, native)
            held = sum(each.mid(native) for each in run.world.pods.values() if each.holds())
            if calculated is not None and held > calculated + SLACK[native]:
                self.violated(f"the guard passed {pod.name}: Mid pods hold {held} of {native}, calculated {calculated}")

    def _on_eviction(self, namespace: str, name: str) -> None:
        """Judge an attempt to evict a pod: its class, the pace, the shortage, and that it has not just come back."""
        run, now = self.run, self.run.now()
        if run.server.budgets.get(namespace, 1) < 1:
            return
        if (node := name.partition("-")[0]) in run.neighbours.since:
            del run.neighbours.since[node]
        pod = run.world.pods.get(name)
        if pod is None:
            return
        if pod.kind != "mid":
            self.violated(f"{name} of class {pod.kind} is evicted")
        if now - self.evicted_at < INTERVAL_SECONDS - 2:
            self.violated(f"{name} is evicted {now - self.evicted_at:.0f} s after the last one")
        times = self.evicted_workloads.setdefault(pod.workload, [])
        # Without the guard a pod may come back once: into the room of another one that ended since the last report.
        before = times[-1:] if run.scheduler.extender else times[-2:-1]
        if before and now - before[0] < READMIT_SECONDS:
            self.violated(f"{name} is evicted {now - before[0]:.0f} s after a pod that it replaces")
        times.append(now)
        spec = (run.server.view("nodemetrics", NODE) or {}).get("spec") or {}
        policies = [spec.get("midColocationPolicy") or {}, run.config.in_force]
        if not any(
            formula.memory_is_high(status) or formula.may_be_short(policy, status, native)
            for status in self.reports
            if status.get("usage")
            for policy in policies
            for native in NATIVE
        ):
            self.violated(f"{name} is evicted; no report shows a shortage")
        self.evicted_at = now

    def on_kubelet_restart(self, rejected: list[Pod], offered: dict[str, int]) -> None:
        """Judge the pods that the kubelet rejects when it starts again."""
        run, now = self.run, self.run.now()
        old = [pod for pod in rejected if any(pod.mid(native) for native in NATIVE)]
        if not old or not run.config.protects_pods_since(now - 240) or run.disturbed_since(now - 240):
            return
        newest = max((pod.admitted_at or now for pod in run.world.running()), default=now)
        ratchet = any(
            (pod.bound_at or 0) >= begin
            for pod in [*run.world.running(), *rejected]
            for begin in [self.withdrawing_since, self.closed_since, *self.short_since.values()]
            if begin is not None
        )
        if now - newest > SETTLE_SECONDS and not ratchet:
            self.violated(f"a restart of the kubelet evicts {[pod.name for pod in old]}; offered: {offered}")

    # state

    def check(self) -> None:
        """Judge the present state: a withdrawal that is due has happened."""
        self._check_repairs()
        waited = [name for name, since in self.run.neighbours.since.items() if self.run.now() - since > SERVED_SECONDS]
        if waited:
            self.violated(f"{waited} are short for {SERVED_SECONDS} s, and a pod of zzz may go")
        due = self._withdrawal_due_since()
        run, now = self.run, self.run.now()
        if due is None or run.manager_troubled_since(min(due, now - LATE_SECONDS - 30) - 120):
            return
        if now - due <= LATE_SECONDS:
            return
        since = run.first_seen(now - SETTLE_SECONDS)
        known = due + LATE_SECONDS if run.can_list else math.inf
        for native, value in published(run.server).items():
            held = run.world.mid_held(native, now=now, since=since, bound_before=known)
            if value > held:
                self.violated(
                    f"{value} of {MID[native]} is still offered {now - due:.0f} s after a withdrawal was due; "
                    f"pods that were bound before it hold {held}"
                )

    def _check_repairs(self) -> None:
        """Judge whether the manager has written again what another client changed."""
        run, now = self.run, self.run.now()
        offered = published(run.server)
        last = max(self.meddled_at, *run.reconnected_at.values(), run.last_manager_trouble)
        is_calm = now - last > REPAIR_SECONDS and not run.manager_troubled_since(last)
        if is_calm and run.server.view("nodes", NODE) and self.written not in (None, offered):
            text = f"the node offers {offered}, {now - last:.0f} s after another client changed it"
            self.violated(f"{text}; written: {self.written}")
            self.written = None

    def _withdrawal_due_since(self) -> float | None:
        run, now = self.run, self.run.now()
        if run.server.view("nodes", NODE) is None:
            return None
        dues = []
        if (off := run.config.off_since(now)) is not None:
            dues.append(off)
        degrade = run.config.longest_degrade_seconds
        last = max(self.reported_at or 0.0, run.metric_born_at)
        if now - last > degrade:
            dues.append(last + degrade)
        return min(dues, default=None)


def _seconds(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp() - START
