"""Nodes with Prod, Mid and Batch pods, a root cgroup, and pods that are created again or move, in a real Prometheus."""

import time

import numpy as np
import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from e2e.thirdparty.prometheus import backfill
from e2e.thirdparty.prometheus.backfill import Sample
from koordctl.backtest import replay
from koordctl.backtest.candidates import all_candidates
from koordctl.backtest.cluster_history import Names
from koordctl.backtest.prometheus import Server
from koordctl.backtest.sources import PrometheusSource
from koordctl.backtest.time_range import TimeRange
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import Resource
from tests.koordctl.backtest import conftest

pytestmark = pytest.mark.timeout(120)
START, STEP, STEPS, GIB = 1_700_006_400, 300, 288, 2**30
RANGE = TimeRange(START, STEP, STEPS)
SYSTEM_CORES, SYSTEM_BYTES = 0.75, 2 * GIB
# name, uid, node, first and last step, cores, class, requests
PODS = [
    ("api", "u-api", "n1", 0, 288, 1.0, "", {"cpu": 2, "memory": 2 * GIB}),
    ("web-0", "u-web-a", "n1", 0, 100, 0.5, "koord-prod", {"cpu": 1, "memory": GIB}),
    ("web-0", "u-web-b", "n1", 103, 200, 0.5, "koord-prod", {"cpu": 3, "memory": GIB}),
    ("web-0", "u-web-c", "n2", 210, 288, 0.5, "koord-prod", {"cpu": 4, "memory": GIB}),
    (
        "spare",
        "u-mid",
        "n1",
        0,
        288,
        0.25,
        "koord-mid",
        {"kubernetes_io_mid_cpu": 500, "kubernetes_io_mid_memory": GIB},
    ),
    ("batch", "u-batch", "n1", 0, 288, 2.0, "koord-batch", {"kubernetes_io_batch_cpu": 3000}),
]


def running(node, step):
    """Return the cores of the pods of a node."""
    return sum(cores for _, _, of, first, last, cores, *_ in PODS if of == node and first <= step < last)


def generated():
    by_name = {}

    def add(name, step, value, **labels):
        by_name.setdefault(name, []).append(Sample(name, labels, START + step * STEP, value))

    for name, uid, node, first, last, cores, priority_class, requests in PODS:
        pod = {"namespace": "default", "pod": name}
        for step in range(first - 1, last):
            # An exporter that restarts leaves no end of its series: kube_pod_info lasts one step longer.
            add("container_cpu_usage_seconds_total", step, cores * (step - first + 1) * STEP, **pod, node=node,
                container="c", id=f"/kubepods/{uid}")  # fmt: skip
            add("container_memory_working_set_bytes", step, cores * GIB, **pod, node=node, container="c", id=f"/{uid}")
            add("container_memory_working_set_bytes", step, 9 * GIB, **pod, node=node, id=f"/pod-of-{uid}")
            if step >= first:
                add("kube_pod_info", step, 1, **pod, node=node, uid=uid, priority_class=priority_class)
        for resource, value in requests.items():
            add("kube_pod_container_resource_requests", first, value, **pod, node=node, uid=uid, container="c",
                resource=resource)  # fmt: skip
    for node in ("n1", "n2"):
        counter = 0.0
        for step in range(-1, STEPS):
            counter += STEP * (SYSTEM_CORES + running(node, step))
            add("container_cpu_usage_seconds_total", step, counter, node=node, id="/")
            add("container_memory_working_set_bytes", step, SYSTEM_BYTES + GIB * running(node, step), node=node, id="/")
        for resource, value in (("cpu", 16), ("memory", 64 * GIB)):
            add("kube_node_status_capacity", 3, value, node=node, resource=resource)
            add("kube_node_status_allocatable", 3, value * 15 // 16, node=node, resource=resource)
    for samples in by_name.values():
        yield from samples


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    backfill.write(folder, generated())
    prometheus = conftest.serve(folder)
    yield PrometheusSource(Server(prometheus.url), Names(), RANGE, time.time(), ("n1", "n2"))
    prometheus.stop()


@pytest.fixture(scope="module")
def first(source):
    return source.load("n1")


def test_each_pod_has_its_class_requests_and_stay(first):
    by_uid = {pod.uid: (pod, stay) for pod, stay in zip(first.bound, first.stays, strict=True)}
    assert set(by_uid) == {"u-api", "u-web-a", "u-web-b", "u-mid", "u-batch"}
    assert {uid: pod.priority_class for uid, (pod, _) in by_uid.items() if uid in ("u-mid", "u-batch")} == {
        "u-mid": PriorityClass.MID, "u-batch": PriorityClass.BATCH,
    }  # fmt: skip
    assert first.prod().sum() == 3
    assert by_uid["u-mid"][0].mid_cpu_request_millis == 500
    assert by_uid["u-batch"][0].cpu_request_millis == 0
    assert [by_uid[uid][0].cpu_request_millis for uid in ("u-web-a", "u-web-b")] == [1000, 3000]
    (_, old), (_, new) = by_uid["u-web-a"], by_uid["u-web-b"]
    assert old.end <= new.start
    assert (old.start, new.end) == (0, 200)
    assert (first.capacity, first.allocatable) == (WholeAmounts(16_000, 64 * GIB), WholeAmounts(15_000, 60 * GIB))


def test_a_pod_that_moves_is_on_one_node_at_a_time(source, first):
    (there,) = source.load("n2").stays
    assert max(stay.end for pod, stay in zip(first.bound, first.stays, strict=True) if "web" in pod.uid) <= there.start


def test_usage_of_the_root_cgroup_is_that_of_pods_and_system(first):
    candidates = all_candidates(3600)
    at = [50, 150, 250]
    found = replay.replay(first, [each.parameters for each in candidates], at, 12).forecasts
    cpu, memory = found[Resource.CPU], found[Resource.MEMORY]
    np.testing.assert_allclose(cpu.usage, [1.5, 1.5, 1.0], rtol=1e-6)
    np.testing.assert_allclose(cpu.requests, [3.0, 5.0, 2.0])
    np.testing.assert_allclose(cpu.mid_requests, [0.5] * 3)
    np.testing.assert_allclose(cpu.other_usage, [SYSTEM_CORES] * 3, rtol=1e-6)
    np.testing.assert_allclose(memory.usage, [1.5 * GIB, 1.5 * GIB, GIB])
    np.testing.assert_allclose(memory.other_usage, [SYSTEM_BYTES + 2 * GIB] * 3)
    np.testing.assert_allclose(cpu.oracle, [1.5, 1.5, 1.0], rtol=1e-6)
    assert np.isfinite(cpu.peaks).all()
