"""Run the agent as a process: `python -m koordlet run` against an apiserver on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from asyncio import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "131072",
    "NUMPY_MADVISE_HUGEPAGE": "0",
}
"""Environment that the chart sets for the container of the agent."""


@dataclass(frozen=True)
class Usage:
    """CPU time of a process since its start, and its present memory and threads, from the kernel."""

    cpu_seconds: float
    rss_bytes: int
    anonymous_bytes: int
    threads: int


def kubeconfig(path: Path, server: str) -> Path:
    """Write a kubeconfig for a server without authentication."""
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(document))
    return path


def usage(pid: int) -> Usage:
    """Read the counters of a process from the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = {name: int(size) << 10 for name, size in re.findall(r"^(Rss|Anonymous): +(\d+) kB", rollup, re.MULTILINE)}
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), sizes["Rss"], sizes["Anonymous"], int(fields[17]))


@contextlib.asynccontextmanager
async def running(
    *arguments: str, environment: Mapping[str, str] = CHART_ENVIRONMENT, python: Sequence[str] = ()
) -> AsyncIterator[subprocess.Process]:
    """Run the agent with these arguments after `run`; it is killed at the end. `python` are interpreter flags.

    Its log is on standard error, a pipe.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, *python, "-m", "koordlet", "run", *arguments,
        env={**os.environ, **environment}, stderr=subprocess.PIPE, limit=1 << 20,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
