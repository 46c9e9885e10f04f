"""Samples of the past for a Prometheus of a test, written by Prometheus' own tool into its folder of data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from e2e.thirdparty.prometheus import packages, server
from tools.localcluster.host import commands

_TOOL = "promtool"


class Sample(NamedTuple):
    """One sample of one series."""

    name: str
    labels: Mapping[str, str]
    at: float
    """Seconds since the epoch."""
    value: float


def write(folder: Path, samples: Iterable[Sample]) -> None:
    """Write samples for a Prometheus in `folder` that does not run. Each metric's samples must follow one another."""
    file = folder / "samples.txt"
    lines = [f"{one.name}{_labels(one.labels)} {one.value} {one.at}\n" for one in samples]
    file.write_text("".join([*lines, "# EOF\n"]))
    commands.run([packages.program(_TOOL), "tsdb", "create-blocks-from", "openmetrics", file, folder / server.DATA])


def write_rules(folder: Path, rules: Path, url: str, start: float, end: float) -> None:
    """Write the samples of recording rules, as evaluated by the running Prometheus; it sees them after a restart."""
    times = f"--start={start:.0f}", f"--end={end:.0f}", "--eval-interval=15s"
    into = f"--output-dir={folder / server.DATA}"
    commands.run([packages.program(_TOOL), "tsdb", "create-blocks-from", "rules", *times, f"--url={url}", into, rules])


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items()) + "}"
