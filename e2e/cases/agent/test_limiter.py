"""The limiter on a real kubelet: what it writes, what it cannot write, and that it restores everything at its end.

No link can be made in a cgroup, so links are tried where one can be made: in place of the input file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.support import slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import RELEASE, Suite
from e2e.support.names import MID_CPU, MID_MEMORY, SUITE_NAMESPACE
from tools.localcluster import running
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

NAMESPACE = "koord-limiter"
INPUT = Path("/run/koord-limiter-case/mid-pods.json")
CPU, MEMORY = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/memory")
BEST_EFFORT = "kubepods/besteffort"
CPU_MILLIS, MEMORY_MIB = 150, 48
OTHER_MILLIS = 120
"""Mid CPU of a forged file, which shows that the limiter has read it."""
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


@pytest.fixture(scope="module")
def limiter(cluster: Cluster, cluster_client: ClusterClient, suite: Suite) -> Iterator[str]:
    """Install the limiter, and return the name of its pod on the real node."""
    _require_groups_of_the_node(cluster_client, suite)
    suite.install(
        "--set=koordlet.limiter.enabled=true,admission.nativeLimits=false",
        f"--set=koordlet.limiter.cpuFolder={CPU / BEST_EFFORT}",
        f"--set=koordlet.limiter.memoryFolder={MEMORY / BEST_EFFORT}",
        f"--set=koordlet.limiter.inputHostPath={INPUT.parent}",
    )
    yield _pod(cluster)
    suite.install()
    slo_config.write(cluster_client, slo_config.BASE)


def _require_groups_of_the_node(cluster_client: ClusterClient, suite: Suite) -> None:
    """Skip the case where the pods of the node have other groups than those that it reads and writes here."""
    uid = cluster_client.get("Pod", suite.agent_pod(), SUITE_NAMESPACE)["metadata"]["uid"]
    for root in (CPU, MEMORY):
        if not any((root / "kubepods" / of_class / f"pod{uid}").exists() for of_class in ("", "burstable")):
            pytest.skip(f"no pod{uid} below {root}/kubepods: want a node that is this machine, cgroup v1, cgroupfs")


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
    slo_config.write(cluster_client, slo_config.changed(**slo_config.STATIC))
    waiting.until(
        "Mid on the node",
        lambda: cluster_client.mid(node),
        lambda mid: mid and mid[0] >= CPU_MILLIS,
        within_seconds=180,
    )
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


@pytest.fixture(scope="module")
def prod_uid(cluster_client: ClusterClient, suite: Suite, node: str) -> Iterator[str]:
    """Create a Burstable Prod pod, and return its UID."""
    made = workloads.pod("beside", suite.workload, requests={"cpu": "100m", "memory": "32Mi"}, nodes=[node])
    cluster_client.create("Pod", made, "default")
    cluster_client.wait_running("default", "beside")
    yield str(cluster_client.get("Pod", "beside", "default")["metadata"]["uid"])
    cluster_client.delete("Pod", "beside", "default")


def _beside(uid: str) -> list[str]:
    """Return the values of the Prod pod, and those of the groups above the Mid pod."""
    folders = [(CPU, f"kubepods/burstable/pod{uid}"), (CPU, BEST_EFFORT), (CPU, "kubepods")]
    files = [root / path / name for root, path in folders for name in ("cpu.shares", "cpu.cfs_quota_us")]
    files += [MEMORY / path / "memory.limit_in_bytes" for path in (f"kubepods/burstable/pod{uid}", BEST_EFFORT)]
    return [file.read_text().strip() for file in files]


def _order(pods: Mapping[str, Any]) -> bytes:
    return json.dumps({"version": 1, "atSeconds": time.time(), "pods": pods}).encode()


def _amounts(millis: int) -> dict[str, int]:
    return {"midCpu": millis, "midMemory": MEMORY_MIB * 2**20}


def _replaced(content: bytes) -> None:
    new = INPUT.with_name("forged")
    new.write_bytes(content)
    new.replace(INPUT)


def _until_problem(cluster: Cluster, limiter: str) -> str:
    """Wait until the limiter refuses its input file; return why."""

    def problem() -> str:
        report = json.loads(_exec(cluster, limiter, "cat", "/run/status/limiter.json"))
        return str(report["problems"].get("/run/koord-limiter/mid-pods.json", ""))

    return waiting.until("the file is refused", problem, within_seconds=20)


def test_a_forged_uid_changes_nothing_outside_of_the_subtree(limiter: str, uid: str, prod_uid: str) -> None:
    """The control is the Mid pod, whose amounts in the same file have their effect."""
    waiting.until("the limits", lambda: _values(uid), lambda seen: seen == WANTED, within_seconds=10)
    before = _beside(prod_uid)
    shares = str(OTHER_MILLIS * 1024 // 1000)

    def forge() -> str:  # again and again: the agent writes its own file every 30 s
        _replaced(_order({uid: _amounts(OTHER_MILLIS), prod_uid: {"midCpu": 10, "midMemory": 2**20}}))
        return _values(uid)[0]

    waiting.until("the forged file is read", forge, lambda seen: seen == shares, within_seconds=20, every_seconds=1.5)
    assert _beside(prod_uid) == before
    waiting.until("the agent's file again", lambda: _values(uid), lambda seen: seen == WANTED, within_seconds=60)


def _as_link(content: bytes) -> None:
    target = INPUT.with_name("target")
    target.write_bytes(content)
    INPUT.unlink()
    INPUT.symlink_to(target)


@pytest.mark.parametrize(
    ("put", "uid_of_prod", "reason"),
    [
        (_replaced, "../burstable/pod{}", "want the UID of a pod"),
        (_replaced, "..", "want the UID of a pod"),
        (_as_link, "{}", "symbolic"),
    ],
    ids=["path", "parent", "link"],
)
def test_paths_and_links_are_refused_and_limits_stay(
    cluster: Cluster,
    limiter: str,
    uid: str,
    prod_uid: str,
    put: Callable[[bytes], None],
    uid_of_prod: str,
    reason: str,
) -> None:
    waiting.until("the limits", lambda: _values(uid), lambda seen: seen == WANTED, within_seconds=60)
    before = _beside(prod_uid)
    put(_order({uid: _amounts(OTHER_MILLIS), uid_of_prod.format(prod_uid): _amounts(10)}))
    assert reason in _until_problem(cluster, limiter)
    assert (_values(uid), _beside(prod_uid)) == (WANTED, before), "neither its limits nor those of another pod"


def test_no_path_leads_out_of_its_subtree(cluster: Cluster, limiter: str, uid: str, prod_uid: str) -> None:
    before = _beside(prod_uid)
    inside = f"/cgroup/cpu/besteffort/pod{uid}"
    for path in ("/cgroup/cpu/besteffort/../cpu.shares", f"{inside}/../../burstable/pod{prod_uid}/cpu.shares"):
        assert _exec(cluster, limiter, "python", "-c", _WRITE, path).startswith("refused"), path
    link = "import os, sys\ntry:\n os.symlink('/', sys.argv[1]); print('made')\nexcept OSError: print('refused')"
    assert _exec(cluster, limiter, "python", "-c", link, f"{inside}/link").strip() == "refused"
    assert _exec(cluster, limiter, "python", "-c", link, "/run/status/link").strip() == "made", "control"
    assert _beside(prod_uid) == before


Restart = Callable[[str], None]


@pytest.fixture
def restart(cluster_client: ClusterClient, suite: Suite, node: str, limiter: str, uid: str, prod_uid: str) -> Restart:
    """Return a function that restarts a part of the node, and checks limits and limiter before and after."""

    def act(component: str) -> None:
        waiting.until("the limits", lambda: _values(uid), lambda seen: seen == WANTED, within_seconds=60)
        before, witness = _beside(prod_uid), f"after-{component}"
        try:
            running.provider().stop(component)
        except ClusterProblem as impossible:
            pytest.skip(str(impossible))
        running.provider().start(component)
        cluster_client.create("Pod", workloads.pod(witness, suite.workload, nodes=[node]), "default")
        cluster_client.wait_running("default", witness)
        cluster_client.delete("Pod", witness, "default")
        waiting.until("the limits", lambda: _values(uid), lambda seen: seen == WANTED, within_seconds=20)
        assert _beside(prod_uid) == before
        (status,) = cluster_client.get("Pod", limiter, NAMESPACE)["status"]["containerStatuses"]
        assert (status["restartCount"], list(status["state"])) == (0, ["running"])

    return act


def test_the_kubelet_restarts_beside_it(restart: Restart) -> None:
    restart("kubelet")


def test_containerd_restarts_beside_it(restart: Restart) -> None:
    restart("containerd")


def test_an_uninstallation_restores_the_values_of_the_kubelet(cluster: Cluster, limiter: str, uid: str) -> None:
    waiting.until("the limits", lambda: _values(uid), lambda seen: seen == WANTED, within_seconds=60)
    cluster.run(
        "helm", "uninstall", RELEASE, f"--namespace={SUITE_NAMESPACE}", "--wait", "--timeout=300s", timeout_seconds=330
    )
    waiting.until("restored", lambda: _values(uid)[:2], lambda seen: seen == ["2", "-1"], within_seconds=45)
    assert int(_values(uid)[2]) > 2**60
