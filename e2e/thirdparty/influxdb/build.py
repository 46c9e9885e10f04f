"""influxd, built from the Go module `go/`; its query language Flux is Rust, which the module's pkg-config builds.

The first build takes five to thirteen minutes on two cores; afterwards influxd is in the content cache, under the hash
of the module files. The build has a Go cache of its own, which is deleted with it: Flux's Rust library and Go's record
of it are both in that cache, and neither is usable without the other or after an interruption.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tools.localcluster import content_cache, progress
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, debian_packages

MODULE = Path(__file__).parent / "go"
INFLUXD = "github.com/influxdata/influxdb/v2/cmd/influxd"
PKG_CONFIG = "github.com/influxdata/pkg-config"
PACKAGES = {"gcc": ("gcc",), "libc6-dev": ("/usr/include/stdio.h",), "pkg-config": ("pkg-config",)}
TOOLCHAINS = {"go": "Go 1.24 or newer (https://go.dev/dl)", "cargo": "Rust 1.72 or newer (https://rustup.rs)"}

RUSTC_WRAPPER = '#!/bin/sh\nexec "$@" --cap-lints=warn\n'
"""Flux denies warnings, and newer compilers than its own have more of them."""


def binary() -> Path:
    """Return the path of influxd, built on first use. Raises ClusterProblem with what is missing."""
    key = content_cache.digest(MODULE / "go.mod", MODULE / "go.sum", RUSTC_WRAPPER)
    return content_cache.folder("influxd", key, _build) / "influxd"


def _build(folder: Path) -> None:
    for program, wanted in TOOLCHAINS.items():
        if shutil.which(program) is None:
            raise ClusterProblem(f"{program}: no such program on PATH; building influxd needs {wanted}")
    debian_packages.ensure(PACKAGES)
    tools = folder / "tools"
    tools.mkdir()
    (tools / "rustc-warn").write_text(RUSTC_WRAPPER)
    (tools / "rustc-warn").chmod(0o755)
    with progress.step("building pkg-config for Flux"):
        commands.download(["go", "build", "-o", tools / "pkg-config", PKG_CONFIG], environment=_go(), folder=MODULE)
    _build_influxd(folder, tools)
    shutil.rmtree(tools)


def _build_influxd(folder: Path, tools: Path) -> None:
    environment = {
        **_go(),
        "CGO_ENABLED": "1",
        "GOCACHE": str(tools / "go-build"),
        "PKG_CONFIG": str(tools / "pkg-config"),
        "RUSTC_WORKSPACE_WRAPPER": str(tools / "rustc-warn"),
        **_rust_toolchain(),
    }
    flags = f"-s -w -X main.version={_version((MODULE / 'go.mod').read_text())}"
    argv = ["go", "build", "-v", "-trimpath", "-ldflags", flags, "-o", str(folder / "influxd"), INFLUXD]
    log = folder / "build.log"
    with (
        progress.step("building influxd", so_far=lambda: f"({log.read_text().count(chr(10))} lines of its log)"),
        log.open("w") as output,
    ):
        code = subprocess.call(argv, cwd=MODULE, env={**os.environ, **environment}, stdout=output, stderr=output)
    if code != 0:
        raise ClusterProblem(f"`go build` in {MODULE} exit {code}: {commands.last_errors(log.read_text())}")
    log.unlink()


def _go() -> dict[str, str]:
    """Take the modules as they are locked, and no other Go than the one that is there."""
    return {"GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -mod=readonly".strip(), "GOTOOLCHAIN": "local"}


def _rust_toolchain() -> dict[str, str]:
    """Return variables that select rustup's default toolchain: Flux pins another one, which would be downloaded."""
    if shutil.which("rustup") is None:
        return {}
    return {"RUSTUP_TOOLCHAIN": commands.run(["rustup", "show", "active-toolchain"], folder=MODULE).split()[0]}


def _version(go_mod: str) -> str:
    found = re.search(r"^\s*github\.com/influxdata/influxdb/v2 (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise ClusterProblem(f"{MODULE / 'go.mod'}: no version of influxdb/v2; want a line with vX.Y.Z")
    return found.group(1)
