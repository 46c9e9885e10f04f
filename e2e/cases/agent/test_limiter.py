"""The limiter on a real kubelet: what it writes, what it cannot write, and that it restores everything at its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support import waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import MID_CPU, MID_MEMORY
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

NAMESPACE = "koord-limiter"
CPU, MEMORY = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/memory")
BEST_EFFORT = "kubepods/besteffort"
CPU_MILLIS, MEMORY_MIB = 150, 48
_V1_FILES = ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes")
_WRITE = """
import pathlib, sys
try:
    path = pathlib.Path(sys.argv[1])
    path.write_text(path.read_text().split()[0] if path.exists() else "")
    print("written")
except OSError as error:
    print("refused:", error.strerror)
"""
pytestmark = pytest.mark.skipif(
    not (MEMORY / "memory.limit_in_bytes").exists(),
    reason="the node of the cluster is not this machine with cgroup v1",
)


@pytest.fixture(scope="module")
def limiter(cluster: Cluster, suite: Suite) -> Iterator[str]:
    """Install the limiter, and return the name of its pod on the real node."""
    suite.install(
        "--set=koordlet.limiter.enabled=true,admission.nativeLimits=false",
        f"--set=koordlet.limiter.cpuFolder={CPU / BEST_EFFORT}",
        f"--set=koordlet.limiter.memoryFolder={MEMORY / BEST_EFFORT}",
        "--set=koordlet.limiter.inputHostPath=/run/koord-limiter-case",
    )
    yield _pod(cluster)
    suite.install()


def _pod(cluster: Cluster) -> str:
    listed = cluster.get("pods", "--namespace", NAMESPACE)["items"]
    (name,) = [each["metadata"]["name"] for each in listed if "deletionTimestamp" not in each["metadata"]]
    return str(name)


def _values(uid: str) -> list[str]:
    """Return shares, quota and memory limit of a BestEffort pod."""
    return [
        (root / BEST_EFFORT / f"pod{uid}" / file).read_text().strip()
        for file in _V1_FILES
        for root in ([CPU] if file.startswith("cpu") else [MEMORY])
    ]


WANTED = [str(CPU_MILLIS * 1024 // 1000), str(CPU_MILLIS * 100), str(MEMORY_MIB * 2**20)]


@pytest.fixture(scope="module")
def uid(cluster_client: ClusterClient, suite: Suite, node: str, limiter: str) -> Iterator[str]:
    """Create a BestEffort Mid pod, and return its UID."""
    waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=120)
    made = workloads.mid_pod("limited", suite.workload, cpu_millis=CPU_MILLIS, memory_mib=MEMORY_MIB, nodes=[node])
    (container,) = made["spec"]["containers"]
    amounts = {MID_CPU: str(CPU_MILLIS), MID_MEMORY: f"{MEMORY_MIB}Mi"}
    container["resources"] = {"requests": amounts, "limits": amounts}
    cluster_client.create("Pod", made, "default")
    cluster_client.wait_running("default", "limited")
    pod = cluster_client.get("Pod", "limited", "default")
    assert pod["status"]["qosClass"] == "BestEffort"
    yield str(pod["metadata"]["uid"])
    cluster_client.delete("Pod", "limited", "default")


def _exec(cluster: Cluster, pod: str, *words: str) -> str:
    return cluster.run("exec", pod, "--namespace", NAMESPACE, "--", *words)


def test_a_mid_pod_is_limited_and_its_class_keeps_its_shares(limiter: str, uid: str) -> None:
    waiting.until("the limits", lambda: _values(uid), lambda seen: seen == WANTED, within_seconds=10)
    assert (CPU / BEST_EFFORT / "cpu.shares").read_text().strip() == "2"
    assert (CPU / BEST_EFFORT / "cpu.cfs_quota_us").read_text().strip() == "-1"


def test_it_has_no_capability_no_token_and_no_other_folder_to_write(cluster: Cluster, limiter: str, uid: str) -> None:
    status = _exec(cluster, limiter, "cat", "/proc/1/status")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert [int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")] == [0, 0, 0]
    assert (fields["NoNewPrivs"].strip(), fields["Seccomp"].strip()) == ("1", "2")
    with pytest.raises(ClusterProblem):
        _exec(cluster, limiter, "ls", "/var/run/secrets/kubernetes.io")
    for path in (
        "/etc/x",
        "/run/koord-limiter/mid-pods.json",
        "/sys/fs/cgroup/cpu/cpu.shares",
        "/proc/sys/kernel/panic",
    ):
        assert _exec(cluster, limiter, "python", "-c", _WRITE, path).startswith("refused"), path
    own = f"/cgroup/cpu/besteffort/pod{uid}/cpu.shares"
    assert _exec(cluster, limiter, "python", "-c", _WRITE, own).strip() == "written", "control: the same write, inside"


def test_it_reports_that_all_is_well(cluster: Cluster, limiter: str, uid: str) -> None:
    report = json.loads(_exec(cluster, limiter, "cat", "/run/status/limiter.json"))
    assert (report["limited"] >= 1, report["problems"]) == (True, {})


def test_at_its_end_the_values_of_the_kubelet_are_restored(
    cluster: Cluster, suite: Suite, limiter: str, uid: str
) -> None:
    waiting.until("the limits", lambda: _values(uid), lambda seen: seen == WANTED, within_seconds=10)
    cluster.run("delete", "daemonset", "koord-limiter", "--namespace", NAMESPACE, "--cascade=foreground")
    waiting.until("restored", lambda: _values(uid)[:2], lambda seen: seen == ["2", "-1"], within_seconds=45)
    assert int(_values(uid)[2]) > 2**60
