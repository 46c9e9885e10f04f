"""Reports of load as an agent writes them: of the moment, by percentile, by Prod pods, predicted."""

from __future__ import annotations

import datetime as dt
from typing import Any

from e2e.support import fake_reports
from e2e.support.fake_fleet import CPU_MILLIS, MEMORY_MIB

MEMORY_PERCENT = 20
WINDOW = "5m0s"


def load(
    *,
    cpu_percent: float,
    p95_percent: float | None = None,
    predicted_percent: float | None = None,
    prod_percent: float | None = None,
    prod_pod: tuple[str, str] | None = None,
    age: dt.timedelta = dt.timedelta(0),
) -> dict[str, Any]:
    """A status with CPU in percent of what a fake node can allocate.

    p95 is over 5 minutes; `predicted` is the peak of the whole node; `prod` is the usage of one Prod pod, `prod_pod`
    (namespace and name). `age` is that of the sample.
    """
    usage: dict[str, Any] = {"nodeUsage": {"resources": _resources(cpu_percent)}}
    if p95_percent is not None:
        statistics = {"p50": {"resources": _resources(cpu_percent)}, "p95": {"resources": _resources(p95_percent)}}
        usage["aggregatedNodeUsages"] = [{"duration": WINDOW, "usage": statistics}]
    status: dict[str, Any] = {"updateTime": fake_reports.now(ahead=-age), "nodeMetric": usage}
    if prod_pod is not None and prod_percent is not None:
        namespace, name = prod_pod
        of_pod = {"resources": _resources(prod_percent, memory_percent=1)}
        status["podsMetric"] = [{"namespace": namespace, "name": name, "priority": "koord-prod", "podUsage": of_pod}]
    if predicted_percent is not None:
        status["prediction"] = _prediction(_resources(predicted_percent), status["updateTime"])
    return status


def _prediction(peak: dict[str, str], time: str) -> dict[str, Any]:
    """That everything on the node together peaks there; nothing is said of the Prod pods."""
    nothing = {"cpu": "0", "memory": "0"}
    return {
        "predictor": "n-sigma-v2",
        "parameters": {},
        "time": time,
        "warmPods": 0,
        "coldPods": 0,
        "node": {"mean": peak, "stdev": nothing, "peak": peak},
        "prod": {"peak": nothing},
    }


def _resources(cpu_percent: float, memory_percent: float = MEMORY_PERCENT) -> dict[str, str]:
    return {
        "cpu": f"{round(CPU_MILLIS * cpu_percent / 100)}m",
        "memory": f"{round(MEMORY_MIB * memory_percent / 100)}Mi",
    }
