"""Build Koordinator's programs from its Go module, which names and pins what they need.

Each build takes minutes: afterwards the program is in the content cache, under the checksum of the module.
"""

from __future__ import annotations

import json
from pathlib import Path

from tools.localcluster import content_cache, go_binaries
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, debian_packages

MODULE, VERSION = "github.com/koordinator-sh/koordinator", "v1.8.0"
CHECKSUM = "h1:CEMaFv6qru+arNhcdhkLP2Shxw77Heb6PSaXjHZ/t0I="
PERFORMANCE_COUNTERS = {"libpfm4-dev": ("/usr/include/perfmon/pfmlib.h",)}
"""Debian package that koordlet's C needs."""


def source() -> Path:
    """Return the folder of the module in Go's cache. Raises ClusterProblem where it is not the pinned one."""
    words = ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    downloaded = json.loads(commands.download(words, environment={"GOFLAGS": ""}, folder=Path("/")))
    if downloaded["Sum"] != CHECKSUM:
        raise ClusterProblem(f"{MODULE}@{VERSION}: seen checksum {downloaded['Sum']}, want {CHECKSUM}")
    return Path(downloaded["Dir"])


def program(name: str) -> Path:
    """Return koord-manager, koord-scheduler, koord-descheduler or koordlet. Raises ClusterProblem."""
    c_tags = "koordlet" if name == "koordlet" else ""

    def build(folder: Path) -> None:
        if c_tags:
            debian_packages.ensure(PERFORMANCE_COUNTERS)
        go_binaries.build_into([f"./cmd/{name}"], "-s -w", source(), folder, c_tags=c_tags)

    return content_cache.folder(f"peers-{name}", content_cache.digest(CHECKSUM, name), build) / name
