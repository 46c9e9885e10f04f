"""Measure the cost of each plugin in the extender at 5,000 nodes, and of a refresh of the measurements.

    python -m benchmarks.bench_trimaran [--nodes N] [--rounds N]

CPU time from the bytes of a filter call to those of the prioritize response, without sockets, in one process. Plugins
alternate within each round; before each call one node sends a new report. Target: within 20 % of LoadAwareScheduling.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random
import statistics
import time
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from api_types.kubernetes import pods
from benchmarks import synthetic_cluster
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.plugins.trimaran.feed import MeasurementFeed
from scheduler_plugin.state.node_report import NodeMetric

LOAD_AWARE = "LoadAwareScheduling"
MODEL = {"k0": 100.0, "k1": 20.0, "k2": 0.02}
PODS_PER_NODE = 30
NAMES_SENT = 500
QUIET_SECONDS = 2.0  # longer than any pause between two windows of a refresh


def plugins(names: list[str]) -> dict[str, dict[str, Any]]:
    """Return plugin -> its arguments."""
    return {
        LOAD_AWARE: {},
        "TargetLoadPacking": {},
        "LoadVariationRiskBalancing": {},
        "LowRiskOverCommitment": {},
        "Peaks": {"nodePowerModel": dict.fromkeys(names, MODEL)},
    }


def parts(plugin: str, args: dict[str, Any], names: list[str], now: float) -> assembly.Parts:
    """Build an extender with LoadAwareScheduling as filter and one score plugin."""
    document: dict[str, Any] = {
        "plugins": {
            "filter": {"enabled": [{"name": LOAD_AWARE}]},
            "score": {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]},
        }
    }
    if plugin != LOAD_AWARE:
        document["pluginConfig"] = [{"name": plugin, "args": args}]
    built = assembly.Parts(loader.parse(document))
    for name in names:
        built.cluster.node_changed(msgspec.convert(synthetic_cluster.node(name), pods.Node))
        built.cluster.metric_changed(report(name, now))
        for pod in synthetic_cluster.pods_of(name, PODS_PER_NODE, now - 3600):
            built.cluster.pod_changed(msgspec.convert(pod, pods.Pod), now)
    return built


def report(name: str, now: float) -> NodeMetric:
    """Return a decoded NodeMetric."""
    encoded = msgspec.json.encode(synthetic_cluster.node_metric(name, PODS_PER_NODE, now))
    return msgspec.json.decode(encoded, type=NodeMetric)


async def refresh(built: assembly.Parts, now: float) -> tuple[float, float]:
    """Refresh all windows once and return the CPU seconds until the last row, and the event loop's longest turn."""
    feed = MeasurementFeed(built.provider_specs, built.measurements, built.measured, built.cluster, lambda: now)
    (plugin,) = built.measured
    first = seen = plugin.columns.version
    began, longest = time.process_time(), 0.0
    spent, written_at = 0.0, time.monotonic()
    task = asyncio.create_task(feed.run(None, CollectorRegistry(), 3600))  # type: ignore[arg-type]
    while seen == first or time.monotonic() - written_at < QUIET_SECONDS:
        turn = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - turn)
        if plugin.columns.version != seen:
            seen, spent, written_at = plugin.columns.version, time.process_time() - began, time.monotonic()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return spent, longest


def call(built: assembly.Parts, head: bytes, names: list[str], now: float) -> float:
    """Return the CPU seconds of filter and prioritize for one pod; the second call has the names that passed."""
    filtering = head + msgspec.json.encode(names) + b"}"
    began = time.process_time()
    response = built.extender.filter(filtering, now)
    spent = time.process_time() - began
    scoring = head + msgspec.json.encode(msgspec.json.decode(response)["NodeNames"]) + b"}"
    began = time.process_time()
    built.extender.prioritize(scoring, now)
    return spent + time.process_time() - began


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    logging.disable()  # the synthetic deviations are impossibly large
    now = time.time()
    names = synthetic_cluster.node_names(given.nodes)
    built = {}
    refreshes = {}
    for plugin, args in plugins(names).items():
        print(f"filling {given.nodes} nodes for {plugin} ...", flush=True)
        built[plugin] = parts(plugin, args, names, now)
        gc.collect()
        gc.freeze()  # as the process does once its caches are synced
        if built[plugin].provider_specs:
            refreshes[plugin] = asyncio.run(refresh(built[plugin], now))
    seconds: dict[str, list[float]] = {plugin: [] for plugin in built}
    seed = random.Random(1)
    for index in range(given.rounds):
        head = b'{"Pod":%b,"Nodes":null,"NodeNames":' % msgspec.json.encode(synthetic_cluster.pod(f"pod-{index}"))
        sent = seed.sample(names, min(NAMES_SENT, len(names)))
        changed = report(seed.choice(names), now)
        for plugin, own in built.items():
            own.cluster.metric_changed(changed)
            seconds[plugin].append(call(own, head, sent, now))
    print(f"\n{given.nodes} nodes of {PODS_PER_NODE} pods, {NAMES_SENT} names a call, {given.rounds} rounds\n")
    print(f"{'plugin':<30}{'p50 us':>10}{'p99 us':>10}{'x LoadAware':>13}{'refresh s':>11}{'longest turn ms':>17}")
    floor = statistics.median(seconds[LOAD_AWARE])
    for plugin, own in seconds.items():
        middle, worst = statistics.median(own), statistics.quantiles(own, n=100)[98]
        refreshed = f"{refreshes[plugin][0]:>11.2f}{refreshes[plugin][1] * 1e3:>17.1f}" if plugin in refreshes else ""
        print(f"{plugin:<30}{middle * 1e6:>10.0f}{worst * 1e6:>10.0f}{middle / floor:>13.2f}{refreshed}")


if __name__ == "__main__":
    main()
