"""The live evaluation of a node: equal to one computed from recorded samples, and without effect on what is published.

The expected values come from the cached raw samples and from predictions, by plain loops over them.
"""

from __future__ import annotations

import asyncio
import copy
import math
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from api_types.colocation import controller_config
from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.agent import Agent
from koordlet.cluster import spec_in_force
from koordlet.metrics.evaluation import EvaluationCollector
from koordlet.node_observer import NodeObserver
from koordlet.prediction import checkpointer
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.prediction.evaluation import Dropped, Plan
from koordlet.prediction.server import Prediction
from koordlet.samples import UNRESERVED_SYSTEM, Resource, UsageSample, pod_key
from koordlet.settings import KoordletSettings
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import GIB, StaticCluster, bound_pod

HORIZON = 900
EVALUATED = ["n-sigma-v2", "resource-central", "borg-default"]
HALF_LIFE = 7 * 86_400


def node_with(*pods, **policy):
    policy = {"coldStartPeriodSeconds": 300, "horizonSeconds": HORIZON, "evaluatedPredictors": EVALUATED, **policy}
    return FedNode(StaticCluster(*pods, spec={"predictPolicy": policy}))


def bursts(step):
    """Return the usage of two Prod pods, one of which ends, a Batch pod, and a system beyond its reservation."""
    pods = {
        "steady": UsageSample(0.4, 0.5 * GIB),
        "bursty": UsageSample(1.9 if step % 97 < 6 else 0.2, 0.2 * GIB + 2**20 * (step % 13)),
        "batch": UsageSample(3.0, GIB),
    }
    if step > 130:
        del pods["bursty"]
    if step > 60:
        pods["younger"] = UsageSample(2.5, 2 * GIB)
    return pods, UsageSample(0.7 + 0.1 * (step % 3), 1.25 * GIB)


def cluster_pods():
    return bound_pod("steady"), bound_pod("bursty"), bound_pod("batch", PriorityClass.BATCH)


def p90(values):
    return sorted(values)[max(int(len(values) * 0.9) - 1, 0)]


def recorded_usage(node, uids, until, resource):
    """Return the p90 of pods + S over the samples of the last 30 s."""
    cached = node.observer.cache.cached(node.now)
    row = list(Resource).index(resource)
    series = {key: cached.values[row, index].tolist() for index, key in enumerate(cached.keys)}
    sums = []
    for column, at in enumerate(cached.at_seconds.tolist()):
        if until - 30 < at <= until and not math.isnan(series[UNRESERVED_SYSTEM][column]):
            usages = [series[pod_key(uid)][column] for uid in uids if pod_key(uid) in series]
            sums.append(series[UNRESERVED_SYSTEM][column] + sum(each for each in usages if not math.isnan(each)))
    return p90(sums)


def predicted_peak(node, predictor, resource):
    parameters = spec_in_force.predict_parameters(node.policy).for_predictor(predictor)
    found = node.observer.server.predict(
        node.now, node.cluster.pods.active(), node.cluster.allocatable, parameters, node.cluster.capacity
    )
    assert isinstance(found, Prediction)
    whole = found.prod_peak
    return whole.cpu_millis / 1000 if resource is Resource.CPU else float(whole.memory_bytes)


class Independent:
    """Forecasts at the same times, closed from recorded samples, and their decayed scores."""

    def __init__(self, node):
        self.node = node
        self.closed = []
        self.begin()

    def begin(self):
        self.began_at = self.node.now
        self.uids = [pod.uid for pod in self.node.cluster.pods.active() if pod.priority_class == PriorityClass.PROD]
        self.peaks = {(name, each): predicted_peak(self.node, name, each) for name in EVALUATED for each in Resource}
        self.highest = dict.fromkeys(Resource, 0.0)

    def trained(self):
        for each in Resource:
            used = recorded_usage(self.node, self.uids, self.node.now, each)
            self.highest[each] = max(self.highest[each], used)
        if self.node.now - self.began_at >= HORIZON:
            self.closed.append((self.node.now, len(self.uids), self.peaks, self.highest))
            self.begin()

    def published(self):
        """Return the evaluation as it should be in the report."""
        newest = self.closed[-1][0]
        found = []
        for name in EVALUATED:
            entry = {"predictor": name, "horizonSeconds": HORIZON}
            for resource, unit in ((Resource.CPU, 1.0), (Resource.MEMORY, GIB)):
                weights = [2 ** ((at - newest) / HALF_LIFE) for at, *_ in self.closed]
                of = [(peaks[name, resource], pods * unit, used[resource]) for _, pods, peaks, used in self.closed]
                excess = [(used - peak) / used if used > peak else 0.0 for peak, _, used in of]
                violations = sum(w for w, over in zip(weights, excess, strict=True) if over)
                peaks = sum(w * peak for w, (peak, _, _) in zip(weights, of, strict=True))
                requests = sum(w * requested for w, (_, requested, _) in zip(weights, of, strict=True))
                entry[resource.value] = {
                    "forecasts": round(sum(weights), 1),
                    "violationPercent": round(100 * violations / sum(weights), 2),
                    "savingsPercent": pytest.approx(100 * (1 - peaks / requests), abs=0.01),
                }
                if violations:
                    severity = sum(w * over for w, over in zip(weights, excess, strict=True)) / violations
                    entry[resource.value]["severityPercent"] = pytest.approx(100 * severity, abs=0.01)
            found.append(entry)
        return found


def test_the_published_evaluation_follows_from_the_recorded_samples():
    node = node_with(*cluster_pods())
    own = None
    for _ in node.run(6 * HORIZON, bursts):
        if own is None:
            own = Independent(node)
        else:
            own.trained()
    assert len(own.closed) == 5
    published = node.report()["prediction"]["evaluation"]
    assert published == own.published()
    assert {entry["cpu"]["violationPercent"] > 0 for entry in published} == {True, False}


# No effect on what is published


def published_without_evaluation(status):
    shown = copy.deepcopy(status)
    prediction = shown.get("prediction", {})
    prediction.pop("evaluation", None)
    prediction.get("parameters", {}).pop("evaluatedPredictors", None)
    return shown


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    evaluated=st.lists(st.sampled_from(controller_config.PREDICTOR_NAMES), max_size=6, unique=True),
    in_force=st.sampled_from(controller_config.PREDICTOR_NAMES),
)
def test_a_predictor_that_is_only_evaluated_changes_nothing_that_is_published(seed, evaluated, in_force):
    histories = []
    for names in ([], evaluated):
        chance = random.Random(seed)
        node = node_with(*cluster_pods(), predictor=in_force, evaluatedPredictors=names)

        def usage(step, chance=chance):
            pods, system = bursts(step)
            return {name: UsageSample(chance.random(), chance.random() * GIB) for name in pods}, system

        reports = [published_without_evaluation(node.report()) for number in node.run(1000, usage) if number % 15 == 14]
        histories.append(reports)
        assert set(node.observer.evaluation.records) == {in_force, *names}
    assert histories[0] == histories[1]


# Restarts


def test_a_restart_in_the_middle_continues_the_evaluation(tmp_path, monkeypatch):
    """The successor reads what the first agent wrote; its models and scores are those of an agent that never ended."""
    clock = {}
    fake = type("Time", (), {
        "time": staticmethod(lambda: clock["node"].now),
        "clock_gettime": staticmethod(lambda _: clock["node"].boot_seconds),
        "CLOCK_BOOTTIME": 7,
    })  # fmt: skip
    monkeypatch.setattr(checkpointer, "time", fake)
    steady = node_with(*cluster_pods())
    for _ in steady.run(3 * HORIZON, bursts):
        pass

    node = clock["node"] = node_with(*cluster_pods())
    for number in node.run(3 * HORIZON, bursts):
        if number == 119:
            break
    asyncio.run(Checkpointer(str(tmp_path), "n1", node.observer.server, node.observer.evaluation).save())
    second = clock["node"] = node_with(*cluster_pods())
    second.now, second.boot_seconds = node.now, node.boot_seconds
    Checkpointer(str(tmp_path), "n1", second.observer.server, second.observer.evaluation).restore()
    for _ in second.run(3 * HORIZON - 120 * 10, lambda step: bursts(step + 120)):
        pass
    before, after = (each.report()["prediction"]["evaluation"] for each in (steady, second))
    assert after == before
    assert after[0]["cpu"]["forecasts"] == 2


def test_a_failing_evaluation_does_not_stop_the_next_one():
    node = node_with(*cluster_pods())
    for _ in node.run(60, bursts):
        pass
    node.observer.evaluation.forecast.peaks["borg-default"] = {}
    with pytest.raises(KeyError):
        for _ in node.run(2 * HORIZON, bursts):
            pass
    for _ in node.run(2 * HORIZON, bursts):
        pass
    assert node.observer.evaluation.records["borg-default"].scores[Resource.CPU].forecasts >= 1


def test_the_agent_evaluates_what_the_spec_names(monkeypatch):
    node = node_with(*cluster_pods())
    agent = Agent(KoordletSettings(node_name="n1", state_dir=""), node.observer, CollectorRegistry())
    agent.view = node.cluster
    seen = []
    monkeypatch.setattr(NodeObserver, "evaluate", lambda *arguments: seen.append(arguments))
    agent._train()
    ((_, now, cluster, plan, boot_seconds),) = seen
    assert cluster is node.cluster
    assert plan == Plan(tuple(EVALUATED), spec_in_force.predict_parameters(node.policy))
    assert plan.horizon_seconds == HORIZON
    assert abs(now - time.time()) < 60
    assert abs(boot_seconds - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60


# Metrics


def exported(registry):
    return {
        (sample.name.removeprefix("koordlet_evaluation_"), *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_the_metrics_are_those_of_the_report():
    node = node_with(*cluster_pods())
    registry = CollectorRegistry()
    registry.register(EvaluationCollector(node.observer.evaluation, node.observer.server))
    assert exported(registry) == dict.fromkeys([("dropped_forecasts_total", reason) for reason in Dropped], 0)
    for _ in node.run(60, bursts):
        pass
    assert exported(registry)["closed_forecasts_total", "n-sigma-v2", "cpu", "violation"] == 0
    for _ in node.run(4 * HORIZON, bursts):
        pass
    found = exported(registry)
    for entry in node.report()["prediction"]["evaluation"]:
        for resource in ("cpu", "memory"):
            of, scores = (entry["predictor"], resource), entry[resource]
            assert found["forecasts", *of] == pytest.approx(scores["forecasts"], abs=0.06)
            assert found["violations_ratio", *of] == pytest.approx(scores["violationPercent"] / 100, abs=1e-4)
            assert found["savings_ratio", *of] == pytest.approx(scores["savingsPercent"] / 100, abs=1e-4)
            severity = scores.get("severityPercent")
            assert found.get(("severity_ratio", *of)) == (severity and pytest.approx(severity / 100, abs=1e-4))
            outcomes = [found["closed_forecasts_total", *of, outcome] for outcome in ("kept", "violation")]
            assert sum(outcomes) == 4
            assert (outcomes[1] > 0) == (scores["violationPercent"] > 0)
