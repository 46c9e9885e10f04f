"""Measure the cost of decision records: the same calls with and without records, in turn.

    python -m benchmarks.bench_decision_records [--nodes 5000] [--calls 400]

Times are the tenth percentile of each kind of call, so that other load on the machine does not count.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np

from api_types.kubernetes import pods
from benchmarks import synthetic_cluster
from scheduler_plugin import assembly
from scheduler_plugin.config import loader
from scheduler_plugin.state.node_report import NodeMetric

STEPS = ("filter", "copy the columns")
SIZES = (500, 5000)
NOW = 1_700_000_000.0


def cluster(names: list[str], record_bytes: int) -> assembly.Parts:
    parts = assembly.Parts(loader.parse({}), record_bytes=record_bytes)
    for name in names:
        parts.cluster.node_changed(msgspec.convert(synthetic_cluster.node(name), pods.Node))
        report = msgspec.json.encode(synthetic_cluster.node_metric(name, 30, NOW))
        parts.cluster.metric_changed(msgspec.json.decode(report, type=NodeMetric))
    return parts


def timed(*steps: Callable[[], object]) -> list[float]:
    microseconds = []
    for step in steps:
        began = time.perf_counter()
        step()
        microseconds.append((time.perf_counter() - began) * 1e6)
    return microseconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--calls", type=int, default=400)
    arguments = parser.parse_args()
    names = synthetic_cluster.node_names(arguments.nodes)
    contenders = {"without records": cluster(names, 0), "with records": cluster(names, 16 * 2**20)}
    gc.freeze()
    print(f"{'us, p10':32}" + "".join(f"{step:>18}" for step in STEPS) + f"{'KiB each':>12}")
    for size in SIZES:
        pod = msgspec.json.encode(synthetic_cluster.pod("measured"))
        body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, msgspec.json.encode(names[:size]))
        found: dict[str, list[list[float]]] = {name: [] for name in contenders}
        for call in range(max(arguments.calls * SIZES[0] // size, 20)):
            turn = list(contenders.items())
            for name, parts in turn if call % 2 else turn[::-1]:
                extender = parts.extender
                found[name].append(timed(partial(extender.filter, body, NOW + 1), parts.records.seal))
        for name, times in found.items():
            row = "".join(f"{value:18.1f}" for value in np.quantile(np.array(times), 0.1, axis=0))
            records = contenders[name].records
            each = records.bytes / 1024 / len(records) if len(records) else 0.0
            print(f"{f'{size} names, {name}':32}{row}{each:12.1f}")


if __name__ == "__main__":
    main()
