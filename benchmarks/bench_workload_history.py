"""Measure what the history of workloads costs a manager: memory of its parts, and CPU of an hour of statements.

    python -m benchmarks.bench_workload_history [--nodes 15000] [--workloads 50000]

Nothing is measured but the history: the reports themselves, which the manager decodes anyway, are left out.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import msgspec

from api_types.node_metric.workloads import pod_hash
from manager.cache.store import StoredReport
from manager.node_metric.workload_history import history
from manager.node_metric.workload_history.owners import Metadata, Owner, Owners, Reference
from manager.node_metric.workload_history.pools import Pools
from manager.node_metric.workload_history.workloads import Workloads

NOW = 1_800_000_000
REPLICA_SETS = 3
"""ReplicaSets of each Deployment, of which one is in use."""
PODS = 30
WORKLOADS_OF_A_NAMESPACE = 50
NODES_OF_A_POOL = 1000
COLD_PODS = 3
"""Of a node: pods that live a day are cold for two hours."""
MIB = 2**20
Result = TypeVar("Result")


def measured(name: str, work: Callable[[], Result], per: int = 1) -> Result:
    """Print the CPU time and the memory of some work."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    result = work()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{name}: {(after - before) / MIB:.1f} MiB, {(after - before) / per:.0f} bytes each")
    return result


def replica_sets_of(workloads: int) -> Owners:
    """Return the controllers of some Deployments."""
    owners = Owners()
    for number in range(workloads):
        owners.add("Deployment", Owner(Metadata(f"deployment-{number}")))
        for revision in range(REPLICA_SETS):
            reference = Reference("Deployment", f"deployment-{number}", True)
            owners.add("ReplicaSet", Owner(Metadata(f"set-{number}-{revision}", [reference])))
    return owners


def report(node: int, nodes: int, workloads: int, hour: int) -> StoredReport:
    """Return the hourly statement of a node, as received."""
    usage = {"mean": 0.2517, "m2": 0.03312, "startPeak": 0.9021, "request": 1.0}
    memory = {"mean": 3.1e8, "m2": 1.2e15, "startPeak": 4.2e8, "request": 1e9, "rise": 1.3e7}
    mine = [(node * PODS + pod) % workloads for pod in range(PODS)]
    stated = [
        {
            "namespace": f"namespace-{number // WORKLOADS_OF_A_NAMESPACE}", "kind": "ReplicaSet",
            "uid": f"set-{number}-0", "podHours": 1.0, "cpu": usage, "memory": memory,
        }
        for number in mine
    ]  # fmt: skip
    return StoredReport(
        workloads=msgspec.Raw(msgspec.json.encode(stated)),
        workloads_time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW + hour * 3600 - node % 3600)),
    )


def main() -> None:
    """Print what each part costs."""
    parser = argparse.ArgumentParser(description="Cost of the history of workloads.")
    parser.add_argument("--nodes", type=int, default=15_000)
    parser.add_argument("--workloads", type=int, default=50_000)
    arguments = parser.parse_args()
    nodes, count = arguments.nodes, arguments.workloads
    owners = measured("controllers", lambda: replica_sets_of(count), per=count * (1 + REPLICA_SETS))
    clock = [float(NOW)]
    workloads = Workloads(owners, lambda: clock[0])
    workloads.is_read = True
    first, second = ([report(node, nodes, count, hour) for node in range(nodes)] for hour in (0, 1))

    def take_statements(stated: list[StoredReport]) -> float:
        begun = time.process_time()
        for node, statement in enumerate(stated):
            workloads.take(str(node), statement)
        return time.process_time() - begun

    measured("entries", lambda: take_statements(first), per=count)
    clock[0] += 3600
    merging, repeating = take_statements(second), take_statements(second)
    cold = msgspec.json.encode([
        {"pod": pod_hash(str(pod)), "namespace": f"namespace-{pod}", "kind": "ReplicaSet",
         "uid": f"set-{pod * WORKLOADS_OF_A_NAMESPACE}-1"} for pod in range(COLD_PODS)
    ])  # fmt: skip
    begun = time.process_time()
    for _ in range(nodes):
        workloads.history_of(cold)
    reading = time.process_time() - begun
    begun = time.process_time()
    texts = [history.to_json(name, namespace.entries(), NOW) for name, namespace in workloads.namespaces.items()]
    storing = time.process_time() - begun
    print(f"stored: {sum(map(len, texts)) / MIB:.1f} MiB, {sum(map(len, texts)) / len(workloads):.0f} bytes an entry")
    scores = msgspec.json.encode({
        "updateTime": "2027-01-15T08:00:00Z", "cpu": {"labels": 100, "cells": [[cell, 1.234] for cell in range(100)]},
        "memory": {"labels": 100, "cells": [[cell, 1.234] for cell in range(150)]},
    })  # fmt: skip
    pools = Pools(lambda: clock[0])

    def take_scores() -> None:
        for node in range(nodes):
            pools.take(str(node // NODES_OF_A_POOL), str(node), bytes(bytearray(scores)))
        pools.renew()

    measured("scores", take_scores, per=nodes)
    print(f"cold pods of all nodes, as received: {nodes * (len(cold) + 33) / MIB:.1f} MiB")
    # an hour: each statement is merged once and seen 60 times, and so are the cold pods; everything is stored once
    hour = merging + 59 * repeating + 60 * reading + storing
    print(
        f"CPU of an hour: merging {merging:.2f} s ({1e6 * merging / (nodes * PODS):.1f} us a workload), "
        f"reports without news {59 * repeating:.2f} s, cold pods {60 * reading:.2f} s, storing {storing:.2f} s: "
        f"{100 * hour / 3600:.2f} % of a core"
    )


if __name__ == "__main__":
    main()
