"""Measure the cost of NodeMetric events, and their effect on calls: none, at a rate, and during a new list.

    python -m benchmarks.bench_node_metric_events [--nodes N] [--pods-per-node M] [--rates R ...] [--seconds S]

The extender runs as in a cluster, with watches of `replay_apiserver`; a client in C calls filter and prioritize with
500 nodes at a fixed rate meanwhile, for one of 300 pods after the other. CPU is that of the process beyond the cost of
the calls alone.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from api_types.kubernetes import pods
from benchmarks import bench_extender, c_client, extender_process, replay_apiserver, synthetic_cluster
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.state.node_report import NodeMetric

NAMES = 500
PODS = synthetic_cluster.POD_SHAPES
PODS_AT_ONCE = 100  # in one run of the client, about a second
PAUSE_SECONDS = 0.005  # between calls: about 180 a second


class Phase(NamedTuple):
    """Cost of one phase."""

    events_per_second: float
    cores: float
    microseconds: dict[str, list[float]]
    """By verb, sorted."""

    def line(self, label: str, calm: Phase | None) -> str:
        cores = self.cores - (calm.cores if calm else 0)
        an_event = f"{cores / self.events_per_second * 1e6:>9.0f}" if calm and self.events_per_second else " " * 9
        quantiles = "".join(
            f"{values[int(len(values) * share)]:>8.0f}"
            for values in self.microseconds.values()
            for share in (0.5, 0.99, 0.999)
        )
        return f"{label:<22}{self.events_per_second:>9.0f}{cores * 100:>8.1f}{an_event}{quantiles}"


def received_events(extender: extender_process.Running) -> float:
    return extender.metric("watch_events_total")


def measure_phase(
    extender: extender_process.Running, runs: Iterator[list[bytes]], seconds: float, until: Callable[[], bool]
) -> Phase:
    """Call for at least `seconds`, and until `until` returns true."""
    began, cpu, events = time.monotonic(), extender.cpu_seconds(), received_events(extender)
    samples: dict[str, list[float]] = {"filter": [], "prioritize": []}
    while time.monotonic() - began < seconds or not until():
        calls = c_client.seconds_of(extender.port, next(runs), rounds=1, pause_seconds=PAUSE_SECONDS)
        for offset, values in enumerate(samples.values()):
            values += [value * 1e6 for (value,) in calls[offset :: len(samples)]]
    took = time.monotonic() - began
    return Phase(
        (received_events(extender) - events) / took,
        (extender.cpu_seconds() - cpu) / took,
        {verb: sorted(values) for verb, values in samples.items()},
    )


def runs_of(port: int, names: list[str]) -> list[list[bytes]]:
    """Return the requests of each run of the client: filter and prioritize for one pod after the other."""
    sent = [bench_extender.bodies(port, names, f"pod-{index}") for index in range(PODS)]
    requests = [[c_client.request(verb, body) for verb, body in each.items()] for each in sent]
    return [list(itertools.chain(*requests[first : first + PODS_AT_ONCE])) for first in range(0, PODS, PODS_AT_ONCE)]


def measure_event(pod_count: int) -> list[float]:
    """Return the seconds of one NodeMetric event, decode and update, on a node whose reported pods are all assigned."""
    parts = assembly.Parts(loader.parse({}))
    now = time.time()
    parts.cluster.node_changed(msgspec.convert(synthetic_cluster.node("n1"), pods.Node))
    for document in synthetic_cluster.pods_of("n1", pod_count, now - 3600):
        parts.cluster.pod_changed(msgspec.convert(document, pods.Pod), now)
    event = msgspec.json.encode(synthetic_cluster.node_metric("n1", pod_count, now))
    decoder = msgspec.json.Decoder(NodeMetric)
    samples = []
    for _ in range(3000):
        began = time.perf_counter()
        parts.cluster.metric_changed(decoder.decode(event))
        samples.append(time.perf_counter() - began)
    return samples


def listing_again(url: str, extender: extender_process.Running) -> Callable[[], bool]:
    """Expire every resource version; return a function for whether all three lists are complete again."""
    wanted = extender.metric("watch_lists_total") + 3
    threading.Thread(target=lambda: urllib.request.urlopen(f"{url}/replay?forget").close()).start()
    return lambda: extender.metric("watch_lists_total") >= wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods-per-node", type=int, default=50)
    parser.add_argument("--rates", type=int, nargs="+", default=(84, 250, 1000))
    parser.add_argument("--seconds", type=float, default=15)
    chosen = parser.parse_args()
    for pod_count in (30, 50, 110):
        samples = measure_event(pod_count)
        p50, p99 = statistics.median(samples), statistics.quantiles(samples, n=100)[98]
        print(f"one event, {pod_count:>3} pods, decode + update: p50 {p50 * 1e6:.0f} us, p99 {p99 * 1e6:.0f} us")
    with (
        replay_apiserver.running(nodes=chosen.nodes, pods_per_node=chosen.pods_per_node) as url,
        extender_process.running(url) as extender,
    ):
        extender.until_ready(1800)
        names = synthetic_cluster.node_names(chosen.nodes)[:NAMES]
        runs = itertools.cycle(runs_of(extender.port, names))
        measure_phase(extender, runs, 2, lambda: True)
        print(
            f"{'':<22}{'events/s':>9}{'CPU %':>8}{'us each':>9}   filter p50, p99, p99.9  prioritize p50, p99, p99.9 us"
        )
        calm = measure_phase(extender, runs, chosen.seconds, lambda: True)
        print(calm.line("no events", None))
        for rate in chosen.rates:
            urllib.request.urlopen(f"{url}/replay?rate={rate}").close()
            time.sleep(1)
            print(measure_phase(extender, runs, chosen.seconds, lambda: True).line(f"{rate} events a second", calm))
        urllib.request.urlopen(f"{url}/replay?rate=0").close()
        print(measure_phase(extender, runs, 0, listing_again(url, extender)).line("listing all again", calm))
    return 0


if __name__ == "__main__":
    sys.exit(main())
