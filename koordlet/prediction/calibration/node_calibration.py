"""Calibration of both resources of a node: which series have which row, and in which unit they are stored.

Rows belong to S and to the Prod pods that are bound now; the row of a pod that has gone is given to the next one.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import numpy as np

from koordlet.prediction.calibration.history import SLOTS, ScoreHistogram
from koordlet.prediction.calibration.resource_calibration import LONGEST_GAP_SECONDS, Level, Load, ResourceCalibration
from koordlet.prediction.histogram_bank import FloatArray, SeriesRows
from koordlet.samples import RESOURCES, Resource, SeriesKey

_TARGET_DIVISOR: Final[Mapping[Resource, float]] = {Resource.CPU: 1.0, Resource.MEMORY: 2.0}
"""A shortage of memory ends pods, so memory is held to half of the target."""

_OF_EACH: Final = msgspec.Meta(min_length=len(RESOURCES))


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Calibrated peaks of one resource for one load. Amounts are cores or bytes."""

    resource: Resource
    calibration: ResourceCalibration
    load: Load
    unit: float
    prior: FloatArray | None = None
    """Weights of the scores of nodes like this one."""

    @property
    def level(self) -> Level:
        """Return which answer is in force."""
        return self.calibration.level(self.prior)

    def peak(self, n_sigma: float, target_percent: float, margin_factor: float) -> float:
        """Return the peak; `n_sigma` is the answer of n-sigma-v2, `target_percent` the wanted share of violations."""
        share = _target_share(self.resource, target_percent)
        peak = self.calibration.peak(self.load, n_sigma / self.unit, share, margin_factor, prior=self.prior)
        return peak * self.unit


@dataclass(frozen=True, eq=False)
class NodeCalibrationState:
    """Calibrations of a node, for a checkpoint."""

    keys: tuple[SeriesKey, ...]
    units: Annotated[dict[Resource, Annotated[float, msgspec.Meta(ge=1e-9, le=1e30)]], _OF_EACH]
    resources: Annotated[dict[Resource, ResourceCalibration], _OF_EACH]
    """Row i of each belongs to `keys[i]`."""

    def __post_init__(self) -> None:
        """Raise ValueError for what no agent can have stored."""
        possible = [state.is_possible(resource, len(self.keys)) for resource, state in self.resources.items()]
        if len(set(self.keys)) < len(self.keys) or not all(possible):
            raise ValueError("seen a series twice, or impossible values")


class NodeCalibration:
    """Calibrations of all resources, empty until the capacity of the node is known. Not thread-safe."""

    def __init__(self, interval_seconds: float = 0.0) -> None:
        """`interval_seconds` is the time between two ticks, where it may be longer than `LONGEST_GAP_SECONDS`."""
        self._longest_gap_seconds = max(LONGEST_GAP_SECONDS, interval_seconds)
        self.resources: dict[Resource, ResourceCalibration] = {}
        self._units: dict[Resource, float] = {}
        self._rows = SeriesRows()

    def labels(self) -> dict[Resource, int]:
        """Return the number of scores that each resource has seen."""
        return {resource: calibration.scores.labels for resource, calibration in self.resources.items()}

    def tick(
        self,
        now_seconds: float,
        keys: Sequence[SeriesKey],
        usage: Mapping[Resource, FloatArray],
        *,
        capacity: Mapping[Resource, float],
        horizon_seconds: float,
        target_percent: float,
        basis: str = "",
        capped: Collection[Resource] = (),
    ) -> None:
        """Record the newest usage of S, the first of `keys`, and of every bound Prod pod.

        NaN marks a series without a sample; without one of S nothing is recorded, because the total is not known.
        Scores of another horizon or another `basis` are dropped: they belong to other forecasts.
        `capacity` is the unit of everything that is stored, so only that of the first call counts. The usage of
        resources in `capped` was held down: it confirms no forecast for the `target_percent` of violations.
        """
        if not self.resources:
            self._units = dict(capacity)
            self.resources = {
                resource: ResourceCalibration(ScoreHistogram.empty(resource, horizon_seconds, basis))
                for resource in RESOURCES
            }
        bound = set(keys)
        gone = self._rows.release([key for key in self._rows if key not in bound])
        rows = self._rows.take(keys)
        for resource, calibration in self.resources.items():
            calibration.ensure_rows(self._rows.needed)  # readers expect the rows of a series without a sample too
            calibration.clear(gone)
            calibration.follow(horizon_seconds, basis)
            shares = usage[resource] / self._units[resource]
            if np.isnan(shares[0]):
                continue
            measured = np.isfinite(shares)
            calibration.tick(
                now_seconds,
                rows[measured],
                shares[measured],
                target_share=_target_share(resource, target_percent),
                is_capped=resource in capped,
                longest_gap_seconds=self._longest_gap_seconds,
            )

    def begin_again(self, keys: Iterable[SeriesKey]) -> None:
        """Forget the recorded usage of series; the next tick is their first. A forecast under observation goes on."""
        rows = self._rows.numbers([key for key in keys if key in self._rows])
        for calibration in self.resources.values():
            calibration.ring.clear(rows)

    def calibrated(
        self, resource: Resource, keys: Sequence[SeriesKey], load: Load, *, prior: FloatArray | None = None
    ) -> Calibrated | None:
        """Return the peaks of a load in cores or bytes, None before the first tick and for series that it did not know.

        `keys` are the warm series of the load.
        """
        calibration = self.resources.get(resource)
        if calibration is None or any(key not in self._rows for key in keys):
            return None
        unit = self._units[resource]
        return Calibrated(resource, calibration, load.of_rows(self._rows.numbers(keys), unit), unit, prior)

    def scores(self) -> dict[Resource, ScoreHistogram]:
        """Return a copy of the scores of each resource."""
        return {resource: copy.copy(calibration.scores) for resource, calibration in self.resources.items()}

    def rises(self, keys: Sequence[SeriesKey]) -> list[float]:
        """Return the largest rise of memory within one horizon of each series in bytes, 0 for one without a row."""
        if (calibration := self.resources.get(Resource.MEMORY)) is None:
            return [0.0] * len(keys)
        largest = calibration.rises.max(axis=1, initial=0.0).astype(float) * self._units[Resource.MEMORY]
        rows = [int(self._rows.numbers([key])[0]) if key in self._rows else -1 for key in keys]
        return [float(largest[row]) if 0 <= row < len(largest) else 0.0 for row in rows]

    def last_day(self, resource: Resource, keys: Sequence[SeriesKey]) -> FloatArray:
        """Return the largest sample of every 5 minutes of each series in cores or bytes, the current slot first.

        The shape is (series, 288). A slot without a sample is NaN.
        """
        day = np.full((len(keys), SLOTS), np.nan)
        has_row = np.array([key in self._rows for key in keys], bool)
        if (calibration := self.resources.get(resource)) is not None:
            rows = self._rows.numbers([key for key, is_known in zip(keys, has_row, strict=True) if is_known])
            day[has_row] = calibration.ring.newest_first(rows) * self._units[resource]
        return day

    def shift_clock(self, seconds: float) -> None:
        """Follow a step of the wall clock, which ages nothing."""
        for calibration in self.resources.values():
            calibration.shift_clock(seconds)

    def export(self) -> NodeCalibrationState | None:
        """Return a copy of everything that a checkpoint has to store, None before the first tick."""
        if not self.resources:
            return None
        keys = tuple(self._rows)
        rows = self._rows.numbers(keys)
        resources = {resource: calibration.copy(rows) for resource, calibration in self.resources.items()}
        return NodeCalibrationState(keys, dict(self._units), resources)

    def restore(self, state: NodeCalibrationState) -> None:
        """Continue a stored calibration, whose rows are in the order of its keys."""
        self._rows = SeriesRows()
        self._rows.take(state.keys)
        self._units, self.resources = state.units, state.resources


def _target_share(resource: Resource, target_percent: float) -> float:
    """Return the share (0..1) of violations that is wanted of a resource."""
    return target_percent / 100 / _TARGET_DIVISOR[resource]
