"""Decayed models of every series of the node: one histogram bank per resource, sharing row numbers.

A training adds the newest value of each series. The models of pods expire some time after their last sample; those of
the node and the classes never expire. No clock is read: two times are passed in, that of the wall clock, which may be
set, and the seconds since boot, which may not. Their difference is a step of the wall clock, which ages nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Annotated, Final

import msgspec
import numpy as np

from koordlet.prediction import histogram_bank
from koordlet.prediction.histogram_bank import (
    BankState,
    ExponentialBuckets,
    FloatArray,
    HistogramBank,
    IntArray,
    SeriesRows,
)
from koordlet.samples import RESOURCES, Resource, SeriesKey, SeriesKind, UsageSample, pod_key

BUCKETS: Final[Mapping[Resource, ExponentialBuckets]] = {
    Resource.CPU: histogram_bank.CPU_CORES,
    Resource.MEMORY: histogram_bank.MEMORY_BYTES,
}
_POD: Final = SeriesKind.POD  # resolving a member of an enum costs more than the comparison, 500 times a training
POD_EXPIRY_SECONDS: Final = 1800.0  # as in Koordinator's agent
# Four times the pods of the largest supported node: a day of CronJobs leaves as many within the expiry time.
MAX_PODS: Final = 1000
_LARGEST_SHARE: Final = 0.9999
"""Of the weight, below a percentile for which a bound is given."""
_OTHER_SERIES: Final = 16
"""Room for the eight series of node, system and classes."""
TRAINING_INTERVAL_SECONDS: Final = 30.0
# Only the wall clock shows how long an agent was away, and a node may boot in 1970 or in 2038: samples age by a day at
# most, which leaves a quarter of a CPU sample's weight with the default half-life.
_LONGEST_PAUSE_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class TrainingRound:
    """Result of one training."""

    expired_pods: int
    refused_pods: int
    """Number of pods without a model because there are too many; they are charged their requests."""
    unusable_values: int
    """Number of values that are not usage: NaN, infinite or negative."""
    clock_step_seconds: float
    """Step of the wall clock since the training before, by which all times were shifted."""


@dataclass(frozen=True, eq=False)
class ModelsState:
    """All models as plain values, for a checkpoint."""

    keys: Annotated[tuple[SeriesKey, ...], msgspec.Meta(max_length=4096)]
    """At most four times those of the largest supported node."""
    banks: Annotated[Mapping[Resource, BankState], msgspec.Meta(min_length=len(RESOURCES))]
    """Row i belongs to `keys[i]`."""

    def history(self, at_seconds: float) -> Mapping[Resource, float]:
        """Return the weight of all samples of the series that never expire, decayed to a time.

        While the clock is behind the newest sample, because it was set back, that time is that of the newest sample.
        """
        lasting = np.array([key.kind is not _POD for key in self.keys], bool)
        weights = {}
        for resource, bank in self.banks.items():
            newest_seconds = np.fmax.reduce(bank.columns[4], initial=at_seconds)
            half_lives = float(newest_seconds - bank.reference_seconds) / bank.half_life_seconds
            stored = float(np.sum(bank.columns[0, lasting]))
            weights[resource] = stored * 2.0**-half_lives if stored else 0.0
        return weights


@dataclass(frozen=True, slots=True)
class SeriesStatistics:
    """Statistics of some series of one resource, one array element per series, read from the bank on demand."""

    bank: HistogramBank
    rows: IntArray

    def mean(self) -> FloatArray:
        """Return the mean of each series."""
        return self.bank.mean(self.rows)

    def stdev(self) -> FloatArray:
        """Return the population standard deviation of each series."""
        return self.bank.stdev(self.rows)

    def newest(self) -> FloatArray:
        """Return the newest sample of each series, 0 where it has none."""
        return np.nan_to_num(self.bank.newest_values(self.rows))

    def percentiles(self, percents: Sequence[float]) -> FloatArray:
        """Return percentiles (0..100) of the buckets of each series, shape (series, percents)."""
        return self.bank.percentiles(self.rows, tuple(percent / 100 for percent in percents))

    def percentile(self, percent: float) -> FloatArray:
        """Return the percentile (0..100) of each series."""
        percentiles = self.percentiles((percent,))[:, 0]
        is_open = percentiles >= self.bank.buckets.starts[-1]  # the last bucket has no end
        if not is_open.any():
            return percentiles
        share = min(percent / 100, _LARGEST_SHARE)
        # by Cantelli's inequality no percentile is further above the mean
        bound = self.mean() + self.stdev() * math.sqrt(share / (1 - share))
        return np.where(is_open, np.fmax(percentiles, bound), percentiles)


class UsageModels:
    """Models of all series, trained together."""

    def __init__(self, max_pods: int = MAX_PODS, training_interval_seconds: float = TRAINING_INTERVAL_SECONDS) -> None:
        longest_gap = 2 * training_interval_seconds  # one training may be missed
        self.banks = {
            resource: HistogramBank(
                BUCKETS[resource], capacity=max_pods + _OTHER_SERIES, longest_recorded_gap_seconds=longest_gap
            )
            for resource in RESOURCES
        }
        self.trained_seconds: float | None = None
        self._trained_boot_seconds: float | None = None
        self._rows = SeriesRows()
        self._max_pods = max_pods

    def train(
        self,
        now_seconds: float,
        samples: Mapping[SeriesKey, UsageSample],
        half_life_seconds: Mapping[Resource, float],
        boot_seconds: float | None = None,
    ) -> TrainingRound:
        """Add one sample to each series; NaN marks a resource without a sample.

        A new pod without room gets no model. `boot_seconds` is the time
        since boot, suspended time included (CLOCK_BOOTTIME); without it the wall clock is trusted not to be set.
        """
        boot_seconds = now_seconds if boot_seconds is None else boot_seconds
        step_seconds = self._follow_clock(now_seconds, boot_seconds)
        keys = list(samples)
        values = np.fromiter(chain.from_iterable(samples[key] for key in keys), float).reshape(-1, len(RESOURCES))
        usable = np.isfinite(values) & (values >= 0)
        chosen = usable.any(axis=1)
        refused = self._make_room(list(compress(keys, chosen)))
        if refused:
            chosen &= [key not in refused for key in keys]
        rows = self._rows.take(list(compress(keys, chosen)))
        for column, (resource, bank) in enumerate(self.banks.items()):
            if bank.half_life_seconds != half_life_seconds[resource]:
                bank.change_half_life(half_life_seconds[resource], now_seconds)
            bank.ensure_rows(self._rows.needed)
            present = usable[chosen, column]
            bank.add(rows[present], values[chosen, column][present], now_seconds)
        self.trained_seconds, self._trained_boot_seconds = now_seconds, boot_seconds
        unusable = int(np.count_nonzero(~usable))
        return TrainingRound(self._expire(now_seconds), len(refused), unusable, step_seconds)

    def begin_again(self, keys: Iterable[SeriesKey]) -> None:
        """Discard the samples of series whose recorded history begins with the next training."""
        rows = self._rows.numbers([key for key in keys if key in self._rows])
        for bank in self.banks.values():
            bank.clear(rows)

    def forget_samples(self, keys: Iterable[SeriesKey]) -> None:
        """Discard the samples of series, which keep their recorded time."""
        rows = self._rows.numbers(keys)
        for bank in self.banks.values():
            bank.forget_samples(rows)

    def __contains__(self, key: SeriesKey) -> bool:
        return key in self._rows

    def pods(self) -> list[SeriesKey]:
        """Return the pods that have a model."""
        return [key for key in self._rows if key.kind is _POD]

    def statistics(self, resource: Resource, keys: Sequence[SeriesKey]) -> SeriesStatistics:
        """Return the statistics of series. Raises KeyError for a series without a model."""
        return SeriesStatistics(self.banks[resource], self._rows.numbers(keys))

    def first_seconds(self, keys: Sequence[SeriesKey]) -> FloatArray:
        """Return the time since which every resource of each series is recorded; NaN where one never was."""
        rows = self._rows.numbers(keys)
        cpu, memory = (bank.first_seconds(rows) for bank in self.banks.values())
        return np.maximum(cpu, memory)

    def recorded_seconds(self, keys: Sequence[SeriesKey]) -> FloatArray:
        """Return the time in which every resource of each series was recorded."""
        rows = self._rows.numbers(keys)
        cpu, memory = (bank.recorded_seconds(rows) for bank in self.banks.values())
        return np.minimum(cpu, memory)

    def last_seconds(self, keys: Sequence[SeriesKey]) -> FloatArray:
        """Return the time of the newest sample of each series, of either resource."""
        rows = self._rows.numbers(keys)
        cpu, memory = (bank.last_seconds(rows) for bank in self.banks.values())
        return np.fmax(cpu, memory)

    def newest_values(
        self, resource: Resource, keys: Sequence[SeriesKey], *, of_last_training: bool = False
    ) -> FloatArray:
        """Return the newest sample of each series, or that of the last training; NaN for a series without one."""
        has_row = np.array([key in self._rows for key in keys], bool)
        rows, bank = self._rows.numbers(compress(keys, has_row)), self.banks[resource]
        values = np.full(len(keys), np.nan)
        counts = bank.last_seconds(rows) == self.trained_seconds if of_last_training else True
        values[has_row] = np.where(counts, bank.newest_values(rows), np.nan)
        return values

    def export(self) -> ModelsState:
        """Return a copy of everything that a checkpoint has to store."""
        keys = tuple(self._rows)
        rows = self._rows.numbers(keys)
        return ModelsState(keys, {resource: bank.state(rows) for resource, bank in self.banks.items()})

    def restore(self, state: ModelsState) -> None:
        """Load stored models. Raises ValueError if these models were trained before."""
        if len(self._rows):
            raise ValueError(f"cannot restore {len(state.keys)} series into models that have {len(self._rows)} already")
        rows = self._rows.take(state.keys)
        for resource, bank in self.banks.items():
            bank.ensure_rows(self._rows.needed)
            bank.restore(rows, state.banks[resource])
        self.trained_seconds = float(np.fmax.reduce(self.last_seconds(state.keys))) if state.keys else None

    def _follow_clock(self, now_seconds: float, boot_seconds: float) -> float:
        """Shift all samples by a step of the wall clock, so that they keep their age; return the step."""
        if self.trained_seconds is None:
            return 0.0
        passed = now_seconds - self.trained_seconds
        if self._trained_boot_seconds is None:  # restored: by another process, maybe before a boot
            really_passed = min(max(passed, 0.0), _LONGEST_PAUSE_SECONDS)
        else:
            really_passed = boot_seconds - self._trained_boot_seconds
        if passed != really_passed:
            for bank in self.banks.values():
                bank.shift_clock(passed - really_passed)
        return passed - really_passed

    def _make_room(self, keys: Sequence[SeriesKey]) -> frozenset[SeriesKey]:
        """Remove pods that are gone to make room for new ones, the longest gone first; return new ones without room."""
        new = [key for key in self._rows.missing(keys) if key.kind is _POD]
        if not new:
            return frozenset()
        tracked = self.pods()
        excess = max(len(tracked) + len(new) - self._max_pods, 0)
        present = set(keys) if excess else set()
        gone = [key for key in tracked if key not in present] if excess else []
        longest_gone = np.argsort(self.last_seconds(gone), kind="stable")[:excess]
        self._release([gone[index] for index in longest_gone])
        return frozenset(new[len(new) - (excess - len(longest_gone)) :])

    def _expire(self, now_seconds: float) -> int:
        pods = self.pods()
        current = now_seconds - self.last_seconds(pods) <= POD_EXPIRY_SECONDS
        expired = [] if current.all() else [pod for pod, alive in zip(pods, current, strict=True) if not alive]
        self._release(expired)
        return len(expired)

    def _release(self, keys: Sequence[SeriesKey]) -> None:
        rows = self._rows.release(keys)
        for bank in self.banks.values():
            bank.clear(rows)


class PodStarts:
    """UIDs of the pods that do not run, as the newest states of the pods show them.

    The cgroup of a pod exists with its sandbox, long before its image is there or its init containers have ended. Until
    every main container was started once, the pod is cold and records nothing. A pod that crash-loops from its start
    uses next to nothing either: while it is cold, each wait begins its recorded history again. A warm pod keeps its
    history.
    """

    def __init__(self) -> None:
        self.not_started: frozenset[str] = frozenset()
        """Pods of which a main container was never started."""
        self.waiting: frozenset[str] = frozenset()
        """Pods of which a main container waits to be started."""
        self.begun_again: Collection[SeriesKey] = ()
        """Series whose recorded history begins with the newest training."""

    def begin_again(self, models: UsageModels, cold_start_period_seconds: float) -> None:
        """Discard what was recorded of pods that have not started, and of cold pods that wait. Precedes a training."""
        waiting = [key for key in map(pod_key, self.waiting - self.not_started) if key in models]
        is_cold = models.recorded_seconds(waiting) < cold_start_period_seconds
        self.begun_again = [*map(pod_key, self.not_started), *compress(waiting, is_cold)]
        models.begin_again(self.begun_again)
