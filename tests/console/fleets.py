"""Fleets of made-up nodes in states that the pages show, for tests, benchmarks and screenshots of the console."""

import datetime as dt
import functools
import random

from api_types.node_metric.evaluation_report import WireEvaluation, WireScores, pack
from console.view import FleetView
from fleet.findings import FleetSnapshot, Installation
from fleet.node_state import Amounts, NodeState
from fleet.wire import WireCondition

NOW = dt.datetime(2026, 11, 21, 10, 0, 30, tzinfo=dt.UTC)
GIB = 2**30
HOSTILE = "\"><img src=x onerror=alert(1)>'javascript:alert(1)//&amp;{{7*7}}"


def node(number, random_of, **changes):
    """Return a node of 16 cores; the first ones are in trouble."""
    allocatable = Amounts(15500, 62 * GIB)
    requests = int(15500 * random_of.uniform(0.55, 0.95))
    prod = int(requests * random_of.uniform(0.15, 0.6))
    peak = min(int(prod * random_of.uniform(1.1, 1.6)), requests)
    mid = int((requests - peak) * 0.9)
    mid_requests = int(mid * random_of.choice([0, 0.4, 0.7, 0.95]))
    mid_used = int(mid_requests * random_of.uniform(0.5, 1))
    system = random_of.randrange(200, 600)
    memory = [
        int(each * GIB) for each in (random_of.uniform(18, 45), random_of.uniform(12, 17), random_of.uniform(0, 4))
    ]
    state = {
        "name": f"worker-{number:04}",
        "allocatable": allocatable,
        "used": Amounts(prod + mid_used + system, sum(memory[1:]) + 2 * GIB),
        "prod_used": Amounts(prod, memory[1]),
        "mid_used": Amounts(mid_used, memory[2]),
        "prod_requests": Amounts(requests, memory[0]),
        "prod_peak": Amounts(peak, memory[1] + 2 * GIB),
        "mid": Amounts(mid, 9 * GIB),
        "mid_requests": Amounts(mid_requests, 5 * GIB),
        "sample": NOW,
        "sample_age_seconds": float(random_of.randrange(2, 58)),
        "reason": "Calculated",
        "status": "True",
        "text": "calculated from the predicted peak of the Prod pods",
        "predictor": "n-sigma-v2",
        "cold_pods": random_of.randrange(4),
        "warm_pods": 25,
        "evaluation": evaluation(random_of),
        "has_report": True,
    }
    trouble = {
        3: {
            "reason": "SampleTooOld",
            "sample_age_seconds": 1290.0,
            "text": "withdrawn: the newest usable sample is too old",
        },
        7: {"reason": "NoPrediction", "text": "kept: the newest report carries no prediction"},
        9: {"used": Amounts(14700, 40 * GIB), "prod_used": Amounts(11200, 30 * GIB)},
        11: {"conditions": (WireCondition("Throttled", "True", "PodsThrottled", "2 Prod pods are throttled"),)},
    }
    return NodeState(**{**state, **trouble.get(number, {}), **changes})


def evaluation(random_of):
    return pack(
        [
            WireEvaluation(name, _scores(random_of, violations, savings), _scores(random_of, violations / 4, 20))
            for name, violations, savings in (
                ("n-sigma-v2", 0.4, 38), ("max", 0.3, 33), ("calibrated", 0.7, 47), ("borg-default", 2.6, 55),
            )
        ]
    )  # fmt: skip


def _scores(random_of, violations, savings):
    return WireScores(
        random_of.uniform(80, 240), max(random_of.gauss(violations, 0.3), 0), min(random_of.gauss(savings, 5), 100)
    )


@functools.cache
def nodes(count):
    random_of = random.Random(7)
    return tuple(node(number, random_of) for number in range(1, count + 1))


def seen(found, **changes):
    """Return what the console has read: the nodes, and an installation without parts."""
    limits, installed = changes.pop("usage_limits", {"cpu": 65}), Installation("koordinator-system")
    snapshot = FleetSnapshot(NOW, "https://prod-eu:6443", tuple(found), installed, usage_limits=limits)
    return FleetView(**{"snapshot": snapshot, "read_seconds": 0.2, **changes})
