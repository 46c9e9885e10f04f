"""The two sources of a back-test: a folder of traces, and a Prometheus with a cache of days.

A trace is a wide CSV, gzipped or not: a column `t` of seconds, then one for each series. An empty cell is a missing
value, and so is a negative one or `nan`. The unit follows from the largest value of the file, see `TraceUnit`.

A file of the cache has the hash of everything that a day depends on as its name, and appears by a rename: it is
complete or absent. A file that cannot be read counts as absent.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import enum
import gzip
import hashlib
import json
import math
import os
import random
import tempfile
import time
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from koordctl.backtest import churn, cluster_history, node_history, prometheus
from koordctl.backtest.churn import Churn
from koordctl.backtest.cluster_history import Name, Names, NodeDay, NoSeries, PodLabels
from koordctl.backtest.node_history import NodeHistory
from koordctl.backtest.prometheus import CannotRead, Prometheus, RangeDay, Server, TimeRange
from koordlet.prediction.allocation import Owner
from koordlet.samples import RESOURCES, Resource

_LEAST_ROWS = 2
_MOST_MISSING = 20
"""A file with less than one row of so many has a wrong time in it."""


class TraceUnit(enum.StrEnum):
    """Unit of a value: what the largest one is at most, as a share of what the series requests."""

    SHARE = "shares of the request"
    PERCENT = "percent of the request"
    HALF_PERCENT = "half percents of the request"
    OWN_LARGEST = "shares of the largest value of each series"


_LARGEST = {TraceUnit.SHARE: 1.5, TraceUnit.OWN_LARGEST: 10.0, TraceUnit.PERCENT: 100.0, TraceUnit.HALF_PERCENT: 200.0}
_DIVISOR = {TraceUnit.SHARE: 1.0, TraceUnit.PERCENT: 100.0, TraceUnit.HALF_PERCENT: 200.0}


@dataclass(frozen=True, eq=False)
class Traces:
    """Series of one step and one beginning. `shares` is (series, steps), NaN where missing."""

    names: tuple[str, ...]
    step_seconds: int
    shares: np.ndarray
    unit: TraceUnit = TraceUnit.SHARE


def read_trace(path: Path) -> Traces:
    """Return every series of a file that has a value; a row that is missing is a missing value of every series.

    Raises ValueError, with file and line, for a file without values and for cells or times that cannot be used.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            names = next(rows, [])[1:]
            table = [_numbers(path, rows.line_num, row, len(names) + 1) for row in rows if row]
    except (EOFError, UnicodeDecodeError, csv.Error, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: {error}; want a CSV in UTF-8, gzipped where its name ends with .gz") from None
    if len(table) < _LEAST_ROWS or not names:
        raise ValueError(f"{path}: {len(table)} rows of {len(names)} series, want a header and at least {_LEAST_ROWS}")
    cells = np.array(table)
    step_seconds, positions = _evenly(path, cells[:, 0])
    values = np.full((len(names), positions[-1] + 1), np.nan)
    values[:, positions] = cells[:, 1:].T
    values[~np.isfinite(values) | (values < 0)] = np.nan
    used = np.flatnonzero(np.isfinite(values).any(axis=1))
    if not len(used):
        raise ValueError(f"{path}: no series has a value, want usage as numbers that are not negative")
    values = node_history.without_short_gaps(values[used], node_history.SHORT_GAP_SECONDS // step_seconds)
    largest = np.nanmax(values)
    unit = next((unit for unit, limit in _LARGEST.items() if largest <= limit), TraceUnit.OWN_LARGEST)
    own_largest = np.maximum(np.nanmax(values, axis=1, keepdims=True), np.finfo(float).tiny)
    shares = values / (own_largest if unit is TraceUnit.OWN_LARGEST else _DIVISOR[unit])
    return Traces(tuple(names[index] for index in used), step_seconds, shares, unit)


def _numbers(path: Path, line: int, row: list[str], count: int) -> list[float]:
    if len(row) != count:
        raise ValueError(f"{path}, line {line}: {len(row)} cells, want {count} as in the header")
    try:
        return [float(value) if value.strip() else math.nan for value in row]
    except ValueError as error:
        raise ValueError(f"{path}, line {line}: {error}; want numbers, or empty cells for missing values") from None


def _evenly(path: Path, times: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the step of the times in seconds, and the number of steps from the first to each."""
    passed = np.diff(times)
    step = float(passed.min())
    if not step >= 1:  # also for NaN
        raise ValueError(
            f"{path}: times are {np.unique(passed).tolist()[:5]} s apart, want them to grow by whole steps"
        )
    positions = (times - times[0]) / step
    if (positions != np.round(positions)).any() or step != round(step):
        raise ValueError(f"{path}: times are {np.unique(passed).tolist()[:5]} s apart, want multiples of one step")
    if positions[-1] >= _MOST_MISSING * len(times):
        raise ValueError(f"{path}: {len(times)} rows of {positions[-1] + 1:.0f}, want at least one of {_MOST_MISSING}")
    return round(step), positions.astype(int)


_VERSION: Final = 3
_PART: Final = ".part"
_OLD_SECONDS: Final = 3600
_DAMAGED: Final = (EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)
"""What a zip file with changed bytes raises: some of them name another compression, or a password."""


class _Meta(msgspec.Struct):
    """What is not an array."""

    time_range: TimeRange
    pods: list[PodLabels]
    measured: dict[str, list[Name]]
    requests: dict[str, dict[str, float]]
    capacity: dict[str, float]
    allocatable: dict[str, float]
    owners: dict[str, Owner]


def day_file(folder: Path, content: Mapping[str, Any]) -> Path:
    """Return the file of a day; `content` is what was asked, as JSON values."""
    text = json.dumps({"version": _VERSION, **content}, sort_keys=True)
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()}.npz"


def prepare_cache(folder: Path) -> None:
    """Make the folder, and write to it. Raises OSError where that is not possible."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tempfile.TemporaryFile(dir=folder).close()


def clean_cache(folder: Path) -> None:
    """Remove what a killed process left behind."""
    for part in folder.glob(f"*{_PART}"):
        try:
            if time.time() - part.stat().st_mtime > _OLD_SECONDS:
                part.unlink()
        except OSError:
            continue  # removed by another process


def load_day(path: Path) -> NodeDay | None:
    """Return a saved day, None where there is none or the file is damaged."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            meta = msgspec.json.decode(str(file["meta"]), type=_Meta)
            day = NodeDay(
                meta.time_range,
                meta.pods,
                file["is_bound"],
                {resource: meta.measured[resource] for resource in RESOURCES},
                {resource: file[f"usage-{resource}"] for resource in RESOURCES},
                {resource: file[f"node-{resource}"] for resource in RESOURCES},
                meta.requests,
                meta.capacity,
                meta.allocatable,
                meta.owners,
            )
    except (OSError, ValueError, KeyError, msgspec.DecodeError, *_DAMAGED):
        return None
    return day if _fits(day) else None


def save_day(path: Path, day: NodeDay) -> None:
    """Save a day. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    meta = _Meta(
        day.time_range,
        list(day.pods),
        {str(resource): list(names) for resource, names in day.measured.items()},
        {uid: dict(amounts) for uid, amounts in day.requests.items()},
        dict(day.capacity),
        dict(day.allocatable),
        dict(day.owners),
    )
    arrays = {"is_bound": day.is_bound, "meta": np.array(msgspec.json.encode(meta).decode())}
    arrays |= {f"usage-{resource}": values for resource, values in day.usage.items()}
    arrays |= {f"node-{resource}": values for resource, values in day.node_usage.items()}
    number, name = tempfile.mkstemp(dir=path.parent, suffix=_PART)
    try:
        with os.fdopen(number, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _fits(day: NodeDay) -> bool:
    steps = day.time_range.steps
    return day.is_bound.shape == (len(day.pods), steps) and all(
        day.usage[resource].shape == (len(day.measured[resource]), steps) and day.node_usage[resource].shape == (steps,)
        for resource in RESOURCES
    )


@dataclass(frozen=True)
class PrometheusSource:
    """Nodes of a cluster."""

    server: Server
    names: Names
    time_range: TimeRange
    now_seconds: float
    nodes: tuple[str, ...]
    has_owners: bool = False
    cache: Path | None = None
    in_days: bool = True
    """Whether each query reads a day; else all of the time where that can be read, in a fifth of the queries."""

    @property
    def seconds(self) -> int:
        """Length of the history."""
        return self.time_range.steps * self.time_range.step_seconds

    def load(self, node: str) -> NodeHistory:
        """Return a node, of each day from the cache or Prometheus. Raises CannotRead, BadQuery, NoSeries, OSError."""
        whole = [RangeDay(self.time_range, is_complete=False)]
        parts = prometheus.split_days(self.time_range, self.now_seconds) if self.in_days else whole
        with contextlib.closing(Prometheus(self.server)) as client:
            days = (self._day(client, node, day) for day in parts)
            try:
                history = cluster_history.join_days(node, self.time_range, days, self.names.classes)
            except CannotRead:  # such as too much data for one query
                if self.in_days:
                    raise
                return dataclasses.replace(self, in_days=True).load(node)
        if not history.bound:
            raise NoSeries(
                f"node {node}: no pod has usage and requests; do cAdvisor's series have the label "
                f"{self.names.node_label}, and two samples in each --step? else give --node-label, or a longer --step"
            )
        return dataclasses.replace(history, warnings=tuple(sorted(client.warnings)))

    def _day(self, client: Prometheus, node: str, day: RangeDay) -> NodeDay:
        """Return a day. One that is not over, or whose results came with a warning, is not saved."""
        path = self._cache_file(node, day.time_range) if self.cache and day.is_complete else None
        if path and (saved := load_day(path)) is not None:
            return saved
        before = set(client.warnings)
        client.warnings.clear()
        downloaded = cluster_history.read_day(client, self.names, node, day.time_range)
        if path and not client.warnings:
            save_day(path, downloaded)
        client.warnings.update(before)
        return downloaded

    def _cache_file(self, node: str, day: TimeRange) -> Path:
        content = {
            "url": self.server.shown,
            "time_range": list(day),
            "node": node,
            "metrics": dict(self.names.metrics),
            "selector": self.names.selector,
            "node_label": self.names.node_label,
            "rate_seconds": self.names.rate_seconds,
        }
        assert self.cache
        return day_file(self.cache, content)


@dataclass(frozen=True)
class TraceSource:
    """Machines on which the series of one file are placed as pods, from a seed."""

    file: Path
    machines: int
    pods: int
    mean_life_days: float
    seed: int
    steps: int
    step_seconds: int
    churn: Churn
    has_owners: bool = True

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names, in a fixed order."""
        name = self.file.name.partition(".csv")[0]
        return tuple(f"{name}/{number}" for number in range(self.machines))

    @property
    def seconds(self) -> int:
        """Length of the history."""
        return self.steps * self.step_seconds

    def load(self, node: str) -> NodeHistory:
        """Return a machine. Raises ValueError for a file that is no trace."""
        trace = read_trace(self.file)
        requests = node_history.draw_requests(len(trace.names), self.seed)
        rng = random.Random(f"placement {self.seed} {node}")  # noqa: S311  # not a secret
        life_steps = self.mean_life_days * 86_400 / trace.step_seconds
        stays = node_history.place(np.isfinite(trace.shares), self.pods, life_steps, rng)
        ends = random.Random(f"lifetimes {self.seed} {node}")  # noqa: S311  # not a secret
        replaced_at = self.churn.replacements(self.steps, trace.step_seconds, ends)
        pods = churn.cut_at(self.churn.cut(stays, self.steps, trace.step_seconds, ends), replaced_at)
        resource = Resource.MEMORY if "mem" in self.file.name else Resource.CPU
        used = trace.shares * np.array(requests)[:, np.newaxis]
        history = node_history.nodes_of_one_resource(node, pods, used, requests, trace.step_seconds, resource)
        return dataclasses.replace(history, replaced_at=frozenset(replaced_at))


def trace_sources(  # noqa: PLR0917
    folder: Path, machines: int, pods: int, mean_life_days: float, seed: int, churned: Churn
) -> list[TraceSource]:
    """Return a source for each file. Raises ValueError without one, and for a file that is no trace."""
    files = sorted(path for path in folder.iterdir() if path.name.endswith((".csv", ".csv.gz")))
    if not files:
        raise ValueError(f"--traces {folder}: no file ends in .csv or .csv.gz; want a column t and one for each series")
    sources = []
    for file in files:
        trace = read_trace(file)
        count, steps = trace.shares.shape
        slots = min(pods, count - 1)
        if slots < 1:
            raise ValueError(f"--traces {file}: {count} series, want at least 2")
        sources.append(TraceSource(file, machines, slots, mean_life_days, seed, steps, trace.step_seconds, churned))
    return sources


HistorySource = PrometheusSource | TraceSource
"""Nodes with a history, in a fixed order."""
