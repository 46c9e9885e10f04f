"""A Mid pod that allocates more than its mid-memory is killed, alone: no Prod pod is killed or restarted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api_types.mid_pods import template
from e2e.support import oom_kills, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.workloads import MEBIBYTE

CPU_MILLIS, MEMORY_MIB, WANTED_MIB, PROD_MIB = 100, 64, 160, 48
_HOLD = f"""
import time
held = bytearray({WANTED_MIB} * 2**20)
held[::4096] = b"x" * len(range(0, len(held), 4096))
print("holds all of it", flush=True)
time.sleep(600)
"""
_FILL_A_VOLUME = f"""
import time
with open("/memory/file", "wb") as file:
    for _ in range({WANTED_MIB}):
        file.write(b"x" * 2**20)
print("holds all of it", flush=True)
time.sleep(600)
"""
_IN_CHILDREN = f"""
import subprocess, sys, time
program = "held = bytearray(16 * 2**20); held[::4096] = b'x' * 4096; import time; time.sleep(600)"
children = [subprocess.Popen([sys.executable, "-c", program]) for _ in range({WANTED_MIB} // 16)]
while not any(child.poll() for child in children):
    time.sleep(0.1)
sys.exit(1)
"""
pytestmark = pytest.mark.usefixtures("shell_in_node")
HOGS = {"process": _HOLD, "volume-in-memory": _FILL_A_VOLUME, "many-processes": _IN_CHILDREN}


@pytest.fixture(scope="module")
def prod(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> list[str]:
    """Return Prod pods with a working set: Burstable and, which the kernel kills first of all, BestEffort."""
    requests = {"burstable": {"cpu": "50m", "memory": f"{PROD_MIB}Mi"}, "besteffort": {}}
    for name, wanted in requests.items():
        work = workloads.load(memory_mib=PROD_MIB)
        cluster_client.create(
            "Pod", workloads.pod(name, suite.workload, *work, requests=wanted, nodes=[node]), namespace
        )
    cluster_client.wait_running(namespace, *requests)
    return list(requests)


@pytest.fixture(scope="module")
def hog(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> Callable[[str, str, bool], str]:
    """Return a function that creates a Mid pod with a program, with or without the limits of the rules."""

    def has_room(mid: tuple[int, int] | None) -> bool:
        return mid is not None and mid[0] >= CPU_MILLIS and mid[1] >= MEMORY_MIB * MEBIBYTE

    def create(name: str, program: str, is_limited: bool) -> str:
        waiting.until("enough Mid on the node", lambda: cluster_client.mid(node), has_room, within_seconds=180)
        made = workloads.mid_pod(name, suite.workload, cpu_millis=CPU_MILLIS, memory_mib=MEMORY_MIB, nodes=[node])
        made["spec"] |= {"restartPolicy": "Never", "volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}]}
        (container,) = made["spec"]["containers"]
        mounts = [{"name": "memory", "mountPath": "/memory"}]
        container |= {"command": ["python3", "-u", "-c", program], "args": [], "volumeMounts": mounts}
        cluster_client.create("Pod", template.limited(made) if is_limited else made, namespace)
        return name

    return create


def _restarts(cluster_client: ClusterClient) -> dict[str, int]:
    """Return the restarts of all containers of the cluster that are not Mid."""
    return {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}/{each['name']}": each["restartCount"]
        for pod in cluster_client.list("Pod")
        if pod["spec"].get("priorityClassName") != "koord-mid"
        for each in pod["status"].get("containerStatuses") or ()
    }


@pytest.mark.parametrize(
    "way", [way if way == "process" else pytest.param(way, marks=pytest.mark.long) for way in HOGS]
)
def test_it_alone_is_killed(
    cluster_client: ClusterClient, namespace: str, prod: list[str], hog: Callable[..., str], way: str
) -> None:
    pods = [cluster_client.get("Pod", name, namespace) for name in prod]
    before = _restarts(cluster_client)
    name = hog(f"hog-{way}", HOGS[way], True)

    def terminated() -> dict[str, Any]:
        (status,) = cluster_client.get("Pod", name, namespace)["status"]["containerStatuses"]
        return dict(status["state"].get("terminated") or {})

    ended = waiting.until("the hog ends", terminated, within_seconds=90)
    assert ended["exitCode"] != 0, ended
    if way == "process":
        assert ended["reason"] == "OOMKilled", ended
    assert [oom_kills.of_pod(pod) for pod in pods] == [0] * len(prod)
    after = _restarts(cluster_client)
    assert {each: after.get(each) for each in before} == before
    assert [cluster_client.pod_phase(each, namespace) for each in prod] == ["Running"] * len(prod)


def test_without_its_limits_it_takes_all_that_it_wants(
    cluster_client: ClusterClient, suite: Suite, namespace: str, hog: Callable[..., str]
) -> None:
    """The limits are what stops it: nothing else does."""
    name = hog("hog-without-limits", _HOLD, False)

    def shown() -> str:
        return suite.cluster.run("logs", name, "--namespace", namespace)

    waiting.until("it holds more than its mid-memory", shown, lambda text: "holds all" in text, within_seconds=90)
    cluster_client.wait_running(namespace, name)  # the kubelet may report it later than the log shows it
    assert WANTED_MIB * MEBIBYTE > MEMORY_MIB * MEBIBYTE
