"""Calibrated peak of one resource, from its usage of the last day and from how much past forecasts were too low.

    CPU:    P = C + lambda B
    memory: P = max( C + B + lambda (L - C),  C + usage of the warm series + J )
    Peak    = max( usage now, min( C + (P - C) m, L ) )

m is the safety factor. The caller limits the peak to the node's capacity.

J is the largest rise of one warm series within one horizon in the last 7 days. Every horizon one forecast is made that
has no effect; when the horizon has passed, the largest usage of its series gives one score (`scores`). All amounts
are shares of the node's capacity.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import math
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from koordlet.prediction.calibration.history import CALIBRATED_LABELS, MIN_LABELS, DayRing, HalfArray, ScoreHistogram
from koordlet.prediction.histogram_bank import FloatArray, IntArray
from koordlet.samples import Resource

FlagArray = npt.NDArray[np.bool_]
_COLUMNS: Final = ("now", "here", "mask", "begin", "most")
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
    PRIOR = "prior"


class Load(NamedTuple):
    """The warm series, S first, and what is charged for the others."""

    warm_mean: FloatArray
    warm_stdev: FloatArray
    oldest_seconds: float
    """Time of the first record of any warm series."""
    cold: float
    """C."""
    requests: float
    """L: the requests of all pods, and the n-sigma peak of unreserved system usage."""
    most: FloatArray | float = math.inf
    """Of each warm series: what its mean and deviation count at most, infinite unless it is borrowed."""
    rise: float = 0.0
    """Least J: the largest rise of the workloads of borrowed pods."""
    share_of_day: float = 1.0
    """How much of a day is known of the series."""
    warm_rows: IntArray = np.zeros(0, np.intp)

    def of_rows(self, rows: IntArray, unit: float) -> Load:
        """Return the same as shares of the capacity, with the rows of the series."""
        return self._replace(
            warm_mean=self.warm_mean / unit,
            warm_stdev=self.warm_stdev / unit,
            cold=self.cold / unit,
            requests=self.requests / unit,
            most=self.most / unit,
            rise=self.rise / unit,
            warm_rows=rows,
        )


@dataclass(frozen=True, slots=True)
class Watched:
    """A forecast under observation, in shares of capacity."""

    begin_seconds: float
    base: float
    cold: float
    requests: float
    weight: float = 1.0
    """Of its score: the share of a day that its base knows."""


@dataclass(eq=False)
class ResourceCalibration:
    """State of one resource; rows are those of the caller's table of series."""

    scores: ScoreHistogram
    ring: DayRing = field(default_factory=DayRing)
    seconds: float | None = None
    """Time of the newest tick."""
    day_seconds: float = 0.0
    """Begin of the current day of `rises`."""
    rises: HalfArray = field(default_factory=lambda: np.zeros((0, RISE_DAYS), np.float16))
    """Largest rise of each series within one horizon, by day, today first."""
    now: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Usage of each series in the newest tick."""
    here: FlagArray = field(default_factory=lambda: np.zeros(0, bool))
    """Whether each series was measured in the newest tick."""
    mask: FlagArray = field(default_factory=lambda: np.zeros(0, bool))
    """Whether each series counts in the forecast that is tested."""
    begin: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Usage of each series when that forecast was made."""
    most: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Largest usage of each series since then."""
    watched: Watched | None = None
    largest: float = 0.0
    """Largest usage of all series of the forecast together."""
    is_capped: bool = False
    """Whether usage was held down since the forecast was made."""

    def level(self, prior: FloatArray | None = None) -> Level:
        """Return which answer is in force with the labels seen; `prior` are the scores of nodes like this one.

        These are not used where scores began again: those of the others may have been learned as before.
        """
        if prior is not None and self.scores.labels < CALIBRATED_LABELS and not self.scores.has_begun_again:
            return Level.PRIOR
        if self.scores.labels < MIN_LABELS:
            return Level.N_SIGMA
        return Level.LARGER if self.scores.labels < CALIBRATED_LABELS else Level.CALIBRATED

    def ensure_rows(self, count: int) -> None:
        """Make room for at least `count` rows."""
        missing = count - len(self.now)
        if missing <= 0:
            return
        self.ring.ensure_rows(count)
        for name in ("rises", *_COLUMNS):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros((missing, *column.shape[1:]), column.dtype)]))

    def tick(
        self,
        now_seconds: float,
        rows: IntArray,
        shares: FloatArray,
        *,
        target_share: float,
        is_capped: bool = False,
        longest_gap_seconds: float = LONGEST_GAP_SECONDS,
    ) -> None:
        """Record the usage of all series that run; there is room for their `rows`.

        `is_capped`: the usage was held down, and may have been higher without. Then the forecast under observation
        gives a score only if that lowers no peak for `target_share` (0..1).
        """
        was_gap = self.seconds is not None and not 0 <= now_seconds - self.seconds <= longest_gap_seconds
        if was_gap and self.watched is not None:  # it ends without a score; rises that were seen until then count
            self.watched = None
            self._keep_rises()
        self._follow_day(now_seconds)
        self.seconds = now_seconds
        self.here[:] = False
        self.here[rows] = True
        self.now[:] = 0.0
        self.now[rows] = shares
        self.ring.record(now_seconds, rows, shares)
        np.maximum(self.most, self.now, out=self.most)
        if self.watched is not None:
            self.is_capped |= is_capped
            self.largest = max(self.largest, float(self.now[self.mask].sum()))
            if now_seconds - self.watched.begin_seconds >= self.scores.horizon_seconds - _ROUNDING:
                self._close(self.watched, now_seconds, target_share)

    def watch(self, load: Load) -> None:
        """Begin a forecast of the warm series that run now: what is charged for others is no forecast."""
        if self.seconds is None:
            return
        self.watched = Watched(self.seconds, self._base(load), load.cold, load.requests, load.share_of_day)
        self.mask[:] = False
        self.mask[load.warm_rows] = self.here[load.warm_rows]
        self.begin[:] = self.now
        self.most[:] = self.now
        self.largest = 0.0
        self.is_capped = False

    def clear(self, rows: IntArray) -> None:
        """Forget series whose rows are given to others. A forecast that runs counts them as 0 from now on."""
        rows = rows[rows < len(self.now)]
        self.ring.clear(rows)
        self.mask[rows] = self.here[rows] = False
        self.now[rows] = self.begin[rows] = self.most[rows] = 0.0
        self.rises[rows] = 0.0

    def peak(
        self,
        load: Load,
        n_sigma: float,
        target_share: float,
        margin_factor: float = 1.0,
        *,
        prior: FloatArray | None = None,
    ) -> float:
        """Return the peak for a target share (0..1) of violations; `n_sigma` is the answer while few labels exist."""
        usage, level = float(self.now.sum()), self.level(prior)
        if level is Level.N_SIGMA:
            return max(n_sigma, usage)
        scores = self.scores.joined(prior) if prior is not None and level is Level.PRIOR else self.scores
        multiplier, base = scores.multiplier(target_share), self._base(load)
        if self.scores.scale.is_additive:
            rise = max(float(self.rises[load.warm_rows].max(initial=0.0)), load.rise)
            floor = load.cold + float(self.now[load.warm_rows].sum()) + rise
            peak = max(load.cold + base + multiplier * (load.requests - load.cold), floor)
        else:
            peak = load.cold + multiplier * base
        peak = load.cold + (peak - load.cold) * margin_factor
        peak = max(min(peak, load.requests), usage)
        return max(peak, n_sigma) if level is Level.LARGER else peak

    def follow(self, horizon_seconds: float, basis: str) -> None:
        """Forecast for this horizon and on this basis from now on: scores belong to both, rises to the horizon."""
        before = self.scores
        if (horizon_seconds, basis) == (before.horizon_seconds, before.basis):
            return
        self.scores = ScoreHistogram.empty(before.resource, horizon_seconds, basis)
        self.scores.has_begun_again = True
        self.watched = None
        if horizon_seconds != before.horizon_seconds:
            self.rises[:] = 0.0

    def shift_clock(self, seconds: float) -> None:
        """Follow a step of the wall clock, which ages nothing and ends no forecast."""
        self.ring.shift_clock(seconds)
        self.scores.newest_seconds += seconds
        self.day_seconds += seconds
        if self.seconds is not None:
            self.seconds += seconds
        if self.watched is not None:
            self.watched = dataclasses.replace(self.watched, begin_seconds=self.watched.begin_seconds + seconds)

    def copy(self, rows: IntArray) -> ResourceCalibration:
        """Return a copy of the series in `rows`, in their order."""
        self.ensure_rows(int(rows.max(initial=-1)) + 1)
        columns = {name: getattr(self, name)[rows] for name in ("rises", *_COLUMNS)}
        return dataclasses.replace(self, scores=copy.copy(self.scores), ring=self.ring.copy(rows), **columns)

    def is_possible(self, resource: Resource, count: int) -> bool:
        """Return whether it has `count` series of a resource, and only numbers that an agent can have recorded."""
        columns = [getattr(self, name) for name in _COLUMNS]
        watched = () if self.watched is None else dataclasses.astuple(self.watched)
        numbers = np.array([self.seconds or 0.0, self.day_seconds, self.largest, *watched])
        return (
            self.scores.is_possible(resource)
            and self.ring.fits(count)
            and self.rises.shape == (count, RISE_DAYS)
            and all(column.shape == (count,) for column in columns)
            and all(bool(np.isfinite(array).all()) for array in (*columns, self.rises, numbers))
        )

    def _base(self, load: Load) -> float:
        now_seconds = self.seconds or 0.0
        return self.ring.base(
            load.warm_rows, load.warm_mean, load.warm_stdev, load.oldest_seconds, now_seconds, most=load.most
        )

    def _keep_rises(self) -> None:
        still = self.mask & self.here
        today = self.rises[still, 0]
        rise = np.minimum(self.most[still] - self.begin[still], _LARGEST_RISE)
        self.rises[still, 0] = np.maximum(today, rise)

    def _close(self, watched: Watched, now_seconds: float, target_share: float) -> None:
        self.watched = None
        self._keep_rises()
        if watched.cold >= watched.requests / 2:
            return  # mostly a charge of requests, not a forecast
        if self.scores.scale.is_additive:
            score = (self.largest - watched.base) / (watched.requests - watched.cold)
        else:
            score = max(self.largest / watched.base, 0.0)
        if not self.is_capped or self.scores.is_reached_by(score, target_share):
            self.scores.add(score, now_seconds, watched.weight)

    def _follow_day(self, now_seconds: float) -> None:
        days = max(math.floor((now_seconds - self.day_seconds) / _DAY_SECONDS), 0)
        passed = min(days, RISE_DAYS)
        if passed:
            self.rises[:, passed:] = self.rises[:, :-passed].copy()
            self.rises[:, :passed] = 0.0
        self.day_seconds += days * _DAY_SECONDS
