"""Build the programs of other projects from their Go modules, which name and pin what they need.

Each build takes minutes: afterwards the program is in the content cache, under the checksum of its module.
"""

from __future__ import annotations

import json
from pathlib import Path

from tools.localcluster import content_cache, go_binaries
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, debian_packages

KOORDINATOR = ("github.com/koordinator-sh/koordinator@v1.8.0", "h1:CEMaFv6qru+arNhcdhkLP2Shxw77Heb6PSaXjHZ/t0I=")
KUEUE = ("sigs.k8s.io/kueue@v0.19.2", "h1:mPNzr37u0nwI7ikST5QQl5gg6EgtYOAvC9ZbTgywdN8=")
PERFORMANCE_COUNTERS = {"libpfm4-dev": ("/usr/include/perfmon/pfmlib.h",)}
"""Debian package that koordlet's C needs."""


def source(module: tuple[str, str] = KOORDINATOR) -> Path:
    """Return the folder of a module in Go's cache. Raises ClusterProblem where it is not the pinned one."""
    name, checksum = module
    words = ["go", "mod", "download", "-json", name]
    downloaded = json.loads(commands.download(words, environment={"GOFLAGS": ""}, folder=Path("/")))
    if downloaded["Sum"] != checksum:
        raise ClusterProblem(f"{name}: seen checksum {downloaded['Sum']}, want {checksum}")
    return Path(downloaded["Dir"])


def program(name: str) -> Path:
    """Return koord-manager, koord-scheduler, koord-descheduler, koordlet or kueue. Raises ClusterProblem."""
    module = KUEUE if name == "kueue" else KOORDINATOR
    c_tags = "koordlet" if name == "koordlet" else ""

    def build(folder: Path) -> None:
        if c_tags:
            debian_packages.ensure(PERFORMANCE_COUNTERS)
        go_binaries.build_into([f"./cmd/{name}"], "-s -w", source(module), folder, c_tags=c_tags)

    return content_cache.folder(f"peers-{name}", content_cache.digest(module[1], name), build) / name
