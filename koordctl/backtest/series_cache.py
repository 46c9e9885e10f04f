"""Folder of downloaded days, so that an interrupted or repeated back-test reads them once.

A file has the hash of everything that a day depends on as its name, and appears by a rename: it is complete or absent.
A file that cannot be read counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from koordctl.backtest.node_day import Name, NodeDay, PodLabels
from koordctl.backtest.time_range import TimeRange
from koordlet.samples import RESOURCES

_VERSION: Final = 2
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


def day_file(folder: Path, content: Mapping[str, Any]) -> Path:
    """Return the file of a day; `content` is what was asked, as JSON values."""
    text = json.dumps({"version": _VERSION, **content}, sort_keys=True)
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()}.npz"


def prepare(folder: Path) -> None:
    """Make the folder, and write to it. Raises OSError where that is not possible."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tempfile.TemporaryFile(dir=folder).close()


def clean(folder: Path) -> None:
    """Remove what a killed process left behind."""
    for part in folder.glob(f"*{_PART}"):
        try:
            if time.time() - part.stat().st_mtime > _OLD_SECONDS:
                part.unlink()
        except OSError:
            continue  # removed by another process


def load(path: Path) -> NodeDay | None:
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
            )
    except (OSError, ValueError, KeyError, msgspec.DecodeError, *_DAMAGED):
        return None
    return day if _fits(day) else None


def save(path: Path, day: NodeDay) -> None:
    """Save a day. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    meta = _Meta(
        day.time_range,
        list(day.pods),
        {str(resource): list(names) for resource, names in day.measured.items()},
        {uid: dict(amounts) for uid, amounts in day.requests.items()},
        dict(day.capacity),
        dict(day.allocatable),
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
