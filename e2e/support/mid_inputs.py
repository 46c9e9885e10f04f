"""Nodes, reports and pods from which two managers calculate Mid resources: CPU in milli-cores, memory in MiB."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

STRATEGY: Final = "node.koordinator.sh/colocation-strategy"
_RAW, _RESERVED = "node.koordinator.sh/raw-allocatable", "node.koordinator.sh/reservation"
_CPU_RATIO: Final = "node.koordinator.sh/mid-static-cpu-reserved-ratio"
_MEMORY_RATIO: Final = "node.koordinator.sh/mid-static-memory-reserved-ratio"

Amounts = tuple[int, int]


@dataclass(frozen=True)
class MidPod:
    """A pod of an input; `mid` is what it requests of the Mid resources."""

    cpu: int = 0
    memory: int = 0
    priority_class: str | None = "koord-prod"
    phase: str = "Running"
    mid: Amounts | None = None
    qos: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MidInput:
    """A node, its report and its pods. None of the report's parts is what the report leaves out."""

    strategy: Mapping[str, Any] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Amounts = (32000, 131072)
    allocatable: Amounts = (30000, 122880)
    usage: Amounts | None = (4000, 16384)
    system: Amounts = (800, 4096)
    reclaimable: Amounts | None = (8000, 32768)
    host_application: Amounts | None = None
    age_seconds: int = 0
    has_status: bool = True
    pods: Sequence[MidPod] = (MidPod(18000, 81920),)


def _share(percent: int, **strategy: object) -> dict[str, object]:
    return {"midUnallocatedPercent": percent, **strategy}


def _cap(percent: float) -> dict[str, object]:
    return {"midCPUThresholdPercent": percent, "midMemoryThresholdPercent": percent}


def _static(cpu: int, memory: int, **strategy: object) -> dict[str, object]:
    shares = {"midStaticCPUReservedPercent": cpu, "midStaticMemoryReservedPercent": memory}
    return {"midReclaimMode": "static", **shares, **strategy}


_ALL: Final = _share(100)
_PROD: Final = MidPod(18000, 81920)
_MID: Final = MidPod(priority_class="koord-mid", mid=(4000, 16384))
_ONE_MINUTE: Final = {"degradeTimeMinutes": 1}


def _with_classes() -> Iterator[tuple[str, MidInput]]:
    """Yield an input for each class and phase of the one pod of a node."""
    for name, pod in {
        "prod-pending": MidPod(18000, 81920, phase="Pending"),
        "prod-succeeded": MidPod(18000, 81920, phase="Succeeded"),
        "prod-unknown-phase": MidPod(18000, 81920, phase="Unknown"),
        "batch-native-request": MidPod(18000, 81920, "koord-batch"),
        "mid-native-request": MidPod(18000, 81920, "koord-mid"),
        "free-native-request": MidPod(18000, 81920, "koord-free"),
        "no-priority-burstable": MidPod(18000, 81920, None),
        "no-priority-besteffort": MidPod(priority_class=None),
        "qos-be-without-priority": MidPod(18000, 81920, None, qos="BE"),
        "overcommitted-prod": MidPod(36000, 140000),
        "init-container": MidPod(4000, 8192, spec={"initContainers": [
            {"name": "i", "image": "x", "resources": {"requests": {"cpu": "12", "memory": "32Gi"}}}]}),
        "overhead": MidPod(4000, 8192, spec={"runtimeClassName": "overhead"}),
        "pod-level-resources": MidPod(4000, 8192, spec={"resources": {"requests": {"cpu": "10", "memory": "20Gi"}}}),
    }.items():  # fmt: skip
        yield name, MidInput(_ALL, pods=[pod])


INPUTS: Final[Mapping[str, MidInput]] = {
    "plain": MidInput(),
    "cap-0": MidInput(_cap(0)),
    "cap-10": MidInput(_cap(10)),
    "cap-20": MidInput(_cap(20)),
    "cap-60-70": MidInput({"midCPUThresholdPercent": 60, "midMemoryThresholdPercent": 70}),
    "cap-150": MidInput(_cap(150)),
    "cap-float": MidInput({"midCPUThresholdPercent": 60.5}),
    "cap-in-another-case": MidInput({"MIDcputhresholdpercent": 10}),
    "share-30": MidInput(_share(30)),
    "share-100": MidInput(_ALL),
    "share-100-cap-60": MidInput(_share(100, **_cap(60))),
    "share-50-cap-10": MidInput(_share(50, **_cap(10))),
    "share-100-without-prediction": MidInput(_ALL, reclaimable=None),
    "without-prediction": MidInput(reclaimable=None),
    "nothing-reclaimable": MidInput(reclaimable=(0, 0)),
    "reclaimable-above-allocatable": MidInput(reclaimable=(60000, 300000)),
    "busy": MidInput(usage=(28000, 118000)),
    "busy-share-100": MidInput(_ALL, usage=(28000, 118000), pods=[MidPod(4000, 8192)]),
    "usage-above-capacity": MidInput(_share(50), usage=(40000, 140000)),
    "no-node-usage": MidInput(usage=None),
    "no-node-usage-share-50": MidInput(_share(50), usage=None),
    "too-old": MidInput(_ONE_MINUTE, age_seconds=90),
    "no-status": MidInput(has_status=False),
    "clock-ahead": MidInput(age_seconds=-3600),
    "static-25-40": MidInput(_static(25, 40)),
    "static-50-cap-33": MidInput(_static(50, 50, **_cap(33))),
    "static-busy": MidInput(_static(25, 40), usage=(31000, 130000)),
    "static-too-old": MidInput(_static(25, 40, **_ONE_MINUTE), age_seconds=90),
    "static-10-share-50": MidInput(_static(10, 10, **_share(50))),
    "static-label-0.29": MidInput({"midReclaimMode": "static"}, labels={_CPU_RATIO: "0.29", _MEMORY_RATIO: "0.29"}),
    "static-label-0.57": MidInput({"midReclaimMode": "static"}, labels={_CPU_RATIO: "0.57", _MEMORY_RATIO: "0.58"}),
    "static-label-1.5": MidInput({"midReclaimMode": "static"}, labels={_CPU_RATIO: "1.5"}),
    "annotation-broken": MidInput(annotations={STRATEGY: "{broken"}),
    "annotation-with-an-unknown-key": MidInput({"midCPUThresholdPercent": 20, "notAKey": 1}),
    "annotation-with-batch-keys": MidInput({"cpuReclaimThresholdPercent": 70, "midCPUThresholdPercent": 20}),
    "off": MidInput({"enable": False}),
    "degrade-null": MidInput({"degradeTimeMinutes": None}),
    "allocatable-is-capacity": MidInput(_ALL, allocatable=(32000, 131072)),
    "reservation-of-resources": MidInput(
        _ALL, annotations={_RESERVED: json.dumps({"resources": {"cpu": "4", "memory": "16Gi"}})}
    ),
    "reservation-of-cpus": MidInput(_ALL, annotations={_RESERVED: json.dumps({"reservedCPUs": "0-5"})}),
    "system-above-the-reservation": MidInput(_ALL, system=(6000, 20000)),
    "host-application": MidInput(_ALL, host_application=(2000, 8192)),
    "raw-allocatable": MidInput(_ALL, annotations={_RAW: json.dumps({"cpu": "20", "memory": "64Gi"})}),
    "amplified": MidInput(
        _ALL, allocatable=(48000, 196608), annotations={_RAW: json.dumps({"cpu": "30", "memory": "120Gi"})}
    ),
    "fractions": MidInput(_share(33, **_cap(33)), reclaimable=(3333, 12345), usage=(9999, 45678)),
    "huge": MidInput(
        _share(10, midCPUThresholdPercent=60, midMemoryThresholdPercent=70), capacity=(512000, 2097152),
        allocatable=(500000, 2000000), usage=(100000, 400000), reclaimable=(200000, 900000),
    ),
    "mid-pods": MidInput(pods=[_PROD, _MID]),
    "mid-pods-above-what-is-calculated": MidInput(reclaimable=(1000, 4096), pods=[_PROD, _MID]),
    "mid-pods-too-old": MidInput(_ONE_MINUTE, age_seconds=90, pods=[_PROD, _MID]),
    "mid-pods-off": MidInput({"enable": False}, pods=[_PROD, _MID]),
    "no-pods": MidInput(_ALL, pods=[]),
    **dict(_with_classes()),
}  # fmt: skip
"""Each input by the name of its node."""
