"""Measure what scrapes of the extender's metrics cost its filter calls.

    python -m benchmarks.bench_scrape [--nodes 15000] [--rounds 5]      # about 5 minutes

Rounds without scrapes, with one a second, and with one after the other take turns. A Prometheus scrapes once in 15 or
30 seconds, so that its effect on p99 is smaller than that of one a second.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import threading
import time
from collections.abc import Iterator

import msgspec

from benchmarks import c_client, extender_process, replay_apiserver, synthetic_cluster

CALLS = 1500
PAUSE_SECONDS = 0.002
SAMPLED = 750
"""Number of nodes in a filter call: kube-scheduler's default sampling of 15,000."""
PAUSES: dict[str, float | None] = {"no scrape": None, "one a second": 1.0, "one after the other": 0.0}


@contextlib.contextmanager
def scrapes(extender: extender_process.Running, pause_seconds: float | None) -> Iterator[list[float]]:
    """Read the metrics in turn, with pauses; yield the list of the seconds that each scrape takes."""
    taken: list[float] = []
    stop = threading.Event()

    def scrape() -> None:
        while not stop.is_set():
            began = time.perf_counter()
            extender.page("/metrics")
            taken.append(time.perf_counter() - began)
            stop.wait(pause_seconds)

    thread = threading.Thread(target=scrape)
    if pause_seconds is not None:
        thread.start()
    try:
        yield taken
    finally:
        stop.set()
        if pause_seconds is not None:
            thread.join()


def requests(names: list[str]) -> list[bytes]:
    """Return filter calls of different pods for a sample of the nodes."""
    found = []
    for index in range(synthetic_cluster.POD_SHAPES):
        start = index * SAMPLED % len(names)
        sample = (names + names)[start : start + min(SAMPLED, len(names))]
        pod = msgspec.json.encode(synthetic_cluster.pod(f"pod-{index}"))
        body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, msgspec.json.encode(sample))
        found.append(c_client.request("filter", body))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=15000, help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    chosen = parser.parse_args()
    calls = requests(synthetic_cluster.node_names(chosen.nodes))
    p99: dict[str, list[float]] = {label: [] for label in PAUSES}
    p50: dict[str, list[float]] = {label: [] for label in PAUSES}
    scrape_seconds: dict[str, list[float]] = {label: [] for label in PAUSES}
    with (
        replay_apiserver.running(nodes=chosen.nodes, pods_per_node=3) as url,
        extender_process.running(url) as extender,
    ):
        extender.until_ready(1800)
        for _round in range(chosen.rounds):
            for label, pause_seconds in PAUSES.items():
                with scrapes(extender, pause_seconds) as taken:
                    found = c_client.seconds_of(
                        extender.port, calls, rounds=CALLS // len(calls), pause_seconds=PAUSE_SECONDS
                    )
                seconds = sorted(each for rounds in found for each in rounds)
                p50[label].append(seconds[len(seconds) // 2])
                p99[label].append(seconds[int(len(seconds) * 0.99)])
                scrape_seconds[label] += taken
    print("| scrapes | filter p50, ms | p99, ms | p99, of a round without scrapes | a scrape, ms |")
    print("|---" * 5 + "|")
    for label in PAUSES:
        share = statistics.median(one / other for one, other in zip(p99[label], p99["no scrape"], strict=True))
        scrape = f"{statistics.median(scrape_seconds[label]) * 1000:.1f}" if scrape_seconds[label] else ""
        middle = (statistics.median(values[label]) * 1000 for values in (p50, p99))
        print(f"| {label} | {next(middle):.2f} | {next(middle):.2f} | {share:.0%} | {scrape} |")
    print(f"{chosen.nodes} nodes, {SAMPLED} in a call, {chosen.rounds} rounds of {CALLS} calls")
    return 0


if __name__ == "__main__":
    sys.exit(main())
