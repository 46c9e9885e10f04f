"""A real Prometheus with a generated block, read and replayed by `koordctl backtest`."""

import contextlib
import io
import json
import random
import time

import numpy as np
import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from e2e.thirdparty.prometheus import backfill
from e2e.thirdparty.prometheus.backfill import Sample
from e2e.thirdparty.prometheus.server import Prometheus
from koordctl import __main__ as koordctl
from koordctl.backtest import cluster_history, node_history, placement, results
from koordctl.backtest.candidates import all_candidates
from koordctl.backtest.cluster_history import Names
from koordctl.backtest.prometheus import Prometheus as Client
from koordctl.backtest.prometheus import Server
from koordctl.backtest.results import Span
from koordctl.backtest.sources import PrometheusSource
from koordctl.backtest.time_range import TimeRange
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import Resource

pytestmark = pytest.mark.timeout(180)
START, STEP, STEPS, GIB = 1_700_000_100 // 300 * 300, 300, 288, 2**30
RANGE = TimeRange(START, STEP, STEPS)
REQUESTS = [2, 4, 1, 8, 2, 4]
USED = np.random.default_rng(3).gamma(4.0, 0.1, (6, STEPS)) * np.array(REQUESTS)[:, None]
PODS = placement.place(np.ones((6, STEPS), bool), 4, 200, random.Random(4))


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
        for resource, value in (("cpu", REQUESTS[pod.series]), ("memory", GIB)):
            add(
                "kube_pod_container_resource_requests", START + pod.start * STEP, value, **labels,
                uid=f"pod-{number}", node="n1", container="main", resource=resource,
            )  # fmt: skip
    for name in ("kube_node_status_capacity", "kube_node_status_allocatable"):
        for resource, value in (("cpu", 64), ("memory", 64 * GIB)):
            add(name, START + (STEPS - 1) * STEP, value, node="n1", resource=resource)
    for samples in by_name.values():
        yield from samples


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    backfill.write(folder, generated())
    prometheus = Prometheus(folder)
    (folder / "prometheus.json").write_text("{}")
    prometheus._start(
        f"--config.file={folder}/prometheus.json", f"--storage.tsdb.path={folder}/tsdb",
        f"--web.listen-address=127.0.0.1:{prometheus.port}", "--storage.tsdb.retention.time=100y",
    )  # fmt: skip
    yield prometheus
    prometheus.stop()


@pytest.fixture(scope="module")
def read(server):
    client = Client(Server(server.url))
    names = Names(rate_seconds=STEP)
    assert cluster_history.node_names(client, names, RANGE) == ["n1"]
    client.close()
    return PrometheusSource(Server(server.url), names, RANGE, time.time(), ("n1",)).load("n1")


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


def test_traces_give_the_same_result(read):
    candidates, span = all_candidates(3600), Span(3600, 3600, 8 * 3600)
    whole = node_history.nodes_of_one_resource("n1", PODS, USED, REQUESTS, STEP, Resource.CPU)
    trace = node_history.NodeHistory(
        "n1", STEP, whole.bound, whole.stays, whole.usage, None, read.capacity, read.allocatable, (Resource.CPU,)
    )
    of_traces = results.rows_of(trace, candidates, span)
    of_prometheus = [row for row in results.rows_of(read, candidates, span) if row.resource == "cpu"]
    assert len(of_traces) == len(candidates) + 1
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
        (("--metric", "cpu=no_such_metric"), 3, "no series no_such_metric{}"),
        (("--selector", "cluster=="), 2, "check --selector and the metric names"),
        (("--selector", 'cluster="other"'), 3, "is cAdvisor of the kubelets scraped?"),
        (("--nodes", "other"), 3, "no node of 1 matches"),
        (("--nodes", "("), 2, "want a regular expression"),
        (("--node-label", "instance"), 3, "give --node-label"),
        (("--step", "often"), 2, "--step often: want a duration"),
        (("--from", "sometime"), 2, "--from sometime: want a time"),
        (("--shard", "4/4"), 2, "want 0 to 3"),
    ],
)
def test_errors_name_the_fix(server, arguments, code, text):
    found, out, errors = run("--prometheus", server.url, *times(), *arguments)
    assert (found, out) == (code, "")
    assert text in errors


def test_an_unreachable_server_is_named_without_its_credentials(tmp_path, closed_port):
    token = tmp_path / "token"
    token.write_text("secret-token\n")
    code, out, errors = run("--prometheus", f"http://me:secret@127.0.0.1:{closed_port}", "--token-file", token)
    assert (code, out) == (3, "")
    assert f"http://127.0.0.1:{closed_port} cannot be reached" in errors
    assert "secret" not in errors


def test_json_has_what_merge_reads(server, tmp_path):
    code, out, _ = run("--prometheus", server.url, *times(), "-o", "json")
    file = tmp_path / "part.json"
    file.write_text(out)
    merged = run("merge", file, "-o", "json")
    assert merged[0] == code
    assert json.loads(merged[1])["summaries"] == json.loads(out)["summaries"]
