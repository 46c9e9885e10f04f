"""What a package predictor is given, as copies of the agent's models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from koordlet.prediction.allocation import ChargedPod
from koordlet.prediction.buckets import FloatArray
from koordlet.prediction.calibration.node_calibration import NodeCalibration
from koordlet.prediction.packages.protocol import Load, Series
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import ProdLoad
from koordlet.prediction.usage_models import SeriesStatistics, UsageModels
from koordlet.samples import UNRESERVED_SYSTEM, Resource, pod_key


def package_load(
    now_seconds: float,
    load: ProdLoad,
    warm_pods: Sequence[ChargedPod],
    parameters: PredictParameters,
    *,
    models: UsageModels,
    calibration: NodeCalibration,
) -> Load:
    """Return what a package is given for one resource. There must be models of S and of every warm pod."""
    resource = load.resource
    keys = [pod_key(pod.uid) for pod in warm_pods]
    system = [UNRESERVED_SYSTEM]
    if resource is Resource.CPU:
        requests = np.array([pod.cpu_request_millis for pod in warm_pods], float) / 1000
    else:
        requests = np.array([pod.memory_request_bytes for pod in warm_pods], float)
    return Load(
        resource=resource.value,
        now_seconds=now_seconds,
        horizon_seconds=float(parameters.horizon_seconds),
        violation_target_percent=float(parameters.violation_target_percent),
        capacity=load.capacity,
        pod_uids=tuple(pod.uid for pod in warm_pods),
        pods=series(models.statistics(resource, keys), calibration.last_day(resource, keys)),
        pod_requests=read_only(requests),
        pod_limits=read_only(np.broadcast_to(load.warm_limits, len(keys))),
        unreserved_system=series(models.statistics(resource, system), calibration.last_day(resource, system)),
        cold_requests=load.cold_requests,
    )


def series(statistics: SeriesStatistics, ring: FloatArray) -> Series:
    """Return copies of the statistics of some series, and of their day rings, shape (series, 288)."""
    bank, rows = statistics.bank, statistics.rows.copy()

    def percentiles(*percents: float) -> FloatArray:
        return read_only(bank.percentiles(rows, tuple(float(percent) / 100 for percent in percents)))

    return Series(
        mean=read_only(statistics.mean()),
        stdev=read_only(statistics.stdev()),
        newest=read_only(bank.newest_values(rows)),
        ring=read_only(ring),
        percentiles=percentiles,
    )


def read_only(values: FloatArray) -> FloatArray:
    """Return a copy that cannot be written."""
    copied = np.array(values, float)
    copied.flags.writeable = False
    return copied
