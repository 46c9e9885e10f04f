"""Simulate a node whose Prod pods are replaced, with the manager's part of the workload history beside it.

A node of 32 cores and 128 GiB runs 24 Prod pods of 8 Deployments that request 1 core and 4 GiB each. They use 25 % at
noon, grow for 10 minutes, and burn 0.8 core in their first 2 minutes. A step is two minutes.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

import msgspec
import numpy as np

from api_types.node_metric.workloads import WorkloadHistory
from koordlet.metric_cache import series
from koordlet.prediction import allocation
from koordlet.prediction.allocation import Owner, WholeAmounts
from koordlet.prediction.calibration.history import Prior
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.samples import RESOURCES, Snapshot, UsageSample
from manager.node_metric.workload_history import history
from tests.koordlet.prediction.pods import Pod

GIB = 1 << 30
STEP, DAY = 120, 86_400
CAPACITY = WholeAmounts(32_000, 128 * GIB)
ALLOCATABLE = WholeAmounts(31_500, 124 * GIB)
DEPLOYMENTS, REPLICAS = 8, 3
BEGIN = 1.7e9 - 1.7e9 % DAY
NAMES = ("n-sigma-v2", "calibrated")


class Running:
    """A pod that runs, and what it uses."""

    count = 0

    def __init__(self, deployment, now, rng, *, cores=1.0, gib=4.0, busy=0.25, is_flat=False, until=math.inf):
        Running.count += 1
        self.deployment, self.start, self.until, self.busy, self.is_flat = deployment, now, until, busy, is_flat
        self.cores, self.gib = cores, gib
        self.noise, self.level = rng.normal(), math.exp(0.25 * rng.normal())
        self.pod = Pod(
            f"p{Running.count}",
            cpu_request_millis=round(cores * 1000),
            memory_request_bytes=round(gib * GIB),
            owner=Owner("shop", "ReplicaSet", f"d{deployment}"),
        )

    def usage(self, now, rng):
        age = now - self.start
        self.noise = 0.97 * self.noise + math.sqrt(1 - 0.97**2) * rng.normal()
        day = 1.0 if self.is_flat else 0.55 - 0.45 * math.cos((now % DAY / 3600 - 2) / 24 * 2 * math.pi)
        cpu = self.cores * self.busy * self.level * day * math.exp(0.25 * self.noise)
        if age < 120:
            cpu += 0.8 * self.cores
        elif rng.random() < 1 / 240:
            cpu += 0.3 * self.cores
        memory = self.gib * (0.12 + 0.28 * min(age / 600, 1.0)) * (1 + 0.02 * self.noise)
        return UsageSample(min(cpu, 1.5 * self.cores), memory * GIB)


@dataclass
class Manager:
    """Merges hourly statements by the code of the manager, and hands out entries by the UID of cold pods."""

    learned: dict = field(default_factory=dict)

    def merge(self, now, stated):
        for added in stated:
            workload = added.uid, added.ordinal
            statement = msgspec.convert(added.to_wire(), history.Statement)
            self.learned[workload] = history.merge(self.learned.get(workload), statement, int(now))

    def entries(self, pods):
        known = {pod.uid: self.learned.get((pod.owner.uid, pod.owner.ordinal)) for pod in pods}
        return {uid: WorkloadHistory.model_validate(entry.to_wire("")) for uid, entry in known.items() if entry}


@dataclass
class Outcome:
    """Means over the last days, by predictor: what is on offer, and the share of the times at which it is short."""

    offer: dict
    short: dict
    drops: dict
    prior: Prior | None = None
    """Scores of the nodes, as those of five with as many labels as are wanted."""


def replaced(scenario, now):
    """Return the Deployments whose pods are replaced now, and whether the node is a new one."""
    seconds, since = now % DAY, now - BEGIN
    hour = int(seconds // 3600)
    everything = range(DEPLOYMENTS)
    due = {
        "nothing": (),
        "week": everything if (since - 6 * DAY) % (7 * DAY) == 10 * 3600 else (),
        "day": everything if seconds == 10 * 3600 else (),
        "day, each": [hour - 9] if seconds % 3600 == 0 and 9 <= hour < 17 else (),
        "8 h, each": [int(since // 3600) % 8] if seconds % 3600 == 0 else (),
        "4 h, one": [int(since // 14_400) % 8] if seconds % 14_400 == 0 else (),
        "4 h": everything if seconds % 14_400 == 0 else (),
        "moved every 6 h": everything if seconds % 21_600 == 0 else (),
        "spot node, 6 h": everything if seconds % 21_600 == 0 else (),
    }
    return () if since == 0 else due.get(scenario, ())


def simulate(scenario, *, history=True, days=7, seed=1, prior=None):
    """Return the outcome of a scenario on one node."""
    rng = np.random.default_rng(seed)

    def fresh():
        server = PredictionServer(PredictParameters(), training_interval_seconds=STEP)
        if prior is not None:
            server.prod.prior = dataclasses.replace(prior, updated_seconds=now)
        return server

    policies, now = [PredictParameters(predictor=name) for name in NAMES], BEGIN
    server, manager, stated, gone_nodes = fresh(), Manager(), math.nan, []
    pods = [Running(d, BEGIN - 1, rng) for d in range(DEPLOYMENTS) for _ in range(REPLICAS)]
    extra, rows, usages = [], [], []
    for step in range(days * DAY // STEP):
        now = BEGIN + step * STEP
        gone = replaced(scenario, now)
        if gone and scenario.startswith("spot"):
            gone_nodes.append(server)
            server, stated = fresh(), math.nan
        pods = [Running(one.deployment, now, rng) if one.deployment in gone else one for one in pods]
        if scenario == "twice from 12 to 18 h":
            wanted = 12 <= now % DAY / 3600 < 18
            extra = (extra or [Running(9, now, rng, cores=0.25, gib=1.0) for _ in range(24)]) if wanted else []
        if scenario == "jobs of 10 min":
            extra = [one for one in extra if now < one.until]
            if now % 1800 == 0:
                extra += [Running(10, now, rng, busy=0.9, is_flat=True, until=now + 600) for _ in range(4)]
        running = pods + extra
        used = {one.pod.uid: one.usage(now, rng) for one in running}
        system = UsageSample(0.3 + 0.05 * abs(rng.normal()), 1.5 * GIB)
        node = UsageSample(*(sum(values) for values in zip(system, *used.values(), strict=True)))
        bound = [one.pod for one in running]
        samples = series.snapshot_series(Snapshot(now, node, system, used), {}, series.Reserved(0.5, 4.0 * GIB))
        if history:
            server.prod.history = manager.entries(bound)
        server.train(now, samples, now, bound)
        server.calibrate(now, bound, CAPACITY)
        if server.workloads.stated and server.workloads.stated_seconds != stated:
            stated = server.workloads.stated_seconds
            manager.merge(now, server.workloads.stated)
        usages.append(used)
        if step % 7 == 0:  # at every phase of the hours
            found = server.predict_each(now, bound, ALLOCATABLE, policies, CAPACITY)
            rows.append((step, allocation.requested_by(bound), found, list(used)))
    outcome = offers_and_shortages(rows, usages, (1 if scenario.startswith("spot") else 4) * DAY // STEP)
    scores = [node.calibration.scores() for node in (*gone_nodes, server)]
    weights = {resource: sum(of_node[resource].weights for of_node in scores) for resource in RESOURCES}
    outcome.prior = Prior(BEGIN, weights)
    return outcome


def offers_and_shortages(rows, usages, first):
    """Return means over the predictions from a step on; the pods of a prediction count."""
    horizon = 3600 // STEP
    outcome = Outcome({}, {}, {})
    rows = [row for row in rows if first <= row[0] < len(usages) - horizon]
    for index, name in enumerate(NAMES):
        offers, short = [], []
        for step, requested, found, uids in rows:
            answer = found[index]
            if not isinstance(answer, Prediction):
                offers.append((0, 0))
                continue
            offers.append(answer.prod_reclaimable)
            ahead = usages[step + 1 : step + 1 + horizon]
            most = [max(sum(u[uid][r] for uid in uids if uid in u) for u in ahead) for r in range(2)]
            units = [most[0] * 1000, most[1]]
            short.append([p < min(u, q) - 1 for p, u, q in zip(answer.prod_peak, units, requested, strict=True)])
        cpu, memory = np.array(offers, float).T
        outcome.offer[name] = (cpu.mean() / 1000, memory.mean() / GIB)
        outcome.short[name] = tuple(100 * np.mean(short, axis=0))
        outcome.drops[name] = float(np.sum(np.diff(cpu) < -3000) / (len(rows) * 7 * STEP / DAY))
    return outcome
