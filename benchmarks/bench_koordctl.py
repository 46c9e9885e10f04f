"""Measure `koordctl backtest` on a generated block of 14 days in a real Prometheus.

    python -m benchmarks.bench_koordctl [--nodes 10] [--pods 30] [--days 14] [--workers 2]

Samples are 5 minutes apart; a scrape each 30 s makes Prometheus, not koordctl, read ten times as many.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from e2e.thirdparty.prometheus import packages
from e2e.thirdparty.prometheus.server import DATA, Prometheus

START, STEP = 1_700_000_100, 300


def write_node(folder, number, pods, steps, name="", cores=64):
    rng = np.random.default_rng(number)
    node, at = name or f"node-{number:04}", START + STEP * np.arange(steps)
    file = folder / "samples.txt"
    with file.open("w") as out:

        def series(name, labels, values, times=at):
            head = f"{name}{{{labels}}}"
            out.writelines(f"{head} {value:.6g} {time}\n" for value, time in zip(values, times, strict=True))

        labels = [f'namespace="default",pod="pod-{number}-{pod}",node="{node}"' for pod in range(pods)]
        day = 1 + 0.5 * np.sin(2 * np.pi * np.arange(steps) * STEP / 86_400)
        usage = rng.gamma(4.0, 0.1, (pods, steps)) * day
        for each, of_pod in zip(labels, usage, strict=True):
            head = f'container_cpu_usage_seconds_total{{{each},container="main"}}'
            counter = np.cumsum(of_pod * STEP)
            out.writelines(f"{head} {value:.3f} {time}\n" for value, time in zip(counter, at, strict=True))
        for each, of_pod in zip(labels, usage, strict=True):
            series("container_memory_working_set_bytes", f'{each},container="main"', of_pod * 2**29 + 2**28)
        for pod, each in enumerate(labels):
            series("kube_pod_info", f'{each},uid="{number}-{pod}",priority_class="koord-prod"', np.ones(steps))
        for pod, each in enumerate(labels):
            for resource, value in (("cpu", cores / 32), ("memory", cores * 2**26)):
                keys = f'{each},uid="{number}-{pod}",container="main",resource="{resource}"'
                series("kube_pod_container_resource_requests", keys, [value], at[-1:])
        for name in ("kube_node_status_capacity", "kube_node_status_allocatable"):
            for resource, value in (("cpu", cores), ("memory", cores * 2**31)):
                series(name, f'node="{node}",resource="{resource}"', [value], at[-1:])
        out.write("# EOF\n")
    make_block(folder, file)


def make_block(folder, file):
    command = [packages.program("promtool"), "tsdb", "create-blocks-from", "--max-block-duration=336h", "openmetrics"]
    subprocess.run([*command, file, folder / DATA], check=True, stdout=subprocess.DEVNULL)
    file.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag, default in (("--nodes", 10), ("--pods", 30), ("--days", 14), ("--workers", 2)):
        parser.add_argument(flag, type=int, default=default)
    options = parser.parse_args()
    steps = options.days * 86_400 // STEP
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(options.nodes):
            write_node(folder, number, options.pods, steps)
        server = started(folder)
        try:
            measure(server, steps, options)
        finally:
            server.stop()


def started(folder):
    server = Prometheus(folder)
    (folder / "prometheus.json").write_text("{}")
    server._start(
        f"--config.file={folder}/prometheus.json",
        f"--storage.tsdb.path={folder / DATA}",
        f"--web.listen-address=127.0.0.1:{server.port}",
        "--storage.tsdb.retention.time=100y",
    )
    return server


def cpu_seconds(server):
    return sum(psutil.Process(server._process.pid).cpu_times()[:2])


def measure(server, steps, options):
    begin, largest = time.perf_counter(), 0
    of_server = cpu_seconds(server)
    times = ["--from", str(START), "--to", str(START + (steps - 1) * STEP)]
    command = [sys.executable, "-m", "koordctl", "backtest", "--prometheus", server.url, *times]
    process = psutil.Popen([*command, "--workers", str(options.workers)])
    seen = {}
    while process.poll() is None:
        try:
            tree = [process, *process.children(recursive=True)]
            largest = max(largest, sum(each.memory_info().rss for each in tree))
            seen |= {each.pid: sum(each.cpu_times()[:2]) for each in tree}
        except psutil.NoSuchProcess:
            continue
        time.sleep(0.2)
    seconds = time.perf_counter() - begin
    print(f"\n| nodes | pods | days | workers | exit code | s | CPU s | CPU s of Prometheus | RSS MiB |\n|{'---|' * 9}")
    print(
        f"| {options.nodes} | {options.pods} | {options.days} | {options.workers} | {process.returncode} "
        f"| {seconds:.0f} | {sum(seen.values()):.0f} | {cpu_seconds(server) - of_server:.0f} "
        f"| {largest / 2**20:.0f} |"
    )


if __name__ == "__main__":
    main()
