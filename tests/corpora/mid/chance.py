"""Cases of chance, for breadth: each seed makes one history of a node."""

# ruff: noqa: E501, I001  # a case is a line
# fmt: off
from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.corpora.mid.designs import COLOCATION, LEAVING
from tests.corpora.mid.documents import CPU, ENABLED, MEMORY, STATUS, Document, amounts, case, native, node, pod, prod_pod, status, usage

COUNT = 24


def cases() -> Iterator[Document]:
    for seed in range(COUNT):
        yield _history(seed, random.Random(f"mid {seed}"))


def _config(rng: random.Random) -> Document:
    chosen: Document = {"degradeTimeMinutes": rng.choice((1, 2, 3))}
    for key, values in {
        "midUnallocatedPercent": (0, 20, 100), "midReclaimRatioPercent": (40, 100, 100), "midCPUThresholdPercent": (30, 100, 100),
        "midMemoryThresholdPercent": (20, 100, 100), "midMaxIncreasePercent": (5, 30, 100), "midFloor": ("none", "allocated", "allocated"),
        "updateTimeThresholdSeconds": (40, 300), "resourceDiffThreshold": (0.02, 0.1, 0.4),
    }.items():
        if rng.random() < 0.4:
            chosen[key] = rng.choice(values)
    if rng.random() < 0.1:
        chosen |= {"midReclaimMode": "static", "midStaticCPUReservedPercent": rng.randrange(40), "midStaticMemoryReservedPercent": rng.randrange(40)}
    if rng.random() < 0.7:
        chosen["midEviction"] = {
            "mode": rng.choice(("advise", "evict", "evict", "evict")), "reports": rng.choice((1, 2, 3)),
            "nodeIntervalSeconds": rng.choice((10, 20, 45)), "readmitSeconds": rng.choice((0, 30, 60)), "memoryThresholdPercent": rng.choice((50, 70, 90)),
        }
    return ENABLED | {"metricReportIntervalSeconds": 20} | chosen


def _report(rng: random.Random, sample: float) -> Document:
    prod = rng.randrange(0, 10_000), rng.randrange(0, 20_000)
    used = [(rng.randrange(0, 3000), rng.randrange(0, 6000)) for _ in range(4)]
    keys: Document = {"prod": (f"{prod[0]}m", str(prod[1])), "peak": (f"{int(prod[0] * rng.uniform(0.1, 1.1))}m", str(int(prod[1] * rng.uniform(0.1, 1.1)))), "held": "pods", "used": usage(**dict(zip(("prod", "mid", "batchAndFree", "system"), ((f"{cpu}m", memory) for cpu, memory in used), strict=True)))}
    chance = rng.random()
    if chance < 0.08:
        keys["peak"] = None
    elif chance < 0.14:
        keys |= {"prod": None, "prodReclaimableMetric": amounts(f"{rng.randrange(4000)}m", str(rng.randrange(9000)))}
    elif chance < 0.18:
        keys["usage"] = None
    elif chance < 0.21:
        keys["peak"] = ("-1", "1")
    return status(sample, **keys)


def _pod(rng: random.Random, name: str, bound: float) -> Document:
    return pod(
        name, rng.randrange(50, 1500), rng.randrange(50, 3000), namespace=rng.choice(("tenant", "other")), bound=bound,
        priority=rng.choice((7000, 7000, 7000, 7900, 5500)),
    )


def _history(seed: int, rng: random.Random) -> Document:
    steps: list[list[Any]] = []
    running = {f"p{n}": _pod(rng, f"p{n}", -600) for n in range(rng.randrange(6))}
    namespaces = {name: item["metadata"]["namespace"] for name, item in running.items()}
    pods = [*running.values(), *([prod_pod()] if rng.random() < 0.7 else [])]
    at = 1.0
    for number in range(rng.randrange(5, 10)):
        steps.append([at, "report", "n1", _report(rng, at - rng.randrange(1, 8))])
        later = at + rng.randrange(2, 18)
        match rng.randrange(12):
            case 0 | 1:
                name = f"late{number}"
                item = _pod(rng, name, later)
                namespaces[name] = item["metadata"]["namespace"]
                steps.append([later, "add", "pods", item])
            case 2:
                steps.append([later, "end_pods"])
            case 3:
                change = rng.choice(({CPU: None}, {MEMORY: "17"}, {CPU: "5", MEMORY: "5"}))
                steps.append([later, "patch", "nodes", "n1", {"status": {rng.choice(("allocatable", "capacity")): change}}])
            case 4:
                steps.append([later, "restart"])
            case 5:
                steps += [[later, "refuse", "GET", "pods", 500, "InternalError"], [later + 15, "answer", "GET", "pods"]]
            case 6:
                taints = [{"key": rng.choice(LEAVING), "effect": "NoSchedule"}]
                steps += [[later, "patch", "nodes", "n1", {"spec": {"taints": taints}}], [later + 30, "patch", "nodes", "n1", {"spec": {"taints": None}}]]
            case 7:
                steps.append([later, "patch", "nodes", "n1", {"metadata": {"annotations": {STATUS: None}}}])
            case 8:
                text = rng.choice(({"midUnallocatedPercent": 70}, {"enable": False}, "{", None))
                steps.append([later, "patch", "nodes", "n1", {"metadata": {"annotations": {COLOCATION: text}}}])
            case 9:
                steps += [[later, "budget", "tenant", 0], [later + 40, "budget", "tenant", 9]]
            case 10:
                steps += [[later, "config", _config(rng)], [later, "restart"]]
        at += rng.choice((20, 20, 30, 70))
    capacity = native("10", "20k")
    allocatable = rng.choice((capacity, capacity, native("9", "17k")))
    published = rng.choice((None, (2000, 3000)))
    return case(
        f"seed {seed}", _config(rng), nodes=[node(capacity=capacity, allocatable=allocatable, published=published)],
        pods=pods, steps=steps, mayEvict=rng.choice(([""], [""], ["tenant"], [])), seconds=int(at) + rng.choice((10, 70)),
    )
