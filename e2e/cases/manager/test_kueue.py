"""Kueue admits Jobs of Mid pods by a quota in Mid or in cores, with the manifests of docs/how-to/kueue.md."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
import yaml
from kubernetes.utils.quantity import parse_quantity

from e2e.support import kueue, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import MID_CPU, MID_MEMORY
from e2e.support.workloads import MEBIBYTE
from tools.localcluster import content_cache
from tools.localcluster.access import Cluster

PAGE = content_cache.REPOSITORY / "docs" / "how-to" / "kueue.md"
JOBS = "jobs.batch"
OFFERED = slo_config.changed(**slo_config.STATIC)
EVICTION = {"mode": "evict", "reports": 2, "nodeIntervalSeconds": 10, "readmitSeconds": 10}
EVICTING = slo_config.changed(midUnallocatedPercent=0, midReclaimRatioPercent=0, midEviction=EVICTION)
"""Nothing is reclaimable, and nothing unallocated is added: every Mid pod is too many."""
UNTIL_DONE = ["sh", "-c", "until [ -e /tmp/done ]; do sleep 1; done"]

pytestmark = pytest.mark.timeout(600, func_only=True)


class Queues:
    """The queues of the page in the namespace of the case, and its Jobs."""

    def __init__(self, cluster: Cluster, namespace: str, image: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        text = PAGE.read_text().replace("namespace: shop", f"namespace: {namespace}")
        text = re.sub("image: .*", f"image: {image}", text)
        blocks = re.findall("^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        documents = [document for block in blocks for document in yaml.safe_load_all(block)]
        self._jobs = {document["metadata"]["name"]: document for document in documents if document["kind"] == "Job"}
        self.queues = yaml.safe_dump_all([document for document in documents if document["kind"] != "Job"])

    def submit(self, template: str, name: str, **labels: str) -> None:
        """Create a Job as the page has it, but with a program that runs until its pod has a file."""
        job = copy.deepcopy(self._jobs[template])
        job["metadata"] |= {"name": name, "labels": job["metadata"]["labels"] | labels}
        job["spec"]["template"]["spec"]["containers"][0] |= {"command": UNTIL_DONE, "imagePullPolicy": "IfNotPresent"}
        job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
        self.cluster.run("create", "--filename=-", stdin=yaml.safe_dump(job))

    def get(self, kind: str, *words: str) -> Any:
        return self.cluster.get(kind, *words, "--namespace", self.namespace)

    def pods(self, job: str) -> list[dict[str, Any]]:
        """Return those that do not end."""
        pods = self.get("pods", f"--selector=job-name={job}")["items"]
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def wait_running(self, job: str, within_seconds: float = 120) -> list[dict[str, Any]]:
        """Return the two pods of a Job, as soon as both run."""
        return waiting.until(
            f"both pods of {job} run",
            lambda: [pod for pod in self.pods(job) if pod["status"]["phase"] == "Running"],
            lambda pods: len(pods) == 2,
            within_seconds=within_seconds,
        )

    def condition(self, job: str, kind: str) -> tuple[str, str]:
        """Return status and message of a condition of a Job's Workload."""
        workloads = self.get("workloads.kueue.x-k8s.io")["items"]
        (of_job,) = (workload for workload in workloads if workload["metadata"]["ownerReferences"][0]["name"] == job)
        (chosen,) = (condition for condition in of_job["status"]["conditions"] if condition["type"] == kind)
        return chosen["status"], chosen["message"]

    def usage(self, queue: str) -> dict[str, Decimal]:
        """Return what the admitted Jobs of a ClusterQueue hold, in units of each resource."""
        (flavor,) = self.get("clusterqueues.kueue.x-k8s.io", queue)["status"]["flavorsUsage"]
        return {resource["name"]: parse_quantity(resource["total"]) for resource in flavor["resources"]}

    def end(self, *jobs: str) -> None:
        self.cluster.run("delete", JOBS, *jobs, "--namespace", self.namespace)


@pytest.fixture(scope="module")
def queues(cluster: Cluster, cluster_client: ClusterClient, suite: Suite, namespace: str) -> Iterator[Queues]:
    suite.install("--set=admission.mode=auto", f"--set=manager.eviction.namespaces={{{namespace}}}")
    slo_config.write(cluster_client, OFFERED)
    with kueue.installed(cluster, namespace):
        queues = Queues(cluster, namespace, suite.workload)
        waiting.until("the queues", lambda: cluster.run("apply", "--filename=-", stdin=queues.queues))
        for node in cluster.real_nodes():
            waiting.until("Mid", lambda node=node: cluster_client.mid(node), lambda seen: seen and seen[0] > 400)
        yield queues
        cluster.run("delete", JOBS, "--all", "--namespace", namespace)
        cluster.run("delete", "--filename=-", stdin=queues.queues)
    slo_config.write(cluster_client, slo_config.BASE)
    suite.install()


def test_with_a_quota_in_mid_the_third_job_waits_until_one_ends(queues: Queues) -> None:
    names = ["first", "second", "third"]
    for name in names:
        queues.submit("in-mid", name)
    for name in names[:2]:
        for pod in queues.wait_running(name):
            assert pod["spec"]["schedulerName"] == "koord-scheduler"
    status, message = queues.condition("third", "QuotaReserved")
    print(message)
    assert status == "False"
    assert f"insufficient unused quota for {MID_CPU} in flavor mid" in message
    assert queues.pods("third") == []
    assert queues.usage("mid") == {MID_CPU: 800, MID_MEMORY: 512 * MEBIBYTE}
    for pod in queues.pods("first"):
        queues.cluster.run("exec", pod["metadata"]["name"], "--namespace", queues.namespace, "--", "touch", "/tmp/done")
    queues.wait_running("third")
    assert queues.get(JOBS, "first")["status"]["succeeded"] == 2
    queues.end(*names)


def test_with_a_quota_in_cores_a_job_of_two_changed_lines_runs_on_mid(queues: Queues) -> None:
    queues.submit("in-cores", "native")
    for pod in queues.wait_running("native"):
        assert pod["spec"]["schedulerName"] == "koord-scheduler"
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        assert requests == {"cpu": "0", "memory": "0", MID_CPU: "200", MID_MEMORY: "128Mi"}
    assert queues.usage("cores") == {"cpu": Decimal("0.4"), "memory": 256 * MEBIBYTE}


def test_an_evicted_pod_is_replaced_and_the_job_stays_admitted(
    queues: Queues, cluster_client: ClusterClient, configure: Callable[[dict], None]
) -> None:
    before = {pod["metadata"]["name"] for pod in queues.wait_running("native")}

    def evicted() -> list[str]:
        events = cluster_client.list("Event", queues.namespace, field_selector="reason=MidPodEvicted")
        return [event["message"] for event in events if event["involvedObject"]["name"] in before]

    configure(EVICTING)
    print(waiting.until("one is evicted", evicted, within_seconds=240)[0])
    waiting.until("its successor waits", lambda: {pod["metadata"]["name"] for pod in queues.pods("native")} - before)
    assert queues.condition("native", "Admitted")[0] == "True"
    assert queues.usage("cores") == {"cpu": Decimal("0.4"), "memory": 256 * MEBIBYTE}
    configure(OFFERED)
    after = {pod["metadata"]["name"] for pod in queues.wait_running("native", within_seconds=240)}
    assert after != before
    assert "failed" not in queues.get(JOBS, "native")["status"]
    queues.end("native")


def test_a_native_job_waits_for_ever_in_a_queue_of_mid(queues: Queues) -> None:
    queues.submit("in-cores", "lost", **{"kueue.x-k8s.io/queue-name": "mid"})
    status, message = waiting.until("its condition", lambda: queues.condition("lost", "QuotaReserved"))
    print(message)
    assert status == "False"
    assert re.search("resource (cpu|memory) unavailable in ClusterQueue", message)
