"""Table of predictions side by side: CPU in cores, memory in MiB. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from koordlet.prediction.peaks import NoPrediction, Peak
from koordlet.prediction.server import Prediction
from koordlet.samples import RESOURCES, Resource

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
    return [_unit(resource), *(_shown(value, resource) for value in (peak.peak, reclaimable, *terms))]


def _unit(resource: Resource) -> str:
    return "cpu, cores" if resource is Resource.CPU else "memory, MiB"


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
