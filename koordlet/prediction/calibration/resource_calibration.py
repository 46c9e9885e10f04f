"""Calibrated peak of one resource: a ring of usage, the scores of past forecasts, and the forecast under observation.

    CPU:    P = C + lambda B
    memory: P = max( C + B + lambda (L - C),  C + usage of the warm series + J )
    Peak    = max( usage now, min( C + (P - C) m, L ) )

m is the safety factor. The caller limits the peak to the node's capacity.

J is the largest rise of one warm series within one horizon in the last 7 days. Every horizon one forecast is made that
has no effect; when the horizon has passed, the largest usage of its series gives one score (`scores`). All amounts
are shares of the node's capacity.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from koordlet.prediction.buckets import FloatArray, IntArray
from koordlet.prediction.calibration.day_ring import DayRing, HalfArray, RingState
from koordlet.prediction.calibration.scores import MIN_LABELS, Scale, ScoreHistogram, ScoreState

_LARGEST_RISE: Final = float(np.finfo(np.float16).max)
"""Largest share of the capacity that is stored as a rise; only a damaged checkpoint has more."""
LONGEST_GAP_SECONDS: Final = 300.0
"""A forecast that was watched with a longer gap gives no score: its peak may have been missed."""
RISE_DAYS: Final = 7
_DAY_SECONDS: Final = 86_400.0
_ROUNDING: Final = 1e-6


class Level(enum.StrEnum):
    """Which answer is in force."""

    N_SIGMA = "n-sigma-v2"
    LARGER = "max"
    CALIBRATED = "calibrated"


@dataclass(frozen=True, eq=False)
class Load:
    """The warm series and what is charged for the others, as shares of capacity."""

    warm_rows: IntArray
    warm_mean: FloatArray
    warm_stdev: FloatArray
    oldest_seconds: float
    """Time of the first record of the oldest warm series."""
    cold: float
    """C."""
    requests: float
    """L: the requests of all pods, and the n-sigma peak of unreserved system usage."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A forecast under observation, in shares of capacity."""

    begin_seconds: float
    base: float
    cold: float
    requests: float


@dataclass(frozen=True, eq=False)
class CalibrationState:
    """A calibration as plain values, for a checkpoint; arrays have one row for each exported series."""

    seconds: float | None
    """Time of the newest tick."""
    day_seconds: float
    ring: RingState
    rises: HalfArray
    now: FloatArray
    here: npt.NDArray[np.bool_]
    mask: npt.NDArray[np.bool_]
    begin: FloatArray
    most: FloatArray
    watched: Watched | None
    largest: float
    scores: ScoreState
    is_capped: bool
    """Whether usage was held down since `watched` began."""


class ResourceCalibration:
    """State of one resource; rows are those of the caller's table of series."""

    def __init__(self, scale: Scale, horizon_seconds: float, longest_gap_seconds: float = LONGEST_GAP_SECONDS) -> None:
        self.ring = DayRing()
        self.scores = ScoreHistogram(scale, horizon_seconds)
        self._horizon_seconds = horizon_seconds
        self._longest_gap_seconds = longest_gap_seconds
        self._seconds: float | None = None
        self._now = np.zeros(0)
        self._here = np.zeros(0, bool)
        self._mask = np.zeros(0, bool)
        self._begin = np.zeros(0)
        self._most = np.zeros(0)
        self._rises = np.zeros((0, RISE_DAYS), np.float16)
        self._day_seconds = 0.0
        self._watched: Watched | None = None
        self._largest = 0.0
        self._is_capped = False
        """Whether usage was held down since the forecast under observation began."""

    @property
    def level(self) -> Level:
        """Which answer is in force with the labels seen."""
        if self.scores.labels < MIN_LABELS:
            return Level.N_SIGMA
        return Level.LARGER if self.scores.labels < 2 * MIN_LABELS else Level.CALIBRATED

    @property
    def is_watching(self) -> bool:
        """Whether a forecast is under observation; if not, `watch` begins one."""
        return self._watched is not None

    def ensure_rows(self, count: int) -> None:
        """Make room for at least `count` rows."""
        missing = count - len(self._now)
        if missing <= 0:
            return
        self.ring.ensure_rows(count)
        self._now, self._begin, self._most = (
            np.concatenate([each, np.zeros(missing)]) for each in (self._now, self._begin, self._most)
        )
        self._here, self._mask = (np.concatenate([each, np.zeros(missing, bool)]) for each in (self._here, self._mask))
        self._rises = np.concatenate([self._rises, np.zeros((missing, RISE_DAYS), np.float16)])

    def tick(
        self,
        now_seconds: float,
        rows: IntArray,
        shares: FloatArray,
        *,
        target_share: float,
        is_capped: bool = False,
    ) -> None:
        """Record the usage of all series that run; there is room for their `rows`.

        `is_capped`: the usage was held down, and may have been higher without. Then the forecast under observation
        gives a score only if that lowers no peak for `target_share` (0..1).
        """
        if self._seconds is not None and not 0 <= now_seconds - self._seconds <= self._longest_gap_seconds:
            self._drop()
        self._follow_day(now_seconds)
        self._seconds = now_seconds
        self._here[:] = False
        self._here[rows] = True
        self._now[:] = 0.0
        self._now[rows] = shares
        self.ring.record(now_seconds, rows, shares)
        np.maximum(self._most, self._now, out=self._most)
        if self._watched is not None:
            self._is_capped |= is_capped
            self._largest = max(self._largest, float(self._now[self._mask].sum()))
            if now_seconds - self._watched.begin_seconds >= self._horizon_seconds - _ROUNDING:
                self._close(self._watched, now_seconds, target_share)

    def watch(self, load: Load) -> None:
        """Begin a forecast of the series that run now."""
        if self._seconds is None:
            return
        self._watched = Watched(self._seconds, self._base(load), load.cold, load.requests)
        self._mask[:] = self._here
        self._begin[:] = self._now
        self._most[:] = self._now
        self._largest = 0.0
        self._is_capped = False

    def clear(self, rows: IntArray) -> None:
        """Forget series whose rows are given to others. In a forecast they count nothing from now on."""
        rows = rows[rows < len(self._now)]
        self.ring.clear(rows)
        self._mask[rows] = self._here[rows] = False
        self._now[rows] = self._begin[rows] = self._most[rows] = 0.0
        self._rises[rows] = 0.0

    def peak(self, load: Load, n_sigma: float, target_share: float, margin_factor: float = 1.0) -> float:
        """Return the peak for a target share (0..1) of violations; `n_sigma` is the answer while few labels exist."""
        usage = float(self._now.sum())
        if self.level is Level.N_SIGMA:
            return max(n_sigma, usage)
        multiplier, base = self.scores.multiplier(target_share), self._base(load)
        if self.scores.scale.is_additive:
            rise = float(self._rises[load.warm_rows].max(initial=0.0))
            floor = load.cold + float(self._now[load.warm_rows].sum()) + rise
            found = max(load.cold + base + multiplier * (load.requests - load.cold), floor)
        else:
            found = load.cold + multiplier * base
        found = load.cold + (found - load.cold) * margin_factor
        found = max(min(found, load.requests), usage)
        return max(found, n_sigma) if self.level is Level.LARGER else found

    def change_horizon(self, horizon_seconds: float) -> None:
        """Forecast for another horizon from now on: scores and rises belong to the old one."""
        if horizon_seconds == self._horizon_seconds:
            return
        self._horizon_seconds = horizon_seconds
        self.scores = ScoreHistogram(self.scores.scale, horizon_seconds)
        self._watched = None
        self._rises[:] = 0.0

    def shift_clock(self, seconds: float) -> None:
        """Follow a step of the wall clock, which ages nothing and ends no forecast."""
        self.ring.shift_clock(seconds)
        self.scores.shift_clock(seconds)
        self._day_seconds += seconds
        if self._seconds is not None:
            self._seconds += seconds
        if self._watched is not None:
            self._watched = dataclasses.replace(self._watched, begin_seconds=self._watched.begin_seconds + seconds)

    def export(self, rows: IntArray) -> CalibrationState:
        """Return a copy of what a checkpoint has to store of the series in `rows`, in their order."""
        self.ensure_rows(int(rows.max(initial=-1)) + 1)
        return CalibrationState(
            seconds=self._seconds,
            day_seconds=self._day_seconds,
            ring=self.ring.export(rows),
            rises=self._rises[rows],
            now=self._now[rows],
            here=self._here[rows],
            mask=self._mask[rows],
            begin=self._begin[rows],
            most=self._most[rows],
            watched=self._watched,
            largest=self._largest,
            scores=self.scores.export(),
            is_capped=self._is_capped,
        )

    def restore(self, state: CalibrationState, rows: IntArray) -> bool:
        """Load the stored series into `rows` of a new calibration.

        False, and nothing loaded, for another horizon, impossible scores or arrays that do not fit `rows`.
        """
        if not _is_possible(state, len(rows)) or not self.scores.restore(state.scores):
            return False
        self.ensure_rows(int(rows.max(initial=-1)) + 1)
        self.ring.restore(state.ring, rows)
        self._rises[rows], self._now[rows], self._here[rows] = state.rises, state.now, state.here
        self._mask[rows], self._begin[rows], self._most[rows] = state.mask, state.begin, state.most
        self._seconds, self._day_seconds = state.seconds, state.day_seconds
        self._watched, self._largest, self._is_capped = state.watched, state.largest, state.is_capped
        return True

    def _base(self, load: Load) -> float:
        now_seconds = self._seconds or 0.0
        return self.ring.base(load.warm_rows, load.warm_mean, load.warm_stdev, load.oldest_seconds, now_seconds)

    def _drop(self) -> None:
        """End a forecast without a score. Rises that were seen until then count."""
        if self._watched is not None:
            self._watched = None
            self._keep_rises()

    def _keep_rises(self) -> None:
        still = self._mask & self._here
        today = self._rises[still, 0]
        rise = np.minimum(self._most[still] - self._begin[still], _LARGEST_RISE)
        self._rises[still, 0] = np.maximum(today, rise)

    def _close(self, watched: Watched, now_seconds: float, target_share: float) -> None:
        self._watched = None
        self._keep_rises()
        if watched.cold >= watched.requests / 2:
            return  # mostly a charge of requests, not a forecast
        above_cold = self._largest - watched.cold
        if self.scores.scale.is_additive:
            score = (above_cold - watched.base) / (watched.requests - watched.cold)
        else:
            score = max(above_cold / watched.base, 0.0)
        if not self._is_capped or self.scores.is_reached_by(score, target_share):
            self.scores.add(score, now_seconds)

    def _follow_day(self, now_seconds: float) -> None:
        days = max(math.floor((now_seconds - self._day_seconds) / _DAY_SECONDS), 0)
        passed = min(days, RISE_DAYS)
        if passed:
            self._rises[:, passed:] = self._rises[:, :-passed].copy()
            self._rises[:, :passed] = 0.0
        self._day_seconds += days * _DAY_SECONDS


def _is_possible(state: CalibrationState, count: int) -> bool:
    """Whether the arrays hold `count` series and all numbers but those of the ring are finite."""
    columns = (state.now, state.here, state.mask, state.begin, state.most)
    times = (state.seconds or 0.0, state.day_seconds, state.largest)
    watched = () if state.watched is None else dataclasses.astuple(state.watched)
    return (
        state.ring.fits(count)
        and state.rises.shape == (count, RISE_DAYS)
        and all(each.shape == (count,) for each in columns)
        and all(bool(np.isfinite(each).all()) for each in (*columns, state.rises, np.array([*times, *watched])))
    )
