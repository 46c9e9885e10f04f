"""Count files and functions between a NodeMetric report and the PATCH of its node: `python -m tests.path_of_a_report`.

The manager runs as a process of its own against a cluster in memory, with the configuration {"enable": true}. What its
main thread calls from the arrival of the report to the PATCH is counted: functions of the product, each once,
without the transport (apiserver_client).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from api_types.kubernetes import times
from component_base import clock
from tests.fakes import agent_process, cluster

ROOT = Path(__file__).parents[1]
MOST_FILES, MOST_FUNCTIONS = 26, 110
PACKAGES = ("api_types/", "component_base/", "manager/")
TIMERS = {"manager/leader.py:_heartbeat", "manager/leader.py:_cancel_on"}
"""What renews the lease meanwhile: on a busy machine it runs in most measurements, and is not of the path."""
NAMESPACE = "koordinator-system"
_STEP_SECONDS = 0.05
_SECONDS = 60.0


def manager() -> None:
    """Run the manager. SIGUSR2 begins to record, or ends it and prints the functions."""
    called: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            called.setdefault(frame.f_code)

    def toggle(*_: Any) -> None:
        if sys.getprofile() is None:
            sys.setprofile(note)
            return
        sys.setprofile(None)
        named = (code for code in called if not code.co_name.startswith("<"))  # no comprehension and no lambda
        print(json.dumps([f"{code.co_filename}:{code.co_qualname}" for code in named]), flush=True)

    signal.signal(signal.SIGUSR2, toggle)
    from manager import __main__ as program  # only the child needs it

    sys.exit(program.main(["run", "--http-port", "0"]))


def _report(used_millis: int) -> dict[str, Any]:
    amounts = {"cpu": f"{used_millis}m", "memory": "2Gi"}
    nothing = {"cpu": "0", "memory": "0"}
    peak = {"resource": {"resources": {"cpu": f"{used_millis + 100}m", "memory": "3Gi"}}}
    return {
        "updateTime": times.format_rfc3339(clock.utc_now()),
        "nodeMetric": {"nodeUsage": {"resources": amounts}},
        "usage": {"prod": amounts, "mid": nothing, "batchAndFree": nothing, "system": nothing},
        "allocated": {
            "prod": {"cpu": "8", "memory": "16Gi"},
            "mid": {"kubernetes.io/mid-cpu": "0", "kubernetes.io/mid-memory": "0"},
        },
        "prodPeakMetric": peak,
        "prodReclaimableMetric": {"resource": {"resources": {"cpu": f"{7900 - used_millis}m", "memory": "13Gi"}}},
    }


async def measure() -> list[str]:
    """Return `file:function` of what runs, in the order of the first calls."""
    async with cluster.running() as server:
        size = {"cpu": "10", "memory": "20Gi"}
        server.add("nodes", {"metadata": {"name": "n1"}, "status": {"capacity": size, "allocatable": size}})
        document = {"metadata": {"name": "slo-controller-config"}, "data": {"colocation-config": '{"enable": true}'}}
        server.add("configmaps", document, NAMESPACE)
        with tempfile.TemporaryDirectory() as folder:
            to = server.connection()
            path = agent_process.kubeconfig(Path(folder) / "kubeconfig", to.server)
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.path_of_a_report", "manager", cwd=ROOT,
                env={**os.environ, "KUBECONFIG": str(path)}, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            try:
                await _until(lambda: server.all("nodemetrics"))
                server.patch("nodemetrics", "n1", {"status": _report(1000)})
                await _until(lambda: _mid_cpu(server) > 0)
                await asyncio.sleep(3)  # a node is written every 2 s at most
                before = _mid_cpu(server)
                child.send_signal(signal.SIGUSR2)
                await asyncio.sleep(_STEP_SECONDS)
                server.patch("nodemetrics", "n1", {"status": _report(3000)})
                await _until(lambda: _mid_cpu(server) != before)
                child.send_signal(signal.SIGUSR2)
                assert child.stdout is not None
                lines = [line.removeprefix(f"{ROOT}/") for line in json.loads(await child.stdout.readline())]
                return [line for line in lines if line.startswith(PACKAGES) and line not in TIMERS]
            finally:
                child.terminate()
                await child.wait()


async def _until(holds: Any) -> None:
    async with asyncio.timeout(_SECONDS):
        while not holds():  # a cluster in memory has no event for it
            await asyncio.sleep(_STEP_SECONDS)


def _mid_cpu(server: cluster.Cluster) -> int:
    return int(server.get("nodes", "n1")["status"]["capacity"].get("kubernetes.io/mid-cpu", 0))


def main() -> int:
    """Print the path and its counts; return 1 where a bound is exceeded."""
    path = asyncio.run(measure())
    for _ in range(4):
        again = set(asyncio.run(measure()))
        path = [line for line in path if line in again]  # a timer that ends meanwhile is not of the path
        files = list(dict.fromkeys(line.partition(":")[0] for line in path))
        if is_short := len(files) <= MOST_FILES and len(path) <= MOST_FUNCTIONS:
            break  # on a busy machine a timer may end in each measurement
    if "--list" in sys.argv:
        print(*path, sep="\n")
    print(
        f"report to PATCH: {len(files)} files (at most {MOST_FILES}), {len(path)} functions (at most {MOST_FUNCTIONS})"
    )
    return 0 if is_short else 1


if __name__ == "__main__":
    sys.exit(manager() if sys.argv[1:] == ["manager"] else main())
