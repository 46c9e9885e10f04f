"""Measure `koordctl top nodes` in a large cluster: seconds, CPU seconds, peak memory.

    python -m benchmarks.bench_fleet [--nodes 5000] [--pods 50]

A replayed apiserver sends the pages; the time of one that only reads the same pages is printed beside. A busy machine
changes the CPU seconds less than the others.
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

COMMANDS = ("top nodes", "top nodes -o json", "top nodes --sort used:desc --above used=50")
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
    parser.add_argument("--rounds", type=int, default=3, help="of each command; the quickest is printed")
    options = parser.parse_args()
    served = replay_apiserver.running(nodes=options.nodes, pods_per_node=options.pods)
    with tempfile.TemporaryDirectory() as folder, served as url:
        file = Path(folder) / "kubeconfig"
        file.write_text(KUBECONFIG.format(url=url))
        seconds, received = transfer(url, options.nodes)
        print(f"{options.nodes} nodes: {received / 1e6:.0f} MB, transferred alone in {seconds:.1f} s")
        print(f"\n| command | s | CPU s | RSS MiB | exit code |\n|{'---|' * 5}")
        for line in COMMANDS:
            wall, cpu, memory, code = min(run(line.split(), file) for _ in range(options.rounds))
            print(f"| `koordctl {line}` | {wall:.1f} | {cpu:.1f} | {memory:.0f} | {code} |", flush=True)


if __name__ == "__main__":
    main()
