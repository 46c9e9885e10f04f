"""Mean, deviation and peak in the NodeMetric follow from the raw samples, computed here from the definition."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from typing import Any, NamedTuple

import pytest

from e2e.support import prediction_model, prod_pods, waiting, workloads
from e2e.support.cluster_client import ClusterClient, moment
from e2e.support.installation import Suite
from e2e.support.prediction_model import RESOURCES, RawSamples, node_peak, prod_peaks
from e2e.support.prod_pods import READ
from e2e.support.slo_config import BASE

TRAININGS = 2  # of half a minute each, in which both loads change
N = BASE["nodePredictPolicy"]["n"]
HALF_LIFE_SECONDS = {
    "cpu": BASE["nodePredictPolicy"]["cpuHalfLifeSeconds"],
    "memory": BASE["nodePredictPolicy"]["memoryHalfLifeSeconds"],
}
IN_UNITS = {"cpu": 1000, "memory": 1}


class Case(NamedTuple):
    """One report, the raw samples up to its prediction, the pods on the node, and when the wait for it began."""

    status: dict[str, Any]
    raw: RawSamples
    pods: list[dict[str, Any]]
    started_seconds: float

    @property
    def prediction(self) -> dict[str, Any]:
        return self.status["prediction"]

    def prod_limits(self, resource: str) -> dict[str, float]:
        """Return the limit of each Prod pod in cores, infinite for memory, by UID."""
        return {
            prod_pods.cgroup_uid(pod): prod_pods.cpu_limit_cores(pod) if resource == "cpu" else math.inf
            for pod in self.pods
            if prod_pods.class_of(pod) == "prod"
        }


@pytest.fixture(scope="module")
def case(suite: Suite, cluster_client: ClusterClient, node: str, namespace: str) -> Case:
    """Run two Prod pods with opposite loads for some trainings of an agent that has seen only this policy."""
    for name, cores in (("flood", "0.05,0.25"), ("ebb", "0.25,0.05")):
        arguments = workloads.load(cores=cores, phase_seconds=45, memory_mib=40)
        requests = {"cpu": "300m", "memory": "256Mi"}
        cluster_client.create(
            "Pod", workloads.pod(name, suite.workload, *arguments, requests=requests, nodes=[node]), namespace
        )
    cluster_client.wait_running(namespace, "flood", "ebb")
    if not _history_is_of_one_policy(suite, cluster_client, node):
        agent = suite.agent_pod()
        cluster_client.delete("Pod", agent, "koordinator-system")
        waiting.until("another agent", suite.agent_pod, lambda pod: pod != agent)
        waiting.until("its samples", lambda: suite.agent_page("/debug/samples")["atSeconds"], within_seconds=90)
    started = dt.datetime.now(dt.UTC).timestamp()
    return waiting.until(
        f"a report with a prediction of {TRAININGS} more trainings",
        lambda: _read(suite, cluster_client, node, started),
        within_seconds=TRAININGS * 30 + 90,
        every_seconds=2,
    )


def _history_is_of_one_policy(suite: Suite, cluster_client: ClusterClient, node: str) -> bool:
    """Return whether the agent was trained with these half-lives only, and still holds all samples of the trainings."""
    raw = RawSamples.of_page(suite.agent_page("/debug/samples"), until_seconds=float("inf"))
    spec = cluster_client.node_metric(node)
    writers = [entry for entry in spec["metadata"]["managedFields"] if "f:spec" in entry["fieldsV1"]]
    settled = max(moment(entry["time"]).timestamp() for entry in writers)
    return (
        bool(raw.at_seconds)
        and raw.at_seconds[0] > dt.datetime.now(dt.UTC).timestamp() - 1500
        and (not raw.trained_at_seconds or raw.trained_at_seconds[0] > settled)
    )


def _read(suite: Suite, cluster_client: ClusterClient, node: str, started: float) -> Case | None:
    """Return the newest report and its samples; None while there are too few."""
    status = cluster_client.node_metric(node).get("status") or {}
    page = suite.agent_page("/debug/samples")
    predicted = prediction_model.predicted_at(page, status)
    if predicted is None:
        return None
    raw = RawSamples.of_page(page, until_seconds=predicted)
    pods = cluster_client.list("Pod", field_selector=f"spec.nodeName={node}")
    enough = sum(at > started for at in raw.trained_at_seconds) >= TRAININGS
    return Case(status, raw, pods, started) if enough else None


def _capacity(cluster_client: ClusterClient, node: str, resource: str) -> float:
    capacity = cluster_client.get("Node", node)["status"]["capacity"][resource]
    return READ[resource](capacity) / IN_UNITS[resource]


def test_the_samples_are_whole(case: Case) -> None:
    assert case.raw.is_whole()
    assert case.prediction["predictor"] == "n-sigma-v2"
    assert case.prediction["coldPods"] == 0
    assert case.prediction["warmPods"] == len(case.prod_limits("cpu"))


@pytest.mark.parametrize("resource", RESOURCES)
def test_node_mean_deviation_and_peak_follow_from_the_samples(
    case: Case, cluster_client: ClusterClient, node: str, resource: str
) -> None:
    half_life = HALF_LIFE_SECONDS[resource]
    found = case.raw.moments(("node", ""), resource, half_life)
    uids = [prod_pods.cgroup_uid(pod) for pod in case.pods]
    capacity = _capacity(cluster_client, node, resource)
    peak = node_peak(case.raw, resource, uids=uids, n=N, half_life_seconds=half_life, capacity=capacity)
    published = {name: READ[resource](values[resource]) for name, values in case.prediction["node"].items()}
    assert found.stdev > 0, "a load without variation proves little"
    assert published == about({"mean": found.mean, "stdev": found.stdev, "peak": peak}, resource)


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_term_of_the_peak_of_prod_follows_from_the_samples(
    case: Case, cluster_client: ClusterClient, node: str, resource: str
) -> None:
    terms = prod_peaks(
        case.raw,
        resource,
        warm_limits=case.prod_limits(resource),
        cold_requests=0.0,
        capacity=_capacity(cluster_client, node, resource),
        n=N,
        half_life_seconds=HALF_LIFE_SECONDS[resource],
    )
    published = {name: READ[resource](values[resource]) for name, values in case.prediction["prod"].items()}
    # It depends on the requests of pods that are gone, which no samples show.
    terms = dataclasses.replace(terms, class_peak=published["classPeak"] / IN_UNITS[resource])
    assert published == about(
        {
            "peak": terms.peak,
            "classPeak": terms.class_peak,
            "podSumPeak": terms.pod_sum_peak,
            "systemPeak": terms.system_peak,
            "coldRequests": terms.cold_requests,
        },
        resource,
    )
    peak = case.status["prodPeakMetric"]["resource"]["resources"][resource]
    assert READ[resource](peak) == published["peak"]


@pytest.mark.parametrize("resource", RESOURCES)
def test_reclaimable_is_prod_requests_minus_prod_peak(
    case: Case, cluster_client: ClusterClient, node: str, resource: str
) -> None:
    allocatable, allocated, peak, reclaimable = (
        READ[resource](resources[resource])
        for resources in (
            cluster_client.get("Node", node)["status"]["allocatable"],
            case.status["allocated"]["prod"],
            case.status["prodPeakMetric"]["resource"]["resources"],
            case.status["prodReclaimableMetric"]["resource"]["resources"],
        )
    )
    assert reclaimable == max(0, min(allocated - peak, allocatable - peak))


@pytest.mark.parametrize("resource", RESOURCES)
def test_derived_series_come_from_one_snapshot(
    case: Case, cluster_client: ClusterClient, node: str, resource: str
) -> None:
    """Check that prod, system, S and prod + S are sums and differences of node and pods of the same time.

    Only ticks since the wait began count: the agent frees the samples of a pod five minutes after its end, so that
    older ticks lack the pods of the cases before this one.
    """
    status = cluster_client.get("Node", node)["status"]
    scale = IN_UNITS[resource]
    reserved = (
        max(READ[resource](status["capacity"][resource]) - READ[resource](status["allocatable"][resource]), 0) / scale
    )
    columns = {key: values[resource] for key, values in case.raw.series.items()}
    pods = {uid: column for (kind, uid), column in columns.items() if kind == "pod"}
    prod, here = set(case.prod_limits(resource)), {prod_pods.cgroup_uid(pod) for pod in case.pods}
    checked = 0
    for i, at_seconds in enumerate(case.raw.at_seconds):
        if at_seconds < case.started_seconds:
            continue
        present = {uid: column[i] for uid, column in pods.items() if column[i] is not None}
        node_usage, system = columns["node", ""][i], columns["system", ""][i]
        if node_usage is None or system is None or not present.keys() <= here:
            continue
        assert system == pytest.approx(max(node_usage - sum(present.values()), 0), rel=1e-5, abs=1e-6 * node_usage)
        unreserved = max(system - reserved, 0)
        assert columns["unreserved-system", ""][i] == pytest.approx(unreserved, rel=1e-5, abs=1e-6 * node_usage)
        prod_usage = sum(value for uid, value in present.items() if uid in prod)
        assert columns["class", "koord-prod"][i] == pytest.approx(prod_usage, rel=1e-5)
        both = prod_usage + unreserved
        assert columns["prod-and-unreserved-system", ""][i] == pytest.approx(both, rel=1e-5, abs=1e-6 * node_usage)
        checked += 1
    assert checked > TRAININGS * 30 / 2


def about(exact: dict[str, float], resource: str) -> dict[str, Any]:
    """Return the published integers for exact values: rounded up, within the precision of 24-bit samples."""
    scale = IN_UNITS[resource]
    return {name: pytest.approx(value * scale + 0.5, rel=1e-6, abs=1.0) for name, value in exact.items()}
