"""Manifests of the pods of the cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from e2e.support.names import MID_CPU, MID_MEMORY
from tools.localcluster.access import Cluster

FAKE = "koord-suite.io/fake"
SCHEDULER = "koord-scheduler"
MEBIBYTE = 2**20
_HOLD = """
import time
held = bytearray({mib} * 2**20)
held[::4096] = b"x" * len(range(0, len(held), 4096))
time.sleep(600)
"""
_APART = """
import subprocess, sys
quiet = subprocess.DEVNULL  # `kubectl exec` ends only after all processes have closed its streams
subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=quiet, stderr=quiet, start_new_session=True)
"""


def pod(
    name: str,
    image: str,
    *args: str,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    scheduler: str = "default-scheduler",
    priority_class: str = "koord-prod",
    nodes: list[str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a pod with one container; `nodes` are the names of the nodes it may run on, also fake ones."""
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "priorityClassName": priority_class,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "work",
                "image": image,
                "args": list(args),
                "imagePullPolicy": "IfNotPresent",
                "resources": {"requests": dict(requests or {}), "limits": dict(limits or {})},
            }
        ],
    }
    if nodes is not None:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        spec["tolerations"] = [{"key": FAKE, "operator": "Exists"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, **(labels or {})}},
        "spec": spec,
    }


def load(*, cores: str = "0", memory_mib: int = 0, phase_seconds: float | None = None) -> list[str]:
    """Return arguments of the workload image; several levels of `cores`, comma-separated, take turns."""
    phases = [] if phase_seconds is None else [f"--phase-seconds={phase_seconds}"]
    return [f"--cpu-cores={cores}", f"--memory-mib={memory_mib}", *phases]


def mid_pod(
    name: str,
    image: str,
    *,
    cpu_millis: int,
    memory_mib: int,
    nodes: list[str] | None = None,
    cores: str = "0",
    native_limits: bool = False,
) -> dict[str, Any]:
    """Return a Mid pod, as in the Koordinator node prediction proposal; with native limits as admission writes them."""
    wanted = {MID_CPU: str(cpu_millis), MID_MEMORY: f"{memory_mib}Mi"}
    native = {"cpu": f"{cpu_millis}m", "memory": f"{memory_mib}Mi"} if native_limits else {}
    made = pod(
        name,
        image,
        *load(cores=cores),
        requests=wanted | dict.fromkeys(native, "0"),
        limits=wanted | native,
        scheduler=SCHEDULER,
        priority_class="koord-mid",
        nodes=nodes,
        labels={"koordinator.sh/qosClass": "BE"},
    )
    made["spec"]["priority"] = 7000
    return made


def take_memory(cluster: Cluster, namespace: str, pod: str, mebibytes: int) -> None:
    """Make a running pod allocate and hold more memory."""
    program = _HOLD.format(mib=mebibytes)
    cluster.run("exec", pod, "--namespace", namespace, "--", "python3", "-c", _APART, program)
