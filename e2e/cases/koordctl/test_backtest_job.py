"""The Indexed Job of examples/ divides a back-test, and merge has the result of a back-test in one process.

Prometheus is real, on this machine, with a generated block of ten days of five nodes.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from e2e.support.installation import Suite
from e2e.thirdparty.prometheus import backfill
from e2e.thirdparty.prometheus.backfill import Sample
from e2e.thirdparty.prometheus.server import DATA, Prometheus
from koordctl import __main__ as koordctl
from tools.localcluster import running
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

EXAMPLE = Path(__file__).parents[3] / "examples" / "backtest-job.yaml"
START, STEP, DAYS, NODES, PODS, GIB = 1_700_006_400, 900, 10, 5, 3, 2**30
END = START + DAYS * 86_400 - STEP
SHARDS = 4
TIMES = (f"--from={START}", f"--to={END}", "--step=15m")
JOB = "koord-backtest"


def _samples() -> Iterator[Sample]:
    by_name: dict[str, list[Sample]] = {}

    def add(name: str, step: int, value: float, **labels: str) -> None:
        by_name.setdefault(name, []).append(Sample(name, labels, START + step * STEP, value))

    steps, chance = DAYS * 86_400 // STEP, np.random.default_rng(3)
    for number in range(NODES):
        node = f"node-{number}"
        for pod in range(PODS):
            of_pod = {"namespace": "default", "pod": f"pod-{number}-{pod}", "node": node, "container": "main"}
            used = chance.gamma(4.0, 0.1, steps)
            for step, counter in enumerate(np.cumsum(used * STEP).tolist()):
                add("container_cpu_usage_seconds_total", step, counter, **of_pod)
                add("container_memory_working_set_bytes", step, GIB * float(used[step]), **of_pod)
                add("kube_pod_info", step, 1, **of_pod, uid=f"{number}-{pod}", priority_class="koord-prod")
            for day in range(DAYS):
                for resource, value in (("cpu", 2.0), ("memory", 2.0 * GIB)):
                    add(
                        "kube_pod_container_resource_requests", day * 86_400 // STEP, value, **of_pod,
                        uid=f"{number}-{pod}", resource=resource,
                    )  # fmt: skip
        for name in ("kube_node_status_capacity", "kube_node_status_allocatable"):
            for resource, value in (("cpu", 16.0), ("memory", 64.0 * GIB)):
                add(name, steps - 1, value, node=node, resource=resource)
    for samples in by_name.values():
        yield from samples


@pytest.fixture(scope="module")
def prometheus(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a Prometheus that pods of the cluster reach."""
    try:
        address = running.provider().host_address()
    except ClusterProblem as unknown:
        pytest.skip(str(unknown))
    folder = tmp_path_factory.mktemp("prometheus")
    backfill.write(folder, _samples())
    server = Prometheus(folder)
    server.url = f"http://{address}:{server.port}"
    (folder / "prometheus.json").write_text("{}")
    server._start(
        f"--config.file={folder}/prometheus.json", f"--storage.tsdb.path={folder / DATA}",
        f"--web.listen-address={address}:{server.port}", "--storage.tsdb.retention.time=100y",
    )  # fmt: skip
    yield server.url
    server.stop()


def _run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = koordctl.main(["backtest", *arguments, "--output=json"])
    return code, out.getvalue()


def _logs(cluster: Cluster, namespace: str, shard: int) -> str:
    labels = f"batch.kubernetes.io/job-name={JOB},batch.kubernetes.io/job-completion-index={shard}"
    return cluster.run("--namespace", namespace, "logs", "--tail=-1", f"--selector={labels}")


def test_an_indexed_job_has_the_result_of_one_process(
    cluster: Cluster, suite: Suite, namespace: str, prometheus: str, tmp_path: Path
) -> None:
    job = yaml.safe_load(EXAMPLE.read_text())
    assert job["spec"]["completions"] == SHARDS
    (container,) = job["spec"]["template"]["spec"]["containers"]
    replaced = ("--prometheus=", "--from=", "--to=")
    kept = [each for each in container["args"] if not each.startswith(replaced)]
    assert len(kept) == len(container["args"]) - len(replaced)
    container["args"] = [*kept, f"--prometheus={prometheus}", *TIMES]
    container["image"] = suite.images["koordctl"]
    container["resources"]["requests"] = {"cpu": "50m", "memory": "64Mi"}
    cluster.run("--namespace", namespace, "apply", "--filename=-", stdin=json.dumps(job))
    wait = ("wait", "--for=condition=complete", "--timeout=240s", f"job/{JOB}")
    cluster.run("--namespace", namespace, *wait, timeout_seconds=270)
    files = []
    for shard in range(SHARDS):
        files.append(tmp_path / f"shard-{shard}.json")
        files[-1].write_text(_logs(cluster, namespace, shard))
    nodes = [sorted({row["node"] for row in json.loads(file.read_text())["nodes"]}) for file in files]
    assert nodes == [["node-0", "node-4"], ["node-1"], ["node-2"], ["node-3"]]
    code, merged = _run("merge", *map(str, files))
    whole = _run("--prometheus", prometheus, *TIMES)
    assert (code, json.loads(merged)) == (whole[0], json.loads(whole[1]))
    assert code == 0
    assert json.loads(merged)["recommended"]


def test_a_wrong_flag_fails_the_job_at_once(cluster: Cluster, suite: Suite, namespace: str) -> None:
    job = yaml.safe_load(EXAMPLE.read_text())
    job["metadata"]["name"] = f"{JOB}-wrong"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["args"] = [*container["args"], "--step=often"]
    container["image"] = suite.images["koordctl"]
    container["resources"]["requests"] = {"cpu": "50m", "memory": "64Mi"}
    cluster.run("--namespace", namespace, "apply", "--filename=-", stdin=json.dumps(job))
    wait = ("wait", "--for=condition=failed", "--timeout=120s", f"job/{JOB}-wrong")
    cluster.run("--namespace", namespace, *wait, timeout_seconds=150)
    (failed,) = [
        each
        for each in cluster.get("--namespace", namespace, "job", f"{JOB}-wrong")["status"]["conditions"]
        if each["type"] == "Failed"
    ]
    assert failed["reason"] == "PodFailurePolicy"
