"""Map the cases of Koordinator's cgroup values and of the requests of a tier to the limiter and api_types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api_types.kubernetes import pods
from api_types.kubernetes import priority_and_qos as pq
from koordlet.cli.limiter import file_values
from koordlet.cli.limiter.input_file import Amounts
from tests.conformance import koordlet_adapters


def _cpu_file(milli: int, name: str) -> int:
    """Return what the limiter writes for a pod; one without amounts is not limited."""
    amounts = Amounts(milli, 0) if milli > 0 else file_values.UNLIMITED
    return next(int(each.value) for each in file_values.cpu_v1(amounts) if each.file == name)


def request_of_tier(case: Mapping[str, Any]) -> dict[str, Any]:
    pod = koordlet_adapters.pod_of(case["pod"])
    name = pq.translated_resource(pq.priority_class(pod), case["resource"])
    requested = pods.requests(pod.spec)
    return {"request": {name: requested[name]} if name in requested else {}}


ADAPTERS = {
    "milli cpu -> cpu.shares": lambda case: {"shares": _cpu_file(case["milli"], "cpu.shares")},
    "milli cpu -> cfs_quota_us (period 100000)": lambda case: {
        "cfs_quota_us": _cpu_file(case["milli"], "cpu.cfs_quota_us")
    },
    "request of a pod in its own tier": request_of_tier,
}
