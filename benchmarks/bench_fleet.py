"""Measure `koordctl top nodes` and `koordctl status` of a large cluster: seconds, CPU seconds, peak memory.

    python -m benchmarks.bench_fleet [--nodes 5000] [--pods 50]

A replayed apiserver sends the pages; the time of one that only reads the same pages is printed beside.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from benchmarks import replay_apiserver

METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
KUBECONFIG = """
clusters: [{{name: c, cluster: {{server: {url}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
users: [{{name: u, user: {{token: t}}}}]
current-context: x
"""


def transfer(url, count):
    began, received = time.monotonic(), 0
    for path in ("/api/v1/nodes", METRICS):
        for start in range(0, count, 500):
            with urllib.request.urlopen(f"{url}{path}?limit=500&continue={start}") as answer:
                received += len(answer.read())
    return time.monotonic() - began, received


def run(command, file):
    began = time.monotonic()
    argv = [sys.executable, "-m", "koordctl", *command, "--kubeconfig", str(file)]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    return time.monotonic() - began, cpu, usage.ru_maxrss / 1024, process.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50)
    options = parser.parse_args()
    served = replay_apiserver.running(nodes=options.nodes, pods_per_node=options.pods)
    with tempfile.TemporaryDirectory() as folder, served as url:
        file = Path(folder) / "kubeconfig"
        file.write_text(KUBECONFIG.format(url=url))
        seconds, received = transfer(url, options.nodes)
        print(f"{options.nodes} nodes: {received / 1e6:.0f} MB, transferred alone in {seconds:.1f} s")
        for command in (("top", "nodes"), ("top", "nodes", "-o", "json")):
            wall, cpu, memory, code = run(command, file)
            print(f"koordctl {' '.join(command)}: {wall:.1f} s, CPU {cpu:.1f} s, {memory:.0f} MiB, exit code {code}")


if __name__ == "__main__":
    main()
