"""Measure how long questions have no answer after a restart.

python -m benchmarks.bench_restart [--nodes N] [--pods-per-node M] [--restarts R]

The client shows the pods as kube-scheduler's plugin does, as soon as the socket exists. A restart begins with the start
of the interpreter and ends with the frame READY: the process has the nodes, their reports and the pods by then.
"""

from __future__ import annotations

import argparse
import pathlib
import socket
import sys
import tempfile
import threading
import time
from typing import Any

import msgspec

from benchmarks import extender_process, replay_apiserver, synthetic_cluster
from scheduler_plugin.kube_scheduler import frames
from scheduler_plugin.kube_scheduler.frames import FrameBuffer, Kind
from tests.scheduler_plugin.kube_scheduler import peer_frames

POD_AGE_SECONDS = 3600.0
POLL_SECONDS = 0.005


def shown(pod: dict[str, Any]) -> bytes:
    """Return the frame of a pod, with the fields that kube-scheduler's plugin hands on."""
    spec, status = pod["spec"], pod["status"]
    containers = [{"name": "", "resources": container["resources"]} for container in spec["containers"]]
    fields = {
        "metadata": {key: pod["metadata"][key] for key in ("name", "namespace", "uid")},
        "spec": {"nodeName": spec["nodeName"], "priority": spec["priority"], "containers": containers},
        "status": {key: status[key] for key in ("phase", "conditions") if key in status},
    }
    return frames.frame(Kind.POD, msgspec.json.encode(fields))


def connected(path: pathlib.Path) -> socket.socket:
    """Return a connection, as soon as the process listens."""
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
        except OSError:
            connection.close()
            time.sleep(POLL_SECONDS)
        else:
            return connection


def until_ready(connection: socket.socket, sent: bytes) -> None:
    """Show all pods, and wait until questions are answered."""
    sending = threading.Thread(target=connection.sendall, args=(sent,))
    sending.start()
    buffer = FrameBuffer()
    while received := connection.recv(2**16):
        if any(frame.kind is Kind.READY and frame.payload == b"\1" for frame in buffer.take(received)):
            sending.join()
            return
    raise SystemExit("the process closed the connection: its log states why")


def main() -> int:
    """Print the seconds of each restart."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods-per-node", type=int, default=10)
    parser.add_argument("--restarts", type=int, default=3)
    chosen = parser.parse_args()
    scheduled = time.time() - POD_AGE_SECONDS
    pods = [
        shown(pod)
        for name in synthetic_cluster.node_names(chosen.nodes)
        for pod in synthetic_cluster.pods_of(name, chosen.pods_per_node, scheduled)
    ]
    sent = b"".join([peer_frames.hello("koord-scheduler", "36"), *pods, frames.frame(Kind.SYNCED)])
    print(f"{chosen.nodes} nodes, {len(pods)} pods in {len(sent) / 2**20:.0f} MiB")
    with (
        replay_apiserver.running(nodes=chosen.nodes, pods_per_node=chosen.pods_per_node) as url,
        tempfile.TemporaryDirectory() as folder,
    ):
        path = pathlib.Path(folder, "plugin.sock")
        for _ in range(chosen.restarts):
            began = time.monotonic()
            with extender_process.running(url, str(path)) as process, connected(path) as connection:
                listening = time.monotonic()
                until_ready(connection, sent)
                print(
                    f"ready after {time.monotonic() - began:.2f} s, {listening - began:.2f} of them until it listened, "
                    f"{process.cpu_seconds():.2f} s of CPU, {process.memory_mebibytes():.0f} MiB"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
