"""Koordinator's own agent as a process of this machine, beside what a kubelet would serve it.

What it writes stays in one folder: all parts that change control groups are off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from e2e.support import loopback_page
from tools.localcluster.host import ports
from tools.localcluster.standalone_control_plane import ControlPlane, Running
from tools.peers import programs

NAME: Final = "koordlet"
"""Name of the process."""
STARTED: Final = "Start daemon successfully"
"""Line of its log after which it predicts."""
NODE_SLOS: Final = "/apis/slo.koordinator.sh/v1alpha1/nodeslos"
_OFF: Final = (
    *("BECPUSuppress", "CPUBurst", "RdtResctrl", "NodeTopologyReport"),
    *("GroupIdentity", "CPUSetAllocator", "BatchResource"),
)


def kubelet(pods: Sequence[Mapping[str, Any]]) -> AbstractContextManager[int]:
    """Serve pods as the read-only port of a kubelet does; yield the port."""
    body = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": pods}).encode()
    return loopback_page.serving("application/json", lambda: body)


def start(
    plane: ControlPlane, node: str, folder: Path, cgroup_root: Path, kubelet_port: int, **flags: object
) -> Running:
    """Start it for a node whose address is that of loopback, over control groups of v1.

    The CPUs of BestEffort pods, which it reads and no test limits, are a plain file.
    """
    best_effort = cgroup_root / "cpuset/kubepods/besteffort"
    best_effort.mkdir(parents=True)
    (best_effort / "cpuset.cpus").write_text("0")
    for name in ("run", "resctrl", "kubelet", "metrics", "checkpoints", "hooks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    chosen = {
        "addr": f"127.0.0.1:{ports.free_port()}", "v": 4, "logtostderr": "true",
        "cgroup-root-dir": f"{cgroup_root}/", "proc-root-dir": "/proc/", "sys-root-dir": "/sys/",
        "sys-fs-root-dir": f"{folder}/resctrl/", "run-root-dir": f"{folder}/run/",
        "var-run-root-dir": f"{folder}/run/", "var-lib-kubelet-dir": f"{folder}/kubelet/",
        "tsdb-path": f"{folder}/metrics", "prediction-checkpoint-filepath": f"{folder}/checkpoints",
        "runtime-hooks-addr": f"{folder}/hooks.sock", "runtime-hooks-config-path": f"{folder}/hooks",
        "enable-nri-runtime-hook": "false", "feature-gates": ",".join(f"{name}=false" for name in _OFF),
        "kubelet-insecure-tls": "true", "disable-query-kubelet-config": "true",
        "kubelet-read-only-port": kubelet_port, **{name.replace("_", "-"): value for name, value in flags.items()},
    }  # fmt: skip
    words = [f"--{name}={value}" for name, value in chosen.items()]
    return plane.start(NAME, programs.program("koordlet"), *words, NODE_NAME=node, KUBECONFIG=str(plane.kubeconfig))
