"""Measure what the history of workloads costs: memory and CPU of a manager, and of the agent of a full node.

    python -m benchmarks.bench_workload_history [--nodes 15000] [--workloads 50000]

Nothing is measured but the history: the reports themselves, which both handle anyway, are left out.
"""

from __future__ import annotations

import argparse
import math
import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import msgspec
import numpy as np

from api_types.kubernetes.pods import OwnerReference
from api_types.node_metric.workloads import MOST_WORKLOADS, pod_hash
from koordlet.prediction.allocation import Owner as PodOwner
from koordlet.prediction.workloads import NodeWorkloads
from koordlet.samples import RESOURCES, UsageSample
from manager.cache.store import StoredReport
from manager.node_metric.workload_history import history
from manager.node_metric.workload_history.owners import Metadata, Owner, Owners
from manager.node_metric.workload_history.pools import Pools
from manager.node_metric.workload_history.workloads import Workloads
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import StaticCluster, bound_pod

NOW = 1_800_000_000
REPLICA_SETS = 3
"""ReplicaSets of each Deployment, of which one is in use."""
PODS = 30
WORKLOADS_OF_A_NAMESPACE = 50
NODES_OF_A_POOL = 1000
COLD_PODS = 3
"""Of a node: pods that live a day are cold for two hours."""
SAMPLE = 1500
"""Nodes that are measured where each costs the same."""
PODS_OF_A_FULL_NODE, TRAINING_SECONDS = 110, 30
MIB = 2**20
Result = TypeVar("Result")


def measured(name: str, work: Callable[[], Result], per: int, count: int) -> tuple[Result, float]:
    """Print the memory that some work leaves for each of `per`; return the result, and the MiB of `count`."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    result = work()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    bytes_of_one = (after - before) / per
    mib = bytes_of_one * count / MIB
    print(f"{name}: {bytes_of_one:.0f} bytes each, {mib:.1f} MiB", flush=True)
    return result, mib


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of some work."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def replica_sets_of(workloads: int) -> Owners:
    """Return the controllers of some Deployments."""
    owners = Owners()
    for number in range(workloads):
        owners.add("Deployment", Owner(Metadata(f"deployment-{number}")))
        for revision in range(REPLICA_SETS):
            parent = OwnerReference(kind="Deployment", name="web", uid=f"deployment-{number}", controller=True)
            owners.add("ReplicaSet", Owner(Metadata(f"set-{number}-{revision}", [parent])))
    return owners


def report(node: int, workloads: int, hour: int) -> StoredReport:
    """Return the hourly statement of a node, as received."""
    usage = {"mean": 0.2517, "m2": 0.03312, "startPeak": 0.9021, "request": 1.0}
    memory = {"mean": 3.1e8, "m2": 1.2e15, "startPeak": 4.2e8, "request": 1e9, "rise": 1.3e7}
    stated = [
        {
            "namespace": f"namespace-{number // WORKLOADS_OF_A_NAMESPACE}", "kind": "ReplicaSet",
            "uid": f"set-{number}-0", "podHours": 1.0, "cpu": usage, "memory": memory,
        }
        for number in ((node * PODS + pod) % workloads for pod in range(PODS))
    ]  # fmt: skip
    seconds = NOW + hour * 3600 - node % 3600
    return StoredReport(workloads=stated, workloads_time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)))


def manager(nodes: int, count: int) -> None:
    """Print what the manager needs."""
    owners, memory = measured("controllers", lambda: replica_sets_of(count), 1, 1)
    clock = [float(NOW)]
    workloads = Workloads(owners, lambda: clock[0])
    workloads.is_read = True
    taking = math.ceil(count / PODS)  # nodes that state each workload once

    def take(hour: int) -> None:
        for node in range(taking):
            workloads.take(str(node), report(node, count, hour))

    _, entries = measured("entries", lambda: take(0), count, count)
    clock[0] += 3600
    second = [report(node, count, 1) for node in range(taking)]

    def take_again() -> None:
        for node, stated in enumerate(second):
            workloads.take(str(node), stated)

    merging, repeating = (cpu_seconds(take_again) * nodes / taking for _ in range(2))
    cold = msgspec.json.encode([
        {"pod": pod_hash(str(pod)), "namespace": f"namespace-{pod}", "kind": "ReplicaSet",
         "uid": f"set-{pod * WORKLOADS_OF_A_NAMESPACE}-1"} for pod in range(COLD_PODS)
    ])  # fmt: skip
    reading = cpu_seconds(lambda: [workloads.history_of(cold) for _ in range(SAMPLE)]) * nodes / SAMPLE
    texts: list[str] = []
    storing = cpu_seconds(
        lambda: texts.extend(history.to_json(name, one.entries(), NOW) for name, one in workloads.namespaces.items())
    )
    print(f"stored: {sum(map(len, texts)) / len(workloads):.0f} bytes an entry, {sum(map(len, texts)) / MIB:.1f} MiB")
    scores = msgspec.json.encode({
        "updateTime": "2027-01-15T08:00:00Z", "cpu": {"labels": 100, "cells": [[cell, 1.234] for cell in range(100)]},
        "memory": {"labels": 100, "cells": [[cell, 1.234] for cell in range(150)]},
    })  # fmt: skip
    pools = Pools(lambda: clock[0])

    def take_scores() -> None:
        for node in range(SAMPLE):
            pools.take(str(node * NODES_OF_A_POOL // nodes), str(node), bytes(bytearray(scores)))
        pools.renew()

    kept = min(nodes, 100 * math.ceil(nodes / NODES_OF_A_POOL))
    _, of_scores = measured(f"scores of {kept} nodes", take_scores, min(SAMPLE, kept), kept)
    named = nodes * (len(cold) + 33) / MIB
    print(f"cold pods as received: {named:.1f} MiB")
    # an hour: each statement is merged once and seen 60 times, and so are the cold pods; everything is stored once
    hour = merging + 59 * repeating + 60 * reading + storing
    print(
        f"manager: {memory + entries + of_scores + named:.1f} MiB, {100 * hour / 3600:.2f} % of a core (merging "
        f"{merging:.1f} s an hour, {1e6 * merging / (nodes * PODS):.0f} us a workload; reports without news "
        f"{59 * repeating:.1f} s, cold pods {60 * reading:.1f} s, storing {storing:.1f} s)",
        flush=True,
    )


def agent() -> None:
    """Print what the agent of a full node needs, and how large a report with everything gets."""
    pods = [
        bound_pod(f"pod-{number}", cpu_request_millis=100, owner=PodOwner("shop", "ReplicaSet", f"set-{number}-0"))
        for number in range(PODS_OF_A_FULL_NODE)
    ]
    stated = NodeWorkloads()
    usage = dict.fromkeys(RESOURCES, np.full(len(pods), 0.1))
    shown = [(pod, True) for pod in pods]

    def train(hours: int) -> None:
        for step in range(hours * 3600 // TRAINING_SECONDS):
            now = float(NOW + step * TRAINING_SECONDS)
            stated.add(now, shown, usage, longest_gap_seconds=2 * TRAINING_SECONDS)
            if stated.is_due(now):
                stated.state(now, {pod.uid for pod in pods}, {})

    _, of_agent = measured("statement of the agent", lambda: train(1), 1, 1)
    share = cpu_seconds(lambda: train(4)) / (4 * 3600)
    node = FedNode(StaticCluster(*pods), TRAINING_SECONDS)
    values = {pod.uid: UsageSample(0.05, 2.0**26) for pod in pods}
    for _ in node.run(4 * 3600, lambda _: (values, UsageSample(0.1, 2.0**30))):
        pass
    warm = node.report()
    workloads = len(msgspec.json.encode(warm["workloads"]))
    cold = len(msgspec.json.encode([
        {"pod": pod_hash(pod.uid), "namespace": "n" * 63, "kind": "ReplicaSet", "uid": "u" * 36} for pod in pods
    ]))  # fmt: skip
    print(
        f"agent with {len(pods)} pods: {of_agent:.2f} MiB, {100 * share:.3f} % of a core; report of "
        f"{len(msgspec.json.encode(warm)) / 1024:.0f} KiB, of it {workloads / 1024:.0f} KiB for "
        f"{len(warm['workloads'])} workloads (at most {MOST_WORKLOADS}), and {cold / 1024:.0f} KiB if all pods are cold"
    )


def main() -> None:
    """Print what each part costs."""
    parser = argparse.ArgumentParser(description="Cost of the history of workloads.")
    parser.add_argument("--nodes", type=int, default=15_000)
    parser.add_argument("--workloads", type=int, default=50_000)
    arguments = parser.parse_args()
    manager(arguments.nodes, arguments.workloads)
    agent()


if __name__ == "__main__":
    main()
