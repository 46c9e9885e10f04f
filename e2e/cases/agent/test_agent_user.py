"""The agent sees the /proc of the host, and still cannot read the environment of pods of the user of many images."""

from __future__ import annotations

import pytest

from e2e.support import waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.access import Cluster

NONROOT = 65532  # of distroless images, and of our own but the agent's
SECRET = "a-secret-of-a-tenant"
_READ_ENVIRONMENTS = """
import glob, os, sys
seen, found = 0, 0
for folder in glob.glob("/host/proc/[0-9]*"):
    try:
        seen += os.stat(folder).st_uid == int(sys.argv[1])
        found += sys.argv[2].encode() in open(folder + "/environ", "rb").read()
    except OSError:
        pass
print(os.getuid(), seen, found)
"""


@pytest.fixture(scope="module")
def secretive(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> None:
    """Run a pod with a secret in its environment, and one that sees the /proc of the host as the agent does."""
    for name in ("secretive", "reader"):
        pod = workloads.pod(name, suite.workload, *workloads.load(), nodes=[node])
        pod["spec"]["securityContext"] = {"runAsUser": NONROOT, "runAsGroup": NONROOT}
        if name == "secretive":
            pod["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": SECRET}]
        else:
            pod["spec"]["containers"][0]["volumeMounts"] = [
                {"name": "proc", "mountPath": "/host/proc", "readOnly": True}
            ]
            pod["spec"]["volumes"] = [{"name": "proc", "hostPath": {"path": "/proc"}}]
        cluster_client.create("Pod", pod, namespace)
    cluster_client.wait_running(namespace, "secretive", "reader")


def _environments(cluster: Cluster, pod: str, namespace: str) -> tuple[int, int, int]:
    """Return the user of a pod, how many processes of NONROOT it sees, and how many secrets it reads."""
    program = ("python3", "-c", _READ_ENVIRONMENTS, str(NONROOT), SECRET)
    user, seen, found = cluster.run("exec", pod, "--namespace", namespace, "--", *program).split()
    return int(user), int(seen), int(found)


@pytest.mark.usefixtures("secretive")
def test_the_agent_reads_no_environment_of_pods_of_a_common_user(
    cluster: Cluster, suite: Suite, namespace: str
) -> None:
    user, seen, found = _environments(cluster, suite.agent_pod(), SUITE_NAMESPACE)
    assert user not in {0, NONROOT}
    assert seen > 0
    assert found == 0
    user, seen, found = _environments(cluster, "reader", namespace)
    assert user == NONROOT
    assert found > 0, "the same program as that user finds no secret either"


def test_under_its_user_the_agent_reads_every_source(cluster_client: ClusterClient, suite: Suite, node: str) -> None:
    report = waiting.until(
        "a report with a prediction",
        lambda: cluster_client.node_metric(node)["status"],
        lambda status: "prediction" in status,
        within_seconds=150,
    )
    conditions = {each["type"]: each for each in report["conditions"]}
    assert conditions["SourceDegraded"]["status"] == "False", conditions["SourceDegraded"]
    assert report["podsMetric"]
