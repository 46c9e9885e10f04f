"""Measure the longest turn of the manager's event loop: 5,000 nodes, reports of them at once, 200 hostile nodes.

    python -m benchmarks.bench_manager_loop [--nodes 5000] [--hostile 200]

The manager's own assembly runs over a fake apiserver in another process, without kopf. A turn is the CPU time between
two runs of a task that waits for nothing, so a busy machine makes none longer. 30 seconds; no cluster is needed.
The results are in docs/benchmarks/manager-cost.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import multiprocessing
import os
import pathlib
import time
from collections.abc import Callable

import prometheus_client

from apiserver_client import connection, errors, objects, resources, session
from benchmarks import replay_apiserver, synthetic_cluster
from component_base import clock, gauge_rows
from manager import assembly, leader
from manager.cache.store import Availability
from manager.metrics.telemetry import Telemetry
from manager.mid_resource.reasons import Reason
from manager.settings import ManagerSettings
from manager.slo_config import controller
from manager.slo_config.evaluation import State
from tests.fakes import cluster
from tests.manager import hostile_nodes

NAMESPACE = "koordinator-system"
SEED = "seed"
PODS_EACH = 50


def serve(urls) -> None:
    """Serve a fake apiserver with a configuration, and with one node and its report."""

    async def forever() -> None:
        async with cluster.running() as server:
            data = {"colocation-config": json.dumps({"enable": True})}
            server.add("configmaps", {"metadata": {"name": "slo-controller-config"}, "data": data}, NAMESPACE)
            amounts = {"cpu": "10", "memory": "20Gi"}
            server.add("nodes", {"metadata": {"name": SEED}, "status": {"capacity": amounts, "allocatable": amounts}})
            peak = {"resource": {"resources": {"cpu": "2", "memory": "6Gi"}}}
            allocated = {"prod": {"cpu": "8", "memory": "16Gi"}, "mid": {}}
            usage = {"prod": {"cpu": "2", "memory": "6Gi"}, "mid": {}, "batchAndFree": {}, "system": {}}
            time_now = clock.utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
            status = {"updateTime": time_now, "allocated": allocated, "usage": usage, "prodPeakMetric": peak}
            server.add("nodemetrics", {"metadata": {"name": SEED}, "status": status})
            urls.put(server.url)
            await asyncio.sleep(3600)

    asyncio.run(forever())


def rss_mebibytes() -> float:
    gc.collect()
    pages = pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def read_seed(parts: assembly.Components, api: session.Session) -> tuple[dict, dict]:
    """Reconcile the node of the fake apiserver; return its Node and NodeMetric, to which nothing is left to be done."""
    for _ in range(3):
        for resource, known in (
            (resources.NODES, parts.cache.nodes),
            (resources.NODE_METRICS, parts.cache.node_metrics),
        ):
            known.update(known.decode(await objects.get(api, resource, SEED)))
        await parts.reconciler.reconcile(SEED)
        await parts.reconciler.reconcile_node_metric(SEED)
    return await objects.get(api, resources.NODES, SEED), await objects.get(api, resources.NODE_METRICS, SEED)


def copy_of(seed: dict, name: str) -> dict:
    owners = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": name}]
    own = {"name": name, "uid": name, "ownerReferences": owners} if "spec" in seed else {"name": name, "uid": name}
    return seed | {"metadata": seed["metadata"] | own}


class Turns:
    """Longest turn of the loop, in CPU time of this process: other processes of the machine do not count."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            self.longest, last = max(self.longest, now - last), now


async def until_idle(parts: assembly.Components, arrived: Callable[[], bool]) -> None:
    while not arrived() or parts.queue.depth("urgent") + parts.queue.depth("normal") or parts.queue._busy:
        await asyncio.sleep(0.01)


async def measure(
    label: str,
    turns: Turns,
    parts: assembly.Components,
    begin: Callable[[], object],
    arrived: Callable[[], bool] = lambda: True,
) -> None:
    before, rss = time.process_time(), rss_mebibytes()
    await asyncio.sleep(0.05)
    turns.longest = 0.0
    began = time.perf_counter()
    begin()
    await until_idle(parts, arrived)
    print(
        f"| {label} | {turns.longest * 1000:.0f} ms | {time.perf_counter() - began:.1f} s "
        f"| {time.process_time() - before:.1f} s | {rss_mebibytes() - rss:+.0f} MiB |",
        flush=True,
    )


async def measure_reports(
    turns: Turns, parts: assembly.Components, telemetry: Telemetry, seed: tuple[dict, dict], nodes: int
) -> None:
    """List the NodeMetrics of other nodes, then receive a report of each at once; nothing has to be written."""
    node, metric = seed
    names = synthetic_cluster.node_names(nodes)
    for store in (parts.cache.nodes, parts.cache.node_metrics):
        store.replace(())
    for name in names:
        parts.cache.nodes.update(parts.cache.nodes.decode(copy_of(node, name)))
    full = synthetic_cluster.node_metric(SEED, PODS_EACH, 0)["status"] | metric["status"]
    template = json.dumps(copy_of(metric | {"status": full}, replay_apiserver.NAME.decode())).encode()
    arrived = 0

    def seen(_resource: str) -> None:
        nonlocal arrived
        arrived += 1

    with replay_apiserver.running(nodes=nodes, pods_per_node=0, metric=template) as url:
        to = connection.Connection(server=url, origin="the benchmark", namespace=NAMESPACE)
        async with session.connect(to, user_agent="bench/1") as api:
            tasks = []
            _, watch = leader.object_watches(api, parts, seen, leader.Leadership())
            parts.cache.node_metrics_are = Availability.UNREAD
            await measure(
                f"first list of {nodes} NodeMetrics of {PODS_EACH} pods", turns, parts,
                lambda: tasks.append(asyncio.create_task(watch.follow())), lambda: arrived == nodes,
            )  # fmt: skip
            await asyncio.sleep(1)
            at_once = errors.Call("GET", f"/replay?events={nodes}", "get", "replay", "")
            await measure(
                f"{nodes} reports at once", turns, parts,
                lambda: tasks.append(asyncio.create_task(api.send(at_once))), lambda: arrived == 2 * nodes,
            )  # fmt: skip
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def run(url: str, nodes: int, hostile: int) -> None:
    gc.freeze()  # as the program does
    telemetry = Telemetry(prometheus_client.CollectorRegistry(), reasons=[*Reason], states=[*State])
    to = connection.Connection(server=url, origin="the benchmark", namespace=NAMESPACE)
    async with session.connect(to, user_agent="bench/1") as api:
        parts = assembly.Components(api, ManagerSettings(), telemetry, clock=clock.utc_now)
        parts.cache.config_maps.update(await controller.read(api, NAMESPACE, "slo-controller-config"))
        await parts.config.work(controller.ConfigStep.DECIDE)
        node, metric = await read_seed(parts, api)
        names = [f"node-{number:05}" for number in range(nodes)]
        stores = parts.cache
        for name in names:
            stores.nodes.update(stores.nodes.decode(copy_of(node, name)))
            stores.node_metrics.update(stores.node_metrics.decode(copy_of(metric, name)))
        turns = Turns()
        tasks = [asyncio.create_task(each) for each in (parts.queue.run(), parts.spec_queue.run(), turns.run())]

        def mark(every: list[str]) -> None:
            for name in every:
                parts.queue.add(name)

        logging.disable(logging.CRITICAL)
        print("| what | longest turn | in all | CPU | RSS |\n|---|---|---|---|---|")
        await measure(f"{nodes} nodes marked, first time", turns, parts, lambda: mark(names))
        await measure(f"{nodes} nodes marked again", turns, parts, lambda: mark(names))
        hostile_names = [f"hostile-{number}" for number in range(hostile)]
        for number, name in enumerate(hostile_names):
            changed = copy_of(node, name)
            changed["metadata"]["annotations"] = node["metadata"]["annotations"] | {
                hostile_nodes.STRATEGY: hostile_nodes.annotations(number)[hostile_nodes.STRATEGY]
            }
            stores.nodes.update(stores.nodes.decode(changed))
            stores.node_metrics.update(stores.node_metrics.decode(copy_of(metric, name)))
        await measure(f"{hostile} hostile nodes, first time", turns, parts, lambda: mark(hostile_names))
        await measure(f"{hostile} hostile nodes, nothing changed", turns, parts, lambda: mark(hostile_names))
        await measure_reports(turns, parts, telemetry, (node, metric), nodes)
        began = time.process_time()
        page = gauge_rows.page(telemetry.registry)
        print(f"metrics page: {len(page) / 1e6:.2f} MB, {time.process_time() - began:.2f} s of CPU")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--hostile", type=int, default=200)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    urls = context.Queue()
    server = context.Process(target=serve, args=(urls,), daemon=True)
    server.start()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(urls.get(timeout=30), arguments.nodes, arguments.hostile))
    server.terminate()


if __name__ == "__main__":
    main()
