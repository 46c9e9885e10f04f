"""Folder of downloaded histories, so that an interrupted back-test resumes.

A file has the hash of everything that the history depends on as its name, and appears by a rename: it is complete or
absent. A file that cannot be read counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from koordctl.backtest.node_history import BoundPod, NodeHistory
from koordctl.backtest.placement import Pod
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import RESOURCES

_VERSION: Final = 1


def path_of(folder: Path, content: Mapping[str, Any]) -> Path:
    """Return the file of a history; `content` is what was asked, as JSON values."""
    text = json.dumps({"version": _VERSION, **content}, sort_keys=True)
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()}.npz"


def load(path: Path) -> NodeHistory | None:
    """Return a saved history, None where there is none."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            meta = json.loads(str(file["meta"]))
            usage = {resource: file[f"usage-{resource}"] for resource in RESOURCES}
            whole = {resource: file[f"node-{resource}"] for resource in RESOURCES} if meta["whole"] else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return NodeHistory(
        meta["name"],
        meta["step_seconds"],
        msgspec.convert(meta["bound"], list[BoundPod]),
        msgspec.convert(meta["stays"], list[Pod]),
        usage,
        whole,
        WholeAmounts(*meta["capacity"]) if meta["capacity"] else None,
        WholeAmounts(*meta["allocatable"]) if meta["allocatable"] else None,
    )


def save(path: Path, node: NodeHistory) -> None:
    """Save a history. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    meta = {
        "name": node.name,
        "step_seconds": node.step_seconds,
        "bound": msgspec.to_builtins(list(node.bound)),
        "stays": msgspec.to_builtins(list(node.stays)),
        "whole": node.node_usage is not None,
        "capacity": node.capacity,
        "allocatable": node.allocatable,
    }
    arrays = {f"usage-{resource}": values for resource, values in node.usage.items()}
    arrays |= {f"node-{resource}": values for resource, values in (node.node_usage or {}).items()}
    number, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(number, "wb") as file:
            np.savez_compressed(file, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
