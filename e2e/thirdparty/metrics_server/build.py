"""metrics-server, built from the Go module `go/`; the first build takes three minutes of CPU."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tools.localcluster import content_cache, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands

MODULE = Path(__file__).parent / "go"
PACKAGE = "sigs.k8s.io/metrics-server/cmd/metrics-server"
BUILD_SECONDS = 3000


def binary() -> Path:
    """Return the path of metrics-server, built on first use. Raises ClusterProblem."""
    key = content_cache.digest(MODULE / "go.mod", MODULE / "go.sum")
    return content_cache.folder("metrics-server", key, _build) / "metrics-server"


def _build(folder: Path) -> None:
    if shutil.which("go") is None:
        raise ClusterProblem("go: no such program on PATH; building metrics-server needs Go 1.24 or newer")
    flags = f"{os.environ.get('GOFLAGS', '')} -mod=readonly".strip()
    with progress.step("building metrics-server"):
        commands.run(
            ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", folder / "metrics-server", PACKAGE],
            environment={"CGO_ENABLED": "0", "GOFLAGS": flags},
            folder=MODULE,
            timeout_seconds=BUILD_SECONDS,
        )
