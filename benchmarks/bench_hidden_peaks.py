"""How much a mean over 5 minutes hides: the agent's own 1 s samples of pods with real, changing CPU load.

    python -m benchmarks.bench_hidden_peaks [--minutes 15] [--scale 1.0]

Needs root. Each pod is a cgroup with one process. Shapes, four pods each: requests that arrive at random and take
random times (Poisson, exponential) at a rate that drifts; a job of 5 to 20 s each minute or two beside little work; a
steady loop. The groups have the largest CPU weight, so that other load of the machine does not lower their peaks.
Compared are, over windows of 5 minutes that begin every 10 s, the mean, the largest p90 of
30 s, which is what the agent learns and is evaluated by, and the largest second. `--scale` multiplies the work.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from koordlet.collectors.snapshot import HostCollector
from koordlet.metric_cache import aggregation
from tests.host_trees import live_cgroups
from tests.host_trees.live_cgroups import LiveCgroups
from tests.host_trees.plain_files import V1

WINDOW, SHORT, STRIDE = 300, 30, 10
BURN = """
import random, sys, time
kind, seed, scale = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
chance = random.Random(seed)
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
rate, drift = 4.0, time.monotonic()
while True:
    if kind == "requests":
        if time.monotonic() - drift > 20:
            rate, drift = min(max(rate * chance.lognormvariate(0, 0.3), 1.0), 12.0), time.monotonic()
        time.sleep(chance.expovariate(rate))
        burn(chance.expovariate(1 / 0.015) * scale)
    elif kind == "jobs":
        end = time.monotonic() + chance.uniform(60, 120)
        while time.monotonic() < end:
            time.sleep(1)
            burn(0.01 * scale)
        end = time.monotonic() + chance.uniform(5, 20)
        while time.monotonic() < end:
            time.sleep(0.05)
            burn(0.03 * scale)
    else:
        time.sleep(0.1)
        burn(0.008 * scale)
"""
KINDS, PODS_OF_A_KIND = ("requests", "jobs", "steady"), 4


def measure(minutes, scale):
    """Return the kind of each pod and its cores, (pods, seconds)."""
    with tempfile.TemporaryDirectory() as folder:
        host = LiveCgroups(Path(folder))
        try:
            kinds = [kind for kind in KINDS for _ in range(PODS_OF_A_KIND)]
            uids = [f"00000000-0000-0000-0000-{number:012d}" for number in range(len(kinds))]
            for number, (kind, uid) in enumerate(zip(kinds, uids, strict=True)):
                group = f"kubepods/burstable/pod{uid}/{number:064x}"
                host.group(group)
                host.run(group, "python3", "-I", "-S", "-c", BURN, kind, str(number), str(scale))
            weight = host.folder("cpu", ".") / ("cpu.shares" if host.version == V1 else "cpu.weight")
            weight.write_text("262144" if host.version == V1 else "10000")
            time.sleep(5)
            collector = HostCollector(host.host_root)
            collector.collect(time.time())
            seconds, begin = [], time.monotonic()
            for tick in range(1, minutes * 60 + 1):
                time.sleep(max(begin + tick - time.monotonic(), 0))
                pods = collector.collect(time.time()).pods
                seconds.append([pods[uid].cpu_cores if uid in pods else np.nan for uid in uids])
            collector.close()
        finally:
            host.close()
    return kinds, np.array(seconds).T


def ratios(cores):
    """Return what the largest p90 of 30 s, and the largest second, are of the mean of each window: (2, windows)."""
    found = []
    for begin in range(0, len(cores) - WINDOW + 1, STRIDE):
        window = cores[begin : begin + WINDOW]
        parts = window.reshape(-1, SHORT)
        p90 = aggregation.percentiles(parts, [0.9]).max() if np.isfinite(window).all() else np.nan
        found.append((p90 / window.mean(), window.max() / window.mean()))
    return np.array(found).T


def row(name, found):
    median, high = np.nanmedian(found, axis=-1), np.nanpercentile(found, 90, axis=-1)
    print(f"| {name} | {median[0]:.2f} | {high[0]:.2f} | {median[1]:.2f} | {high[1]:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=15)
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # groups are removed at the end
    if reason := live_cgroups.why_not():
        raise SystemExit(f"bench_hidden_peaks {reason}")
    os.nice(-20)  # the collector's second has to be one
    kinds, cores = measure(options.minutes, options.scale)
    print(f"{len(kinds)} pods, {options.minutes} minutes, {np.nanmean(cores.sum(axis=0)):.2f} cores on the mean\n")
    print("| of the mean of 5 minutes | largest p90 of 30 s: median | p90 | largest second: median | p90 |")
    print("|---|---|---|---|---|")
    of_pods = [ratios(each) for each in cores]
    for kind in KINDS:
        row(f"a pod, {kind}", np.hstack([each for of, each in zip(kinds, of_pods, strict=True) if of == kind]))
    row("a pod, all", np.hstack(of_pods))
    row(f"all {len(kinds)} pods together", ratios(cores.sum(axis=0)))


if __name__ == "__main__":
    main()
