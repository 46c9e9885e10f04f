"""The `preview` command: the report of this machine, measured here and now, without a cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from api_types.kubernetes import yaml_text
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import NoCluster
from koordlet.node_observer import NodeObserver
from koordlet.prediction.packages import installed
from koordlet.prediction.peaks import NoPrediction, Peak
from koordlet.prediction.predictors import registry
from koordlet.prediction.server import Prediction
from koordlet.report.builder import ReportBuilder
from koordlet.samples import RESOURCES, Resource
from koordlet.settings import KoordletSettings

_HEADER: Final = ("predictor", "resource", "peak", "reclaimable", "class", "pods", "system", "cold requests")
_NONE: Final = "-"


def table(predictions: Mapping[str, Prediction | NoPrediction]) -> str:
    """Return one row for each predictor and resource, or the reason for no prediction. A missing term is a dash."""
    rows: list[Sequence[str]] = [_HEADER]
    for name, prediction in predictions.items():
        if isinstance(prediction, NoPrediction):
            rows.append((name, f"no prediction: {prediction.reason}"))
        else:
            rows += [(name, *_cells(prediction, resource)) for resource in RESOURCES]
    widths = [max(len(row[column]) for row in rows if len(row) == len(_HEADER)) for column in range(len(_HEADER))]
    widths[0] = max(len(row[0]) for row in rows)
    return "".join("  ".join(_aligned(row, widths)).rstrip() + "\n" for row in rows)


def _cells(prediction: Prediction, resource: Resource) -> list[str]:
    peak: Peak = prediction.prod[resource]
    terms = (peak.class_peak, peak.pod_sum_peak, peak.system_peak, peak.cold_requests)
    reclaimable = prediction.prod_reclaimable.in_cores_or_bytes(resource)
    return [
        "cpu, cores" if resource is Resource.CPU else "memory, MiB",
        *(_shown(value, resource) for value in (peak.peak, reclaimable, *terms)),
    ]


def _shown(value: float | None, resource: Resource) -> str:
    if value is None:
        return _NONE
    return f"{value:.3f}" if resource is Resource.CPU else f"{value / 2**20:.1f}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Align words to the left and numbers to the right."""
    return [
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=False))
    ]


LEAST_SECONDS: Final = 3.0
_TRAIN_SECONDS: Final = 30.0


ALL: Final = "all"


def show(settings: KoordletSettings, seconds: float, predictor: str | None) -> int:
    """Observe for `seconds` and print the status as YAML; progress goes to standard error.

    With a predictor, or `ALL` of them, print a table of their predictions in place of the status.
    """
    observer = NodeObserver(
        Path(settings.host_root), settings.max_series, packages=installed.load(settings.node_name or "this machine")
    )
    policy = spec_in_force.predict_policy(None)
    cluster = NoCluster(observer.machine_capacity())
    print(f"measuring {settings.host_root} for {seconds:g} s ...", file=sys.stderr)  # noqa: T201  # progress of a command
    begin = time.monotonic()
    trained = 0
    for tick in range(int(seconds) + 1):
        time.sleep(max(begin + tick - time.monotonic(), 0.0))
        observer.observe(time.time(), cluster)
        due = int((time.monotonic() - begin) / _TRAIN_SECONDS)
        if due > trained:
            observer.train(time.time(), spec_in_force.predict_parameters(policy))
            trained = due
    if not trained:
        observer.train(time.time(), spec_in_force.predict_parameters(policy))
    cluster.capacity = cluster.allocatable = observer.machine_capacity()
    now = time.time()
    reports = ReportBuilder(observer)
    forecast = reports.predict(now, cluster, policy)
    chosen = (
        [*registry.PREDICTORS, *observer.server.packages.by_name]
        if predictor == ALL
        else [predictor]
        if predictor
        else []
    )
    parameters = spec_in_force.predict_parameters(policy)
    predictions = {
        name: observer.server.predict(
            now, cluster.pods.active(), cluster.allocatable, parameters.for_predictor(name), cluster.capacity
        )
        for name in chosen
    }
    observer.collector.close()
    if forecast is None:
        for no_data in observer.no_data:
            print(f"koordlet: {no_data.source} {no_data.path}: {no_data.reason}", file=sys.stderr)  # noqa: T201
        return 1
    if predictions:
        sys.stdout.write(table(predictions))
        return 0
    sys.stdout.write(yaml_text.dump({"status": reports.build(forecast, cluster, None).to_wire()}))
    return 0
