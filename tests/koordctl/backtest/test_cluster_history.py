"""Nodes that are read from a real Prometheus with a generated block, and what is read from a scripted one."""

import contextlib
import dataclasses
import io
import json
import random
import re
import time

import numpy as np
import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from e2e.thirdparty.prometheus import backfill
from e2e.thirdparty.prometheus.backfill import Sample
from koordctl import __main__ as koordctl
from koordctl.backtest import cluster_history, node_history, replay, results, workload_history
from koordctl.backtest.cluster_history import METRICS, Name, Names, NoSeries, PodLabels
from koordctl.backtest.prometheus import Prometheus as Client
from koordctl.backtest.prometheus import Server, TimeRange
from koordctl.backtest.results import Span, all_candidates
from koordctl.backtest.sources import PrometheusSource
from koordctl.backtest.workload_history import Handed
from koordlet.prediction.allocation import Owner, WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.samples import Resource
from tests.koordctl.backtest import conftest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
START, STEP, STEPS, GIB = 1_700_000_100 // 300 * 300, 300, 288, 2**30
RANGE = TimeRange(START, STEP, STEPS)
REQUESTS = [2, 4, 1, 8, 2, 4]
USED = np.random.default_rng(3).gamma(4.0, 0.1, (6, STEPS)) * np.array(REQUESTS)[:, None]
PODS = node_history.place(np.ones((6, STEPS), bool), 4, 200, random.Random(4))


def generated():
    """Yield the series of node n1 of an HA pair, its pods with a counter reset each, and a Mid pod."""
    everywhere = [{"prometheus": replica} for replica in ("a", "b")]
    by_name = {name: [] for name in (*cluster_history.METRICS.values(),)}

    def add(name, at, value, **labels):
        for replica in everywhere:
            by_name[name].append(Sample(name, {**labels, **replica}, at, value))

    for number, pod in enumerate(PODS):
        labels = {"namespace": "default", "pod": f"pod-{number}"}
        container = {**labels, "container": "main", "node": "n1", "id": f"/kubepods/pod{number}/c"}
        counter = 0.0
        middle = (pod.start + pod.end) // 2
        for step in range(pod.start - 1, pod.end):
            at = START + step * STEP
            if step >= pod.start:
                counter = (0.0 if step == middle else counter) + USED[pod.series, step] * STEP
                add("kube_pod_info", at, 1, **labels, uid=f"pod-{number}", node="n1", priority_class="koord-prod")
                add("container_memory_working_set_bytes", at, GIB, **container)
            add("container_cpu_usage_seconds_total", at, counter, **container)
        owner = {"owner_is_controller": "true", "owner_kind": "ReplicaSet", "owner_name": f"web-{number % 2}"}
        add("kube_pod_owner", START + pod.start * STEP, 1, **labels, **owner)
        for resource, value in (("cpu", REQUESTS[pod.series]), ("memory", GIB)):
            add(
                "kube_pod_container_resource_requests", START + pod.start * STEP, value, **labels,
                uid=f"pod-{number}", node="n1", container="main", resource=resource,
            )  # fmt: skip
    owner = {"owner_is_controller": "true", "owner_kind": "Deployment", "owner_name": "web"}
    for step in range(0, STEPS, STEPS // 4):
        add("kube_replicaset_owner", START + step * STEP, 1, namespace="default", replicaset="web-0", **owner)
    for name in ("kube_node_status_capacity", "kube_node_status_allocatable"):
        for resource, value in (("cpu", 64), ("memory", 64 * GIB)):
            add(name, START + (STEPS - 1) * STEP, value, node="n1", resource=resource)
    for samples in by_name.values():
        yield from samples


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    backfill.write(folder, generated())
    prometheus = conftest.serve(folder)
    yield prometheus
    prometheus.stop()


@pytest.fixture(scope="module")
def read(server):
    client = Client(Server(server.url))
    names = Names(rate_seconds=STEP)
    assert cluster_history.node_names(client, names, RANGE) == ["n1"]
    client.close()
    return PrometheusSource(Server(server.url), names, RANGE, time.time(), ("n1",)).load("n1")


def test_a_pod_belongs_to_the_controller_at_the_top_of_those_that_are_recorded(read):
    wanted = {
        0: Owner("default", "Deployment", "Deployment/web"),
        1: Owner("default", "ReplicaSet", "ReplicaSet/web-1"),
    }
    for pod in read.bound:
        assert pod.owner == wanted[int(pod.uid.removeprefix("pod-")) % 2]


def test_usage_requests_and_stays_are_those_of_the_series(read):
    assert {pod.uid for pod in read.bound} == {f"pod-{number}" for number in range(len(PODS))}
    for pod, stay in zip(read.bound, read.stays, strict=True):
        wanted = PODS[int(pod.uid.removeprefix("pod-"))]
        assert pod.cpu_request_millis == 1000 * REQUESTS[wanted.series]
        assert pod.priority_class is PriorityClass.PROD
        assert (stay.start, stay.end) == (wanted.start, wanted.end)
        steps = np.arange(wanted.start, wanted.end)
        got = read.usage[Resource.CPU][stay.series, steps]
        np.testing.assert_allclose(got, USED[wanted.series, steps], rtol=1e-6)
    assert read.capacity == WholeAmounts(64_000, 64 * GIB)


def handed(node):
    """Return what a manager hands to a node that is its only one."""
    (history,) = workload_history.merge([replay.state(node, PredictParameters(), Handed())])
    return history


def test_traces_give_the_same_result_with_and_without_the_history_of_workloads(read):
    candidates, span = all_candidates(3600), Span(3600, 3600, 8 * 3600)
    whole = node_history.nodes_of_one_resource("n1", PODS, USED, REQUESTS, STEP, Resource.CPU)
    owners = {pod.uid: pod.owner for pod in read.bound}
    bound = [dataclasses.replace(pod, owner=owners[pod.uid]) for pod in whole.bound]
    trace = node_history.NodeHistory(
        "n1", STEP, bound, whole.stays, whole.usage, None, read.capacity, read.allocatable, (Resource.CPU,)
    )
    of_traces = results.replay_rows(trace, candidates, span, handed(trace))
    with_memory = results.replay_rows(read, candidates, span, handed(read))
    of_prometheus = [row for row in with_memory if row.resource == "cpu"]
    assert len(of_traces) == 2 * len(candidates) + 1
    peaks = {row.candidate: row.peak for row in of_traces}
    assert peaks["borg-default"] < peaks["borg-default, no history"]
    for one, other in zip(of_traces, of_prometheus, strict=True):
        assert one.candidate == other.candidate
        assert one.forecasts == other.forecasts > 10
        assert one.violations_percent == pytest.approx(other.violations_percent, abs=0.1)
        assert one.peak == pytest.approx(other.peak, rel=0.005)
        assert one.mid == pytest.approx(other.mid, rel=0.01, abs=0.01)


def run(*arguments):
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = koordctl.main(["backtest", *map(str, arguments), "--workers", "1"])
    return code, out.getvalue(), errors.getvalue()


def times():
    return "--from", START, "--to", RANGE.end


def test_command_resumes_from_its_cache_without_the_pods_being_read_again(server, tmp_path):
    first = run("--prometheus", server.url, *times(), "--cache", tmp_path, "-o", "json")
    file, _ = tmp_path.iterdir()  # two UTC days
    written = file.stat().st_mtime_ns
    again = run("--prometheus", server.url, *times(), "--cache", tmp_path, "-o", "json")
    assert again[:2] == first[:2]
    assert file.stat().st_mtime_ns == written
    file.write_bytes(file.read_bytes()[:500])  # as after a crash of the machine
    assert run("--prometheus", server.url, *times(), "--cache", tmp_path, "-o", "json")[:2] == first[:2]
    assert file.stat().st_mtime_ns != written


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--metric", "cpu=no_such_metric"), 3, "no series no_such_metric from "),
        (("--selector", "cluster=="), 2, "check --selector and the metric names"),
        (("--selector", 'cluster="other"'), 3, "is cAdvisor of the kubelets scraped?"),
        (("--node-label", "instance"), 3, "give --node-label"),
    ],
)
def test_errors_name_the_fix(server, arguments, code, text):
    found, out, errors = run("--prometheus", server.url, *times(), *arguments)
    assert (found, out) == (code, "")
    assert text in errors


MIXED_START, MIXED_STEP, MIXED_STEPS = 1_700_006_400, 300, 288
MIXED_RANGE = TimeRange(MIXED_START, MIXED_STEP, MIXED_STEPS)
SYSTEM_CORES, SYSTEM_BYTES = 0.75, 2 * GIB
# name, uid, node, first and last step, cores, class, requests
MIXED_PODS = [
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
    return sum(cores for _, _, of, first, last, cores, *_ in MIXED_PODS if of == node and first <= step < last)


def mixed():
    by_name = {}

    def add(name, step, value, **labels):
        by_name.setdefault(name, []).append(Sample(name, labels, MIXED_START + step * MIXED_STEP, value))

    for name, uid, node, first, last, cores, priority_class, requests in MIXED_PODS:
        pod = {"namespace": "default", "pod": name}
        for step in range(first - 1, last):
            # An exporter that restarts leaves no end of its series: kube_pod_info lasts one step longer.
            add("container_cpu_usage_seconds_total", step, cores * (step - first + 1) * MIXED_STEP, **pod, node=node,
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
        for step in range(-1, MIXED_STEPS):
            counter += MIXED_STEP * (SYSTEM_CORES + running(node, step))
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
    backfill.write(folder, mixed())
    prometheus = conftest.serve(folder)
    yield PrometheusSource(Server(prometheus.url), Names(), MIXED_RANGE, time.time(), ("n1", "n2"))
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
    found = replay.replay(first, [each.parameters for each in candidates], at, 12)
    cpu, memory = found[Resource.CPU], found[Resource.MEMORY]
    np.testing.assert_allclose(cpu.usage, [1.5, 1.5, 1.0], rtol=1e-6)
    np.testing.assert_allclose(cpu.requests, [3.0, 5.0, 2.0])
    np.testing.assert_allclose(cpu.mid_requests, [0.5] * 3)
    np.testing.assert_allclose(cpu.other_usage, [SYSTEM_CORES] * 3, rtol=1e-6)
    np.testing.assert_allclose(memory.usage, [1.5 * GIB, 1.5 * GIB, GIB])
    np.testing.assert_allclose(memory.other_usage, [SYSTEM_BYTES + 2 * GIB] * 3)
    np.testing.assert_allclose(cpu.oracle, [1.5, 1.5, 1.0], rtol=1e-6)
    assert np.isfinite(cpu.peaks).all()


DAY_START, DAY_STEP = 1_700_000_400, 300
ONE_DAY = TimeRange(DAY_START, DAY_STEP, 3)
WEB, JOB = {"namespace": "shop", "pod": "web"}, {"namespace": "shop", "pod": "job"}
NAN, INF = np.nan, np.inf


def scripted(*found):
    """Return answers by a pattern of the query: [(labels, value at each step, or the value)]."""

    def change(path, parameters, *_):
        query = parameters["query"]
        (rows,) = [rows for pattern, rows in found if re.search(pattern, query)]
        if path == "query":
            result = [{"metric": labels, "value": (DAY_START, str(value))} for labels, value in rows]
        else:
            result = [
                {"metric": labels, "values": [(DAY_START + at * DAY_STEP, str(each)) for at, each in enumerate(values)]}
                for labels, values in rows
            ]
        return 200, json.dumps({"status": "success", "data": {"result": result}}).encode()

    return change


def day(**more):
    """Return the answers for a node with two pods."""
    found = {
        f"priority_class.*{METRICS['pods']}": [
            ({**WEB, "uid": "u1", "priority_class": "koord-prod"}, [1, 1, 0]), (JOB, [0, NAN, 1]),
        ],
        rf"by \(namespace, pod\).*rate\({METRICS['cpu']}": [(WEB, [0.5, -1, INF])],
        rf"by \(namespace, pod\).*container\) \({METRICS['memory']}": [(JOB, [2, 0, 4]), (WEB, [1, 1, 1])],
        rf"^max\(rate\({METRICS['cpu']}": [({}, [1.5, NAN, 2])],
        rf"^max\({METRICS['memory']}": [],
        "max_over_time": [
            ({**WEB, "uid": "u1", "resource": "cpu"}, 2), ({**JOB, "resource": "memory"}, 1024),
            ({**JOB, "resource": "cpu"}, "NaN"),
        ],
        "owner_kind": [
            ({"namespace": "shop", "pod": "db-1", "owner_kind": "StatefulSet", "owner_name": "db"}, 1),
        ],
        "__name__=~": [
            ({"__name__": METRICS["capacity"], "resource": "cpu"}, 8),
            ({"__name__": METRICS["capacity"], "resource": "memory"}, "+Inf"),
            ({"__name__": METRICS["allocatable"], "resource": "cpu"}, 7.5),
        ],
    }  # fmt: skip
    return scripted(*(found | more).items())


def test_a_day_has_pods_usage_requests_and_capacity(proxy, client):
    proxy.change = day()
    found = cluster_history.read_day(client, Names(), "n1", ONE_DAY)
    web, job = Name("shop", "web"), Name("shop", "job")
    assert found.pods == [PodLabels(web, "u1", "koord-prod"), PodLabels(job, "shop/job", "")]
    assert found.is_bound.tolist() == [[True, True, False], [False, False, True]]
    assert found.measured == {Resource.CPU: [web], Resource.MEMORY: [job, web]}
    np.testing.assert_array_equal(found.usage[Resource.CPU], [[0.5, NAN, NAN]])
    np.testing.assert_array_equal(found.usage[Resource.MEMORY], [[2, 0, 4], [1, 1, 1]])
    np.testing.assert_array_equal(found.node_usage[Resource.CPU], [1.5, NAN, 2])
    np.testing.assert_array_equal(found.node_usage[Resource.MEMORY], [NAN] * 3)
    assert found.requests == {"u1": {"cpu": 2}, "shop/job": {"memory": 1024}}
    assert (found.capacity, found.allocatable) == ({"cpu": 8}, {"cpu": 7.5})
    assert found.owners == {"shop/db-1": Owner("shop", "StatefulSet", "StatefulSet/db", 1)}


def test_a_selector_and_a_label_of_nodes_are_in_every_query_of_usage(proxy, client):
    proxy.change = day()
    cluster_history.read_day(
        client, Names(selector="cluster='a'", node_label="instance", rate_seconds=60), "n1", ONE_DAY
    )
    queries = [each["query"] for each in proxy.queries("query_range") + proxy.queries("query")]
    assert len(queries) == 8
    assert all("cluster='a'" in each for each in queries)
    of_cadvisor = [each for each in queries if 'instance="n1"' in each]
    assert len(of_cadvisor) == 4
    assert sum("[60s]" in each for each in of_cadvisor) == 2


@pytest.mark.parametrize("missing", ["cpu", "memory", "pods", "requests", "capacity"])
def test_a_metric_without_series_is_named_with_its_source(proxy, client, missing):
    def change(_path, parameters, *_):
        is_there = METRICS[missing] not in parameters["match[]"]
        return 200, json.dumps({"status": "success", "data": [{}] if is_there else []}).encode()

    proxy.change = change
    with pytest.raises(NoSeries) as raised:
        cluster_history.node_names(client, Names(), ONE_DAY)
    source = "cAdvisor" if missing in ("cpu", "memory") else "kube-state-metrics"
    text = str(raised.value)
    assert text.startswith(f"no series {METRICS[missing]} from ")
    assert f"from {ONE_DAY.start} to {ONE_DAY.end}; is " in text
    assert source in text
    assert f"else give --metric {missing}=NAME, --selector or another --from and --to" in text
